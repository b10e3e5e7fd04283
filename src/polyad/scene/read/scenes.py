"""Open any hyperspectral file, or a known scene by name, as a lazily read scene.

A scene is an ``xarray.DataArray`` with dims ``(y, x, band)``. Where the file tells, it has a
``wavelength`` coordinate in nanometers, a georeference in rioxarray's convention
(``scene.rio.crs``, ``scene.rio.transform()``, pixel centers as ``x`` and ``y``) and a nodata value
(``scene.rio.nodata``). Opening reads the header; ``scene.isel(y=..., x=...)`` reads that window.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray

from polyad.scene.files.paths import check_scene, is_address, locate
from polyad.scene.raster import guards
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import as_scene, describe
from polyad.scene.read.known_scenes import open_known
from polyad.scene.read.scene_files import open_address, open_file, open_files


def open_scene(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    max_bytes: int | None = None,
    remote: bool = False,
) -> xr.DataArray:
    """Open a scene without reading its pixels.

    Parameters
    ----------
    source : str, path, or list of paths
        A file (ENVI, GeoTIFF, JPEG 2000, VRT, MATLAB, NetCDF/HDF5, EMIT, PRISMA, Tanager,
        EnMAP, DESIS, ``.npy``), a folder (Zarr, EnMAP, DESIS, a TIFF for each band), a file and the
        array in it (``scene.mat:paviaU``), or the name of a known scene (``indian-pines``). A list
        has a file for each band.
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given. A scene
        that can be read by windows may be larger than that.
    remote : bool, default=False
        Whether ``source`` may be the ``https://`` address of a GeoTIFF, which is read by parts.

    Returns
    -------
    DataArray, dims (y, x, band)
        Values as stored, except that EMIT, PRISMA, EnMAP, DESIS, packed NetCDF and ENVI files with
        a scale give physical values.

    Raises
    ------
    SceneError
        The file is missing, damaged, inconsistent or of a kind that is not read.
    BudgetExceeded
        A piece that must be read at once is larger than ``max_bytes``.
    """
    budget = memory_budget(max_bytes)
    if not isinstance(source, str | PathLike):
        return open_files([Path(file) for file in source], budget)
    path, key = locate(str(source))
    if not (path.exists() and str(source)):
        check_scene(str(source), remote=remote)
        if is_address(str(source)):
            return open_address(str(source), budget)
        return open_known(str(source))
    return open_file(path, key, budget)


def scene_from_array(
    values: NDArray[Any],
    *,
    wavelength: NDArray[np.float64] | None = None,
    crs: Any = None,
    transform: Affine | None = None,
    nodata: float | None = None,
) -> xr.DataArray:
    """Return an array in memory as a scene.

    Parameters
    ----------
    values : array of shape (rows, columns, bands)
        The pixels. A DataArray, whose dimensions have names, is put in order by these.
    wavelength : array of shape (bands,), optional
        Band centers in nanometers.
    crs : anything rioxarray takes, optional
        Coordinate reference system.
    transform : Affine, optional
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    nodata : float, optional
        Value that stands for "no measurement".

    Examples
    --------
    >>> scene_from_array(np.zeros((4, 5, 3)), wavelength=np.array([450.0, 550.0, 650.0])).sizes
    Frozen({'y': 4, 'x': 5, 'band': 3})
    """
    if isinstance(values, xr.DataArray | xr.Dataset):  # its dimensions have names already
        scene = as_scene(values)
    else:
        guards.check_shape(Path("array"), values.shape)
        scene = xr.DataArray(values, dims=("y", "x", "band"))
    return describe(scene, wavelength=wavelength, crs=crs, transform=transform, nodata=nodata)
