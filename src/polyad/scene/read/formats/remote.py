"""GeoTIFFs at an ``https://`` address, read by parts, and only when the user asks for it.

GDAL has no network here: it gets bytes from `RemoteFile`, which asks one address for ranges of one
file. A redirect may lead to another ``https://`` address and to nothing else; a server that does
not send parts of a file is refused, since the whole may be many gigabytes.

Such a file is read in the main process, so its directories are checked first: GDAL reads every tag
whole when it opens a file, and a tag of half a gigabyte takes several.
"""

from __future__ import annotations

import functools
import io
import re
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.errors import RasterioError
from rasterio.windows import Window

from polyad.errors import SceneError, reason
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats.opening import Opened, gdal_alone
from polyad.scene.read.formats.rasters import TIFF_MAGIC, band_facts_of, check_raster, columns
from polyad.scene.read.formats.sidecars import own_georeference

SCHEMES = ("https",)
_BLOCK = 256 * 2**10  # bytes, the smallest part that is asked for
_KEPT = 256  # blocks, 64 MiB
_AT_ONCE = 64  # blocks in one request at most
_SECONDS = 60
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_NAME = "scene.tif"

MAX_DIRECTORIES = 1000  # an image, its masks and overviews are some twenty
MAX_TAGS = 1000
MAX_BYTES = 16 * 2**20  # of all tags of a directory
MAX_METADATA_BYTES = 8 * 2**20  # names of 65,535 classes need less
_METADATA = 42112  # GDAL's, XML
_BLOCK_TABLES = (273, 279, 324, 325)  # offsets and byte counts of strips and tiles
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4,
          16: 8, 17: 8, 18: 8}  # fmt: skip


def check_directories(path: Path | str, file: BinaryIO, budget: int) -> None:
    """Refuse a TIFF with tags larger than real ones are, or with endless directories."""
    mark = file.read(8)
    order = "<" if mark[:2] == b"II" else ">"
    big = mark[2:4] in (b"+\0", b"\0+")
    try:
        (start,) = struct.unpack(f"{order}Q", file.read(8)) if big else struct.unpack(
            f"{order}I", mark[4:]
        )  # fmt: skip
        seen: set[int] = set()
        while start and start not in seen:
            if len(seen) == MAX_DIRECTORIES:
                raise SceneError(
                    f"{path}: expected a TIFF of one image, got more than {MAX_DIRECTORIES}; "
                    "save the scene alone"
                )
            seen.add(start)
            start = _check_directory(path, file, start, order, big, budget)
    except struct.error:
        return  # truncated, which GDAL reports


def _check_directory(
    path: Path | str, file: BinaryIO, start: int, order: str, big: bool, budget: int
) -> int:
    """Check the tags of one directory and return where the next one starts."""
    count_form, entry_form, next_form = ("Q", "HHQ8x", "Q") if big else ("H", "HHI4x", "I")
    file.seek(min(start, 2**62))
    (count,) = struct.unpack(order + count_form, file.read(8 if big else 2))
    if count > MAX_TAGS:
        raise SceneError(
            f"{path}: expected at most {MAX_TAGS} tags in a TIFF, got {count}; it is damaged"
        )
    size = struct.calcsize(order + entry_form)
    entries = struct.iter_unpack(order + entry_form, _exactly(file, count * size))
    plain = tables = 0
    for tag, kind, number in entries:
        if tag in _BLOCK_TABLES:
            tables += 8 * number  # widened when read
            continue
        taken = number * _SIZES.get(kind, 8)
        plain += taken
        if plain > MAX_BYTES or (tag == _METADATA and taken > MAX_METADATA_BYTES):
            raise SceneError(
                f"{path}: expected at most {guards.human_bytes(MAX_METADATA_BYTES)} of metadata, "
                f"TIFF tag {tag} has {guards.human_bytes(taken)}; save the scene without it"
            )
    if tables > guards.HARMLESS_BYTES:
        guards.check_budget(path, tables, budget, "the table of a TIFF's blocks")
    (following,) = struct.unpack(order + next_form, file.read(8 if big else 4))
    return int(following)


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise struct.error("cut short")
    return content


class _Redirects(request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, *about: Any) -> Any:
        newurl = str(about[-1])
        if urlsplit(newurl).scheme not in SCHEMES:
            fp.close()
            raise OSError(f"it redirects to {newurl[:80]!r}, which is no https address")
        return super().redirect_request(req, fp, *about)


def _director() -> request.OpenerDirector:
    """Return what fetches addresses of `SCHEMES`, and neither files nor anything else."""
    director = request.OpenerDirector()
    known = {"https": request.HTTPSHandler, "http": request.HTTPHandler}
    for handler in (
        request.ProxyHandler, *(known[s] for s in SCHEMES), request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor, _Redirects,
    ):  # fmt: skip
        director.add_handler(handler())
    return director


class RemoteBlocks:
    """The blocks of one file at an address; those asked for last are kept.

    Attributes
    ----------
    address : str
    size : int
        Of the file, in bytes.
    """

    def __init__(self, address: str) -> None:
        if urlsplit(address).scheme.lower() not in SCHEMES or not urlsplit(address).hostname:
            raise SceneError(f"{address}: expected an https:// address of a GeoTIFF")
        self.address = address
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._director = _director()
        self.size = 0
        self.size = self._fetch(0, _BLOCK)[1]

    def read(self, start: int, length: int) -> bytes:
        """Return some bytes of the file, fewer at its end."""
        stop = min(start + length, self.size)
        if start >= stop:
            return b""
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        with self._lock:
            blocks = b"".join(self._blocks(first, last))
        return blocks[start - first * _BLOCK : stop - first * _BLOCK]

    def _blocks(self, first: int, last: int) -> Iterator[bytes]:
        place = first
        while place <= last:
            if place in self._kept:
                self._kept.move_to_end(place)
                yield self._kept[place]
                place += 1
                continue
            after = next((b for b in range(place, last + 1) if b in self._kept), last + 1)
            after = min(after, place + _AT_ONCE)
            content, _ = self._fetch(place * _BLOCK, min(after * _BLOCK, self.size))
            for block in range(place, after):
                self._kept[block] = content[(block - place) * _BLOCK :][:_BLOCK]
                yield self._kept[block]
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            place = after

    def _fetch(self, start: int, stop: int) -> tuple[bytes, int]:
        """Return the bytes of a range, and how many the whole file has."""
        asked = request.Request(self.address, headers={"Range": f"bytes={start}-{stop - 1}"})
        with _answered(self._director, asked) as answer:
            sent = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
            if answer.status != 206 or sent is None:
                raise OSError("the server does not send parts of a file")
            whole = int(sent[3])
            end = min(stop, whole)
            if (int(sent[1]), int(sent[2])) != (start, end - 1) or whole != (self.size or whole):
                raise OSError("the server sent another part than was asked for")
            content = answer.read(end - start + 1)
        if len(content) != end - start:
            raise OSError("the server sent fewer or more bytes than it said")
        return content, whole


def _answered(director: request.OpenerDirector, asked: request.Request) -> Any:
    """Return the answer to a request; what went wrong instead is an `OSError` in few words."""
    try:
        return director.open(asked, timeout=_SECONDS)
    except HTTPError as error:
        error.close()  # it holds the connection
        raise OSError(f"the server answers {error.code}, {error.reason}") from error
    except URLError as error:
        raise OSError(f"the server does not answer: {error.reason}") from error


@functools.lru_cache(maxsize=4)
def blocks_of(address: str) -> RemoteBlocks:
    """Return the blocks of an address, the same ones for every window of a process."""
    return RemoteBlocks(address)


class RemoteFile(io.RawIOBase):
    """A file at an address, for reading; trouble is kept, since GDAL could not pass it on."""

    def __init__(self, blocks: RemoteBlocks) -> None:
        super().__init__()
        self._blocks, self._place = blocks, 0
        self.trouble: Exception | None = None

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: `seek` works."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._blocks.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` from the place last sought; with nothing once there was trouble."""
        view = memoryview(buffer).cast("B")
        try:
            content = b"" if self.trouble else self._blocks.read(self._place, len(view))
        except (OSError, HTTPException, ValueError) as error:
            self.trouble, content = error, b""
        view[: len(content)] = content
        self._place += len(content)
        return len(content)


@contextmanager
def open_remote_tiff(address: str) -> Iterator[Any]:
    """Open the GeoTIFF at an address with GDAL, which reads it through `RemoteFile`."""
    file = RemoteFile(blocks_of(address))

    def opener(path: str, mode: str = "rb") -> RemoteFile:
        if not (path.endswith(_NAME) and mode.startswith("r")):
            raise FileNotFoundError(path)
        file.seek(0)
        return file

    try:
        with gdal_alone(), rasterio.open(_NAME, driver="GTiff", opener=opener) as dataset:
            yield dataset
    except RasterioError as error:
        raise SceneError(
            f"{address}: expected a GeoTIFF; GDAL failed ({reason(file.trouble or error)}); "
            "try again, or download it"
        ) from error
    if file.trouble is not None:
        raise SceneError(f"{address}: cannot be read ({reason(file.trouble)}); try again")


@dataclass(frozen=True)
class RemoteSource:
    """Pixels of a GeoTIFF at an address."""

    path: str
    shape: tuple[int, int, int]
    dtype: np.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        window = Window.from_slices(rows, cols)
        with open_remote_tiff(self.path) as dataset:
            pixels = dataset.read([int(b) + 1 for b in bands], window=window)  # (band, y, x)
        return np.moveaxis(pixels, 0, -1)


def open_remote(address: str, budget: int) -> Opened:
    """Open the GeoTIFF at an ``https://`` address; windows are fetched when they are read."""
    try:
        blocks = blocks_of(address)
        head = blocks.read(0, 16)
    except (OSError, HTTPException, ValueError) as error:
        raise SceneError(
            f"{address}: cannot be read ({reason(error)}); check the address, or download the file"
        ) from error
    if not head.startswith(TIFF_MAGIC):
        raise SceneError(
            f"{address}: expected a GeoTIFF, best a cloud-optimized one, got another kind of file; "
            "download it"
        )
    file = RemoteFile(blocks)
    check_directories(address, io.BufferedReader(file), budget)
    with open_remote_tiff(address) as dataset:
        return Opened.of(
            RemoteSource(address, *check_raster(address, dataset, blocks.size, budget)),
            **columns(band_facts_of(dataset)),
            nodata=dataset.nodata,
            **own_georeference(address, dataset),
        )
