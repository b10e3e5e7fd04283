"""The points of a sample with all their fields, to be filled in and written again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError, SceneMismatch, told_as
from polyad.scene.files.paths import locate, no_file
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.guards import memory_budget
from polyad.scene.read.formats.ogr import read_layer, vector_kind
from polyad.scene.read.label_fields import Column, is_empty
from polyad.scene.read.label_layers import CORNER_BYTES, all_points, check_placed, parts_of
from polyad.scene.read.label_shapes import to_pixels
from polyad.scene.read.label_vectors import (
    PLACE_NAMES,
    no_georeference,
    properties_of,
    read_csv_fields,
    read_csv_points,
    read_geojson,
)
from polyad.scene.read.sample_points import (
    GEOJSON,
    REFERENCE,
    TABLES,
    check_apart_pixels,
    pixels_of,
    single_points,
)

MOST_POINTS = 100_000  # of a sample; nobody looks at more
_PLACES = ("row", "col")  # fields that say again where a point is


@dataclass(frozen=True, eq=False)
class SampleFile:
    """The points of a file, whether they have been checked or not.

    Attributes
    ----------
    path : Path
    pixels : ndarray of int, shape (n, 2)
        Rows and columns of the scene.
    fields : dict of str to list
        All fields of text and numbers, None where empty; without those that place the points.
    where : tuple of str
        The place in the file of each point, for messages.
    """

    path: Path
    pixels: NDArray[np.intp]
    fields: dict[str, list[Any]]
    where: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    def named(self, field: str) -> str:
        """Return the name of a field as the file spells it, whatever its case."""
        alike = [name for name in self.fields if name.casefold() == field.casefold()]
        return field if field in alike or not alike else alike[0]

    def texts(self, field: str) -> list[str]:
        """Return the values of a field as text, "" where there is none, or no such field."""
        values = self.fields.get(self.named(field), [None] * len(self))
        return ["" if value is None else str(value).strip() for value in values]


def open_sample(
    source: str | os.PathLike[str],
    grid: Grid,
    *,
    field: str = REFERENCE,
    layer: str | None = None,
    max_bytes: int | None = None,
) -> SampleFile:
    """Open the points of a sample, checked or not, with all their fields.

    Parameters
    ----------
    source : str or path
        See `polyad.scene.open_points`.
    grid : Grid
        Of the scene on which the points are looked at.
    field : str, default="reference"
        Which field holds the true class; the file need not have it.
    layer : str, optional
    max_bytes : int, optional

    Raises
    ------
    SceneError
        The file is none of points, or two of them lie in one pixel.
    SceneMismatch
        Points lie off the scene.
    """
    path, budget = locate(os.fspath(source))[0], memory_budget(max_bytes)
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the points cannot be read", remedy):
        where, xy, fields = _read(path, grid, budget, field, layer)
    if not where:
        raise SceneError(f"{path}: wanted the points of a sample, the file has none")
    guards.check_count(path, len(where), MOST_POINTS, "points of a sample")
    pixels = pixels_of(path, where, xy, grid)
    check_apart_pixels(path, where, pixels)
    kept = {name: values for name, values in fields.items() if name.casefold() not in _PLACES}
    return SampleFile(path, pixels, kept, tuple(where))


_Read = tuple[list[str], NDArray[np.float64], dict[str, list[Any]]]


def _read(path: Path, grid: Grid, budget: int, field: str, layer: str | None) -> _Read:
    if not path.exists():
        raise no_file(path)
    suffix = path.suffix.lower()
    if suffix in (*TABLES, *GEOJSON) and layer is not None:
        raise SceneError(f"{path}: this kind of file has no layers; leave --layer out")
    if suffix in TABLES:
        return _read_csv(path, grid, budget, field)
    if suffix in GEOJSON:
        return _read_geojson(path, grid, budget)
    kind = vector_kind(path)
    if kind is None:
        raise SceneError(
            f"{path}: wanted the points of a sample as CSV, GeoJSON, GeoPackage, Shapefile, "
            "FlatGeobuf or KML, got another kind of file"
        )
    return _read_layer(path, kind, grid, budget, layer)


def _read_csv(path: Path, grid: Grid, budget: int, field: str) -> _Read:
    points = read_csv_points(path, grid, budget, field=field, required=False)
    columns = read_csv_fields(path, budget)
    where = [f"line {number}" for number in points.numbers]
    if points.exact and grid.transform is not None:
        _check_coordinates(path, grid, points.xy, where, columns)
    fields = {
        name: [value.strip() or None for value in values]
        for name, values in columns.items()
        if name.lower() not in PLACE_NAMES
    }
    return where, points.xy, fields


def _check_coordinates(
    path: Path,
    grid: Grid,
    xy: NDArray[np.float64],
    where: Sequence[str],
    columns: Mapping[str, Sequence[str]],
) -> None:
    """Refuse rows and columns of another grid, where the table has x and y beside them."""
    try:
        also = np.array([columns["x"], columns["y"]], np.float64).T
    except (KeyError, ValueError):
        return
    inside = ((xy >= 0) & (xy < (grid.shape[1], grid.shape[0]))).all(axis=1)  # others are told
    moved = np.abs(to_pixels(path, also, grid.crs, grid) - xy).max(axis=1, initial=0)
    apart = inside & ~(moved <= 1)
    if apart.any():
        raise SceneMismatch(
            f"{path}, {where[int(np.argmax(apart))]}: row and col are not where x and y are on the "
            "scene, so the sample was drawn from a map on another grid; take the columns row and "
            "col out of the file"
        )


def _read_geojson(path: Path, grid: Grid, budget: int) -> _Read:
    features, shapes, crs = read_geojson(path, budget)
    if grid.transform is None:
        raise no_georeference(path, "the points of a GeoJSON")
    records = [properties_of(feature) for feature in features]
    names = list(dict.fromkeys(str(name) for record in records for name in record))
    guards.check_count(path, len(names) * len(records), 20_000_000, "values of fields")
    plain = (int, float, str)
    fields = {
        n: [v if isinstance(v := r.get(n), plain) and not is_empty(v) else None for r in records]
        for n in names
    }
    xy = to_pixels(path, single_points(path, shapes), crs, grid) if shapes else np.empty((0, 2))
    return [f"feature {k}" for k in range(1, len(xy) + 1)], xy, fields


def _read_layer(path: Path, kind: str, grid: Grid, budget: int, layer: str | None) -> _Read:
    if grid.transform is None:
        raise no_georeference(path, f"the points of a {kind}")
    table = read_layer(path, kind, layer, budget, named=MOST_POINTS)
    guards.check_budget(path, len(table.wkb) // 16 * CORNER_BYTES, budget, "a layer")
    points = all_points(table)
    xy = single_points(path, parts_of(path, table)) if points is None else points
    if len(xy):
        check_placed(path, table, xy, grid)
    where = [f"feature {k}" for k in range(1, len(xy) + 1)]
    fields = {column.name: _values(column) for column in table.columns}
    return where, to_pixels(path, xy, table.crs, grid), fields


def _values(column: Column) -> list[Any]:
    return [column.values[code] if code >= 0 else None for code in column.codes.tolist()]
