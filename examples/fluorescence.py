"""Fluorescence: where a reaction ends, from its first readings; a regression on order-3 tensors.

    python examples/fluorescence.py

64 mixtures of catecholamines were read at 12 emission and 10 excitation wavelengths, 60 times in
20 minutes (Nikolajsen et al. 2003; it comes with TensorLy, without the concentrations). So the
question here is another one: from the readings of the first minutes, what is the mean intensity at
the end? Rank-R stands next to ridge regression and partial least squares on the flattened readings,
on the same repeated folds.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import RepeatedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tensorly.datasets.data_imports import load_kinetic

from polyad import RankRRegressor


def flatten(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def main(argv: list[str] | None = None) -> dict[tuple[int, str], float]:
    parser = argparse.ArgumentParser(description="Rank-R network on fluorescence")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    readings = np.asarray(load_kinetic().tensor)  # (mixture, emission, excitation, time)
    y = readings[..., -1].mean(axis=(1, 2))
    line = [FunctionTransformer(flatten), StandardScaler()]
    models = {
        "ridge": make_pipeline(*line, RidgeCV(np.logspace(-3, 5, 17))),
        "partial least squares": make_pipeline(*line, PLSRegression(8)),
        "Rank-1 network": RankRRegressor(1, random_state=0),
        "Rank-3 network": RankRRegressor(3, random_state=0),
    }
    folds = RepeatedKFold(n_splits=4, n_repeats=options.repeats, random_state=0)
    found: dict[tuple[int, str], float] = {}
    print(f"64 mixtures, target {y.mean():.0f} +- {y.std():.0f}; R2 of mixtures held out\n")
    for moments in (3, 10):
        X = readings[..., :moments]
        print(f"readings of the first {moments / 3:.1f} min, {' x '.join(map(str, X.shape[1:]))}")
        for name, model in models.items():
            scores = cross_val_score(model, X, y, cv=folds, scoring="r2")
            found[moments, name] = float(scores.mean())
            print(f"  {name:<22}{scores.mean():6.3f} +- {scores.std():.3f}")
    return found


if __name__ == "__main__":
    main()
