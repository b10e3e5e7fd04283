"""Points, lines and polygons: taken out of files, moved to the grid of a scene, and drawn.

`parts_of_geojson` and `parts_of_wkb` take geometries apart, `marks_of` moves them to pixels of the
scene, `covered` says which pixels a shape covers, and `draw` labels them.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.features import rasterize
from rasterio.warp import transform as transform_points

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.raster.grid import Grid, describe_extents, move
from polyad.scene.read.class_tables import IdColors, IdNames

Array = NDArray[np.float64]

_LEAST = {"Point": 1, "LineString": 2, "Polygon": 4}  # corners; a ring ends where it began
_COLLECTIONS = {4, 5, 6, 7}  # of points, lines, polygons, anything
_DEEPEST = 50


class Part(NamedTuple):
    """One point, line or polygon of a geometry."""

    kind: str  # "Point", "LineString" or "Polygon"
    rings: tuple[Array, ...]  # each (n, 2); of a point (1, 2)


def parts_of_geojson(geometry: Any) -> Iterator[Part]:
    """Yield the parts of a GeoJSON geometry.

    Raises
    ------
    ValueError
        It is none, or damaged; a `RecursionError` if it is nested too deeply.

    Examples
    --------
    >>> list(parts_of_geojson({"type": "MultiPoint", "coordinates": [[3, 4, 99]]}))
    [Part(kind='Point', rings=(array([[3., 4.]]),))]
    """
    kind = geometry.get("type") if isinstance(geometry, Mapping) else None
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for inner in geometry["geometries"]:
            yield from parts_of_geojson(inner)
        return
    single = str(kind).removeprefix("Multi")
    if single not in _LEAST:
        raise ValueError(
            f"expected points, lines or polygons, got {str(kind or 'no geometry')[:80]}"
        )
    try:
        items = geometry.get("coordinates")
        for item in items if single != kind else [items]:
            rings = item if single == "Polygon" else [[item]] if single == "Point" else [item]
            yield Part(single, _rings(rings, _LEAST[single]))
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise ValueError(f"damaged coordinates of its {kind}") from error


def _rings(rings: Any, least: int) -> tuple[Array, ...]:
    """Return lists of positions as arrays (n, 2); raise if they are not that."""
    arrays = tuple(
        np.array([(float(xy[0]), float(xy[1])) for xy in ring]).reshape(-1, 2) for ring in rings
    )
    if not arrays or not all(len(a) >= least and np.isfinite(a).all() for a in arrays):
        raise ValueError("too few corners, or no finite ones")
    return arrays


def parts_of_wkb(wkb: bytes) -> list[Part]:
    """Return the parts of a geometry in well-known binary; heights are dropped.

    Raises
    ------
    ValueError
        It is cut short, nested too deeply, or of another kind.

    Examples
    --------
    >>> parts_of_wkb(struct.pack("<BIdd", 1, 1, 3.0, 4.0))
    [Part(kind='Point', rings=(array([[3., 4.]]),))]
    """
    reader = _Reader(wkb)
    return list(reader.geometry(0))


class _Reader:
    """Goes through the bytes of one geometry."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.order, self.dims = data, 0, "<", 2

    def geometry(self, depth: int) -> Iterator[Part]:
        if depth > _DEEPEST:
            raise ValueError("geometries nested too deeply")
        self.order = "<" if self._take("B") else ">"
        number = self._take("I")
        # ISO adds a thousand each for heights and measures, the older form sets the highest bits
        extended, number = number >> 28, number & 0x0FFFFFFF
        self.dims = 2 + (number // 1000 in (1, 2)) + 2 * (number // 1000 == 3)
        self.dims = max(self.dims, 2 + bool(extended & 8) + bool(extended & 4))
        kind = number % 1000
        if kind in _COLLECTIONS:
            for _ in range(self._count(5)):
                yield from self.geometry(depth + 1)
        elif kind == 1:
            point = self._points(1)
            if np.isfinite(point).all():  # an empty point is written as NaN
                yield Part("Point", (point,))
        elif kind == 2:
            line = self._points(self._count(8 * self.dims))
            if len(line) > 1:
                yield Part("LineString", (line,))
        elif kind == 3:
            rings = [self._points(self._count(8 * self.dims)) for _ in range(self._count(4))]
            if rings and len(rings[0]) > 3:
                yield Part("Polygon", tuple(ring for ring in rings if len(ring) > 3))
        else:
            raise ValueError(f"a geometry of kind {kind}, expected points, lines or polygons")

    def _take(self, form: str) -> Any:
        try:
            (value,) = struct.unpack_from(self.order + form, self.data, self.at)
        except struct.error as error:
            raise ValueError("a geometry that is cut short") from error
        self.at += struct.calcsize(self.order + form)
        return value

    def _count(self, least: int) -> int:
        """Return how many items follow, each of which takes at least some bytes."""
        count = int(self._take("I"))
        if count * least > len(self.data) - self.at:
            raise ValueError("a geometry that is cut short")
        return count

    def _points(self, n: int) -> Array:
        size = n * self.dims
        if 8 * size > len(self.data) - self.at:
            raise ValueError("a geometry that is cut short")
        flat = np.frombuffer(self.data, self.order + "f8", size, self.at)
        self.at += 8 * size
        return flat.reshape(n, self.dims)[:, :2].astype(np.float64)


# Marks: points, lines and polygons of a label file, and how they become pixels of the grid.
#
# Marks are drawn in the order of the file: a later one overrides an earlier one. Points are kept in
# columns, so a file of millions of lines takes seconds and a few times its own size.


Point = tuple[float, float]
Frame = tuple[tuple[float, float], ...]  # (left, right) and (top, bottom)

MAX_WORK = 3_000_000_000  # steps of drawing, about ten seconds
_NEAR = (-1e100, 1e100)  # differences of such numbers are finite
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
    exact : bool
        The file names rows and columns: one that the scene does not have is a mistake.
    """

    unit: str
    numbers: Sequence[int] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    xy: Array = field(default_factory=lambda: np.empty((0, 2)))
    exact: bool = False

    def where(self, k: int) -> str:
        """Return the place in the file of one of the points."""
        return f"{self.unit} {self.numbers[k]}"


@dataclass(frozen=True)
class Shape:
    """A labeled line or area, in pixels as the points are.

    Attributes
    ----------
    number : int
        Of its feature in the file.
    annotation : Annotation
    rings : tuple of ndarray, shape (n, 2)
        The outer ring of a polygon and its holes; of a line, its one run of corners.
    is_line : bool
    """

    number: int
    annotation: Annotation
    rings: tuple[Array, ...]
    is_line: bool = False

    def where(self, _: int = 0) -> str:
        """Return the place in the file."""
        return f"feature {self.number}"

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        (left, top), (right, bottom) = self.rings[0].min(axis=0), self.rings[0].max(axis=0)
        return float(left), float(top), float(right), float(bottom)


Mark = Points | Shape
M = TypeVar("M", Points, Shape, Mark)


def annotations_of(marks: Sequence[Mark]) -> list[Annotation]:
    """Return the annotations of marks, each once, in the order of the file."""
    distinct: dict[Annotation, None] = {}
    for mark in marks:
        own = mark.annotations if isinstance(mark, Points) else [mark.annotation]
        distinct |= dict.fromkeys(own)
    return list(distinct)


def draw(
    path: Path,
    marks: Sequence[Mark],
    grid: Grid,
    *,
    all_touched: bool = False,
    owners: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.uint16], IdNames, IdColors]:
    """Draw marks onto the grid.

    A polygon labels the pixels whose centers it holds, one too small to hold any the pixels it
    touches; a line the pixels that it passes. With ``all_touched`` both label every pixel that they
    touch. Labels outside the scene are left out and counted in a warning; a row or column that the
    scene does not have is an error, and so are labels all of which lie outside. ``owners``, if
    given, is filled with the number of the line or feature that labels each pixel.

    Returns
    -------
    values : ndarray of uint16, shape (height, width)
    names, colors : dict
        By class id, as far as the file tells.
    """
    ids, names, colors = _number(path, marks)
    values = np.zeros(grid.shape, dtype=np.uint16)
    clashes, first, outside = 0, "", 0
    for mark in _drawable(path, marks, grid, "labels"):
        if isinstance(mark, Points):
            over, lost = _draw_points(path, mark, ids, values, owners)
        else:
            over, lost = _draw_shape(mark, ids[mark.annotation.label], values, all_touched, owners)
        first = first or (mark.where(over[0]) if over else "")
        clashes += len(over)
        outside += lost
    if outside:
        _tell_outside(path, marks, grid, outside)
    if clashes:
        warnings.warn(
            f"{path}: {clashes} labels fall on pixels that another class has, the first in "
            f"{first}; the later label wins",
            PolyadWarning,
            stacklevel=4,
        )
    return values, names, colors


def filled(path: Path, shapes: Sequence[Shape], grid: Grid) -> NDArray[np.bool_]:
    """Return which pixels of the grid have their centers in one of some polygons."""
    inside = np.zeros(grid.shape, bool)
    for shape in _drawable(path, shapes, grid, "the mask"):
        box = covered(shape, grid.shape, whole_pixels=False)
        if box is not None:
            inside[box[0]] |= box[1]
    return inside


def _tell_outside(path: Path, marks: Sequence[Mark], grid: Grid, outside: int) -> None:
    """Warn of labels outside the scene; raise `SceneMismatch` if all of them are."""
    count = sum(len(m.annotations) if isinstance(m, Points) else 1 for m in marks)
    if outside < count:
        warnings.warn(
            f"{path}: {outside:,} of {count:,} labels lie outside the scene and are left out",
            PolyadWarning,
            stacklevel=5,
        )
        return
    corners = np.concatenate([m.xy if isinstance(m, Points) else m.rings[0] for m in marks])
    raise SceneMismatch(
        f"{path}: all {count:,} labels lie outside the scene: {describe_extents(corners, grid)}; "
        "check the coordinates and their reference system"
    )


def _drawable(path: Path, marks: Sequence[M], grid: Grid, what: str) -> Iterator[M]:
    """Yield marks as long as drawing them takes some seconds, and then raise `SceneError`."""
    work = 0
    for mark in marks:
        work += _work(mark, grid.shape)
        if work > MAX_WORK:
            raise SceneError(
                f"{path}, {mark.where(0)}: its polygon and those before it take too long to draw; "
                f"expected them simpler and apart, or {what} as a raster"
            )
        yield mark


def _work(mark: Mark, shape: tuple[int, int]) -> int:
    """Return the steps that drawing takes: a shape's pixels, and its corners for each row."""
    if isinstance(mark, Points):
        return len(mark.annotations)
    box = _box(mark.extent, shape)
    corners = sum(map(len, mark.rings))
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
    path: Path,
    points: Points,
    ids: Mapping[str, int],
    values: NDArray[np.uint16],
    owners: NDArray[np.int32] | None,
) -> tuple[list[int], int]:
    """Label the pixels of points.

    Returns those whose pixel had another class already, and how many lie outside.
    """
    col, row = np.floor(points.xy).T
    inside = (row >= 0) & (row < values.shape[0]) & (col >= 0) & (col < values.shape[1])  # not NaN
    if points.exact and not inside.all():
        k = int(np.argmin(inside))
        x, y = points.xy[k].tolist()
        raise _outside(path, points.where(k), points.annotations[k], x, y, values.shape)
    kept = np.flatnonzero(inside)
    row, col = row[kept].astype(np.intp), col[kept].astype(np.intp)
    pixels = np.ravel_multi_index((row, col), values.shape)
    all_given = np.fromiter((ids[a.label] for a in points.annotations), np.uint16, len(inside))
    # In the order of the pixels, and of the file for each: what was there is what came before
    order = np.argsort(pixels, kind="stable")
    pixels, given = pixels[order], all_given[kept][order]
    again = np.concatenate([[False], pixels[1:] == pixels[:-1]])[: len(pixels)]
    before = np.where(again, np.roll(given, 1), values.flat[pixels])
    last = ~np.roll(again, -1)
    values.flat[pixels[last]] = given[last]
    if owners is not None:
        owners.flat[pixels[last]] = np.asarray(points.numbers, np.int32)[kept][order][last]
    clashes = np.sort(kept[order[(before != 0) & (before != given)]])
    return clashes.tolist(), len(inside) - len(kept)


def _draw_shape(
    shape: Shape,
    value: int,
    values: NDArray[np.uint16],
    all_touched: bool,
    owners: NDArray[np.int32] | None,
) -> tuple[list[int], int]:
    """Label the pixels of a line or polygon.

    Returns [0] if one of them had another class already, and 1 if it lies outside.
    """
    box = covered(shape, values.shape, all_touched)
    if box is None:
        return [], 1
    (rows, cols), drawn = box
    window = values[rows, cols]  # a view
    clash = (drawn & (window != 0) & (window != value)).any()
    window[drawn] = value
    if owners is not None:
        owners[rows, cols][drawn] = shape.number
    return ([0] if clash else []), 0


def covered(
    shape: Shape, size: tuple[int, ...], all_touched: bool = False, whole_pixels: bool = True
) -> tuple[tuple[slice, slice], NDArray[np.bool_]] | None:
    """Return a shape's box and which of its pixels it covers; None if it lies outside.

    With ``whole_pixels`` a polygon that holds no center of a pixel covers those that it touches.
    """
    # Only the shape's own box is rasterized, not the scene for each shape.
    box = _box(shape.extent, size)
    if box is None:
        return None
    rows, cols = box
    to_box = Affine.translation(cols.start, rows.start)
    frame = (cols.start - 1, cols.stop + 1), (rows.start - 1, rows.stop + 1)
    geometry = _line_in(shape.rings[0], frame) if shape.is_line else _area_in(shape.rings, frame)
    if geometry is None:
        return None
    for touched in dict.fromkeys((all_touched, all_touched or whole_pixels)):
        drawn = rasterize(
            [(geometry, 1)],
            (rows.stop - rows.start, cols.stop - cols.start),
            transform=to_box,
            all_touched=touched,
            dtype=np.uint8,
        )
        if drawn.any():
            return (rows, cols), drawn.astype(bool)
    return None


def _area_in(rings: Sequence[Array], frame: Frame) -> dict[str, Any] | None:
    """Return the part of a polygon within a frame as GeoJSON; None if there is none."""
    clipped = [_clipped(ring, frame) for ring in rings]
    if not clipped[0]:
        return None
    return {"type": "Polygon", "coordinates": [ring for ring in clipped if ring]}


def _line_in(line: Array, frame: Frame) -> dict[str, Any] | None:
    """Return the parts of a line's segments within a frame as GeoJSON; None if there are none.

    After Liang and Barsky: of each segment a + t (b - a), the t between the frame's sides.
    """
    line = np.clip(line, *_NEAR)
    first, step = line[:-1], np.diff(line, axis=0)  # (segments, 2)
    low, high = np.array(frame).T  # each (2,)
    with np.errstate(divide="ignore", invalid="ignore"):
        enter, leave = (low - first) / step, (high - first) / step
    enter, leave = np.minimum(enter, leave), np.maximum(enter, leave)
    still = step == 0  # along an axis: within the frame for every t, or for none
    within = (first >= low) & (first <= high)
    enter = np.where(still, np.where(within, -np.inf, np.inf), enter).max(axis=1).clip(min=0)
    leave = np.where(still, np.where(within, np.inf, -np.inf), leave).min(axis=1).clip(max=1)
    kept = enter <= leave
    starts = (first + enter[:, None] * step)[kept]
    ends = (first + leave[:, None] * step)[kept]
    if not kept.any():
        return None
    return {"type": "MultiLineString", "coordinates": np.stack([starts, ends], axis=1).tolist()}


def _clipped(ring: Array, frame: Frame) -> list[Point]:
    """Return the part of a closed ring within a frame, (left, right) and (top, bottom).

    GDAL follows an edge pixel by pixel, also outside the scene: forever, if a corner lies far away.
    After Sutherland and Hodgman: what lies beyond each side of the frame in turn is cut off.
    """
    low, high = np.array(frame).T
    if ((ring >= low) & (ring <= high)).all():
        return [(x, y) for x, y in ring.tolist()]
    corners = [(x, y) for x, y in np.clip(ring, *_NEAR).tolist()]
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


def _number(path: Path, marks: Sequence[Mark]) -> tuple[dict[str, int], IdNames, IdColors]:
    """Return label -> class id. Labels are all ids or all names; names get ids in their order."""
    names: IdNames = {}
    colors: IdColors = {}
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
                "expected class names or whole numbers from 1 to 65535; --task regression learns "
                "other numbers"
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


# From shapes in map coordinates to marks in pixels of the scene's grid.


# A single point that no map holds costs about twenty transformations of parts of a file; of more
# such points than this, the rest of their neighbors are taken to be as lost as they are.
_MOST_FAILURES = 20_000


Labeled = tuple[int, Annotation, Part]
"""Number of the feature, its class, and a part of its geometry."""


def marks_of(path: Path, parts: Sequence[Labeled], crs: CRS | None, grid: Grid) -> list[Mark]:
    """Return marks in pixels; points that follow each other in the file come in one run."""
    if not parts:
        return []
    # All corners of all shapes are moved in one call: one each would take minutes.
    rings = [ring for _, _, part in parts for ring in part.rings]
    moved = to_pixels(path, np.concatenate(rings), crs, grid)
    pixels = iter(np.split(moved, np.cumsum([len(ring) for ring in rings])[:-1]))
    marks: list[Mark] = []
    for is_point, run in groupby(parts, key=lambda item: item[2].kind == "Point"):
        items = list(run)
        if is_point:
            xy = np.concatenate([next(pixels) for _ in items])
            marks.append(Points("feature", [n for n, _, _ in items], [k for _, k, _ in items], xy))
            continue
        for number, annotation, part in items:
            corners = tuple(next(pixels) for _ in part.rings)
            marks.append(Shape(number, annotation, corners, part.kind == "LineString"))
    return marks


def to_pixels(path: Path, points: Array, crs: CRS | None, grid: Grid) -> Array:
    """Return map points in ``crs`` as (column, row) of the grid, infinite where there is none."""
    inverse = ~(grid.transform or Affine.identity())  # without georeference, x and y are pixels
    if crs is not None and grid.transform is not None and crs != grid.crs:
        if grid.crs is None:
            raise SceneMismatch(
                f"{path}: labels are in {crs}, but the scene does not say its reference system; "
                f"write it into the scene, or give labels as a CSV of row,col,class"
            )
        points = _reproject(points, crs, grid.crs, [_MOST_FAILURES])
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN lie outside the scene
        return np.stack(move(inverse, points[:, 0], points[:, 1]), axis=1)


def _reproject(points: Array, source: CRS, target: CRS, left: list[int]) -> Array:
    """Return points in another reference system, infinite where one has no place there.

    Such a point makes the whole call fail, and is found by bisection.
    """
    if left[0] <= 0:
        return np.full_like(points, np.inf)
    try:
        xs, ys = transform_points(source, target, points[:, 0], points[:, 1])
    except Exception:  # GDAL's errors have no public base
        left[0] -= 1
        half = len(points) // 2
        if not half:
            return np.full((1, 2), np.inf)
        pieces = points[:half], points[half:]
        return np.concatenate([_reproject(piece, source, target, left) for piece in pieces])
    return np.stack([xs, ys], axis=1)
