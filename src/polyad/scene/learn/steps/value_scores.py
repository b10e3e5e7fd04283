"""How well numbers are predicted: R2, RMSE, MAE and bias, with intervals over groups of places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.raster.targets import Target

Array = npt.NDArray[Any]
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
