r"""Conformal prediction sets from the labels that spatial folds held out.

A label that was held out has a probability :math:`p_i` of its own class, from a network (and label
propagation) that saw neither it nor the labels around it. A set holds every class whose probability
is at least :math:`t`, and with :math:`t` the :math:`k`-th smallest of the :math:`p_i`,
:math:`k = \lfloor (n + 1)(1 - \text{coverage}) \rfloor`, it holds the class of another pixel like
these labels in at least that share of cases (Vovk et al. 2005; the score :math:`1 - p` is that of
Sadinle et al. 2019, whose sets are the smallest on average).

What is promised rests on three things. The pixels that are mapped must be like the labels: drawn at
random from what is mapped, class by class. The folds must hold labels out as far as the map lies
from the labels, which keeps the promise for the scene that was labeled, and not for other fields.
And the final network, which learned from all labels, must be no worse than those of the folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from polyad.errors import InputError
from polyad.scene.files.option_values import check_coverage
from polyad.scene.learn.steps.spatial import SpatialFolds, mean_distance, testable
from polyad.scene.raster.prediction_sets import SetRule

Array = npt.NDArray[Any]
ROUNDING = 1e-9  # 1 - 0.9 is a little less than a tenth


@dataclass(frozen=True)
class HeldOutScores:
    """What a model's prediction sets are calibrated by.

    Attributes
    ----------
    probabilities : tuple of float
        Of the own class of each label that was held out, as the map would have it.
    targets : tuple of int
        Position of each label's class, from 0.
    distance : float
        How far a label lay from the nearest one that was not held out with it, on average, in
        pixels.
    """

    probabilities: tuple[float, ...]
    targets: tuple[int, ...]
    distance: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        own, targets = list(self.probabilities), list(self.targets)
        return {"probabilities": own, "targets": targets, "distance": self.distance}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> HeldOutScores:
        """Return the scores that `to_dict` wrote."""
        own = tuple(map(float, stored["probabilities"]))
        return cls(own, tuple(stored["targets"]), float(stored["distance"]))

    def rule(self, coverage: float, classes: int) -> SetRule:
        """Return the rule by which sets hold the true class in a share ``coverage`` of cases."""
        own = np.asarray(self.probabilities)
        least = least_probability(own, coverage)
        return SetRule(coverage, (least,) * classes, len(own))


def held_out_scores(
    logits: Array, targets: Array, pixels: Array, folds: SpatialFolds
) -> HeldOutScores | None:
    """Return the scores of held-out log-probabilities, ``(n, C)``; None where nothing was tested.

    Labels of a class that no other fold has are left out, as in the accuracy on the folds; where
    the labels lie, ``pixels`` of shape ``(n, 2)`` say.
    """
    tested = testable(folds.fold, targets)
    if not tested.any():
        return None
    y = targets[tested]
    own = np.exp(log_softmax(logits[tested], axis=1)[np.arange(len(y)), y])
    distance = round(mean_distance(pixels, pixels, folds.fold), 2)
    return HeldOutScores(tuple(own.round(6).tolist()), tuple(y.tolist()), distance)


def least_probability(own: Array, coverage: float) -> float:
    """Return the threshold that a class's probability must reach to be in a set.

    Parameters
    ----------
    own : ndarray, ``(n,)``
        Probability of its own class for each held-out label.
    coverage : float
        Between 0 and 1.

    Raises
    ------
    InputError
        If there are too few labels for the level: none could be missed.

    Examples
    --------
    >>> least_probability(np.array([0.9, 0.2, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.1]), 0.8)
    0.2
    """
    check_coverage(coverage)
    n = len(own)
    missed = math.floor((n + 1) * (1 - coverage) + ROUNDING)  # labels missed, and one more
    if missed < 1:
        raise InputError(
            f"sets with coverage {coverage:g} want {labels_wanted(coverage)} labels held out by "
            f"spatial folds at least, the model has {n}; label more, or ask for less coverage"
        )
    return float(np.partition(own, missed - 1)[missed - 1])


def labels_wanted(coverage: float) -> int:
    """Return the least number of held-out labels for a level.

    Examples
    --------
    >>> labels_wanted(0.9), labels_wanted(0.95)
    (9, 19)
    """
    return math.ceil((1 - ROUNDING) / (1 - coverage) - 1)
