"""Geometries as files write them, taken apart into single points, lines and polygons."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        raise ValueError(f"wanted points, lines or polygons, got {str(kind or 'no geometry')[:80]}")
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
            raise ValueError(f"a geometry of kind {kind}, wanted points, lines or polygons")

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
