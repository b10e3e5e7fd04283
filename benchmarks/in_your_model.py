"""The layer and the estimators inside other people's tools: what was tried, and what came of it.

python -m benchmarks.in_your_model   # prints and writes the table of docs/in-your-model.md

A tool that is not installed is left out with a note. Each row runs something small and checks its
numbers; a row that fails shows the error.
"""

from __future__ import annotations

import copy
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from benchmarks.harness import RESULTS, fill, table
from polyad import RankRClassifier, RankRLinear, RankRNet

SHAPE = (5, 5, 12)


def data(n: int = 64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, *SHAPE, generator=generator)
    return x, (x[:, 2, 2, :4].sum(dim=1) > 0).long()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(RankRLinear(SHAPE, 16, rank=2), nn.Tanh(), nn.Linear(16, 2))


def trained(model: nn.Module, steps: int = 30) -> float:
    """Train a little; return by how much the loss fell."""
    x, y = data()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0] - losses[-1]


def fell(model: nn.Module) -> str:
    gain = trained(model)
    assert gain > 0.1, gain
    return f"trains: the loss falls by {gain:.2f} in 30 steps"


def mixed_precision() -> str:
    x, _ = data()
    model = network()
    with torch.autocast("cpu", torch.bfloat16):
        low = model(x)
    assert low.dtype == torch.bfloat16
    return f"bfloat16 out, {float((low - model(x)).abs().max()):.0e} from single precision"


def several_processes() -> str:
    """DistributedDataParallel on two processes gives the gradient of the whole batch."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_ddp, args=(folder,), nprocs=2)
        gradients = torch.load(Path(folder) / "gradients.pt")
    model, (x, y) = network(), data()
    nn.functional.cross_entropy(model(x), y).backward()
    for one, other in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-4, atol=1e-6)
    return "two processes: the gradient of the whole batch"


def _ddp(rank: int, folder: str) -> None:
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(network())
    x, y = (part.chunk(2)[rank] for part in data())
    nn.functional.cross_entropy(model(x), y).backward()
    if rank == 0:
        torch.save([p.grad for p in model.parameters()], Path(folder) / "gradients.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def weight_norm() -> str:
    model = network()
    parametrizations.weight_norm(model[0].factors, "0", dim=0)
    return fell(model) + "; `weight_norm(layer.factors, '0')`"


class Positive(nn.Module):
    def forward(self, raw: Tensor) -> Tensor:
        return nn.functional.softplus(raw)


def parametrized() -> str:
    model = network()
    parametrize.register_parametrization(model[0].factors, "2", Positive())
    told = fell(model)
    assert bool((model[0].factors[2] > 0).all())
    return told + "; factors stay positive"


class Masked(nn.Module):
    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, raw: Tensor) -> Tensor:
        return raw * self.mask


def pruned() -> str:
    """Prune by a mask of one's own."""
    model = network()
    factor = model[0].factors[2].detach()
    mask = factor.abs() > factor.abs().median()
    parametrize.register_parametrization(model[0].factors, "2", Masked(mask))
    told = fell(model)
    share = float((model[0].factors[2] == 0).float().mean())
    assert 0.45 < share < 0.55
    return told + f"; {share:.0%} of a factor stays zero, by a mask as parametrization"


def pruned_by_torch() -> str:
    model = network()
    prune.l1_unstructured(model[0].factors, "2", amount=0.5)
    return fell(model)


def quantized() -> str:
    model = network().eval()
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, torch.qint8)
    kept = type(small[0]).__name__
    x, _ = data()
    gap = float((small(x) - model(x)).abs().max())
    return f"`nn.Linear` becomes int8, {kept} stays as it is (output {gap:.0e} off); see below"


def vectorized() -> str:
    nets = [network() for _ in range(3)]
    params, buffers = torch.func.stack_module_state(nets)
    base = copy.deepcopy(nets[0]).to("meta")
    x, _ = data()
    out = torch.func.vmap(
        lambda p, b: torch.func.functional_call(base, (p, b), (x,)), randomness="error"
    )(params, buffers)
    torch.testing.assert_close(out[1], nets[1](x))
    return "three networks in one call, equal to each"


def lightning() -> str:
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.02)

    x, y = data()
    module, loader = Module(), torch.utils.data.DataLoader([*zip(x, y, strict=True)], 16)
    before = nn.functional.cross_entropy(module.model(x), y).item()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    L.Trainer(max_epochs=8, accelerator="cpu", enable_model_summary=False, **quiet).fit(
        module, loader
    )
    after = nn.functional.cross_entropy(module.model(x), y).item()
    assert after < before - 0.1
    return f"trains: the loss falls by {before - after:.2f} in 8 epochs"


def skorch() -> str:
    from sklearn.model_selection import cross_val_score
    from skorch import NeuralNetClassifier

    x, y = (part.numpy() for part in data(600))
    torch.manual_seed(0)
    net = NeuralNetClassifier(
        RankRNet,
        module__in_shape=SHAPE,
        module__hidden=16,
        module__n_outputs=2,
        module__rank=2,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.02,
        max_epochs=30,
        train_split=None,
        verbose=0,
    )
    accuracy = cross_val_score(net, x, y, cv=3).mean()
    assert accuracy > 0.7, accuracy
    return f"`RankRNet` in cross_val_score: accuracy {accuracy:.2f}"


def optuna() -> str:
    import optuna as tuner

    tuner.logging.set_verbosity(tuner.logging.ERROR)
    x, y = (part.numpy() for part in data(200))

    def held_out(trial: tuner.Trial) -> float:
        rank = trial.suggest_int("rank", 1, 3)
        model = RankRClassifier(rank, hidden=10, epochs=30, random_state=0)
        return float(model.fit(x[:120], y[:120]).score(x[120:], y[120:]))

    study = tuner.create_study(direction="maximize", sampler=tuner.samplers.TPESampler(seed=0))
    study.optimize(held_out, n_trials=5)
    return f"five trials over the rank, best accuracy {study.best_value:.2f}"


def hub_mixin() -> str:
    from huggingface_hub import PyTorchModelHubMixin

    class Hosted(RankRNet, PyTorchModelHubMixin):
        pass

    model = Hosted(in_shape=SHAPE, hidden=8, n_outputs=2, rank=1)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = Hosted.from_pretrained(folder)
    x, _ = data()
    torch.testing.assert_close(again(x), model(x))
    return "saved to and loaded from a folder, equal outputs (no upload was tried)"


def skops_file() -> str:
    import skops.io

    x, y = (part.numpy() for part in data(100))
    model = RankRClassifier(hidden=8, epochs=10, random_state=0).fit(x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.skops"
        skops.io.dump(model, path)
        asked = skops.io.get_untrusted_types(file=path)
        again = skops.io.load(path, trusted=asked)
    assert np.array_equal(again.predict_proba(x), model.predict_proba(x))
    return f"equal predictions; to be trusted: {', '.join(f'`{name}`' for name in asked)}"


ROWS: dict[str, tuple[Callable[[], str], str]] = {
    "plain training": (lambda: fell(network()), "torch"),
    "`torch.autocast` (AMP)": (mixed_precision, "torch"),
    "DistributedDataParallel": (several_processes, "torch"),
    "`torch.func.vmap` over networks": (vectorized, "torch"),
    "`parametrize`": (parametrized, "torch"),
    "weight norm": (weight_norm, "torch"),
    "pruning by a mask": (pruned, "torch"),
    "`torch.nn.utils.prune`": (pruned_by_torch, "torch"),
    "dynamic quantization": (quantized, "torch"),
    "Lightning": (lightning, "lightning"),
    "skorch": (skorch, "skorch"),
    "Optuna": (optuna, "optuna"),
    "Hub mixin": (hub_mixin, "huggingface-hub"),
    "skops": (skops_file, "skops"),
}


def row(name: str) -> list[str]:
    """Return a row of the table: tool, version, result."""
    run, package = ROWS[name]
    try:
        return [name, f"{package} {version(package)}", run()]
    except ModuleNotFoundError as error:
        return [name, "", f"not tried: {error.name} is not installed"]
    except Exception as error:  # whatever it is, it is the row's result
        line = (str(error).strip().splitlines() or [""])[0]
        result = f"fails: {type(error).__name__}: {line[:100]}"
        return [name, f"{package} {version(package)}", result]


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = table(["tool", "version", "result"], [row(name) for name in ROWS])
    print(found)
    fill(RESULTS / "in-your-model.md", {"tools": found})


if __name__ == "__main__":
    main()
