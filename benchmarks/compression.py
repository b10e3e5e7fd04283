"""A trained dense layer made small: `RankRLinear.from_dense` beside the truncated SVD, on digits.

    python -m benchmarks.compression [--page-only]

Appends one JSON line per (seed, rank, way, learning rate) to docs/results/compression.jsonl, skips
what is there, and writes docs/results/compression.md from the lines. Learning rates are chosen on
seeds 100 to 104; the page shows seeds 0 to 9.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from benchmarks.harness import DOCS, RESULTS, chosen, fill, read_records, table
from polyad import RankRLinear

RECORDS = RESULTS / "compression.jsonl"
PAGE = DOCS / "results/compression.md"
SHAPE, SIZE, HIDDEN, CLASSES = (8, 8), 64, 64, 10
RANKS = (1, 2, 3)
SEEDS, CHOICE_SEEDS = range(10), range(100, 105)
TRAINING, TUNING = 300, 50  # full-batch steps of Adam
RATES = (1e-3, 5e-3, 2e-2)
Records = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Digits:
    """Images ``(n, 8, 8)`` between 0 and 1, half to train on and half to test."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    @classmethod
    def split(cls, seed: int) -> Digits:
        images, digits = load_digits(return_X_y=True)
        images = (images / 16).astype(np.float32).reshape(-1, *SHAPE)
        cut = train_test_split(images, digits, test_size=0.5, stratify=digits, random_state=seed)
        x, x_test, y, y_test = map(torch.from_numpy, cut)
        return cls(x, y, x_test, y_test)

    def train(self, network: nn.Module, steps: int, rate: float) -> nn.Module:
        adam = torch.optim.Adam(network.parameters(), rate)
        for _ in range(steps):
            adam.zero_grad()
            nn.functional.cross_entropy(network(self.x), self.y).backward()
            adam.step()
        return network

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> float:
        return float((network(self.x_test).argmax(dim=1) == self.y_test).float().mean())


def network(first: nn.Module, hidden: int = HIDDEN) -> nn.Sequential:
    return nn.Sequential(first, nn.Tanh(), nn.Linear(hidden, CLASSES))


def dense_layer(hidden: int = HIDDEN) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE, hidden))


def truncated_svd(dense: nn.Linear, terms: int, x: Tensor | None = None) -> nn.Sequential:
    """Return two linear layers in a row, the nearest by the weights or by outputs for ``x``."""
    weight = dense.weight.detach().double()
    root, mean = torch.eye(SIZE, dtype=torch.float64), torch.zeros(SIZE, dtype=torch.float64)
    if x is not None:
        samples = x.flatten(1).double()
        mean = samples.mean(dim=0)
        moment = (samples - mean).T @ (samples - mean)
        moment.diagonal().add_(0.01 * moment.trace() / SIZE)
        root = torch.linalg.cholesky(moment)
    left, values, right = torch.linalg.svd(weight @ root)
    inner = torch.linalg.solve(root, right[:terms], left=False)  # the metric is taken out again
    outer = left[:, :terms] * values[:terms]
    first, second = nn.Linear(SIZE, terms, bias=False), nn.Linear(terms, HIDDEN)
    with torch.no_grad():
        first.weight.copy_(inner)
        second.weight.copy_(outer)
        second.bias.copy_(dense.bias + (weight - outer @ inner) @ mean)
    return nn.Sequential(nn.Flatten(), first, second)


def rank_r(dense: nn.Linear, rank: int, x: Tensor | None = None) -> RankRLinear:
    return RankRLinear.from_dense(dense, SHAPE, rank, samples=x)[0]


# Each has as many weights as a layer of that rank: 1,024 for each term, of 4,096 in the dense layer
SMALLER: dict[str, Callable[[nn.Linear, int, Tensor], nn.Module]] = {
    "from_dense(dense)": lambda dense, rank, _: rank_r(dense, rank),
    "from_dense(dense, samples=X)": rank_r,
    "truncated SVD of the weights": lambda dense, rank, _: truncated_svd(dense, 8 * rank),
    "truncated SVD of the outputs": lambda dense, rank, x: truncated_svd(dense, 8 * rank, x),
}
DRAWN: dict[str, Callable[[int], nn.Sequential]] = {
    "Rank-R layer": lambda rank: network(RankRLinear(SHAPE, HIDDEN, rank)),
    "dense layer of fewer units": lambda rank: network(dense_layer(16 * rank), 16 * rank),
}


def outcomes(seed: int, choice: Records) -> list[dict[str, Any]]:
    """Return the rows of a seed, of every way at the rate that was chosen, or at all of them."""
    digits, rows = Digits.split(seed), []
    torch.manual_seed(seed)
    whole = network(dense_layer())
    digits.train(whole, TRAINING, 5e-3)
    dense = whole[0][1]
    rows.append({"way": "dense", "rank": 0, "rate": 5e-3, "before": digits.accuracy(whole)})
    for rank in RANKS:
        for way, smaller in SMALLER.items():
            small = nn.Sequential(smaller(dense, rank, digits.x), *whole[1:])
            before = digits.accuracy(small)
            for rate in rates(choice, rank, way):
                tuned = digits.train(copy.deepcopy(small), TUNING, rate)
                rows.append({"way": way, "rank": rank, "rate": rate, "before": before,
                             "after": digits.accuracy(tuned)})  # fmt: skip
        for way, draw in DRAWN.items():
            for rate in rates(choice, rank, way):
                torch.manual_seed(seed)
                trained = digits.train(draw(rank), TRAINING + TUNING, rate)
                rows.append({"way": way, "rank": rank, "rate": rate,
                             "after": digits.accuracy(trained)})  # fmt: skip
    return [{"seed": seed, **row} for row in rows]


def rates(records: Records, rank: int, way: str) -> Sequence[float]:
    """Return the learning rate that is best for a way on the seeds of the choice, or all."""
    own = [r for r in records if (r["rank"], r["way"]) == (rank, way) and r["seed"] in CHOICE_SEEDS]
    if not own:
        return RATES
    return (max(RATES, key=lambda rate: np.mean([r["after"] for r in own if r["rate"] == rate])),)


def parts() -> dict[str, str]:
    """Return the measured parts of the guide."""
    shown, rows = [r for r in read_records(RECORDS) if r["seed"] in SEEDS], []
    for way in (*SMALLER, *DRAWN):
        cells = [f"`{way}`" if way in SMALLER and "(" in way else way]
        for rank in RANKS:
            own = chosen(shown, rank=rank, way=way)
            cells += [_share(own, key) for key in ("before", "after")]
        rows.append(cells)
    dense = _share([r for r in shown if r["way"] == "dense"], "before")
    head = [name for rank in RANKS for name in (f"rank {rank}, %:", "tuned, %:")]
    return {"dense": f"{dense} %", "ways": table(["", *head], rows)}


def _share(records: Records, key: str) -> str:
    values = [100 * r[key] for r in records if key in r]
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}" if values else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page-only", action="store_true")
    torch.set_num_threads(1)
    if not parser.parse_args().page_only:
        for seed in (*CHOICE_SEEDS, *SEEDS):
            records = read_records(RECORDS)
            if any(r["seed"] == seed for r in records):
                continue
            rows = outcomes(seed, [] if seed in CHOICE_SEEDS else records)
            with RECORDS.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            print(f"seed {seed}", file=sys.stderr, flush=True)
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
