"""Order-4 samples with a known answer: the class is the sign of a multilinear form.

    python examples/order4.py

A sample is a 6 x 6 x 6 x 6 tensor of white noise. Its class is the sign of ``<W, X>`` where W has
CP rank one or two, so the best possible classifier is known (it is right always), and so is the
number of weights it needs: ``rank * (6 + 6 + 6 + 6)``. A linear model on the flattened tensor could
hold the same answer, but has 1296 weights to learn from the same few samples.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from polyad import RankRClassifier

SHAPE = (6, 6, 6, 6)


def make_weight(rank: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a weight tensor of the given CP rank and unit norm."""
    factors = [rng.normal(size=(rank, size)) for size in SHAPE]
    weight = np.einsum("ra,rb,rc,rd->abcd", *factors)
    return weight / np.linalg.norm(weight)


def agreement(model: RankRClassifier, weight: np.ndarray) -> float:
    """Return the cosine between ``weight`` and the linear map that the network came to be."""
    dense = model.network_.hidden.to_dense().weight.detach().numpy()  # (hidden, 1296)
    slope = np.diff(model.network_.output.weight.detach().numpy(), axis=0)[0]  # second minus first
    direction = slope @ dense
    return float(direction @ weight.ravel() / np.linalg.norm(direction))


def main(argv: list[str] | None = None) -> dict[tuple[int, int, str], float]:
    parser = argparse.ArgumentParser(description="Rank-R network on made order-4 tensors")
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 400, 800])
    parser.add_argument("--tests", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    accuracies: dict[tuple[int, int, str], float] = {}
    for true_rank in (1, 2):
        rng = np.random.default_rng(options.seed)
        weight = make_weight(true_rank, rng)
        X_test = rng.normal(size=(options.tests, *SHAPE))
        y_test = np.einsum("nabcd,abcd->n", X_test, weight) > 0
        print(f"\nclass = sign <W, X>, W of rank {true_rank}; best possible 100 %, guessing 50 %")
        for n in options.samples:
            X = rng.normal(size=(n, *SHAPE))
            y = np.einsum("nabcd,abcd->n", X, weight) > 0
            started = time.perf_counter()
            linear = GridSearchCV(
                LogisticRegression(max_iter=2000), {"C": np.logspace(-4, 1, 6)}, cv=5
            ).fit(X.reshape(n, -1), y)
            middle = time.perf_counter()
            model = RankRClassifier(
                true_rank, hidden=4, activation="identity", standardize=None, random_state=0
            ).fit(X, y)
            done = time.perf_counter()
            flat = linear.score(X_test.reshape(-1, 6**4), y_test)
            accuracies[true_rank, n, "logistic"] = flat
            ours = accuracies[true_rank, n, "rank-r"] = model.score(X_test, y_test)
            print(
                f"  {n:>5} labels   logistic regression {flat:6.1%} ({middle - started:5.1f} s)   "
                f"Rank-{true_rank} network {ours:6.1%} ({done - middle:4.1f} s), "
                f"cosine to W {agreement(model, weight):.2f}"
            )
    return accuracies


if __name__ == "__main__":
    main()
