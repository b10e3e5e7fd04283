"""GeoTIFFs at an ``https://`` address, read by parts, and only when the user asks for it.

The confined process that reads one may use the network. GDAL itself does not: its own reader of
addresses follows redirects to any of HTTP and FTP. It gets bytes from `RemoteFile`, which asks one
address for ranges of one file. A redirect may lead to another ``https://`` address and to nothing
else; a server that does not send parts of a file is refused, since the whole may be gigabytes.
"""

from __future__ import annotations

import functools
import io
import re
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.errors import RasterioError
from rasterio.windows import Window

from polyad.errors import SceneError, reason
from polyad.scene.files.paths import TIFF_MAGIC
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats.opening import Opened, gdal_alone
from polyad.scene.read.formats.rasters import band_facts_of, check_raster, columns
from polyad.scene.read.formats.sidecars import own_georeference

SCHEMES = ("https",)
_BLOCK = 256 * 2**10  # bytes, the smallest part that is asked for
_KEPT = 256  # blocks, 64 MiB
_SECONDS = 60
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_NAME = "scene.tif"


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


class RemoteFile(io.RawIOBase):
    """A file at an address, for reading; the blocks asked for last are kept.

    Attributes
    ----------
    address : str
    size : int
        Of the file, in bytes.
    trouble : Exception, optional
        What went wrong: GDAL could not pass it on.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.size, self._place = address, 0, 0
        self.trouble: Exception | None = None
        self._director = _director()
        self._block = functools.lru_cache(_KEPT)(
            lambda k: self._fetch(k * _BLOCK, (k + 1) * _BLOCK)
        )
        self._block(0)

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: `seek` works."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` from the place last sought; with nothing once there was trouble."""
        view = memoryview(buffer).cast("B")
        try:
            content = b"" if self.trouble else self._bytes(self._place, len(view))
        except (OSError, HTTPException, ValueError) as error:
            self.trouble, content = error, b""
        view[: len(content)] = content
        self._place += len(content)
        return len(content)

    def _bytes(self, start: int, length: int) -> bytes:
        stop = min(start + length, self.size)
        if start >= stop:
            return b""
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        if last > first + 1:
            return self._fetch(start, stop)
        blocks = b"".join(map(self._block, range(first, last + 1)))
        return blocks[start - first * _BLOCK : stop - first * _BLOCK]

    def _fetch(self, start: int, stop: int) -> bytes:
        """Return the bytes of a range, fewer at the end of the file."""
        asked = request.Request(self.address, headers={"Range": f"bytes={start}-{stop - 1}"})
        try:
            answer = self._director.open(asked, timeout=_SECONDS)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise OSError(f"the server answers {error.code}, {error.reason}") from error
        except URLError as error:
            raise OSError(f"the server does not answer: {error.reason}") from error
        with answer:
            sent = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
            if answer.status != 206 or sent is None:
                raise OSError("the server does not send parts of a file")
            whole = int(sent[3])
            end = min(stop, whole)
            if (int(sent[1]), int(sent[2])) != (start, end - 1) or whole != (self.size or whole):
                raise OSError("the server sent another part than was asked for")
            content: bytes = answer.read(end - start + 1)
        if len(content) != end - start:
            raise OSError("the server sent fewer or more bytes than it said")
        self.size = whole
        return content


@dataclass(frozen=True)
class RemoteSource:
    """Pixels of a GeoTIFF at an address."""

    path: str
    shape: tuple[int, int, int]
    dtype: np.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        file, dataset = _opened(self.path)
        file.trouble = None
        try:
            pixels = dataset.read(
                [int(b) + 1 for b in bands], window=Window.from_slices(rows, cols)
            )
        except RasterioError as error:
            raise OSError(reason(file.trouble or error)) from error
        return np.moveaxis(pixels, 0, -1)  # from (band, y, x)


@functools.lru_cache(maxsize=1)
def _opened(address: str) -> tuple[RemoteFile, Any]:
    """Return the file at an address, and it as a raster of GDAL."""
    try:
        file = RemoteFile(address)
        head = file.read(16)
    except (OSError, HTTPException, ValueError) as error:
        raise SceneError(
            f"{address}: cannot be read ({reason(error)}); check the address, or download the file"
        ) from error
    if not head.startswith(TIFF_MAGIC):
        raise SceneError(
            f"{address}: expected a GeoTIFF, best a cloud-optimized one, got another kind of file; "
            "download it"
        )

    def opener(path: str, mode: str = "rb") -> RemoteFile:
        if not (path.endswith(_NAME) and mode.startswith("r")):
            raise FileNotFoundError(path)
        file.seek(0)
        return file

    try:
        with gdal_alone():
            return file, rasterio.open(_NAME, driver="GTiff", opener=opener)
    except RasterioError as error:
        raise SceneError(
            f"{address}: expected a GeoTIFF; GDAL failed ({reason(file.trouble or error)}); "
            "try again, or download it"
        ) from error


def open_remote(address: str, budget: int) -> Opened:
    """Open the GeoTIFF at an ``https://`` address; windows are fetched when they are read."""
    _opened.cache_clear()
    file, dataset = _opened(address)
    with gdal_alone():
        source = RemoteSource(address, *check_raster(address, dataset, file.size, budget))
        place = own_georeference(address, dataset)
        return Opened.of(source, **columns(band_facts_of(dataset)), nodata=dataset.nodata, **place)
