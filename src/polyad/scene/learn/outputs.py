r"""What a model predicts: classes, or numbers with how sure they are.

A network of targets has one output for each target and one more for each target and fold, that of
the regressor which never saw the fold. Where these disagree, the model knows little:
:math:`v(x) = \frac{K - 1}{K} \sum_k (f_{-k}(x) - \bar f(x))^2`, the jackknife's variance. What was
held out is missed by more than that, by noise :math:`s^2`, so the variance of a prediction is
:math:`s^2 + v(x)`; :math:`s^2` is such that it is right on average for the values held out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, model_validator

from polyad.codec import Fault, Fixed, NaN, Record, Row, row_of, shown
from polyad.estimators.file_format import OUTPUTS
from polyad.scene.learn.accuracy import Count, Name
from polyad.scene.learn.recipe import Choice, Single
from polyad.scene.raster.classes import MOST_TARGETS, ClassInfo, Target, clipped

Array = npt.NDArray[Any]
MOST_FOLDS = 32
NOISE = 1e76  # its root is a number in single precision, also beside the spread of folds

Color = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")]
ClassId = Annotated[int, Field(ge=1, le=65535)]
ClassRow = Annotated[ClassInfo, row_of(ClassInfo, ClassId, Name, Color)]


def _target(name: str, units: str, low: float | None, high: float | None) -> Target:
    if low is not None and high is not None and low >= high:
        raise ValueError(f"must have bounds that ascend, got {low:g} and {high:g}")
    return Target(name, units, low, high)


TargetRow = Annotated[Target, row_of(_target, Name, Name, Single | None, Single | None)]

# -- scores ----------------------------------------------------------------------------------------

Measure = Literal["r2", "rmse", "mae", "bias"]
MEASURES: tuple[Measure, ...] = ("r2", "rmse", "mae", "bias")
_NAMES = ("R2", "RMSE", "MAE", "bias")


def _ascending(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError(f"must ascend, got {shown(ends)}")
    return ends


Interval = Annotated[tuple[float, float], Fixed, AfterValidator(_ascending)]
RESAMPLES = 1000


class ValueScore(Record):
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

    target: TargetRow
    n: Count
    r2: Annotated[float, Field(le=1)] | NaN
    rmse: Annotated[float, Field(ge=0)] | NaN
    mae: Annotated[float, Field(ge=0)] | NaN
    bias: float | NaN
    intervals: dict[Measure, Interval]
    groups: Count

    @model_validator(mode="after")
    def _check_intervals(self) -> Self:
        for measure, (low, high) in self.intervals.items():
            if (measure in ("rmse", "mae") and low < 0) or (measure == "r2" and high > 1):
                got = shown((low, high))
                raise ValueError(f"intervals.{measure} must be within its range, got {got}")
        return self

    def to_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        plain: dict[str, object] = {
            "target": self.target.name,
            "units": self.target.units,
            "n": self.n,
        }
        for measure in MEASURES:
            value, found = getattr(self, measure), self.intervals.get(measure)
            plain[measure] = value if math.isfinite(value) else None
            plain[f"{measure}_ci95"] = None if found is None else list(found)
        return plain | {"groups": self.groups}

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

    def _parts(self, measure: Measure) -> tuple[str, str]:
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
        r2, rmse, mae, bias = (v if math.isfinite(v) else math.nan for v in whole)
        scores.append(
            ValueScore(
                target=target,
                n=len(y),
                r2=r2,
                rmse=rmse,
                mae=mae,
                bias=bias,
                intervals=intervals,
                groups=len(sums),
            )
        )
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


def _intervals(sums: Array, random_state: int) -> dict[Measure, Interval]:
    rng = np.random.default_rng(random_state)
    drawn = rng.integers(0, len(sums), (RESAMPLES, len(sums)))
    counts = np.stack([np.bincount(row, minlength=len(sums)) for row in drawn])
    measures = _measures(counts @ sums)  # (resamples, 4)
    intervals: dict[Measure, Interval] = {}
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


# -- outputs ---------------------------------------------------------------------------------------


class Classes(Record):
    """A network that predicts classes, one output for each.

    Attributes
    ----------
    classes : tuple of ClassInfo
    """

    kind: Literal["classification"] = "classification"
    classes: Annotated[Row[ClassRow], Field(min_length=1, max_length=OUTPUTS)]

    @classmethod
    def of(cls, classes: Iterable[ClassInfo]) -> Classes:
        """Return the output of any classes; whether a file can hold them is told when saving."""
        return cls.model_construct(classes=tuple(classes))

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.classes)

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return [info.name for info in self.classes]

    def check_network(self, estimator: Any) -> None:
        """Raise `Fault` unless the estimator's classes are these."""
        ids = [info.value for info in self.classes]
        own = getattr(estimator, "classes_", np.empty(0))
        if own.dtype.kind not in "iu" or own.tolist() != ids:
            raise Fault(
                f"scene.output.classes must be those of the network, {shown(own.tolist())}, got "
                f"{shown(ids)}"
            )


class Targets(Choice):
    """A network that predicts numbers: what they are, and how well.

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

    kind: Literal["regression"] = "regression"
    targets: Annotated[Row[TargetRow], Field(min_length=1, max_length=MOST_TARGETS)]
    folds: Annotated[int, Field(ge=0, le=MOST_FOLDS)]
    noise: Row[Annotated[float, Field(ge=0, le=NOISE)]]
    scores: Row[ValueScore] = ()
    side: Count = 0
    points: Count = 0

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        count = len(self.targets)
        if len(self.noise) != count:
            raise ValueError(f"noise must have {count} entries, got {len(self.noise)}")
        if self.scores and len(self.scores) != count:
            raise ValueError(f"scores must have {count} entries, got {len(self.scores)}")
        if len({target.name for target in self.targets}) < count:
            raise ValueError("targets must have different names")
        return self

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.targets) * (1 + self.folds)

    def bands(self, uncertainty: bool) -> int:
        """Return how many numbers a mapped pixel has."""
        return len(self.targets) * (2 if uncertainty else 1)

    def decode(self, outputs: Array, uncertainty: bool) -> Array:
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

    def check_network(self, estimator: Any) -> None:
        """Raise `Fault` unless the estimator is a regressor with these outputs."""
        from polyad.estimators.regressor import RankRRegressor  # here: a header needs no torch

        if not isinstance(estimator, RankRRegressor):
            got = type(estimator).__name__
            raise Fault(f"scene.output.targets must be of a RankRRegressor, got a {got}")
        found = estimator.network_.output.out_features
        if found != self.outputs:
            raise Fault(
                f"scene.output.targets must be those of the network, {found}, got {self.outputs}"
            )


Output = Classes | Targets
