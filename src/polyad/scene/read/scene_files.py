"""Scene files of every kind: the content decides which reader opens them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import xarray as xr

from polyad.errors import SceneError, told_as
from polyad.regular import open_regular
from polyad.scene.raster import guards
from polyad.scene.read.formats import jpeg2000
from polyad.scene.read.formats.arrays import open_npy
from polyad.scene.read.formats.dlr import find_dlr, open_dlr
from polyad.scene.read.formats.emit import is_emit, open_emit
from polyad.scene.read.formats.envi import find_envi, open_envi
from polyad.scene.read.formats.geotiff import open_geotiff
from polyad.scene.read.formats.hdf import open_hdf
from polyad.scene.read.formats.hdf_file import Hdf5File, open_checked
from polyad.scene.read.formats.matlab import is_matlab73, open_matlab5, open_matlab73
from polyad.scene.read.formats.mosaic import TIFF_MAGIC
from polyad.scene.read.formats.ogr import vector_kind
from polyad.scene.read.formats.prisma import is_prisma, open_prisma
from polyad.scene.read.formats.stack import open_bands, open_folder, split_files
from polyad.scene.read.formats.store import is_zarr, open_zarr
from polyad.scene.read.formats.tanager import is_tanager, open_tanager
from polyad.scene.read.formats.vrt import open_vrt

Opener = Callable[[Path, str | None, int], xr.DataArray]
Sniffer = Callable[[Path, bytes], bool]


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
    (is_tanager, open_tanager),
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
    (lambda path, _: find_dlr(path) is not None, open_dlr),
    (_begins(*TIFF_MAGIC), open_geotiff),
    (_begins(b"\x93NUMPY"), open_npy),
    (_is_hdf5, _open_hdf5),
    (_begins(*jpeg2000.MAGIC), jpeg2000.open_jpeg2000),
    (lambda _, head: b"<VRTDataset" in head, open_vrt),
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
    (lambda path, _: bool(split_files(path)), open_folder),
    # Last, since it goes by the neighbor alone: "s.hdr" also stands beside "s.mat".
    (lambda path, _: bool(path.name) and find_envi(path) is not None, open_envi),
)  # fmt: skip


def open_file(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open the file or folder at ``path``, of whatever kind it is; see `open_scene`."""
    path = path if path.name else path.resolve()  # the folder that "." stands for has a name
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the header cannot be read", remedy):
        return opener_of(path)(path, key, budget)


def open_files(files: Sequence[Path], budget: int) -> xr.DataArray:
    """Open a list of files, one for each band; see `open_scene`."""
    if not files:
        raise SceneError("wanted a list of files, one for each band, got none; name the files")
    remedy = "a file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{files[0]}: the bands cannot be read", remedy):
        return open_bands(files[0], files, budget)


def open_address(address: str, budget: int) -> xr.DataArray:
    """Open the GeoTIFF at an ``https://`` address; see `open_scene`."""
    from polyad.scene.read.formats.remote import open_remote  # urllib and TLS: only when asked

    with told_as(SceneError, f"{address}: the header cannot be read", "download the file"):
        return open_remote(address, budget)


def opener_of(path: Path) -> Opener:
    """Return what opens a file, by its content; raise `SceneError` if nothing does."""
    head = b""
    if not path.is_dir():
        guards.existing_file(path)
        with open_regular(path) as file:
            head = file.read(1024)
    for sniff, opener in _KINDS:
        if sniff(path, head):
            return opener
    if vector_kind(path) is not None:
        raise SceneError(
            f"{path}: holds points, lines or polygons, wanted a scene; give it as labels, as in "
            f"polyad train scene.tif {path.name}"
        )
    raise SceneError(
        f"{path}: of no kind that is read, wanted ENVI (with its .hdr), GeoTIFF, JPEG 2000, "
        "MATLAB, NetCDF-4, HDF5, .npy, Zarr, a folder of single-band TIFFs, or an EMIT, PRISMA, "
        "EnMAP, DESIS or Tanager product; convert it to one of these"
    )
