"""Class maps as Zarr stores, with the attributes of the CF conventions.

A store holds what a NetCDF file would, see `polyad.scene.write.netcdf`: ids, coordinates and a grid
mapping, each an array. Chunks are squares, whatever the windows in which the map comes, so that the
same map gives the same store. The layout is that of Zarr version 2 with plain zlib: GDAL, and with
it a GIS, reads that since version 3.4; version 3 as it was specified in the end, 3.10 does not.

That layout is files of JSON and of packed numbers, which are written here: the package zarr writes
by tasks of its own, which go on, and make the folder anew, after one of them has failed.
"""

from __future__ import annotations

import itertools
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.atomic import Outputs
from polyad.errors import OutputError
from polyad.scene.raster.classes import UNLABELED, class_table
from polyad.scene.write.cog import Slices
from polyad.scene.write.netcdf import MAP_NAME, cf_dataset, cf_dtype

CHUNK = 512  # pixels: half a megabyte of ids, few files of a large map
_LEVEL = 6  # of zlib


class ZarrMap:
    """The array of ids in a store that is being written.

    Parameters
    ----------
    temporary : Path
        Folder of the array.
    target : Path
        The name that the store will have.
    shape : (int, int)
    dtype : dtype
    """

    def __init__(
        self, temporary: Path, target: Path, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        self._temporary, self._target = temporary, target
        self._shape, self._dtype = shape, dtype
        self._chunks = _chunks(shape)
        self._written = 0

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        """Write ``bands`` (1, rows, columns) into ``window`` (rows, columns)."""
        sides = [range(*side.indices(n)) for side, n in zip(window, self._shape, strict=True)]
        spans = [
            range(side.start // size, -(-side.stop // size))
            for side, size in zip(sides, self._chunks, strict=True)
        ]
        for index in itertools.product(*spans):
            inside, outside = [], []
            for number, size, side in zip(index, self._chunks, sides, strict=True):
                first, last = max(number * size, side.start), min((number + 1) * size, side.stop)
                inside.append(slice(first - number * size, last - number * size))
                outside.append(slice(first - side.start, last - side.start))
            self._put(index, (inside[0], inside[1]), bands[0][tuple(outside)])
        self._written += bands[0].size

    def finish(self) -> None:
        """Raise `OutputError` unless every pixel was written."""
        wanted = self._shape[0] * self._shape[1]
        if self._written < wanted:
            raise OutputError(
                f"cannot finish {self._target}: wanted {wanted:,} pixels, got {self._written:,}; "
                "write every window of the scene before leaving the block"
            )

    def _put(self, index: tuple[int, ...], inside: Slices, ids: npt.NDArray[Any]) -> None:
        temporary = self._temporary / ".".join(map(str, index))
        if temporary.exists():
            known = zlib.decompress(temporary.read_bytes())
            chunk = np.frombuffer(known, self._dtype).reshape(self._chunks).copy()
        elif not ids.any():
            return  # a chunk that is missing has no class
        else:
            chunk = np.zeros(self._chunks, self._dtype)
        chunk[inside] = ids
        temporary.write_bytes(zlib.compress(chunk.tobytes(), _LEVEL))


@contextmanager
def open_zarr_map(
    outputs: Outputs,
    path: str | os.PathLike[str],
    frame: xr.DataArray,
    crs: CRS | None = None,
    transform: Affine | None = None,
) -> Iterator[ZarrMap]:
    """Yield a Zarr store of class ids, to be written window by window; it appears when whole.

    Parameters
    ----------
    outputs : Outputs
        What the map appears together with.
    path : path-like
        The folder, by custom ending in ``.zarr``.
    frame : DataArray, dims (y, x)
        Size, coordinates and classes of the map; its values are not looked at.
    crs, transform
        See `polyad.scene.write.netcdf.add_netcdf_map`.
    """
    blank = np.broadcast_to(cf_dtype(class_table(frame)).type(UNLABELED), frame.shape)
    dataset = cf_dataset(frame, crs, transform, blank)
    if positions := [str(name) for name in dataset.coords if name not in ("y", "x")]:
        dataset[MAP_NAME].attrs["coordinates"] = " ".join(positions)  # of a swath
    if crs is not None:
        dataset[MAP_NAME].attrs["_CRS"] = {"wkt": crs.to_wkt()}  # where GDAL before 3.10 looks
    temporary = outputs.temporary(path, folder=True)
    temporary.mkdir()
    told: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": dict(dataset.attrs)}
    for name, variable in dataset.variables.items():
        (temporary / str(name)).mkdir()
        told |= _description(str(name), variable)
        if name != MAP_NAME:
            packed = zlib.compress(_plain_order(variable.values).tobytes(), _LEVEL)
            first = ".".join("0" * max(variable.ndim, 1))
            (temporary / str(name) / first).write_bytes(packed)
    told[".zmetadata"] = {"metadata": dict(told), "zarr_consolidated_format": 1}
    for name, content in told.items():
        text = json.dumps(content, indent=2, allow_nan=False)
        (temporary / name).write_text(text + "\n", encoding="utf-8")
    dtype = dataset[MAP_NAME].dtype.newbyteorder("<")
    shape = frame.sizes["y"], frame.sizes["x"]
    out = ZarrMap(temporary / MAP_NAME, Path(path), shape, dtype)
    yield out
    out.finish()


def _description(name: str, variable: xr.Variable) -> dict[str, Any]:
    """Return the two files that describe an array; a coordinate is one chunk without nodata."""
    ids = name == MAP_NAME
    about = {str(k): v.tolist() if hasattr(v, "tolist") else v for k, v in variable.attrs.items()}
    array = {
        "zarr_format": 2,
        "shape": list(variable.shape),
        "chunks": list(_chunks(variable.shape) if ids else variable.shape),
        "dtype": variable.dtype.newbyteorder("<").str,
        "compressor": {"id": "zlib", "level": _LEVEL},
        "fill_value": UNLABELED if ids else None,
        "order": "C",
        "filters": None,
    }
    dims = {"_ARRAY_DIMENSIONS": [str(dim) for dim in variable.dims]}  # where xarray and GDAL look
    return {f"{name}/.zarray": array, f"{name}/.zattrs": about | dims}


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(CHUNK, length) for length in shape)


def _plain_order(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(values.dtype.newbyteorder("<"))
