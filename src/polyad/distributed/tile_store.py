"""Finished tiles, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder. In it each scene has a folder of its own, named after its output
and the digest of all that decides the map, with one file per tile: a line of JSON with checksums,
then the tile's numbers. A file is written under another name and renamed, so it is whole or not
there; what a power cut takes of it, the checksums tell, and nothing has to wait for the disk. The
file ``lock`` keeps other processes out; a killed process leaves it behind, unlocked.
"""

from __future__ import annotations

import errno
import os
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.durable import Entry, InUse, LockFile, seal, unseal
from polyad.errors import OutputError, PolyadError, PolyadWarning
from polyad.safe_open import open_regular
from polyad.scene.map.mapping import MapPlan
from polyad.scene.raster.classes import class_dtype

Array = npt.NDArray[Any]
WRITTEN = "written"  # the file that says that the map of a scene is whole
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TileFolder:
    """The folder of finished tiles, for one process at a time; made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(exist_ok=True)
            self._lock = LockFile(path / "lock", wait=False)
        except InUse as error:
            raise OutputError(
                f"{path} is in use: another process is making the same map; wait for it, or choose "
                "another output"
            ) from error
        except OSError as error:
            raise _unusable(path, error) from error

    def close(self, *, remove: bool) -> None:
        """Let other processes in; remove the folder if nothing else is in it."""
        if not remove:
            self._lock.close()
            return
        self._lock.remove()
        with suppress(OSError):  # tiles of another command, or somebody else's files
            self.path.rmdir()


class TileStore:
    """The finished tiles of one scene; those of the same output under another digest are removed.

    Parameters
    ----------
    folder : Path
    plan : MapPlan
    digest : str
        Of all that decides the map, 16 hexadecimal digits.

    Attributes
    ----------
    finished : dict of int to int
        The tiles that are done, with the number of corrupt pixels that were replaced in each.
    shares : set of int or None
        Checksums of the propagated labels that these tiles were made with.
    written : dict or None
        The numbers of ``mapped`` and ``replaced`` pixels, once the map is written.
    """

    def __init__(self, folder: Path, plan: MapPlan, digest: str) -> None:
        self.plan, self.dtype = plan, np.dtype(class_dtype(plan.model.classes))
        self.folder = folder / f"{plan.path.name}.{digest}"
        for other in folder.glob(f"{escape(plan.path.name)}.{'[0-9a-f]' * 16}"):
            if other != self.folder:
                _remove(other)
        try:
            self.folder.mkdir(exist_ok=True)
            if self.folder.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        except OSError as error:
            raise _unusable(self.folder, error) from error
        self.finished: dict[int, int] = {}
        self.shares: set[int | None] = set()
        damaged = []
        for number in range(len(plan.tiles)):
            if (self.folder / f"{number}.tile").exists():
                try:
                    entry, _ = self._read(number)
                    self.finished[number] = int(entry["replaced"])
                    self.shares.add(entry["shares"])
                except (OSError, PolyadError, ValueError, LookupError, TypeError):
                    damaged.append(number)
        if damaged:
            warnings.warn(
                f"{len(damaged)} tiles kept in {self.folder} are damaged and will be mapped again",
                PolyadWarning,
                stacklevel=2,
            )
        self.written: Mapping[str, int] | None = None
        with suppress(OSError, ValueError):
            self.written = unseal((self.folder / WRITTEN).read_bytes().rstrip(b"\n"))

    def put(
        self, number: int, ids: Array, numbers: Array | None, replaced: int, shares: int | None
    ) -> None:
        """Keep one tile."""
        data = np.ascontiguousarray(ids, self.dtype).tobytes()
        if numbers is not None and self.plan.depth:
            data = np.ascontiguousarray(numbers, np.float32).tobytes() + data
        head = seal({"replaced": replaced, "shares": shares, "crc": zlib.crc32(data)})
        self._write(f"{number}.tile", head + data)
        self.finished[number] = replaced

    def get(self, number: int) -> tuple[Array, Array | None]:
        """Return ids ``(h, w)`` and numbers ``(h, w, depth)`` of one tile."""
        (height, width), (_, data) = self.plan.tiles[number].shape, self._read(number)
        numbers = np.frombuffer(data, np.float32, height * width * self.plan.depth)
        ids = np.frombuffer(data, self.dtype, offset=numbers.nbytes).reshape(height, width)
        return ids, numbers.reshape(height, width, -1) if self.plan.depth else None

    def write_map(self) -> int:
        """Write the map of the finished tiles, which are then removed; return its mapped pixels."""
        tiles = ((tile, *self.get(number)) for number, tile in enumerate(self.plan.tiles))
        mapped = self.plan.write(tiles)
        about = {"mapped": mapped, "replaced": sum(self.finished.values())}
        self._write(WRITTEN, seal(about))
        self.forget()
        return mapped

    def forget(self) -> None:
        """Remove all tiles."""
        self.finished.clear()
        for path in self.folder.glob("*.tile"):
            path.unlink()

    def remove(self) -> None:
        """Remove the tiles and their folder."""
        _remove(self.folder)

    def _read(self, number: int) -> tuple[Entry, bytes]:
        """Return the entry and the bytes of a tile; raise ValueError if they are damaged."""
        with open_regular(self.folder / f"{number}.tile") as file:
            entry = unseal(file.readline(1000).rstrip(b"\n"))
            height, width = self.plan.tiles[number].shape
            size = height * width * (self.dtype.itemsize + 4 * self.plan.depth)
            data = file.read(size + 1)
        if len(data) != size or zlib.crc32(data) != entry["crc"]:
            raise ValueError("its checksum is that of another tile")
        return entry, data

    def _write(self, name: str, content: bytes) -> None:
        """Write a file whole, or not at all."""
        path, part = self.folder / name, self.folder / f"{name}.part"
        try:
            part.unlink(missing_ok=True)
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _remove(folder: Path) -> None:
    """Remove a scene's folder, without what somebody else put there."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name == WRITTEN or path.suffix in (".tile", ".part"):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _unusable(path: Path, error: OSError) -> OSError | OutputError:
    if error.errno in FULL:
        return error
    return OutputError(
        f"cannot keep finished tiles in {path}: {error.strerror}; move it away, or choose another "
        "output"
    )
