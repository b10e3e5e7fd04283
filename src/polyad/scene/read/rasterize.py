"""Points, lines and polygons: parsed, moved to the grid of a scene, and turned into pixels.

`parts_of_geojson` and `parts_of_wkb` parse geometries, `to_pixels` moves their corners to pixels of
the scene, `points_inside` and `covered` say which pixels they cover.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.features import rasterize
from rasterio.warp import transform as transform_points

from polyad.errors import SceneError, SceneMismatch
from polyad.scene.raster.grid import Grid, describe_extents, move

Array = NDArray[np.float64]
Point = tuple[float, float]
Frame = tuple[tuple[float, float], ...]  # (left, right) and (top, bottom)

MAX_WORK = 3_000_000_000  # steps of drawing, about ten seconds
_LEAST = {"Point": 1, "LineString": 2, "Polygon": 4}  # corners; a ring ends where it began
_COLLECTIONS = {4, 5, 6, 7}  # of points, lines, polygons, anything
_DEEPEST = 50
_NEAR = (-1e100, 1e100)  # differences of such numbers are finite
# A single point that no map holds costs about twenty transformations of parts of a file; of more
# such points than this, the rest of their neighbors are taken to be as lost as they are.
_MOST_FAILURES = 20_000


class Part(NamedTuple):
    """One point, line or polygon of a geometry."""

    kind: str  # "Point", "LineString" or "Polygon"
    rings: tuple[Array, ...]  # each (n, 2); of a point (1, 2)


class Points(NamedTuple):
    """Points that follow each other in a file.

    Attributes
    ----------
    features : ndarray of int, shape (n,)
        Which feature each belongs to.
    xy : ndarray, shape (n, 2)
        In pixels, (column, row) from the outer corner of the first one.
    """

    features: NDArray[np.intp]
    xy: Array


class Shape(NamedTuple):
    """A line, or a polygon with its holes, in pixels as the points are."""

    feature: int
    rings: tuple[Array, ...]  # of a line one
    is_line: bool = False


Mark = Points | Shape


def corners_of(marks: Sequence[Mark]) -> Array:
    """Return points and outer corners, shape (n, 2)."""
    return np.concatenate([m.xy if isinstance(m, Points) else m.rings[0] for m in marks])


def all_outside(path: Path, what: str, marks: Sequence[Mark], grid: Grid) -> SceneMismatch:
    """Return the error for labels or values none of which lies on the grid of the scene."""
    where = describe_extents(corners_of(marks), grid) if marks else "no geometry"
    remedy = "check the coordinates and their reference system"
    return SceneMismatch(f"{path}: all {what} lie outside the scene: {where}; {remedy}")


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
            arrays = tuple(
                np.array([(float(xy[0]), float(xy[1])) for xy in ring]).reshape(-1, 2)
                for ring in rings
            )
            least = _LEAST[single]
            if not arrays or not all(len(a) >= least and np.isfinite(a).all() for a in arrays):
                raise ValueError("too few corners, or no finite ones")
            yield Part(single, arrays)
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise ValueError(f"damaged coordinates of its {kind}") from error


def parts_of_wkb(wkb: bytes) -> list[Part]:
    """Return the parts of a geometry in well-known binary, as OGR writes it: little-endian, 2-D.

    Raises
    ------
    ValueError
        It is cut short, nested too deeply, or of another kind.

    Examples
    --------
    >>> parts_of_wkb(struct.pack("<BIdd", 1, 1, 3.0, 4.0))
    [Part(kind='Point', rings=(array([[3., 4.]]),))]
    """
    parts: list[Part] = []
    try:
        _add_parts(parts, wkb, 0, 0)
    except struct.error as error:
        raise ValueError("a geometry that is cut short") from error
    return parts


def _add_parts(parts: list[Part], wkb: bytes, at: int, depth: int) -> int:
    """Append the parts of the geometry that begins at a byte; return where it ends."""
    order, kind = struct.unpack_from("<BI", wkb, at)
    at += 5
    if depth > _DEEPEST:
        raise ValueError("geometries nested too deeply")
    if order != 1 or kind not in {1, 2, 3, *_COLLECTIONS}:
        raise ValueError(f"a geometry of kind {kind}, expected points, lines or polygons")
    if kind == 1:
        point = np.frombuffer(wkb, "<f8", 2, at).reshape(1, 2)
        if np.isfinite(point).all():  # an empty point is written as NaN
            parts.append(Part("Point", (point,)))
        return at + 16
    count = 1
    if kind != 2:
        (count,) = struct.unpack_from("<I", wkb, at)
        at += 4
    if kind in _COLLECTIONS:
        for _ in range(count):
            at = _add_parts(parts, wkb, at, depth + 1)
        return at
    rings = []
    for _ in range(count):
        (corners,) = struct.unpack_from("<I", wkb, at)
        rings.append(np.frombuffer(wkb, "<f8", 2 * corners, at + 4).reshape(-1, 2))
        at += 4 + 16 * corners
    name, least = ("LineString", 2) if kind == 2 else ("Polygon", 4)
    if rings and len(rings[0]) >= least:
        parts.append(Part(name, tuple(ring for ring in rings if len(ring) >= least)))
    return at


def to_pixels(path: Path, points: Array, crs: CRS | None, grid: Grid) -> Array:
    """Return map points in ``crs`` as (column, row) of the grid, infinite where there is none."""
    inverse = ~(grid.transform or Affine.identity())  # without georeference, x and y are pixels
    if crs is not None and grid.transform is not None and crs != grid.crs:
        if grid.crs is None:
            remedy = "write it into the scene, or give labels as a CSV of row,col,class"
            raise SceneMismatch(f"{path}: is in {crs}, the scene has no reference system; {remedy}")
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


def points_inside(
    xy: Array, shape: tuple[int, ...]
) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Return which points lie on the grid, and the rows and columns of those that do.

    Examples
    --------
    >>> points_inside(np.array([[0.5, 1.5], [-0.1, 0.0], [np.nan, 0.0]]), (2, 2))
    (array([ True, False, False]), array([1]), array([0]))
    """
    col, row = np.floor(xy).T
    inside = (row >= 0) & (row < shape[0]) & (col >= 0) & (col < shape[1])  # not NaN
    return inside, row[inside].astype(np.intp), col[inside].astype(np.intp)


def check_work(path: Path, marks: Sequence[Mark], shape: tuple[int, int]) -> None:
    """Raise `SceneError` if drawing takes more than some seconds."""
    work = 0
    for mark in marks:
        if isinstance(mark, Points):
            continue
        # The pixels of its box, and its corners for each row
        box = _box(mark, shape)
        corners = sum(map(len, mark.rings))
        rows, cols = (0, 0) if box is None else (s.stop - s.start for s in box)
        work += corners + rows * (cols + corners)
        if work > MAX_WORK:
            why = "the polygons up to this one take too long to draw; simplify or rasterize them"
            raise SceneError(f"{path}, feature {mark.feature + 1}: {why}")


def _box(shape: Shape, size: tuple[int, ...]) -> tuple[slice, slice] | None:
    """Return the rows and columns of the scene that a shape may cover, None if there are none."""
    low, high = shape.rings[0].min(axis=0), shape.rings[0].max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    cols, rows = (
        slice(max(math.floor(low[k]), 0), min(math.floor(high[k]) + 1, size[1 - k])) for k in (0, 1)
    )
    return None if rows.start >= rows.stop or cols.start >= cols.stop else (rows, cols)


def covered(
    shape: Shape, size: tuple[int, ...], all_touched: bool = False, whole_pixels: bool = True
) -> tuple[tuple[slice, slice], NDArray[np.bool_]] | None:
    """Return a shape's box and which of its pixels it covers; None if it lies outside.

    A polygon covers the pixels whose centers it holds, a line those that it passes; with
    ``all_touched`` both cover every pixel that they touch, and with ``whole_pixels`` so does a
    polygon that holds no center.
    """
    # Only the shape's own box is rasterized, not the scene for each shape.
    box = _box(shape, size)
    if box is None:
        return None
    rows, cols = box
    frame = (cols.start - 1, cols.stop + 1), (rows.start - 1, rows.stop + 1)
    if shape.is_line:
        kind, parts = "MultiLineString", _line_in(shape.rings[0], frame)
    else:
        rings = [_clipped(ring, frame) for ring in shape.rings]
        kind, parts = "Polygon", [ring for ring in rings if ring] if rings[0] else []
    if not parts:
        return None
    for touched in dict.fromkeys((all_touched, all_touched or whole_pixels)):
        drawn = rasterize(
            [({"type": kind, "coordinates": parts}, 1)],
            (rows.stop - rows.start, cols.stop - cols.start),
            transform=Affine.translation(cols.start, rows.start),
            all_touched=touched,
            dtype=np.uint8,
        )
        if drawn.any():
            return (rows, cols), drawn.astype(bool)
    return None


def _line_in(line: Array, frame: Frame) -> list[list[Point]]:
    """Return the parts of a line's segments within a frame.

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
    visible = enter <= leave
    starts = (first + enter[:, None] * step)[visible]
    ends = (first + leave[:, None] * step)[visible]
    segments: list[list[Point]] = np.stack([starts, ends], axis=1).tolist()
    return segments


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
            inside: list[Point] = []
            for a, b in pairwise([*corners, *corners[:1]]):
                ahead, behind = inward * (b[axis] - side) >= 0, inward * (a[axis] - side) >= 0
                if ahead != behind:
                    share = (side - a[axis]) / (b[axis] - a[axis])
                    other = a[1 - axis] + share * (b[1 - axis] - a[1 - axis])
                    inside.append((side, other) if axis == 0 else (other, side))
                if ahead:
                    inside.append(b)
            corners = inside
    return [*corners, *corners[:1]] if len(corners) > 2 else []
