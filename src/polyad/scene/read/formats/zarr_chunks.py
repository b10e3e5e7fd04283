"""Chunks of a Zarr array, unpacked here and never beyond the size that they declare.

Zarr's own reader unpacks whatever a chunk holds: two megabytes of gzip become two gigabytes. What a
chunk may unpack to is known from its shape, so that every step is told where to stop.
"""

from __future__ import annotations

import bz2
import itertools
import lzma
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.regular import open_regular
from polyad.scene.raster import guards
from polyad.scene.read.formats.zarr_metadata import CHECKSUMS, FILTERS, PACKERS, Codec, ZarrArray

Array = NDArray[Any]
Index = tuple[int, ...]

_SLACK = 64 * 2**10  # bytes by which packing may make a small chunk larger
_LZMA_MEMORY = 128 * 2**20  # its strongest preset needs half
_MISSING = 2**64 - 1  # in the index of a shard
_MOST_CHUNKS = 2**18  # unpacked in one reading of shards


def check_readable(path: Path, array: ZarrArray, budget: int) -> None:
    """Refuse an array that has no numbers or whose chunks are too large to be unpacked."""
    if array.dtype is None:
        raise SceneError(
            f"{path}: '{array.folder.name}' does not hold integer or real values; choose another "
            "array"
        )
    whole = guards.declared_bytes(array.shape, array.dtype)
    guards.check_piece(path, array.chunk_bytes, whole, budget, "a Zarr chunk")
    copies = sum(codec.name in (*PACKERS, *FILTERS) for codec in array.codecs)
    if array.chunk_bytes > guards.HARMLESS_BYTES and copies > 1:
        guards.check_budget(path, copies * array.chunk_bytes, budget, "a filtered Zarr chunk")
    if array.shard is not None:
        guards.check_budget(path, _index_bytes(array), guards.HARMLESS_BYTES, "a shard's index")


def read_box(array: ZarrArray, box: tuple[slice, ...]) -> Array:
    """Return ``array[box]``; slices have start and stop, step 1."""
    out = np.full([s.stop - s.start for s in box], array.fill, array.dtype)
    spans = [range(s.start // c, -(-s.stop // c)) for s, c in zip(box, array.chunks, strict=True)]
    for index, packed in _from_shards(array, spans) if array.shard else _from_files(array, spans):
        chunk = unpack(array, packed)
        corner = [i * c for i, c in zip(index, array.chunks, strict=True)]
        inside, outside = [], []
        for start, size, wanted in zip(corner, array.chunks, box, strict=True):
            first, last = max(start, wanted.start), min(start + size, wanted.stop)
            inside.append(slice(first - start, last - start))
            outside.append(slice(first - wanted.start, last - wanted.start))
        out[tuple(outside)] = chunk[tuple(inside)]
    return out


def unpack(array: ZarrArray, packed: bytes) -> Array:
    """Return a chunk, shape ``array.chunks``."""
    content: Any = packed
    for position in reversed(range(len(array.codecs))):
        content = _undo(array.codecs[position], content, _limit(array, position))
    content = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
    flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    if flat.nbytes != array.chunk_bytes:
        raise ValueError(f"a chunk unpacks to {flat.nbytes} bytes instead of {array.chunk_bytes}")
    lying = flat.view(np.dtype(array.dtype)).reshape([array.chunks[axis] for axis in array.order])
    return lying.transpose(np.argsort(array.order))


def _limit(array: ZarrArray, position: int) -> int:
    """Return how many bytes may come out when the codec at ``position`` is undone."""
    itemsizes = [array.dtype.itemsize if array.dtype else 1]
    checksums = 0
    for codec in array.codecs[:position]:  # those that are undone later
        itemsizes += [
            np.dtype(codec.settings[k]).itemsize for k in ("dtype", "astype") if k in codec.settings
        ]
        checksums += codec.name in CHECKSUMS
    return math.prod(array.chunks) * max(itemsizes) + 4 * checksums + 1  # packbits adds a byte


def _undo(codec: Codec, content: Any, limit: int) -> Any:
    if codec.name in PACKERS:
        content = content if isinstance(content, bytes) else np.asarray(content).tobytes()
        return _UNPACK[codec.name](content, limit, codec)
    import numcodecs

    settings = dict(codec.settings)
    if codec.name == "crc32c":
        settings = {"location": "end", **settings}
    if codec.name == "packbits" and len(content) * 8 > limit + 16:
        raise ValueError("more bits than the chunk has elements")
    return numcodecs.get_codec({"id": codec.name, **settings}).decode(content)


def _stream(decompressor: Any, content: bytes, limit: int) -> bytes:
    unpacked: bytes = decompressor.decompress(content, limit + 1)
    if len(unpacked) > limit or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"a chunk does not unpack to {limit} bytes or less")
    return unpacked


def _gzip(content: bytes, limit: int, _: Codec) -> bytes:
    return _stream(zlib.decompressobj(wbits=47), content, limit)  # zlib or gzip, by the header


def _bz2(content: bytes, limit: int, _: Codec) -> bytes:
    return _stream(bz2.BZ2Decompressor(), content, limit)


def _lzma(content: bytes, limit: int, codec: Codec) -> bytes:
    if codec.settings.get("filters") is not None:
        raise ValueError("LZMA with filters of its own is not read")
    return _stream(lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_LZMA_MEMORY), content, limit)


def _blosc(content: bytes, limit: int, _: Codec) -> bytes:
    from numcodecs import blosc

    _, size, block, packed = struct.unpack_from("<4sIII", content)
    _within(size, limit)
    if packed != len(content) or block > max(size, 1):
        raise ValueError("a Blosc chunk is not as long as it says")
    return bytes(blosc.decompress(content)) if size else b""


def _lz4(content: bytes, limit: int, _: Codec) -> bytes:
    from numcodecs import lz4

    _within(struct.unpack_from("<i", content)[0], limit)
    return bytes(lz4.decompress(content))


def _zstd(content: bytes, limit: int, _: Codec) -> bytes:
    from numcodecs import zstd

    _within(_zstd_size(content), limit)
    return bytes(zstd.decompress(content))


def _zstd_size(content: bytes) -> int:
    """Return the size that the header of a Zstandard frame declares (RFC 8878, 3.1.1.1)."""
    magic, flags = struct.unpack_from("<IB", content)
    if magic != 0xFD2FB528:
        raise ValueError("no Zstandard frame")
    single, kind = flags & 0x20, flags >> 6
    width = (1 if single else 0, 2, 4, 8)[kind]
    if not width:
        raise ValueError("a Zstandard chunk does not say its size")
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    field = content[start : start + width]
    if len(field) < width:
        raise ValueError("a Zstandard frame is cut short")
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


def _within(size: int, limit: int) -> None:
    if not 0 <= size <= limit:
        raise ValueError(f"a chunk declares {size} bytes instead of at most {limit}")


_UNPACK = {"zlib": _gzip, "gzip": _gzip, "bz2": _bz2, "lzma": _lzma, "blosc": _blosc,
           "lz4": _lz4, "zstd": _zstd}  # fmt: skip


def _path(array: ZarrArray, index: tuple[int, ...]) -> Path:
    numbers = [str(i) for i in index] or ([] if array.prefix else ["0"])
    return array.folder / array.separator.join(
        [array.prefix, *numbers] if array.prefix else numbers
    )


def _most_stored(array: ZarrArray) -> int:
    return 2 * _limit(array, len(array.codecs)) + _SLACK


def _from_files(array: ZarrArray, spans: Sequence[range]) -> Iterator[tuple[Index, bytes]]:
    """Yield the chunks within ``spans`` that exist, each from a file of its own."""
    for index in itertools.product(*spans):
        if (packed := _whole_file(array, index)) is not None:
            yield index, packed


def _whole_file(array: ZarrArray, index: tuple[int, ...]) -> bytes | None:
    try:
        with open_regular(_path(array, index)) as file:
            content = file.read(_most_stored(array) + 1)
    except FileNotFoundError:
        return None
    if len(content) > _most_stored(array):
        raise ValueError("the file of a chunk is far larger than the chunk")
    return content


def _index_bytes(array: ZarrArray) -> int:
    return 16 * math.prod(_per_shard(array)) + 4 * array.index_checked


def _per_shard(array: ZarrArray) -> list[int]:
    """Return how many chunks a shard has along each axis."""
    return [s // c for s, c in zip(array.shard or array.chunks, array.chunks, strict=True)]


def _from_shards(array: ZarrArray, spans: Sequence[range]) -> Iterator[tuple[Index, bytes]]:
    """Yield the chunks within ``spans`` that exist; each shard is opened once."""
    per, most, count = _per_shard(array), _most_stored(array), 0
    shards = [range(s.start // n, -(-s.stop // n)) for s, n in zip(spans, per, strict=True)]
    for place in itertools.product(*shards):
        first = [p * n for p, n in zip(place, per, strict=True)]
        window = tuple(
            slice(max(0, s.start - f), min(n, s.stop - f))
            for s, f, n in zip(spans, first, per, strict=True)
        )
        try:
            opened = open_regular(_path(array, place))
        except FileNotFoundError:
            continue
        with opened as file:
            table = _read_index(array, file, per)[window]
            there = np.argwhere((table != _MISSING).any(axis=-1))
            count += len(there)
            if count > _MOST_CHUNKS:
                raise ValueError(f"its shards have more than {_MOST_CHUNKS:,} chunks to unpack")
            for inside in there:
                offset, size = (int(n) for n in table[tuple(inside)])
                _within(size, most)
                file.seek(min(offset, 2**62))
                content = file.read(size)
                if len(content) < size:
                    raise ValueError("a shard is shorter than its index says")
                corner = zip(first, window, inside, strict=True)
                yield tuple(int(f + w.start + i) for f, w, i in corner), content


def _read_index(array: ZarrArray, file: Any, per: list[int]) -> Array:
    size = _index_bytes(array)
    file.seek(0 if array.index_first else max(0, file.seek(0, 2) - size))
    content = file.read(size)
    if len(content) < size:
        raise ValueError("a shard is shorter than its index")
    if array.index_checked:
        content = _undo(Codec("crc32c", {}), content, size)
    return np.frombuffer(content, "<u8").reshape([*per, 2])
