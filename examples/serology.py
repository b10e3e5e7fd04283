"""COVID-19 serology: the class of a subject from a 6 x 11 table of antibody measurements.

    python examples/serology.py

Each of 438 samples is a matrix, antigens by receptors (Zohar et al. 2020, arranged by Tan et al.
2021; it comes with TensorLy). Two questions are asked of it: was the subject infected at all, and
how did the illness go? Rank-R networks stand next to logistic regression on the flattened table,
on the same repeated, stratified folds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tensorly.datasets import load_covid19_serology

from polyad import RankRClassifier


def flatten(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def questions() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return question -> (X, y)."""
    data = load_covid19_serology()
    X, group = np.asarray(data.tensor), np.asarray(data.ticks[0])
    ill = ~np.isin(group, ["Negative", "Mild"])  # seven mild cases are too few to cross-validate
    return {
        "infected or not": (X, np.where(group == "Negative", "negative", "infected")),
        "moderate, severe or deceased": (X[ill], group[ill]),
    }


def main(argv: list[str] | None = None) -> dict[tuple[str, str], float]:
    parser = argparse.ArgumentParser(description="Rank-R network on COVID-19 serology")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    models = {
        "logistic regression": make_pipeline(
            FunctionTransformer(flatten),
            StandardScaler(),
            LogisticRegression(class_weight="balanced", max_iter=5000),
        ),
        "Rank-1 network": RankRClassifier(1, class_weight="balanced", random_state=0),
        "Rank-3 network": RankRClassifier(3, class_weight="balanced", random_state=0),
    }
    folds = RepeatedStratifiedKFold(
        n_splits=options.folds, n_repeats=options.repeats, random_state=0
    )
    accuracies: dict[tuple[str, str], float] = {}
    for question, (X, y) in questions().items():
        names, counts = np.unique(y, return_counts=True)
        print(f"\n{question}: {', '.join(f'{n} {c}' for n, c in zip(names, counts, strict=True))}")
        print(f"  {'guessing the largest class':<28}balanced {1 / len(names):6.1%}")
        for name, model in models.items():
            started = time.perf_counter()
            result = cross_validate(
                model, X, y, cv=folds, scoring=("balanced_accuracy", "accuracy")
            )
            balanced, plain = result["test_balanced_accuracy"], result["test_accuracy"]
            accuracies[question, name] = float(balanced.mean())
            # spread over repeats of the whole cross-validation, not over folds
            spread = balanced.reshape(options.repeats, options.folds).mean(axis=1).std()
            print(
                f"  {name:<28}balanced {balanced.mean():6.1%} +- {spread:.1%}   "
                f"plain {plain.mean():6.1%}   {time.perf_counter() - started:5.1f} s"
            )
    return accuracies


if __name__ == "__main__":
    main()
