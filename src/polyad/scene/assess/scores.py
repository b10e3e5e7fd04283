"""Accuracy of a class map: the scores that papers of this field report, and two they should.

Beside overall and average accuracy and kappa these are the accuracy on test pixels whose window
shares no pixel with a training window, and the expected calibration error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from polyad.errors import InputError
from polyad.scene.raster.classes import (
    ClassInfo,
    SetRule,
    class_key,
    has_own_name,
    set_members,
)

RENUMBERED = 0.2  # share of test pixels by which another numbering must be better to be likely
INVENTED = 0.05  # the same where the ids of the model were made up from names
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one set of predictions; build it with `score`.

    Attributes
    ----------
    overall_accuracy : float
        Share of test pixels that are right.
    average_accuracy : float
        Mean recall over the classes that have test pixels.
    kappa : float
        Cohen's kappa; NaN where only one class occurs.
    overall_accuracy_no_overlap : float or None
        Overall accuracy on test pixels whose window shares no pixel with a training window. They
        still lie in the labeled fields: it is optimistic for places without labels. None if
        it was not requested or there are no such pixels.
    expected_calibration_error : float or None
        None without probabilities.
    n_test, n_test_no_overlap : int
    classes : tuple of ClassInfo, length C
    precision, recall, f1 : ndarray, shape (C,)
        NaN where undefined: no pixel predicted as the class, or none of it in the test set.
    support : ndarray of int, shape (C,)
        Test pixels of each class.
    confusion : ndarray of int, shape (C, C)
        Rows are true classes, columns are predicted ones.
    matched_by : {"name", "id"} or None
        How the classes of the labels were matched with those of the model; None if they
        were not.
    left_out : tuple of (ClassInfo, int)
        Classes of the labels that the model does not know, with their numbers of test pixels,
        which are in no score.
    """

    overall_accuracy: float
    average_accuracy: float
    kappa: float
    overall_accuracy_no_overlap: float | None
    expected_calibration_error: float | None
    n_test: int
    n_test_no_overlap: int | None
    classes: tuple[ClassInfo, ...]
    precision: Floats
    recall: Floats
    f1: Floats
    support: NDArray[np.int64]
    confusion: NDArray[np.int64]
    matched_by: str | None = None
    left_out: tuple[tuple[ClassInfo, int], ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings; NaN becomes None, as JSON has no NaN."""
        per_class = [
            {
                "id": info.value,
                "name": info.name,
                "color": info.color,
                "precision": _plain(float(self.precision[k])),
                "recall": _plain(float(self.recall[k])),
                "f1": _plain(float(self.f1[k])),
                "support": int(self.support[k]),
            }
            for k, info in enumerate(self.classes)
        ]
        matched = {
            "matched_by": self.matched_by,
            "n_left_out": sum(n for _, n in self.left_out),
            "left_out": [{"id": c.value, "name": c.name, "pixels": n} for c, n in self.left_out],
        }
        names = (
            "overall_accuracy", "average_accuracy", "kappa", "overall_accuracy_no_overlap",
            "expected_calibration_error", "n_test", "n_test_no_overlap",
        )  # fmt: skip
        return {
            **{name: _plain(getattr(self, name)) for name in names},
            "classes": per_class,
            "confusion_matrix": self.confusion.tolist(),
        } | ({} if self.matched_by is None else matched)

    def __str__(self) -> str:
        """Return a table for people."""
        notes = self.notes()  # first: they say what the numbers below are about
        lines = [*notes, *([""] if notes else [])]
        lines += [
            f"overall accuracy     {_percent(self.overall_accuracy)}  ({self.n_test} test pixels)",
        ]
        if self.n_test_no_overlap is not None:
            lines.append(
                f"  without overlap    {_percent(self.overall_accuracy_no_overlap)}"
                f"  ({self.n_test_no_overlap} pixels whose window shares none with training)"
            )
        lines.append(f"average accuracy     {_percent(self.average_accuracy)}")
        lines.append(f"kappa                  {self.kappa:.4f}")
        if self.expected_calibration_error is not None:
            lines.append(f"calibration error    {_percent(self.expected_calibration_error)}")
        width = max(5, *(len(info.name) for info in self.classes))
        lines += ["", f"  id  {'class':<{width}}  precision   recall       F1  pixels"]
        for info, n, *shares in zip(
            self.classes, self.support, self.precision, self.recall, self.f1, strict=True
        ):
            cells = "  ".join(map(_percent, shares))
            lines.append(f"{info.value:>4}  {info.name:<{width}}    {cells}  {n:>6}")
        return "\n".join(lines)

    @property
    def renumbering_gain(self) -> float:
        """How much of the test pixels would be right besides if the true classes were renumbered.

        0 if classes were matched by name.
        """
        if self.matched_by != "id":
            return 0.0
        pairs = linear_sum_assignment(self.confusion, maximize=True)
        return int(self.confusion[pairs].sum()) / self.n_test - self.overall_accuracy

    def notes(self) -> list[str]:
        """Return what a reader should know about the labels, a sentence each."""
        notes = []
        if self.matched_by == "id":
            named = [class_key(c) for c in self.classes if has_own_name(c)]
            which = f" (in the model: {', '.join(named)})" if named else ""
            notes.append(
                "Classes were matched by id, since model and labels do not both have class names"
                f"{which}."
            )
        if self.left_out:
            total = sum(n for _, n in self.left_out)
            which = ", ".join(f"{class_key(c)}: {n}" for c, n in self.left_out)
            notes.append(f"Left out: {total} pixels of classes the model does not know ({which}).")
        return notes


def score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    proba: ArrayLike | None = None,
    classes: Sequence[ClassInfo] | None = None,
    no_overlap: ArrayLike | None = None,
) -> Scores:
    """Compare predicted with true class ids.

    Parameters
    ----------
    y_true, y_pred : array_like of int, shape (n,)
        Class ids of the test pixels.
    proba : array_like, shape (n, C), optional
        Class probabilities, columns in the order of ``classes``; for the calibration error.
    classes : sequence of ClassInfo, optional
        The classes, as `polyad.scene.class_table` gives them. By default those that occur.
    no_overlap : array_like of bool, shape (n,), optional
        Which test pixels share nothing with training: `polyad.scene.no_overlap`.

    Returns
    -------
    Scores

    Examples
    --------
    >>> scores = score([1, 1, 2, 2], [1, 2, 2, 2])
    >>> scores.overall_accuracy, scores.average_accuracy, scores.kappa
    (0.75, 0.75, 0.5)
    >>> scores.confusion.tolist()
    [[1, 1], [0, 2]]
    """
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or true.shape != pred.shape:
        raise InputError(
            f"y_true and y_pred must be vectors of one length, got {true.shape} and {pred.shape}"
        )
    if not len(true):
        raise InputError("there is no test pixel to score; give at least one")
    occurring = np.union1d(true, pred).tolist()
    table = tuple(ClassInfo(v, "", "") for v in occurring) if classes is None else tuple(classes)
    ids = [info.value for info in table]
    if unknown := sorted(set(occurring) - set(ids)):
        raise InputError(
            f"class id {unknown[0]} is scored but not in classes (ids {ids}); leave unlabeled "
            "pixels (0) out, and pass the classes the model was fitted on"
        )
    shape = (len(true), len(table))
    if proba is not None and np.shape(proba) != shape:
        raise InputError(
            f"proba must have shape {shape} (pixels, classes), got {np.shape(proba)}; pass classes "
            "in the order of its columns"
        )
    right = true == pred
    # As sklearn.metrics has it, which takes longer to import than a map takes to score
    cells = _positions(true, table) * len(table) + _positions(pred, table)
    confusion = np.bincount(cells, minlength=len(table) ** 2).reshape(len(table), len(table))
    support, mapped, hit = confusion.sum(axis=1), confusion.sum(axis=0), np.diag(confusion)
    precision, recall = _share(hit, mapped), _share(hit, support)
    f1 = _share(2 * hit, support + mapped)
    by_chance = float(support / len(true) @ (mapped / len(true)))
    apart = None if no_overlap is None else np.asarray(no_overlap, bool)
    return Scores(
        overall_accuracy=float(right.mean()),
        average_accuracy=float(np.nanmean(recall)),
        # Cohen's, not defined where all pixels are of one class in both
        kappa=(float(right.mean()) - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan,
        overall_accuracy_no_overlap=(
            float(right[apart].mean()) if apart is not None and apart.any() else None
        ),
        expected_calibration_error=(
            None
            if proba is None
            else calibration_error(right, np.asarray(proba, np.float64).max(axis=1))
        ),
        n_test=len(true),
        n_test_no_overlap=None if apart is None else int(apart.sum()),
        classes=table,
        precision=precision,
        recall=recall,
        f1=f1,
        support=support,
        confusion=confusion,
    )


def calibration_error(right: NDArray[np.bool_], confidence: Floats, bins: int = 15) -> float:
    r"""Return the expected calibration error over equally wide bins of confidence.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n}\, |\mathrm{acc}_b - \mathrm{conf}_b|

    Parameters
    ----------
    right : ndarray of bool, shape (n,)
        Whether the prediction is right.
    confidence : ndarray, shape (n,)
        Probability given to the predicted class.
    bins : int

    Examples
    --------
    >>> calibration_error(np.array([True, False]), np.array([0.75, 0.75]))
    0.25
    """
    which = np.minimum((confidence * bins).astype(np.intp), bins - 1)
    gap = np.bincount(which, weights=right - confidence, minlength=bins)  # n_b (acc_b - conf_b)
    return float(np.abs(gap).sum() / len(confidence))


def _share(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Return ``part / whole``, NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def _positions(ids: NDArray[Any], table: Sequence[ClassInfo]) -> NDArray[np.intp]:
    """Return the position of each class id in the table."""
    listed = np.array([info.value for info in table])
    order = np.argsort(listed)
    return order[np.searchsorted(listed, ids, sorter=order)]


def _plain(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) or np.isfinite(value) else None


def _percent(value: float | None) -> str:
    missing = value is None or not np.isfinite(value)
    return "      -" if missing else f"{100 * float(value or 0):6.2f}%"


# How often prediction sets hold the true class, beside how often they promise to.


@dataclass(frozen=True, eq=False)
class SetScores:
    """Scores of the prediction sets of test pixels; build it with `score_sets`.

    Attributes
    ----------
    promised : float
        Share of the sets that are to hold the true class.
    measured : float
        Share of the test pixels' sets that do.
    mean_size : float
        Classes in a set.
    classes : tuple of ClassInfo, length C
    held, sizes : ndarray, shape (C,)
        The same by true class; NaN where it has no test pixel.
    support : ndarray of int, shape (C,)
        Test pixels of each class.
    """

    promised: float
    measured: float
    mean_size: float
    classes: tuple[ClassInfo, ...]
    held: NDArray[np.float64]
    sizes: NDArray[np.float64]
    support: NDArray[np.int64]

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings; NaN becomes None."""
        rows = zip(self.classes, self.held, self.sizes, self.support, strict=True)
        return {
            "promised_coverage": self.promised,
            "measured_coverage": self.measured,
            "mean_set_size": self.mean_size,
            "sets": [
                {
                    "id": info.value,
                    "name": info.name,
                    "coverage": float(held) if n else None,
                    "mean_set_size": float(size) if n else None,
                    "support": int(n),
                }
                for info, held, size, n in rows
            ],
        }

    def __str__(self) -> str:
        """Return a table for people."""
        width = max([len(info.name) for info in self.classes] + [5])
        lines = [
            f"prediction sets      {100 * self.measured:.1f} % hold the true class, promised "
            f"{100 * self.promised:g} %; {self.mean_size:.2f} classes in a set",
            "",
            f"  id  {'class':<{width}}  coverage  set size  pixels",
        ]
        rows = zip(self.classes, self.held, self.sizes, self.support, strict=True)
        for info, held, size, n in rows:
            cells = f"{100 * held:>6.1f} %  {size:>8.2f}" if n else f"{'-':>8}  {'-':>8}"
            lines.append(f"{info.value:>4}  {info.name:<{width}}  {cells}  {n:>6}")
        return "\n".join(lines)


def score_sets(
    true: NDArray[Any], proba: NDArray[Any], rule: SetRule, classes: Sequence[ClassInfo]
) -> SetScores:
    """Return how often the sets of test pixels hold the true class.

    Parameters
    ----------
    true : ndarray of int, ``(n,)``
        Class ids.
    proba : ndarray, ``(n, C)``
    rule : SetRule
        See `polyad.scene.prediction_sets`.
    classes : sequence of ClassInfo, length C

    Examples
    --------
    >>> classes = [ClassInfo(1, "corn", "#ffdd00"), ClassInfo(4, "woods", "#117733")]
    >>> proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]])
    >>> scores = score_sets(np.array([1, 4, 4]), proba, SetRule(0.8, (0.3, 0.3), 50), classes)
    >>> round(scores.measured, 2), round(scores.mean_size, 2), scores.held.tolist()
    (0.67, 1.33, [1.0, 0.5])
    """
    column = _positions(true, classes)
    members = set_members(proba, rule) == 1
    held, sizes = members[np.arange(len(column)), column], members.sum(axis=1)
    support = np.bincount(column, minlength=len(classes))
    held_share, mean_sizes = (
        _share(np.bincount(column, weights=values, minlength=len(classes)), support)
        for values in (held, sizes)
    )
    means = float(held.mean()), float(sizes.mean())
    return SetScores(rule.coverage, *means, tuple(classes), held_share, mean_sizes, support)
