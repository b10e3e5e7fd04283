"""Marks, the points and polygons of a label file, and how they become pixels of the scene's grid.

Marks are drawn in the order of the file: a later one overrides an earlier one. Points are kept in
columns, so a file of millions of lines takes seconds and a few times its own size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.features import bounds, rasterize

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.raster.grid import Grid
from polyad.scene.read.class_tables import Colors, Names

Array = NDArray[np.float64]
Point = tuple[float, float]

MAX_WORK = 3_000_000_000  # steps of drawing, about ten seconds
_ID_DIGITS = 100  # no class id has as many, and Python reads no number of thousands


class Annotation(NamedTuple):
    """The class of a mark as text, and the name and color beside it, "" if none."""

    label: str
    name: str
    color: str


@dataclass(frozen=True)
class Points:
    """Points that follow each other in the file.

    Attributes
    ----------
    unit : {"line", "feature"}
        What of the file ``numbers`` count.
    numbers : sequence of int
    annotations : list of Annotation
    xy : ndarray, shape (n, 2)
        In pixels, (column, row) from the outer corner of the first one.
    """

    unit: str
    numbers: Sequence[int] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    xy: Array = field(default_factory=lambda: np.empty((0, 2)))

    def where(self, k: int) -> str:
        """Return the place in the file of one of the points."""
        return f"{self.unit} {self.numbers[k]}"


@dataclass(frozen=True)
class Polygon:
    """A labeled area: a GeoJSON geometry, in pixels as the points are."""

    number: int
    annotation: Annotation
    geometry: Mapping[str, Any]

    def where(self, _: int = 0) -> str:
        """Return the place in the file."""
        return f"feature {self.number}"


Mark = Points | Polygon


def annotations_of(marks: Sequence[Mark]) -> list[Annotation]:
    """Return the annotations of marks, each once, in the order of the file."""
    distinct: dict[Annotation, None] = {}
    for mark in marks:
        own = mark.annotations if isinstance(mark, Points) else [mark.annotation]
        distinct |= dict.fromkeys(own)
    return list(distinct)


def draw(path: Path, marks: Sequence[Mark], grid: Grid) -> tuple[NDArray[np.uint16], Names, Colors]:
    """Draw marks onto the grid.

    A polygon labels the pixels whose centers it holds; one too small to hold any labels the pixels
    it touches. A mark outside the scene is an error.

    Returns
    -------
    values : ndarray of uint16, shape (height, width)
    names, colors : dict
        By class id, as far as the file tells.
    """
    ids, names, colors = _number(path, marks)
    values = np.zeros(grid.shape, dtype=np.uint16)
    clashes, first, work = 0, "", 0
    for mark in marks:
        work += _work(mark, grid.shape)
        if work > MAX_WORK:
            raise SceneError(
                f"{path}, {mark.where(0)}: its polygon and those before it take too long to draw; "
                "wanted them simpler and apart, or labels as a raster"
            )
        over = (
            _draw_points(path, mark, ids, values)
            if isinstance(mark, Points)
            else _draw_polygon(path, mark, ids, values)
        )
        first = first or (mark.where(over[0]) if over else "")
        clashes += len(over)
    if clashes:
        warnings.warn(
            f"{path}: {clashes} labels fall on pixels that another class has, the first in "
            f"{first}; the later label wins",
            PolyadWarning,
            stacklevel=4,
        )
    return values, names, colors


def _work(mark: Mark, shape: tuple[int, int]) -> int:
    """Return the steps that drawing takes: a polygon's pixels, and its corners for each row."""
    if isinstance(mark, Points):
        return len(mark.annotations)
    box = _box(bounds(mark.geometry), shape)
    corners = sum(len(ring) for ring in mark.geometry["coordinates"])
    rows, cols = (0, 0) if box is None else (s.stop - s.start for s in box)
    return corners + rows * (cols + corners)


def _box(extent: tuple[float, ...], shape: tuple[int, ...]) -> tuple[slice, slice] | None:
    """Return the rows and columns of the scene in (left, top, right, bottom), None if none are."""
    if not all(map(math.isfinite, extent)):
        return None
    left, top, right, bottom = extent
    rows = slice(max(math.floor(top), 0), min(math.floor(bottom) + 1, shape[0]))
    cols = slice(max(math.floor(left), 0), min(math.floor(right) + 1, shape[1]))
    return None if rows.start >= rows.stop or cols.start >= cols.stop else (rows, cols)


def _draw_points(
    path: Path, points: Points, ids: Mapping[str, int], values: NDArray[np.uint16]
) -> list[int]:
    """Label the pixels of points; return those whose pixel had another class already."""
    col, row = np.floor(points.xy).T
    inside = (row >= 0) & (row < values.shape[0]) & (col >= 0) & (col < values.shape[1])  # not NaN
    if not inside.all():
        k = int(np.argmin(inside))
        x, y = points.xy[k].tolist()
        raise _outside(path, points.where(k), points.annotations[k], x, y, values.shape)
    pixels = np.ravel_multi_index((row.astype(np.intp), col.astype(np.intp)), values.shape)
    given = np.fromiter((ids[a.label] for a in points.annotations), np.uint16, len(pixels))
    # In the order of the pixels, and of the file for each: what was there is what came before
    order = np.argsort(pixels, kind="stable")
    pixels, given = pixels[order], given[order]
    again = np.concatenate([[False], pixels[1:] == pixels[:-1]])
    before = np.where(again, np.roll(given, 1), values.flat[pixels])
    last = ~np.roll(again, -1)
    values.flat[pixels[last]] = given[last]
    return np.sort(order[(before != 0) & (before != given)]).tolist()


def _draw_polygon(
    path: Path, polygon: Polygon, ids: Mapping[str, int], values: NDArray[np.uint16]
) -> list[int]:
    """Label the pixels of a polygon; return [0] if one of them had another class already."""
    left, top, right, bottom = bounds(polygon.geometry)
    box = _covered(polygon.geometry, (left, top, right, bottom), values.shape)
    if box is None:
        raise _outside(path, polygon.where(), polygon.annotation, left, top, values.shape)
    (rows, cols), drawn = box
    value, window = ids[polygon.annotation.label], values[rows, cols]  # a view
    clash = (drawn & (window != 0) & (window != value)).any()
    window[drawn] = value
    return [0] if clash else []


def _covered(
    geometry: Mapping[str, Any], extent: tuple[float, ...], shape: tuple[int, ...]
) -> tuple[tuple[slice, slice], NDArray[np.bool_]] | None:
    """Return a polygon's box and which of its pixels it labels; None if it lies outside."""
    # Only the polygon's own box is rasterized, not the scene for each polygon.
    box = _box(extent, shape)
    if box is None:
        return None
    rows, cols = box
    size = (rows.stop - rows.start, cols.stop - cols.start)
    to_box = Affine.translation(cols.start, rows.start)
    frame = (cols.start - 1, cols.stop + 1), (rows.start - 1, rows.stop + 1)
    rings = [_clipped(ring, frame) for ring in geometry["coordinates"]]
    geometry = {"type": "Polygon", "coordinates": [ring for ring in rings if ring]}
    if not rings[0]:
        return None
    for all_touched in (False, True):
        drawn = rasterize(
            [(geometry, 1)], size, transform=to_box, all_touched=all_touched, dtype=np.uint8
        )
        if drawn.any():
            return (rows, cols), drawn.astype(bool)
    return None


def _clipped(ring: Sequence[Point], frame: tuple[tuple[float, float], ...]) -> list[Point]:
    """Return the part of a closed ring within a frame, (left, right) and (top, bottom).

    GDAL follows an edge pixel by pixel, also outside the scene: forever, if a corner lies far away.
    After Sutherland and Hodgman: what lies beyond each side of the frame in turn is cut off.
    """
    corners = [(_near(x), _near(y)) for x, y in ring]
    for axis, sides in enumerate(frame):
        for side, inward in zip(sides, (1.0, -1.0), strict=True):
            kept: list[Point] = []
            for a, b in pairwise([*corners, *corners[:1]]):
                ahead, behind = inward * (b[axis] - side) >= 0, inward * (a[axis] - side) >= 0
                if ahead != behind:
                    share = (side - a[axis]) / (b[axis] - a[axis])
                    other = a[1 - axis] + share * (b[1 - axis] - a[1 - axis])
                    kept.append((side, other) if axis == 0 else (other, side))
                if ahead:
                    kept.append(b)
            corners = kept
    return [*corners, *corners[:1]] if len(corners) > 2 else []


def _near(value: float) -> float:
    return min(max(value, -1e100), 1e100)  # differences of such numbers are finite


def _number(path: Path, marks: Sequence[Mark]) -> tuple[dict[str, int], Names, Colors]:
    """Return label -> class id. Labels are all ids or all names; names get ids in their order."""
    names: Names = {}
    colors: Colors = {}
    annotations = annotations_of(marks)
    labels = sorted({annotation.label for annotation in annotations})
    if all(label.isdecimal() for label in labels):
        ids = {label: int(label) for label in labels if len(label) < _ID_DIGITS}
    else:
        # "-1" and "2.5" are invalid ids, not names.
        named = [label for label in labels if label.isdecimal() or not is_number(label)]
        ids = {label: k for k, label in enumerate(named, start=1)}
        names = {k: label for label, k in ids.items()}
    for annotation in annotations:
        value = ids.get(annotation.label)
        if value is None or value > 65535:
            raise SceneError(
                f"{path}, {_first(marks, annotation)}: unknown class {annotation.label[:40]!r}; "
                "wanted one of whole numbers from 1 to 65535"
            )
        if annotation.name:
            names.setdefault(value, annotation.name)
        if annotation.color:
            colors.setdefault(value, annotation.color)
    return ids, names, colors


def _first(marks: Sequence[Mark], annotation: Annotation) -> str:
    """Return where in the file an annotation comes first."""
    for mark in marks:
        own = mark.annotations if isinstance(mark, Points) else [mark.annotation]
        if annotation in own:
            return mark.where(own.index(annotation))
    return "its classes"


def is_number(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _outside(
    path: Path, where: str, annotation: Annotation, x: float, y: float, shape: tuple[int, ...]
) -> SceneMismatch:
    place = "a place the scene's map projection does not reach"
    if math.isfinite(x) and math.isfinite(y):
        place = f"row {math.floor(y)}, col {math.floor(x)}"
    return SceneMismatch(
        f"{path}, {where}: label {annotation.label[:40]!r} lies outside the scene of {shape[0]} "
        f"rows and {shape[1]} columns, at {place}; remove it, or check the coordinates and their "
        "reference system"
    )
