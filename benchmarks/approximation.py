"""Theorem 1 and its corollaries, measured: docs/understand/approximation.md and its figure.

    python -m benchmarks.approximation            # fits without a record: ten minutes on one core
    python -m benchmarks.approximation --page     # the page and its figure, from the records

A dense two-layer network with four tanh units on 3 x 4 x 5 tensors is the first target.
`RankRLinear.from_dense` builds the Rank-R network that is equal to it (Theorem 1); Rank-R networks
with as many units are fitted to 2,000 samples, R growing; and rank 2 to more and more noisy samples
(Corollary 2). Errors are root mean squares over the target's deviation, on 5,000 further samples.

Corollary 1 needs R as high as the generic rank (`polyad.core.generic_rank`): below it, more units
do not help. Two experiments show it. The determinant of 2 x 2 matrices with normal entries is
fitted at ranks 1 and 2 to 20,000 samples (R^2 on 50,000 others). And the positive part of the
determinant of n x n matrices of spectral norm at most one, for n = 2 and 3, is approximated with
more and more units, trained on 20,000 samples, or with random weights of rank R and output weights
by least squares, which leaves nothing to the optimizer; the error is the largest on 50,000 other
samples, half of them orthogonal matrices, where the floor of 1/2 is proved.

Seeds 0 to 9, and 0 to 2 for the dense target. Appends one JSON line per fit to
docs/results/approximation.jsonl.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import DOCS, Record, fill, read_records, resume, spread, table
from polyad import RankRRegressor
from polyad.core import RankRLinear, generic_rank, sample_size, vc_bound
from polyad.threads import limit_threads

RECORDS, PICTURE = DOCS / "results/approximation.jsonl", DOCS / "images/approximation.png"
PAGE = DOCS / "understand/approximation.md"
SHAPE, UNITS, TEST, NOISE = (3, 4, 5), 4, 5000, 0.3
RANKS, SAMPLES = (1, 2, 3, 4, 6, 12), (50, 100, 200, 400, 800, 1600)
DETERMINANT = ((1, 16), (1, 128), (1, 512), (2, 16))  # rank and units
SIDES, TRAINED, RANDOM = (2, 3), (16, 64, 256), (16, 64, 256, 1024)
RIDGE = 1e-6  # of least squares, chosen on seed 100
FLOOR = 0.5
DENSE_SEEDS, SEEDS = 3, 10
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


def fitted(
    x: Array, y: Array, rank: int, hidden: int, seed: int, batch_size: int | None = None
) -> RankRRegressor:
    """Return a Rank-R network without penalty, fitted to all samples or batch by batch."""
    model = RankRRegressor(
        rank, hidden, epochs=60 if batch_size else 1500, weight_decay=0.0, standardize=None,
        learning_rate=0.01, start="unit-variance", batch_size=batch_size, patience=None,
        random_state=seed,
    )  # fmt: skip
    return model.fit(x, y)


trained = partial(fitted, batch_size=500)  # to many samples


def orthogonal(rng: np.random.Generator, n: int, side: int) -> Array:
    """Draw from the Haar measure of O(side)."""
    q, r = np.linalg.qr(rng.normal(size=(n, side, side)))
    return q * np.sign(np.einsum("nii->ni", r))[:, None, :]


def unit_ball(rng: np.random.Generator, n: int, side: int) -> Array:
    """Draw matrices of spectral norm at most one; the first half is orthogonal."""
    singular = rng.uniform(size=(n, side))
    singular[: n // 2] = 1.0
    return orthogonal(rng, n, side) * singular[:, None, :] @ orthogonal(rng, n, side)


def positive_part(x: Array) -> Array:
    """Return max(det X, 0): continuous, and no network."""
    return np.maximum(np.linalg.det(x), 0.0)


def random_units(rng: np.random.Generator, side: int, rank: int, hidden: int) -> Any:
    """Return tanh units with random weights of rank R, and a constant, as one function."""
    factors = rng.normal(size=(2, hidden, rank, side))
    weight = np.einsum("qri,qrj->qij", *factors).reshape(hidden, -1)
    weight *= rng.uniform(0.5, 4, size=(hidden, 1)) / np.linalg.norm(weight, axis=1, keepdims=True)
    bias = rng.uniform(-2, 2, size=hidden)
    return lambda x: np.c_[np.tanh(x.reshape(len(x), -1) @ weight.T + bias), np.ones(len(x))]


def determinant_rows(seed: int) -> list[Record]:
    """Return R^2 of networks fitted to the determinant of 2 x 2 matrices with normal entries."""
    rng = np.random.default_rng(seed)
    x, test = (rng.normal(size=(n, 2, 2)) for n in (20_000, 50_000))
    y, wanted = np.linalg.det(x), np.linalg.det(test)
    found = []
    for rank, hidden in DETERMINANT:
        r2 = 1 - error(trained(x, y, rank, hidden, seed).predict(test), wanted) ** 2
        found.append({"what": "determinant", "rank": rank, "hidden": hidden, "r2": r2})
    return found


def sup_rows(side: int, seed: int) -> list[Record]:
    """Return the largest error to the positive part of the determinant, by rank and units."""
    rng = np.random.default_rng((seed, side))
    x, test = unit_ball(rng, 20_000, side), unit_ball(rng, 50_000, side)
    y, wanted = positive_part(x), positive_part(test)
    found = []
    for rank in range(1, side + 1):
        base = {"what": "sup", "side": side, "rank": rank}
        for hidden in TRAINED:
            model = trained(x, y, rank, hidden, seed)
            gap = float(np.abs(model.predict(test) - wanted).max())
            found.append(base | {"weights": "trained", "hidden": hidden, "error": gap})
        for hidden in RANDOM:
            units = random_units(rng, side, rank, hidden)
            a = units(x)
            gram = a.T @ a / len(a) + RIDGE * np.eye(hidden + 1)
            output = np.linalg.solve(gram, a.T @ y / len(a))
            gap = float(np.abs(units(test) @ output - wanted).max())
            found.append(base | {"weights": "random", "hidden": hidden, "error": gap})
    return found


def dense_rows(seed: int) -> list[Record]:
    """Return the records of one seed with a dense network as the target."""
    rng = np.random.default_rng(seed)
    teacher = Teacher(rng)
    x, test = (rng.normal(size=(n, *SHAPE)) for n in (2000, TEST))
    y, wanted = teacher(x), teacher(test)
    found: list[Record] = [{"what": "theorem 1", "error": exact(teacher, test)}]
    for rank in RANKS:
        gap = error(fitted(x, y, rank, UNITS, seed).predict(test), wanted)
        found.append({"what": "rank", "rank": rank, "hidden": UNITS, "error": gap})
    noisy = y + NOISE * y.std() * rng.normal(size=len(y))
    for n in SAMPLES:
        model = fitted(x[:n], noisy[:n], 2, UNITS, seed)
        train, far = error(model.predict(x[:n]), noisy[:n]), error(model.predict(test), wanted)
        found.append({"what": "samples", "samples": n, "train": train, "error": far})
    return found


ROWS: dict[str, Callable[[int], list[Record]]] = {  # what is measured for a seed
    "theorem 1": dense_rows,
    "determinant": determinant_rows,
    "sup": lambda seed: [row for side in SIDES for row in sup_rows(side, seed)],
}


def sup_errors() -> dict[tuple[int, int, str], dict[int, list[float]]]:
    """Return the largest errors by (side, rank, weights) and number of units."""
    found: dict[tuple[int, int, str], dict[int, list[float]]] = defaultdict(dict)
    for row in read_records(RECORDS):
        if row["what"] == "sup":
            curve = found[row["side"], row["rank"], row["weights"]]
            curve.setdefault(row["hidden"], []).append(row["error"])
    return found


def picture(path: Path = PICTURE) -> None:
    """Draw the largest error over the number of units."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = {1: "#EE7733", 2: "#4477AA", 3: "#117733"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True, layout="constrained")
    for (side, rank, weights), curve in sup_errors().items():
        ax, units = axes[SIDES.index(side)], sorted(curve)
        middle = [np.mean(curve[q]) for q in units]
        spread = [np.std(curve[q], ddof=1) for q in units]
        style = {"trained": "o-", "random": "s--"}[weights]
        ax.errorbar(units, middle, spread, fmt=style, color=colors[rank], capsize=2, lw=1.4,
                    markersize=4.5, label=f"R = {rank}, {weights} weights")  # fmt: skip
    for side, ax in zip(SIDES, axes, strict=True):
        ax.axhline(FLOOR, color="0.3", lw=1, ls=":", label=f"proved floor for R < {side}")
        ax.set_xscale("log", base=4)
        ax.set_yscale("log")
        ax.set_xticks(RANDOM, map(str, RANDOM))
        ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1], ["0.02", "0.05", "0.1", "0.2", "0.5", "1"])
        ax.set_ylim(0.02, 1.3)
        ax.minorticks_off()
        ax.set_title(f"{side} x {side} matrices, generic rank {side}", fontsize=10)
        ax.set_xlabel("hidden units")
        ax.legend(frameon=False, fontsize=7.5, loc="lower left")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("largest error to max(det X, 0)")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def least(side: int, rank: int) -> list[str]:
    """Return the best mean error of a rank, with its deviation and its number of units."""
    cells = [
        (np.mean(values), spread(values, 1, 2), f"{units}, {weights}")
        for weights in ("trained", "random")
        for units, values in sup_errors()[side, rank, weights].items()
    ]
    return [f"{side} x {side}", str(rank), *min(cells)[1:]]


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    shapes = ((2, 2), (3, 3, 3), (3, 4, 5), (5, 5, 9), (5, 5, 200))
    ranks = [
        [" x ".join(map(str, s)), str(generic_rank(s)), str(int(np.prod(s)) // max(s))]
        for s in shapes
    ]
    bounds = []
    for activation in ("tanh", "relu"):
        vc = vc_bound((5, 5, 200), 75, 1, 16, activation)
        sizes = [sample_size(vc, 0.1, 0.05, realizable=known) for known in (False, True)]
        bounds.append([activation, *(f"{value:.1e}" for value in (vc, *sizes))])
    sides = [least(side, rank) for side in SIDES for rank in range(1, side + 1)]
    head = ["units", "VC dimension, at most", "samples", "samples, if the best makes no error"]
    return {
        "errors": table(["matrices", "R", "largest error", "units, weights"], sides),
        "ranks": table(["shape", "generic rank", "rank of Theorem 1"], ranks),
        "bounds": table(head, bounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from the records alone")
    if not parser.parse_args().page:
        cases = [
            {"seed": seed, "what": what}
            for seed in range(SEEDS)
            for what in ROWS
            if what != "theorem 1" or seed < DENSE_SEEDS
        ]
        with limit_threads(1):
            resume(RECORDS, cases, lambda seed, what: ROWS[what](seed))
    picture()
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
