"""Targets of a regression, measured at places of a scene: `open_values`.

Points, lines, polygons and rasters become an array of float32 with dims ``(y, x, target)``, NaN
where nothing was measured. Of several measurements in one pixel the mean counts: a label is right
or wrong, numbers of one pixel are samples of it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError, SceneMismatch, told_as, warn_user
from polyad.scene.files.paths import locate, no_file
from polyad.scene.raster.classes import MOST_TARGETS, VALUE_DIMS, size_fault
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import Grid, check_covers, check_same_place, grid_of
from polyad.scene.raster.guards import check_budget, memory_budget
from polyad.scene.raster.scene import Scene, describe
from polyad.scene.read.features import Features, read_features
from polyad.scene.read.formats.kinds import feature_format
from polyad.scene.read.rasterize import Points, all_outside, check_work, covered, points_inside
from polyad.scene.read.scenes import open_scene

_NO_NUMBERS = "the file has no field of numbers, give it one"
Numbers = NDArray[np.float64]


def open_values(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    scene: xr.DataArray,
    *,
    field: str | Sequence[str] | None = None,
    units: str | Sequence[str] | None = None,
    layer: str | None = None,
    all_touched: bool = False,
    max_bytes: int | None = None,
) -> xr.DataArray:
    """Open numbers measured at points, lines or polygons, or a raster of them.

    Of several measurements in one pixel the mean is taken, with a warning where they differ.
    Features without a number are skipped, and places off the scene left out, with a warning each.

    Parameters
    ----------
    source : str or path, or a sequence of them
        A CSV with ``row,col``, ``x,y`` or ``lon,lat``, a GeoJSON, GeoPackage, Shapefile, FlatGeobuf
        or KML; or a raster on the scene's grid, each band of which is a target.
    scene : DataArray with dims y, x, ...
        The scene that they belong to.
    field : str or sequence of str
        Which fields hold the numbers: one target each. Of a raster, their names.
    units : str or sequence of str, optional
        Of each target, such as ``"%"`` or ``"t/ha"``.
    layer : str, optional
        Which layer of a file that has several.
    all_touched : bool, default=False
        Whether a line or polygon measures every pixel that it touches.
    max_bytes : int, optional
        Most bytes that may be read at once.

    Returns
    -------
    DataArray of float32, dims (y, x, target)
        NaN where nothing was measured.

    Raises
    ------
    SceneError, SceneMismatch
    """
    grid, budget = Scene.of(scene).grid, memory_budget(max_bytes)
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise SceneError("expected at least one file of values, got none; name one")
    fields = field_names(field)
    size = (*grid.shape, max(len(fields), 1))
    check_budget(str(sources[0]), math.prod(size) * 20, budget, "a raster of values")
    rasters = []
    for each in sources:
        path, key = locate(os.fspath(each))
        remedy = "the file is truncated or damaged, copy it again"
        with told_as(SceneError, f"{path}: the values cannot be read", remedy):
            if not path.exists():
                raise no_file(path)
            if feature_format(path) is not None:
                features = _read_features(path, budget, fields, layer)
                rasters.append(_frame(_drawn(features, grid, fields, all_touched), grid, fields))
            elif layer is None and not all_touched:
                rasters.append(_read_raster(path, key, grid, budget, fields))
            else:
                unused = "leave out --layer and --all-touched"
                raise SceneError(f"{path}: a raster has no layers or shapes; {unused}")
    values = rasters[0] if len(rasters) == 1 else _joined(rasters, sources)
    given = field_names(units, empty=True) or [""] * values.sizes["target"]
    if len(given) != values.sizes["target"]:
        raise SceneError(
            f"expected a unit for each of {values.sizes['target']} targets, got {len(given)}; "
            "write --units as many times as --field"
        )
    return values.assign_coords(units=("target", given))


def field_names(field: str | Sequence[str] | None, empty: bool = False) -> list[str]:
    """Return the names of fields; commas part them too. Empty ones are kept if asked for.

    Examples
    --------
    >>> field_names(["cover,height", "biomass"])
    ['cover', 'height', 'biomass']
    """
    given = [] if field is None else [field] if isinstance(field, str) else list(field)
    return [name.strip() for each in given for name in each.split(",") if empty or name.strip()]


def _read_features(path: Path, budget: int, fields: list[str], layer: str | None) -> Features:
    """Read features with the fields that hold the values."""
    if not fields:
        listed = read_features(path, budget, layer=layer).number_fields()
        hint = f"name it with --field (in Python, field): {listed}" if listed else _NO_NUMBERS
        raise SceneError(f"{path}: expected the field that holds the values, got none; {hint}")
    names = [name.casefold() for name in fields]
    if len(set(names)) < len(names) or len(names) > MOST_TARGETS:
        raise SceneError(
            f"{path}: expected at most {MOST_TARGETS} different fields (case is ignored), got "
            f"{', '.join(fields)[:200]}; name each once"
        )
    features = read_features(path, budget, layer=layer, fields=fields, numbers=fields)
    if not len(features):
        raise SceneError(f"{path}: expected measured values, the file has none")
    return features


def _drawn(
    features: Features, grid: Grid, fields: list[str], all_touched: bool
) -> NDArray[np.float32]:
    """Return the mean of what was measured in each pixel, shape (height, width, targets)."""
    path, named = features.path, ", ".join(fields)[:200]
    table = np.stack([features.values(name) for name in fields], axis=1)
    if np.isinf(table).any():
        row, column = np.argwhere(np.isinf(table))[0].tolist()
        raise SceneError(
            f"{path}, {features.where(row)}: expected a finite number for {fields[column][:80]!r}, "
            f"got {table[row, column]}; correct it, or leave it empty"
        )
    _check_sizes(path, table, fields)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(table).any(axis=1))
    count = int(np.count_nonzero(known))
    if not count:
        raise SceneError(f"{path}: no feature has a number in {named}")
    if count < len(known):
        skipped = f"{len(known) - count:,} of {len(known):,} features"
        warn_user(f"{path}: skipped {skipped} without a number in {named}")
    marks = features.marks(grid, known)
    check_work(path, marks, grid.shape)
    pixels, rows, lost = [np.empty(0, np.intp)], [np.empty(0, np.intp)], 0
    for mark in marks:
        if isinstance(mark, Points):
            inside, row, col = points_inside(mark.xy, grid.shape)
            index = mark.features[inside]
            lost += len(inside) - len(index)
        elif (box := covered(mark, grid.shape, all_touched)) is not None:
            (down, across), drawn = box
            row, col = np.nonzero(drawn)
            row, col = row + down.start, col + across.start
            index = np.full(len(row), mark.feature, np.intp)
        else:
            lost += 1
            continue
        pixels.append(np.ravel_multi_index((row, col), grid.shape))
        rows.append(index)
    measured = np.concatenate(rows)
    if not len(measured):
        raise all_outside(path, f"{count:,} values", marks, grid)
    if lost:
        warn_user(f"{path}: {lost:,} of {count:,} values lie outside the scene and are left out")
    return _means(path, np.concatenate(pixels), table[measured], grid.shape)


def _means(
    path: Path, pixels: NDArray[np.intp], numbers: Numbers, shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Return the mean of the numbers of each pixel, NaN where there are none."""
    places, index = np.unique(pixels, return_inverse=True)
    there = np.isfinite(numbers)
    count, total = (np.zeros((len(places), numbers.shape[1])) for _ in range(2))
    np.add.at(count, index, there)
    np.add.at(total, index, np.where(there, numbers, 0))
    with np.errstate(invalid="ignore"):
        mean = total / count
    apart = there & (np.abs(numbers - mean[index]) > 1e-9 * (1 + np.abs(numbers)))
    shared = len(np.unique(index[apart.any(axis=1)]))
    if shared:
        warn_user(f"{path}: {shared:,} pixels hold several values that differ; their mean is taken")
    out = np.full((*shape, numbers.shape[1]), np.nan, np.float32)
    out.reshape(-1, numbers.shape[1])[places] = mean
    return out


def _read_raster(
    path: Path, key: str | None, grid: Grid, budget: int, fields: list[str]
) -> xr.DataArray:
    """Return a raster of values on the scene's grid; each of its bands is a target."""
    raster = open_scene(str(path) if key is None else f"{path}:{key}", max_bytes=budget)
    theirs = grid_of(raster)
    check_covers(f"{path}: values", grid.shape, theirs.shape)
    check_same_place(grid, theirs)
    count = raster.sizes["band"]
    names = fields or [f"value {k + 1}" if count > 1 else "value" for k in range(count)]
    if len(names) != count or count > MOST_TARGETS:
        targets = f"expected one for each of {len(names)} targets, at most {MOST_TARGETS}"
        raise SceneMismatch(f"{path}: has {count} bands, {targets}; name them with --field")
    stored = Scene.of(raster).read(slice(None), slice(None))
    known = valid_pixels(stored[..., None], raster.rio.nodata)
    values = np.where(known, stored, np.nan)
    _check_sizes(path, values.reshape(-1, count), names)
    return _frame(values.astype(np.float32), grid, names)


def _check_sizes(path: Path, table: NDArray[Any], names: Sequence[str]) -> None:
    """Raise `SceneError` if numbers ``(n, targets)`` would be lost in single precision."""
    for column, name in zip(table.T, names, strict=True):
        fault = size_fault(column)
        if fault is not None:
            raise SceneError(f"{path}: {name[:80]!r} cannot be kept in single precision: {fault}")


def _joined(rasters: Sequence[xr.DataArray], sources: Sequence[Any]) -> xr.DataArray:
    """Return several rasters of the same targets as one; the later one wins."""
    first, *others = rasters
    out, clashes = first.values.copy(), 0
    for raster in others:
        if raster["target"].values.tolist() != first["target"].values.tolist():
            raise SceneMismatch(
                f"{sources[0]} and others differ in targets; name them with --field"
            )
        new = np.isfinite(raster.values)
        clashes += int((new & np.isfinite(out) & (out != raster.values)).any(axis=2).sum())
        out = np.where(new, raster.values, out)
    if clashes:
        warn_user(
            f"{clashes:,} pixels have different values in several files; the later one is taken"
        )
    return first.copy(data=out)


def _frame(values: NDArray[np.float32], grid: Grid, names: Sequence[str]) -> xr.DataArray:
    out = xr.DataArray(values, dims=VALUE_DIMS, coords={"target": list(names)}, name="value")
    return describe(out, crs=grid.crs, transform=grid.transform)
