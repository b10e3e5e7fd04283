"""How much ground a pixel covers, by the reference system of its grid."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform as transform_points

from polyad.errors import PolyadWarning, SceneError
from polyad.scene.raster.grid import Grid, crs_name, move

Floats = NDArray[np.float64]
HECTARE = 10_000.0  # square meters
_UNEVEN = 0.01  # share by which a projection may change areas unnoticed; UTM stays below 0.003
_NUMBER = r"\s*([-+0-9.eE]+)\s*"
_SPHEROID = re.compile(rf'(?:SPHEROID|ELLIPSOID)\["[^"]*",{_NUMBER},{_NUMBER}', re.I)
_WGS84 = CRS.from_epsg(4326)


@dataclass(frozen=True)
class Ellipsoid:
    """Semi-major axis in meters, and first eccentricity squared."""

    a: float
    e2: float

    def zone(self, latitude: Floats) -> Floats:
        r"""Return the area from the equator to each latitude, for one radian of longitude.

        .. math::

            \frac{b^2}{2} \left( \frac{\sin\varphi}{1 - e^2 \sin^2\varphi}
            + \frac{\operatorname{artanh}(e \sin\varphi)}{e} \right)

        Parameters
        ----------
        latitude : ndarray
            In radians.

        Examples
        --------
        >>> sphere = Ellipsoid(1.0, 0.0)  # of area 4 pi
        >>> float(sphere.zone(np.array(np.pi / 2)))
        1.0
        """
        s, e, b2 = np.sin(latitude), math.sqrt(self.e2), self.a**2 * (1 - self.e2)
        second = np.arctanh(e * s) / e if e > 0 else s
        return np.asarray(b2 / 2 * (s / (1 - self.e2 * s**2) + second))

    def density(self, latitude: float) -> float:
        """Return the square meters in a square radian at a latitude in radians."""
        w2 = 1 - self.e2 * math.sin(latitude) ** 2
        return self.a**2 * (1 - self.e2) * math.cos(latitude) / w2**2


def ellipsoid_of(crs: CRS) -> Ellipsoid:
    """Return the ellipsoid that the text of a reference system states.

    Examples
    --------
    >>> ellipsoid_of(CRS.from_epsg(4326)).a
    6378137.0
    """
    stated = _SPHEROID.search(crs.to_wkt())
    a, inverse = (float(stated[1]), float(stated[2])) if stated else (0.0, 0.0)
    if not (math.isfinite(a) and a > 0 and (inverse == 0 or inverse > 1)):
        raise SceneError(
            f"the reference system {crs_name(crs)} states no ellipsoid, so areas are unknown; "
            "reproject the map, as with gdalwarp -t_srs EPSG:6933"
        )
    flattening = 1 / inverse if inverse else 0.0
    return Ellipsoid(a, flattening * (2 - flattening))


def row_areas(grid: Grid) -> Floats | None:
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
    >>> from affine import Affine
    >>> utm = Grid((2, 5), CRS.from_epsg(32633), Affine(30, 0, 500_000, 0, -30, 5_800_000))
    >>> row_areas(utm).tolist()
    [900.0, 900.0]
    """
    if grid.crs is None or grid.transform is None:
        return None
    if grid.crs.is_geographic:
        return _geographic(grid)
    factor = float(grid.crs.linear_units_factor[1])
    area = _determinant(grid) * factor**2
    _tell_uneven(grid, area)
    return np.full(grid.shape[0], area)


def _determinant(grid: Grid) -> float:
    t = grid.transform
    return 0.0 if t is None else abs(t.a * t.e - t.b * t.d)


def _geographic(grid: Grid) -> Floats:
    crs, t = grid.crs, grid.transform
    if crs is None or t is None:  # for the types: the caller has looked
        return np.empty(0)
    if t.b != 0 or t.d != 0:
        raise SceneError(
            f"the map is rotated against {crs_name(crs)}, so its rows have no one latitude; "
            "resample it to a north-up grid, as with gdalwarp"
        )
    radian = float(crs.units_factor[1])  # of one unit, such as a degree
    edges = (t.f + t.e * np.arange(grid.shape[0] + 1)) * radian
    zones = ellipsoid_of(crs).zone(np.clip(edges, -math.pi / 2, math.pi / 2))
    return np.abs(np.diff(zones)) * abs(t.a) * radian


def _tell_uneven(grid: Grid, area: float) -> None:
    """Warn if a pixel in the middle of the grid covers more or less ground than its map says."""
    ground = _ground(grid)
    if ground is None or abs(area / ground - 1) <= _UNEVEN:
        return
    warnings.warn(
        f"{crs_name(grid.crs)} does not keep areas: a pixel in the middle of the map is {area:.4g} "
        f"square meters there and {ground:.4g} on the ground; reproject the map to a system that "
        "keeps them before areas are published, as with gdalwarp -t_srs EPSG:6933",
        PolyadWarning,
        stacklevel=5,
    )


def _ground(grid: Grid) -> float | None:
    """Return the square meters on the ellipsoid of a projected pixel; None if it has no place."""
    if grid.crs is None or grid.transform is None:
        return None
    row, col = grid.shape[0] / 2, grid.shape[1] / 2
    corners = [(col - 0.5, row), (col + 0.5, row), (col, row - 0.5), (col, row + 0.5)]
    xs, ys = zip(*(move(grid.transform, *corner) for corner in corners), strict=True)
    try:
        lon, lat = transform_points(grid.crs, _WGS84, list(xs), list(ys))
    except RasterioError:
        return None
    if not all(map(math.isfinite, (*lon, *lat))):
        return None
    east, north = (  # a pixel may lie across 180 degrees
        ((lon[b] - lon[a] + 180) % 360 - 180, lat[b] - lat[a]) for a, b in ((0, 1), (2, 3))
    )
    square = abs(east[0] * north[1] - east[1] * north[0]) * math.radians(1) ** 2
    area = square * ellipsoid_of(_WGS84).density(math.radians(sum(lat) / 4))
    return area if area > 0 else None
