r"""What a model of values keeps beside its network: targets, what folds said, how sure it is.

A network has one output for each target and one more for each target and fold, that of the
regressor which never saw the fold. Where these disagree, the model knows little:
:math:`v(x) = \frac{K - 1}{K} \sum_k (f_{-k}(x) - \bar f(x))^2`, the jackknife's variance. What was
held out is missed by more than that, by noise :math:`s^2`, so the variance of a prediction is
:math:`s^2 + v(x)`; :math:`s^2` is such that it is right on average for the values held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.experts import Expert
from polyad.scene.learn.steps.value_scores import ValueScore
from polyad.scene.raster.targets import Target, clipped

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ValueFit:
    """How a model of values was fitted.

    Attributes
    ----------
    targets : tuple of Target
    folds : int
        Blocks of outputs after the first, each of which knows nothing of one fold.
    noise : tuple of float
        Variance that no network explains, for each target.
    experts : tuple of Expert
    weights : tuple of float
        Of the experts' predictions; they add up to one.
    scores : tuple of ValueScore
        On values held out by spatial folds.
    side, points : int
        Of the folds: side of a block in pixels, and how many values were held out.
    """

    targets: tuple[Target, ...]
    folds: int
    noise: tuple[float, ...]
    experts: tuple[Expert, ...]
    weights: tuple[float, ...]
    scores: tuple[ValueScore, ...] = ()
    side: int = 0
    points: int = 0

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.targets) * (1 + self.folds)

    def bands(self, uncertainty: bool) -> int:
        """Return how many numbers a mapped pixel has."""
        return len(self.targets) * (2 if uncertainty else 1)

    def read(self, outputs: Array, uncertainty: bool) -> Array:
        """Return predictions and, if asked for, standard deviations of outputs ``(..., outputs)``.

        The result is ``(..., targets)``, or ``(..., 2 * targets)`` with the deviations last.
        """
        count = len(self.targets)
        values = clipped(outputs[..., :count], self.targets)
        if not uncertainty:
            return values
        deviation = np.sqrt(np.asarray(self.noise) + self.spread(outputs))
        return np.concatenate([values, deviation.astype(outputs.dtype)], axis=-1)

    def spread(self, outputs: Array) -> Array:
        """Return the jackknife's variance of predictions, ``(..., targets)``, in double precision.

        Squares leave the range of single precision where the numbers themselves do not.
        """
        count = len(self.targets)
        folds = outputs[..., count:].reshape(*outputs.shape[:-1], self.folds, count)
        return np.asarray((self.folds - 1) * folds.var(axis=-2, dtype=np.float64))

    @property
    def score_lines(self) -> list[str]:
        """How well each target was predicted where it was held out, in words."""
        where = f"blocks of {self.side} pixels" if self.side > 1 else "single pixels"
        return [f"{s.target.name}: {s}, on {s.n:,} values held out by {where}" for s in self.scores]

    @property
    def line(self) -> str:
        """The experts in words."""
        if len(self.experts) == 1:
            return str(self.experts[0])
        both = zip(self.experts, self.weights, strict=True)
        return " + ".join(f"{e} ({w:.2f})" for e, w in both)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "targets": [list(t) for t in self.targets],
            "folds": self.folds,
            "noise": list(self.noise),
            "experts": [[e.view, e.window, e.strength] for e in self.experts],
            "weights": list(self.weights),
            "scores": [s.to_dict() for s in self.scores],
            "side": self.side,
            "points": self.points,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ValueFit:
        """Return the fit that `to_dict` wrote."""
        targets = tuple(Target(*row) for row in stored["targets"])
        scores: Sequence[Any] = stored["scores"]
        return cls(
            targets,
            stored["folds"],
            tuple(map(float, stored["noise"])),
            tuple(Expert(*row) for row in stored["experts"]),
            tuple(stored["weights"]),
            tuple(ValueScore.from_dict(s, t) for s, t in zip(scores, targets, strict=False)),
            stored["side"],
            stored["points"],
        )
