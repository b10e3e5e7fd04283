"""Default estimators on tensors of order 1 to 4, beside models of scikit-learn on the same folds.

    python -m benchmarks.tensors --aeon WHEEL --sktime WHEEL [--potsdam FOLDER] [--seeds 3]
    python -m benchmarks.tensors --page

Appends one JSON line per (data, seed, model) to docs/results/tensors.jsonl, skips what is there,
and writes docs/results/tensors.md from the lines. Rules were chosen on seeds 100 and up. The wheels
come from ``pip download --no-deps aeon==1.6.0 sktime==1.2.0``.
"""

from __future__ import annotations

import argparse
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

from benchmarks.harness import RESULTS, chosen, fill, read_records, resume, table
from benchmarks.tensors_data import Array, data_sets, potsdam
from polyad import RankRClassifier, RankRRegressor
from polyad.threads import limit_threads

RECORDS, PAGE = RESULTS / "tensors.jsonl", RESULTS / "tensors.md"
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
    head = {"data": data, "order": X.ndim - 1, "regression": y.dtype.kind == "f", "seed": seed}
    cases = [head | {"model": name} for name in MODELS]
    resume(RECORDS, cases, lambda model, **_: outcome(model, X, y, cuts, seed))


# -- the page ---------------------------------------------------------------------------------


def parts() -> dict[str, str]:
    """Return the tables of the page: summary, scores, times and choices."""
    records = read_records(RECORDS)
    data = list(dict.fromkeys(r["data"] for r in records))
    data.sort(key=lambda d: _of(records, d)[0]["order"])
    names = [f"`{OURS}`" if m == OURS else m for m in MODELS]
    scores, times = [], []
    for d in data:
        own = _of(records, d)
        best = max(_mean(own, m) for m in MODELS)
        scores.append([d, str(own[0]["order"]), *(_cell(own, m, best) for m in MODELS)])
        cells = [f"{np.median([r['seconds'] for r in chosen(own, model=m)]):.2f}" for m in MODELS]
        picks = [tuple(c) for r in chosen(own, model=OURS) for c in r["chosen"]]
        ranks = "/".join(str(r) for r in sorted({r for r, _ in picks}))
        times.append([d, *cells, f"{ranks}, {np.mean([s for _, s in picks]):.2f}"])
    right = [f"{name}:" for name in names]
    return {
        "summary": summary(records, data),
        "scores": table(["data", "order:", *right], scores),
        "times": table(["data", *right, "rank, linear share"], times),
    }


def summary(records: Records, data: list[str]) -> str:
    """Return the table of mean ranks, wins and the worst distance from the linear model."""
    lines = []
    for m in MODELS:
        cells = []
        for high in (True, False):
            of_order = [own for d in data if ((own := _of(records, d))[0]["order"] > 1) == high]
            ranks = [_rank(own, m) for own in of_order]
            cells += [f"{np.mean(ranks):.2f}", f"{sum(r == 1 for r in ranks)} of {len(ranks)}"]
        worst = min((_mean(_of(records, d), m) - _mean(_of(records, d), LINEAR), d) for d in data)
        cells.append("" if m == LINEAR else f"{100 * worst[0]:+.1f} ({worst[1]})")
        lines.append([f"`{m}`" if m == OURS else m, *cells])
    head = ["mean rank, order ≥ 2", "wins", "mean rank, order 1", "wins", "worst against linear"]
    return table(["", *(f"{name}:" for name in head)], lines)


def _of(records: Records, data: str) -> Records:
    return [r for r in records if r["data"] == data]


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
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
