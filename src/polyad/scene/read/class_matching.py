"""Match the classes of a label file with the classes of a model.

Two files of the same land often number the same classes differently. A name says what a class is,
an id says nothing beyond its file: names are compared wherever both sides have names of their own.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from polyad.errors import PolyadWarning, SceneMismatch
from polyad.scene.raster.classes import (
    UNLABELED,
    ClassInfo,
    class_color,
    class_table,
    has_own_name,
    with_classes,
)
from polyad.scene.raster.labels import NUMBERED_BY_NAME
from polyad.scene.raster.legend import folded_name
from polyad.scene.read.class_tables import complete


@dataclass(frozen=True)
class ClassMatch:
    """The classes of some labels as the classes of a model.

    Attributes
    ----------
    by : {"name", "id"}
        What was compared.
    ids : mapping of int to int
        Id in the labels to id in the model, of each class that the model knows.
    unknown : tuple of ClassInfo
        The classes of the labels that the model does not know.
    """

    by: str
    ids: Mapping[int, int]
    unknown: tuple[ClassInfo, ...]


def match_classes(labels: xr.DataArray, classes: Sequence[ClassInfo]) -> ClassMatch:
    """Match the classes of ``labels`` with ``classes``, by name if both have names of their own.

    Names that differ in case and blanks only are the same.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    classes : sequence of ClassInfo
        Those of a model.

    Examples
    --------
    >>> raster = xr.DataArray(np.array([[1, 2]]), dims=("y", "x"))
    >>> model = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]
    >>> rye = ClassInfo(2, "Rye", "#117733")
    >>> named = with_classes(raster, [ClassInfo(1, "oats", "#EE7733"), rye])
    >>> match_classes(named, model)
    ClassMatch(by='name', ids={1: 2}, unknown=(ClassInfo(value=2, name='Rye', color='#117733'),))
    >>> match_classes(raster, model).by
    'id'
    """
    table = _whole_table(labels)
    named = any(map(has_own_name, table)) and any(map(has_own_name, classes))
    by = "name" if named or labels.attrs.get(NUMBERED_BY_NAME, False) else "id"
    if by == "name":
        # Among classes of one name the id decides
        same = {(c.value, c.name): c.value for c in classes}
        exact = _once((c.name, c.value) for c in classes)
        alike = _once((folded_name(c.name), c.value) for c in classes)
        matched = {
            c.value: same.get((c.value, c.name), exact.get(c.name, alike.get(folded_name(c.name))))
            for c in table
        }
        ids = {theirs: ours for theirs, ours in matched.items() if ours is not None}
    else:
        known = {c.value for c in classes}
        ids = {c.value: c.value for c in table if c.value in known}
    return ClassMatch(by, ids, tuple(c for c in table if c.value not in ids))


def in_model_ids(
    labels: xr.DataArray, classes: Sequence[ClassInfo]
) -> tuple[xr.DataArray, ClassMatch]:
    """Return ``labels`` in the ids, names and colors of a model's ``classes``, and the match.

    Classes that the model does not know keep their ids, or get ones that the model does not have.
    """
    match = match_classes(labels, classes)
    ours = {c.value for c in classes}
    taken = ours | {c.value for c in match.unknown}
    free = (v for v in range(1, 2**16) if v not in taken)
    new = [(c, next(free) if c.value in ours else c.value) for c in match.unknown]
    ids = {**match.ids, **{info.value: value for info, value in new}}
    values = labels.to_numpy()
    lookup = np.zeros(max(int(values.max(initial=0)), *ids, 0) + 1, np.uint16)
    lookup[list(ids)] = list(ids.values())
    more = [
        ClassInfo(value, info.name, _own_color(info) or class_color(value)) for info, value in new
    ]
    lookup[UNLABELED] = UNLABELED
    return with_classes(labels.copy(data=lookup[values]), [*classes, *more]), match


def join_labels(rasters: Sequence[xr.DataArray], sources: Sequence[str]) -> xr.DataArray:
    """Return labels of several sources as one raster; of two labels of a pixel the later one wins.

    Parameters
    ----------
    rasters : sequence of DataArray of int, dims (y, x)
        On one grid. Classes are the same if their names are, or their ids where there are no names;
        names that came without ids are not joined with ids that came without names.
    sources : sequence of str
        Where each comes from, for messages.

    Examples
    --------
    >>> first = with_classes(xr.DataArray([[1, 0]], dims=("y", "x")), [ClassInfo(1, "Oats", "")])
    >>> other = with_classes(xr.DataArray([[0, 1]], dims=("y", "x")), [ClassInfo(1, "Corn", "")])
    >>> joined = join_labels([first, other], ["a.tif", "b.tif"])
    >>> joined.values.tolist(), joined.attrs["class_names"]
    ([[1, 2]], ['Oats', 'Corn'])
    """
    numbered = [bool(raster.attrs.get(NUMBERED_BY_NAME, False)) for raster in rasters]
    for raster, source in zip(rasters, sources, strict=True):
        if any(numbered) and not any(map(has_own_name, _whole_table(raster))):
            raise SceneMismatch(
                f"{source}: has class ids without names, and {sources[numbered.index(True)]} has "
                "names without ids: which class is which cannot be told; give both names"
            )
    by_name = all(numbered)
    if by_name:  # then the order of the files does not matter
        named = {c.name: c for raster in reversed(rasters) for c in class_table(raster)}
        classes: tuple[ClassInfo, ...] = tuple(
            ClassInfo(k, name, _own_color(named[name]) or class_color(k))
            for k, name in enumerate(sorted(named), start=1)
        )
    else:
        classes = _whole_table(rasters[0])
    joined = np.zeros(rasters[0].shape, np.uint16)
    for raster, source in zip(rasters, sources, strict=True):
        if raster.shape != joined.shape:
            raise SceneMismatch(
                f"{source}: labels of several files must have one size, got {raster.shape} beside "
                f"{joined.shape} of {sources[0]}; resample them to one grid"
            )
        renumbered, _ = in_model_ids(raster, classes)
        classes = class_table(renumbered)
        values = renumbered.to_numpy()
        clashes = np.count_nonzero((values != 0) & (joined != 0) & (values != joined))
        if clashes:
            warnings.warn(
                f"{source}: {clashes:,} pixels have another class in a file before it; the later "
                "label wins",
                PolyadWarning,
                stacklevel=3,
            )
        joined = np.where(values != 0, values, joined).astype(np.uint16)
    return with_classes(rasters[0].copy(data=joined), classes)


def _own_color(info: ClassInfo) -> str:
    """Return the color that a class was given, "" if it has the default one of its id."""
    return "" if info.color.upper() == class_color(info.value) else info.color


def _whole_table(labels: xr.DataArray) -> tuple[ClassInfo, ...]:
    """Return the classes that ``labels`` list and, with names filled in, those that just occur."""
    listed = class_table(labels)
    names, colors = {c.value: c.name for c in listed}, {c.value: c.color for c in listed}
    return complete(labels.to_numpy(), names, colors)


def _once(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return a dictionary of the pairs whose name comes once."""
    pairs = list(pairs)
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1}
