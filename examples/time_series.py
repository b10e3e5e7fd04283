"""Multivariate time series: BasicMotions and JapaneseVowels, channels by time.

    pip install aeon
    python examples/time_series.py

Both sets come inside of the package aeon and need no network. Series of different lengths end in
zeros. Models are fitted on the training series that the sets name and scored on their test series;
Rank-R stands next to logistic regression, a random forest and the nearest neighbor on the flattened
series.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from polyad import RankRClassifier

SETS = ("BasicMotions", "JapaneseVowels")


def flatten(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def read(path: Path) -> tuple[list[list[np.ndarray]], list[str]]:
    """Return the channels of every series of a ``.ts`` file, and their classes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.strip().lower() == "@data")
    rows = [line.strip().split(":") for line in lines[first + 1 :] if line.strip()]
    series = [[np.array(channel.split(","), float) for channel in row[:-1]] for row in rows]
    return series, [row[-1] for row in rows]


def as_tensor(series: list[list[np.ndarray]], length: int) -> np.ndarray:
    X = np.zeros((len(series), len(series[0]), length))
    for i, channels in enumerate(series):
        for j, values in enumerate(channels):
            X[i, j, : len(values)] = values[:length]
    return X


def main(argv: list[str] | None = None) -> dict[tuple[str, str], float]:
    parser = argparse.ArgumentParser(description="Rank-R network on multivariate time series")
    parser.add_argument("--data", type=Path, help="folder with the sets; by default that of aeon")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(argv)
    folder = options.data
    if folder is None:
        spec = find_spec("aeon")  # not imported: that takes seconds
        if spec is None or spec.origin is None:
            raise SystemExit("the series come with aeon; install it with: pip install aeon")
        folder = Path(spec.origin).parent / "datasets" / "data"
    found: dict[tuple[str, str], float] = {}
    for name in SETS:
        (train, y), (test, truth) = (
            read(folder / name / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")
        )
        length = max(len(c) for series in train for c in series)
        X, Z = as_tensor(train, length), as_tensor(test, length)
        print(f"\n{name}: {len(X)} to train on, {len(Z)} to test, {X.shape[1]} x {X.shape[2]}")
        for model_name, make in MODELS.items():
            scores = [make(s).fit(X, y).score(Z, truth) for s in range(options.seeds)]
            found[name, model_name] = float(np.mean(scores))
            print(f"  {model_name:<22}{100 * np.mean(scores):6.1f} +- {100 * np.std(scores):.1f}")
    return found


LINE = (FunctionTransformer(flatten), StandardScaler())
MODELS = {
    "logistic regression": lambda _: make_pipeline(*LINE, LogisticRegression(max_iter=5000)),
    "random forest": lambda seed: make_pipeline(*LINE, RandomForestClassifier(random_state=seed)),
    "nearest neighbor": lambda _: make_pipeline(*LINE, KNeighborsClassifier(1)),
    "Rank-1 network": lambda seed: RankRClassifier(1, random_state=seed),
    "Rank-3 network": lambda seed: RankRClassifier(3, random_state=seed),
}

if __name__ == "__main__":
    main()
