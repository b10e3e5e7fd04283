"""Class maps as Zarr stores of version 3, with the attributes of the CF conventions.

A store holds what a NetCDF file would, see `polyad.scene.write.netcdf`: ids, coordinates and a
grid mapping, each an array. Chunks are squares, whatever the windows in which the map comes, so
that the same map gives the same store.
"""

from __future__ import annotations

import os
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

CHUNK = 512  # pixels: a quarter of a megabyte of ids, few files of a large map


class ZarrMap:
    """The array of ids in a store that is being written."""

    def __init__(self, array: Any, target: Path) -> None:
        self._array, self._target, self._written = array, target, 0

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        """Write ``bands`` (1, rows, columns) into ``window`` (rows, columns)."""
        self._array[window] = bands[0]
        self._written += bands[0].size

    def finish(self) -> None:
        """Raise `OutputError` unless every pixel was written."""
        if self._written < self._array.size:
            raise OutputError(
                f"cannot finish {self._target}: wanted {self._array.size:,} pixels, got "
                f"{self._written:,}; write every window of the scene before leaving the block"
            )


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
    try:
        import zarr
    except ImportError as error:
        raise OutputError(
            f"cannot write {os.fspath(path)}: a Zarr store needs the package zarr; run "
            "pip install 'polyad[zarr]'"
        ) from error
    blank = np.broadcast_to(cf_dtype(class_table(frame)).type(UNLABELED), frame.shape)
    dataset = cf_dataset(frame, crs, transform, blank)
    ids = dataset[MAP_NAME]
    about = {name: _plain(value) for name, value in ids.attrs.items()} | {"_FillValue": UNLABELED}
    if positions := [str(n) for n, v in dataset.variables.items() if v.dims == ("y", "x")][1:]:
        about["coordinates"] = " ".join(positions)
    temporary = outputs.temporary(path, folder=True)
    group = zarr.create_group(str(temporary), zarr_format=3, attributes=dict(dataset.attrs))
    for name, variable in dataset.variables.items():
        if name != MAP_NAME:
            array = group.create_array(
                str(name),
                shape=variable.shape,
                dtype=variable.dtype,
                dimension_names=[str(dim) for dim in variable.dims],
                attributes={key: _plain(value) for key, value in variable.attrs.items()},
            )
            array[...] = variable.values
    out = ZarrMap(
        group.create_array(
            MAP_NAME,
            shape=ids.shape,
            chunks=tuple(min(CHUNK, length) for length in ids.shape),
            dtype=ids.dtype,
            fill_value=UNLABELED,
            dimension_names=("y", "x"),
            attributes=about,
        ),
        Path(path),
    )
    yield out
    out.finish()


def _plain(value: Any) -> Any:
    """Return an attribute in types that JSON knows."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
