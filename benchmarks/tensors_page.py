"""The page of tensors.py: tables from its records, and nothing that is not in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Records = Sequence[dict[str, Any]]
NAMES = {
    "default": "**`RankRClassifier()`**",
    "before": "`RankRClassifier(standardize=-1)`, the default before",
}
INTRO = """# Defaults on tensors of every kind

`RankRClassifier()` and `RankRRegressor()` without a parameter, beside models of scikit-learn on
flattened, standardized samples. Made by

<!-- not run: half an hour, and it needs files that are fetched by hand -->
```sh
pip download aeon --no-deps
python -m benchmarks.tensors --aeon aeon-1.6.0-py3-none-any.whl --potsdam enmap_potsdam
```

from [records](tensors.jsonl), one line per data set, protocol, seed and model. Mean and deviation
over the seeds that stand in each table; the rules behind the defaults were settled on seeds 100 and
up. No fit sees a test label, but samples tested here were test samples of those seeds too.
Seconds are those of one fit on one thread of a shared machine.

Logistic regression, SVC and MLP have scikit-learn's defaults. Ridge chooses among 17 strengths, PLS
among 1 to 15 components and SVR among four values of C, by folds of their training samples; the
forest has 200 trees. *Chosen* is what `settings_` says of the default: the mode that is
standardized (*common*: one scale for all entries), how far its principal axes are whitened, and how
many of the fits chose so.
"""
SETS = {
    "digits": "1,797 images of 8 x 8, ten classes",
    "serology: infected or not": "438 tables of 6 antigens x 11 receptors, 39 negative",
    "serology: course of the illness": "392 tables of 6 x 11: moderate, severe, deceased",
    "BasicMotions": "80 series of 6 channels x 100 times, four classes",
    "JapaneseVowels": "640 series of 12 channels x 29 times (shorter ones end in zeros), nine "
    "speakers",
    "made, 8 x 16": "the class is the largest of five noisy rank-one scores; 4,000 test "
    "samples, and SVC left out for its time",
    "vegetation fraction, spectra": "135 points on 14 tiles of an EnMAP scene, 218 bands; folds of "
    "two whole tiles, R2 of all predictions together",
    "vegetation fraction, windows": "the same points, 5 x 5 x 218",
}


def write_page(records: Records, path: Path) -> None:
    """Write the page."""
    sections = [INTRO]
    for data, about in SETS.items():
        of_set = [r for r in records if r["data"] == data]
        if of_set:
            sections += [
                f"## {data[0].upper()}{data[1:]}\n",
                f"{about[0].upper()}{about[1:]}.\n",
                table(of_set),
            ]
    path.write_text("\n".join(sections))


def table(records: Records) -> str:
    """Return the table of one data set, and below it what the default chose."""
    protocols = list(dict.fromkeys(r["protocol"] for r in records))
    models = list(dict.fromkeys(r["model"] for r in records))
    regression = "vegetation" in records[0]["data"]
    heads = []
    for protocol in protocols:
        seeds = sorted({r["seed"] for r in records if r["protocol"] == protocol})
        heads += [f"{protocol}, seeds 0 to {seeds[-1]}" + ("" if regression else ", %"), "s"]
    lines = [f"| model | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for model in models:
        cells = [shown(model, regression)]
        for protocol in protocols:
            own = [r for r in records if (r["model"], r["protocol"]) == (model, protocol)]
            scores = np.array([r["score"] for r in own]) * (1 if regression else 100)
            places = 2 if regression else 1
            cells.append(f"{scores.mean():.{places}f} ± {scores.std():.{places}f}")
            cells.append(f"{np.median([r['seconds'] for r in own]):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    chosen = [f"{p}: {_chosen(records, p)}" for p in protocols]
    return "\n".join([*lines, "", f"Chosen, {'; '.join(chosen)}.", ""])


def shown(model: str, regression: bool) -> str:
    """Return a model's name in the tables.

    Examples
    --------
    >>> shown("default", regression=True)
    '**`RankRRegressor()`**'
    """
    name = NAMES.get(model, model)
    return name.replace("Classifier", "Regressor") if regression else name


def _chosen(records: Records, protocol: str) -> str:
    own = [r for r in records if r["model"] == "default" and r["protocol"] == protocol]
    counts = Counter((str(s[0]), s[1]) for r in own for s in r["settings"])
    return ", ".join(
        f"{mode if mode == 'common' else f'mode {mode}'}"
        f"{f' whitened by {whiten}' if whiten else ''} {count} times"
        for (mode, whiten), count in counts.most_common()
    )
