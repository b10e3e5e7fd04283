"""How often prediction sets hold the true class, beside how often they promise to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.scene.raster.classes import ClassInfo
from polyad.scene.raster.prediction_sets import SetRule, set_members


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

    def to_dict(self) -> dict[str, Any]:
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
        for info, held, size, n in zip(
            self.classes, self.held, self.sizes, self.support, strict=True
        ):
            told = f"{100 * held:>6.1f} %  {size:>8.2f}" if n else f"{'-':>8}  {'-':>8}"
            lines.append(f"{info.value:>4}  {info.name:<{width}}  {told}  {n:>6}")
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
    place = {info.value: k for k, info in enumerate(classes)}
    own = np.array([place[int(value)] for value in true], np.intp)
    members = set_members(proba, rule) == 1
    held, sizes = members[np.arange(len(own)), own], members.sum(axis=1)
    support = np.bincount(own, minlength=len(classes))
    with np.errstate(invalid="ignore"):
        by_class, size_by_class = (
            np.bincount(own, weights=values, minlength=len(classes)) / support
            for values in (held, sizes)
        )
    shares = (float(held.mean()), float(sizes.mean()))
    return SetScores(
        rule.coverage, *shares, tuple(classes), by_class, size_by_class, support.astype(np.int64)
    )
