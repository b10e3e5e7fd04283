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

# Classifying ten thousand test pixels costs less than an epoch of a Rank-R network, but several
# epochs of the CNN or the dense network: their late epochs are looked at less often.
ALWAYS: Schedule = ((1, 10**9, 1),)
SELDOM: Schedule = ((1, 20, 1), (25, 100, 5), (110, 10**9, 10))


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
    schedule: Schedule = ALWAYS
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
        >>> MODELS["cnn"].evaluated(33)[18:]
        [19, 20, 25, 30, 33]
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
        "CNN",
        "layers as in the paper, which names neither activation nor optimizer",
        CNNClassifier,
        _CNN,
        schedule=SELDOM,
        cost=8e-3,
    ),
    "dense": Model(
        "Dense FNN",
        "one hidden layer on the flattened patch, Xavier start",
        DenseClassifier,
        _DENSE,
        schedule=SELDOM,
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
    >>> known("model", "cnn", MODELS).title
    'CNN'
    """
    if name not in table:
        raise InputError(f"{name!r} is no known {what}; known are {', '.join(table)}")
    return table[name]
