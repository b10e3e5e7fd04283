"""One field of a table of features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 1000  # values of a field; one with more numbers its features or measures something


@dataclass(frozen=True)
class Column:
    """One field of a table of features.

    Attributes
    ----------
    name : str
    kind : {"text", "integer", "real"}
    values : sequence
        The distinct values, empty ones left out; a range where they are too many to list.
    codes : ndarray of int, shape (features,)
        Which of ``values`` each feature has, -1 where it has none.
    numbers : ndarray of float, shape (features,), or None
        The number that each feature has, NaN where it has none; None unless it was asked for.
    """

    name: str
    kind: str
    values: Sequence[Any]
    codes: NDArray[np.int32]
    numbers: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    @property
    def filled(self) -> int:
        """How many features have a value."""
        return int(np.count_nonzero(self.codes >= 0))

    @property
    def repeats(self) -> bool:
        """Whether a value comes more than once."""
        return 0 < len(self.values) < self.filled

    def of_features(self, values: Sequence[Any], empty: Any = None) -> list[Any]:
        """Return for every feature what ``values`` say in place of its distinct value."""
        return [values[code] if code >= 0 else empty for code in self.codes.tolist()]

    @classmethod
    def of(cls, name: str, items: Iterable[Any]) -> Column:
        """Return the column of some values, of which None, "" and NaN are empty.

        Examples
        --------
        >>> Column.of("class", ["corn", None, "oats", "corn"])
        Column(name='class', kind='text', values=['corn', 'oats'], codes=array([ 0, -1,  1,  0],
               dtype=int32))
        """
        numbers: dict[Any, int] = {}
        codes = [
            -1 if _is_empty(item) else numbers.setdefault(item, len(numbers)) for item in items
        ]
        known = {int: "integer", bool: "integer", float: "real"}
        kinds = {known.get(type(value), "text") for value in numbers}
        kind = "text" if not kinds or "text" in kinds else "real" if "real" in kinds else "integer"
        return cls(name, kind, list(numbers), np.array(codes, np.int32))


def _is_empty(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())
