"""The page of values.py: a table from its records, and a picture, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyad.scene.learn.outputs import ValueScore, score_values
from polyad.scene.raster.classes import Target

Records = Sequence[dict[str, Any]]
Array = np.ndarray[Any, Any]
FRACTION = Target("vegetation fraction", "", 0.0, 1.0)
RESAMPLES = 2000
INTRO = """# Values of a city: vegetation fractions

How well [`polyad train --task regression`](../values.md) predicts numbers in places that nobody
measured, beside the models that the field uses. Made by

<!-- not run: an hour, and it needs the scene -->
```sh
python -m benchmarks.values --potsdam enmap_potsdam
python -m benchmarks.values --page-only
```

from [records](values.jsonl), a line for each model and seed with all of its predictions.

**Data.** An EnMAP scene of Potsdam (30 m, 218 bands with data, mixed pixels), fourteen tiles of
32 x 32 pixels, and the share of vegetation at {points} points on them, from 0 to 1 (test data of
EnMAP-Box).

**Protocol.** The tiles are dealt to seven folds; a model learns from the points of twelve tiles
and predicts those of the other two, until every point is predicted. All predictions are clipped
to 0 to 1. A seed deals the tiles anew and seeds the model. R2, RMSE, MAE and bias are of all
{points} predictions of a seed together; *mean ± deviation* is over the seeds in the table. The
*95 % interval* is that of R2 of the mean prediction of all seeds, over 2,000 resamples of the
tiles: with fourteen tiles it is wide, and it is what to expect of another city. *Ahead* is the
share of these resamples, the same for both, in which the best row of polyad has the larger R2.

**Settings.** Ours are the defaults of both presets, `--bounds 0 1 --goal other-scenes`; which
windows they choose from was settled on seeds 100 to 102. Ridge chooses among 17 strengths, PLS
among 1 to 15 components, SVR among four values of C, two widths of its tube and two of its
kernel, by five folds of its training points; the forest has 500 trees. They get standardized
bands, of the pixel or of its 3 x 3 window; ours choose the window themselves. `best` learns the
scene's noise from all of its pixels, those of the test tiles among them, never from their values.
Seconds are those of one fit with its choices, on one thread of a busy machine.
"""


def write_page(records: Records, page: Path) -> None:
    """Write the page."""
    told = next((r for r in records if "measured" in r), None)
    if told is None:
        return
    measured, tile = np.array(told["measured"]), np.array(told["tile"])
    models = list(dict.fromkeys(r["model"] for r in sorted(records, key=_order)))
    by_model = {m: [r for r in records if r["model"] == m] for m in models}
    text = INTRO.format(points=len(measured))
    page.write_text(text + _table(by_model, measured, tile) + _notes(by_model, measured, tile))


def _order(record: dict[str, Any]) -> tuple[bool, str]:
    return not record["model"].startswith("polyad"), record["model"]


def _table(by_model: dict[str, list[dict[str, Any]]], measured: Array, tile: Array) -> str:
    resampled = _resampled(by_model, measured, tile)
    leader = max(
        (m for m in by_model if m.startswith("polyad")), key=lambda m: _mean(by_model[m], measured)
    )
    lines = ["", "| model | seeds | R2 | 95 % interval | RMSE | MAE | bias | ahead | s |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for model, rows in by_model.items():
        scores = [_score(r, measured, tile) for r in rows]
        r2 = np.array([s.r2 for s in scores])
        low, high = np.quantile(resampled[model], [0.025, 0.975])
        ahead = float((resampled[leader] > resampled[model]).mean())
        told = "" if model == leader else f"{100 * ahead:.0f} %"
        name = f"**{model}**" if model.startswith("polyad") else model
        seconds = np.mean([r["seconds"] for r in rows])
        lines.append(
            f"| {name} | {_seeds(rows)} | {r2.mean():.3f} ± {_deviation(r2):.3f} | "
            f"{low:.2f} to {high:.2f} | "
            f"{np.mean([s.rmse for s in scores]):.3f} | {np.mean([s.mae for s in scores]):.3f} | "
            f"{np.mean([s.bias for s in scores]):+.3f} | {told} | {seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _notes(by_model: dict[str, list[dict[str, Any]]], measured: Array, tile: Array) -> str:
    """Return what follows from the table, in words."""
    means = {m: _mean(rows, measured) for m, rows in by_model.items()}
    ours = max((m for m in means if m.startswith("polyad")), key=lambda m: means[m])
    other = max(
        (m for m in means if not m.startswith("polyad")), key=lambda m: means[m], default=""
    )
    if not other:
        return ""
    resampled = _resampled(by_model, measured, tile)
    low, high = np.quantile(resampled[ours] - resampled[other], [0.025, 0.975])
    verdict = "which holds zero" if low < 0 < high else "which does not hold zero"
    return (
        f"\nThe best row of polyad is *{ours}* with {means[ours]:.3f}, the best other one "
        f"*{other}* with {means[other]:.3f}; the difference has the "
        f"interval {low:+.3f} to {high:+.3f} over tiles, {verdict}.\n"
    )


def _seeds(rows: list[dict[str, Any]]) -> str:
    """Return which seeds there are, as "0 to 9".

    Examples
    --------
    >>> _seeds([{"seed": 1}, {"seed": 0}]), _seeds([{"seed": 0}, {"seed": 2}])
    ('0 to 1', '0, 2')
    """
    seeds = sorted(r["seed"] for r in rows)
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _score(record: dict[str, Any], measured: Array, tile: Array) -> ValueScore:
    predicted = np.array(record["predicted"])
    return score_values(measured[:, None], predicted[:, None], [FRACTION], tile)[0]


def _mean(rows: list[dict[str, Any]], measured: Array) -> float:
    each = [_r2(measured, np.array(r["predicted"])) for r in rows]
    return float(np.mean(each))


def _resampled(
    by_model: dict[str, list[dict[str, Any]]], measured: Array, tile: Array
) -> dict[str, Array]:
    """Return R2 of the mean prediction on resampled tiles, the same ones for all models."""
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(tile == t) for t in np.unique(tile)]
    drawn = [np.concatenate([members[k] for k in rng.integers(0, len(members), len(members))])
             for _ in range(RESAMPLES)]  # fmt: skip
    means = {m: np.mean([r["predicted"] for r in rows], axis=0) for m, rows in by_model.items()}
    return {m: np.array([_r2(measured[d], p[d]) for d in drawn]) for m, p in means.items()}


def _r2(measured: Array, predicted: Array) -> float:
    return 1 - float(((predicted - measured) ** 2).mean() / measured.var())


def _deviation(numbers: Array) -> float:
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
