"""What a MATLAB 5 file holds, listed without inflating it, and its plain arrays.

The format: a header of 128 bytes, then elements of (type, size, data). A variable is an element of
type 14 whose data are elements again: flags, dimensions, name, values. Type 15 is a deflated one.

At most `_PEEK` bytes of each variable are inflated to list it: its class, shape and name stand in
front. An array is then inflated into room of the size it declares, and no further. The reader of
SciPy does neither: it inflates names and dimensions of any length.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from polyad.errors import SceneError, reason
from polyad.scene.raster import guards
from polyad.scene.raster.scene import Array

_MATRIX, _COMPRESSED = 14, 15
_INT8, _INT32, _UINT32, _UTF8 = 1, 5, 6, 16
_PEEK = 4096  # flags, dimensions and a name of 63 letters need less than 200 bytes
_NUMERIC = range(6, 16)  # classes double, single and the eight integer ones
# MATLAB keeps whole doubles in small integers; the stored type is the one that loadmat returns.
_STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_COMPLEX = 0x0800
_PIECE = 2**20  # bytes read or inflated at a time


MOST_ELEMENTS = 10_000  # in a file; each costs a seek, and some time wherever it is listed


@dataclass(frozen=True)
class MatVariable:
    """One variable: what it declares, and where it lies in the file.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : dtype or None
        None for what is no plain real array (cells, structs, text, complex, sparse).
    start, stored : int
        First byte in the file and how many there are.
    deflated : bool
    skip : int
        Bytes before the values, after inflating.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype | None
    start: int
    stored: int
    deflated: bool
    skip: int


def list_variables(path: Path) -> tuple[MatVariable, ...]:
    """Return the variables of a MATLAB 5 file; refuse a truncated one and a bomb."""
    size = guards.existing_file(path)
    with path.open("rb") as file:
        header = file.read(128)
        order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
        if order is None:
            raise SceneError(
                f"{path}: wanted a MATLAB file of version 5 to 7.3, got another header; it is "
                "truncated or of another kind, save it again with save -v7"
            )
        try:
            variables = tuple(_variables(path, file, size, order))
        except (struct.error, zlib.error, ValueError, KeyError) as error:
            raise SceneError(
                f"{path}: the MATLAB variables cannot be listed ({reason(error)}); the file is "
                "truncated or damaged, copy it again"
            ) from error
    for variable in variables:
        if variable.dtype is not None:
            declared = guards.declared_bytes(variable.shape, variable.dtype)
            guards.check_inflation(path, declared, variable.stored)
    return variables


def read_variable(path: Path, variable: MatVariable) -> Array:
    """Return the values of a plain array, in this machine's byte order."""
    if variable.dtype is None:
        raise SceneError(f"{path}: '{variable.name}' is no plain array of real numbers")
    declared = guards.declared_bytes(variable.shape, variable.dtype)
    values = np.empty(declared, np.uint8)
    with path.open("rb") as file:
        file.seek(variable.start)
        try:
            made = _fill(values.data, file, variable)
        except zlib.error as error:
            raise SceneError(
                f"{path}: '{variable.name}' cannot be inflated ({reason(error)}); the file is "
                "truncated or damaged, copy it again"
            ) from error
    guards.check_stored(path, declared, made)
    native = variable.dtype.newbyteorder("=")
    numbers = values.view(native)
    if variable.dtype != native:
        numbers.byteswap(inplace=True)
    return numbers.reshape(variable.shape, order="F")


def _fill(room: memoryview, file: BinaryIO, variable: MatVariable) -> int:
    """Put the values of a variable into ``room`` and return how many bytes there were."""
    skip, made = variable.skip, 0
    for piece in _pieces(file, variable):
        values = piece[skip:][: len(room) - made]
        skip -= min(skip, len(piece))
        room[made : made + len(values)] = values
        made += len(values)
        if made == len(room):
            break
    return made


def _pieces(file: BinaryIO, variable: MatVariable) -> Iterator[bytes]:
    """Yield the bytes of a variable, inflated, a bounded number at a time."""
    left = variable.stored
    stream = zlib.decompressobj()
    while left and not stream.eof and (stored := file.read(min(left, _PIECE))):
        left -= len(stored)
        if not variable.deflated:
            yield stored
            continue
        while stored:
            yield stream.decompress(stored, _PIECE)
            stored = stream.unconsumed_tail


def _variables(path: Path, file: BinaryIO, size: int, order: str) -> Iterator[MatVariable]:
    start, count = file.tell(), 0
    while start < size:
        count += 1
        guards.check_count(path, count, MOST_ELEMENTS, "MATLAB variables")
        kind, length = struct.unpack(order + "II", file.read(8))
        start += 8
        guards.check_stored(path, start + length, size)
        content = file.read(min(length, _PEEK))
        deflated = kind == _COMPRESSED
        if deflated:
            content = zlib.decompressobj().decompress(content, _PEEK)
            kind, content = struct.unpack_from(order + "I", content)[0], content[8:]
        if kind == _MATRIX and content:
            yield _variable(content, order, start, length, deflated)
        start += length
        file.seek(start)


def _variable(content: bytes, order: str, start: int, stored: int, deflated: bool) -> MatVariable:
    flags, rest = _element(content, order, _UINT32)
    dimensions, rest = _element(rest, order, _INT32)
    name, rest = _element(rest, order, _INT8, _UTF8)
    word = struct.unpack_from(order + "I", flags)[0]
    shape = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions)
    if min(shape, default=0) < 0:
        raise ValueError(f"negative dimensions {shape}")
    plain = (word & 0xFF) in _NUMERIC and not word & _COMPLEX and math.prod(shape) > 0
    dtype, skip = None, 0
    if plain:
        dtype, data = _stored_type(rest, order, shape)
        skip = 8 * deflated + len(content) - len(rest) + data  # 8: the tag that was deflated too
    return MatVariable(name.decode("utf-8", "replace"), shape, dtype, start, stored, deflated, skip)


def _stored_type(content: bytes, order: str, shape: tuple[int, ...]) -> tuple[np.dtype, int]:
    """Return element type and start of the values."""
    kind, length, start = _tag(content, order)
    dtype = np.dtype(order + _STORED[kind])
    if guards.declared_bytes(shape, dtype) != length:
        raise ValueError(f"{length} bytes for {dtype} {shape}")
    return dtype, start


def _tag(content: bytes, order: str) -> tuple[int, int, int]:
    """Return type, size and start of the data of the first element."""
    kind, length = struct.unpack_from(order + "II", content)
    if kind >> 16:  # up to four bytes of data share the tag with their size
        return kind & 0xFFFF, kind >> 16, 4
    return kind, length, 8


def _element(content: bytes, order: str, *wanted: int) -> tuple[bytes, bytes]:
    """Return the data of the first element and what follows it."""
    kind, length, start = _tag(content, order)
    if kind not in wanted or start + length > len(content):
        raise ValueError(f"element of type {kind} and {length} bytes where {wanted} was expected")
    end = 8 if start == 4 else start + length + -length % 8  # data are padded to eight bytes
    return content[start : start + length], content[end:]
