"""Which settings of the CNN suit few labels: chosen on folds of training labels alone.

    python -m benchmarks.cnn_tuning [--seeds 3]

For development seeds (100 and up), ten labels per class of Indian Pines are dealt into three folds,
class by class; a CNN is trained on two of them and tested on the third. No other label is looked
at. First every setting of `CANDIDATES` runs for 50 epochs; the `FINALISTS` best of them run for
500. Taken is the setting with the highest mean of the held-out accuracies after 50 and 500 epochs,
the two lengths of the paper's tables. Appends one JSON line per fit to
docs/results/cnn-tuning.jsonl, skips what is there, and writes docs/results/cnn-tuning.md.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from benchmarks.folds import deal_folds
from benchmarks.harness import RESULTS, Record, fill, read_records, resume, table
from polyad.errors import Diverged
from polyad.experiments import CNNClassifier
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import RunSettings
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

RECORDS, PAGE = RESULTS / "cnn-tuning.jsonl", RESULTS / "cnn-tuning.md"
FIRST_SEED, FOLDS, FINALISTS = 100, 3, 4
SHORT, LONG = 50, 500


class Setting(NamedTuple):
    """What is chosen."""

    activation: str
    optimizer: str
    learning_rate: float


CANDIDATES = [
    Setting(activation, optimizer, rate)
    for activation in ("tanh", "relu")
    for optimizer, rates in {
        "sgd": (0.001, 0.01, 0.1),
        "momentum": (0.001, 0.01),
        "adam": (1e-4, 5e-4, 2e-3),
    }.items()
    for rate in rates
]


def fit(seed: int, fold: int, epochs: int, **setting: Any) -> Record:
    """Return the held-out accuracies of one fit, after `SHORT` epochs and after the last."""
    run = RunSettings("indian-pines", "cnn", 10, seed=seed)
    data = load_scene(run.scene)
    pixels = run.split(data.labels).train  # the test pixels of the split are not touched
    y = data.labels[tuple(pixels.T)]
    x = extract_patches(data.cube, *pixels.T, run.window)
    held = deal_folds(y, FOLDS, seed) == fold
    model = CNNClassifier(**setting, epochs=epochs, random_state=seed)
    right: dict[str, float] = {}

    def on_epoch(epoch: int, _: nn.Module) -> None:
        if epoch in (SHORT, epochs):
            right[str(epoch)] = round(float((model.predict(x[held]) == y[held]).mean()), 5)

    try:
        model.fit(x[~held], y[~held], on_epoch=on_epoch)
    except Diverged:
        right |= {str(epoch): 0.0 for epoch in (SHORT, epochs) if str(epoch) not in right}
    return {"held_out": right}


def run(settings: Iterable[Setting], seeds: Sequence[int], epochs: int) -> list[Record]:
    """Do the fits that have no record yet; return all."""
    cases = [
        {"seed": seed, "fold": fold, "epochs": epochs, **setting._asdict()}
        for setting, seed, fold in product(settings, seeds, range(FOLDS))
    ]
    return resume(RECORDS, cases, fit)


def means(rows: Sequence[Record], epochs: int, after: int) -> dict[Setting, tuple[float, int]]:
    """Return mean held-out accuracy (%) of each setting, and of how many fits."""
    values = defaultdict(list)
    for row in rows:
        if row["epochs"] == epochs:
            setting = Setting(*(row[k] for k in Setting._fields))
            values[setting].append(100 * row["held_out"][str(after)])
    return {setting: (float(np.mean(v)), len(v)) for setting, v in values.items()}


def finalists(rows: Sequence[Record]) -> list[Setting]:
    """Return the settings that run on: the best after `SHORT` epochs."""
    short = means(rows, SHORT, SHORT)
    return sorted(short, key=lambda s: -short[s][0])[:FINALISTS]


def taken(rows: Sequence[Record]) -> Setting:
    """Return the setting with the highest mean of the two lengths."""
    early, late = means(rows, LONG, SHORT), means(rows, LONG, LONG)
    return max(late, key=lambda s: early[s][0] + late[s][0])


def parts() -> dict[str, str]:
    """Return the table of all settings; the one that was taken is bold."""
    rows = read_records(RECORDS)
    short, early, late = (
        means(rows, *key) for key in ((SHORT, SHORT), (LONG, SHORT), (LONG, LONG))
    )
    lines = []
    for setting in sorted(short, key=lambda s: (s not in late, -(late.get(s) or short[s])[0])):
        first = (early.get(setting) or short[setting])[0]
        last = late[setting][0] if setting in late else None
        cells = ["", ""] if last is None else [f"{last:.1f}", f"{(first + last) / 2:.1f}"]
        name = f"**{_words(setting)}**" if setting == taken(rows) else _words(setting)
        lines.append([name, f"{first:.1f}", *cells])
    head = ["setting", f"{SHORT} epochs", f"{LONG} epochs", "mean of both"]
    return {"settings": table(head, lines)}


def _words(setting: Setting) -> str:
    return f"{setting.activation}, {setting.optimizer}, learning rate {setting.learning_rate:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    with limit_threads(1):
        rows = run(CANDIDATES, seeds, SHORT)
        rows = run(finalists(rows), seeds, LONG)
    fill(PAGE, parts())
    print(taken(rows))


if __name__ == "__main__":
    main()
