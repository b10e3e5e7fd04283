"""One way in: any hyperspectral file, or the name of a known scene, as a lazily read scene.

A scene is an ``xarray.DataArray`` with dims ``(y, x, band)``. Where the file tells, it has a
``wavelength`` coordinate in nanometres, a georeference in rioxarray's convention
(``scene.rio.crs``, ``scene.rio.transform()``, pixel centres as ``x`` and ``y``) and a nodata value
(``scene.rio.nodata``). Opening reads the header; ``scene.isel(y=..., x=...)`` reads that window.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray

from polyad.errors import SceneError, told_as
from polyad.regular import open_regular
from polyad.scene.formats import guards
from polyad.scene.formats.arrays import open_npy
from polyad.scene.formats.emit import is_emit, open_emit
from polyad.scene.formats.enmap import find_enmap, open_enmap
from polyad.scene.formats.envi import find_envi, open_envi
from polyad.scene.formats.geotiff import open_geotiff
from polyad.scene.formats.guards import memory_budget
from polyad.scene.formats.hdf import Hdf5File, open_checked, open_hdf
from polyad.scene.formats.lazy import describe
from polyad.scene.formats.matlab import is_matlab73, open_matlab5, open_matlab73
from polyad.scene.formats.prisma import is_prisma, open_prisma
from polyad.scene.formats.store import is_zarr, open_zarr
from polyad.scene.order import as_scene
from polyad.scene.paths import check_scene, locate, split_key
from polyad.scene.sharing import shared_tensor

__all__ = [
    "memory_budget",
    "open_scene",
    "scene_from_array",
    "split_key",
    "valid_mask",
    "valid_pixels",
]

Opener = Callable[[Path, str | None, int], xr.DataArray]
Sniffer = Callable[[Path, bytes], bool]

_STRIP_BYTES = 64 * 2**20  # what valid_mask holds at a time


def _begins(*magic: bytes) -> Sniffer:
    return lambda _, head: head.startswith(magic)


def _refuse(wanted: str) -> Opener:
    def opener(path: Path, _key: str | None, _budget: int) -> xr.DataArray:
        raise SceneError(f"{path}: {wanted}")

    return opener


def _is_hdf5(_: Path, head: bytes) -> bool:
    # The signature stands at byte 0, or at 512 after the text header of MATLAB 7.3.
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


# Layouts of HDF5 files, the most particular first; they are told apart in the open file.
_HDF5_LAYOUTS: tuple[
    tuple[Callable[[Hdf5File], bool], Callable[[Hdf5File, str | None], xr.DataArray]], ...
] = (
    (is_prisma, open_prisma),
    (is_emit, open_emit),
    (is_matlab73, open_matlab73),
    (lambda _: True, open_hdf),
)


def _open_hdf5(path: Path, key: str | None, budget: int) -> xr.DataArray:
    with open_checked(path, budget) as opened:
        opener = next(opener for fits, opener in _HDF5_LAYOUTS if fits(opened))
        return opener(opened, key)


# The content decides, from the most particular kind to the most general; a wrong suffix does not.
_KINDS: tuple[tuple[Sniffer, Opener], ...] = (
    (lambda path, _: is_zarr(path), open_zarr),
    (lambda path, _: find_enmap(path) is not None, open_enmap),
    (_begins(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), open_geotiff),
    (_begins(b"\x93NUMPY"), open_npy),
    (_is_hdf5, _open_hdf5),
    (
        lambda _, head: b"<VRTDataset" in head,
        _refuse("a VRT points to other files and is refused; convert it to GeoTIFF first"),
    ),
    (
        _begins(b"CDF\x01", b"CDF\x02", b"CDF\x05"),
        _refuse("NetCDF classic is not read, wanted NetCDF-4; convert it with nccopy -k nc4"),
    ),
    (
        _begins(b"PK\x03\x04"),
        _refuse("a zip or .npz archive is not read; unpack it and open the scene inside"),
    ),
    (lambda path, head: head.startswith(b"MATLAB 5.0") or path.suffix.lower() == ".mat",
     open_matlab5),
    # Last, since it goes by the neighbour alone: "s.hdr" also stands beside "s.mat".
    (lambda path, _: bool(path.name) and find_envi(path) is not None, open_envi),
)  # fmt: skip


def open_scene(source: str | PathLike[str], *, max_bytes: int | None = None) -> xr.DataArray:
    """Open a scene without reading its pixels.

    Parameters
    ----------
    source : str or path
        A file (ENVI, GeoTIFF, MATLAB, NetCDF/HDF5, EMIT, PRISMA, EnMAP, ``.npy``), a folder (Zarr,
        EnMAP), a file and the array in it (``scene.mat:paviaU``), or the name of a known scene
        (``indian-pines``).
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given. A scene
        that can be read by windows may be larger than that.

    Returns
    -------
    DataArray, dims (y, x, band)
        Values as stored, except that EMIT, PRISMA, EnMAP and packed NetCDF give physical values.

    Raises
    ------
    SceneError
        The file is missing, damaged, dishonest or of a kind that is not read.
    BudgetExceeded
        A piece that cannot be read in parts is larger than ``max_bytes``.
    """
    budget = memory_budget(max_bytes)
    path, key = locate(str(source))
    if not (path.exists() and str(source)):
        return _open_known(str(source))
    path = path if path.name else path.resolve()  # the folder that "." stands for has a name
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the header cannot be read", remedy):
        return _opener(path)(path, key, budget)


def _open_known(name: str) -> xr.DataArray:
    from polyad.scene import sources  # imported here: that module uses this one

    check_scene(name)
    scene: xr.DataArray = sources.open_known(name)
    return scene


def _opener(path: Path) -> Opener:
    head = b""
    if not path.is_dir():
        guards.existing_file(path)
        with open_regular(path) as file:
            head = file.read(1024)
    for sniff, opener in _KINDS:
        if sniff(path, head):
            return opener
    raise SceneError(
        f"{path}: of no kind that is read, wanted ENVI (with its .hdr), GeoTIFF, MATLAB, NetCDF-4, "
        "HDF5, .npy, Zarr, or an EMIT, PRISMA or EnMAP product; convert it to one of these"
    )


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
        Band centres in nanometres.
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


def valid_pixels(values: NDArray[Any], nodata: float | None = None) -> NDArray[np.bool_]:
    """Return which pixels have a measurement in every band.

    Parameters
    ----------
    values : array of shape (..., bands)
        Pixels of a scene or of a tile of it.
    nodata : float, optional
        Value that stands for "no measurement"; NaN and infinity always do, and so does what is
        infinite as float32, in which models compute.

    Returns
    -------
    bool array of shape (...)
        False where any band is nodata or not finite.

    Examples
    --------
    >>> valid_pixels(np.array([[1, 2], [-9, 4]]), nodata=-9)
    array([ True, False])
    """
    check_real(values.dtype)
    valid = np.ones(values.shape[:-1], bool)
    if values.dtype.kind == "f" and not _sum_is_finite(values):
        most = values.dtype.type(min(np.finfo(values.dtype).max, np.finfo(np.float32).max))
        valid &= (np.abs(values) <= most).all(axis=-1)  # not so for NaN
    if nodata is not None and not np.isnan(nodata):
        missing = np.asarray(values == nodata)
        if missing.any():
            valid &= ~missing.any(axis=-1)
    return valid


def check_real(dtype: np.dtype[Any]) -> None:
    """Raise `SceneError` unless values of this type are real numbers."""
    if dtype.kind not in "biuf":
        raise SceneError(
            f"a scene's values must be real numbers, got {dtype}; take the part that was measured"
        )


def _sum_is_finite(values: NDArray[Any]) -> bool:
    """Return whether the sum of all values is finite: then so are they, and it is quickly found.

    Doubles are summed as float32, where those beyond its range are infinite.
    """
    shared, wide = shared_tensor(values), values.dtype.itemsize > 4
    with np.errstate(all="ignore"):
        if shared is None:
            return math.isfinite(float(values.sum(dtype=np.float32 if wide else None)))
        return math.isfinite(float((shared.float() if wide else shared).sum()))


def valid_mask(scene: xr.DataArray) -> NDArray[np.bool_]:
    """Return which pixels of ``scene`` have a measurement in every band, shape ``(y, x)``.

    A lazily opened scene is read strip by strip, so that memory stays bounded. For one tile, pass
    ``scene.isel(y=..., x=...)``.
    """
    scene = as_scene(scene)
    nodata = scene.rio.nodata
    rows, cols, bands = scene.shape
    strip = max(1, _STRIP_BYTES // max(1, cols * bands * scene.dtype.itemsize))
    mask = np.empty((rows, cols), bool)
    for top in range(0, rows, strip):
        mask[top : top + strip] = valid_pixels(scene[top : top + strip].values, nodata)
    return mask
