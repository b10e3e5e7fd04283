"""Theorem 1 and its corollaries, measured: figures for docs/results/findings.md.

    python -m benchmarks.approximation

A dense two-layer network with four tanh units on 3 x 4 x 5 tensors is the target: the CP rank of
its weights is as high as that shape allows a random tensor, and by Theorem 1 a Rank-R network with
R = min of the products of two sizes, 12, is equal to it. First `RankRLinear.from_dense` builds that
network. Then Rank-R networks with as many units are fitted to 2,000 samples of the target, R
growing (Corollary 1: a target outside of rank R is approached as R grows; with a fixed R more units
do the same). Last, rank 2 is fitted to more and more noisy samples (Corollary 2: the class is
learnable, so that the gap between training and test error closes). Errors are root mean squares
over the target's deviation, on 5,000 further samples for the test; mean and deviation of three
seeds. Writes one JSON line per fit to docs/results/approximation.jsonl.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyad import RankRRegressor
from polyad.core import RankRLinear
from polyad.threads import limit_threads

RECORDS = Path(__file__).parent.parent / "docs/results/approximation.jsonl"
SHAPE, UNITS, TEST, NOISE = (3, 4, 5), 4, 5000, 0.3
RANKS, MORE_UNITS, SAMPLES = (1, 2, 3, 4, 6, 12), (4, 16, 64), (50, 100, 200, 400, 800, 1600)
SEEDS = 3
Array = np.ndarray[Any, Any]


class Teacher:
    """A dense network ``v tanh(W vec(X))``."""

    def __init__(self, rng: np.random.Generator) -> None:
        size = int(np.prod(SHAPE))
        self.weight = rng.normal(size=(UNITS, size)) / np.sqrt(size)
        self.output = rng.normal(size=UNITS)

    def __call__(self, x: Array) -> Array:
        return np.tanh(2 * x.reshape(len(x), -1) @ self.weight.T) @ self.output


def exact(teacher: Teacher, x: Array) -> float:
    """Return the error of the Rank-R network that Theorem 1 builds."""
    layer, _ = RankRLinear.from_dense(torch.from_numpy(2 * teacher.weight), SHAPE)
    with torch.no_grad():
        hidden = torch.tanh(layer(torch.from_numpy(x))).numpy()
    return error(hidden @ teacher.output, teacher(x))


def error(predicted: Array, wanted: Array) -> float:
    """Return the root mean square of what is missed, over the deviation of what is wanted."""
    return float(np.sqrt(np.mean((predicted - wanted) ** 2)) / wanted.std())


def fitted(x: Array, y: Array, rank: int, hidden: int, seed: int) -> RankRRegressor:
    """Return a Rank-R network fitted to all samples, without penalty."""
    model = RankRRegressor(
        rank, hidden, epochs=1500, weight_decay=0.0, standardize=None, learning_rate=0.01,
        start="unit-variance", batch_size=None, patience=None, random_state=seed,
    )  # fmt: skip
    return model.fit(x, y)


def rows(seed: int) -> list[dict[str, Any]]:
    """Return all records of one seed."""
    rng = np.random.default_rng(seed)
    teacher = Teacher(rng)
    x, test = (rng.normal(size=(n, *SHAPE)) for n in (2000, TEST))
    y, wanted = teacher(x), teacher(test)
    found: list[dict[str, Any]] = [{"what": "theorem 1", "error": exact(teacher, test)}]
    sizes = [("rank", rank, UNITS) for rank in RANKS] + [("units", 1, q) for q in MORE_UNITS]
    for what, rank, hidden in sizes:
        model = fitted(x, y, rank, hidden, seed)
        gap = error(model.predict(test), wanted)
        found.append({"what": what, "rank": rank, "hidden": hidden, "error": gap})
    noisy = y + NOISE * y.std() * rng.normal(size=len(y))
    for n in SAMPLES:
        model = fitted(x[:n], noisy[:n], 2, UNITS, seed)
        train, far = error(model.predict(x[:n]), noisy[:n]), error(model.predict(test), wanted)
        found.append({"what": "samples", "samples": n, "train": train, "error": far})
    return [{"seed": seed, **row} for row in found]


def main() -> None:
    lines = []
    with limit_threads(1):
        for seed in range(SEEDS):
            for row in rows(seed):
                lines.append(json.dumps(row) + "\n")
                print(lines[-1], end="", flush=True)
    RECORDS.write_text("".join(lines))


if __name__ == "__main__":
    main()
