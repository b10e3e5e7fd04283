"""Zarr stores in a local folder (versions 2 and 3)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.errors import SceneError
from polyad.scene.formats import guards, hdf
from polyad.scene.formats.cf import CubeSource, Node, open_cube
from polyad.scene.formats.lazy import Array

# Only codecs that turn bytes into bytes or numbers. Others exist that unpickle, which runs code.
_CODECS = {
    "zlib", "gzip", "bz2", "lzma", "blosc", "zstd", "lz4", "shuffle", "delta", "bitround",
    "fixedscaleoffset", "quantize", "packbits", "crc32", "crc32c", "adler32", "fletcher32",
    "bytes", "endian", "transpose", "sharding_indexed",
}  # fmt: skip
_MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(path: Path) -> bool:
    """Tell whether a folder is a Zarr array or group."""
    return path.is_dir() and any((path / mark).is_file() for mark in _MARKS)


@dataclass(frozen=True)
class ZarrReader:
    """Reads a box of a Zarr array."""

    path: Path
    name: str

    def __call__(self, box: tuple[slice, slice, slice]) -> Array:
        """Return the values of ``box``, axes as in the store."""
        return np.asarray(_array(self.path, self.name)[box])


def open_zarr(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open the 3-D array ``key`` of a Zarr store, or its only one."""
    described = {name: _describe(path, name) for name in _names(path)}
    cubes = {n: d["shape"] for n, d in described.items() if len(d["shape"]) == 3}
    name = hdf.choose_key(path, cubes) if key is None else key.strip("/")
    if name not in described:
        raise SceneError(f"{path}: no array '{name}'; its 3-D arrays are {', '.join(cubes)}")
    guards.check_shape(path, described[name]["shape"])
    _check_codecs(path, described[name]["codecs"])
    array = _array(path, name)
    dtype = np.dtype(array.dtype)
    guards.check_numeric(path, dtype)
    declared = guards.declared_bytes(array.shape, dtype)
    guards.check_inflation(path, declared, _stored(path, path / name))
    guards.check_budget(path, guards.declared_bytes(array.chunks, dtype), budget, "a Zarr chunk")
    attrs = {"_FillValue": described[name]["fill"], **dict(array.attrs)}
    node = Node(path, name, tuple(array.shape), dtype, attrs, described[name]["dims"])

    def look(other: str) -> tuple[Array, dict[str, Any]] | None:
        full = "/".join([*name.split("/")[:-1], other]) if "/" in name else other
        if full not in described or len(described[full]["shape"]) > 1:
            return None
        _check_codecs(path, described[full]["codecs"])
        found = _array(path, full)
        guards.check_budget(
            path,
            guards.declared_bytes(found.shape, np.dtype(found.dtype)),
            guards.HARMLESS_BYTES,
            f"'{full}'",
        )
        return np.asarray(found[...]), dict(found.attrs)

    return open_cube(node, look, _zarr_source)


def _zarr_source(
    node: Node, axes: tuple[int, int, int], scale: float, offset: float, fill: float | None
) -> CubeSource:
    reader = ZarrReader(node.path, node.name)
    return CubeSource(node.path, reader, node.shape, node.dtype, axes, scale, offset, fill)


def _array(path: Path, name: str) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise SceneError(
            f"{path}: reading Zarr needs the package zarr, it is not installed; run "
            "pip install 'polyad[zarr]'"
        ) from error
    return zarr.open(str(path / name), mode="r")


def _names(path: Path) -> Iterator[str]:
    """Yield the name of every array in the store; '' for a store that is one array."""
    for folder, below, files in os.walk(path):  # does not follow links to folders
        if ".zarray" in files or "zarr.json" in files:
            here = Path(folder)
            if ".zarray" in files or _load(here / "zarr.json").get("node_type") == "array":
                below.clear()  # only chunks lie below an array
                yield here.relative_to(path).as_posix().removeprefix(".")


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError as error:
        raise SceneError(
            f"{path}: wanted the JSON of a Zarr store, it cannot be parsed ({error}); the store is "
            "damaged"
        ) from error
    return content if isinstance(content, dict) else {}


def _describe(path: Path, name: str) -> dict[str, Any]:
    """Return shape, codec names, dimension names and nodata of an array, either Zarr version."""
    folder = path / name
    new, old = _load(folder / "zarr.json"), _load(folder / ".zarray")
    if new:
        return {
            "shape": tuple(new.get("shape", ())),
            "codecs": _codec_names(new.get("codecs", [])),
            "dims": tuple(str(d or "") for d in new.get("dimension_names") or ()),
            "fill": None,  # Zarr 3 always has a fill value; only the attribute means nodata
        }
    attrs = _load(folder / ".zattrs")
    codecs = [old.get("compressor"), *(old.get("filters") or [])]
    return {
        "shape": tuple(old.get("shape", ())),
        "codecs": _codec_names(codecs),
        "dims": tuple(attrs.get("_ARRAY_DIMENSIONS", ())),
        # xarray writes nodata as the fill value of version 2; 0 is merely the default of zarr.
        "fill": old.get("fill_value") or None,
    }


def _codec_names(codecs: list[Any]) -> list[str]:
    found: list[str] = []
    for codec in filter(None, codecs):
        name = codec.get("name", codec.get("id", "")) if isinstance(codec, dict) else str(codec)
        found.append(str(name).removeprefix("numcodecs."))
        inside = codec.get("configuration") if isinstance(codec, dict) else None
        if isinstance(inside, dict):  # a sharding codec has codecs of its own
            found += _codec_names([*inside.get("codecs", []), *inside.get("index_codecs", [])])
    return found


def _check_codecs(path: Path, names: list[str]) -> None:
    unknown = sorted(set(names) - _CODECS)
    if unknown:
        raise SceneError(
            f"{path}: is packed with {', '.join(unknown)}, wanted one of the plain codecs "
            f"{', '.join(sorted(_CODECS))}; refused, write the store again"
        )


def _stored(path: Path, folder: Path) -> int:
    """Return the bytes below ``folder``; refuse symbolic links, which can lead anywhere."""
    total = 0
    for here, below, files in os.walk(folder):
        for name in (*below, *files):
            item = Path(here, name)
            if item.is_symlink():
                raise SceneError(
                    f"{path}: {item.name} is a symbolic link, wanted all chunks inside the store; "
                    "refused, copy the files into it"
                )
        total += sum(Path(here, name).stat().st_size for name in files)
    return total
