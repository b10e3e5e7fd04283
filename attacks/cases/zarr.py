"""Zarr stores that run code, unpack without bound or lead out of their folder."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attacks.cases import EITHER, SECRET, case
from attacks.cases.opening import info, train

GIGA = 2**30
SHAPE = [8, 8, 1]  # of a scene of one band, which may be labels too


def old(folder: Path, name: str = "cube", **changes: Any) -> Path:
    """Write an array of version 2 into the store ``s.zarr`` and return its folder."""
    store = folder / "s.zarr"
    place = store / name
    place.mkdir(parents=True, exist_ok=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    meta = {"zarr_format": 2, "shape": SHAPE, "chunks": SHAPE, "dtype": "|u1", "order": "C",
            "fill_value": 0, "compressor": None, "filters": None}  # fmt: skip
    (place / ".zarray").write_text(json.dumps(meta | changes))
    return place


def new(folder: Path, name: str = "cube", **changes: Any) -> Path:
    """Write an array of version 3 into the store ``s.zarr`` and return its folder."""
    store = folder / "s.zarr"
    place = store / name
    place.mkdir(parents=True, exist_ok=True)
    (store / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    grid = {"name": "regular", "configuration": {"chunk_shape": SHAPE}}
    meta = {"zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": "uint8",
            "chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
            "codecs": [{"name": "bytes"}], "attributes": {}}  # fmt: skip
    (place / "zarr.json").write_text(json.dumps(meta | changes))
    return place


def whole(place: Path) -> None:
    """Put an honest chunk into an array of 8 x 8 x 1 bytes."""
    name = place / ("0.0.0" if (place / ".zarray").exists() else "c/0/0/0")
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_bytes(bytes(range(64)))


def _read(folder: Path) -> list[str]:
    """Return a command that reads the pixels, as labels: that is quickest."""
    return train(folder, "s.zarr")


# Code


@case(4, says="packed with|not allowed|version")
def pickle_beside_a_decoy(folder: Path) -> list[str]:
    """Array with a pickle filter whose zarr.json of version 3 says nothing of it."""
    place = old(folder, filters=[{"id": "pickle"}])
    new(folder)
    (place / "0.0.0").write_bytes(b"cos\nsystem\n(S'touch ../hurt'\ntR.")
    return info("s.zarr")


@case(4, says="packed with numcodecs_plugin")
def unknown_codec(folder: Path) -> list[str]:
    """Array of version 3 with a codec that would be looked for among installed packages."""
    new(folder, codecs=[{"name": "bytes"}, {"name": "numcodecs_plugin"}])
    return info("s.zarr")


@case(4, says="packed with pickle")
def pickle_inside_a_shard(folder: Path) -> list[str]:
    """Array of version 3 whose shards are packed with pickle inside."""
    inner = [{"name": "bytes"}, {"name": "numcodecs.pickle"}]
    settings = {"chunk_shape": SHAPE, "codecs": inner, "index_codecs": [{"name": "bytes"}]}
    new(folder, codecs=[{"name": "sharding_indexed", "configuration": settings}])
    return info("s.zarr")


@case(4, says=None)
def consolidated_metadata_that_lies(folder: Path) -> list[str]:
    """Good cube, and a .zmetadata that says it is pickled; only the array's own counts."""
    whole(old(folder))
    lie = {"shape": SHAPE, "chunks": SHAPE, "filters": [{"id": "pickle"}]}
    text = json.dumps({"zarr_consolidated_format": 1, "metadata": {"cube/.zarray": lie}})
    (folder / "s.zarr" / ".zmetadata").write_text(text)
    return info("s.zarr")


# Memory


def _blosc(size: int) -> bytes:
    return struct.pack("<BBBBIII", 2, 1, 0x02, 1, size, size, 16 + 64) + bytes(64)


def _zeros(pack: Callable[..., Any]) -> bytes:
    """Pack many zeros: twice, since what is packed once is still a megabyte."""
    return bytes(pack(bytes(64 * 2**20)))


BOMBS: dict[str, tuple[dict[str, Any], Callable[[], bytes]]] = {
    "gzip": ({"id": "gzip"}, lambda: _zeros(lambda b: gzip.compress(b, 1)) * 20),
    "zlib": ({"id": "zlib"}, lambda: _zeros(lambda b: zlib.compress(b, 1))),
    "bz2": ({"id": "bz2"}, lambda: bz2.compress(bytes(8 * 2**20))),
    "lzma": ({"id": "lzma"}, lambda: lzma.compress(bytes(8 * 2**20), preset=0)),
    "lz4": ({"id": "lz4"}, lambda: struct.pack("<i", 2**31 - 1) + bytes(100)),
    "zstd": ({"id": "zstd"}, lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 4 * GIGA)),
    "zstd_unsized": ({"id": "zstd"}, lambda: b"\x28\xb5\x2f\xfd\x00\x58" + b"\x02\xff\x7f\0" * 99),
    "blosc": ({"id": "blosc"}, lambda: _blosc(2 * GIGA - 17)),
}


def _bomb(kind: str, name: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        codec, content = BOMBS[kind]
        if name == "cube":
            (old(folder, compressor=codec) / "0.0.0").write_bytes(content())
            return _read(folder)
        whole(old(folder))
        place = old(folder, name, shape=[1], chunks=[1], dtype="<f4", compressor=codec)
        (place / "0").write_bytes(content())
        return info("s.zarr")

    make.__name__ = f"{kind}_bomb_in_{name}"
    make.__doc__ = f"Chunk of a few bytes in '{name}' that {kind} makes gigabytes of."
    return make


for _kind in BOMBS:
    for _name in ("cube", "wavelength"):
        case(5, says=EITHER)(_bomb(_kind, _name))


@case(5, says="a Zarr chunk")
def chunk_of_gigabytes(folder: Path) -> list[str]:
    """Small array whose only chunk is declared as 4.4 GB."""
    place = old(folder, chunks=[16384, 16384, 16], compressor={"id": "zlib"})
    (place / "0.0.0").write_bytes(zlib.compress(bytes(10**6)))
    return info("s.zarr")


# Time


@case(8, says=EITHER)
def metadata_of_gigabytes(folder: Path) -> list[str]:
    """Metadata file of 3 GB, sparse."""
    with (old(folder) / ".zarray").open("wb") as file:
        file.truncate(3 * GIGA)
    return info("s.zarr")


# Other files


@case(9, says="is a symbolic link")
def wavelength_chunk_links_out(folder: Path) -> list[str]:
    """Good cube, beside it wavelengths whose chunk is a link to an outside file."""
    whole(old(folder))
    place = old(folder, "wavelength", shape=[1], chunks=[1])
    (place / "0").symlink_to(folder.parent / SECRET)
    return info("s.zarr")


@case(9, says="is a symbolic link")
def metadata_links_out(folder: Path) -> list[str]:
    """Array whose metadata is a link to an outside file."""
    place = old(folder)
    (place / ".zarray").unlink()
    (place / ".zarray").symlink_to(folder.parent / SECRET)
    return info("s.zarr")


@case(9, says="neither a file nor a folder")
def pipe_as_chunk(folder: Path) -> list[str]:
    """Good cube, beside it wavelengths whose chunk is a named pipe."""
    whole(old(folder))
    os.mkfifo(old(folder, "wavelength", shape=[1], chunks=[1]) / "0")
    return info("s.zarr")


@case(9, says=None)
def names_that_lead_out(folder: Path) -> list[str]:
    """Cube whose dimensions and grid mapping are paths; they name nothing in the store."""
    place = old(folder)
    whole(place)
    attrs = {"_ARRAY_DIMENSIONS": ["../..", f"../../../{SECRET}", "/etc"], "coordinates": "/etc"}
    (place / ".zattrs").write_text(json.dumps(attrs | {"grid_mapping": "../../.."}))
    return info("s.zarr")


# Nonsense


def random_bytes(seed: int) -> bytes:
    """Return 300 random bytes."""
    return bytes(np.random.default_rng(seed).integers(0, 256, 300, dtype=np.uint8))


@case(10, says="cannot be read")
def chunk_of_noise(folder: Path) -> list[str]:
    """Chunk of random bytes where Blosc wants its header."""
    (old(folder, compressor={"id": "blosc"}) / "0.0.0").write_bytes(random_bytes(0))
    return _read(folder)
