"""Zarr stores in a local folder (versions 2 and 3), read without the package zarr."""

from __future__ import annotations

import base64
import importlib.util
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.scene import Array
from polyad.scene.read.formats import hdf
from polyad.scene.read.formats.cf import (
    CubeSource,
    KeptAxes,
    Neighbors,
    Node,
    is_cube,
    open_cube,
    three_axes,
)
from polyad.scene.read.formats.zarr_chunks import check_readable, read_box
from polyad.scene.read.formats.zarr_metadata import (
    METADATA_BYTES,
    STANDARD,
    ZarrArray,
    describe_array,
    load_json,
)

_MARKS = ("zarr.json", ".zarray", ".zgroup")
_OLD = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}
MAX_FILES = 2_000_000
MAX_ARRAYS = 1000
MAX_DEPTH = 40  # of folders
MAX_METADATA = 8 * 2**20  # bytes of all JSON; a thousand arrays need half
_FEW_CHUNKS = 10_000


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return path.is_dir() and any((path / mark).is_file() for mark in _MARKS)


@dataclass(frozen=True)
class ZarrReader:
    """Reads a box of a Zarr array."""

    array: ZarrArray

    def __call__(self, box: tuple[slice, ...]) -> Array:
        """Return the values of ``box``, axes as in the store."""
        return read_box(self.array, box)


@dataclass
class _Contents:
    """The contents of a store: the arrays by name, the bytes and files of each."""

    arrays: dict[str, Path] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ZarrStore:
    """A store whose metadata were read and checked.

    Attributes
    ----------
    path : Path
    arrays : dict of ZarrArray
        By name.
    """

    path: Path
    arrays: dict[str, ZarrArray]
    _contents: _Contents

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
        check_readable(self.path, array, budget)
        dtype = np.dtype(array.dtype)
        if inflation:
            declared = guards.declared_bytes(array.shape, dtype)
            guards.check_inflation(self.path, declared, self._contents.stored[name])
        _check_count(self.path, array, self._contents.files[name])
        attrs = {"_FillValue": array.nodata, **array.attrs}
        attrs["_FillValue"] = _fill_value(attrs["_FillValue"], dtype)
        return Node(self.path, name, array.shape, dtype, attrs, array.dims)

    def neighbors(self, name: str, budget: int) -> Neighbors:
        """Return the lookup of small arrays beside ``name``."""

        def look(other: str) -> tuple[Array, dict[str, Any]] | None:
            full = "/".join([*name.split("/")[:-1], other]) if "/" in name else other
            beside = self.arrays.get(full)
            if beside is None or len(beside.shape) > 1:
                return None
            if beside.dtype is None:  # a text; its attributes may still say something
                return np.empty(0), dict(beside.attrs)
            check_readable(self.path, beside, min(budget, guards.HARMLESS_BYTES))
            held = guards.declared_bytes(beside.shape, beside.dtype)
            guards.check_budget(self.path, held, guards.HARMLESS_BYTES, f"'{full}'")
            _check_count(self.path, beside, self._contents.files[full])
            return read_whole(beside), dict(beside.attrs)

        return look


def read_whole(array: ZarrArray) -> Array:
    """Return all values of an array that was admitted."""
    return read_box(array, tuple(slice(0, n) for n in array.shape))


def open_store(path: Path) -> ZarrStore:
    """Read the metadata of a Zarr store."""
    contents = _list_contents(path)
    described = {name: describe_array(path, at) for name, at in contents.arrays.items()}
    packed = {codec.name for array in described.values() for codec in array.codecs}
    if packed - STANDARD and importlib.util.find_spec("numcodecs") is None:
        raise SceneError(
            f"{path}: reading Zarr packed with {', '.join(sorted(packed - STANDARD))} needs the "
            "package numcodecs, it is not installed; run pip install 'polyad[zarr]'"
        )
    return ZarrStore(path, described, contents)


def open_zarr(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open the 3-D array ``key`` of a Zarr store, or its only one."""
    store = open_store(path)
    cubes = {n: d.shape for n, d in store.arrays.items() if is_cube(d.shape)}
    name = hdf.choose_key(path, cubes) if key is None else key.strip("/")
    if name not in store.arrays:
        raise SceneError(f"{path}: no array '{name}'; its 3-D arrays are {', '.join(cubes)}")
    array = store.arrays[name]
    node, kept = three_axes(store.admit(name, budget))
    guards.check_shape(path, node.shape)

    def make(
        node: Node, axes: tuple[int, int, int], scale: float, offset: float, fill: float | None
    ) -> CubeSource:
        reader = KeptAxes(ZarrReader(array), kept, len(array.shape))
        return CubeSource(node.path, reader, node.shape, node.dtype, axes, scale, offset, fill)

    return open_cube(node, store.neighbors(name, budget), make)


def _fill_value(stated: Any, dtype: np.dtype) -> Any:
    """Return nodata; xarray writes that of real numbers as the bytes of a double, in base64."""
    if not isinstance(stated, str) or dtype.kind != "f":
        return stated
    try:
        return struct.unpack("<d", base64.b64decode(stated, validate=True))[0]
    except (ValueError, struct.error):  # another text
        return None


def _check_count(path: Path, array: ZarrArray, files: int) -> None:
    """Refuse far more chunks than files: each one that is missing is looked for all the same."""
    per_file = 1 if array.shard is None else np.prod(array.shard) / np.prod(array.chunks)
    if array.chunk_count > max(_FEW_CHUNKS, guards.MAX_INFLATION * files * per_file):
        raise SceneError(
            f"{path}: '{array.folder.name}' declares {array.chunk_count:,} chunks, the store has "
            f"{files:,} files of it; it is damaged or a decompression bomb, write it again"
        )


def _list_contents(path: Path) -> _Contents:
    """Visit every file of the store once; refuse links, pipes and two versions in one store."""
    contents, new, old = _Contents(), False, False
    folders: list[tuple[Path, str | None, int]] = [(path, None, 0)]
    count = told = 0
    while folders:
        here, inside, depth = folders.pop()
        entries = _entries(path, here, MAX_FILES - count)
        count += len(entries)
        names = {entry.name for entry in entries}
        new, old = new or "zarr.json" in names, old or bool(names & _OLD)
        if new and old:
            raise SceneError(
                f"{path}: has metadata of Zarr version 2 and of version 3, wanted one of them; "
                "remove the other, or write the store again"
            )
        told += sum(_metadata_bytes(entry) for entry in entries)
        if told > MAX_METADATA:
            raise SceneError(
                f"{path}: wanted at most {guards.human_bytes(MAX_METADATA)} of JSON in all of a "
                "Zarr store, got more; open the group with the scene alone"
            )
        if inside is None and _is_array(here, names):
            inside = here.relative_to(path).as_posix().removeprefix(".")
            contents.arrays[inside] = here
            contents.stored[inside] = contents.files[inside] = 0
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append((here / entry.name, inside, depth + 1))
            elif inside is not None:
                contents.stored[inside] += entry.stat(follow_symlinks=False).st_size
                contents.files[inside] += 1
        if depth > MAX_DEPTH or len(contents.arrays) > MAX_ARRAYS:
            raise SceneError(
                f"{path}: wanted a store of at most {MAX_ARRAYS} arrays, {MAX_DEPTH} folders deep; "
                "open the group with the scene alone"
            )
    return contents


def _entries(path: Path, folder: Path, most: int) -> list[os.DirEntry[str]]:
    entries: list[os.DirEntry[str]] = []
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.is_symlink():
                raise SceneError(
                    f"{path}: {entry.name} is a symbolic link, wanted all chunks inside the store; "
                    "refused, copy the files into it"
                )
            if not (entry.is_file() or entry.is_dir()):
                raise SceneError(
                    f"{path}: {entry.name} is neither a file nor a folder; refused, write the "
                    "store again"
                )
            entries.append(entry)
            if len(entries) > most:
                raise SceneError(
                    f"{path}: wanted a store of at most {MAX_FILES:,} files, got more; write it "
                    "with larger chunks"
                )
    return sorted(entries, key=lambda entry: entry.name)


def _metadata_bytes(entry: os.DirEntry[str]) -> int:
    """Return how much of a file `load_json` reads."""
    if entry.name not in ("zarr.json", ".zarray", ".zattrs"):
        return 0
    return min(METADATA_BYTES + 1, entry.stat(follow_symlinks=False).st_size)


def _is_array(folder: Path, names: set[str]) -> bool:
    if ".zarray" in names:
        return True
    return "zarr.json" in names and load_json(folder / "zarr.json").get("node_type") == "array"
