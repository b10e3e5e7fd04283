"""The 2-D array of a label file, of any kind that a scene comes in, and PNG.

All but ``.npy`` and ENVI are read in a confined process; see `polyad.scene.read.label_rasters`.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from rasterio.errors import RasterioError

from polyad.errors import SceneError, reason
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.grid import check_covers
from polyad.scene.raster.sources import AXES, representable
from polyad.scene.read.formats import cf, hdf
from polyad.scene.read.formats.envi import find_envi
from polyad.scene.read.formats.hdf import attributes, check_chunk, open_listed
from polyad.scene.read.formats.kinds import open_source
from polyad.scene.read.formats.matlab import list_variables, read_variable
from polyad.scene.read.formats.opening import open_raster
from polyad.scene.read.formats.rasters import check_blocks
from polyad.scene.read.formats.raw import read_npy_header
from polyad.scene.read.formats.sidecars import georeference
from polyad.scene.read.formats.store import is_numeric, is_zarr, open_store, read_whole
from polyad.scene.read.label_rasters import Shape, StoredRaster

# All that tells names and colors of classes
_CLASS_ATTRIBUTES = ("class_values", "flag_values", "class_names", "flag_meanings", "class_colors")
_ID_BYTES = 5  # for each pixel, beside its stored value: the id, its copy and a mark


def read_stored(path: Path, key: str | None, shape: Shape | None, budget: int) -> StoredRaster:
    """Read the 2-D array of a file; all but ``.npy`` and ENVI in a confined process."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return _read_zarr(path, key, shape, budget)
    if suffix in _KEYED:
        return _KEYED[suffix](path, key, shape, budget)
    if key is not None:
        raise SceneError(f"{path}: this kind of file has one raster and no key, got ':{key}'")
    if suffix in _READERS:
        return _READERS[suffix](path, shape, budget)
    if find_envi(path) is not None:
        return _read_one_band(path, None, shape, budget)
    raise SceneError(
        f"{path}: unsupported format of labels {suffix!r}, expected GeoTIFF, ENVI, PNG, .mat, "
        ".npy, NetCDF, HDF5, CSV or GeoJSON"
    )


def _admit(
    path: Path, got: tuple[int, ...], dtype: np.dtype, shape: Shape | None, budget: int
) -> None:
    """Refuse, before a pixel is read, what is no label raster, does not fit or is too large."""
    if len(got) != 2 or dtype.kind not in "biuf":
        shape_and_type = f"shape {tuple(got)} of {dtype}; choose another array"
        raise SceneError(f"{path}: labels are a 2-D raster of class ids, got {shape_and_type}")
    if shape is not None:
        check_covers(f"{path}: labels", shape, got)
    held = guards.declared_bytes(got, dtype) + got[0] * got[1] * _ID_BYTES
    guards.check_budget(path, held, budget, "a label raster")


def _read_tiff(path: Path, shape: Shape | None, budget: int) -> StoredRaster:
    with open_raster(path, "GTiff") as dataset:
        check_blocks(path, dataset, budget)
        return _single_band(path, dataset, shape, budget, dataset.tags())


def _read_png(path: Path, shape: Shape | None, budget: int) -> StoredRaster:
    _check_png(path)
    with open_raster(path, "PNG") as dataset:
        return _single_band(path, dataset, shape, budget, {})


def _check_png(path: Path) -> None:
    """Check the sum of every chunk: of a damaged one, GDAL gives noise and no error."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(8)
        kind = b""
        while kind != b"IEND":
            length, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
            body = file.read(min(length, size))
            if file.read(4) != struct.pack(">I", zlib.crc32(kind + body)):
                raise SceneError(f"{path}: the PNG is truncated or damaged; copy it again")


def _single_band(
    path: Path, dataset: Any, shape: Shape | None, budget: int, attrs: dict[str, Any]
) -> StoredRaster:
    """Read the only band of an open raster."""
    if dataset.count != 1:
        got = f"got {dataset.count} bands; if they are colors, save the ids instead"
        raise SceneError(f"{path}: labels are one band of class ids (gray or palette), {got}")
    _admit(path, dataset.shape, np.dtype(dataset.dtypes[0]), shape, budget)
    try:
        values = dataset.read(1)
    except RasterioError as error:
        why = f"its pixels cannot be read ({reason(error)}), it is truncated or damaged"
        raise SceneError(f"{path}: {why}; copy it again") from error
    try:
        palette = dataset.colormap(1)
    except ValueError:  # rasterio's way to say that there is none
        palette = {}
    return StoredRaster(values, dataset.nodata, attrs, palette, **georeference(path, dataset))


def _read_one_band(path: Path, key: str | None, shape: Shape | None, budget: int) -> StoredRaster:
    """Read an ENVI file or Zarr store as a scene of one band."""
    opened = open_source(path, key, budget)
    source, about = opened.source, opened.description
    height, width, count = source.shape
    good = about.get("good")
    bands = np.flatnonzero(good) if good is not None and good.any() else np.arange(count)
    if len(bands) != 1:
        got = f"got {len(bands)} bands; is this the image, not its labels?"
        raise SceneError(f"{path}: labels are one band of class ids, {got}")
    _admit(path, (height, width), source.dtype, shape, budget)
    values = source.read(slice(0, height), slice(0, width), bands)[..., 0]
    nodata = representable(about.get("nodata"), source.dtype)
    crs, transform = about.get("crs"), about.get("transform")
    return StoredRaster(values, nodata, crs=crs, transform=transform)


def _read_npy(path: Path, shape: Shape | None, budget: int) -> StoredRaster:
    offset, got, dtype, fortran = read_npy_header(path)
    _admit(path, got, dtype, shape, budget)
    values = np.fromfile(path, dtype, math.prod(got), offset=offset)
    return StoredRaster(values.reshape(got, order="F" if fortran else "C"))


def _read_mat(path: Path, key: str | None, shape: Shape | None, budget: int) -> StoredRaster:
    if h5py.is_hdf5(path):  # MATLAB 7.3
        return _read_hdf(path, key, shape, budget, columns_first=True)
    arrays = list_variables(path)
    name = _choose(path, key, arrays, shape)
    values = read_variable(path, name, arrays[name], budget)
    _admit(path, values.shape, values.dtype, shape, budget)
    return StoredRaster(values)


def _read_hdf(
    path: Path, key: str | None, shape: Shape | None, budget: int, columns_first: bool = False
) -> StoredRaster:
    """Read a 2-D array; MATLAB's lie with ``columns_first``, as (column, row)."""
    with open_listed(path, budget) as opened:
        way = -1 if columns_first else 1
        key = key or _flagged({name: opened.file[name] for name in opened.arrays})
        name = _choose(path, key, {n: s[::way] for n, s in opened.arrays.items()}, shape)
        array = hdf.find(opened, name)
        node, look = hdf.node_of(opened, array)
        way = -1 if columns_first else _way(node.dims)
        _admit(path, array.shape[::way], array.dtype, shape, budget)
        check_chunk(path, array, budget)
        fill = cf.number(node.attrs, "_FillValue")
        place = {} if columns_first else cf.georeference(node, (0, 1)[::way], look)
        attrs = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in attributes(array, _CLASS_ATTRIBUTES).items()
        }
        values = hdf.read_box(array, tuple(slice(0, n) for n in node.shape))
    return StoredRaster(values.T if way < 0 else values, fill, attrs, **place)


def _flagged(arrays: Mapping[str, Any]) -> str | None:
    """Return the only 2-D array that names its classes: beside it may lie positions of a swath."""
    flags = {"flag_values", "class_values"}
    named = [n for n, array in arrays.items() if len(array.shape) == 2 and flags & {*array.attrs}]
    return named[0] if len(named) == 1 else None


def _read_zarr(path: Path, key: str | None, shape: Shape | None, budget: int) -> StoredRaster:
    """Read a 2-D array of a store, such as a map of ours; else its cube of one band."""
    if not is_zarr(path):
        return _read_one_band(path, key, shape, budget)  # says what it is
    store = open_store(path)
    flat = {n: a for n, a in store.arrays.items() if len(a.shape) == 2 and is_numeric(a)}
    if not flat or (key is not None and key.strip("/") not in flat):
        return _read_one_band(path, key, shape, budget)
    name = _choose(path, key or _flagged(flat), {n: a.shape for n, a in flat.items()}, shape)
    node = store.admit(name, budget, inflation=False)
    way = _way(node.dims)
    _admit(path, node.shape[::way], node.dtype, shape, budget)
    place = cf.georeference(node, (0, 1)[::way], store.neighbors(name, budget))
    values = read_whole(flat[name])
    fill = cf.number(node.attrs, "_FillValue")
    return StoredRaster(values.T if way < 0 else values, fill, dict(node.attrs), **place)


def _way(dims: tuple[str, ...]) -> int:
    """Return -1 for an array that lies as (x, y), which is to be turned; else 1."""
    names = [d.lower() for d in dims]
    return -1 if len(names) == 2 and names[0] in AXES["x"] and names[1] in AXES["y"] else 1


def _choose(
    path: Path, key: str | None, arrays: Mapping[str, tuple[int, ...]], shape: Shape | None
) -> str:
    """Return the name of the requested array, or of the only one that can be a label raster."""
    listed = guards.listing(f"{name} {size}" for name, size in arrays.items()) or "none"
    if key is not None:
        name = key.strip("/")
        if name not in arrays:
            raise SceneError(f"{path}: no numeric array '{key}'; it holds {listed}")
        return name
    flat = {n: s for n, s in arrays.items() if len(s) == 2 and min(s) > 1}
    fitting = {n: s for n, s in flat.items() if s == shape}
    candidates = [*(fitting if len(flat) > 1 and fitting else flat)]
    if len(candidates) != 1:
        found = guards.listing(f"{n} {flat[n]}" for n in candidates)
        hint = f"none among its numeric arrays: {listed}"
        if candidates:
            hint = f"{len(candidates)}: {found}; name one, as in '{path.name}:{candidates[0]}'"
        raise SceneError(f"{path}: expected one 2-D array of class ids, found {hint}")
    return candidates[0]


_KEYED = {".mat": _read_mat} | dict.fromkeys(
    (".nc", ".nc4", ".h5", ".hdf5", ".he5", ".hdf"), _read_hdf
)
_READERS = {".tif": _read_tiff, ".tiff": _read_tiff, ".png": _read_png, ".npy": _read_npy}
