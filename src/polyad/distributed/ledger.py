"""What is done, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder with two kinds of file:

- one *store* per scene: the raw ids of tile after tile, at places known beforehand;
- one *ledger*: a line of JSON and its checksum for each finished tile, with the checksum of the
  tile's bytes. A line is written after its bytes; a tile counts only if both checksums hold.

No order of events, no half-written line and no half-written tile can therefore pass for finished.
A ledger says in its first line what it is: no other file is written to, cut or removed, and no link
is followed.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from polyad.atomic import replacing
from polyad.errors import OutputError, PolyadWarning
from polyad.regular import open_own
from polyad.scene.formats import guards
from polyad.scene.tiles import Tile

Array = npt.NDArray[Any]
LEDGER = "ledger.jsonl"
BROKEN = ".broken"
LOCK = "lock"
_INFLATION = 30  # parsed lines take about this many times their size in memory


class BrokenLedgerWarning(PolyadWarning):
    """A line of a ledger, or a tile that it vouches for, is damaged; the tile is done again."""


class Ledger:
    """Append-only lines, each with its checksum; one process at a time.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / LEDGER
        try:
            self.folder.mkdir(exist_ok=True)
            self._guard = open_own(self.folder / LOCK, 0o666)
        except OSError as error:
            raise OutputError(
                f"cannot keep finished tiles in {self.folder}: {error.strerror}; choose another "
                "output or change the folder's permissions"
            ) from error
        self._file = -1
        try:
            self._lock()
            self._file = _open_lines(self.path)
            self.entries = self._load()
        except BaseException:
            self.close()
            raise

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add one line; it is either whole or recognised as broken."""
        write_all(self._file, _seal(entry))

    def close(self) -> None:
        """Let others in."""
        for file in (self._file, self._guard):
            if file >= 0:
                os.close(file)

    def remove(self) -> None:
        """Remove the folder, now that nothing is left to go on with.

        If it still has stores, they belong to scenes of another command, and it stays.
        """
        if any(self.folder.glob("*.ids")):
            return
        for name in (LEDGER + BROKEN, LEDGER):
            if _is_ours(self.folder / name):
                (self.folder / name).unlink()
        if not os.fstat(self._guard).st_size:
            (self.folder / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else put something there
            self.folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - Windows
            return
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(
                f"{self.folder} is in use: another process is making the same map; wait for it, "
                "or choose another output"
            ) from error

    def _load(self) -> list[dict[str, Any]]:
        size = os.fstat(self._file).st_size
        if size * _INFLATION > guards.memory_budget():
            raise OutputError(
                f"cannot go on with {self.path}: it is read at once, and its "
                f"{guards.human_bytes(size)} do not fit in half of this machine's memory; move it "
                "away to start anew"
            )
        lines = read_all(self._file, size, 0).split(b"\n")[1:]
        torn = lines.pop()  # what follows the last line end: nothing, or a line cut by a kill
        good, broken = [], []
        for number, line in enumerate(lines, start=2):
            entry = _parse(line)
            if entry is None:
                broken.append((number, line))
            else:
                good.append((entry, line))
        if broken:
            self._set_aside(broken)
        if broken or torn:
            with replacing(self.path) as part:
                part.write_bytes(HEADER + b"".join(line + b"\n" for _, line in good))
            os.close(self._file)
            self._file = -1
            self._file = _open_lines(self.path)
        return [entry for entry, _ in good]

    def _set_aside(self, broken: Sequence[tuple[int, bytes]]) -> None:
        aside = self.path.with_name(LEDGER + BROKEN)
        file = _open_lines(aside)
        try:
            write_all(file, b"".join(line + b"\n" for _, line in broken))
        finally:
            os.close(file)
        for number, _ in broken:
            warnings.warn(
                f"{self.path}, line {number} is damaged; it was set aside in {aside.name}, and "
                "its tile will be done again",
                BrokenLedgerWarning,
                stacklevel=5,
            )


class TileStore:
    """The values of finished tiles as raw bytes, each tile at its own place in one sparse file.

    Parameters
    ----------
    path : path-like
    tiles : sequence of Tile
    dtype : dtype
    depth : int, optional
        Values of each pixel; by default one, without an axis of its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tiles: Sequence[Tile],
        dtype: npt.DTypeLike,
        depth: int | None = None,
    ) -> None:
        self.path, self.tiles, self.dtype = Path(path), tiles, np.dtype(dtype)
        self.tail = () if depth is None else (depth,)
        pixel = self.dtype.itemsize * (depth or 1)
        ends = accumulate((h * w * pixel for h, w in (t.shape for t in tiles)), initial=0)
        self.offsets = list(ends)
        try:
            self._file = open_own(self.path, 0o666)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise OutputError(
                f"cannot keep finished tiles in {self.path}: {error.strerror}; move it away"
            ) from error

    @property
    def nbytes(self) -> int:
        """Bytes when all tiles are there."""
        return self.offsets[-1]

    def put(self, number: int, values: Array) -> int:
        """Write one tile; return the checksum of its bytes."""
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        if len(data) != self.offsets[number + 1] - self.offsets[number]:
            raise ValueError(f"tile {number} has {values.shape} values: this is a fault of polyad")
        write_all(self._file, data, self.offsets[number])
        return zlib.crc32(data)

    def checksum(self, number: int) -> int:
        """Return the checksum of a tile's bytes as they are on the disk."""
        return zlib.crc32(self._bytes(number))

    def get(self, number: int) -> Array:
        """Return one tile."""
        values = np.frombuffer(self._bytes(number), self.dtype)
        return values.reshape(*self.tiles[number].shape, *self.tail)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _bytes(self, number: int) -> bytes:
        start, stop = self.offsets[number], self.offsets[number + 1]
        return read_all(self._file, stop - start, start)


def write_all(file: int, data: bytes, position: int | None = None) -> None:
    """Write all of ``data``, at ``position`` or at the end; one call may take only a part."""
    left = memoryview(data)
    while left:
        count = os.write(file, left) if position is None else os.pwrite(file, left, position)
        position = None if position is None else position + count
        left = left[count:]


def read_all(file: int, size: int, position: int) -> bytes:
    """Read up to ``size`` bytes from ``position``; one call may give only a part."""
    parts = []
    while size and (part := os.pread(file, size, position)):
        parts.append(part)
        size, position = size - len(part), position + len(part)
    return b"".join(parts)


def _open_lines(path: Path) -> int:
    """Open a ledger to add lines; refuse any other file, untouched."""
    try:
        file = open_own(path, 0o666, os.O_APPEND)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutputError(
            f"cannot keep finished tiles in {path}: {error.strerror}; move it away, or choose "
            "another output"
        ) from error
    try:
        head = read_all(file, len(HEADER), 0)
        if not HEADER.startswith(head):
            raise OutputError(
                f"cannot keep finished tiles in {path}: wanted a ledger of polyad or no file, got "
                "something else, which would be lost; move it away, or choose another output"
            )
        if head != HEADER:  # new, or cut by a kill
            os.ftruncate(file, 0)
            write_all(file, HEADER)
    except BaseException:
        os.close(file)
        raise
    return file


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def _checksum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def _seal(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(entry, separators=(",", ":"))
    return f"{text} {_checksum(text.encode())}\n".encode()


HEADER = _seal({"polyad tiles": 1})


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, or None if it is not whole or not one of ours."""
    text, _, check = line.rpartition(b" ")
    if check.decode("ascii", "replace") != _checksum(text):
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("map"), str):
        return None
    whole = entry.get("written") is True or all(type(entry.get(k)) is int for k in ("tile", "crc"))
    return entry if whole else None
