"""Default estimators on tensors of every kind, beside plain models with their defaults.

    python -m benchmarks.tensors [--seeds 10] [--aeon WHEEL] [--potsdam FOLDER]

Appends one JSON line per (data, protocol, seed, model) to docs/results/tensors.jsonl, skips what
is there, and writes docs/results/tensors.md from the lines. Rules were settled on seeds 100 and
up; the page shows seeds from 0 on. The wheel comes from `pip download aeon --no-deps`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.tensors_data import Array, digits, made, potsdam, serology, time_series
from benchmarks.tensors_page import write_page
from polyad import RankRClassifier, RankRRegressor
from polyad.estimators.defaults import WINDOWS

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "docs/results/tensors.jsonl"
TEN, ALL = "ten labels per class", "five folds, all labels"
FOLD_SEEDS = 5  # every seed of the folds fits five times
Model = Callable[[int], Any]
Split = tuple[Array, Array]


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _searched(model: Any, seed: int, **grid: Any) -> Any:
    folds = KFold(5, shuffle=True, random_state=seed)
    return _scaled(GridSearchCV(model, grid, cv=folds))


CLASSIFIERS: dict[str, Model] = {
    "default": lambda seed: RankRClassifier(random_state=seed),
    "before": lambda seed: RankRClassifier(**WINDOWS, random_state=seed),
    "logistic regression": lambda _: _scaled(LogisticRegression()),
    "SVC": lambda _: _scaled(SVC()),
    "MLP": lambda seed: _scaled(MLPClassifier(random_state=seed)),
}
REGRESSORS: dict[str, Model] = {
    "default": lambda seed: RankRRegressor(random_state=seed),
    "before": lambda seed: RankRRegressor(**WINDOWS, random_state=seed),
    "ridge": lambda _: _scaled(RidgeCV(np.logspace(-3, 5, 17))),
    "PLS": lambda seed: _searched(PLSRegression(), seed, n_components=list(range(1, 16))),
    "SVR": lambda seed: _searched(SVR(epsilon=0.05), seed, C=[0.1, 1, 10, 100]),
    "forest": lambda seed: RandomForestRegressor(200, max_features="sqrt", random_state=seed),
}
OURS = ("default", "before")


def splits(y: Array, protocol: str, seed: int) -> Iterator[Split]:
    """Yield training and test samples: ten of each class and the rest, or five folds."""
    if protocol == ALL:
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        yield from folds.split(np.zeros(len(y)), y)
        return
    order = np.random.default_rng(seed).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:10] for c in np.unique(y)])
    yield train, np.setdiff1d(order, train)


def tile_splits(tile: Array, seed: int, folds: int = 7) -> Iterator[Split]:
    """Yield folds of whole tiles."""
    tiles = np.random.default_rng(seed).permutation(np.unique(tile))
    for held in np.array_split(tiles, folds):
        test = np.isin(tile, held)
        yield np.flatnonzero(~test), np.flatnonzero(test)


def outcome(name: str, model: Model, X: Array, y: Array, cuts: list[Split], seed: int) -> Any:
    """Return the predictions for all that was held out, with processor seconds per fit."""
    X = X if name in OURS else X.reshape(len(X), -1)
    predicted, seconds = [], 0.0
    settings: list[Any] = []
    for train, test in cuts:
        started = time.process_time()
        fitted = model(seed).fit(X[train], y[train])
        seconds += time.process_time() - started
        predicted.append(np.ravel(fitted.predict(X[test])))
        if name in OURS:
            chosen = fitted.settings_
            pull = round(chosen["penalty"] * len(train), 2)
            settings.append([chosen["standardize"], chosen["whiten"], pull])
    values, truth = np.concatenate(predicted), np.concatenate([y[test] for _, test in cuts])
    score = (values == truth).mean() if y.dtype.kind != "f" else r2_score(truth, values)
    row = {"model": name, "score": round(float(score), 5), "seconds": seconds / len(cuts)}
    return row | ({"settings": settings} if settings else {})


def run(
    data: str,
    protocol: str,
    seed: int,
    X: Array,
    y: Array,
    cuts: list[Split],
    models: dict[str, Model],
) -> None:
    """Append what every model reaches and has no record of yet."""
    head = {"data": data, "protocol": protocol, "seed": seed}
    done = {r["model"] for r in read_records() if {k: r[k] for k in head} == head}
    for name, model in models.items():
        if name in done:
            continue
        row = head | outcome(name, model, X, y, cuts, seed)
        with RECORDS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(*head.values(), name, row["score"], file=sys.stderr, flush=True)


def read_records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Return all whole lines of the record file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--aeon", type=Path, help="aeon's wheel, for its time series")
    parser.add_argument("--potsdam", type=Path, help="folder with the EnMAP scene of Potsdam")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.page_only:
        classify(options.seeds, options.aeon)
        regress(options.seeds, options.potsdam)
        classify_many(options.seeds)
    write_page(read_records(), ROOT / "docs/results/tensors.md")


def classify(seeds: int, aeon: Path | None) -> None:
    """Run every set of classes that is at hand."""
    sets = {
        "digits": digits(),
        "serology: infected or not": serology("infected"),
        "serology: course of the illness": serology("course"),
    }
    if aeon is None:
        print("BasicMotions and JapaneseVowels are skipped: pass aeon's wheel as --aeon")
    else:
        sets |= {name: time_series(aeon, name) for name in ("BasicMotions", "JapaneseVowels")}
    for data, (X, y) in sets.items():
        for seed in range(seeds):
            for protocol in (TEN, ALL) if seed < FOLD_SEEDS else (TEN,):
                run(data, protocol, seed, X, y, list(splits(y, protocol, seed)), CLASSIFIERS)


def classify_many(seeds: int) -> None:
    """Run a made problem of many samples; SVC, which takes minutes there, is left out."""
    models = {name: model for name, model in CLASSIFIERS.items() if name != "SVC"}
    for seed in range(min(seeds, 2)):
        X, y = made(seed)
        cut = np.arange(20_000), np.arange(20_000, len(y))
        run("made, 8 x 16", "20,000 samples", seed, X, y, [cut], models)


def regress(seeds: int, folder: Path | None) -> None:
    """Run the vegetation fractions, on spectra and on windows."""
    if folder is None:
        print("Vegetation fractions are skipped: pass the folder of the scene as --potsdam")
        return
    data = potsdam(folder)
    for seed in range(min(seeds, FOLD_SEEDS)):
        cuts = list(tile_splits(data.tile, seed))
        for name, X in (("spectra", data.spectra), ("windows", data.windows)):
            title = f"vegetation fraction, {name}"
            run(title, "folds of tiles", seed, X, data.fraction, cuts, REGRESSORS)


if __name__ == "__main__":
    main()
