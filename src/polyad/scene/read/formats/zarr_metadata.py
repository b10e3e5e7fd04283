"""What the JSON files of a Zarr store (versions 2 and 3) say of an array, checked.

Zarr has codecs that unpickle, which runs code, and others that only name what is to be loaded. An
array is described here by plain numbers and by codecs on a list; nothing else is ever read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyad.errors import SceneError, reason
from polyad.regular import open_regular
from polyad.scene.raster.guards import human_bytes

METADATA_BYTES = 4 * 2**20  # of one file; a group that lists a thousand arrays needs a quarter
_LARGEST = 2**60  # elements along an axis

# From bytes to bytes, and from numbers to numbers.
PACKERS = ("zlib", "gzip", "bz2", "lzma", "blosc", "zstd", "lz4")
STANDARD = {"zlib", "gzip", "bz2", "lzma"}  # which Python itself can unpack
CHECKSUMS = ("crc32", "crc32c", "adler32", "fletcher32")
FILTERS = ("shuffle", "delta", "bitround", "fixedscaleoffset", "quantize", "packbits")
_CODECS = {*PACKERS, *CHECKSUMS, *FILTERS, "bytes", "endian", "transpose", "sharding_indexed"}
_TEXTS = {"vlen-utf8", "vlen-bytes"}  # of coordinates that are names, which are never unpacked


@dataclass(frozen=True)
class Codec:
    """One step of packing: its name and settings."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class ZarrArray:
    """An array of a store.

    Attributes
    ----------
    folder : Path
    shape, chunks : tuple of int
        ``chunks`` are the pieces that are unpacked at once: inside a shard, the inner ones.
    dtype : dtype or None
        None for elements that are no numbers: such an array cannot be read.
    fill : number
        Where a chunk is missing.
    codecs : tuple of Codec
        In the order of packing, from numbers to bytes.
    order : tuple of int
        The axes as a chunk lies in the file.
    prefix, separator : str
        Of the names of chunks: ``c/0/1/2`` or ``0.1.2``.
    shard : tuple of int, optional
        Shape of the shards, where several chunks share a file.
    index_first, index_checked : bool
        Where a shard has its index, and whether a checksum follows that.
    dims : tuple of str
    attrs : mapping
    nodata
        What version 2 has as fill value, which xarray takes for nodata; None in version 3.
    """

    folder: Path
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype | None
    fill: Any
    codecs: tuple[Codec, ...]
    order: tuple[int, ...]
    prefix: str
    separator: str
    shard: tuple[int, ...] | None
    index_first: bool
    index_checked: bool
    dims: tuple[str, ...]
    attrs: Mapping[str, Any]
    nodata: Any

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one unpacked chunk."""
        return math.prod(self.chunks) * (0 if self.dtype is None else self.dtype.itemsize)

    @property
    def chunk_count(self) -> int:
        """Chunks of the whole array, missing ones too."""
        return math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))


def load_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of the store; {} where there is no file."""
    if not path.exists():
        return {}
    with open_regular(path) as file:
        text = file.read(METADATA_BYTES + 1)
    if len(text) > METADATA_BYTES:
        raise SceneError(
            f"{path}: wanted at most {human_bytes(METADATA_BYTES)} of JSON in a Zarr store, got "
            "more; write the store again"
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SceneError(
            f"{path}: wanted the JSON of a Zarr store, it cannot be parsed ({reason(error)}); the "
            "store is damaged"
        ) from error
    return content if isinstance(content, dict) else {}


def describe_array(store: Path, folder: Path) -> ZarrArray:
    """Return the description of the array in ``folder``; refuse what is not on the lists."""
    new = load_json(folder / "zarr.json")
    try:
        if new:
            return _version_3(folder, new)
        return _version_2(folder, load_json(folder / ".zarray"), load_json(folder / ".zattrs"))
    except SceneError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        name = folder.relative_to(store).as_posix()
        raise SceneError(
            f"{store}: the metadata of its array '{name}' is damaged ({error!r:.80}); write the "
            "store again"
        ) from error


def _version_2(folder: Path, meta: Mapping[str, Any], attrs: Mapping[str, Any]) -> ZarrArray:
    shape = _integers(meta["shape"], 0)
    dtype = _number_type(meta["dtype"])
    steps = [*(meta.get("filters") or []), meta.get("compressor")]
    codecs = tuple(_codec(step) for step in steps if step is not None)
    _check_codecs(folder, codecs)
    axes = tuple(range(len(shape)))
    fill = meta.get("fill_value")
    return ZarrArray(
        folder=folder,
        shape=shape,
        chunks=_alike(shape, _integers(meta["chunks"], 1)),
        dtype=dtype,
        fill=_fill(fill, dtype),
        codecs=codecs,
        order=axes[::-1] if meta.get("order") == "F" else axes,
        prefix="",
        separator=_separator(meta.get("dimension_separator", ".")),
        shard=None,
        index_first=False,
        index_checked=False,
        dims=tuple(str(d) for d in attrs.get("_ARRAY_DIMENSIONS", ())),
        attrs=attrs,
        # xarray writes nodata as the fill value of version 2; 0 is merely the default of zarr
        nodata=fill or None,
    )


def _version_3(folder: Path, meta: Mapping[str, Any]) -> ZarrArray:
    shape = _integers(meta["shape"], 0)
    if meta.get("storage_transformers"):
        raise SceneError(f"{folder}: storage transformers are not read; write the store again")
    grid, keys = _codec(meta["chunk_grid"]), _codec(meta.get("chunk_key_encoding", "default"))
    if grid.name != "regular" or keys.name not in ("default", "v2"):
        raise SceneError(
            f"{folder}: wanted chunks in a regular grid with their usual names, got {grid.name!r} "
            f"and {keys.name!r}; write the store again"
        )
    chunks = _alike(shape, _integers(grid.settings["chunk_shape"], 1))
    codecs = tuple(_codec(step) for step in meta["codecs"])
    shard: tuple[int, ...] | None = None
    sharding: Mapping[str, Any] = {}
    if any(codec.name == "sharding_indexed" for codec in codecs):
        if len(codecs) > 1:
            raise SceneError(f"{folder}: shards are read unpacked alone; write the store again")
        sharding, shard = codecs[0].settings, chunks
        chunks = _alike(shape, _integers(sharding["chunk_shape"], 1))
        if any(outer % inner for outer, inner in zip(shard, chunks, strict=True)):
            raise SceneError(f"{folder}: its shards are no whole number of chunks; it is damaged")
        codecs = tuple(_codec(step) for step in sharding["codecs"])
        _check_index(folder, [_codec(step) for step in sharding.get("index_codecs", [])])
    _check_codecs(folder, codecs)
    order, dtype = tuple(range(len(shape))), _number_type(meta["data_type"])
    while codecs and codecs[0].name == "transpose":
        turned = _integers(codecs[0].settings["order"], 0)
        order, codecs = tuple(order[axis] for axis in turned), codecs[1:]
    if sorted(order) != list(range(len(shape))):
        raise SceneError(f"{folder}: its transposed axes are not those of its shape; it is damaged")
    for codec in codecs:
        if codec.name in ("bytes", "endian") and codec.settings.get("endian") == "big" and dtype:
            dtype = dtype.newbyteorder(">")
    attrs = meta.get("attributes") or {}
    return ZarrArray(
        folder=folder,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill=_fill(meta.get("fill_value"), dtype),
        codecs=tuple(c for c in codecs if c.name not in ("bytes", "endian")),
        order=order,
        prefix="c" if keys.name == "default" else "",
        separator=_separator(
            keys.settings.get("separator", "/" if keys.name == "default" else ".")
        ),
        shard=shard,
        index_first=sharding.get("index_location") == "start",
        index_checked=bool(sharding) and len(sharding.get("index_codecs", [])) > 1,
        dims=tuple(str(d or "") for d in meta.get("dimension_names") or ()),
        attrs=attrs if isinstance(attrs, dict) else {},
        nodata=None,  # version 3 always has a fill value; only the attribute means nodata
    )


def _codec(step: Any) -> Codec:
    """Return a codec as either version writes it; version 3 may give the name alone."""
    if isinstance(step, str):
        return Codec(step, {})
    if "id" in step:
        return Codec(str(step["id"]), {k: v for k, v in step.items() if k != "id"})
    settings = step.get("configuration") or {}
    return Codec(str(step["name"]).removeprefix("numcodecs."), dict(settings))


def _check_codecs(folder: Path, codecs: tuple[Codec, ...]) -> None:
    unknown = sorted({codec.name for codec in codecs} - _CODECS - _TEXTS)
    if unknown or any(codec.name == "sharding_indexed" for codec in codecs):
        raise SceneError(
            f"{folder}: is packed with {', '.join(unknown) or 'shards in shards'}, wanted one of "
            f"the plain codecs {', '.join(sorted(_CODECS))}; refused, write the store again"
        )
    for codec in codecs:
        types = [codec.settings.get(name) for name in ("dtype", "astype")]
        if any(kind is not None and _number_type(kind) is None for kind in types):
            raise SceneError(f"{folder}: '{codec.name}' makes no numbers; write the store again")


def _check_index(folder: Path, codecs: list[Codec]) -> None:
    names = [codec.name for codec in codecs]
    if names not in (["bytes"], ["bytes", "crc32c"]) or codecs[0].settings.get("endian") == "big":
        raise SceneError(
            f"{folder}: wanted the index of a shard as plain numbers, got it packed with {names}; "
            "write the store again"
        )


def _integers(values: Any, least: int) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 32:
        raise ValueError(f"no list of whole numbers: {values!r:.40}")
    if not all(isinstance(n, int) and least <= n <= _LARGEST for n in values):
        raise ValueError(f"no sizes: {values!r:.40}")
    return tuple(values)


def _alike(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) != len(other):
        raise ValueError(f"{len(other)} axes instead of {len(shape)}")
    return other


def _separator(text: Any) -> str:
    if text not in (".", "/"):
        raise ValueError(f"chunks separated by {text!r:.20}")
    return str(text)


def _number_type(stated: Any) -> np.dtype | None:
    """Return the element type, None for anything but whole and real numbers."""
    if not isinstance(stated, str) or len(stated) > 10:
        return None
    try:
        dtype = np.dtype(stated)
    except TypeError:
        return None
    return dtype if dtype.kind in "biuf" and dtype.itemsize <= 8 else None


def _fill(stated: Any, dtype: np.dtype | None) -> Any:
    """Return the fill value as a number of ``dtype``."""
    if dtype is None or stated is None:
        return 0
    if isinstance(stated, str) and stated.startswith("0x"):  # the bits of a real number
        return np.frombuffer(bytes.fromhex(stated[2:]), dtype.newbyteorder(">"))[0]
    number = float(stated) if isinstance(stated, str) else stated
    if not isinstance(number, int | float):
        raise ValueError(f"fill value {stated!r:.40}")
    return np.array(number).astype(dtype)[()] if dtype.kind == "f" else np.array(number, dtype)[()]
