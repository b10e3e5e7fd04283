"""The rows of the tables: each model with its settings, written out in full.

The settings are part of a run's hash, so that they are spelled here and not taken from the
estimators' defaults: a new default would otherwise silently make old records mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from polyad.baselines import CNNClassifier, DenseClassifier, PatchSVC
from polyad.errors import InputError
from polyad.estimators import RankRClassifier

T = TypeVar("T")

# First epoch, last epoch and step of the epochs after which the test pixels are classified.
Schedule = tuple[tuple[int, int, int], ...]

# Curves are drawn over the logarithm of the epoch. Classifying the 42,000 test pixels of Pavia
# University costs ten epochs of a Rank-R network: after each of 500 that would be most of a run.
CURVE: Schedule = ((1, 10, 1), (12, 20, 2), (25, 50, 5), (60, 100, 10), (125, 10**9, 25))


@dataclass(frozen=True)
class Model:
    """One model of the tables.

    Attributes
    ----------
    title : str
    about : str
        What the settings do not say.
    make : callable
        Makes the estimator from the settings, ``random_state`` and, if iterative, ``epochs``.
    settings : mapping
    iterative : bool
        Whether it has epochs, and a curve.
    schedule : Schedule
    cost : float
        Rough seconds of one epoch for one label per class; only for the expected end.
    """

    title: str
    about: str
    make: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    iterative: bool = True
    schedule: Schedule = CURVE
    cost: float = 1e-3

    def estimator(self, epochs: int, seed: int) -> Any:
        """Return a fresh estimator."""
        count = {"epochs": epochs} if self.iterative else {}
        return self.make(**self.settings, **count, random_state=seed)

    def evaluated(self, epochs: int) -> list[int]:
        """Return the epochs after which the test pixels are classified; the last always is.

        Examples
        --------
        >>> MODELS["rank-1"].evaluated(4)
        [1, 2, 3, 4]
        >>> MODELS["cnn"].evaluated(33)[9:]
        [10, 12, 14, 16, 18, 20, 25, 30, 33]
        """
        if not self.iterative:
            return []
        picked = {
            epoch
            for first, last, step in self.schedule
            for epoch in range(first, min(last, epochs) + 1, step)
        }
        return sorted(picked | {epochs} | ({50} if epochs >= 50 else set()))


# Algorithm 1 as the published code runs it; the paper's text names hidden units and window only.
_PAPER = {
    "hidden": 75,
    "solver": "alternating",
    "activation": "tanh",
    "start": "xavier",
    "hidden_bias": False,
    "learning_rate": 5e-4,
    "weight_decay": 0.0,
    "batch_size": 65,
    "inner_steps": 10,
    "standardize": -1,
    "patience": None,
}
_CNN = {
    "kernels": [150, 300],
    "hidden": 75,
    "activation": "tanh",
    "optimizer": "sgd",
    "learning_rate": 0.001,
    "batch_size": 65,
}
# Chosen on folds of training labels: `python -m benchmarks.cnn_tuning`, docs/results/cnn-tuning.md
_CNN_TUNED = _CNN | {"activation": "relu", "optimizer": "adam", "learning_rate": 0.002}
_DENSE = {
    "hidden": 75,
    "activation": "tanh",
    "optimizer": "adam",
    "learning_rate": 5e-4,
    "batch_size": 65,
}

MODELS: dict[str, Model] = {
    **{
        f"rank-{rank}": Model(
            f"Rank-{rank} FNN",
            "Algorithm 1 as the published code runs it",
            RankRClassifier,
            {"rank": rank, **_PAPER},
            cost=1e-3 + 5e-4 * rank,
        )
        for rank in range(1, 6)
    },
    "cnn": Model(
        "CNN, as the paper describes it",
        "layers as in the paper, which names neither activation nor optimizer; set to learn as "
        "slowly as its CNN",
        CNNClassifier,
        _CNN,
        cost=8e-3,
    ),
    "cnn-tuned": Model(
        "CNN, tuned",
        "the same layers; activation, optimizer and learning rate chosen on folds of the training "
        "labels of other seeds",
        CNNClassifier,
        _CNN_TUNED,
        cost=8e-3,
    ),
    "dense": Model(
        "Dense FNN",
        "one hidden layer on the flattened patch, Xavier start",
        DenseClassifier,
        _DENSE,
        cost=3e-3,
    ),
    **{
        f"svm-{features}": Model(
            f"SVM, {features.replace('-', ' ')}",
            "RBF kernel on standardized features; C and gamma by cross-validation within the "
            "training pixels",
            PatchSVC,
            {"features": features},
            iterative=False,
            cost=2e-3,
        )
        for features in ("spectrum", "patch-mean")
    },
}
RANKS = tuple(name for name in MODELS if name.startswith("rank-"))


def known(what: str, name: str, table: Mapping[str, T]) -> T:
    """Return the row called ``name`` of a table, or list the names there are.

    Examples
    --------
    >>> known("model", "cnn-tuned", MODELS).title
    'CNN, tuned'
    """
    if name not in table:
        raise InputError(f"{name!r} is no known {what}; known are {', '.join(table)}")
    return table[name]
