"""Points of a sample with what somebody saw there, each kept with its own value.

Labels are drawn onto a grid, where the later of two wins. The points of a sample are counted
instead: none may be lost, doubled, empty or off the map.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError, SceneMismatch, told_as
from polyad.scene.files.paths import DRAWN_FROM, drawn_from, locate, no_file
from polyad.scene.raster import guards
from polyad.scene.raster.classes import UNLABELED, ClassInfo, ids_digest
from polyad.scene.raster.grid import Grid, describe_extents
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.labels import Labels, find_classes, known_classes
from polyad.scene.read.features import (
    PLACE_NAMES,
    Features,
    check_columns,
    read_features,
)
from polyad.scene.read.formats.kinds import feature_format
from polyad.scene.read.formats.ogr import MOST_CLASSES
from polyad.scene.read.labels import open_labels
from polyad.scene.read.rasterize import points_inside, to_pixels
from polyad.text import clean_name

REFERENCE = "reference"
STRATUM = "stratum"  # the field that a sample of ours has
_ORIGIN = re.compile(r"map=(.*?)#([0-9a-f]{12})(?: strata=(.*?)#([0-9a-f]{12}))?")
MOST_POINTS = 100_000  # of a sample that is looked at; nobody looks at more
_PLACES = ("row", "col")  # fields that say again where a point is


@dataclass(frozen=True, eq=False)
class SamplePoints:
    """Sampled pixels and their true classes.

    Attributes
    ----------
    pixels : ndarray of int, shape (n, 2)
        Rows and columns of the map.
    reference : ndarray of int, shape (n,)
        Ids of the true classes.
    strata : tuple of str, or None
        Id or name of each point's stratum as far as its file tells.
    where : tuple of str
        File and place in it of each point, for messages.
    left_out : int
        Points of the file without a reference, which are not among these.
    origins : tuple of str
        From which map, and which strata, the file says that they were drawn.
    """

    pixels: NDArray[np.intp]
    reference: NDArray[np.int64]
    strata: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()
    left_out: int = 0
    origins: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pixels)

    def place(self, k: int) -> str:
        """Return where one point comes from."""
        return self.where[k] if self.where else f"point {k + 1}"


class Origin(NamedTuple):
    """The map, and the strata if others than its classes, that a sample was drawn from."""

    map_name: str
    map_id: str
    strata_name: str = ""
    strata_id: str = ""

    def __str__(self) -> str:
        text = drawn_from(self.map_name, self.map_id)
        strata = f" strata={clean_name(Path(self.strata_name).name)}#{self.strata_id}"
        return text + strata if self.strata_id else text

    @classmethod
    def of(cls, text: str) -> Origin | None:
        """Return what the field of a sample says, None if it is not ours.

        Examples
        --------
        >>> Origin.of("map=map.tif#cb0ba8d17eb5 strata=zones.tif#0123456789ab")
        Origin(map_name='map.tif', map_id='cb0ba8d17eb5', strata_name='zones.tif',
               strata_id='0123456789ab')
        """
        found = _ORIGIN.fullmatch(text) if len(text) < 1000 else None
        return None if found is None else cls(*(group or "" for group in found.groups()))


def check_origin(
    path: str, texts: Iterable[str], raster: xr.DataArray, *, strata: bool = False
) -> None:
    """Raise `SceneMismatch` if a sample says that it was drawn from another map.

    Parameters
    ----------
    path : str
        The sample, for the message.
    texts : iterable of str
        Its field ``drawn_from``.
    raster : DataArray of int, dims (y, x)
        The map, or what the points are taken to be drawn from.
    strata : bool, default=False
        Whether it is compared with the strata of the sample, where these are not its map's classes.
    """
    origins = [origin for text in dict.fromkeys(texts) if (origin := Origin.of(text))]
    given = ids_digest(raster) if origins else ""
    for origin in origins:
        name, digest = origin[:2]
        if strata and origin.strata_id:
            name, digest = origin[2:]
        if digest != given:
            raise SceneMismatch(
                f"{path}: the sample was drawn from {name} ({digest}), got another "
                f"{'map or strata' if strata else 'map'} ({given}); name the original, or draw a "
                "new sample (polyad area takes another map if --strata names the original)"
            )


def open_points(
    source: str | os.PathLike[str],
    class_map: xr.DataArray,
    *,
    field: str = REFERENCE,
    layer: str | None = None,
    skip_empty: bool = False,
    max_bytes: int | None = None,
) -> SamplePoints:
    """Open the points of a sample with their true classes.

    Parameters
    ----------
    source : str or path
        A CSV with ``row,col``, ``x,y`` or ``lon,lat``, a GeoJSON, GeoPackage, Shapefile, FlatGeobuf
        or KML of points.
    class_map : DataArray of int, dims (y, x)
        The map that is checked; the points lie on its pixels.
    field : str, default="reference"
        Which field holds the true class, as name or id of a class of the map.
    layer : str, optional
        Which layer of a file that has several.
    skip_empty : bool, default=False
        Leave out points without a reference, and count them, instead of refusing the file.
    max_bytes : int, optional
        Most bytes that may be read at once.

    Raises
    ------
    SceneError
        There is no such field, it is still empty somewhere or names no class, or two points lie in
        one pixel.
    SceneMismatch
        Points lie off the map.
    """
    known, fields = Labels.of(class_map), (field, STRATUM, DRAWN_FROM)
    features, where, pixels = _read_points(source, known.grid, field, layer, max_bytes, fields)
    path, name = features.path, field
    if features.format != "CSV":
        name = features.class_column(field).name
    values, strata = features.texts(name) or [], features.texts(STRATUM)
    origins = tuple(dict.fromkeys(features.texts(DRAWN_FROM) or ()))
    filled = [k for k, value in enumerate(values) if value]
    empty = len(values) - len(filled)
    if empty and (not skip_empty or not filled):
        raise SceneError(
            f"{path}: {empty:,} of {len(values):,} points have no {field[:80]!r} yet, the first in "
            f"{where[values.index('')]}; fill in the name or id of a class, as with polyad label "
            "--check" + (", or leave them out with --skip-empty" if filled else "")
        )
    seen = [(where[k], values[k]) for k in filled]
    try:
        reference = _references(path, seen, known.classes, field)
    except SceneError:
        check_origin(str(path), origins, known.array)  # the reason, if it is another map
        raise
    stratum = tuple(strata[k] for k in filled) if strata and any(strata) else None
    places = tuple(f"{path}, {place}" for place, _ in seen)
    return SamplePoints(pixels[filled], reference, stratum, places, empty, origins)


def open_strata(
    source: str | os.PathLike[str] | None,
    class_map: xr.DataArray,
    *,
    max_bytes: int | None = None,
) -> xr.DataArray | None:
    """Open the strata of a sample, a raster or polygons, on the grid of the map; None of None."""
    if source is None:
        return None
    flat = Labels.of(class_map).array.expand_dims("band", axis=2)
    return open_labels(source, flat, max_bytes=max_bytes)


def _read_points(
    source: str | os.PathLike[str],
    grid: Grid,
    field: str,
    layer: str | None,
    max_bytes: int | None,
    fields: Sequence[str] | None = None,
) -> tuple[Features, list[str], NDArray[np.intp]]:
    """Return the features of a sample with some fields, or all, their places and their pixels."""
    path, budget = locate(os.fspath(source))[0], memory_budget(max_bytes)
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the points cannot be read", remedy):
        if not path.exists():
            raise no_file(path)
        if feature_format(path) is None:
            kinds = "CSV, GeoJSON, GeoPackage, Shapefile, FlatGeobuf or KML"
            raise SceneError(f"{path}: expected points as {kinds}, got another kind of file")
        named = MOST_POINTS if fields is None else MOST_CLASSES
        features = read_features(path, budget, layer=layer, fields=fields, named=named)
        if fields is not None:
            check_columns(features, [field], field)
        elif not features.system:
            check_columns(features, (), field)  # a CSV must place its lines
        xy = features.single_points(grid)
        if fields is None and features.system == "pixel" and grid.transform is not None:
            _check_coordinates(features, grid, xy)
    if not len(features):
        raise SceneError(f"{path}: expected the points of a sample, the file has none")
    if fields is None:
        guards.check_count(path, len(features), MOST_POINTS, "points of a sample")
    where = [features.where(k) for k in range(len(features))]
    inside, row, col = points_inside(xy, grid.shape)
    if not inside.all():
        extents = describe_extents(xy[~inside], grid).replace("the scene", "the map")
        raise SceneMismatch(
            f"{path}: {np.count_nonzero(~inside):,} of {len(inside):,} points lie off the map, the "
            f"first in {where[int(np.argmin(inside))]}: {extents}; remove them, or check the "
            "coordinates and their reference system"
        )
    flat = np.ravel_multi_index((row, col), grid.shape)
    _, first, index = np.unique(flat, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[index] != np.arange(len(flat)))
    if len(again):
        k = int(again[0])
        raise SceneError(
            f"{path}: {where[first[index[k]]]} and {where[k]} lie in one pixel, row {row[k]}, col "
            f"{col[k]}; a sample has each pixel once, remove one of the two"
        )
    return features, where, np.stack([row, col], axis=1)


def _references(
    path: Path, seen: Sequence[tuple[str, str]], classes: Sequence[ClassInfo], field: str
) -> NDArray[np.int64]:
    ids: dict[str, int] = {}
    for place, value in seen:
        if value not in ids:
            found = find_classes(classes, value)
            if len(found) != 1:
                fault = "names several classes" if found else "is no class"
                more = {v for _, v in seen if not find_classes(classes, v)} - {value}
                also = f" (nor are {guards.listing(map(repr, sorted(more)))})" if more else ""
                raise SceneError(
                    f"{path}, {place}: {field[:80]} {value[:80]!r} {fault} of the map{also}; "
                    f"{known_classes(classes)}; correct it, or train a map that has its class"
                )
            ids[value] = found[0].value
    return np.array([ids[value] for _, value in seen], np.int64)


def look_up(raster: xr.DataArray, pixels: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the ids of a raster at some pixels, shape (n,)."""
    at = {d: xr.DataArray(pixels[:, k], dims="point") for k, d in enumerate(("y", "x"))}
    return raster.isel(at).to_numpy().astype(np.int64)


def check_classed(points: SamplePoints, ids: NDArray[np.int64], what: str) -> None:
    """Raise `SceneMismatch` if points lie where the map has no class, or no stratum."""
    bare = np.flatnonzero(ids == UNLABELED)
    if len(bare):
        first = points.place(int(bare[0]))
        count = f"{len(bare):,} of {len(ids):,}"
        raise SceneMismatch(f"{count} points lie where {what}, the first in {first}; remove them")


# The points of a sample with all their fields, to be filled in and written again.


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
        alike = [name for name in self.fields if name.casefold() == field.casefold()] or [field]
        return field if field in alike else alike[0]

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
    features, where, pixels = _read_points(source, grid, field, layer, max_bytes)
    placing = PLACE_NAMES if features.format == "CSV" else _PLACES
    fields = {
        c.name: c.of_features(c.values)
        for c in features.columns
        if c.name.casefold() not in placing
    }
    return SampleFile(features.path, pixels, fields, tuple(where))


def _check_coordinates(features: Features, grid: Grid, xy: NDArray[np.float64]) -> None:
    """Refuse rows and columns of another grid, where the table has x and y beside them."""
    x, y = features.texts("x"), features.texts("y")
    try:
        also = np.array([x or [""], y or [""]], np.float64).T
    except ValueError:  # there is no such column, or it is not filled in
        return
    inside = ((xy >= 0) & (xy < (grid.shape[1], grid.shape[0]))).all(axis=1)  # others are told
    moved = np.abs(to_pixels(features.path, also, grid.crs, grid) - xy).max(axis=1, initial=0)
    apart = inside & ~(moved <= 1)
    if apart.any():
        raise SceneMismatch(
            f"{features.path}, {features.where(int(np.argmax(apart)))}: row and col are not where "
            "x and y are: the sample is of a map on another grid; delete the columns row and col"
        )
