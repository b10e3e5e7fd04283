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
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from benchmarks.folds import deal_folds
from polyad.errors import Diverged
from polyad.experiments import CNNClassifier
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import RunSettings
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

RESULTS = Path(__file__).parent.parent / "docs/results"
RECORDS, PAGE = RESULTS / "cnn-tuning.jsonl", RESULTS / "cnn-tuning.md"
FIRST_SEED, FOLDS, FINALISTS = 100, 3, 4
SHORT, LONG = 50, 500
Row = dict[str, Any]


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


def fit(setting: Setting, seed: int, fold: int, epochs: int) -> Row:
    """Return the held-out accuracies of one fit, after `SHORT` epochs and after the last."""
    run = RunSettings("indian-pines", "cnn", 10, seed=seed)
    data = load_scene(run.scene)
    pixels = run.split(data.labels).train  # the test pixels of the split are not touched
    y = data.labels[tuple(pixels.T)]
    x = extract_patches(data.cube, *pixels.T, run.window)
    held = deal_folds(y, FOLDS, seed) == fold
    model = CNNClassifier(**setting._asdict(), epochs=epochs, random_state=seed)
    right: dict[str, float] = {}

    def on_epoch(epoch: int, _: nn.Module) -> None:
        if epoch in (SHORT, epochs):
            right[str(epoch)] = round(float((model.predict(x[held]) == y[held]).mean()), 5)

    try:
        model.fit(x[~held], y[~held], on_epoch=on_epoch)
    except Diverged:
        right |= {str(epoch): 0.0 for epoch in (SHORT, epochs) if str(epoch) not in right}
    return {"seed": seed, "fold": fold, "epochs": epochs, **setting._asdict(), "held_out": right}


def load() -> list[Row]:
    """Return the records."""
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def run(settings: Iterable[Setting], seeds: Sequence[int], epochs: int) -> None:
    """Do the fits that have no record yet."""
    there = {_name(row) for row in load()}
    for setting in settings:
        for seed in seeds:
            for fold in range(FOLDS):
                wanted = {"seed": seed, "fold": fold, "epochs": epochs, **setting._asdict()}
                if _name(wanted) in there:
                    continue
                row = fit(setting, seed, fold, epochs)
                with RECORDS.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(row, flush=True)


def _name(row: Row) -> tuple[Any, ...]:
    return (row["seed"], row["fold"], row["epochs"], *(row[k] for k in Setting._fields))


def means(rows: Sequence[Row], epochs: int, after: int) -> dict[Setting, tuple[float, int]]:
    """Return mean held-out accuracy (%) of each setting, and of how many fits."""
    values = defaultdict(list)
    for row in rows:
        if row["epochs"] == epochs:
            setting = Setting(*(row[k] for k in Setting._fields))
            values[setting].append(100 * row["held_out"][str(after)])
    return {setting: (float(np.mean(v)), len(v)) for setting, v in values.items()}


def finalists(rows: Sequence[Row]) -> list[Setting]:
    """Return the settings that run on: the best after `SHORT` epochs."""
    short = means(rows, SHORT, SHORT)
    return sorted(short, key=lambda s: -short[s][0])[:FINALISTS]


def chosen(rows: Sequence[Row]) -> Setting:
    """Return the setting with the highest mean of the two lengths."""
    early, late = means(rows, LONG, SHORT), means(rows, LONG, LONG)
    return max(late, key=lambda s: early[s][0] + late[s][0])


def page(rows: Sequence[Row]) -> str:
    """Return the table of all settings, and which was taken."""
    short, early, late = (
        means(rows, *key) for key in ((SHORT, SHORT), (LONG, SHORT), (LONG, LONG))
    )
    taken = chosen(rows)
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        "# The settings of the CNN, tuned",
        "",
        "Made by `python -m benchmarks.cnn_tuning` from [cnn-tuning.jsonl](cnn-tuning.jsonl). "
        f"Indian Pines, 10 labels per class, development seeds {seeds[0]} to {seeds[-1]}, "
        f"{FOLDS} folds of the training labels each: accuracy in % on the fold held out, mean of "
        f"{FOLDS * len(seeds)} fits. No test pixel of any split was looked at. The "
        f"{FINALISTS} best after {SHORT} epochs ran for {LONG}; "
        f"taken is the highest mean of {SHORT} and {LONG} epochs: **{_words(taken)}**. The same "
        "settings serve all numbers of labels, noises and protocols.",
        "",
        f"| setting | {SHORT} epochs | {LONG} epochs | mean of both |",
        "|---|---|---|---|",
    ]
    order = sorted({*short, *late}, key=lambda s: (s not in late, -(late.get(s) or short[s])[0]))
    for setting in order:
        first = (early.get(setting) or short[setting])[0]
        if setting in late:
            last = late[setting][0]
            cells = f"{first:.1f} | {last:.1f} | {(first + last) / 2:.1f}"
        else:
            cells = f"{first:.1f} | | "
        name = f"**{_words(setting)}**" if setting == taken else _words(setting)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines) + "\n"


def _words(setting: Setting) -> str:
    return f"{setting.activation}, {setting.optimizer}, learning rate {setting.learning_rate:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    with limit_threads(1):
        run(CANDIDATES, seeds, SHORT)
        run(finalists(load()), seeds, LONG)
    PAGE.write_text(page(load()))
    print(chosen(load()))


if __name__ == "__main__":
    main()
