"""The layer by itself: three layers in one training loop, and their speed beside nn.Linear."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.data import HIDDEN, indian_pines
from benchmarks.harness import Times, Way, interleave
from benchmarks.peers import factorized_linear, torch_loop
from polyad import RankRClassifier, RankRLinear, RankRNet
from polyad.fitting.modes import start_from_data
from polyad.fitting.problem import Problem

Shape = tuple[int, ...]
BATCHES = (1, 64, 1024)
SHAPES: tuple[tuple[Shape, int], ...] = (((8, 8), 64), ((5, 5, 200), 75), ((16, 16, 32), 128))
LEAST = 0.02  # seconds of a round


def dense(shape: Shape, hidden: int = HIDDEN) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), hidden))


LAYERS: dict[str, Callable[[Shape], nn.Module]] = {
    "`RankRLinear`, rank 1": lambda shape: RankRLinear(shape, HIDDEN, 1),
    "TensorLy-Torch `FactorizedLinear`, CP": factorized_linear("reconstructed"),
    "`nn.Linear`": dense,
}
# Each leaves out one thing more than the one before
ESTIMATORS: dict[str, dict[str, Any]] = {
    "`RankRClassifier(1)` with tanh": {},
    "the same with `standardize=-1`: bands not whitened": {"standardize": -1},
    "and with `weight_decay=0`: no penalty": {"standardize": -1, "weight_decay": 0.0},
    'and with `start="unit-variance"`: no start from the data': {
        "standardize": -1,
        "weight_decay": 0.0,
        "start": "unit-variance",
    },
}


@torch.no_grad()
def equal_start(layer: nn.Module, x: Tensor) -> None:
    """Scale a layer as it was drawn: outputs have deviation one and no bias."""
    _bias(layer).zero_()
    weight = next(p for p in layer.parameters() if p.ndim > 1)  # outputs are linear in each
    weight /= layer(x).std()


@torch.no_grad()
def start_of_ours(layer: nn.Module, x: Tensor) -> None:
    """Give a layer the weights that our solver starts with; all three then compute the same."""
    network = RankRNet(x.shape[1:], HIDDEN, 2, 1)
    problem = Problem(x, torch.zeros(len(x), 2), torch.ones(len(x)), "log")
    start_from_data(network, problem, torch.Generator().manual_seed(torch.initial_seed()))
    _bias(layer).zero_()
    if isinstance(layer, RankRLinear):
        layer.load_state_dict(network.hidden.state_dict())
        return
    inner = layer[1]
    if isinstance(inner, nn.Linear):
        inner.weight.copy_(network.hidden.to_dense().weight)
        return
    inner.weight.weights.fill_(1.0)
    units, *modes = inner.weight.factors  # a term for each unit
    units.copy_(torch.eye(HIDDEN))
    for mode, factor in zip(modes, network.hidden.factors, strict=True):
        mode.copy_(factor[:, 0].T)


def _bias(layer: nn.Module) -> Tensor:
    return next(p for name, p in layer.named_parameters() if name.endswith("bias"))


STARTS = {"random": equal_start, "from the data": start_of_ours}


def control(seeds: int) -> list[dict[str, Any]]:
    """Return accuracy by seed of three layers in one loop, and of our estimator."""
    rows: list[dict[str, Any]] = [
        *({"name": name, "start": None, "accuracy": []} for name in ESTIMATORS),
        *({"name": name, "start": s, "accuracy": []} for s in STARTS for name in LAYERS),
    ]
    for seed in range(seeds):
        task = indian_pines(seed)
        models = [
            RankRClassifier(1, HIDDEN, activation="tanh", random_state=seed, **options).fit(
                task.X, task.y
            )
            for options in ESTIMATORS.values()
        ]
        for start in STARTS.values():
            models += [torch_loop(make, seed, start)(task, None) for make in LAYERS.values()]
        X, y = task.watched
        for row, model in zip(rows, models, strict=True):
            row["accuracy"].append(float(np.mean(model.predict(X) == y)))
    return rows


def layers(rounds: int) -> dict[str, Any]:
    """Time `RankRLinear` beside nn.Linear, and both beside FactorizedLinear of its issue 35."""
    torch.manual_seed(0)
    cases = [_case(shape, hidden, n, rounds) for shape, hidden in SHAPES for n in BATCHES]
    return {"cases": cases, "issue 35": _issue(rounds)}


def _case(shape: Shape, hidden: int, n: int, rounds: int) -> dict[str, Any]:
    x = torch.randn(n, *shape)
    made = {"nn.Linear": dense(shape, hidden), "RankRLinear": RankRLinear(shape, hidden, 1)}
    inference = {name: _inference(layer, x) for name, layer in made.items()}
    training = {f"{name}, training": _training(layer, x) for name, layer in made.items()}
    times = interleave(inference | training, rounds, least=LEAST)
    return {
        "shape": shape,
        "hidden": hidden,
        "n": n,
        "dense": times["nn.Linear"].median,
        "dense, training": times["nn.Linear, training"].median,
        "over dense": vars(times["RankRLinear"].over(times["nn.Linear"])),
        "over dense, training": vars(
            times["RankRLinear, training"].over(times["nn.Linear, training"])
        ),
    }


def _issue(rounds: int) -> dict[str, Any]:
    """Time the layers of https://github.com/tensorly/torch/issues/35: 4 x 16 to 4 x 10."""
    from tltorch import FactorizedLinear

    x, linear = torch.randn(4, 16), nn.Linear(16, 10)
    tucker = {
        f"FactorizedLinear, Tucker, {implementation}": FactorizedLinear.from_linear(
            linear,
            auto_tensorize=False,
            in_tensorized_features=(4, 4),
            out_tensorized_features=(2, 5),
            rank=0.1,
            factorization="tucker",
            implementation=implementation,
        )
        for implementation in ("reconstructed", "factorized")
    }
    ways = {name: _inference(layer, x) for name, layer in {"nn.Linear": linear, **tucker}.items()}
    ways["RankRLinear, rank 1"] = _inference(RankRLinear((4, 4), 10, 1), x.reshape(4, 4, 4))
    times: dict[str, Times] = interleave(ways, rounds, least=LEAST)
    return {
        name: {"seconds": t.median, "over dense": vars(t.over(times["nn.Linear"]))}
        for name, t in times.items()
    }


def _inference(layer: nn.Module, x: Tensor) -> Way:
    @torch.no_grad()
    def run() -> object:
        return layer(x)

    return run


def _training(layer: nn.Module, x: Tensor) -> Way:
    def run() -> None:
        layer.zero_grad()
        layer(x).sum().backward()

    return run
