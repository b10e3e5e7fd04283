"""What is done, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder with two kinds of file:

- one *store* per scene: the raw ids of tile after tile, at places known beforehand;
- one *ledger*: a line of JSON and its checksum for each finished tile, with the checksum of the
  tile's bytes. A line is written after its bytes; a tile counts only if both checksums hold.

No order of events, no half-written line and no half-written tile can therefore pass for finished.
"""

from __future__ import annotations

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
from polyad.scene.tiles import Tile

Array = npt.NDArray[Any]
LEDGER = "ledger.jsonl"
BROKEN = ".broken"
LOCK = "lock"


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
            self._guard = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise OutputError(
                f"cannot keep finished tiles in {self.folder}: {error.strerror}; choose another "
                "output or change the folder's permissions"
            ) from error
        try:
            self._lock()
            self.entries = self._load()
        except BaseException:
            self.close()
            raise

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add one line; it is either whole or recognised as broken."""
        text = json.dumps(entry, separators=(",", ":"))
        write_all(self._file, f"{text} {_checksum(text.encode())}\n".encode())

    def close(self) -> None:
        """Let others in."""
        os.close(self._file)
        os.close(self._guard)

    def remove(self) -> None:
        """Remove the folder, now that nothing is left to go on with.

        If it still has stores, they belong to scenes of another command, and it stays.
        """
        if any(self.folder.glob("*.ids")):
            return
        for name in (LEDGER + BROKEN, LEDGER, LOCK):
            (self.folder / name).unlink(missing_ok=True)
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
        text = self.path.read_bytes()
        lines = text.split(b"\n")
        torn = lines.pop()  # what follows the last line end: nothing, or a line cut by a kill
        good, broken = [], []
        for number, line in enumerate(lines, start=1):
            entry = _parse(line)
            if entry is None:
                broken.append((number, line))
            else:
                good.append((entry, line))
        if broken:
            self._set_aside(broken)
        if broken or torn:
            kept = b"".join(line + b"\n" for _, line in good)
            with replacing(self.path) as part:
                part.write_bytes(kept)
            os.close(self._file)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        return [entry for entry, _ in good]

    def _set_aside(self, broken: Sequence[tuple[int, bytes]]) -> None:
        aside = self.path.with_name(LEDGER + BROKEN)
        before = aside.read_bytes() if aside.exists() else b""
        with replacing(aside) as part:
            part.write_bytes(before + b"".join(line + b"\n" for _, line in broken))
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
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)

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
        return os.pread(self._file, stop - start, start)


def write_all(file: int, data: bytes, position: int | None = None) -> None:
    """Write all of ``data``, at ``position`` or at the end; one call may take only a part."""
    left = memoryview(data)
    while left:
        count = os.write(file, left) if position is None else os.pwrite(file, left, position)
        position = None if position is None else position + count
        left = left[count:]


def _checksum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, or None if it is not whole."""
    text, _, check = line.rpartition(b" ")
    if check.decode("ascii", "replace") != _checksum(text):
        return None
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
