"""HDF5, NetCDF-4, EMIT, PRISMA and MATLAB 7.3: little in the file, much to decode or to visit."""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from attacks.cases import BUDGET, EITHER, case

MANY = 2**31  # bytes that a bomb inflates to
_LIMIT = ["--max-bytes", str(BUDGET)]
_CUBE = np.arange(24 * 24 * 8, dtype=np.float32).reshape(24, 24, 8)


def deflated_zeros(count: int) -> bytes:
    """Return a zlib stream of ``count`` zeros, a multiple of 2**20, without making them."""
    packer = zlib.compressobj(9)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = b"\x03\x00" + struct.pack(">I", (count % 65521) << 16 | 1)  # last block, Adler-32
    return head + block * (count // 2**20) + end


def _info(name: str = "scene.nc") -> list[str]:
    return ["info", name, *_LIMIT]


def _train(name: str = "scene.nc") -> list[str]:
    return ["train", name, "labels.npy", *_LIMIT]


def _labels(folder: Path, shape: tuple[int, int] = (24, 24)) -> None:
    ids = np.zeros(shape, np.uint8)
    ids[0, :5], ids[-1, -5:] = 1, 2
    np.save(folder / "labels.npy", ids)


def _bomb(group: h5py.Group, name: str, shape: tuple[int, ...], chunk: tuple[int, ...]) -> Any:
    """Add an array of bytes whose one chunk inflates to `MANY`, whatever it declares."""
    options: dict[str, Any] = {"maxshape": (None,) * len(shape), "compression": "gzip"}
    array = group.create_dataset(name, shape, "u1", chunks=chunk, **options)
    array.id.write_direct_chunk((0,) * len(shape), deflated_zeros(MANY))
    return array


@case(5, says="a chunk of '/cube'")
def chunk_beyond_the_budget(folder: Path) -> list[str]:
    """24 x 24 x 8 values whose one gzip chunk declares and holds 2 GiB."""
    _labels(folder)
    with h5py.File(folder / "scene.nc", "w") as file:
        _bomb(file, "cube", (24, 24, 8), (2**11, 2**10, 2**10))
    return _train()


@case(5, says=EITHER)
def gzip_beyond_its_chunk(folder: Path) -> list[str]:
    """24 x 24 x 8 values whose chunk declares 2 MiB; its gzip stream holds 2 GiB."""
    _labels(folder)
    with h5py.File(folder / "scene.nc", "w") as file:
        _bomb(file, "cube", (24, 24, 8), (2**8, 2**7, 2**6))
    return _train()


@case(5, says=None)
def chunks_of_a_pixel(folder: Path) -> list[str]:
    """Labels in 100,000 chunks of one pixel, for each of which HDF5 takes 6 kB while it reads."""
    np.save(folder / "scene.npy", np.random.default_rng(0).random((320, 320, 2)))
    with h5py.File(folder / "labels.nc", "w") as file:
        gt = file.create_dataset("gt", (320, 320), "u1", chunks=(1, 1))
        gt[0, :6] = 1, 2, 1, 2, 1, 2
    return ["train", "scene.npy", "labels.nc", *_LIMIT, "--out", "m.polyad"]


def _scene(folder: Path) -> None:
    np.save(folder / "scene.npy", np.random.default_rng(0).random((24, 24, 3)))


def _hdf_labels(name: str, chunk: tuple[int, int]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _scene(folder)
        with h5py.File(folder / name, "w") as file:
            _bomb(file, "gt", (24, 24), chunk)
        return ["train", "scene.npy", name, *_LIMIT]

    make.__name__ = (
        f"labels_{'in_a_huge_chunk' if chunk[0] > 2**11 else 'that_inflate'}_{name[-2:]}"
    )
    make.__doc__ = f"Labels of 24 x 24 in {name} with a chunk of {chunk} and 2 GiB in it."
    return make


for _name in ("labels.h5", "labels.mat"):
    case(5, says="a chunk of '/gt'")(_hdf_labels(_name, (2**16, 2**15)))
    case(5, says=EITHER)(_hdf_labels(_name, (2**11, 2**10)))


def same_text(path: Path, holder: str, name: str, count: int, length: int) -> None:
    """Give ``holder`` an attribute of ``count`` texts that are all one text of ``length`` bytes."""
    with h5py.File(path, "r+") as file:
        item = file[holder]
        item.attrs.create(name, ["x"] * count, dtype=h5py.string_dtype())
        item.attrs.create("long", "m" * length, dtype=h5py.string_dtype())
    content = path.read_bytes()
    # A text is kept as its length, the address of its heap and its place there.
    (long,) = re.findall(re.escape(struct.pack("<I", length)) + rb".{6}\0\0.\0\0\0", content, re.S)
    short = struct.pack("<I", 1) + rb".{6}\0\0.{2}\0\0"
    path.write_bytes(re.sub(rb"(?:%b){%d}" % (short, count), long * count, content, flags=re.S))


@case(5, says=EITHER)
def one_text_3000_times(folder: Path) -> list[str]:
    """Units of the wavelengths: 3,000 references to one text of 2 MB."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        file["wavelength"] = np.linspace(400, 900, 8)
    same_text(folder / "scene.nc", "wavelength", "units", 3000, 2_000_000)
    return _info()


@case(5, says=EITHER)
def endless_reference_system(folder: Path) -> list[str]:
    """Text of 100 MB as reference system, in a heap that HDF5 would read and copy whole."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        file.create_dataset("crs", data=0).attrs["crs_wkt"] = "P" * 100_000_000
    return _info()


@case(8, says="took more than")
def heap_without_end(folder: Path) -> list[str]:
    """Texts in a heap whose free space has the size 0, in which HDF5 goes round for good."""
    path = folder / "scene.nc"
    with h5py.File(path, "w") as file:
        file["cube"] = _CUBE
        file.create_dataset("crs", data=0).attrs["crs_wkt"] = "EPSG:32632"
    content = bytearray(path.read_bytes())
    free = content.index(b"GCOL") + 16 + 16 + 16  # behind its head, one object and its text
    content[free : free + 16] = bytes(16)
    path.write_bytes(content)
    return _info()


@case(8, says=None)
def groups_in_a_circle(folder: Path) -> list[str]:
    """Twenty groups that hold each other by hard links, so that paths never end."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        groups = [file.create_group(f"g{k}") for k in range(20)]
        for one in groups:
            for k, other in enumerate(groups):
                one[f"h{k}"] = other
    return _info()


def _swath(
    file: h5py.File, shape: tuple[int, int, int], chunk: tuple[int, int, int], packed: bytes
) -> None:
    """Add a cube all of whose chunks are ``packed``."""
    options: dict[str, Any] = {"chunks": chunk, "compression": "gzip"}
    cube = file.create_dataset("reflectance", shape, "f4", **options)
    for corner in itertools.product(*(range(0, n, k) for n, k in zip(shape, chunk, strict=True))):
        cube.id.write_direct_chunk(corner, packed)


def _halves(folder: Path) -> None:
    np.save(folder / "labels.npy", np.repeat(np.uint8([1, 2]), 12 * 24).reshape(24, 24))


@case(5, says=None)
def lookup_table_of_opposite_corners(folder: Path) -> list[str]:
    """EMIT whose lookup table sends neighbors to opposite corners of a swath of 2 GB."""
    _halves(folder)
    rng = np.random.default_rng(0)
    tile = np.zeros((256, 256, 32), np.float32)
    tile[:, :, :2] = rng.integers(0, 9, (256, 256, 2))
    with h5py.File(folder / "emit.nc", "w") as file:
        _swath(file, (2048, 2048, 128), tile.shape, zlib.compress(tile.tobytes(), 1))
        corner = np.indices((24, 24)).sum(axis=0) % 2
        file["location/glt_y"] = np.where(corner, 2048, 1).astype("i4")
        file["location/glt_x"] = np.where(corner, 2048, 1).astype("i4")
    return ["train", "emit.nc", "labels.npy", *_LIMIT, "--out", "m.polyad"]


@case(5, says="points all over the swath")
def lookup_table_all_over(folder: Path) -> list[str]:
    """EMIT whose lookup table sends each pixel somewhere else in a swath of 2 GB."""
    _halves(folder)
    rng = np.random.default_rng(0)
    packed = deflated_zeros(512 * 512 * 32 * 4) + bytes(150_000)  # as large as an honest one
    with h5py.File(folder / "emit.nc", "w") as file:
        _swath(file, (2048, 2048, 128), (512, 512, 32), packed)
        for name in ("glt_y", "glt_x"):
            file[f"location/{name}"] = rng.integers(1, 2049, (24, 24)).astype("i4")
    return ["train", "emit.nc", "labels.npy", *_LIMIT, "--out", "m.polyad"]
