"""Scene files of every kind: the content decides which reader opens them, and where.

ENVI and ``.npy`` are a short text in front of raw numbers and are read here. All other kinds are
parsed and decoded by libraries in a confined process (`polyad.sandbox`): what comes back are a
description and windows of pixels.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyad import sandbox
from polyad.errors import SceneError, told_as
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats.dlr import find_dlr, open_dlr
from polyad.scene.read.formats.emit import is_emit, open_emit
from polyad.scene.read.formats.envi import find_envi, open_envi
from polyad.scene.read.formats.hdf import Hdf5File, open_hdf, open_listed
from polyad.scene.read.formats.matlab import is_matlab73, open_matlab5, open_matlab73
from polyad.scene.read.formats.ogr import vector_kind
from polyad.scene.read.formats.opening import Opened
from polyad.scene.read.formats.prisma import is_prisma, open_prisma
from polyad.scene.read.formats.rasters import (
    JP2_MAGIC,
    MOST_FILES,
    TIFF_MAGIC,
    open_bands,
    open_folder,
    open_image,
    open_vrt,
    split_files,
)
from polyad.scene.read.formats.raw import open_npy
from polyad.scene.read.formats.store import is_zarr, open_zarr
from polyad.scene.read.formats.tanager import is_tanager, open_tanager


class Kind(NamedTuple):
    """A kind of scene files.

    Attributes
    ----------
    fits : callable
        From path and first bytes to whether a file is one.
    open : callable
        From path and budget, and the key in between where `keyed`, to the scene.
    keyed : bool
        Whether a file can hold several arrays, one of which is named after a colon.
    plain : bool
        Whether it is opened and read in the main process.
    whole_folder : bool
        Whether its parts have names of their own in its folder.
    """

    fits: Callable[[Path, bytes], bool]
    open: Callable[..., Opened]
    keyed: bool = False
    plain: bool = False
    whole_folder: bool = False


def _begins(*magic: bytes) -> Callable[[Path, bytes], bool]:
    return lambda _, head: head.startswith(magic)


def _is_hdf5(_: Path, head: bytes) -> bool:
    # The signature stands at byte 0, or at 512 after the text header of MATLAB 7.3.
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


# Layouts of HDF5 files, the most particular first; they are told apart in the open file.
_HDF5_LAYOUTS: tuple[
    tuple[Callable[[Hdf5File], bool], Callable[[Hdf5File, str | None], Opened]], ...
] = (
    (is_prisma, open_prisma),
    (is_emit, open_emit),
    (is_tanager, open_tanager),
    (is_matlab73, open_matlab73),
    (lambda _: True, open_hdf),
)


def _open_hdf5(path: Path, key: str | None, budget: int) -> Opened:
    with open_listed(path, budget) as opened:
        opener = next(opener for fits, opener in _HDF5_LAYOUTS if fits(opened))
        return opener(opened, key)


# The content decides, from the most particular kind to the most general; a wrong suffix does not.
_KINDS = (
    Kind(lambda path, _: is_zarr(path), open_zarr, keyed=True),
    Kind(lambda path, _: find_dlr(path) is not None, open_dlr, whole_folder=True),
    Kind(_begins(*TIFF_MAGIC, *JP2_MAGIC), open_image),
    Kind(_begins(b"\x93NUMPY"), open_npy, plain=True),
    Kind(_is_hdf5, _open_hdf5, keyed=True),
    Kind(lambda _, head: b"<VRTDataset" in head, open_vrt, whole_folder=True),
    Kind(
        lambda path, head: head.startswith(b"MATLAB 5.0") or path.suffix.lower() == ".mat",
        open_matlab5,
        keyed=True,
    ),
    Kind(lambda path, _: bool(split_files(path)), open_folder),
    # Last, since it goes by the neighbor alone: "s.hdr" also stands beside "s.mat".
    Kind(lambda path, _: bool(path.name) and find_envi(path) is not None, open_envi, plain=True),
)
_NOT_READ = {
    b"CDF": "NetCDF classic is not read, expected NetCDF-4; convert it with nccopy -k nc4",
    b"PK\x03\x04": "a zip or .npz archive is not read; unpack it and open the scene inside",
}


_MOST_BESIDE = 1000  # files that have the name of a scene in common with it
_SECONDS = 15  # of the processor that opening may take, more for large files and many of them
_STORED_PER_SECOND = 10**7
_BYTES_PER_SECOND = 10**6  # of a window, decoded at the slowest


def open_source(path: Path, key: str | None, budget: int) -> Opened:
    """Open the file or folder at ``path``, of whatever kind it is."""
    path = path if path.name else path.resolve()  # the folder that "." stands for has a name
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the header cannot be read", remedy):
        kind = kind_of(path)
        if kind.plain:
            return _open(kind, path, key, budget)
        folder = [path.parent] if kind.whole_folder and not path.is_dir() else []
        return _confined(Confined(path, (path,), key, budget, (*companions(path), *folder)))


def _open(kind: Kind, path: Path, key: str | None, budget: int) -> Opened:
    if kind.keyed:
        return kind.open(path, key, budget)
    if key is not None:
        raise SceneError(
            f"{path}: this kind of file holds one image and takes no key, got ':{key}'; drop it"
        )
    return kind.open(path, budget)


def open_files(files: Sequence[Path], budget: int) -> Opened:
    """Open a list of files, one for each band."""
    if not files:
        raise SceneError("expected a list of files, one for each band, got none; name the files")
    remedy = "a file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{files[0]}: the bands cannot be read", remedy):
        guards.check_count(files[0], len(files), MOST_FILES, "files of bands")
        beside = tuple(itertools.chain.from_iterable(map(companions, files)))
        return _confined(Confined(files[0], tuple(files), None, budget, beside))


def open_address(address: str, budget: int) -> Opened:
    """Open the GeoTIFF at an ``https://`` address."""
    with told_as(SceneError, f"{address}: the header cannot be read", "download the file"):
        return _confined(Confined(address, (), None, budget, ()))


def companions(path: Path) -> tuple[Path, ...]:
    """Return a file and those beside it that share its name; a folder stands for all in it."""
    if path.is_dir():
        return (path,)
    stem, folder = path.name.partition(".")[0].lower(), path.parent.resolve()
    named = (p for p in path.parent.iterdir() if p.name.lower().startswith(stem) and p != path)
    inside = (p for p in named if p.is_file() and p.resolve().parent == folder)
    return (path, *itertools.islice(inside, _MOST_BESIDE))


@dataclass(frozen=True)
class Confined:
    """A scene that a confined process opens.

    Parameters
    ----------
    path : Path or str
        For messages; an address is a str.
    parts : tuple of Path
        The file or folder, or a file for each band; of an address none.
    key : str, optional
    budget : int
    files : tuple of Path
        All that the process may read.
    """

    path: Path | str
    parts: tuple[Path, ...]
    key: str | None
    budget: int
    files: tuple[Path, ...]

    def ask(self, function: str, *arguments: object, limits: sandbox.Limits) -> Any:
        """Call a function of this module with the scene in front of its arguments."""
        name = f"{__name__}:{function}"
        about = (self, _identity(self.parts))
        return sandbox.run(
            name, *about, *arguments, name=self.path, limits=limits, files=self.files,
            network=isinstance(self.path, str),
        )  # fmt: skip


@dataclass(frozen=True)
class ConfinedSource:
    """Pixels that a confined process decodes."""

    scene: Confined
    path: Path | str
    shape: tuple[int, int, int]
    dtype: np.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        shape = (rows.stop - rows.start, cols.stop - cols.start, len(bands))
        size = math.prod(shape) * max(self.dtype.itemsize, 4)
        limits = sandbox.Limits(self.scene.budget + 3 * size, 60 + size // _BYTES_PER_SECOND)
        window = self.scene.ask("read_window", rows, cols, bands, limits=limits)
        if not isinstance(window, np.ndarray) or window.shape != shape:
            raise ValueError("the window has another shape than the scene")
        return window


def _confined(scene: Confined) -> Opened:
    listed = sum(1 for folder in scene.files[-1:] if folder.is_dir() for _ in folder.iterdir())
    stored = sum(path.stat().st_size for path in scene.parts)
    seconds = _SECONDS + stored // _STORED_PER_SECOND + (len(scene.parts) + listed) // 20
    limits = sandbox.Limits(scene.budget, seconds)
    path, shape, dtype, description = scene.ask("describe", limits=limits)
    return Opened(ConfinedSource(scene, path, shape, dtype), description)


def _identity(parts: Sequence[Path]) -> list[list[int]]:
    """Return what changes when a file does: the process keeps files open."""
    about = [path.stat() for path in parts]
    return [[status.st_ino, status.st_size, status.st_mtime_ns] for status in about]


def describe(
    scene: Confined, identity: list[list[int]]
) -> tuple[Path | str, tuple[int, int, int], np.dtype, dict[str, object]]:
    """Return file, shape, element type and description of a scene (in the confined process)."""
    opened = _opened(scene, str(identity))
    source = opened.source
    return source.path, source.shape, source.dtype, opened.description


def read_window(
    scene: Confined, identity: list[list[int]], rows: slice, cols: slice, bands: NDArray[np.intp]
) -> Array:
    """Return one window of a scene (in the confined process)."""
    return _opened(scene, str(identity)).source.read(rows, cols, bands)


@functools.lru_cache(maxsize=2)
def _opened(scene: Confined, _identity: str) -> Opened:
    if isinstance(scene.path, str):
        remote = sandbox.load("polyad.scene.read.formats.remote")  # urllib and TLS: only when asked
        opened: Opened = remote.open_remote(scene.path, scene.budget)
        return opened
    if len(scene.parts) > 1:
        return open_bands(scene.path, scene.parts, scene.budget)
    return _open(kind_of(scene.path), scene.path, scene.key, scene.budget)


def kind_of(path: Path) -> Kind:
    """Return the kind of a file, by its content; raise `SceneError` if it is of none."""
    head = b""
    if not path.is_dir():
        guards.existing_file(path)
        with open_regular(path) as file:
            head = file.read(1024)
    for kind in _KINDS:
        if kind.fits(path, head):
            return kind
    for magic, why in _NOT_READ.items():
        if head.startswith(magic):
            raise SceneError(f"{path}: {why}")
    if vector_kind(path) is not None:
        raise SceneError(
            f"{path}: holds points, lines or polygons, expected a scene; give it as labels, as in "
            f"polyad train scene.tif {path.name}"
        )
    raise SceneError(
        f"{path}: unsupported file format, expected ENVI (with its .hdr), GeoTIFF, JPEG 2000, "
        "MATLAB, NetCDF-4, HDF5, .npy, Zarr, a folder of single-band TIFFs, or an EMIT, PRISMA, "
        "EnMAP, DESIS or Tanager product; convert it to one of these"
    )
