"""How time and memory grow with pixels, bands, rank, hidden units and samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

from benchmarks.data import made_classifier, made_scene
from benchmarks.harness import Way, interleave, peak_bytes
from polyad.core.network import RankRNet
from polyad.fitting import alternating as solver
from polyad.fitting.alternating import Steps
from polyad.fitting.joint import AdamState, FlatWeights, adam_step, written_gradient
from polyad.fitting.problem import Problem
from polyad.scene.map.mapping import map_scene

matplotlib.use("Agg")

WINDOW, CLASSES = 5, 9
BASE = {"pixels": 128, "bands": 100, "rank": 1, "hidden": 64, "samples": 256}  # pixels: a side
SWEEPS: dict[str, tuple[int, ...]] = {
    "pixels": (32, 64, 128, 256, 512),
    "bands": (25, 50, 100, 200, 400),
    "rank": (1, 2, 4, 8),
    "hidden": (16, 32, 64, 128, 256),
    "samples": (64, 128, 256, 512, 1024),
}
# What the formulas say for large values: the power of each size in time
WAYS: dict[str, tuple[str, ...]] = {
    "pixels": ("map",),
    "bands": ("map", "joint step", "alternating epoch"),
    "rank": ("map", "joint step", "alternating epoch"),
    "hidden": ("map", "joint step", "alternating epoch"),
    "samples": ("joint step", "alternating epoch"),
}

NAMES = {
    "pixels": "pixels of the scene",
    "bands": "bands",
    "rank": "rank R",
    "hidden": "hidden units Q",
    "samples": "training samples",
}
STYLES = {  # told apart without color too
    "map": ("#4477AA", "o"),
    "joint step": ("#EE7733", "s"),
    "alternating epoch": ("#117733", "^"),
}


def growth(rounds: int) -> dict[str, Any]:
    """Sweep one size at a time, the others at their base values."""
    return {name: [_point(name, value, rounds) for value in SWEEPS[name]] for name in SWEEPS}


def _point(name: str, value: int, rounds: int) -> dict[str, Any]:
    sizes = BASE | {name: value}
    ways = {way: MAKERS[way](sizes) for way in WAYS[name]}
    times = interleave(ways, rounds, least=0.02)
    shown = value**2 if name == "pixels" else value
    return {
        "value": shown,
        "seconds": {way: t.least for way, t in times.items()},
        "bytes": {way: peak_bytes(lambda way=way: MAKERS[way](sizes)()) for way in ways},
    }


def _map(sizes: dict[str, int]) -> Way:
    scene = made_scene(sizes["pixels"], sizes["pixels"], sizes["bands"])
    model = made_classifier(sizes["bands"], CLASSES, sizes["rank"], sizes["hidden"])
    return lambda: map_scene(model, scene)


def _problem(sizes: dict[str, int]) -> tuple[Problem, RankRNet]:
    generator = torch.Generator().manual_seed(0)
    shape = (WINDOW, WINDOW, sizes["bands"])
    x = torch.randn(sizes["samples"], *shape, generator=generator)
    codes = torch.arange(len(x)) % CLASSES
    target = torch.nn.functional.one_hot(codes, CLASSES).float()
    network = RankRNet(shape, sizes["hidden"], CLASSES, sizes["rank"], generator=generator)
    return Problem(x, target, torch.ones(len(x)), "log"), network


def _joint(sizes: dict[str, int]) -> Way:
    problem, network = _problem(sizes)
    weights = FlatWeights.of(network)
    state = AdamState.like(weights.values)

    @torch.no_grad()
    def step() -> None:
        written_gradient(network, weights, problem)
        adam_step(weights, state, 1e-3, 0.1)

    return step


def _alternating(sizes: dict[str, int]) -> Way:
    problem, network = _problem(sizes)
    return solver._CpuSweep(network, problem, Steps())


MAKERS: dict[str, Callable[[dict[str, int]], Way]] = {
    "map": _map,
    "joint step": _joint,
    "alternating epoch": _alternating,
}


def slopes(points: list[dict[str, Any]]) -> dict[str, float]:
    """Return the power by which each way's time grows over the upper half of the sweep."""
    upper = points[len(points) // 2 - 1 :]
    x = np.log([p["value"] for p in upper])
    return {
        way: float(np.polyfit(x, np.log([p["seconds"][way] for p in upper]), 1)[0])
        for way in points[0]["seconds"]
    }


def picture(name: str, points: list[dict[str, Any]], path: Path) -> None:
    """Draw time and memory against one size, with a line of slope one to compare."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    x = np.array([p["value"] for p in points], float)
    for way in points[0]["seconds"]:
        color, marker = STYLES[way]
        style: dict[str, Any] = {"color": color, "marker": marker, "label": way}
        seconds = np.array([p["seconds"][way] for p in points])
        left.plot(x, seconds, **style)
        left.plot(x, seconds[-1] * x / x[-1], ":", color=color, linewidth=1)
        used = [p["bytes"][way] for p in points]
        if all(used):
            right.plot(x, np.array(used) / 1e6, **style)
    for axis, unit in ((left, "time, seconds"), (right, "largest memory with the data, MB")):
        axis.set(xscale="log", yscale="log", xlabel=NAMES[name], ylabel=unit)
        axis.set_xticks(x, [f"{v:,.0f}" for v in x])
        axis.minorticks_off()
        axis.grid(True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    left.legend(title="dotted: proportional", fontsize=8, title_fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
