"""Other classes for the same ids: several merged into one, and other colors.

Classes are named as a user names them: by their name, case and blanks aside, or by their id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError
from polyad.scene.files.option_values import merge_rules
from polyad.scene.raster.classes import (
    UNLABELED,
    ClassInfo,
    class_key,
    class_table,
    is_color,
    with_classes,
)
from polyad.scene.raster.guards import listing
from polyad.scene.raster.scene import as_labels


@dataclass(frozen=True)
class Merging:
    """Which classes become which.

    Attributes
    ----------
    before, after : tuple of ClassInfo
    positions : tuple of int
        For each class before, the position in ``after`` of the class that it becomes.
    """

    before: tuple[ClassInfo, ...]
    after: tuple[ClassInfo, ...]
    positions: tuple[int, ...]

    def sums(self, proba: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the probabilities ``(..., after)`` of the classes from those ``(..., before)``."""
        out = np.zeros((*proba.shape[:-1], len(self.after)), proba.dtype)
        for k, position in enumerate(self.positions):
            out[..., position] += proba[..., k]
        return out

    def followed_by(self, later: Merging) -> Merging:
        """Return what both do, one after the other."""
        positions = tuple(later.positions[k] for k in self.positions)
        return Merging(self.before, later.after, positions)


def plan_merge(classes: Sequence[ClassInfo], merge: str | Sequence[str]) -> Merging:
    """Return which classes become which by rules such as ``corn+soy=crops``.

    A merged class has the id and color of the class that is called as it is, if there is one, which
    is then part of it; else the smallest id and the color of the first class of the rule. A rule of
    one class, ``corn=maize``, renames it.

    Parameters
    ----------
    classes : sequence of ClassInfo
    merge : str or sequence of str
        Rules. No class may be in two of them.

    Examples
    --------
    >>> table = [ClassInfo(k, name, "") for k, name in enumerate(["corn", "soy", "road"], start=1)]
    >>> merging = plan_merge(table, "corn+soy=crops")
    >>> [(c.value, c.name) for c in merging.after], merging.positions
    ([(1, 'crops'), (3, 'road')], (0, 0, 1))
    """
    new = {c.value: c for c in classes}  # by id before: the class after
    touched: set[int] = set()
    for rule, left, name in merge_rules(merge):
        group = _named(classes, left, rule)
        same = find_classes(classes, name)
        kept = same[0] if same else ClassInfo(min(c.value for c in group), name, group[0].color)
        ids = {c.value for c in (*group, *same)}
        if again := touched & ids:
            twice = next(c for c in classes if c.value in again)
            raise InputError(
                f"cannot merge by {rule!r}: {class_key(twice)} is in another rule already; put "
                "all classes that become one into one rule"
            )
        touched |= ids
        new |= dict.fromkeys(ids, kept)
    after = tuple(sorted(set(new.values())))
    return Merging(tuple(classes), after, tuple(after.index(new[c.value]) for c in classes))


def merge_labels(labels: xr.DataArray, merge: str | Sequence[str]) -> xr.DataArray:
    """Return labels, or a class map, with some of their classes merged.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    merge : str or sequence of str
        Rules such as ``corn+soy=crops``: classes by name or id, and the name of the new one.

    Examples
    --------
    >>> table = [ClassInfo(1, "corn", ""), ClassInfo(2, "soy", ""), ClassInfo(5, "road", "")]
    >>> labels = with_classes(xr.DataArray(np.array([[0, 1, 2, 5]]), dims=("y", "x")), table)
    >>> merged = merge_labels(labels, "corn+soy=crops")
    >>> merged.values.tolist(), merged.attrs["class_names"]
    ([[0, 1, 1, 5]], ['crops', 'road'])
    """
    labels = as_labels(labels)
    merging = plan_merge(class_table(labels), merge)
    values = labels.to_numpy()
    largest = max([int(values.max(initial=0)), *(c.value for c in merging.before)])
    lookup = np.arange(largest + 1).astype(values.dtype)
    lookup[UNLABELED] = UNLABELED
    for info, position in zip(merging.before, merging.positions, strict=True):
        lookup[info.value] = merging.after[position].value
    return with_classes(labels.copy(data=lookup[values]), merging.after)


def recolored(
    classes: Sequence[ClassInfo], colors: Mapping[Any, str]
) -> tuple[tuple[ClassInfo, ...], list[str]]:
    """Return ``classes`` with other colors, and which names in ``colors`` none of them has.

    Parameters
    ----------
    classes : sequence of ClassInfo
    colors : mapping
        From a class, by name or id, to its color as ``#rrggbb``. Other classes keep theirs.

    Raises
    ------
    InputError
        A color is none, or no class of the table is among ``classes``.

    Examples
    --------
    >>> table = [ClassInfo(1, "corn", "#4477AA"), ClassInfo(2, "soy", "#EE7733")]
    >>> recolored(table, {"Corn": "#ffdd00", "rye": "#000000"})
    ((ClassInfo(value=1, name='corn', color='#FFDD00'),
      ClassInfo(value=2, name='soy', color='#EE7733')), ['rye'])
    """
    new: dict[int, ClassInfo] = {}
    unknown: list[str] = []
    for key, color in colors.items():
        if not is_color(color):
            raise InputError(f"the color of {key!r} is {color!r}, wanted one such as '#4477AA'")
        found = find_classes(classes, key)
        unknown += [] if found else [str(key)]
        new |= {c.value: c._replace(color=color.upper()) for c in found}
    if unknown and not new:
        raise InputError(
            f"no class is called {listing(map(repr, unknown))}, for which there are colors; "
            f"{known_classes(classes)}"
        )
    return tuple(new.get(c.value, c) for c in classes), unknown


def find_classes(classes: Sequence[ClassInfo], key: str | int) -> list[ClassInfo]:
    """Return the classes that ``key`` means: by name, else by name whatever its case, else by id.

    Two classes of the same name are both meant.

    Examples
    --------
    >>> table = [ClassInfo(1, "corn", "#4477AA"), ClassInfo(2, "soy", "#EE7733")]
    >>> [c.value for key in ("corn", "Soy", "2", 1, "rye") for c in find_classes(table, key)]
    [1, 2, 2, 1]
    """
    text = str(key)
    number = int(text) if text.strip().isdecimal() and len(text) < 20 else None
    by_id = [c for c in classes if c.value == number]
    if isinstance(key, int):
        return by_id
    exact = [c for c in classes if c.name == text]
    return exact or [c for c in classes if folded_name(c.name) == folded_name(text)] or by_id


def known_classes(classes: Sequence[ClassInfo]) -> str:
    """Return the half of a sentence that lists the classes there are."""
    return f"the classes are {listing(map(class_key, classes))}"


def _named(classes: Sequence[ClassInfo], left: str, rule: str) -> list[ClassInfo]:
    """Return the classes of ``a+b``; a name may have a plus of its own, so the longest wins."""
    parts, group = left.split("+"), dict[int, ClassInfo]()
    while parts:
        for length in range(len(parts), 0, -1):
            found = find_classes(classes, "+".join(parts[:length]).strip())
            if found:
                group |= {c.value: c for c in found}
                parts = parts[length:]
                break
        else:
            raise InputError(
                f"cannot merge by {rule!r}: no class is called {parts[0].strip()!r}; "
                f"{known_classes(classes)}"
            )
    return list(group.values())


def folded_name(name: str) -> str:
    """Return a name as it is compared: without case, with single blanks."""
    return " ".join(name.split()).casefold()
