"""Whether a choice of rank, window, weight decay and steps by cross-validation beats the preset.

    python -m benchmarks.few_labels_choice [--seeds 10] [--pavia UPavia_Subset.mat]

For every split of the development seeds (100 and up) each candidate is scored on three folds of
the training labels, and its map on the test pixels; one start each. Appends one JSON line per split
to docs/results/few-labels-choice.jsonl and skips what is there; `few_labels.py --page-only` then
writes the page. The rules of choice read the folds only: `RULES` is all there is to them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from benchmarks.few_labels import (
    PAVIA_PROTOCOLS,
    ROOT,
    Array,
    Bench,
    accuracy_of,
    network,
    run,
    smoothed,
)
from benchmarks.folds import deal_folds
from polyad.scene.learn.experts import FOLDS, fit_weights, held_out_logits
from polyad.scene.learn.sampling import Split
from polyad.scene.learn.steps import Propagator, combine
from polyad.scene.learn.training import PRIOR_WEIGHTS, PULL
from polyad.scene.raster.windows import extract_patches

RECORDS = ROOT / "docs/results/few-labels-choice.jsonl"
FIRST_SEED = 100
PROTOCOLS_OF = {  # of each scene
    "indian-pines": PAVIA_PROTOCOLS,
    "pavia-crop": PAVIA_PROTOCOLS,
}
PRESET = (1, 5, 0.1)  # rank, window and weight decay of the fixed preset
CANDIDATES = [
    *((rank, window, decay) for rank in (1, 2) for window in (3, 5, 7, 9) for decay in (0.1, 1.0)),
    (1, 1, 0.1),
    (4, 5, 0.1),
    (1, 5, 0.01),
    (1, 5, 3.0),
]
Row = dict[str, Any]


def fixed(rows: Sequence[Row]) -> Row:
    """Take the preset's own candidate."""
    return next(r for r in rows if (r["rank"], r["window"], r["decay"]) == PRESET)


def by_accuracy(rows: Sequence[Row]) -> Row:
    """Take the candidate that is right most often on the folds; of equals the first."""
    return max(rows, key=lambda r: r["held_accuracy"])


def by_loss(rows: Sequence[Row]) -> Row:
    """Take the candidate of the smallest log loss on the folds."""
    return min(rows, key=lambda r: r["held_loss"])


def in_hindsight(rows: Sequence[Row]) -> Row:
    """Take the candidate that the test pixels like best: out of reach, a bound for all rules."""
    return max(rows, key=lambda r: r["oa"])


RULES: dict[str, Callable[[Sequence[Row]], Row]] = {
    "fixed preset": fixed,
    "most right on the folds": by_accuracy,
    "smallest log loss on the folds": by_loss,
    "best in hindsight (looks at the test)": in_hindsight,
}


def without_propagation(alone: Row, together: Row) -> bool:
    """Tell whether the network alone is right more often on the folds than with propagation."""
    return bool(alone["held_accuracy"] > together["held_accuracy"])


def outcome(bench: Bench, split: Split, seed: int, _: object = ()) -> list[Row]:
    """Return one record: of each candidate what the folds say, and the accuracy of both maps."""
    values = np.asarray(bench.labels.values).astype(np.int64)
    y = values[tuple(split.train.T)]
    classes, targets = np.unique(y, return_inverse=True)
    fold = deal_folds(targets, FOLDS, seed)
    propagator = Propagator(bench.propagation, bench.graphs, bench.nodes)
    propagated = propagator.log_shares(split.train, targets, len(classes))
    propagated_out = propagator.held_out(split.train, targets, fold, len(classes))
    rows = []
    for rank, window, decay in CANDIDATES:
        options = {"standardize": None, "rank": rank, "weight_decay": decay}
        started = time.process_time()
        samples = extract_patches(bench.z, *split.train.T, window)
        held = held_out_logits(samples, targets, fold, seed, options)
        seconds = time.process_time() - started
        proba = network(bench.z, split, y, window, seed, starts=1, **options)
        (warmth,) = fit_weights([held], targets, [0.3], 0.03)
        weights = fit_weights([propagated_out, held], targets, PRIOR_WEIGHTS, PULL)
        maps = {
            "other-scenes": (warmth * held, smoothed(proba, bench)),
            "this-scene": (
                weights[0] * propagated_out + weights[1] * held,
                combine(proba, propagated, (weights[0], weights[1])),
            ),
        }
        row: Row = {"rank": rank, "window": window, "decay": decay}
        row["fold_seconds"] = round(seconds, 2)
        for goal, (logits, combined) in maps.items():
            judged = _held(logits, targets) | {"oa": accuracy_of(combined, bench, split, y)}
            row[goal] = {name: round(value, 5) for name, value in judged.items()}
        rows.append(row)
    return [{"rows": rows}]


def _held(logits: Array, targets: Array) -> dict[str, float]:
    own = log_softmax(logits, axis=1)[np.arange(len(targets)), targets]
    right = (logits.argmax(axis=1) == targets).mean()
    return {"held_accuracy": float(right), "held_loss": float(-own.mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--pavia", type=Path, help="UPavia_Subset.mat, fetched by hand")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    for name, protocols in PROTOCOLS_OF.items():
        if name != "pavia-crop" or options.pavia is not None:
            run(name, protocols, seeds, options.pavia, outcome, RECORDS)


if __name__ == "__main__":
    main()
