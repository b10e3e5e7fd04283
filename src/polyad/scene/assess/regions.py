"""The region that is sampled: the pixels of a map that have a class and a stratum, counted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.raster.cell_area import HECTARE, row_areas
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.counting import class_totals
from polyad.scene.raster.georeference import grid_of
from polyad.scene.raster.grid import Grid, check_same_place
from polyad.scene.raster.scene import as_labels
from polyad.scene.read.class_tables import complete


@dataclass(frozen=True, eq=False)
class Region:
    """A map, its strata, and how many pixels and hectares each has.

    Attributes
    ----------
    class_map, stratum_map : DataArray of int, dims (y, x)
    grid : Grid
    strata : tuple of ClassInfo, length H
        Those that have pixels.
    pixels : ndarray of int, shape (H,)
    hectares : ndarray, shape (H,), or None
        None without a reference system.
    classes : tuple of ClassInfo, length C
        All that the map lists or has.
    mapped, mapped_hectares : ndarray, shape (C,)
        Pixels and hectares by the map alone; the second is None without a reference system.
    row_hectares : ndarray, shape (y,), or None
        Of a pixel of each row.
    """

    class_map: xr.DataArray
    stratum_map: xr.DataArray
    grid: Grid
    strata: tuple[ClassInfo, ...]
    pixels: NDArray[np.int64]
    hectares: NDArray[np.float64] | None
    classes: tuple[ClassInfo, ...]
    mapped: NDArray[np.int64]
    mapped_hectares: NDArray[np.float64] | None
    row_hectares: NDArray[np.float64] | None

    @property
    def by_class(self) -> bool:
        """Whether the strata are the classes of the map."""
        return self.stratum_map is self.class_map


def region_of(class_map: xr.DataArray, strata: xr.DataArray | None = None) -> Region:
    """Count the pixels of a map that have a class and a stratum, a few rows at a time.

    Parameters
    ----------
    class_map : DataArray of int, dims (y, x)
    strata : DataArray of int, dims (y, x), optional
        On the same grid; by default the classes.

    Examples
    --------
    >>> region = region_of(xr.DataArray(np.array([[1, 1], [0, 2]]), dims=("y", "x")))
    >>> region.pixels.tolist(), region.hectares
    ([2, 1], None)
    """
    class_map = _checked(class_map, "map")
    grid = grid_of(class_map)
    stratum_map = class_map if strata is None else _checked(strata, "strata")
    if strata is not None:
        _check_grid(grid, grid_of(stratum_map))
    areas = row_areas(grid)
    weights = np.ones(grid.shape[0]) if areas is None else areas / HECTARE
    pixels, total, mapped, mapped_total, outside = class_totals(class_map, stratum_map, weights)
    if outside:
        warnings.warn(
            f"{outside:,} pixels of the map lie in no stratum; they are left out, and areas are "
            "those of the rest",
            PolyadWarning,
            stacklevel=3,
        )
    if not pixels.any():
        raise SceneError("no pixel of the map has a class and a stratum; is this a class map?")
    ours = [c for c in _whole_table(stratum_map, pixels) if pixels[c.value]]
    ids = [c.value for c in ours]
    classes = _whole_table(class_map, mapped)
    values = [c.value for c in classes]
    known = areas is not None
    return Region(
        class_map,
        stratum_map,
        grid,
        tuple(ours),
        pixels[ids],
        total[ids] if known else None,
        classes,
        mapped[values],
        mapped_total[values] if known else None,
        weights if known else None,
    )


def _checked(raster: xr.DataArray, what: str) -> xr.DataArray:
    raster = as_labels(raster)
    if raster.dtype.kind not in "iub":
        raise SceneError(
            f"a {what} holds whole numbers from 0 (none) to 65535, got {raster.dtype}; round it"
        )
    return raster


def _check_grid(ours: Grid, theirs: Grid) -> None:
    if ours.shape != theirs.shape:
        raise SceneMismatch(
            f"strata must cover the map's {ours.shape[0]} rows and {ours.shape[1]} columns, got "
            f"{theirs.shape[0]} rows and {theirs.shape[1]} columns; resample them to its grid"
        )
    check_same_place(ours, theirs)


def _whole_table(raster: xr.DataArray, pixels: NDArray[np.int64]) -> tuple[ClassInfo, ...]:
    """Return the classes that a raster lists and, with names filled in, those that just occur."""
    listed = class_table(raster) if "class_values" in raster.attrs else ()
    names, colors = {c.value: c.name for c in listed}, {c.value: c.color for c in listed}
    return tuple(complete(np.flatnonzero(pixels).astype(np.uint16), names, colors))
