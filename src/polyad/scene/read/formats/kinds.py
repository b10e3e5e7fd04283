"""Scene files of every kind: the content decides which reader opens them, and where.

ENVI and ``.npy`` are a short text in front of raw numbers and are read here. All other kinds are
parsed and decoded by libraries in a confined process (`polyad.sandbox`): what comes back are a
description and windows of pixels.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError, told_as
from polyad.safe_open import check_regular, open_regular
from polyad.scene.files.paths import JP2_MAGIC, TIFF_MAGIC
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats.opening import MOST_FILES, Opened


def load(name: str) -> Any:
    """Return what ``"module:function"`` names in this folder: a format is imported when met."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"{__package__}.{module}"), function)


class Kind(NamedTuple):
    """A kind of scene files.

    Attributes
    ----------
    fits : callable
        From path and first bytes to whether a file is one.
    open : str
        ``"module:function"`` from path and budget, and the key in between where `keyed`, to the
        scene.
    keyed : bool
        Whether a file can hold several arrays, one of which is named after a colon.
    plain : bool
        Whether it is opened and read in the main process.
    whole_folder : bool
        Whether its parts have names of their own in its folder.
    """

    fits: Callable[[Path, bytes], bool]
    open: str
    keyed: bool = False
    plain: bool = False
    whole_folder: bool = False


def _begins(*magic: bytes) -> Callable[[Path, bytes], bool]:
    return lambda _, head: head.startswith(magic)


def _is_hdf5(_: Path, head: bytes) -> bool:
    # The signature stands at byte 0, or at 512 after the text header of MATLAB 7.3.
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def _is_dlr(path: Path, _: bytes) -> bool:
    named = path.is_dir() or re.search("METADATA|SPECTRAL_IMAGE", path.name, re.I)
    return bool(named) and load("dlr:find_dlr")(path) is not None


# The content decides, from the most particular kind to the most general; a wrong suffix does not.
KINDS = (
    Kind(lambda path, _: path.is_dir() and load("store:is_zarr")(path), "store:open_zarr", True),
    Kind(_is_dlr, "dlr:open_dlr", whole_folder=True),
    Kind(_begins(*TIFF_MAGIC, *JP2_MAGIC), "rasters:open_image"),
    Kind(_begins(b"\x93NUMPY"), "raw:open_npy", plain=True),
    Kind(_is_hdf5, "confined:open_hdf5", keyed=True),
    Kind(lambda _, head: b"<VRTDataset" in head, "rasters:open_vrt", whole_folder=True),
    Kind(
        lambda path, head: head.startswith(b"MATLAB 5.0") or path.suffix.lower() == ".mat",
        "matlab:open_matlab5",
        keyed=True,
    ),
    Kind(
        lambda path, _: path.is_dir() and bool(load("rasters:split_files")(path)),
        "rasters:open_folder",
    ),
    # Last, since it goes by the neighbor alone: "s.hdr" also stands beside "s.mat".
    Kind(
        lambda path, _: bool(path.name) and load("envi:find_envi")(path) is not None,
        "envi:open_envi",
        plain=True,
    ),
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
            return open_kind(kind, path, key, budget)
        folder = [path.parent] if kind.whole_folder and not path.is_dir() else []
        return _confined(Confined(path, (path,), key, budget, (*companions(path), *folder)))


def open_kind(kind: Kind, path: Path, key: str | None, budget: int) -> Opened:
    """Open a file in this process, which ought to be a confined one unless the kind is plain."""
    if key is not None and not kind.keyed:
        raise SceneError(
            f"{path}: this kind of file holds one image and takes no key, got ':{key}'; drop it"
        )
    arguments = (path, key, budget) if kind.keyed else (path, budget)
    opened: Opened = load(kind.open)(*arguments)
    return opened


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

    def ask(self, function: str, *arguments: object, memory: int, seconds: int) -> Any:
        """Call a function of `confined` with the scene in front of its arguments."""
        from polyad import sandbox  # not for plain files

        limits = sandbox.Limits(memory, seconds)
        name = f"{__package__}.confined:{function}"
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
        memory, seconds = self.scene.budget + 3 * size, 60 + size // _BYTES_PER_SECOND
        window = self.scene.ask("read_window", rows, cols, bands, memory=memory, seconds=seconds)
        if not isinstance(window, np.ndarray) or window.shape != shape:
            raise ValueError("the window has another shape than the scene")
        return window


def _confined(scene: Confined) -> Opened:
    listed = sum(1 for folder in scene.files[-1:] if folder.is_dir() for _ in folder.iterdir())
    stored = sum(path.stat().st_size for path in scene.parts)
    seconds = _SECONDS + stored // _STORED_PER_SECOND + (len(scene.parts) + listed) // 20
    about = scene.ask("describe", memory=scene.budget, seconds=seconds)
    path, shape, dtype, description = about
    return Opened(ConfinedSource(scene, path, shape, dtype), description)


def _identity(parts: Sequence[Path]) -> list[list[int]]:
    """Return what changes when a file does: the process keeps files open."""
    about = [path.stat() for path in parts]
    return [[status.st_ino, status.st_size, status.st_mtime_ns] for status in about]


_VECTORS = {".gpkg": "GeoPackage", ".shp": "Shapefile", ".fgb": "FlatGeobuf", ".kml": "KML"}
_TEXTS = dict.fromkeys((".csv", ".tsv", ".txt"), "CSV") | dict.fromkeys(
    (".geojson", ".json"), "GeoJSON"
)


def feature_format(path: Path) -> str | None:
    """Return the format of a file of features, by ending or content; None if it is none."""
    return _TEXTS.get(path.suffix.lower()) or vector_kind(path)


def vector_kind(path: Path) -> str | None:
    """Return which kind of vector file this is by its content; None if it is none of them.

    Raises
    ------
    SceneError
        Its ending promises one of them and its content is another.
    """
    if path.is_dir() or not path.exists():
        return None
    check_regular(path)
    with open_regular(path) as file:
        head = file.read(4096)
    kind = _by_content(head)
    if kind == "Shapefile" and path.suffix.lower() == ".shx":
        raise SceneError(f"{path}: is the index of a Shapefile; name the .shp beside it")
    promised = _VECTORS.get(path.suffix.lower())
    if path.suffix.lower() == ".kmz":
        raise SceneError(f"{path}: is a zipped KML; unzip it and name the .kml in it")
    if promised is not None and kind != promised:
        raise SceneError(
            f"{path}: expected a {promised} by its ending, its content is "
            f"{'none' if kind is None else f'a {kind}'}; it is damaged or has the wrong ending"
        )
    return kind


def _by_content(head: bytes) -> str | None:
    if head.startswith(b"SQLite format 3\0"):
        return "GeoPackage"
    if head.startswith(b"fgb\x03fgb"):
        return "FlatGeobuf"
    if head[:4] == b"\0\0\x27\x0a" and head[28:32] == b"\xe8\x03\0\0":  # code 9994, version 1000
        return "Shapefile"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return "KML" if text.startswith((b"<?xml", b"<kml")) and b"<kml" in head else None


def kind_of(path: Path) -> Kind:
    """Return the kind of a file, by its content; raise `SceneError` if it is of none."""
    head = b""
    if not path.is_dir():
        guards.existing_file(path)
        with open_regular(path) as file:
            head = file.read(1024)
    for kind in KINDS:
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
