"""Size and place of a raster: what must agree before two of them are laid over each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS

from polyad.errors import SceneMismatch

# Two grids are the same if their corners agree to this share of a pixel; half a pixel is a usual
# mistake.
_TOLERANCE = 0.1

Coordinate = TypeVar("Coordinate", float, NDArray[np.float64])


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
