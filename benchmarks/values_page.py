"""The page of values.py: a table from its records, and a picture, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, read_records, spread, table
from polyad.scene.learn.outputs import ValueScore, score_values
from polyad.scene.raster.classes import Target

Records = Sequence[dict[str, Any]]
Array = np.ndarray[Any, Any]
FRACTION = Target("vegetation fraction", "", 0.0, 1.0)
RESAMPLES = 2000
PAGE = RESULTS / "values.md"


def parts() -> dict[str, str]:
    """Return the table of the page, and what follows from it."""
    records = read_records(RESULTS / "values.jsonl")
    told = next(r for r in records if "measured" in r)
    measured, tile = np.array(told["measured"]), np.array(told["tile"])
    models = list(dict.fromkeys(r["model"] for r in sorted(records, key=_order)))
    by_model = {m: [r for r in records if r["model"] == m] for m in models}
    return {
        "models": _table(by_model, measured, tile),
        "difference": _notes(by_model, measured, tile),
    }


def _order(record: dict[str, Any]) -> tuple[bool, str]:
    return not record["model"].startswith("polyad"), record["model"]


def _table(by_model: dict[str, list[dict[str, Any]]], measured: Array, tile: Array) -> str:
    resampled = _resampled(by_model, measured, tile)
    leader = max(
        (m for m in by_model if m.startswith("polyad")), key=lambda m: _mean(by_model[m], measured)
    )
    lines = []
    for model, rows in by_model.items():
        scores = [_score(r, measured, tile) for r in rows]
        low, high = np.quantile(resampled[model], [0.025, 0.975])
        ahead = float((resampled[leader] > resampled[model]).mean())
        lines.append(
            [
                f"**{model}**" if model.startswith("polyad") else model,
                _seeds(rows),
                spread([s.r2 for s in scores], 1, 3),
                f"{low:.2f} to {high:.2f}",
                f"{np.mean([s.rmse for s in scores]):.3f}",
                f"{np.mean([s.mae for s in scores]):.3f}",
                f"{np.mean([s.bias for s in scores]):+.3f}",
                "" if model == leader else f"{100 * ahead:.0f} %",
                f"{np.mean([r['seconds'] for r in rows]):.1f}",
            ]
        )
    head = ["model", "seeds", "R2", "95 % interval", "RMSE", "MAE", "bias", "ahead", "s"]
    return table(head, lines)


def _notes(by_model: dict[str, list[dict[str, Any]]], measured: Array, tile: Array) -> str:
    """Return what follows from the table, in words."""
    means = {m: _mean(rows, measured) for m, rows in by_model.items()}
    ours = max((m for m in means if m.startswith("polyad")), key=lambda m: means[m])
    other = max((m for m in means if not m.startswith("polyad")), key=lambda m: means[m])
    resampled = _resampled(by_model, measured, tile)
    low, high = np.quantile(resampled[ours] - resampled[other], [0.025, 0.975])
    verdict = "which holds zero" if low < 0 < high else "which does not hold zero"
    return (
        f"The best row of polyad is *{ours}* with {means[ours]:.3f}, the best other one "
        f"*{other}* with {means[other]:.3f}; the difference has the "
        f"interval {low:+.3f} to {high:+.3f} over tiles, {verdict}."
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
