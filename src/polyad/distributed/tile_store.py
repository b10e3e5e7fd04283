"""Finished tiles, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder. In it each scene has a folder of its own, named after its output
and the digest of all that decides the map, with one file per tile: a seal, a line of JSON, the
tile's numbers. The seal is a checksum that needs a random key in the user's cache folder. So tiles
that came along with a scene, or that a power cut damaged, are not believed. A file is written under
another name and renamed, so it is whole or not there, and nothing has to wait for the disk. The
file ``lock`` keeps other processes out; a killed process leaves it behind, unlocked.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import secrets
import warnings
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.atomic import replacing
from polyad.durable import Entry, InUse, LockFile, locked
from polyad.errors import OutputError, PolyadError, PolyadWarning
from polyad.safe_open import open_regular
from polyad.scene.map.mapping import MapPlan
from polyad.scene.map.tile_mapper import cache_folder
from polyad.scene.raster.classes import class_dtype

Array = npt.NDArray[Any]
WRITTEN = "written"  # the file that says that the map of a scene is whole
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SEAL = 32  # bytes of a seal and of the key
_HEAD = 1000  # bytes of a line of JSON at most


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
        self._key = user_key()
        self.finished: dict[int, int] = {}
        self.shares: set[int | None] = set()
        damaged = 0
        for number in range(len(plan.tiles)):
            if (self.folder / f"{number}.tile").exists():
                try:
                    entry, _ = self._read(number)
                except (OSError, PolyadError, ValueError):
                    damaged += 1
                else:
                    self.finished[number] = entry["replaced"]
                    self.shares.add(entry["shares"])
        if damaged:
            warnings.warn(
                f"{damaged} tiles kept in {self.folder} are damaged, or not of this user, and will "
                "be mapped again",
                PolyadWarning,
                stacklevel=2,
            )
        self.written: Mapping[str, int] | None = None
        with suppress(OSError, PolyadError, ValueError):
            self.written = self._open(WRITTEN, 0)[0]

    def put(
        self, number: int, ids: Array, numbers: Array | None, replaced: int, shares: int | None
    ) -> None:
        """Keep one tile."""
        data = np.ascontiguousarray(ids, self.dtype).tobytes()
        if numbers is not None and self.plan.depth:
            data = np.ascontiguousarray(numbers, np.float32).tobytes() + data
        self._write(f"{number}.tile", {"replaced": replaced, "shares": shares}, data)
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
        self._write(WRITTEN, about)
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
        height, width = self.plan.tiles[number].shape
        size = height * width * (self.dtype.itemsize + 4 * self.plan.depth)
        return self._open(f"{number}.tile", size)

    def _open(self, name: str, size: int) -> tuple[Entry, bytes]:
        """Return the entry and the bytes of a file; raise ValueError if it is not as written."""
        with open_regular(self.folder / name) as file:
            seal, content = file.read(_SEAL), file.read(_HEAD + size)
        if not hmac.compare_digest(seal, self._seal(name, content)):
            raise ValueError("its seal is that of another file")
        head, _, data = content.partition(b"\n")
        entry: Entry = json.loads(head)
        return entry, data

    def _seal(self, name: str, content: bytes) -> bytes:
        place = f"{self.folder.name}/{name}\n".encode()
        return hmac.digest(self._key, place + content, "sha256")

    def _write(self, name: str, entry: Mapping[str, object], data: bytes = b"") -> None:
        """Write a file whole, or not at all."""
        path, part = self.folder / name, self.folder / f"{name}.part"
        content = json.dumps(entry).encode() + b"\n" + data
        try:
            part.unlink(missing_ok=True)
            part.write_bytes(self._seal(name, content) + content)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def user_key() -> bytes:
    """Return the random key of this user's seals; a new one where it cannot be kept."""
    path = cache_folder().with_name("tiles.key")
    with suppress(OSError, OutputError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path.with_suffix(".lock")):
            if not path.exists() or path.stat().st_size != _SEAL:
                with replacing(path) as temporary:
                    temporary.chmod(0o600)
                    temporary.write_bytes(secrets.token_bytes(_SEAL))
            return path.read_bytes()
    return secrets.token_bytes(_SEAL)


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
