"""`Labels`: class ids of pixels, what the ids mean, and which labels belong together.

Groups of labels are a coordinate ``group``, dims ``(y, x)``, whole numbers, 0 where there is none.
Labels of one group are held out together; whatever crops or renumbers labels keeps it. Classes are
named as a user names them: by their name, case and blanks aside, or by their id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError, SceneError, SceneMismatch
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
from polyad.scene.raster.scene import Raster, as_labels
from polyad.text import composed

NUMBERED_BY_NAME = "class_ids_numbered_by_name"
"""Attribute of labels whose file has names alone, so that their ids mean nothing outside it."""


Array = npt.NDArray[Any]
GROUP = "group"
NO_GROUP = 0


class LabelGroups(NamedTuple):
    """The groups of some labels.

    Attributes
    ----------
    ids : ndarray of int, ``(n,)``
        A label without a group is a group of its own.
    by : {"groups", "polygons"}
        Given by the user, and then held out as they are; or the shapes that labels were drawn as,
        which are held out whole, together with others of their block.
    """

    ids: Array
    by: str


@dataclass(frozen=True, eq=False)
class Labels(Raster):
    """A label raster or class map as the package works with it.

    Users pass and receive ``xarray.DataArray``. A public function calls `Labels.of` once, and
    everything behind it takes the `Labels`, whose ids, classes and groups are worked out once.

    Attributes
    ----------
    array : DataArray of int, dims ``(y, x)``
        Class ids, 0 where there is no label.

    Examples
    --------
    >>> labels = Labels.of(xr.DataArray([[[0, 3], [1, 3]]], dims=("band", "y", "x")))
    >>> labels.ids.tolist(), [c.name for c in labels.classes], labels.groups
    ([[0, 3], [1, 3]], ['class 1', 'class 3'], None)
    """

    @classmethod
    def of(cls, labels: xr.DataArray | xr.Dataset | Labels) -> Labels:
        """Return what a user passed as labels, see `as_labels`; `Labels` are returned as such."""
        return labels if isinstance(labels, Labels) else cls(as_labels(labels))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, cols = self.array.shape
        return rows, cols

    @cached_property
    def ids(self) -> NDArray[Any]:
        """Class ids in memory, ``(rows, columns)``."""
        return np.asarray(self.array.values)

    @cached_property
    def classes(self) -> tuple[ClassInfo, ...]:
        """The classes in the order of their ids; see `polyad.scene.class_table`."""
        return class_table(self.array)

    @cached_property
    def groups(self) -> NDArray[np.int32] | None:
        """The group of each pixel, 0 where there is none; None if the labels have no groups."""
        held = self.array.coords.get(GROUP)
        return None if held is None or held.dims != ("y", "x") else np.asarray(held.values)

    @property
    def numbered_by_name(self) -> bool:
        """Whether the ids were counted from names, so that they mean nothing elsewhere."""
        return bool({NUMBERED_BY_NAME: False, **self.array.attrs}[NUMBERED_BY_NAME])

    def groups_at(self, pixels: NDArray[Any]) -> LabelGroups | None:
        """Return the groups of labeled pixels, ``(n, 2)``; None if the labels have no groups.

        Examples
        --------
        >>> labels = xr.DataArray([[1, 1, 2, 2]], dims=("y", "x"))
        >>> drawn = Labels.of(with_groups(labels, [[7, 7, 0, 0]], by="polygons"))
        >>> drawn.groups_at(np.array([[0, 0], [0, 1], [0, 2], [0, 3]])).ids.tolist()
        [7, 7, 8, 9]
        """
        if self.groups is None:
            return None
        ids = self.groups[tuple(pixels.T)].astype(np.int64)
        if not ids.any():
            return None
        alone = ids == NO_GROUP
        ids[alone] = ids.max() + 1 + np.arange(np.count_nonzero(alone))
        by = {"by": "groups", **self.array.coords[GROUP].attrs}["by"]
        return LabelGroups(ids, str(by))


def with_groups(labels: xr.DataArray, groups: Any, by: str = "groups") -> xr.DataArray:
    """Return labels with groups, which are held out together when accuracy is estimated.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    groups : DataArray or ndarray of int, dims (y, x)
        Such as the number of a plot, a field or a day; every labeled pixel must have one.
    by : {"groups", "polygons"}, default="groups"

    Examples
    --------
    >>> labels = xr.DataArray([[1, 1, 2, 2]], dims=("y", "x"))
    >>> with_groups(labels, [[7, 7, 8, 9]])["group"].values.tolist()
    [[7, 7, 8, 9]]
    """
    labels = Labels.of(labels).array
    values = np.asarray(groups.values if isinstance(groups, xr.DataArray) else groups)
    if values.shape != labels.shape:
        raise SceneMismatch(
            f"groups must cover the labels' {labels.shape[0]} rows and {labels.shape[1]} columns, "
            f"got {values.shape}; give one number for each pixel"
        )
    labeled = labels.values > 0
    if values.dtype.kind == "f" and np.isfinite(values[labeled]).all():
        whole = np.where(labeled, values, NO_GROUP)
        values = whole.astype(np.int64) if (whole % 1 == 0).all() else values
    if values.dtype.kind not in "iub":
        raise SceneError(
            f"groups must be whole numbers, got {values.dtype} with missing or broken ones; number "
            "the groups, and give every labeled pixel one"
        )
    if by == "groups":
        check_groups(values[labeled])
    # Numbers may be as long as those of parcels are: what counts is which are the same
    distinct = np.unique(values[labeled & (values != NO_GROUP)])
    if len(distinct) and (distinct[0] < 0 or distinct[-1] >= 2**31):
        values = np.searchsorted(distinct, values) + 1
    numbers = np.where(labeled, values, NO_GROUP).astype(np.int32)
    return labels.assign_coords({GROUP: (("y", "x"), numbers, {"by": by})})


def check_groups(ids: Array, name: str = "groups") -> None:
    """Raise `SceneError` unless every label has a group and there are two groups at least."""
    missing = int(np.count_nonzero(ids == NO_GROUP))
    if missing:
        raise SceneError(
            f"{name}: {missing:,} of {len(ids):,} labeled pixels have no group (0), so what they "
            "belong to cannot be held out; give every label a group"
        )
    if len(ids) and (ids == ids[0]).all():
        raise SceneError(
            f"{name}: all {len(ids):,} labels are of one group, so none is left to train on when "
            "it is held out; expected two groups at least"
        )


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
    >>> merged.values.tolist(), [c.name for c in class_table(merged)]
    ([[0, 1, 1, 5]], ['crops', 'road'])
    """
    known = Labels.of(labels)
    merging, values = plan_merge(known.classes, merge), known.ids
    largest = max([int(values.max(initial=0)), *(c.value for c in merging.before)])
    lookup = np.arange(largest + 1).astype(values.dtype)
    lookup[UNLABELED] = UNLABELED
    for info, position in zip(merging.before, merging.positions, strict=True):
        lookup[info.value] = merging.after[position].value
    return with_classes(known.array.copy(data=lookup[values]), merging.after)


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
            raise InputError(f"the color of {key!r} is {color!r}, expected one such as '#4477AA'")
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
    """Return the classes of ``a+b``; one whose name has a plus is called by its id there."""
    group = dict[int, ClassInfo]()
    for name in [left] if find_classes(classes, left) else left.split("+"):
        found = find_classes(classes, name.strip())
        if not found:
            raise InputError(
                f"cannot merge by {rule!r}: no class is called {name.strip()!r}; "
                f"{known_classes(classes)}"
            )
        group |= {c.value: c for c in found}
    return list(group.values())


def folded_name(name: str) -> str:
    """Return a name as it is compared: without case, with single blanks, composed."""
    return composed(" ".join(name.split()).casefold())
