"""An HDF5 file that is not trusted: it opens no other file, and what it makes us hold is bounded.

HDF5 follows whatever a file says. So it gets its bytes from `Metered`, never by a path: a name in
the file can lead nowhere else, and metadata that would take too much memory is not handed over.
`list_objects` visits every link once, in time linear in their number.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
from h5py import h5, h5d, h5g, h5l, h5o, h5t

from polyad.errors import SceneError, reason
from polyad.scene.raster import guards
from polyad.scene.read.formats.probe import check_by_probe

# Products have some dozens of objects; a MATLAB file with large cells keeps them apart, see
# `list_objects`.
MOST_OBJECTS = 10_000
MOST_LINKS = 100_000
DEEPEST = 32
_HEAP_HEAD = 16  # bytes before what a heap holds, and before each object in it
_FARTHEST = 2**62  # a damaged file may ask for any byte
# Classes of HDF5 that NumPy reads as integers, reals or booleans.
NUMBERS = frozenset({h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD, h5t.ENUM})


class Metered(io.RawIOBase):
    """The bytes of a file for HDF5; one read of more than ``most`` bytes is refused.

    Attributes
    ----------
    most : float
    largest : int
        The largest read so far within `at_most`: HDF5 may keep what it got.
    """

    def __init__(self, path: Path, most: float = math.inf) -> None:
        super().__init__()
        self.path = path
        self.most = most
        self.largest = 0
        self._watched = False
        self._file = path.open("rb", buffering=0)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` from the place last sought."""
        if len(buffer) > self.most:
            guards.check_budget(self.path, len(buffer), int(self.most), "its metadata")
        if self._watched:
            self.largest = max(self.largest, len(buffer))
        start = self._file.tell()
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < len(view) and (got := self._file.readinto(view[filled:])):
            filled += got
        metadata = self.most < math.inf  # pixels may begin with any letters
        if metadata and bytes(view[:4]) == b"GCOL" and filled >= _HEAP_HEAD:
            self._check_heap(start, int.from_bytes(view[8:16], "little"))
        return filled

    def _check_heap(self, start: int, size: int) -> None:
        """Refuse a heap of texts that HDF5 would allocate in vain or loop over forever."""
        if start + size > self.path.stat().st_size:
            raise SceneError(
                f"{self.path}: a heap of texts at byte {start} declares "
                f"{guards.human_bytes(size)} and goes beyond the file; it is truncated or damaged, "
                "copy it again"
            )
        place = start + _HEAP_HEAD
        while place + _HEAP_HEAD <= start + size:
            self._file.seek(place)
            head = self._file.read(_HEAP_HEAD)
            if len(head) < _HEAP_HEAD:  # truncated, which HDF5 reports
                return
            index, _, _, length = struct.unpack("<HHIQ", head)
            # What is free counts its own head, an object does not, and is padded to eight bytes.
            step = length if index == 0 else _HEAP_HEAD + length + -length % 8
            if not 0 < step <= start + size - place:
                raise SceneError(
                    f"{self.path}: a heap of texts at byte {start} holds an object of {length} "
                    "bytes that cannot be there; the file is damaged, copy it again"
                )
            place += step

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        if offset > _FARTHEST:
            raise OSError(f"byte {offset} is in no file")
        return self._file.seek(offset, whence)

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: `seek` works."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    @contextmanager
    def at_most(self, n: int) -> Iterator[None]:
        """Refuse reads of more than ``n`` bytes meanwhile."""
        before, self.most, self._watched = self.most, min(self.most, n), True
        try:
            yield
        finally:
            self.most, self._watched = before, False


@dataclass(frozen=True)
class Tree:
    """The contents of a file.

    Attributes
    ----------
    arrays : dict of str to tuple of int
        Name and shape of every numeric array, in the order of their names; each array once.
    names : dict of int to str
        Every object's name by its address in the file.
    """

    arrays: dict[str, tuple[int, ...]]
    names: dict[int, str]

    @property
    def cubes(self) -> dict[str, tuple[int, ...]]:
        """The arrays with three axes."""
        return {name: shape for name, shape in self.arrays.items() if len(shape) == 3}


@dataclass(frozen=True)
class Hdf5File:
    """An open file, its contents, and the bytes that may be held at once while reading it."""

    path: Path
    file: h5py.File
    bytes: Metered
    tree: Tree
    budget: int


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading; a damaged one gets one clear sentence."""
    with Metered(path) as stored, _opened(path, stored) as file:
        yield file


@contextmanager
def open_checked(path: Path, budget: int) -> Iterator[Hdf5File]:
    """Open an HDF5 file for the first time; refuse one that leads to other files."""
    check_by_probe(path)
    with Metered(path, guards.HARMLESS_BYTES) as stored, _opened(path, stored) as file:
        yield Hdf5File(path, file, stored, list_objects(path, file), budget)


@contextmanager
def _opened(path: Path, stored: Metered) -> Iterator[h5py.File]:
    try:
        file = h5py.File(stored, "r")
    except (OSError, RuntimeError, ValueError) as error:
        raise SceneError(
            f"{path}: wanted an HDF5 file, HDF5 cannot open it ({reason(error)}); it is truncated, "
            "damaged or of another kind, copy it again"
        ) from error
    with file:
        if file.id.get_create_plist().get_sizes() != (8, 8):
            raise SceneError(
                f"{path}: wanted addresses and sizes of 8 bytes, as HDF5 writes them, got others; "
                "write the file again, as with h5repack"
            )
        yield file


def list_objects(path: Path, file: h5py.File) -> Tree:
    """Visit every link of a file once; refuse links out of it and endless nesting.

    Groups of the root whose name begins with "#" are the insides of MATLAB's cells: any number of
    links without a use here, so their objects are not opened.
    """
    arrays: dict[str, tuple[int, ...]] = {}
    names = {h5o.get_info(file.id).addr: "/"}
    seen = 0
    waiting: list[tuple[str, int, h5g.GroupID]] = [("", 0, file.id)]
    while waiting:
        prefix, depth, group = waiting.pop()
        for name, address in _hard_links(path, group, prefix, MOST_LINKS - seen):
            seen += 1
            full = prefix + name.decode("utf-8", "replace")
            if address in names or full.startswith("#"):
                continue
            guards.check_count(path, len(names), MOST_OBJECTS, "groups and arrays")
            names[address] = full
            item = h5o.open(group, name)
            if isinstance(item, h5g.GroupID):
                guards.check_count(path, depth + 1, DEEPEST, "groups inside each other")
                waiting.append((f"{full}/", depth + 1, item))
            elif isinstance(item, h5d.DatasetID) and item.get_type().get_class() in NUMBERS:
                arrays[full] = item.shape or ()  # None: a null dataspace
    return Tree(dict(sorted(arrays.items())), names)


def _hard_links(path: Path, group: h5g.GroupID, prefix: str, most: int) -> list[tuple[bytes, int]]:
    """Return name and address of what a group holds; soft links have neither object nor address."""
    links: list[tuple[bytes, int]] = []
    outside: list[str] = []
    seen = itertools.count(1)

    def look(name: bytes, link: h5l.LinkInfo) -> bool | None:
        if link.type == h5l.TYPE_HARD:
            links.append((name, link.u))
        elif link.type != h5l.TYPE_SOFT:
            outside.append(prefix + name.decode("utf-8", "replace"))
        # Anything but None ends the iteration
        return True if outside or next(seen) > most else None

    try:
        group.links.iterate(look, info=True, order=h5.ITER_NATIVE)  # no table of all links
    except (TypeError, SystemError) as error:  # a user-defined kind of link, or damage
        raise SceneError(
            f"{path}: holds a link of unknown kind, wanted links inside the file only; it is "
            "damaged or leads elsewhere, write the data into one plain file"
        ) from error
    if outside:
        raise SceneError(
            f"{path}: '{outside[0]}' is an external link to another file, wanted all data inside "
            "the file; refused, write the data into one file"
        )
    guards.check_count(path, next(seen) - 1, most, "links")
    return sorted(links)
