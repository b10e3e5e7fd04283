"""What compiles and exports the layer, and whether it computes the layer's numbers afterwards.

python -m benchmarks.tracing   # prints a table; takes some minutes

Every way is tried on layers of several orders and ranks, with batches of 1, 3, 64 and 1000 samples
after one tracing; where there are gradients, they are compared too. Needs a C++ compiler for the
rows of inductor, and onnx, onnxscript and onnxruntime for the rows of ONNX.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, export

from polyad import RankRLinear, RankRNet

BATCHES = (64, 3, 1000, 1)
LAYERS = {
    "order 1, rank 2": ((30,), 2),
    "order 2, rank 3": ((8, 16), 3),
    "order 3, rank 1": ((5, 5, 40), 1),
    "order 3, rank 2": ((5, 5, 40), 2),
    "order 4, rank 4": ((3, 4, 5, 6), 4),
}
Module = Callable[[Tensor], Tensor]


def compiled(**options: Any) -> Callable[[nn.Module, Tensor], Module]:
    def make(module: nn.Module, _: Tensor) -> Module:
        torch.compiler.reset()
        return torch.compile(module, **options)

    return make


def exported(strict: bool) -> Callable[[nn.Module, Tensor], Module]:
    def make(module: nn.Module, x: Tensor) -> Module:
        return export(module, (x,), dynamic_shapes=({0: Dim.DYNAMIC},), strict=strict).module()

    return make


def packaged(module: nn.Module, x: Tensor) -> Module:
    """AOTInductor: a package of machine code that runs without Python, loaded again."""
    program = export(module.eval(), (x,), dynamic_shapes=({0: Dim("n", min=1, max=4096)},))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "layer.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        return torch._inductor.aoti_load_package(path)


def in_onnxruntime(module: nn.Module, x: Tensor) -> Module:
    import onnxruntime

    made = torch.onnx.export(
        module.eval(), (x,), dynamo=True, dynamic_shapes=({0: Dim.DYNAMIC},), verbose=False
    )
    session = onnxruntime.InferenceSession(made.model_proto.SerializeToString())
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.detach().numpy()})[0])


WAYS: dict[str, tuple[Callable[[nn.Module, Tensor], Module], bool]] = {
    "torch.compile": (compiled(), True),
    "torch.compile(fullgraph=True)": (compiled(fullgraph=True), True),
    "torch.compile(fullgraph=True, dynamic=True)": (compiled(fullgraph=True, dynamic=True), True),
    "torch.export, strict": (exported(True), True),
    "torch.export, not strict": (exported(False), True),
    "AOTInductor package": (packaged, False),
    "torch.onnx.export(dynamo=True)": (in_onnxruntime, False),
    "torch.fx.symbolic_trace": (lambda module, _: torch.fx.symbolic_trace(module), True),
}


def modules() -> Iterator[tuple[str, nn.Module, tuple[int, ...]]]:
    for name, (shape, rank) in LAYERS.items():
        torch.manual_seed(0)
        yield name, RankRLinear(shape, 16, rank), shape
    yield "RankRNet", RankRNet((5, 5, 40), 75, 16, 1), (5, 5, 40)


def largest_difference(traced: Module, module: nn.Module, x: Tensor, gradients: bool) -> float:
    """Return the largest difference to eager, of outputs and gradients, by their own size."""
    both = []
    for run in (traced, module):
        sample = x.clone().requires_grad_(gradients)
        y = run(sample)
        wanted = [sample, *module.parameters()]
        grads = torch.autograd.grad(y.square().mean(), wanted) if gradients else ()
        both.append([y.detach(), *grads])
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*both, strict=True))


def try_way(name: str) -> tuple[str, float, float]:
    """Return result in words, the largest difference and the seconds it took for all modules."""
    make, gradients = WAYS[name]
    worst, started = 0.0, time.perf_counter()
    for label, module, shape in modules():
        module.train(gradients)
        try:
            traced = make(module, torch.randn(5, *shape))
            for n in BATCHES:
                x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(n))
                worst = max(worst, largest_difference(traced, module, x, gradients))
        except Exception as error:  # whatever it is, it is the row's result
            line = (str(error).strip().splitlines() or [""])[0][:70]
            return f"fails: {label}: {type(error).__name__}: {line}", worst, 0.0
    return "equal" if worst < 1e-4 else "differs", worst, time.perf_counter() - started


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"torch {torch.__version__}; batches of {', '.join(map(str, sorted(BATCHES)))}\n")
    print("| way | gradients too | result | largest difference | seconds |")
    print("|---|---|---|---|---|")
    for name, (_, gradients) in WAYS.items():
        result, worst, seconds = try_way(name)
        print(
            f"| `{name}` | {'yes' if gradients else 'no'} | {result} | {worst:.1e} "
            f"| {seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
