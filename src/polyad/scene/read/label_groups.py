"""Which labels of a file belong together: by a field of theirs, or by the shape they were drawn as.

Pixels of one polygon show one object: to train on some and test on others tells nothing. So shapes
are groups unless a field says what is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.groups import GROUP, NO_GROUP, check_groups
from polyad.scene.raster.guards import listing
from polyad.scene.read.formats.ogr import read_layer
from polyad.scene.read.label_fields import Column
from polyad.scene.read.label_marks import Mark, Points
from polyad.scene.read.label_vectors import (
    label_of,
    properties_of,
    read_csv_points,
    read_geojson,
)

NAMES = "names"  # attribute of the coordinate: of the groups from 1 on


def shape_groups(
    labels: xr.DataArray, marks: Sequence[Mark], owners: NDArray[np.int32]
) -> xr.DataArray:
    """Return labels with a group for each line or polygon; points have none."""
    shapes = [mark.number for mark in marks if not isinstance(mark, Points)]
    if not shapes:
        return labels
    drawn = np.zeros(int(owners.max()) + 1, bool)
    drawn[[number for number in shapes if number < len(drawn)]] = True
    numbers = np.where(drawn[owners], owners, NO_GROUP)
    return _with(labels, numbers, "polygons", ())


def field_groups(
    labels: xr.DataArray,
    path: Path,
    values: Mapping[int, str],
    field: str,
    owners: NDArray[np.int32],
) -> xr.DataArray:
    """Return labels with the groups that a field gives the lines or features they come from.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    path : Path
        Of the file.
    values : mapping of int to str
        Number of a line or feature to its group; see `read_groups`.
    field : str
    owners : ndarray of int, shape (height, width)
        Number of the line or feature that labels each pixel, 0 where none does.
    """
    used = np.unique(owners[labels.values > 0])
    missing = [int(number) for number in used if int(number) not in values]
    if missing:
        raise SceneError(
            f"{path}: {len(missing):,} labels have no value in {field[:80]!r}, by which labels are "
            f"grouped, the first in line or feature {missing[0]}; fill it in, or leave them out"
        )
    names = sorted({values[int(number)] for number in used})
    number_of = {name: k for k, name in enumerate(names, start=1)}
    lookup = np.zeros(int(used.max()) + 1, np.int32)
    lookup[used] = [number_of[values[int(number)]] for number in used]
    groups = np.where(labels.values > 0, lookup[np.minimum(owners, len(lookup) - 1)], NO_GROUP)
    return _with(labels, groups, "groups", names)


def read_groups(
    path: Path, kind: str, grid: Grid, budget: int, *, field: str, layer: str | None = None
) -> dict[int, str]:
    """Return the group of each line of a CSV, or of each feature, by its number from 1 on.

    Parameters
    ----------
    path : Path
    kind : str
        Ending of a text file, or kind of a vector file.
    grid, budget
        See `polyad.scene.read.labels`.
    field : str
        Which column, property or field holds the group, in capitals or not.
    layer : str, optional
    """
    if kind in (".csv", ".tsv", ".txt"):
        points = read_csv_points(path, grid, budget, field=field, required=False)
        told = zip(points.numbers, points.annotations, strict=True)
        values = {number: a.label for number, a in told if a is not None and _says(a.label)}
        if not values:
            raise SceneError(f"{path}: there is no column {field[:80]!r} with values; name another")
        return values
    if kind in (".geojson", ".json"):
        records = [properties_of(feature) for feature in read_geojson(path, budget)[0]]
        names = dict.fromkeys(name for record in records for name in record)
        chosen = _named(path, list(names), field)
        items = [record.get(chosen) for record in records]
        column = Column.of(chosen, (v if isinstance(v, int | float | str) else None for v in items))
    else:
        table = read_layer(path, kind, layer, budget)
        chosen = _named(path, [c.name for c in table.columns], field)
        column = next(c for c in table.columns if c.name == chosen)
    labels = [label_of(value) for value in column.values]
    codes = enumerate(column.codes.tolist(), start=1)
    return {k: labels[code] for k, code in codes if code >= 0 and _says(labels[code])}


def join_groups(joined: xr.DataArray, rasters: Sequence[xr.DataArray]) -> xr.DataArray:
    """Return labels joined from several files with the groups of all; the later label wins.

    Groups of one name are one, whatever file they are of; shapes of different files differ.
    """
    if not any(GROUP in raster.coords for raster in rasters):
        return joined
    names: dict[str, int] = {}
    numbers: NDArray[Any] = np.zeros(joined.shape, np.int32)
    first, by = 0, "polygons"
    for raster in rasters:
        own: NDArray[Any] = np.zeros(joined.shape, np.int32)
        if GROUP in raster.coords:
            group = raster.coords[GROUP]
            by, own = str(group.attrs.get("by", by)), group.values.copy()
            if group.attrs.get(NAMES):
                known = [names.setdefault(name, len(names) + 1) for name in group.attrs[NAMES]]
                own = np.array([NO_GROUP, *known])[own]
            else:
                own = np.where(own > 0, own + first, NO_GROUP)
                first = max(first, int(own.max()))
        numbers = np.where(raster.values > 0, own, numbers)
    return _with(joined, numbers, by, list(names))


def check_field_groups(labels: xr.DataArray, field: str) -> None:
    """Raise `SceneError` unless the groups of a field are two at least."""
    check_groups(labels.coords[GROUP].values[labels.values > 0], f"--groups {field[:80]}")


def _with(
    labels: xr.DataArray, numbers: NDArray[Any], by: str, names: Sequence[str]
) -> xr.DataArray:
    attributes = {"by": by} | ({NAMES: list(names)} if names else {})
    return labels.assign_coords({GROUP: (("y", "x"), numbers.astype(np.int32), attributes)})


def _named(path: Path, names: Sequence[str], field: str) -> str:
    """Return the name of a field as the file spells it."""
    for same in (str, str.casefold):
        for name in names:
            if same(name) == same(field.strip()):
                return name
    raise SceneError(
        f"{path}: there is no field {field[:80]!r} to group labels by; it has "
        f"{listing(names) or 'no fields'}"
    )


def _says(label: str) -> bool:
    return label.strip().casefold() not in ("", "nan", "none", "null")
