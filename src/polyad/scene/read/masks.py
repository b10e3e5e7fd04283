"""Masks from files: rasters on any grid, or polygons, brought to the grid of a scene."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from rasterio.warp import Resampling, reproject

from polyad.errors import SceneError, SceneMismatch, told_as, warn_user
from polyad.scene.files.paths import locate
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid, describe_extents, move
from polyad.scene.raster.scene import Scene, describe
from polyad.scene.raster.selection import bbox_mask
from polyad.scene.read.features import read_features
from polyad.scene.read.formats.kinds import feature_format
from polyad.scene.read.formats.opening import gdal_alone
from polyad.scene.read.label_rasters import LabelRaster, as_mask, read_label_raster
from polyad.scene.read.rasterize import Shape, check_work, corners_of, covered

_SAME = 1e-3  # pixels that two grids may lie apart and be one


def restrict_scene(
    scene: xr.DataArray,
    *,
    mask: str | os.PathLike[str] | xr.DataArray | None = None,
    bbox: Sequence[float] | None = None,
    max_bytes: int | None = None,
) -> xr.DataArray:
    """Return a scene that is learned from and mapped only inside a mask and a rectangle.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    mask : path, or DataArray with dims (y, x), optional
        See `open_mask` and `polyad.scene.mask_scene`.
    bbox : (left, bottom, right, top), optional
        In map coordinates of the scene: pixels with their centers in it are inside.
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given.

    Returns
    -------
    DataArray
        The scene itself if there is neither.
    """
    known = Scene.of(scene)
    if bbox is not None:
        known = known.masked(bbox_mask(known.grid, bbox))
    if mask is not None:
        if not isinstance(mask, xr.DataArray):
            mask = open_mask(mask, known, max_bytes=max_bytes)
        known = known.masked(mask)
    return known.array


def open_mask(
    source: str | os.PathLike[str], scene: xr.DataArray | Scene, *, max_bytes: int | None = None
) -> xr.DataArray:
    """Open a mask as a raster on the grid of a scene.

    Parameters
    ----------
    source : str or path
        A raster: inside where it is not 0 and has data, be that 1, 255, -1 or class ids; on another
        grid or in another reference system, the pixel in which the center of the scene's pixel lies
        decides. Or the polygons of a GeoPackage, Shapefile, FlatGeobuf, KML or GeoJSON, which hold
        the centers of the pixels inside; ``file.gpkg:layer`` names one of several layers.
    scene : DataArray, dims ``(y, x, band)``
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given.

    Returns
    -------
    DataArray of bool, dims (y, x)

    Raises
    ------
    SceneError, SceneMismatch
        It cannot be read, or holds no pixel of the scene.
    """
    budget, grid = guards.memory_budget(max_bytes), Scene.of(scene).grid
    path, key = locate(os.fspath(source))
    if not path.is_dir():
        guards.existing_file(path)
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the mask cannot be read", remedy):
        if feature_format(path) not in (None, "CSV"):
            inside = _from_polygons(path, key, grid, budget)
        else:
            inside = _from_raster(path, read_label_raster(path, key, None, budget, as_mask), grid)
    if not inside.any():
        raise SceneMismatch(f"{path}: no pixel of the scene lies inside it; choose another mask")
    mask = xr.DataArray(inside, dims=("y", "x"), name="inside")
    return describe(mask, crs=grid.crs, transform=grid.transform)


def _from_polygons(path: Path, layer: str | None, grid: Grid, budget: int) -> NDArray[np.bool_]:
    if grid.transform is None:
        raise SceneMismatch(
            f"{path}: polygons lie on the map, but the scene has no georeference; give a raster of "
            "the scene's rows and columns"
        )
    features = read_features(path, budget, layer=layer, how=f"as in '{path.name}:LAYER'")
    marks = features.marks(grid)
    shapes = [m for m in marks if isinstance(m, Shape) and not m.is_line]
    others = sum(1 if isinstance(m, Shape) else len(m.xy) for m in marks) - len(shapes)
    if not shapes:
        raise SceneError(f"{path}: a mask is made of polygons, got none; buffer points and lines")
    if others:
        warn_user(f"{path}: {others:,} points and lines are no part of a mask")
    check_work(path, shapes, grid.shape)
    inside = np.zeros(grid.shape, bool)
    for shape in shapes:
        box = covered(shape, grid.shape, whole_pixels=False)
        if box is not None:
            inside[box[0]] |= box[1]
    if not inside.any():
        extents = describe_extents(corners_of(shapes), grid)
        raise SceneMismatch(
            f"{path}: its polygons hold no center of a pixel: {extents}; check the coordinates and "
            "their reference system"
        )
    return inside


def _from_raster(path: Path, raster: LabelRaster, grid: Grid) -> NDArray[np.bool_]:
    values = raster.values != 0
    height, width = values.shape
    theirs = Grid((height, width), raster.crs, raster.transform)
    same_system = grid.crs is None or theirs.crs is None or grid.crs == theirs.crs
    if theirs.shape == grid.shape and same_system and grid.shift(theirs) <= _SAME:
        return values
    if grid.transform is None or theirs.transform is None:
        raise SceneMismatch(
            f"{path}: a mask without georeference must have the scene's {grid.shape[0]} rows and "
            f"{grid.shape[1]} columns, got {height} and {width}; resample it to the scene's grid"
        )
    inside = _moved(values, theirs, grid) if same_system else _warped(values, theirs, grid)
    if not inside.any() and values.any() and same_system:
        cols, rows = np.array([0.0, width, 0.0, width]), np.array([0.0, 0.0, height, height])
        corners = np.stack(move(~grid.transform, *move(theirs.transform, cols, rows)), axis=1)
        where = describe_extents(corners, grid)
        raise SceneMismatch(f"{path}: no pixel of the scene lies inside it: {where}")
    return inside


def _moved(values: NDArray[np.bool_], theirs: Grid, grid: Grid) -> NDArray[np.bool_]:
    """Return the mask at the centers of the grid's pixels, both in one reference system."""
    forth, back = cast(Affine, grid.transform), ~cast(Affine, theirs.transform)
    inside = np.zeros(grid.shape, bool)
    across = np.arange(grid.shape[1], dtype=np.float64) + 0.5
    for row in range(grid.shape[0]):
        x, y = move(back, *move(forth, across, np.full_like(across, row + 0.5)))
        col, line = np.floor(x), np.floor(y)
        there = (col >= 0) & (col < values.shape[1]) & (line >= 0) & (line < values.shape[0])
        inside[row, there] = values[line[there].astype(np.intp), col[there].astype(np.intp)]
    return inside


def _warped(values: NDArray[np.bool_], theirs: Grid, grid: Grid) -> NDArray[np.bool_]:
    """Return the mask on a grid in another reference system, by the nearest pixel."""
    inside = np.zeros(grid.shape, np.uint8)
    systems = {"src_crs": theirs.crs, "dst_crs": grid.crs, "resampling": Resampling.nearest}
    with gdal_alone():
        reproject(
            values.astype(np.uint8), inside,
            src_transform=theirs.transform, dst_transform=grid.transform, **systems,
        )  # fmt: skip
    return inside != 0
