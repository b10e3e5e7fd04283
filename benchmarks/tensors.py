"""Default estimators on tensors of order 1 to 4, beside models of scikit-learn on the same folds.

    python -m benchmarks.tensors --aeon WHEEL --sktime WHEEL [--potsdam FOLDER] [--seeds 3]
    python -m benchmarks.tensors --page

Appends one JSON line per (data, seed, model) to docs/results/tensors.jsonl, skips what is there,
and writes docs/results/tensors.md from the lines. Rules were chosen on seeds 100 and up. The wheels
come from ``pip download --no-deps aeon==1.6.0 sktime==1.2.0``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.tensors_data import Array, data_sets, potsdam
from polyad import RankRClassifier, RankRRegressor
from polyad.threads import limit_threads

ROOT = Path(__file__).parent.parent
RECORDS, PAGE = ROOT / "docs/results/tensors.jsonl", ROOT / "docs/results/tensors.md"
OURS, LINEAR = "polyad", "logistic / ridge"
Model = Callable[[int], Any]
Split = tuple[Array, Array]
Records = Sequence[dict[str, Any]]


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


# A classifier and a regressor each, with scikit-learn's defaults
MODELS: dict[str, tuple[Model, Model]] = {
    OURS: (
        lambda seed: RankRClassifier(random_state=seed),
        lambda seed: RankRRegressor(random_state=seed),
    ),
    LINEAR: (
        lambda _: _scaled(LogisticRegression(max_iter=1000)),
        lambda _: _scaled(RidgeCV(np.logspace(-3, 5, 17))),
    ),
    "SVM": (lambda _: _scaled(SVC()), lambda _: _scaled(SVR())),
    "MLP": (
        lambda seed: _scaled(MLPClassifier(random_state=seed)),
        lambda seed: _scaled(MLPRegressor(random_state=seed)),
    ),
    "random forest": (
        lambda seed: RandomForestClassifier(random_state=seed),
        lambda seed: RandomForestRegressor(random_state=seed),
    ),
    "gradient boosting": (
        lambda seed: HistGradientBoostingClassifier(random_state=seed),
        lambda seed: HistGradientBoostingRegressor(random_state=seed),
    ),
}


def splits(y: Array, seed: int) -> list[Split]:
    """Return five folds, of classes in equal shares."""
    folds = (KFold if y.dtype.kind == "f" else StratifiedKFold)(5, shuffle=True, random_state=seed)
    return list(folds.split(np.zeros(len(y)), y))


def tile_splits(tile: Array, seed: int, folds: int = 7) -> Iterator[Split]:
    """Yield folds of whole tiles."""
    tiles = np.random.default_rng(seed).permutation(np.unique(tile))
    for held in np.array_split(tiles, folds):
        test = np.isin(tile, held)
        yield np.flatnonzero(~test), np.flatnonzero(test)


def outcome(name: str, X: Array, y: Array, cuts: list[Split], seed: int) -> dict[str, Any]:
    """Return a model's score on all that was held out, and processor seconds per fit."""
    regression = y.dtype.kind == "f"
    model = MODELS[name][regression]
    X = X if name == OURS else X.reshape(len(X), -1)
    predicted, seconds = np.empty_like(y), 0.0
    chosen = []
    for train, test in cuts:
        started = time.process_time()
        fitted = model(seed).fit(X[train], y[train])
        seconds += time.process_time() - started
        predicted[test] = fitted.predict(X[test])
        if name == OURS:
            chosen.append([fitted.settings_["rank"], fitted.settings_["linear"]])
    score = r2_score(y, predicted) if regression else (predicted == y).mean()
    row = {"score": round(float(score), 5), "seconds": round(seconds / len(cuts), 3)}
    return row | ({"chosen": chosen} if chosen else {})


def run(data: str, seed: int, X: Array, y: Array, cuts: list[Split]) -> None:
    """Append what every model reaches and has no record of yet."""
    order = X.ndim - 1
    head = {"data": data, "order": order, "regression": y.dtype.kind == "f", "seed": seed}
    done = {r["model"] for r in read_records() if (r["data"], r["seed"]) == (data, seed)}
    for name in MODELS:
        if name not in done:
            row = head | {"model": name} | outcome(name, X, y, cuts, seed)
            with RECORDS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(data, seed, name, row["score"], row["seconds"], file=sys.stderr, flush=True)


def read_records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Return all whole lines of the record file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


# -- the page ---------------------------------------------------------------------------------

INTRO = """# Defaults on tensors of order 1 to 4

`RankRClassifier()` and `RankRRegressor()` without a parameter, beside models of scikit-learn with
their defaults on flattened, standardized samples (ridge chooses among 17 strengths). Made by

<!-- not run: half an hour, and it needs files that are fetched by hand -->
```sh
pip download --no-deps aeon==1.6.0 sktime==1.2.0
python -m benchmarks.tensors --aeon aeon-1.6.0-py3-none-any.whl \\
    --sktime sktime-1.2.0-py3-none-any.whl --potsdam enmap_potsdam
```

from [records](tensors.jsonl). Five folds, the same for all models; accuracy in %, or 100 R² of all
predictions together, mean ± standard deviation over seeds {seeds}. The rules behind the defaults
were chosen on seeds 100 and up, on the same data sets except *Indian Pines, profiles*: no fit sees
a test label, but these are not data that the defaults have never met.
"""


def page(records: Records) -> str:
    """Return the page of the records."""
    data = list(dict.fromkeys(r["data"] for r in records))
    data.sort(key=lambda d: _of(records, d)[0]["order"])
    seeds = sorted({r["seed"] for r in records})
    parts = [INTRO.format(seeds=f"{seeds[0]} to {seeds[-1]}"), summary(records, data)]
    names = [f"`{OURS}`" if m == OURS else m for m in MODELS]
    lines = [f"| data | order | {' | '.join(names)} |", "|---|---:" + "|---:" * len(MODELS) + "|"]
    for d in data:
        own = _of(records, d)
        best = max(_mean(own, m) for m in MODELS)
        cells = [_cell(own, m, best) for m in MODELS]
        lines.append(f"| {d} | {own[0]['order']} | {' | '.join(cells)} |")
    parts += ["## Scores\n", "\n".join(lines) + "\n", "The best of a row is in bold.\n"]
    lines = ["| data | " + " | ".join(names) + " | rank, linear share |"]
    lines += ["|---" + "|---:" * len(MODELS) + "|---|"]
    for d in data:
        own = _of(records, d)
        times = [f"{np.median([r['seconds'] for r in own if r['model'] == m]):.2f}" for m in MODELS]
        picks = [tuple(c) for r in own if r["model"] == OURS for c in r["chosen"]]
        ranks = "/".join(str(r) for r in sorted({r for r, _ in picks}))
        share = np.mean([s for _, s in picks])
        lines.append(f"| {d} | {' | '.join(times)} | {ranks}, {share:.2f} |")
    about = (
        "Median seconds of one fit (processor time, one thread), the ranks that the default chose, "
        "and the mean share of its linear part.\n"
    )
    return "\n".join([*parts, "## Time and choices\n", about, "\n".join(lines), ""])


def summary(records: Records, data: list[str]) -> str:
    """Return the table of mean ranks, wins and the worst distance from the linear model."""
    lines = ["| | mean rank, order ≥ 2 | wins | mean rank, order 1 | wins | worst against linear |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for m in MODELS:
        cells = []
        for high in (True, False):
            ranks = [_rank(_of(records, d), m) for d in data if _is_high(records, d) == high]
            cells += [f"{np.mean(ranks):.2f}", f"{sum(r == 1 for r in ranks)} of {len(ranks)}"]
        gaps = [(_mean(_of(records, d), m) - _mean(_of(records, d), LINEAR), d) for d in data]
        worst = min(gaps)
        cells.append("" if m == LINEAR else f"{100 * worst[0]:+.1f} ({worst[1]})")
        lines.append(f"| {f'`{m}`' if m == OURS else m} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _of(records: Records, data: str) -> Records:
    return [r for r in records if r["data"] == data]


def _is_high(records: Records, data: str) -> bool:
    return bool(_of(records, data)[0]["order"] > 1)


def _mean(records: Records, model: str) -> float:
    return float(np.mean([r["score"] for r in records if r["model"] == model]))


def _rank(records: Records, model: str) -> float:
    """Return the rank of a model's mean score, 1 for the best; equal scores share theirs."""
    own, all_means = _mean(records, model), [_mean(records, m) for m in MODELS]
    return 1 + sum(v > own for v in all_means) + 0.5 * (sum(v == own for v in all_means) - 1)


def _cell(records: Records, model: str, best: float) -> str:
    scores = 100 * np.array([r["score"] for r in records if r["model"] == model])
    if scores.mean() < -1000:
        return "below -1000"
    text = f"{scores.mean():.1f} ± {scores.std(ddof=1) if len(scores) > 1 else 0:.1f}"
    return f"**{text}**" if _mean(records, model) == best else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--aeon", type=Path, help="aeon's wheel, for its time series")
    parser.add_argument("--sktime", type=Path, help="sktime's wheel, for its spectra")
    parser.add_argument("--potsdam", type=Path, help="folder with the EnMAP scene of Potsdam")
    parser.add_argument("--page", action="store_true", help="write the page from the records only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.page:
        with limit_threads(1):
            for seed in range(options.seeds):
                for name, (_, load) in data_sets(options.aeon, options.sktime).items():
                    X, y = load()
                    run(name, seed, X, y, splits(y, seed))
                if options.potsdam is not None:
                    data = potsdam(options.potsdam)
                    cuts = list(tile_splits(data.tile, seed))
                    run("vegetation fraction", seed, data.windows, data.fraction, cuts)
    PAGE.write_text(page(read_records()))


if __name__ == "__main__":
    main()
