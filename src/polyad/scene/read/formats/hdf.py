"""HDF5 and NetCDF-4: what is in a file, and the generic reader for ``file.nc:variable``.

A file that leads to other files is refused: external links, external and virtual storage. What is
damaged or made to take much memory and time is left to the limits of the confined process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5o, h5r, h5t
from numpy.typing import NDArray

from polyad.errors import SceneError, reason
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats import cf
from polyad.scene.read.formats.cf import CubeSource, Neighbors, Node
from polyad.scene.read.formats.opening import Opened

# Classes of HDF5 that NumPy reads as integers, reals or booleans.
NUMBERS = frozenset({h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD, h5t.ENUM})
_MOST_CHUNKS = 1024  # touched by one reading of HDF5
_INSIDE = ", expected all data inside the file; refused, write the data into one file"


@dataclass(frozen=True)
class Hdf5File:
    """An open file.

    Attributes
    ----------
    path : Path
    file : h5py.File
    arrays : dict of str to tuple of int
        Name and shape of every numeric array, in the order of their names; each array once.
    names : dict of int to str
        Every object's name by its address in the file.
    budget : int
        Bytes that may be held at once while reading it.
    """

    path: Path
    file: h5py.File
    arrays: dict[str, tuple[int, ...]]
    names: dict[int, str]
    budget: int

    @property
    def cubes(self) -> dict[str, tuple[int, ...]]:
        """The arrays with three axes."""
        return {name: shape for name, shape in self.arrays.items() if len(shape) == 3}


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading."""
    try:
        file = h5py.File(path, "r", locking=False)
    except (OSError, RuntimeError, ValueError) as error:
        message = f"{path}: expected an HDF5 file, HDF5 cannot open it ({reason(error)})"
        raise SceneError(f"{message}; it is truncated, damaged or of another kind") from error
    with file:
        yield file


@contextmanager
def open_listed(path: Path, budget: int) -> Iterator[Hdf5File]:
    """Open an HDF5 file and list its contents; refuse one that leads to other files.

    Groups of the root whose name begins with "#" are the insides of MATLAB's cells: any number of
    links without a use here, so their objects are not opened.
    """
    with open_hdf5(path) as file:
        arrays: dict[str, tuple[int, ...]] = {}
        names = {h5o.get_info(file.id).addr: "/"}
        waiting: list[tuple[str, h5py.Group]] = [("", file)]
        while waiting:
            prefix, group = waiting.pop()
            for name in sorted(group):
                full = prefix + name
                if full.startswith("#") or not _is_inside(path, group, name, full):
                    continue
                item = group[name]
                address = h5o.get_info(item.id).addr
                if address in names:
                    continue
                names[address] = full
                if isinstance(item, h5py.Group):
                    waiting.append((f"{full}/", item))
                elif isinstance(item, h5py.Dataset) and _class(item) in NUMBERS:
                    arrays[full] = item.shape or ()  # None: a null dataspace
        yield Hdf5File(path, file, dict(sorted(arrays.items())), names, budget)


def _is_inside(path: Path, group: h5py.Group, name: str, full: str) -> bool:
    """Return whether a link is one to an object of the file; refuse one that leads out of it."""
    try:
        link = group.get(name, getlink=True)
    except (TypeError, SystemError):  # a user-defined kind of link, or damage
        link = None
    if link is None or isinstance(link, h5py.ExternalLink):
        raise SceneError(f"{path}: '{full}' is an external link to another file{_INSIDE}")
    return isinstance(link, h5py.HardLink)


def _class(array: h5py.Dataset) -> int:
    kind: int = array.id.get_type().get_class()
    return kind


def dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """Return the dataset ``name`` if its values are stored in this file."""
    array = file[name]
    if array.is_virtual or array.external:
        kind = "virtual" if array.is_virtual else "external"
        raise SceneError(f"{path}: '{name}' has {kind} storage, in other files{_INSIDE}")
    return array


def find(opened: Hdf5File, name: str) -> h5py.Dataset:
    """Return the dataset ``name``; if there is none, say which arrays there are."""
    if not isinstance(opened.file.get(name), h5py.Dataset):
        names = guards.listing(_cubes(opened))
        listing = f"its 3-D arrays are {names}" if names else "it has no 3-D array"
        raise SceneError(f"{opened.path}: no array '{name}' in the file; {listing}")
    return dataset(opened.path, opened.file, name)


def check_dataset(opened: Hdf5File, array: h5py.Dataset) -> None:
    """Check an array's claims: numbers, stored bytes, one chunk within the budget."""
    check_chunk(opened.path, array, opened.budget)
    declared = guards.declared_bytes(array.shape, array.dtype)
    # The storage size comes from the file's own index; it cannot exceed the file.
    stored = min(array.id.get_storage_size(), opened.path.stat().st_size)
    check = guards.check_stored if array.chunks is None else guards.check_inflation
    check(opened.path, declared, stored)


def check_chunk(path: Path, array: h5py.Dataset, budget: int) -> None:
    """Refuse what is no number, and chunks, which are decoded whole, beyond the budget."""
    guards.check_numeric(path, array.dtype)
    if array.chunks is not None:
        chunk = guards.declared_bytes(array.chunks, array.dtype)
        whole = guards.declared_bytes(array.shape, array.dtype)
        guards.check_piece(path, chunk, whole, budget, f"a chunk of '{array.name}'")


def open_hdf(opened: Hdf5File, key: str | None) -> Opened:
    """Open the cube of a NetCDF-4 or HDF5 file: the variable ``key``, or the only 3-D one."""
    name = key if key is not None else choose_key(opened.path, _cubes(opened))
    array = find(opened, name)
    node, look = node_of(opened, array)
    check_dataset(opened, array)
    return cf.open_cube(node, look, functools.partial(read_stored, node.path, node.name))


def _cubes(opened: Hdf5File) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in opened.arrays.items() if cf.is_cube(shape)}


def node_of(opened: Hdf5File, array: h5py.Dataset) -> tuple[Node, Neighbors]:
    """Return an array before its axes are known, and the lookup of the variables beside it."""
    attrs = attributes(array, cf.ATTRIBUTES)
    node = Node(opened.path, array.name, array.shape, array.dtype, attrs, _dims(opened, array))
    return node, _neighbors(opened, array)


def choose_key(path: Path, arrays: Mapping[str, tuple[int, ...]]) -> str:
    """Return the name of the only 3-D array; with none or several, ask for one."""
    if len(arrays) == 1:
        return next(iter(arrays))
    if not arrays:
        expected = "expected one 3-D array (rows, columns, bands), found none"
        raise SceneError(f"{path}: {expected}; check that this is the image and not its labels")
    listing = guards.listing(f"{name} {shape}" for name, shape in arrays.items())
    first = next(iter(arrays))
    raise SceneError(
        f"{path}: expected one 3-D array, found {len(arrays)}: {listing}; name one of them, as in "
        f"'{path.name}:{first}'"
    )


def _dims(opened: Hdf5File, array: h5py.Dataset) -> tuple[str, ...]:
    """Return the dimension names: attached scales (NetCDF), else labels, else empty."""
    lists = [attribute(array, f"DIMENSION_{what}") for what in ("LIST", "LABELS")]
    none = [None] * array.ndim
    scales, labels = (v if np.shape(v)[:1] == (array.ndim,) else none for v in lists)
    return tuple(
        _scale(opened, references) or ("" if label is None else cf.text(label))
        for references, label in zip(scales, labels, strict=True)
    )


def _scale(opened: Hdf5File, references: Any) -> str:
    """Return the name of the first scale that is attached to an axis, else an empty text."""
    if not np.size(references) or references is None:
        return ""
    try:
        scale = h5r.dereference(np.ravel(references)[0], opened.file.id)
        # From our own list: HDF5 would search the whole file for the name of an address.
        name = opened.names.get(h5o.get_info(scale).addr, "")
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # it leads nowhere
        return ""
    return name.rsplit("/", 1)[-1]


def _neighbors(opened: Hdf5File, array: h5py.Dataset) -> Neighbors:
    """Return a lookup of small variables: in the cube's group, then in each group above it."""
    groups = [str(group) for group in PurePosixPath(array.name).parents]

    def look(name: str) -> tuple[Array, dict[str, Any]] | None:
        for group in groups:
            full = f"{group.strip('/')}/{name}"
            item = opened.file.get(full)
            if isinstance(item, h5py.Dataset) and len(item.shape or ()) <= 1:
                values = small(opened, full)
                found = np.empty(0) if values is None else values
                return found, attributes(item, cf.ATTRIBUTES)
        return None

    return look


def read_stored(path: Path, name: str, box: tuple[slice, ...]) -> Array:
    """Return the values in a box of an HDF5 array, axes as in the file."""
    with open_hdf5(path) as file:
        return read_box(dataset(path, file, name), box)


def plain_cube(opened: Hdf5File, array: h5py.Dataset, axes: tuple[int, int, int]) -> CubeSource:
    """Return the source of an array whose axes are known and whose values need no unpacking."""
    check_dataset(opened, array)
    reader = functools.partial(read_stored, opened.path, array.name)
    return CubeSource(opened.path, reader, array.shape, array.dtype, axes)


def read_box(array: h5py.Dataset, box: tuple[slice, ...]) -> Array:
    """Return ``array[box]``, halved until few enough chunks are touched: each costs HDF5 6 kB."""
    sides = array.chunks or array.shape
    touched = [-(-s.stop // n) - s.start // n for s, n in zip(box, sides, strict=True)]
    if math.prod(touched) <= _MOST_CHUNKS:
        values: Array = array[box]
        return values
    axis = int(np.argmax(touched))
    whole = box[axis]
    middle = (whole.start // sides[axis] + touched[axis] // 2) * sides[axis]
    halves = (slice(whole.start, middle), slice(middle, whole.stop))
    pieces = [read_box(array, (*box[:axis], half, *box[axis + 1 :])) for half in halves]
    return np.concatenate(pieces, axis=axis)


def small(opened: Hdf5File, name: str) -> Array | None:
    """Return a whole numeric array that belongs to a header, None if it is missing."""
    array = opened.file.get(name)
    if not isinstance(array, h5py.Dataset) or _class(array) not in NUMBERS or array.shape is None:
        return None
    array = dataset(opened.path, opened.file, name)
    at_once = guards.declared_bytes(array.shape, array.dtype)
    guards.check_budget(opened.path, at_once, guards.HARMLESS_BYTES, f"'{name}'")
    check_chunk(opened.path, array, guards.HARMLESS_BYTES)
    return np.asarray(read_box(array, tuple(slice(0, n) for n in array.shape)))


def numbers(
    path: Path, name: str, stored: Any, count: int | None = None
) -> NDArray[np.float64] | None:
    """Return numbers of a header as reals, None where it has none; refuse another ``count``."""
    values = np.ravel(np.empty(0) if stored is None else stored)
    if values.dtype.kind not in "biuf" or not values.size:
        return None
    if values.size != (count or values.size):
        expected = f"expected {count} numbers in '{name}', got {values.size}"
        raise SceneError(f"{path}: {expected}; the file is damaged, download it again")
    return values.astype(np.float64)


def attributes(item: h5py.Group | h5py.Dataset, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the named attributes that exist and are numbers or text."""
    values = {name: attribute(item, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def attribute(item: h5py.Group | h5py.Dataset, name: str) -> Any:
    """Return an attribute of numbers, text or references; None if there is none of these kinds."""
    if not h5a.exists(item.id, name.encode()):
        return None
    stored = h5a.open(item.id, name.encode())
    kind = stored.get_type().get_class()
    if (not stored.shape and stored.shape != ()) or kind not in {*NUMBERS, h5t.STRING, h5t.VLEN}:
        return None
    value = item.attrs[name]
    return None if np.size(value) == 0 else _clean(value)


def _clean(value: Any) -> Any:
    """Return text without the surrogates by which h5py marks bytes that are not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return np.array([_clean(v) for v in value.ravel()] + [None], object)[:-1].reshape(
            value.shape
        )
    return value
