"""Finished tiles, kept so that a kill at any moment loses at most the tiles in flight.

Beside the output lies a folder with two kinds of file:

- one *store* per scene: the raw numbers of tile after tile, at places known beforehand;
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
from polyad.safe_open import open_own
from polyad.scene.raster import guards
from polyad.scene.raster.windows import Tile

Array = npt.NDArray[Any]
LEDGER = "ledger.jsonl"
LOCK = "lock"
STORE = ".tiles"
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
        The lines that were there when it was opened, without those that are damaged.
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
            # Checksums tell what a power cut took: a tile need not wait for the disk
            self._lines = LineFile(self.path, lock=False, sync=False)
        except OSError as error:
            self._lock.close()
            raise _unusable(self.path, error, ", or choose another output") from error
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
        if any(self.folder.glob(f"*{STORE}")):
            return
        self._lines.close()  # Windows removes no open file
        self.path.unlink(missing_ok=True)
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
        if not HEADER.startswith(content[: len(HEADER)]):
            raise OutputError(
                f"cannot keep finished tiles in {self.path}: expected a ledger of polyad or no "
                "file, got something else; move it away, or choose another output"
            )
        if not content.startswith(HEADER):  # new, or cut by a kill
            lines.keep(0)
            lines.append(HEADER)
            return []
        lines.keep(content.rfind(b"\n") + 1)  # without a line cut by a kill
        entries = []
        for number, line in enumerate(content[: lines.size].split(b"\n")[1:-1], start=2):
            try:
                entries.append(_entry(line))
            except ValueError:
                warnings.warn(
                    f"{self.path}, line {number} is damaged; its tile will be done again",
                    BrokenLedgerWarning,
                    stacklevel=4,
                )
        return entries


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


class FinishedTiles:
    """The finished tiles of one scene as raw bytes, each at its own place in one sparse file.

    Tiles that were kept for the same output under another digest are removed.

    Parameters
    ----------
    folder : Path
        Where they are kept.
    name, digest : str
        Of the output, and of all that decides the map.
    tiles : sequence of Tile
    dtype : dtype
        Of the class ids.
    depth : int, default=0
        How many numbers of float32 each pixel has beside its id.
    checksums : mapping of int to int, optional
        Of the tiles that the ledger calls finished.

    Attributes
    ----------
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
        depth: int = 0,
        checksums: Mapping[int, int] | None = None,
    ) -> None:
        self.digest, self.tiles, self.dtype, self.depth = digest, tiles, np.dtype(dtype), depth
        self.path = folder / f"{name}.{digest}{STORE}"
        for other in folder.glob(f"{escape(name)}.{'[0-9a-f]' * 16}{STORE}"):
            if other != self.path:
                other.unlink()
        pixel = self.dtype.itemsize + 4 * depth
        ends = accumulate((h * w * pixel for h, w in (t.shape for t in tiles)), initial=0)
        self._offsets = list(ends)
        try:
            self._file = open_own(self.path, 0o666)
        except OSError as error:
            raise _unusable(self.path, error, "") from error
        known = {n: crc for n, crc in (checksums or {}).items() if 0 <= n < len(tiles)}
        whole = {n for n, crc in known.items() if self.checksum(n) == crc}
        if damaged := len(checksums or {}) - len(whole):
            warnings.warn(
                f"{damaged} tiles kept in {folder} do not match their checksums and will be done "
                "again",
                BrokenLedgerWarning,
                stacklevel=2,
            )
        self.left = set(range(len(tiles))) - whole

    def put(self, number: int, ids: Array, numbers: Array | None = None) -> Entry:
        """Keep one tile; return its line for the ledger."""
        data = np.ascontiguousarray(ids, self.dtype).tobytes()
        if numbers is not None and self.depth:
            data = np.ascontiguousarray(numbers, np.float32).tobytes() + data
        if len(data) != self._offsets[number + 1] - self._offsets[number]:
            raise ValueError(f"tile {number} has {ids.shape} ids: this is a bug, please report it")
        write_all(self._file, data, self._offsets[number])
        self.left.discard(number)
        return {"map": self.digest, "tile": number, "crc": zlib.crc32(data)}

    def get(self, number: int) -> tuple[Array, Array | None]:
        """Return ids ``(h, w)`` and numbers ``(h, w, depth)`` of one tile."""
        shape, data = self.tiles[number].shape, self._bytes(number)
        size = 4 * self.depth * shape[0] * shape[1]
        ids = np.frombuffer(data, self.dtype, offset=size).reshape(shape)
        if not self.depth:
            return ids, None
        return ids, np.frombuffer(data[:size], np.float32).reshape(*shape, self.depth)

    def checksum(self, number: int) -> int:
        """Return the checksum of a tile's bytes as they are on the disk."""
        return zlib.crc32(self._bytes(number))

    def forget(self) -> None:
        """Take no tile as done."""
        self.left = set(range(len(self.tiles)))

    def close(self, *, remove: bool = False) -> None:
        """Close the store, and remove it if there is nothing to resume."""
        os.close(self._file)
        if remove:
            self.path.unlink(missing_ok=True)

    def _bytes(self, number: int) -> bytes:
        start, stop = self._offsets[number], self._offsets[number + 1]
        return read_all(self._file, stop - start, start)
