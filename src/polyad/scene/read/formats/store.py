"""Zarr stores in a local folder (versions 2 and 3), read by the package zarr.

Zarr has codecs that unpickle, which runs code, and others that only name what is to be loaded: the
metadata of every array is held against a list of codecs before zarr sees the store. Links and
anything but files and folders are refused.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyad import sandbox
from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats import hdf
from polyad.scene.read.formats.cf import Neighbors, Node, is_cube, open_cube
from polyad.scene.read.formats.opening import Opened

_METADATA = ("zarr.json", ".zarray", ".zgroup")
_CODECS = {
    "zlib", "gzip", "bz2", "lzma", "blosc", "zstd", "lz4", "crc32", "crc32c", "adler32",
    "fletcher32", "shuffle", "delta", "bitround", "fixedscaleoffset", "quantize", "packbits",
    "bytes", "endian", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes",
}  # fmt: skip


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return path.is_dir() and any((path / mark).is_file() for mark in _METADATA)


def read_box(array: Any, box: tuple[slice, ...]) -> Array:
    """Return the values in a box of a Zarr array, axes as in the store."""
    return np.asarray(array[box], order="C")


@dataclass(frozen=True)
class ZarrStore:
    """A store whose codecs were checked.

    Attributes
    ----------
    path : Path
    arrays : dict of zarr.Array
        By name.
    stored : dict of int
        Bytes of the files of each.
    """

    path: Path
    arrays: dict[str, Any]
    stored: dict[str, int]

    def admit(self, name: str, budget: int, inflation: bool = True) -> Node:
        """Return an array before its axes are known; refuse one that cannot be read safely.

        Parameters
        ----------
        name : str
        budget : int
            Bytes that may be read at once.
        inflation : bool, default=True
            Whether far more values than bytes are refused too.
        """
        array = self.arrays[name]
        self._check_chunk(name, budget)
        if inflation:
            declared = guards.declared_bytes(array.shape, array.dtype)
            guards.check_inflation(self.path, declared, self.stored[name])
        attrs = array.attrs.asdict()
        fill = attrs.get("_FillValue", _old_fill(array))
        attrs = {**attrs, "_FillValue": _fill_value(fill, array.dtype)}
        return Node(self.path, name, array.shape, array.dtype, attrs, _dims(array))

    def neighbors(self, name: str, budget: int) -> Neighbors:
        """Return the lookup of small arrays beside ``name``."""

        def look(other: str) -> tuple[Array, dict[str, Any]] | None:
            full = "/".join([*name.split("/")[:-1], other]) if "/" in name else other
            beside = self.arrays.get(full)
            if beside is None or len(beside.shape) > 1:
                return None
            if not is_numeric(beside):  # a text; its attributes may still say something
                return np.empty(0), beside.attrs.asdict()
            self._check_chunk(full, min(budget, guards.HARMLESS_BYTES))
            held = guards.declared_bytes(beside.shape, beside.dtype)
            guards.check_budget(self.path, held, guards.HARMLESS_BYTES, f"'{full}'")
            return read_whole(beside), beside.attrs.asdict()

        return look

    def _check_chunk(self, name: str, budget: int) -> None:
        """Refuse an array that has no numbers or whose chunks are too large to be unpacked."""
        array = self.arrays[name]
        if not is_numeric(array):
            raise SceneError(f"{self.path}: '{name}' does not hold numbers; choose another array")
        chunk, whole = (guards.declared_bytes(n, array.dtype) for n in (array.chunks, array.shape))
        guards.check_piece(self.path, chunk, whole, budget, "a Zarr chunk")


def is_numeric(array: Any) -> bool:
    """Return whether the elements of an array are whole or real numbers."""
    return array.dtype.kind in "biuf"


def read_whole(array: Any) -> Array:
    """Return all values of an array that was admitted."""
    return read_box(array, tuple(slice(0, n) for n in array.shape))


def open_store(path: Path) -> ZarrStore:
    """Open the arrays of a Zarr store."""
    if importlib.util.find_spec("zarr") is None:
        raise SceneError(f"{path}: reading Zarr needs the package zarr; pip install 'polyad[zarr]'")
    arrays, stored = {}, {}
    for name, folder, size in _listed(path):
        # Without the metadata that a store may repeat in one file: it could say something else
        arrays[name] = sandbox.load("zarr").open_array(folder, mode="r")
        stored[name] = size
    return ZarrStore(path, arrays, stored)


def open_zarr(path: Path, key: str | None, budget: int) -> Opened:
    """Open the 3-D array ``key`` of a Zarr store, or its only one."""
    store = open_store(path)
    cubes = {n: d.shape for n, d in store.arrays.items() if is_cube(d.shape)}
    name = hdf.choose_key(path, cubes) if key is None else key.strip("/")
    if name not in store.arrays:
        raise SceneError(f"{path}: no array '{name}'; its 3-D arrays are {', '.join(cubes)}")
    node = store.admit(name, budget)
    reader = functools.partial(read_box, store.arrays[name])
    return open_cube(node, store.neighbors(name, budget), reader)


def _dims(array: Any) -> tuple[str, ...]:
    names = getattr(array.metadata, "dimension_names", None)
    if array.metadata.zarr_format == 2:
        names = array.attrs.asdict().get("_ARRAY_DIMENSIONS", ())
    return tuple(str(name or "") for name in names or ())


def _old_fill(array: Any) -> Any:
    """Return what version 2 has as fill value, which xarray takes for nodata; else None."""
    # 0 is merely the default of zarr. Version 3 always has one; there the attribute means nodata.
    fill = array.fill_value if array.metadata.zarr_format == 2 else None
    return fill if is_numeric(array) and fill and np.isfinite(fill) else None


def _fill_value(stated: Any, dtype: np.dtype) -> Any:
    """Return nodata; xarray writes that of real numbers as the bytes of a double, in base64."""
    if not isinstance(stated, str) or dtype.kind != "f":
        return stated
    try:
        return struct.unpack("<d", base64.b64decode(stated, validate=True))[0]
    except (ValueError, struct.error):  # another text
        return None


def _listed(path: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield name, folder and stored bytes of every array; refuse links, pipes and odd codecs."""
    folders = [path]
    while folders:
        here = folders.pop()
        entries = _entries(path, here)
        about = {name: _metadata(here / name) for name in _METADATA if name in entries}
        if ".zarray" in about or about.get("zarr.json", {}).get("node_type") == "array":
            for metadata in about.values():
                _check_codecs(here, metadata)
            yield here.relative_to(path).as_posix().removeprefix("."), here, _bytes(path, here)
        else:
            folders += [here / name for name, entry in entries.items() if entry.is_dir()]


def _bytes(path: Path, folder: Path) -> int:
    entries = _entries(path, folder)
    sizes = (e.stat().st_size for e in entries.values() if e.is_file())
    return sum(sizes) + sum(_bytes(path, folder / n) for n, e in entries.items() if e.is_dir())


def _entries(path: Path, folder: Path) -> dict[str, os.DirEntry[str]]:
    with os.scandir(folder) as listing:
        entries = {entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)}
    for name, entry in entries.items():
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            kind = "a symbolic link" if entry.is_symlink() else "neither a file nor a folder"
            remedy = "expected all chunks as files inside the store; refused, copy them into it"
            raise SceneError(f"{path}: {name} is {kind}, {remedy}")
    return entries


def _metadata(file: Path) -> dict[str, Any]:
    content = json.loads(file.read_bytes())
    return content if isinstance(content, dict) else {}


def _check_codecs(folder: Path, metadata: Any) -> None:
    """Refuse an array that is packed with anything but the codecs on our list."""
    steps = [metadata.get("compressor"), *(metadata.get("filters") or [])]
    steps += [*(metadata.get("codecs") or []), *(metadata.get("index_codecs") or [])]
    for step in filter(None, steps):
        about = {"id": step} if isinstance(step, str) else dict(step)
        name = str(about.get("id", about.get("name"))).removeprefix("numcodecs.")
        if name not in _CODECS:
            raise SceneError(
                f"{folder}: is packed with {name[:80]}, expected one of the plain codecs "
                f"{', '.join(sorted(_CODECS))}; refused, write the store again"
            )
        _check_codecs(folder, about.get("configuration") or {})
    if metadata.get("storage_transformers"):
        raise SceneError(f"{folder}: storage transformers are not read; write the store again")
