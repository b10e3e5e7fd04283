"""A trained dense layer made small: `RankRLinear.from_dense` beside the truncated SVD, on digits.

    python -m benchmarks.compression [--page-only]

Appends one JSON line per (seed, rank, way, learning rate) to docs/results/compression.jsonl, skips
what is there, and writes docs/how-to/compression.md from the lines. Learning rates are chosen on
seeds 100 to 104; the page shows seeds 0 to 9.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from polyad import RankRLinear

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "docs/results/compression.jsonl"
PAGE = ROOT / "docs/how-to/compression.md"
SHAPE, SIZE, HIDDEN, CLASSES = (8, 8), 64, 64, 10
RANKS = (1, 2, 3)
SEEDS, CHOICE_SEEDS = range(10), range(100, 105)
TRAINING, TUNING = 300, 50  # full-batch steps of Adam
RATES = (1e-3, 5e-3, 2e-2)
Records = Sequence[dict[str, Any]]
GUIDE = """# Compress a dense layer

A trained dense layer on a flattened tensor becomes a Rank-R layer by `RankRLinear.from_dense`. Pass
typical inputs as `samples`: the decomposition then keeps the outputs for them, not the weights.

```python
import torch
from sklearn.datasets import load_digits
from torch import nn
from polyad import RankRLinear

digits, y = load_digits(return_X_y=True)
X, y = torch.tensor(digits / 16, dtype=torch.float32).reshape(-1, 8, 8), torch.tensor(y)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))


def train(model, steps, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()


train(model, 300, 5e-3)
layer, error = RankRLinear.from_dense(model[1], (8, 8), rank=1, samples=X)
smaller = nn.Sequential(layer, *model[2:])  # no nn.Flatten: the layer takes the images
train(smaller, 50, 2e-2)
```

**Which rank?** A layer of rank R has `R * sum(shape) / prod(shape)` of the dense layer's weights: a
quarter per term on 8 x 8, 4.2 % on 5 x 5 x 200. `from_dense` warns if the result is larger than
the dense layer. Without a rank it is exact (Theorem 1 of the paper) and always larger.

## Beside the truncated SVD

The truncated SVD gives two linear layers in a row and needs no tensor structure. Digits, half of
them for training; 64 tanh units; all rows have 25, 50 or 75 % of the dense layer's 4,096 weights.
Test accuracy, mean ± deviation of seeds 0 to 9, before and after 50 full-batch Adam steps on the
whole network. The dense network reaches DENSE.

<!-- not run: takes minutes -->
```sh
python -m benchmarks.compression
```

TABLE

The last two rows were small from the start and trained for 350 steps. *SVD of the outputs* is
weighted by the same samples. Learning rates (0.001, 0.005 or 0.02) were chosen for each entry on
seeds 100 to 104; [records](../results/compression.jsonl).

- Without samples, rank 1 is useless before tuning.
- With samples and without tuning, the SVD is better at 25 %; above, the difference is below the
  deviation of the seeds.
- After tuning no way is clearly better than another, or than a layer that was small from the start:
  if you can train, skip the decomposition.
"""


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


def read_records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Return all lines of the record file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def page(records: Records) -> str:
    """Return the guide with its table."""
    shown = [r for r in records if r["seed"] in SEEDS]
    lines = [
        "| | " + " | ".join(f"rank {rank}, % | tuned, %" for rank in RANKS) + " |",
        "|---" + "|---:" * (2 * len(RANKS)) + "|",
    ]
    for way in (*SMALLER, *DRAWN):
        cells = [f"`{way}`" if way in SMALLER and "(" in way else way]
        for rank in RANKS:
            own = [r for r in shown if (r["rank"], r["way"]) == (rank, way)]
            cells += [_share(own, key) for key in ("before", "after")]
        lines.append(f"| {' | '.join(cells)} |")
    dense = _share([r for r in shown if r["way"] == "dense"], "before")
    return GUIDE.replace("DENSE", f"{dense} %").replace("TABLE", "\n".join(lines))


def _share(records: Records, key: str) -> str:
    values = [100 * r[key] for r in records if key in r]
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}" if values else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page-only", action="store_true")
    torch.set_num_threads(1)
    if not parser.parse_args().page_only:
        for seed in (*CHOICE_SEEDS, *SEEDS):
            records = read_records()
            if any(r["seed"] == seed for r in records):
                continue
            rows = outcomes(seed, [] if seed in CHOICE_SEEDS else records)
            with RECORDS.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            print(f"seed {seed}", file=sys.stderr, flush=True)
    PAGE.write_text(page(read_records()))


if __name__ == "__main__":
    main()
