"""Labels from the layers that GIS programs write: a field is the class, a style its color."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid, describe_extents
from polyad.scene.read.columns import Column, choose_field
from polyad.scene.read.formats.geopackage import layer_style
from polyad.scene.read.formats.markup import parse_xml, read_text
from polyad.scene.read.formats.ogr import VectorLayer, read_layer
from polyad.scene.read.formats.opening import check_beside
from polyad.scene.read.formats.qml import MAX_BYTES, Category, categories, without_doctype
from polyad.scene.read.label_vectors import label_of, no_georeference, warn_of_skipped
from polyad.scene.read.rasterize import (
    Annotation,
    Array,
    Labeled,
    Mark,
    Part,
    Points,
    marks_of,
    parts_of_wkb,
    to_pixels,
)

CORNER_BYTES = 100  # what a corner takes while it is read, moved and drawn
_POINT = 21  # bytes of a point in well-known binary: byte order, kind, two numbers
_POINTS = np.dtype([("order", "u1"), ("kind", "<u4"), ("xy", "<f8", (2,))])
# What the driver for KML puts into every table, whatever the file says
_OF_KML = {
    "id", "timestamp", "begin", "end", "altitudemode", "tessellate", "extrude", "visibility",
    "draworder", "icon", "snippet", "address", "phonenumber", "camera_altitudemode",
}  # fmt: skip


def read_layer_marks(
    path: Path,
    kind: str,
    grid: Grid,
    budget: int,
    *,
    layer: str | None = None,
    field: str | None = None,
) -> list[Mark]:
    """Read the features of a layer as marks in pixels.

    Parameters
    ----------
    path : Path
    kind : str
        Of the file, see `polyad.scene.read.formats.ogr.vector_kind`.
    grid : Grid
        Of the scene.
    budget : int
        Bytes that may be read.
    layer, field : str, optional
        Its name, and the field of the classes; see `choose_field`.
    """
    if grid.transform is None:
        raise no_georeference(path, f"features of a {kind}")
    table = read_layer(path, kind, layer, budget)
    guards.check_budget(path, len(table.wkb) // 16 * CORNER_BYTES, budget, "a layer")
    column = choose_field(path, class_columns(kind, table), field)
    style = _style(path, kind, table.name, column.name)
    own = [_annotation(value, style) for value in column.values]
    annotations = [own[code] if code >= 0 else None for code in column.codes.tolist()]
    _tell_skipped(path, column, table)
    return layer_marks(path, table, annotations, grid)


def class_columns(kind: str, table: VectorLayer) -> Sequence[Column]:
    """Return the fields that the author of a layer gave it."""
    columns = [c for c in table.columns if kind != "KML" or c.name.lower() not in _OF_KML]
    return columns or table.columns


def _annotation(value: Any, style: Mapping[str, Category]) -> Annotation:
    label = label_of(value)
    category = style.get(str(value), style.get(label, Category("", "")))
    # Beside a number, the legend says what the number means.
    name = category.name.strip() if label.isdecimal() and category.name.strip() != label else ""
    return Annotation(label, name, category.color)


def _style(path: Path, kind: str, layer: str, field: str) -> Mapping[str, Category]:
    """Return the categories of a style beside the file or in it; an odd one colors nothing."""
    beside = path.with_suffix(".qml")
    text: str | None = None
    try:
        if beside.is_file():
            text = read_text(check_beside(path, beside), "a style of QGIS", MAX_BYTES)
        elif kind == "GeoPackage":
            text = layer_style(path, layer)
        if not text:
            return {}
        return categories(parse_xml(beside, without_doctype(text), "a style of QGIS"), field)
    except SceneError as error:
        warnings.warn(f"{error}; default colors are used", PolyadWarning, stacklevel=6)
        return {}


def _tell_skipped(path: Path, column: Column, table: VectorLayer) -> None:
    empty = int(np.count_nonzero(column.codes < 0))
    nowhere = int(np.count_nonzero((table.sizes == 0) & (column.codes >= 0)))
    said = [f"{empty:,} features without a value in {column.name!r}"] if empty else []
    said += [f"{nowhere:,} features without a geometry"] if nowhere else []
    if said:
        warn_of_skipped(path, " and ".join(said))


def layer_marks(
    path: Path, table: VectorLayer, annotations: Sequence[Annotation | None], grid: Grid
) -> list[Mark]:
    """Return the marks of a layer; one of nothing but points is taken as a whole."""
    chosen = np.array([a is not None for a in annotations], bool)
    points = all_points(table)
    if points is not None:
        numbers = (np.flatnonzero(chosen) + 1).tolist()
        given = [a for a in annotations if a is not None]
        if not given:
            return []
        check_placed(path, table, points[chosen], grid)
        xy = to_pixels(path, points[chosen], table.crs, grid)
        return [Points("feature", numbers, given, xy)]
    parts: list[Labeled] = [
        (number, annotation, part)
        for number, (annotation, own) in enumerate(
            zip(annotations, parts_of(path, table), strict=True), start=1
        )
        if annotation is not None
        for part in own
    ]
    if parts:
        corners = np.concatenate([ring for _, _, part in parts for ring in part.rings])
        check_placed(path, table, corners, grid)
    return marks_of(path, parts, table.crs, grid)


def parts_of(path: Path, table: VectorLayer) -> list[list[Part]]:
    """Return the points, lines and polygons of each feature."""
    parts, at = [], 0
    for number, size in enumerate(table.sizes.tolist(), start=1):
        try:
            parts.append(parts_of_wkb(table.wkb[at : at + size]) if size else [])
        except ValueError as error:
            raise SceneError(f"{path}, feature {number}: {error}; draw it again") from error
        at += size
    return parts


def all_points(table: VectorLayer) -> Array | None:
    """Return the positions of a layer of nothing but points; None if it is another."""
    if not len(table.sizes) or (table.sizes != _POINT).any():
        return None
    points = np.frombuffer(table.wkb, _POINTS)
    if (points["order"] != 1).any() or (points["kind"] != 1).any():
        return None
    return np.ascontiguousarray(points["xy"], np.float64)


def check_placed(path: Path, table: VectorLayer, corners: Array, grid: Grid) -> None:
    """Refuse a layer without a reference system, unless its coordinates lie within the scene."""
    if table.crs is not None or grid.crs is None:
        return
    pixels = to_pixels(path, corners, None, grid)
    height, width = grid.shape
    if ((pixels >= 0) & (pixels <= (width, height))).all():
        warnings.warn(
            f"{path}: layer {table.name[:80]!r} has no reference system; its coordinates lie "
            f"within the scene's, so {grid.crs} is taken",
            PolyadWarning,
            stacklevel=7,
        )
        return
    raise SceneMismatch(
        f"{path}: layer {table.name[:80]!r} has no reference system, and its coordinates do not "
        f"lie within the scene's: {describe_extents(pixels, grid)}; write it into the file, as "
        "with QGIS's Assign projection"
    )
