"""Size and place of a raster: what must agree before two are overlaid, and the area of a pixel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import pyproj
import rioxarray  # noqa: F401 - gives every DataArray its ``rio``
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS

from polyad.errors import PolyadWarning, SceneError, SceneMismatch

# Two grids are the same if their corners agree to this share of a pixel; half a pixel is a usual
# mistake.
_TOLERANCE = 0.1
_DISTORTION = 0.01  # share of areas that a projection may change unnoticed; UTM stays below 0.003
HECTARE = 10_000.0  # square meters

Coordinate = TypeVar("Coordinate", float, NDArray[np.float64])


class Tile(NamedTuple):
    """A rectangle of pixels."""

    rows: slice
    cols: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start

    def grown(self, halo: int, shape: tuple[int, int]) -> Tile:
        """Return the tile with ``halo`` more pixels on each side, as far as the scene reaches.

        Examples
        --------
        >>> Tile(slice(0, 4), slice(4, 8)).grown(2, shape=(10, 9))
        Tile(rows=slice(0, 6, None), cols=slice(2, 9, None))
        """
        rows, cols = (
            slice(max(side.start - halo, 0), min(side.stop + halo, length))
            for side, length in zip(self, shape, strict=True)
        )
        return Tile(rows, cols)

    def common(self, other: Tile) -> Tile:
        """Return what two tiles share; its shape is not above 0 where they are apart.

        Examples
        --------
        >>> Tile(slice(0, 4), slice(4, 8)).common(Tile(slice(2, 9), slice(0, 6)))
        Tile(rows=slice(2, 4, None), cols=slice(4, 6, None))
        """
        rows, cols = (
            slice(max(one.start, two.start), min(one.stop, two.stop))
            for one, two in zip(self, other, strict=True)
        )
        return Tile(rows, cols)

    def moved(self, down: int, across: int) -> Tile:
        """Return the tile so many pixels further down and across.

        Examples
        --------
        >>> Tile(slice(0, 4), slice(4, 8)).moved(10, 1)
        Tile(rows=slice(10, 14, None), cols=slice(5, 9, None))
        """
        rows, cols = (
            slice(side.start + by, side.stop + by)
            for side, by in zip(self, (down, across), strict=True)
        )
        return Tile(rows, cols)

    def within(self, outer: Tile) -> Tile:
        """Return where this tile lies in ``outer``, which holds it.

        Examples
        --------
        >>> Tile(slice(0, 4), slice(4, 8)).within(Tile(slice(0, 6), slice(2, 9)))
        Tile(rows=slice(0, 4, None), cols=slice(2, 6, None))
        """
        return self.moved(-outer.rows.start, -outer.cols.start)


@dataclass(frozen=True)
class Grid:
    """Rows and columns, and where they lie on the map if that is known.

    Attributes
    ----------
    shape : (height, width)
    crs : rasterio CRS or None
    transform : Affine or None
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    """

    shape: tuple[int, int]
    crs: CRS | None
    transform: Affine | None

    def shift(self, other: Grid) -> float:
        """Return how far the corners of two grids lie apart, in pixels of this one.

        Examples
        --------
        >>> here = Grid((2, 3), None, Affine.translation(100.0, 50.0))
        >>> here.shift(Grid((2, 3), None, Affine.translation(100.5, 50.0)))
        0.5
        """
        if self.transform is None or other.transform is None:
            return 0.0
        height, width = self.shape
        corners = [(0, 0), (width, 0), (0, height), (width, height)]
        moved = [move(~self.transform, *move(other.transform, *corner)) for corner in corners]
        return float(np.abs(np.subtract(moved, corners)).max())


def move(transform: Affine, x: Coordinate, y: Coordinate) -> tuple[Coordinate, Coordinate]:
    """Return the image of a point, or of arrays of them.

    Written out because affine 2 and 3 differ in its operator.

    Examples
    --------
    >>> move(Affine.translation(100.0, 50.0), 2, 1)
    (102.0, 51.0)
    """
    t = transform
    return t.a * x + t.b * y + t.c, t.d * x + t.e * y + t.f


def check_covers(
    what: str,
    shape: Sequence[int],
    got: Sequence[int],
    owner: str = "scene",
    remedy: str = "cut or resample them to the scene's grid",
) -> None:
    """Raise `SceneMismatch` unless ``what`` has the rows and columns of the scene or map.

    Examples
    --------
    >>> check_covers("labels", (145, 145), (145, 144))
    Traceback (most recent call last):
    polyad.errors.SceneMismatch: labels must cover the scene's 145 rows and 145 columns, got 145
    rows and 144 columns; cut or resample them to the scene's grid
    """
    if tuple(shape) != tuple(got):
        raise SceneMismatch(
            f"{what} must cover the {owner}'s {shape[0]} rows and {shape[1]} columns, got {got[0]} "
            f"rows and {got[1]} columns; {remedy}"
        )


def check_same_place(ours: Grid, theirs: Grid) -> None:
    """Raise `SceneMismatch` unless the grid of labels lies where that of their scene lies."""
    if ours.crs is not None and theirs.crs is not None and ours.crs != theirs.crs:
        raise SceneMismatch(
            f"labels must be in the scene's reference system {ours.crs}, got {theirs.crs}; "
            f"reproject them onto the scene's grid, as with gdalwarp -t_srs"
        )
    if (shift := ours.shift(theirs)) > _TOLERANCE:
        raise SceneMismatch(
            f"labels must lie on the scene's grid, whose first corner is at {_corner(ours)}, got "
            f"one at {_corner(theirs)}, up to {shift:.3g} pixels off; resample them to the "
            f"scene's grid"
        )


def describe_extents(corners: NDArray[np.float64], grid: Grid, reach: str = "they reach") -> str:
    """Return where points and a grid lie, in the coordinates of the grid's map, in words.

    Parameters
    ----------
    corners : ndarray, shape (n, 2)
        Points in pixels of the grid, (column, row); those that are not finite are left out.
    grid : Grid
    reach : str
        What the sentence begins with.

    Examples
    --------
    >>> describe_extents(np.array([[5.0, 5.0], [9.0, 9.0]]), Grid((2, 3), None, None))
    'they reach from (5, 5) to (9, 9), the scene from (0, 0) to (3, 2), in columns and rows'
    """
    transform = Affine.identity() if grid.transform is None else grid.transform
    system = "in columns and rows" if grid.transform is None else f"both in {crs_name(grid.crs)}"
    finite = corners[np.isfinite(corners).all(axis=1)]
    theirs = "they have no place on its map"
    if len(finite):
        theirs = f"{reach} {_reach(*move(transform, finite[:, 0], finite[:, 1]))}"
    height, width = grid.shape
    cols, rows = np.array([0.0, width, 0.0, width]), np.array([0.0, 0.0, height, height])
    return f"{theirs}, the scene {_reach(*move(transform, cols, rows))}, {system}"


def crs_name(crs: CRS | None) -> str:
    """Return a short name of a reference system for messages."""
    if crs is None:
        return "map coordinates"
    text = str(crs)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _reach(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    low, high = (f"({f(x):.9g}, {f(y):.9g})" for f in (np.min, np.max))
    return f"from {low} to {high}"


def _corner(grid: Grid) -> str:
    x, y = (0.0, 0.0) if grid.transform is None else move(grid.transform, 0.0, 0.0)
    return f"({x:.10g}, {y:.10g})"


def grid_of(raster: xr.DataArray) -> Grid:
    """Return size and georeference of a scene or label raster."""
    if not {"y", "x"} <= set(raster.dims):
        raise SceneError(f"expected a raster with dims y and x, got {raster.dims}; rename them")
    crs, transform = georeference(raster)
    return Grid((raster.sizes["y"], raster.sizes["x"]), crs, transform)


def georeference(raster: xr.DataArray) -> tuple[CRS | None, Affine | None]:
    """Return the CRS of ``raster`` and its transform from (column, row), None each if unknown.

    The transform that the raster carries is used unless its coordinates contradict it: after
    ``isel`` they describe the selection, the transform still the whole raster.
    """
    crs, carried = raster.rio.crs, _carried_transform(raster)
    if any(raster[d].ndim != 1 or d not in raster.coords for d in ("x", "y")):
        return crs, carried
    x, y = (raster[d].values.astype(float) for d in ("x", "y"))
    if carried is None and crs is None and x[0] == y[0] == 0:  # they count pixels
        return None, None
    pixel = (0.0, 0.0) if carried is None else (carried.a, carried.e)
    dx, dy = (float(v[-1] - v[0]) / (len(v) - 1) if len(v) > 1 else p
              for v, p in zip((x, y), pixel, strict=True))  # fmt: skip
    computed = Affine(dx, 0.0, x[0] - dx / 2, 0.0, dy, y[0] - dy / 2)
    tolerance = 1e-3 * max(abs(dx), abs(dy))
    if carried is not None and np.allclose(carried[:6], computed[:6], rtol=0, atol=tolerance):
        return crs, carried  # free of the rounding of the coordinates
    return crs, computed if dx and dy else None


def _carried_transform(raster: xr.DataArray) -> Affine | None:
    # Read here because ``rio.transform`` works it out again from the coordinates.
    name = raster.rio.grid_mapping
    text = raster.coords[name].attrs.get("GeoTransform") if name in raster.coords else None
    return None if text is None else Affine.from_gdal(*map(float, str(text).split()))


def row_areas(grid: Grid) -> NDArray[np.float64] | None:
    """Return the square meters that a pixel of each row covers; None without a reference system.

    In a projected system all pixels have the size that its map gives them; a projection that
    changes areas by more than 1 % at the middle of the grid is warned of. In a geographic one the
    cells between two meridians and two parallels of the ellipsoid are exact.

    Parameters
    ----------
    grid : Grid

    Returns
    -------
    ndarray, shape (rows,), or None

    Examples
    --------
    >>> utm = Grid((2, 5), CRS.from_epsg(32633), Affine(30, 0, 500_000, 0, -30, 5_800_000))
    >>> row_areas(utm).tolist()
    [900.0, 900.0]
    """
    crs, t = grid.crs, grid.transform
    if crs is None or t is None:
        return None
    if not crs.is_geographic:
        area = abs(t.a * t.e - t.b * t.d) * float(crs.linear_units_factor[1]) ** 2
        _warn_of_distortion(crs, move(t, grid.shape[1] / 2, grid.shape[0] / 2), area)
        return np.full(grid.shape[0], area)
    if t.b != 0 or t.d != 0:
        raise SceneError(
            f"the map is rotated against {crs_name(crs)}, so its rows have no one latitude; "
            "resample it to a north-up grid, as with gdalwarp"
        )
    radian = float(crs.units_factor[1])  # of one unit, such as a degree
    edges = (t.f + t.e * np.arange(grid.shape[0] + 1)) * radian
    zones = _zone(crs, np.clip(edges, -math.pi / 2, math.pi / 2))
    return np.abs(np.diff(zones)) * abs(t.a) * radian


def _zone(crs: CRS, latitude: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the area from the equator to each latitude, for one radian of longitude.

    .. math::

        \frac{b^2}{2} \left( \frac{\sin\varphi}{1 - e^2 \sin^2\varphi}
        + \frac{\operatorname{artanh}(e \sin\varphi)}{e} \right)

    Examples
    --------
    >>> sphere = CRS.from_string("+proj=longlat +R=1 +no_defs")  # of area 4 pi
    >>> float(_zone(sphere, np.array(np.pi / 2)))
    1.0
    """
    ellipsoid = pyproj.CRS.from_wkt(crs.to_wkt()).ellipsoid
    if ellipsoid is None:
        raise SceneError(
            f"the reference system {crs_name(crs)} states no ellipsoid, so areas are unknown; "
            "reproject the map, as with gdalwarp -t_srs EPSG:6933"
        )
    inverse = ellipsoid.inverse_flattening  # 0 of a sphere
    flattening = 1 / inverse if inverse else 0.0
    a, e2 = ellipsoid.semi_major_metre, flattening * (2 - flattening)
    s, e, b2 = np.sin(latitude), math.sqrt(e2), a**2 * (1 - e2)
    second = np.arctanh(e * s) / e if e > 0 else s
    return np.asarray(b2 / 2 * (s / (1 - e2 * s**2) + second))


def _warn_of_distortion(crs: CRS, middle: tuple[float, float], area: float) -> None:
    """Warn if a pixel in the middle of the map covers more or less ground than the map says."""
    try:
        projection = pyproj.Proj(pyproj.CRS.from_wkt(crs.to_wkt()))
        place = projection(*middle, inverse=True, errcheck=True)
        scale = float(projection.get_factors(*place, errcheck=True).areal_scale)
    except pyproj.exceptions.ProjError:  # the middle has no place on the ground
        return
    if abs(scale - 1) <= _DISTORTION:
        return
    warnings.warn(
        f"{crs_name(crs)} does not keep areas: a pixel in the middle of the map is {area:.4g} "
        f"square meters there and {area / scale:.4g} on the ground; reproject the map to a system "
        "that keeps them before areas are published, as with gdalwarp -t_srs EPSG:6933",
        PolyadWarning,
        stacklevel=4,
    )
