"""What is decoded of an HDF5 file: whole chunks and attributes, each within bounds.

HDF5 always decodes whole chunks, and its gzip filter allocates all that a stream inflates to, not
what the chunk declares. An attribute is always read whole, and each of its texts may refer to the
same long one.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5t, h5z

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.scene import Array
from polyad.scene.read.formats.hdf_file import NUMBERS, Hdf5File

# How many times its input a filter can give back at most. Others may allocate what a file asks for
# (szip, nbit, scale-offset) or are code that HDF5 would load from elsewhere.
_GROWTH = {
    h5z.FILTER_DEFLATE: 1032, h5z.FILTER_LZF: 100, h5z.FILTER_SHUFFLE: 1, h5z.FILTER_FLETCHER32: 1,
}  # fmt: skip
_SLACK = 2**16  # bytes by which a chunk that cannot be compressed may exceed what it holds
_MOST_CHUNKS = 1024  # touched by one reading of HDF5
_PIECE = 2**20  # bytes inflated at a time to see how far a chunk goes
_COPIES = 4  # of a text: in HDF5's heap, as HDF5 gives it, as h5py does, and decoded


def dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """Return the dataset ``name`` if its values are stored in this file."""
    array = file.get(name)
    if not isinstance(array, h5py.Dataset):
        raise SceneError(f"{path}: no array '{name}' in the file; check the name after the colon")
    if array.is_virtual or array.external:
        kind = "virtual" if array.is_virtual else "external"
        raise SceneError(
            f"{path}: '{name}' has {kind} storage, its values lie in other files, wanted all data "
            "inside the file; refused, write the data into one file"
        )
    return array


def check_decoding(path: Path, array: h5py.Dataset, budget: int) -> bool:
    """Check that each chunk of an array can be decoded within ``budget`` bytes.

    Returns
    -------
    bool
        Whether a chunk whose declaration is wrong could still inflate beyond the budget: it must be
        tried before HDF5 decodes it, see `read_box`.
    """
    guards.check_numeric(path, array.dtype)
    if array.chunks is None:
        return False
    chunk = guards.declared_bytes(array.chunks, array.dtype)
    what = f"a chunk of '{array.name}'"
    whole = guards.declared_bytes(array.shape, array.dtype)
    guards.check_piece(path, chunk, whole, budget, what)
    growth = _growth(path, array)
    if growth == 1 or array.id.get_storage_size() * growth <= budget:
        return False
    largest = _largest_stored(array)
    if largest > chunk + chunk // 8 + _SLACK:
        raise SceneError(
            f"{path}: {what} holds {guards.human_bytes(chunk)}, its compressed form takes "
            f"{guards.human_bytes(largest)}; the file is damaged, copy it again"
        )
    if largest * growth <= budget:
        return False
    if growth < _GROWTH[h5z.FILTER_DEFLATE]:
        guards.check_budget(path, largest * growth, budget, what)
    return True


def _growth(path: Path, array: h5py.Dataset) -> int:
    """Return how many times its stored bytes a chunk may give; refuse unknown filters."""
    pipeline = array.id.get_create_plist()
    filters = [pipeline.get_filter(k) for k in range(pipeline.get_nfilters())]
    factors = [_GROWTH.get(code) for code, *_ in filters]
    packed = next((k for k, f in enumerate(factors) if f != 1), len(filters))
    later = {code for code, *_ in filters[packed + 1 :]}
    # What packs comes last but for checksums: `_inflates_beyond` looks at stored bytes.
    if None in factors or later - {h5z.FILTER_FLETCHER32}:
        names = ", ".join(
            name.decode("ascii", "replace") or str(code) for code, *_, name in filters
        )
        raise SceneError(
            f"{path}: '{array.name}' is packed with {names}, wanted gzip or lzf alone, with or "
            "without shuffle before it and fletcher32; pack it again, as with h5repack -f GZIP=4"
        )
    return math.prod(f for f in factors if f is not None)


def _largest_stored(array: h5py.Dataset) -> int:
    largest = 0

    def look(chunk: Any) -> None:
        nonlocal largest
        largest = max(largest, chunk.size)

    array.id.chunk_iter(look)
    return largest


def read_box(
    path: Path, file: h5py.File, name: str, box: tuple[slice, ...], *, wary: bool
) -> Array:
    """Return the values of ``box``; if ``wary``, no chunk is decoded beyond its declared size."""
    array = dataset(path, file, name)
    if wary and array.chunks is not None:
        declared = guards.declared_bytes(array.chunks, array.dtype)
        for corner in _chunks(box, array.chunks):
            if _inflates_beyond(_stored(array, corner), declared + 4):  # 4: a checksum inside
                raise SceneError(
                    f"{path}: the chunk of '{name}' at {corner} declares "
                    f"{guards.human_bytes(declared)} and inflates to more; the file is damaged or "
                    "a decompression bomb, copy it again"
                )
    return _read_halved(array, box)


def _read_halved(array: h5py.Dataset, box: tuple[slice, ...]) -> Array:
    """Return ``array[box]``, halved until few enough chunks are touched: each costs HDF5 6 kB."""
    touched = (
        [
            -(-s.stop // n) - s.start // n
            for s, n in zip(box, array.chunks or array.shape, strict=True)
        ]
        if box
        else []
    )
    if math.prod(touched) <= _MOST_CHUNKS:
        values: Array = array[box]
        return values
    axis = int(np.argmax(touched))
    side, whole = (array.chunks or array.shape)[axis], box[axis]
    middle = (whole.start // side + touched[axis] // 2) * side
    halves = (slice(whole.start, middle), slice(middle, whole.stop))
    pieces = [_read_halved(array, (*box[:axis], half, *box[axis + 1 :])) for half in halves]
    return np.concatenate(pieces, axis=axis)


def _chunks(box: tuple[slice, ...], chunks: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """Return the first corner of each chunk that a box touches."""
    return itertools.product(
        *(range(s.start // n * n, s.stop, n) for s, n in zip(box, chunks, strict=True))
    )


def _stored(array: h5py.Dataset, corner: tuple[int, ...]) -> bytes:
    try:
        _, stored = array.id.read_direct_chunk(corner)
    except (RuntimeError, OSError):  # a chunk that was never written: HDF5 fills it in
        return b""
    return bytes(stored)


def _inflates_beyond(stored: bytes, most: int) -> bool:
    """Return whether a zlib stream gives more than ``most`` bytes; never hold more than a piece."""
    stream, made = zlib.decompressobj(), 0
    try:
        while made <= most and (piece := stream.decompress(stored, _PIECE)):
            made += len(piece)
            stored = stream.unconsumed_tail
    except zlib.error:  # not deflated, or damaged: HDF5 says so
        pass
    return made > most


def small(opened: Hdf5File, name: str) -> Array | None:
    """Return a whole numeric array that belongs to a header, None if it is missing."""
    array = opened.file.get(name)
    if not isinstance(array, h5py.Dataset) or array.id.get_type().get_class() not in NUMBERS:
        return None
    array = dataset(opened.path, opened.file, name)
    if array.shape is None:  # a null dataspace
        return None
    at_once = guards.declared_bytes(array.shape, array.dtype)
    guards.check_budget(opened.path, at_once, guards.HARMLESS_BYTES, f"'{name}'")
    wary = check_decoding(opened.path, array, guards.HARMLESS_BYTES)
    whole = tuple(slice(0, n) for n in array.shape)
    return np.asarray(read_box(opened.path, opened.file, name, whole, wary=wary))


def attributes(
    opened: Hdf5File, item: h5py.Group | h5py.Dataset, names: Iterable[str]
) -> dict[str, Any]:
    """Return those of the named attributes that exist and are numbers or text."""
    values = {name: attribute(opened, item, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def attribute(
    opened: Hdf5File, item: h5py.Group | h5py.Dataset, name: str, most: int | None = None
) -> Any:
    """Return an attribute of numbers, text or references; None if there is none of these kinds.

    Parameters
    ----------
    opened : Hdf5File
    item : Group or Dataset
    name : str
    most : int, optional
        Bytes that it may take; a quarter of the budget, and a few megabytes in any case.
    """
    if not h5a.exists(item.id, name.encode()):
        return None
    most = max(guards.HARMLESS_BYTES, opened.budget // 4) if most is None else most
    stored = h5a.open(item.id, name.encode())
    if stored.shape is None:  # a null dataspace
        return None
    kind, count, what = stored.get_type(), math.prod(stored.shape), f"the attribute '{name}'"
    guards.check_budget(opened.path, count * kind.get_size(), most, what)
    if _refers(kind):
        # Texts of any length lie in heaps, each text in one, and HDF5 reads a heap in one piece:
        # no text is longer than the largest piece, but all of them may be the same one.
        at_once = _COPIES * count * opened.bytes.largest
        guards.check_budget(opened.path, at_once, most, what)
        with opened.bytes.at_most(most // max(1, _COPIES * count)):
            value = item.attrs[name]
    elif kind.get_class() in (*NUMBERS, h5t.STRING):
        value = item.attrs[name]
    else:
        return None
    return _clean(value) if count else None


def _refers(kind: h5t.TypeID) -> bool:
    """Return whether a type is text of any length, or a list of references of any length."""
    if kind.get_class() == h5t.STRING:
        return bool(kind.is_variable_str())
    return kind.get_class() == h5t.VLEN and kind.get_super().get_class() == h5t.REFERENCE


def _clean(value: Any) -> Any:
    """Return text without the surrogates by which h5py marks bytes that are not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return np.array([_clean(v) for v in value.ravel()] + [None], object)[:-1].reshape(
            value.shape
        )
    return value
