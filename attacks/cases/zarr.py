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

from attacks.cases import BUDGET, SECRET, case
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


@case(4, says="version 2 and of version 3")
def pickle_beside_a_decoy(folder: Path) -> list[str]:
    """Array with a pickle filter whose zarr.json of version 3 says nothing of it."""
    place = old(folder, filters=[{"id": "pickle"}])
    new(folder)
    (place / "0.0.0").write_bytes(b"cos\nsystem\n(S'touch ../hurt'\ntR.")
    return info("s.zarr")


@case(4, says="version 2 and of version 3")
def both_kinds_in_a_coordinate(folder: Path) -> list[str]:
    """Good cube, beside it wavelengths with metadata of both versions."""
    whole(old(folder))
    place = old(folder, "wavelength", shape=[1], chunks=[1], filters=[{"id": "pickle"}])
    (place / "zarr.json").write_text("{}")
    return info("s.zarr")


@case(4, says="packed with pickle")
def pickle_in_a_coordinate(folder: Path) -> list[str]:
    """Good cube, beside it wavelengths of objects that are unpickled."""
    whole(old(folder))
    old(folder, "wavelength", shape=[1], chunks=[1], dtype="|O", filters=[{"id": "pickle"}])
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


@case(4, says="does not hold integer or real values")
def objects(folder: Path) -> list[str]:
    """Array of Python objects."""
    old(folder, dtype="|O")
    return info("s.zarr")


@case(4, says="storage transformers")
def storage_transformers(folder: Path) -> list[str]:
    """Array of version 3 with a storage transformer."""
    new(folder, storage_transformers=[{"name": "x"}])
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
        case(5, says="chunk|cannot be read")(_bomb(_kind, _name))


@case(5, says="a Zarr chunk")
def chunk_of_gigabytes(folder: Path) -> list[str]:
    """Small array whose only chunk is declared as 4.4 GB."""
    place = old(folder, chunks=[16384, 16384, 16], compressor={"id": "zlib"})
    (place / "0.0.0").write_bytes(zlib.compress(bytes(10**6)))
    return info("s.zarr")


@case(5, says="a Zarr chunk")
def chunk_of_gigabytes_in_a_coordinate(folder: Path) -> list[str]:
    """One wavelength in a chunk of 4 GB."""
    whole(new(folder))
    grid = {"name": "regular", "configuration": {"chunk_shape": [GIGA]}}
    new(folder, "wavelength", shape=[1], chunk_grid=grid, data_type="float32")
    return info("s.zarr")


@case(5, says="'wavelength' must be read at once")
def coordinate_of_gigabytes(folder: Path) -> list[str]:
    """Wavelengths by the milliard, in small chunks of which none is there."""
    whole(old(folder))
    old(folder, "wavelength", shape=[GIGA], chunks=[1000], dtype="<f8")
    return info("s.zarr")


@case(5, says="a Zarr chunk|shard's index")
def shard_of_too_many_chunks(folder: Path) -> list[str]:
    """Shard with an index of gigabytes."""
    inner = {"chunk_shape": [1, 1, 1], "codecs": [{"name": "bytes"}],
             "index_codecs": [{"name": "bytes"}]}  # fmt: skip
    grid = {"name": "regular", "configuration": {"chunk_shape": [1024, 1024, 1024]}}
    new(folder, chunk_grid=grid, codecs=[{"name": "sharding_indexed", "configuration": inner}])
    return info("s.zarr")


@case(5, says="declares .* instead of|shorter than its index")
def shard_whose_index_lies(folder: Path) -> list[str]:
    """Shard whose index says that a chunk has 2**63 bytes."""
    inner = {"chunk_shape": SHAPE, "codecs": [{"name": "bytes"}],
             "index_codecs": [{"name": "bytes"}]}  # fmt: skip
    place = new(folder, codecs=[{"name": "sharding_indexed", "configuration": inner}])
    whole(place)
    (place / "c/0/0/0").write_bytes(bytes(300) + struct.pack("<QQ", 1, 2**63))
    return _read(folder)


@case(5, says="makes no numbers")
def filter_that_makes_texts(folder: Path) -> list[str]:
    """Filter that turns each number into a text of a million characters."""
    wide = {"id": "fixedscaleoffset", "dtype": "<U1000000", "astype": "|u1", "scale": 1}
    whole(old(folder, filters=[wide | {"offset": 0}]))
    return info("s.zarr")


@case(5, says="bits|bytes instead")
def filter_that_makes_bits(folder: Path) -> list[str]:
    """Row of filters that unpack bits, eight times as many each time."""
    place = old(folder, filters=[{"id": "packbits"}] * 12)
    (place / "0.0.0").write_bytes(bytes(512))
    return _read(folder)


@case(5, says="JSON in all of a Zarr store")
def attributes_of_many_arrays(folder: Path) -> list[str]:
    """Good cube, beside it 30 arrays with the same four megabytes of attributes, hard links."""
    whole(new(folder))
    first = new(folder, "a0", attributes={"x": [[]] * 900_000}) / "zarr.json"
    for k in range(1, 30):
        (folder / f"s.zarr/a{k}").mkdir()
        os.link(first, folder / f"s.zarr/a{k}/zarr.json")
    return info("s.zarr")


# Time


def _shard(folder: Path, side: int, entry: bytes) -> None:
    """Write a shard of side x side chunks of one byte, all with the same entry in its index."""
    inner = {"chunk_shape": [1, 1, 1], "codecs": [{"name": "bytes"}],
             "index_codecs": [{"name": "bytes"}]}  # fmt: skip
    grid = {"name": "regular", "configuration": {"chunk_shape": [side, side, 1]}}
    sharding = [{"name": "sharding_indexed", "configuration": inner}]
    place = new(folder, shape=[side, side, 1], chunk_grid=grid, codecs=sharding)
    whole(place)
    (place / "c/0/0/0").write_bytes(bytes(1) + entry * side**2)
    np.save(folder / "scene.npy", np.zeros((side, side, 3), np.uint8))


@case(8, says="no pixel is labeled")
def shard_of_missing_chunks(folder: Path) -> list[str]:
    """Labels in a shard of a million chunks, all of them missing."""
    _shard(folder, 1000, b"\xff" * 16)
    return ["train", "scene.npy", "s.zarr", "--max-bytes", str(BUDGET)]


@case(8, says="chunks to unpack")
def shard_of_one_chunk_many_times(folder: Path) -> list[str]:
    """Labels in a shard whose million chunks are the same byte."""
    _shard(folder, 1000, struct.pack("<QQ", 0, 1))
    return ["train", "scene.npy", "s.zarr", "--max-bytes", str(BUDGET)]


@case(8, says="chunks, the store has")
def chunks_that_are_not_there(folder: Path) -> list[str]:
    """Array of 1e9 chunks of one byte, of which one file is there, made long by its end."""
    place = old(folder, shape=[1000, 1000, 1000], chunks=[1, 1, 1])
    with (place / "0.0.0").open("wb") as file:
        file.truncate(6 * 10**6)
    return info("s.zarr")


@case(8, says="cannot be parsed|at most")
def metadata_nested_deeply(folder: Path) -> list[str]:
    """Metadata of a hundred thousand brackets."""
    (old(folder) / ".zarray").write_text('{"shape": ' + "[" * 100_000)
    return info("s.zarr")


@case(8, says="at most 4.0 MiB of JSON")
def metadata_of_gigabytes(folder: Path) -> list[str]:
    """Metadata file of 3 GB, sparse."""
    with (old(folder) / ".zarray").open("wb") as file:
        file.truncate(3 * GIGA)
    return info("s.zarr")


@case(8, says="at most 1000 arrays")
def folders_nested_deeply(folder: Path) -> list[str]:
    """Store of 200 folders in each other."""
    whole(old(folder))
    (folder / "s.zarr" / "/".join("abcdefghij" * 20)).mkdir(parents=True)
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
def coordinate_links_out(folder: Path) -> list[str]:
    """Good cube, beside it a coordinate that is a link to an outside folder."""
    whole(old(folder))
    (folder / "s.zarr" / "wavelength").symlink_to(folder.parent)
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


def _nonsense(number: int, changes: dict[str, Any]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        whole(old(folder))
        text = (folder / "s.zarr/cube/.zarray").read_text()
        (folder / "s.zarr/cube/.zarray").write_text(json.dumps(json.loads(text) | changes))
        return _read(folder)

    make.__name__ = f"nonsense_{number}"
    make.__doc__ = f"Array whose metadata says {json.dumps(changes)[:70]}."
    return make


for _number, _changes in enumerate(
    [
        {"shape": [-8, 8, 1]}, {"shape": "888"}, {"shape": [8.5, 8, 1]}, {"shape": [10**40, 8, 1]},
        {"shape": [0, 8, 1]}, {"shape": None}, {"chunks": [0, 8, 1]}, {"chunks": [8, 8]},
        {"dtype": [["a", "<f4"]]}, {"dtype": "<f16"}, {"dtype": "M8[ns]"}, {"dtype": {}},
        {"fill_value": {}}, {"fill_value": 1e300}, {"fill_value": "x"}, {"compressor": []},
        {"filters": 5}, {"dimension_separator": "/../"}, {"compressor": {"id": None}},
    ]
):  # fmt: skip
    case(10, says="damaged|wanted|hold|packed|axes|no array|cannot")(_nonsense(_number, _changes))


def random_bytes(seed: int) -> bytes:
    """Return 300 random bytes."""
    return bytes(np.random.default_rng(seed).integers(0, 256, 300, dtype=np.uint8))


@case(10, says="cannot be read")
def chunk_of_noise(folder: Path) -> list[str]:
    """Chunk of random bytes where Blosc wants its header."""
    (old(folder, compressor={"id": "blosc"}) / "0.0.0").write_bytes(random_bytes(0))
    return _read(folder)
