r"""What a model of values keeps beside its network: targets, what folds said, how sure it is.

A network has one output for each target and one more for each target and fold, that of the
regressor which never saw the fold. Where these disagree, the model knows little:
:math:`v(x) = \frac{K - 1}{K} \sum_k (f_{-k}(x) - \bar f(x))^2`, the jackknife's variance. What was
held out is missed by more than that, by noise :math:`s^2`, so the variance of a prediction is
:math:`s^2 + v(x)`; :math:`s^2` is such that it is right on average for the values held out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.recipe import Expert
from polyad.scene.raster.classes import Target, clipped

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


MEASURES = ("r2", "rmse", "mae", "bias")
_NAMES = ("R2", "RMSE", "MAE", "bias")
RESAMPLES = 1000
Interval = tuple[float, float]


@dataclass(frozen=True)
class ValueScore:
    """Of one target: how far predictions lie from what was measured.

    Attributes
    ----------
    target : Target
    n : int
        Values compared.
    r2 : float
        Share of the variance that is explained; below 0 if the mean would do better.
    rmse, mae : float
        Root mean square and mean absolute error, in the target's units.
    bias : float
        Mean of predicted minus measured.
    intervals : dict of str to (float, float)
        95 % interval of each, over resamples of the groups; empty for a single group.
    groups : int
        Places that are taken to be independent.
    """

    target: Target
    n: int
    r2: float
    rmse: float
    mae: float
    bias: float
    intervals: dict[str, Interval]
    groups: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        told: dict[str, Any] = {"target": self.target.name, "units": self.target.units, "n": self.n}
        for measure in MEASURES:
            value = getattr(self, measure)
            told[measure] = value if math.isfinite(value) else None
            found = self.intervals.get(measure)
            told[f"{measure}_ci95"] = None if found is None else list(found)
        return told | {"groups": self.groups}

    @classmethod
    def from_dict(cls, stored: dict[str, Any], target: Target) -> ValueScore:
        """Return the score that `to_dict` wrote."""
        numbers = {m: math.nan if stored[m] is None else float(stored[m]) for m in MEASURES}
        told = {m: stored[f"{m}_ci95"] for m in MEASURES}
        intervals = {m: (float(v[0]), float(v[1])) for m, v in told.items() if v is not None}
        n, groups = stored["n"], stored["groups"]
        return cls(target, n, **numbers, intervals=intervals, groups=groups)

    def __str__(self) -> str:
        units = f" {self.target.units}" if self.target.units else ""
        told = []
        for name, (value, ends) in self.parts().items():
            said = f"{value} ({ends})" if ends else value
            told.append(f"{name} {said}" + ("" if name == "R2" else units))
        return ", ".join(told)

    def parts(self) -> dict[str, tuple[str, str]]:
        """Return each measure and its interval in words, "" if it has none, by its usual name."""
        return dict(zip(_NAMES, map(self._parts, MEASURES), strict=True))

    def _parts(self, measure: str) -> tuple[str, str]:
        value = getattr(self, measure)
        if not math.isfinite(value):
            return "not defined", ""
        digits = 2 if measure == "r2" else _digits(self.rmse)
        sign = "+" if measure == "bias" else ""
        low, high = self.intervals.get(measure, (math.nan, math.nan))
        ends = f"{low:{sign}.{digits}f} to {high:{sign}.{digits}f}"
        return f"{value:{sign}.{digits}f}", ends if measure in self.intervals else ""


def score_values(
    measured: Array,
    predicted: Array,
    targets: Sequence[Target],
    group: Array,
    random_state: int = 0,
) -> tuple[ValueScore, ...]:
    """Score predictions ``(n, targets)`` of each target; where nothing was measured is NaN.

    Parameters
    ----------
    measured, predicted : ndarray, ``(n, targets)``
    targets : sequence of Target
    group : ndarray of int, ``(n,)``
        Values of a group lie together and are resampled together.
    random_state : int, default=0

    Examples
    --------
    >>> measured = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> (score,) = score_values(measured, measured + 0.5, [Target("height", "m")], np.arange(4))
    >>> score.r2, score.rmse, score.bias
    (0.8, 0.5, 0.5)
    """
    scores = []
    for k, target in enumerate(targets):
        known = np.isfinite(measured[:, k])
        y, p = measured[known, k].astype(np.float64), predicted[known, k].astype(np.float64)
        number = np.unique(group[known], return_inverse=True)[1].reshape(-1)
        whole = _measures(_sums(y, p, np.zeros(len(y), np.intp)))[0].tolist()
        sums = _sums(y, p, number)  # (groups, 6)
        intervals = _intervals(sums, random_state) if len(sums) > 1 else {}
        named = dict(zip(MEASURES, whole, strict=True))
        groups = len(sums)
        scores.append(ValueScore(target, len(y), **named, intervals=intervals, groups=groups))
    return tuple(scores)


def _sums(y: Array, p: Array, group: Array) -> Array:
    """Return the sums of each group from which all measures follow, ``(groups, 6)``."""
    error = p - y
    shift = y - y.mean() if len(y) else y  # the same for all: R2 does not change, and is exact
    columns = (np.ones(len(y)), shift, shift**2, error, error**2, np.abs(error))
    return np.stack([np.bincount(group, weights=c) for c in columns], axis=1)


def _measures(sums: Array) -> Array:
    """Return R2, RMSE, MAE and bias of sums ``(..., 6)``."""
    n, first, second, error, square, absolute = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = second - first**2 / n
        r2 = np.where(variance > 0, 1 - square / variance, np.nan)
        return np.stack([r2, np.sqrt(square / n), absolute / n, error / n], axis=-1)


def _intervals(sums: Array, random_state: int) -> dict[str, Interval]:
    rng = np.random.default_rng(random_state)
    drawn = rng.integers(0, len(sums), (RESAMPLES, len(sums)))
    counts = np.stack([np.bincount(row, minlength=len(sums)) for row in drawn])
    measures = _measures(counts @ sums)  # (resamples, 4)
    intervals = {}
    for name, column in zip(MEASURES, measures.T, strict=True):
        finite = column[np.isfinite(column)]
        if len(finite):
            low, high = np.quantile(finite, [0.025, 0.975])
            intervals[name] = (float(low), float(high))
    return intervals


def _digits(scale: float) -> int:
    """Return how many digits after the point show three of a number.

    Examples
    --------
    >>> _digits(0.1234), _digits(12.0), _digits(5000.0)
    (3, 1, 0)
    """
    if not scale > 0:
        return 3
    return int(np.clip(2 - math.floor(math.log10(scale)), 0, 6))
