"""Which files a scene may open, and with what: the file that was named, and those beside it.

* Only regular files are opened (`polyad.safe_open`).
* A file that is reached through another one (the pixels of an ENVI header, the ``.aux.xml`` of a
  raster) lies in the same folder: a link that leads elsewhere could show any file of the machine.
  The file that the user names may be a link itself.
* GDAL gets an absolute path, one driver and no list of neighbors: a name such as
  ``GTIFF_DIR:1:x.tif`` is a name, and what lies beside a raster is read by `sidecars` alone.
"""

from __future__ import annotations

import functools
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import MemoryFile
from rasterio.session import DummySession

from polyad.errors import SceneError, reason
from polyad.safe_open import check_regular
from polyad.scene.raster.sources import PixelSource

MOST_FILES = 10_000  # bands of a scene, or parts of a VRT


@dataclass(frozen=True)
class Opened:
    """A scene as a reader returns it.

    Attributes
    ----------
    source : PixelSource
    description : dict
        What `polyad.scene.raster.scene.describe` takes: wavelengths, georeference, nodata.
    """

    source: PixelSource
    description: dict[str, Any]

    @classmethod
    def of(cls, source: PixelSource, **description: Any) -> Opened:
        """Return a scene from its source and description."""
        return cls(source, description)


# GDAL's own switches; the first hides neighbors, the second keeps .aux.xml files unread.
_GDAL = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO",
         "GDAL_VRT_ENABLE_PYTHON": "NO"}  # fmt: skip


def check_beside(named: Path, path: Path) -> Path:
    """Return ``path`` if it is a regular file in the folder of ``named``, links followed.

    Parameters
    ----------
    named : Path
        The file or folder that the user gave; where it leads to is its folder too.
    path : Path
        An existing file that belongs to it.

    Raises
    ------
    SceneError
        It is a link out of that folder, or no regular file.
    """
    where = named.resolve()
    folders = {where} if named.is_dir() else {where.parent, named.parent.resolve()}
    if path != named and path.resolve().parent not in folders:
        raise SceneError(
            f"{path}: is a link that leads out of the folder of {named.name}, expected the file "
            "itself beside it; copy it there"
        )
    check_regular(path)
    return path


@contextmanager
def open_raster(path: Path, driver: str) -> Iterator[Any]:
    """Open ``path`` with one GDAL driver and no other, and nothing beside it."""
    name = plain_name(path)
    with gdal_alone(), _opened(path, driver, lambda: rasterio.open(name, driver=driver)) as raster:
        yield raster


@contextmanager
def kept_raster(path: Path, driver: str) -> Iterator[Any]:
    """Open ``path`` as `open_raster` does, and keep it open: a VRT can have thousands of parts."""
    status = path.stat()
    with _one_at_a_time, gdal_alone():
        yield _kept(path, driver, (status.st_ino, status.st_size, status.st_mtime_ns))


_one_at_a_time = threading.Lock()


@functools.lru_cache(maxsize=16)
def _kept(path: Path, driver: str, _changed: tuple[int, ...]) -> Any:
    name = plain_name(path)
    return _opened(path, driver, lambda: rasterio.open(name, driver=driver))


@contextmanager
def open_content(path: Path, driver: str, files: Mapping[str, bytes]) -> Iterator[Any]:
    """Open the first of some files that lie in memory alone; ``path`` is named in messages."""
    folder = uuid.uuid4().hex
    with gdal_alone(GDAL_DISABLE_READDIR_ON_OPEN="TRUE"), ExitStack() as stack:
        first, *_ = [
            stack.enter_context(MemoryFile(content, dirname=folder, filename=name))
            for name, content in files.items()
        ]
        yield stack.enter_context(_opened(path, driver, lambda: first.open(driver=driver)))


@contextmanager
def gdal_alone(**options: str) -> Iterator[None]:
    """Hide neighboring files and the network from GDAL and PROJ, and send messages to logging."""
    with rasterio.Env(session=DummySession(), **(_GDAL | options)), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # such scenes are usual
        yield


def _opened(path: Path, driver: str, opener: Callable[[], Any]) -> Any:
    try:
        return opener()
    except (RasterioError, UnicodeError, ValueError) as error:
        raise SceneError(
            f"{path}: expected a {driver} raster, GDAL cannot read it as one ({reason(error)}); it "
            "is truncated, damaged or of another kind"
        ) from error


def plain_name(path: Path) -> Path:
    """Return an absolute name of a regular file, in which GDAL can see nothing but a file."""
    check_regular(path)
    name = path.absolute()
    if name.parts[1:] and name.parts[1].lower().startswith("vsi"):
        raise SceneError(
            f"{path}: GDAL takes a name that begins with /vsi for one of its own file systems; "
            "move the file to another folder"
        )
    return name
