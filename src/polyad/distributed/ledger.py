"""Finished tiles, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder with two kinds of file:

- one *store* per scene: the raw ids of tile after tile, at places known beforehand;
- one *ledger*: a line of JSON and its checksum for each finished tile, with the checksum of the
  tile's bytes. A line is written after its bytes; a tile counts only if both checksums hold.

No order of events, no half-written line and no half-written tile can therefore pass for finished,
and nothing has to wait for the disk. A ledger says in its first line what it is: no other file is
written to, cut or removed, and no link is followed. The file ``lock`` in the folder keeps other
processes out; a killed process leaves it behind, unlocked.
"""

from __future__ import annotations

import errno
import os
import warnings
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import escape
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from polyad import durable
from polyad.durable import AFTER_TEXT, Entry, LineFile, LockFile, read_all, write_all
from polyad.errors import OutputError, PolyadWarning
from polyad.regular import open_own
from polyad.scene.raster import guards
from polyad.scene.raster.windows import Tile

Array = npt.NDArray[Any]
LEDGER = "ledger.jsonl"
LOCK = "lock"
HEADER = durable.seal({"polyad tiles": 1}, AFTER_TEXT)


class BrokenLedgerWarning(PolyadWarning):
    """A line of a ledger, or a tile that it vouches for, is damaged; the tile is done again."""


class Ledger:
    """Append-only lines, each with its checksum; one process at a time.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.

    Attributes
    ----------
    entries : list of dict
        The lines that were there when it was opened.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / LEDGER
        try:
            self.folder.mkdir(exist_ok=True)
            self._lock = LockFile(self.folder / LOCK, wait=False)
        except durable.InUse as error:
            raise OutputError(
                f"{self.folder} is in use: another process is making the same map; wait for it, "
                "or choose another output"
            ) from error
        except OSError as error:
            raise OutputError(
                f"cannot keep finished tiles in {self.folder}: {error.strerror}; choose another "
                "output or change the folder's permissions"
            ) from error
        try:
            self._lines = _open_lines(self.path)
        except BaseException:
            self._lock.close()
            raise
        try:
            self.entries = self._load()
        except BaseException:
            self.close()
            raise

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add one line; it is either whole or recognized as broken."""
        self._lines.append(durable.seal(entry, AFTER_TEXT))

    def close(self) -> None:
        """Let others in."""
        self._lines.close()
        self._lock.close()

    def remove(self) -> None:
        """Remove the folder, now that nothing is left to resume, and let others in.

        If it still has stores, they belong to scenes of another command, and it stays.
        """
        if any(self.folder.glob("*.ids")):
            return
        self._lines.close()  # Windows removes no open file
        for path in (self.path.with_name(LEDGER + durable.BROKEN), self.path):
            if _is_ours(path):
                path.unlink()
        self._lock.remove()
        with suppress(OSError):  # somebody else put something there
            self.folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _load(self) -> list[Entry]:
        lines = self._lines
        if lines.size * durable.INFLATION > guards.memory_budget():
            raise OutputError(
                f"cannot resume from {self.path}: it is read at once, and its "
                f"{guards.human_bytes(lines.size)} do not fit in half of this machine's memory; "
                "move it away to start anew"
            )
        content = lines.read()
        lines.keep(content.rfind(b"\n") + 1)  # without a line cut by a kill
        entries, broken = [], []
        for number, line in enumerate(content[: lines.size].split(b"\n")[1:-1], start=2):
            try:
                entries.append(_entry(line))
            except ValueError:
                broken.append((number, line))
        if broken:
            self._set_aside(broken)
        return entries

    def _set_aside(self, broken: Sequence[tuple[int, bytes]]) -> None:
        aside = self.path.with_name(LEDGER + durable.BROKEN)
        _open_lines(aside).close()  # refuses any other file
        self._lines.close()
        durable.set_aside(self.path, [line for _, line in broken])
        self._lines = _open_lines(self.path)
        for number, _ in broken:
            warnings.warn(
                f"{self.path}, line {number} is damaged; it was set aside in {aside.name}, and "
                "its tile will be done again",
                BrokenLedgerWarning,
                stacklevel=5,
            )


def _open_lines(path: Path) -> LineFile:
    """Open a ledger to add lines; refuse any other file, untouched."""
    try:
        # Checksums tell what a power cut took: a tile need not wait for the disk
        lines = LineFile(path, lock=False, sync=False)
    except OSError as error:
        raise _unusable(path, error, ", or choose another output") from error
    try:
        head = lines.read(len(HEADER))
        if not HEADER.startswith(head):
            raise OutputError(
                f"cannot keep finished tiles in {path}: wanted a ledger of polyad or no file, got "
                "something else, which would be lost; move it away, or choose another output"
            )
        if head != HEADER:  # new, or cut by a kill
            lines.keep(0)
            lines.append(HEADER)
    except BaseException:
        lines.close()
        raise
    return lines


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def _entry(line: bytes) -> Entry:
    """Return the entry of a line; raise ValueError if it is not whole or not one of ours."""
    entry = durable.unseal(line, AFTER_TEXT)
    numbers = [type(entry.get(key)) is int for key in ("tile", "crc")]
    if not isinstance(entry.get("map"), str) or not (entry.get("written") is True or all(numbers)):
        raise ValueError("not a tile's")
    return entry


def _unusable(path: Path, error: OSError, remedy: str) -> OSError | OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return error
    return OutputError(
        f"cannot keep finished tiles in {path}: {error.strerror}; move it away{remedy}"
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
            raise _unusable(self.path, error, "") from error

    def put(self, number: int, values: Array) -> int:
        """Write one tile; return the checksum of its bytes."""
        data = np.ascontiguousarray(values, self.dtype).tobytes()
        if len(data) != self.offsets[number + 1] - self.offsets[number]:
            raise ValueError(
                f"tile {number} has {values.shape} values: this is a bug, please report it"
            )
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


class FinishedTiles:
    """The finished tiles of one scene, and which ones are left.

    Parameters
    ----------
    folder : Path
        Where they are kept.
    name, digest : str
        Of the output, and of all that decides the map. Tiles that were kept for the same output
        under another digest are removed.
    tiles : sequence of Tile
    dtype : dtype
        Of the class ids.
    depth : int
        How many more numbers there are of each pixel.
    checksums : mapping of int to int
        Of the tiles that the ledger calls finished.

    Attributes
    ----------
    ids : TileStore
    probabilities : TileStore or None
    left : set of int
        Numbers of the tiles that are not done.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        digest: str,
        tiles: Sequence[Tile],
        dtype: npt.DTypeLike,
        depth: int,
        checksums: Mapping[int, int],
    ) -> None:
        self.digest, self.tiles = digest, tiles
        base = folder / f"{name}.{digest}"
        for kind in ("ids", "probabilities"):
            for path in folder.glob(f"{escape(name)}.{'[0-9a-f]' * 16}.{kind}"):
                if path.name != f"{name}.{digest}.{kind}":
                    path.unlink()
        self.ids = TileStore(f"{base}.ids", tiles, dtype)
        self.probabilities: TileStore | None = None
        if depth:
            self.probabilities = TileStore(f"{base}.probabilities", tiles, np.float32, depth)
        whole = {n for n, checksum in checksums.items() if self._matches(n, checksum)}
        if len(whole) < len(checksums):
            warnings.warn(
                f"{len(checksums) - len(whole)} tiles kept in {folder} do not match their "
                "checksums and will be done again",
                BrokenLedgerWarning,
                stacklevel=2,
            )
        self.left = set(range(len(tiles))) - whole

    def put(self, number: int, ids: Array, probabilities: Array | None) -> Entry:
        """Keep one tile; return its line for the ledger."""
        checksum = self.ids.put(number, ids)
        if self.probabilities is not None and probabilities is not None:
            checksum = _joined(checksum, self.probabilities.put(number, probabilities))
        self.left.discard(number)
        return {"map": self.digest, "tile": number, "crc": checksum}

    def forget(self) -> None:
        """Take no tile as done."""
        self.left = set(range(len(self.tiles)))

    def close(self, *, remove: bool = False) -> None:
        """Close the stores, and remove them if there is nothing to resume."""
        for store in filter(None, (self.probabilities, self.ids)):
            store.close()
            if remove:
                store.path.unlink(missing_ok=True)

    def _matches(self, number: int, checksum: int) -> bool:
        if not 0 <= number < len(self.tiles):
            return False
        stored = self.ids.checksum(number)
        if self.probabilities is not None:
            stored = _joined(stored, self.probabilities.checksum(number))
        return stored == checksum


def _joined(first: int, second: int) -> int:
    return zlib.crc32(second.to_bytes(4, "big"), first)
