"""How models of the page are fitted: its settings, and fits that can be ended."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.recipe import check_preset

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """How models are fitted: the options of ``polyad train``."""

    window: int | None = None
    random_state: int = 0
    preset: str = "best"
    goal: str = "this-scene"
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_preset(self.preset, self.goal)


class Outdated(Exception):
    """The labels changed while a model was fitted to the old ones."""


class InterruptibleClassifier:
    """A classifier that `train` can fit and that calls ``check`` after every step of its fit.

    Parameters
    ----------
    classifier : RankRClassifier
    check : callable
        Raises `Outdated` to end the fit.
    warm_epochs : int
        Continue from where the classifier is for this many epochs; 0 fits from scratch.
    """

    def __init__(
        self, classifier: RankRClassifier, check: Callable[[], None], warm_epochs: int = 0
    ) -> None:
        self.classifier = classifier
        self._check = check
        self._warm_epochs = warm_epochs

    def fit(self, X: Array, y: Array) -> Self:
        """Fit from scratch or continue."""
        if not self._warm_epochs:
            self.classifier.fit(X, y, on_epoch=lambda *_: self._check())
        for _ in range(self._warm_epochs):
            self.classifier.partial_fit(X, y)
            self._check()
        return self

    @property
    def classes_(self) -> Array:
        """Class ids."""
        return self.classifier.classes_


def warm_up() -> None:
    """Fit something tiny, so that no click waits for what torch loads at the first fit."""
    X = np.arange(24, dtype=np.float32).reshape(4, 1, 1, 6)
    tiny = RankRClassifier(hidden=2, epochs=1, random_state=0).fit(X, np.array([1, 2, 1, 2]))
    copy.deepcopy(tiny).partial_fit(X, np.array([1, 2, 1, 2]))
