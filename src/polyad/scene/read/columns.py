"""Which field of a table of features holds the class: named by the user, or guessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster.guards import listing

MOST_CLASSES = 1000  # values of a field; one with more numbers its features or measures something
_EMPTY = -1


@dataclass(frozen=True)
class Column:
    """One field of a table of features.

    Attributes
    ----------
    name : str
    kind : {"text", "integer", "real"}
    values : sequence
        The distinct values, empty ones left out.
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
        return int(np.count_nonzero(self.codes != _EMPTY))

    @property
    def repeats(self) -> bool:
        """Whether a value comes more than once."""
        return 0 < len(self.values) < self.filled

    @property
    def items(self) -> list[Any]:
        """The value of every feature, None where it has none."""
        return [self.values[code] if code >= 0 else None for code in self.codes.tolist()]

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
            _EMPTY if is_empty(item) else numbers.setdefault(item, len(numbers)) for item in items
        ]
        kinds = {_kind(value) for value in numbers}
        kind = (
            kinds.pop() if len(kinds) == 1 else "real" if kinds == {"integer", "real"} else "text"
        )
        return cls(name, kind, list(numbers), np.array(codes, np.int32))

    def parsed(self) -> Column:
        """Return a column of text as numbers, if all that is filled in are numbers.

        Examples
        --------
        >>> [Column.of("a", texts).parsed().kind for texts in (["0.5", "", "2"], ["0.5", "dry"])]
        ['real', 'text']
        """
        try:
            return replace(self, kind="real", values=[float(value) for value in self.values])
        except ValueError:
            return self


def is_empty(value: Any) -> bool:
    """Whether a value of a field says nothing."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def _kind(value: Any) -> str:
    return {int: "integer", bool: "integer", float: "real"}.get(type(value), "text")


def choose_field(path: Path, columns: Sequence[Column], field: str | None = None) -> Column:
    """Return the field of the classes.

    Without a name it is guessed: the only field of text or whole numbers whose values repeat, of
    fields with two values or more if there is one; or the only field of text or whole numbers.

    Raises
    ------
    SceneError
        There is no such field, it has thousands of values, or several could be meant; the sentence
        lists them with the number of their values.
    """
    if field is not None:
        return _named(path, columns, field)
    usable = [c for c in columns if c.kind != "real" and 0 < len(c.values) <= MOST_CLASSES]
    repeating = [c for c in usable if c.repeats]
    for choice in ([c for c in repeating if len(c.values) > 1], repeating, usable):
        if len(choice) == 1:
            return choice[0]
        if choice:
            break
    raise SceneError(
        f"{path}: expected a field that holds the class, named by --field (in Python, field), got "
        f"{_listing(columns) or 'features without fields'}; --task regression learns numbers"
    )


def numbers_of(path: Path, columns: Sequence[Column], field: str) -> NDArray[np.float64]:
    """Return the number that each feature has in a field, NaN where it has none.

    Raises
    ------
    SceneError
        There is no such field, or it holds text.

    Examples
    --------
    >>> numbers_of(Path("plots.csv"), [Column.of("cover", [0.5, None, "1"])], "Cover").tolist()
    [0.5, nan, 1.0]
    """
    column = find_column(path, columns, field)
    if column.numbers is not None:
        return column.numbers
    values: list[float] = []
    for value in column.values if not isinstance(column.values, range) else ():
        try:
            values.append(float(value))
        except ValueError as error:
            raise SceneError(_holds_text(path, columns, column, value)) from error
    if isinstance(column.values, range):  # of a text with thousands of values
        raise SceneError(_holds_text(path, columns, column))
    return np.array([*values, math.nan])[column.codes]  # of -1 the last


def _holds_text(path: Path, columns: Sequence[Column], column: Column, value: Any = "") -> str:
    such = f", such as {str(value)[:40]!r}" if value else ""
    said = f"{path}: field {column.name[:80]!r} holds text{such}, expected numbers; "
    told = number_fields(columns)
    if not told:
        return said + "it has no field of numbers"
    return said + f"name a field of numbers with --field (in Python, field): {told}"


def number_fields(columns: Sequence[Column]) -> str:
    """Return the fields of numbers with how many values each has, "" if there are none."""
    return _listing([c for c in columns if c.kind != "text" and len(c.values)])


def _named(path: Path, columns: Sequence[Column], field: str) -> Column:
    column = find_column(path, columns, field)
    if len(column.values) > MOST_CLASSES:
        raise SceneError(
            f"{path}: field {column.name[:80]!r} has {len(column.values):,} values, expected at "
            f"most {MOST_CLASSES:,} classes; choose another --field, or add one that groups them"
        )
    return column


def find_column(path: Path, columns: Sequence[Column], field: str) -> Column:
    """Return the column of a name, whatever its case; raise `SceneError` if there is none."""
    alike = [c for c in columns if c.name.casefold() == field.casefold()]
    exact = [c for c in alike if c.name == field]
    column = next(iter(exact or alike), None)
    if column is None or len(exact or alike) > 1:
        raise SceneError(
            f"{path}: there is no field {field[:80]!r}; it has "
            f"{_listing(columns) or 'no fields of text or numbers'}"
        )
    return column


def _listing(columns: Sequence[Column]) -> str:
    order = sorted(columns, key=lambda c: (c.kind == "real", not c.repeats))
    return listing(f"{c.name} ({_values(len(c.values))})" for c in order)


def _values(n: int) -> str:
    return "1 value" if n == 1 else f"{n:,} values"
