r"""Accuracy from the labels one has: what held-out labels say, and prediction sets.

Labels of one group lie together and are not independent. So groups, not labels, are held out.

The same labels calibrate prediction sets (conformal prediction). A label that was held out has a
probability :math:`p_i` of its own class, from a network (and label propagation) that saw neither it
nor the labels around it. A set holds every class whose probability is at least :math:`t`, and with
:math:`t` the :math:`k`-th smallest of the :math:`p_i`,
:math:`k = \lfloor (n + 1)(1 - \text{coverage}) \rfloor`, it holds the class of another pixel like
these labels in at least that share of cases (Vovk et al. 2005; the score :math:`1 - p` is that of
Sadinle et al. 2019, whose sets are the smallest on average).

The coverage rests on three conditions. The mapped pixels must be like the labels: drawn at random
from what is mapped, class by class. The folds must hold labels out as far as the map lies from the
labels, which keeps the coverage for the scene that was labeled, and not for other fields. And the
final network, which learned from all labels, must be no worse than those of the folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from scipy.special import log_softmax

from polyad.codec import Record, Row, Text, shown, stored_as
from polyad.errors import InputError
from polyad.estimators.file_format import MOST, OUTPUTS
from polyad.scene.files.option_values import check_coverage
from polyad.scene.learn.folds import FoldsBy, SpatialFolds, mean_distance, testable
from polyad.scene.raster.classes import SetRule

Array = npt.NDArray[Any]
LEAST_PLACES = 2  # of a class: one is held out while the other is trained on
MOST_CONFUSION = 64  # classes; of more, no confusion matrix is kept
NOT_TESTED = -1
WRAP = 100  # characters of a line of prose


class HeldOutLabels(NamedTuple):
    """Labels that were held out by folds, and what was predicted for them.

    Attributes
    ----------
    targets, predicted : ndarray of int, ``(n,)``
        Positions of classes, from 0; `NOT_TESTED` where no label of the class was left.
    folds : SpatialFolds
    """

    targets: Array
    predicted: Array
    folds: SpatialFolds

    @classmethod
    def of(cls, logits: Array, targets: Array, folds: SpatialFolds) -> HeldOutLabels:
        """Return the labels with the likeliest classes of ``logits``, ``(n, C)``."""
        able = testable(folds.fold, targets)
        return cls(targets, np.where(able, logits.argmax(axis=1), NOT_TESTED), folds)

    @property
    def overall(self) -> float | None:
        """Share of the labels tested that are right; None if none could be tested."""
        tested = self.predicted != NOT_TESTED
        if not tested.any():
            return None
        return float((self.predicted == self.targets)[tested].mean())


Count = Annotated[int, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1)]
Kappa = Annotated[float, Field(ge=-1, le=1)]
Name = Annotated[Text, Field(max_length=256)]
ConfusionRow = Annotated[Row[Count], Field(max_length=MOST_CONFUSION)]


class ClassAccuracy(Record):
    """How the held-out labels of one class fared.

    Attributes
    ----------
    name : str
    labels, tested : int
        How many there are, and how many of them could be tested.
    groups : int
        That have labels of this class.
    recall : float or None
        Share of its tested labels that are right (producer's accuracy).
    precision : float or None
        Share of the labels given to this class that are of it (user's accuracy among the labels).
    """

    name: Name
    labels: Count
    tested: Count
    groups: Count
    recall: Share | None
    precision: Share | None


class HeldOutAccuracy(Record):
    """Accuracy on labels that were held out, in one way of dealing folds.

    Attributes
    ----------
    by : {"blocks", "polygons", "groups", "pixels"}
        What was held out together.
    side, folds, groups, labels : int
        Side of a block in pixels (0 where it says nothing), folds, groups, labels tested.
    overall, average : float
        Share of all tested labels that are right; mean recall of the classes tested.
    kappa : float or None
    classes : tuple of ClassAccuracy
    confusion : tuple of tuple of int, or None
        Rows are true classes, columns predicted ones; None above `MOST_CONFUSION` classes.
    """

    by: FoldsBy
    side: Count
    folds: Annotated[int, Field(ge=1, le=MOST)]
    groups: Count
    labels: Count
    overall: Share = stored_as("overall_accuracy")
    average: Share = stored_as("average_accuracy")
    kappa: Kappa | None
    classes: Annotated[Row[ClassAccuracy], Field(min_length=1, max_length=OUTPUTS)]
    confusion: Annotated[Row[ConfusionRow], Field(max_length=MOST_CONFUSION)] | None = stored_as(
        "confusion_matrix", default=None
    )

    @property
    def where(self) -> str:
        """What was held out together, in words."""
        if self.by == "blocks" and self.side > 1:
            return f"blocks of {self.side} pixels"
        named = {"pixels": "single labels", "groups": "groups", "polygons": "whole polygons"}
        return named.get(self.by, "single labels")

    def check_names(self, names: Sequence[str], key: str) -> None:
        """Raise ValueError unless the classes and the confusion matrix are of these names."""
        found = [row.name for row in self.classes]
        if found != list(names):
            raise ValueError(f"{key}.classes must be named as in the model, got {shown(found)}")
        widths = {len(names)} if self.confusion is None else {*map(len, self.confusion)}
        if self.confusion is not None and {len(self.confusion), *widths} != {len(names)}:
            raise ValueError(f"{key}.confusion_matrix must be a square of {len(names)} classes")


class Needed(Record):
    """In how many more places a class must be labeled to be tested."""

    name: Name
    places: Count


class CrossValidation(Record):
    """Accuracy from the labels one has; made by `polyad.cross_validate`, or by training itself.

    Attributes
    ----------
    method : {"outer", "choice"}
        ``"outer"``: every fold trained the whole preset on the rest and made its map. ``"choice"``:
        by folds of the settings that training chose; it can be higher than the other, since the
        choice looked at these labels, or lower, since it trains on fewer of them.
    spatial : HeldOutAccuracy or None
        By spatial folds; None where no label could be tested.
    pixelwise : HeldOutAccuracy or None
        By folds dealt pixel by pixel; None if they were not asked for.
    needed : mapping of str to int
        In how many more places a class must be labeled to be tested.

    Examples
    --------
    >>> right, place = np.array([1, 1, 1, 0, 1, 1] * 2), np.arange(12) // 2
    >>> y = np.arange(12) % 2
    >>> held = HeldOutLabels(y, np.where(right, y, 1 - y), SpatialFolds(place % 3, place, 8))
    >>> print(cross_validation(held, ["corn", "soil"]).line)
    OA 83.3 %, AA 83.3 %, kappa 0.67, on 12 labels held out by blocks of 8 pixels
    """

    method: Literal["outer", "choice"]
    spatial: HeldOutAccuracy | None
    pixelwise: HeldOutAccuracy | None
    needs: Annotated[Row[Needed], Field(max_length=OUTPUTS)] = stored_as("needed")

    @property
    def needed(self) -> dict[str, int]:
        """In how many more places a class must be labeled, by its name."""
        return {row.name: row.places for row in self.needs}

    @property
    def not_tested(self) -> dict[str, int]:
        """Labels by class that spatial folds could not test."""
        if self.spatial is None:
            return {}
        classes = self.spatial.classes
        return {c.name: c.labels - c.tested for c in classes if c.labels > c.tested}

    def check_names(self, names: Sequence[str], key: str) -> None:
        """Raise ValueError unless all classes are among these names, each way has them all."""
        for way in ("spatial", "pixelwise"):
            found: HeldOutAccuracy | None = getattr(self, way)
            if found is not None:
                found.check_names(names, f"{key}.{way}")
        odd = [row.name for row in self.needs if row.name not in names]
        if odd:
            raise ValueError(f"{key}.needed must name classes of the model, got {shown(odd[0])}")

    def renamed(self, new: Mapping[str, str]) -> CrossValidation:
        """Return the accuracy with other names of the classes."""

        def with_names(rows: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(r.model_copy(update={"name": new.get(r.name, r.name)}) for r in rows)

        changed: dict[str, Any] = {"needs": with_names(self.needs)}
        for name, way in (("spatial", self.spatial), ("pixelwise", self.pixelwise)):
            if way is not None:
                changed[name] = way.model_copy(update={"classes": with_names(way.classes)})
        return self.model_copy(update=changed)

    def overlaps(self, window: int) -> bool:
        """Whether blocks are no wider than a window, so that windows of two of them overlap."""
        found = self.spatial
        return found is not None and found.by == "blocks" and 0 < found.side <= window > 1

    @property
    def needed_line(self) -> str:
        """Which classes need labels in more places, in words; empty where none does."""
        each = ", ".join(f"{name} {count}" for name, count in self.needed.items())
        return f"to test every class, label it in more places: {each}" if each else ""

    @property
    def line(self) -> str:
        """The spatial figure in words."""
        if self.spatial is None:
            each = ", ".join(f"{name} {count}" for name, count in self.needed.items())
            return (
                "not known: no class has labels in two places that can be held out in turn; label "
                f"more places, at least: {each}"
            )
        found = self.spatial
        kappa = "" if found.kappa is None else f", kappa {found.kappa:.2f}"
        scores = f"OA {100 * found.overall:.1f} %, AA {100 * found.average:.1f} %{kappa}"
        return f"{scores}, on {found.labels:,} labels held out by {found.where}"

    @property
    def class_line(self) -> str:
        """The recall of each class on the spatial folds, in words."""
        classes = () if self.spatial is None else self.spatial.classes
        return ", ".join(
            f"{c.name} {100 * c.recall:.0f} %" for c in classes if c.recall is not None
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        return self.to_data()

    def __str__(self) -> str:
        """Return a table for people."""
        if (spatial := self.spatial) is None:
            return f"accuracy {self.line}"
        beside, width = self.pixelwise, max([len(c.name) for c in spatial.classes] + [16])

        def row(name: str, value: float | None, other: float | None) -> str:
            """Return a share in percent beside that of the folds dealt pixel by pixel."""
            cells = f"{name:<{width}}  {_percent(value):>8}"
            return cells if beside is None else f"{cells}{_percent(other):>17}"

        heading = "" if beside is None else "   pixel by pixel"
        kappas = [(spatial, 10), *([] if beside is None else [(beside, 17)])]
        kappa = [f"{'-' if v.kappa is None else f'{v.kappa:.2f}':>{w}}" for v, w in kappas]
        lines = [
            f"accuracy in %, on {spatial.labels:,} labels held out by {spatial.where} "
            f"({spatial.groups:,} places, {spatial.folds} folds)"
            + (",\nand beside it that of folds dealt pixel by pixel" if beside else ""),
            "",
            f"{'':<{width}}   spatial{heading}",
            row("overall accuracy", spatial.overall, None if beside is None else beside.overall),
            row("average accuracy", spatial.average, None if beside is None else beside.average),
            f"{'kappa':<{width}}{''.join(kappa)}",
            "",
            f"{'class':<{width}}    recall{heading}  precision  labels  places",
        ]
        for k, c in enumerate(spatial.classes):
            other = None if beside is None else beside.classes[k].recall
            counts = f"{_percent(c.precision):>11}  {c.labels:>6}  {c.groups:>6}"
            lines.append(f"{row(c.name, c.recall, other)}{counts}")
        if missing := [c.name for c in spatial.classes if c.labels and not c.tested]:
            lines += ["", f"not tested, since all labels lie together: {', '.join(missing)}"]
        if self.needed_line:
            lines += ["", *wrap(self.needed_line, WRAP, break_on_hyphens=False)]
        return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


# -- scores ----------------------------------------------------------------------------------------


def cross_validation(
    tested: HeldOutLabels,
    names: Sequence[str],
    pixelwise: HeldOutLabels | None = None,
    *,
    method: Literal["outer", "choice"] = "outer",
) -> CrossValidation:
    """Return the accuracy of labels that were held out.

    Parameters
    ----------
    tested : HeldOutLabels
        By spatial folds.
    names : sequence of str
        Of the classes.
    pixelwise : HeldOutLabels, optional
        By folds dealt pixel by pixel.
    method : {"outer", "choice"}
    """
    spatial = None if tested.folds.split else held_out_accuracy(tested, names)
    other = None if pixelwise is None else held_out_accuracy(pixelwise, names)
    places = _places(tested, len(names)).tolist()
    needs = tuple(
        Needed(name=name, places=LEAST_PLACES - n)
        for name, n in zip(names, places, strict=True)
        if n < LEAST_PLACES
    )
    return CrossValidation(method=method, spatial=spatial, pixelwise=other, needs=needs)


def held_out_accuracy(tested: HeldOutLabels, names: Sequence[str]) -> HeldOutAccuracy | None:
    """Return the scores of labels that were held out; None if none could be tested."""
    known, count = tested.predicted != NOT_TESTED, len(names)
    if not known.any():
        return None
    y, predicted, folds = tested.targets[known], tested.predicted[known], tested.folds
    cells = np.bincount(y * count + predicted, minlength=count**2).reshape(count, count)
    hits, rows, cols = np.diag(cells), cells.sum(axis=1), cells.sum(axis=0)
    overall = float(hits.sum()) / len(y)
    chance = float((rows * cols).sum()) / float(len(y)) ** 2
    recall, precision = (
        np.divide(hits, whole, out=np.zeros(count), where=whole > 0) for whole in (rows, cols)
    )
    places, labels = _places(tested, count), np.bincount(tested.targets, minlength=count)
    classes = tuple(
        ClassAccuracy(
            name=name,
            labels=int(labels[k]),
            tested=int(rows[k]),
            groups=int(places[k]),
            recall=float(recall[k]) if rows[k] else None,
            precision=float(precision[k]) if cols[k] else None,
        )
        for k, name in enumerate(names)
    )
    return HeldOutAccuracy(
        by=folds.by,
        side=folds.side,
        folds=len(np.unique(folds.fold)),
        groups=len(np.unique(folds.group[known])),
        labels=len(y),
        overall=overall,
        average=float(recall.sum() / np.count_nonzero(rows)),
        kappa=(overall - chance) / (1 - chance) if chance < 1 else None,
        classes=classes,
        confusion=tuple(map(tuple, cells.tolist())) if count <= MOST_CONFUSION else None,
    )


def _places(tested: HeldOutLabels, count: int) -> Array:
    """Return how many groups have labels of each class, ``(count,)``."""
    pairs = np.unique(np.stack([tested.targets, tested.folds.group], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=count)


# -- prediction sets -------------------------------------------------------------------------------


ROUNDING = 1e-9  # 1 - 0.9 is a little less than a tenth


class HeldOutScores(Record):
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

    probabilities: Row[Share]
    targets: Row[Annotated[int, Field(ge=0, lt=OUTPUTS)]]
    distance: Annotated[float, Field(ge=0, le=MOST)]

    @model_validator(mode="after")
    def _check_targets(self) -> Self:
        if len(self.targets) != len(self.probabilities):
            expected = len(self.probabilities)
            raise ValueError(f"targets must have {expected} entries, got {len(self.targets)}")
        return self

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
    return HeldOutScores(
        probabilities=tuple(own.round(6).tolist()), targets=tuple(y.tolist()), distance=distance
    )


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
