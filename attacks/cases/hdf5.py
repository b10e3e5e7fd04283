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

from attacks.cases import BUDGET, case

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


@case(5, says="inflates to more")
def gzip_beyond_its_chunk(folder: Path) -> list[str]:
    """24 x 24 x 8 values whose chunk declares 2 MiB; its gzip stream holds 2 GiB."""
    _labels(folder)
    with h5py.File(folder / "scene.nc", "w") as file:
        _bomb(file, "cube", (24, 24, 8), (2**8, 2**7, 2**6))
    return _train()


@case(5, says="shuffle before it")
def gzip_shuffled_afterwards(folder: Path) -> list[str]:
    """24 x 24 x 8 values whose gzip stream of 2 GiB is stored shuffled, as if damaged."""
    _labels(folder)
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((2**8, 2**7, 2**5))
    plan.set_deflate(9)
    plan.set_shuffle()
    space = h5py.h5s.create_simple((24, 24, 8), (h5py.h5s.UNLIMITED,) * 3)
    stream = deflated_zeros(MANY)
    whole = np.frombuffer(stream[: len(stream) // 2 * 2], np.uint8).reshape(-1, 2)
    shuffled = whole.T.tobytes() + stream[len(stream) // 2 * 2 :]
    with h5py.File(folder / "scene.nc", "w") as file:
        array = h5py.h5d.create(file.id, b"cube", h5py.h5t.STD_U16LE, space, plan)
        array.write_direct_chunk((0, 0, 0), shuffled)
    return _train()


@case(5, says="its compressed form takes")
def gzip_larger_than_its_chunk(folder: Path) -> list[str]:
    """24 x 24 x 8 values whose chunk declares 5 KiB and stores 2 MB."""
    _labels(folder)
    with h5py.File(folder / "scene.nc", "w") as file:
        _bomb(file, "cube", (24, 24, 8), (24, 24, 8))
    return _train()


@case(5, says="packed with deflate, deflate")
def gzip_in_gzip(folder: Path) -> list[str]:
    """Values deflated twice: a million times its size."""
    _labels(folder)
    with h5py.File(folder / "scene.nc", "w") as file:
        pipeline = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        pipeline.set_chunk((24, 24, 8))
        pipeline.set_deflate(9)
        pipeline.set_deflate(9)
        space = h5py.h5s.create_simple((24, 24, 8))
        kind = h5py.h5t.NATIVE_UINT8
        array = h5py.h5d.create(file.id, b"cube", kind, space, pipeline)
        array.write_direct_chunk((0, 0, 0), zlib.compress(deflated_zeros(MANY)))
    return _train()


@case(5, says="packed with")
def foreign_filter(folder: Path) -> list[str]:
    """Packed by a filter for which HDF5 would load a library from HDF5_PLUGIN_PATH."""
    with h5py.File(folder / "scene.nc", "w") as file:
        pipeline = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        pipeline.set_chunk((24, 24, 8))
        pipeline.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
        space = h5py.h5s.create_simple((24, 24, 8))
        array = h5py.h5d.create(file.id, b"cube", h5py.h5t.NATIVE_UINT8, space, pipeline)
        array.write_direct_chunk((0, 0, 0), b"x" * 100)
    return _info()


@case(5, says=None)
def chunks_of_a_pixel(folder: Path) -> list[str]:
    """Labels in 100,000 chunks of one pixel, for each of which HDF5 takes 6 kB while it reads."""
    np.save(folder / "scene.npy", np.random.default_rng(0).random((320, 320, 2)))
    with h5py.File(folder / "labels.nc", "w") as file:
        gt = file.create_dataset("gt", (320, 320), "u1", chunks=(1, 1))
        gt[0, :6] = 1, 2, 1, 2, 1, 2
    return ["train", "scene.npy", "labels.nc", *_LIMIT, "--out", "m.polyad"]


def _wavelength(folder: Path, chunk: int) -> list[str]:
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        _bomb(file, "wavelength", (8,), (chunk,))
    return _info()


@case(5, says="a chunk of '/wavelength'")
def wavelengths_in_a_huge_chunk(folder: Path) -> list[str]:
    """Eight wavelengths in a chunk of 2 GiB."""
    return _wavelength(folder, MANY)


@case(5, says="inflates to more")
def wavelengths_that_inflate(folder: Path) -> list[str]:
    """Eight wavelengths in a chunk of 4 MiB whose gzip stream holds 2 GiB."""
    return _wavelength(folder, 2**22)


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
    case(5, says="inflates to more")(_hdf_labels(_name, (2**11, 2**10)))


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


@case(5, says="too much memory|its metadata must be read at once|the attribute 'units'")
def one_text_3000_times(folder: Path) -> list[str]:
    """Units of the wavelengths: 3,000 references to one text of 2 MB."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        file["wavelength"] = np.linspace(400, 900, 8)
    same_text(folder / "scene.nc", "wavelength", "units", 3000, 2_000_000)
    return _info()


@case(5, says="too much memory|its metadata must be read at once|the attribute 'class_names'")
def one_class_name_3000_times(folder: Path) -> list[str]:
    """Names of classes: 3,000 references to one text of 2 MB."""
    _scene(folder)
    with h5py.File(folder / "labels.nc", "w") as file:
        gt = file.create_dataset("gt", data=np.eye(24, dtype=np.uint8))
        gt.attrs["class_values"] = np.arange(3000)
    same_text(folder / "labels.nc", "gt", "class_names", 3000, 2_000_000)
    return ["train", "scene.npy", "labels.nc", *_LIMIT]


@case(5, says="too much memory|its metadata must be read at once")
def endless_reference_system(folder: Path) -> list[str]:
    """Text of 100 MB as reference system, in a heap that HDF5 would read and copy whole."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        file.create_dataset("crs", data=0).attrs["crs_wkt"] = "P" * 100_000_000
    return _info()


@case(5, says="too much memory|its metadata must be read at once")
def many_scales_on_an_axis(folder: Path) -> list[str]:
    """DIMENSION_LIST with a million references for an axis."""
    with h5py.File(folder / "scene.nc", "w") as file:
        cube = file.create_dataset("cube", data=_CUBE)
        file["y"] = np.arange(24.0)
        kind = h5py.vlen_dtype(h5py.ref_dtype)
        lists = np.empty(3, object)
        lists[:] = [
            np.full(1_000_000 if k == 0 else 1, file["y"].ref, h5py.ref_dtype) for k in range(3)
        ]
        cube.attrs.create("DIMENSION_LIST", lists, dtype=kind)
    return _info()


@case(8, says="a heap of texts|took more than")
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


@case(5, says="too much memory")
def attributes_nobody_asked_for(folder: Path) -> list[str]:
    """Cube with an attribute of 3,000 references to one text of 2 MB that has no meaning."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
    same_text(folder / "scene.nc", "cube", "history", 3000, 2_000_000)
    return _info()


@case(5, says=None)
def text_of_a_gigabyte_as_wavelength(folder: Path) -> list[str]:
    """Wavelengths that are texts of 1 GiB each, in one chunk."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        file.create_dataset("wavelength", (8,), "S1000000000", chunks=(1,), compression="gzip")
    return _info()


@case(8, says="groups inside each other")
def nested_groups(folder: Path) -> list[str]:
    """2,000 groups inside each other."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        group = file
        for _ in range(2000):
            group = group.create_group("g")
    return _info()


@case(8, says="groups and arrays")
def many_groups(folder: Path) -> list[str]:
    """11,000 empty groups."""
    with h5py.File(folder / "scene.nc", "w") as file:
        file["cube"] = _CUBE
        for k in range(11_000):
            h5py.h5g.create(file.id, b"g%d" % k)
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


def _emit_with(name: str, value: Any, says: str | None, *, of_cube: bool = False) -> None:
    def make(folder: Path) -> list[str]:
        with h5py.File(folder / "emit.nc", "w") as file:
            file["reflectance"] = np.ones((4, 3, 5), np.float32)
            for table in ("glt_y", "glt_x"):
                file[f"location/{table}"] = np.ones((4, 3), np.int32)
            (file["reflectance"] if of_cube else file).attrs[name] = value
        return _info("emit.nc")

    make.__name__ = f"emit_{name.strip('_').lower()}_{_word(value)}"
    make.__doc__ = f"EMIT whose attribute {name} is {str(value)[:40]!r}."
    case(10, says=says)(make)


def _word(value: Any) -> str:
    if isinstance(value, str | h5py.Empty):
        return "text" if isinstance(value, str) else "null"
    flat = np.ravel(value).astype(float)
    return "empty" if not flat.size else f"{flat[0]:g}".replace("-", "minus_").replace("+", "")


_emit_with("_FillValue", np.empty(0, np.float32), None, of_cube=True)
_emit_with("_FillValue", "none", None, of_cube=True)
_emit_with("_FillValue", np.float64(1e300), None, of_cube=True)
_emit_with("geotransform", "10 0.1 0 45 0 -0.1", "wanted 6 numbers in 'geotransform'")
_emit_with("geotransform", np.empty(0), None)
_emit_with("geotransform", np.full(6, np.inf), "a place on the map in finite numbers")
_emit_with("geotransform", np.zeros(6), "a place on the map in finite numbers")


def _prisma_with(name: str, value: Any, says: str) -> None:
    def make(folder: Path) -> list[str]:
        with h5py.File(folder / "prisma.he5", "w") as file:
            fields = file.create_group("HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields")
            for detector in ("Vnir", "Swir"):
                fields[f"{detector.upper()}_Cube"] = np.ones((4, 3, 5), np.uint16)
                file.attrs[f"List_Cw_{detector}"] = np.float32([700, 550, 0])
                file.attrs[f"L2Scale{detector}Min"] = np.float32(0)
                file.attrs[f"L2Scale{detector}Max"] = np.float32(1)
            file.attrs["Epsg_Code"] = np.int64(32632)
            for corner, east, north in (("UL", 352755, 5987235), ("LR", 352905, 5987115)):
                file.attrs[f"Product_{corner}corner_easting"] = np.float32(east)
                file.attrs[f"Product_{corner}corner_northing"] = np.float32(north)
            file.attrs[name] = value
        return _info("prisma.he5")

    make.__name__ = f"prisma_{name.lower()}_{_word(value)}"
    make.__doc__ = f"PRISMA whose attribute {name} is {str(value)[:40]!r}."
    case(10, says=says)(make)


for _attribute in ("Epsg_Code", "List_Cw_Vnir", "L2ScaleSwirMax", "Product_ULcorner_easting"):
    for _value in (np.empty(0, np.float32), np.float32(np.inf), np.float32(np.nan), "north"):
        _prisma_with(_attribute, _value, f"finite numbers in the attribute '{_attribute}'")
_prisma_with("Epsg_Code", np.float64(1e18), "reference")
_prisma_with("Product_LRcorner_easting", np.float32(352755), "pixels of some size")
_prisma_with("L2ScaleSwirMax", h5py.Empty("f4"), "finite numbers in the attribute")
_prisma_with("List_Cw_Vnir", np.ones((2, 2)), "wavelengths, widths and flags, one per band")


def _cube_of(kind: str, value: float) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _labels(folder)
        values = np.random.default_rng(0).random((24, 24, 8))
        values = (values > 0.5 if np.dtype(kind) == bool else values).astype(kind)
        values[3:5] = np.asarray(value).astype(kind)
        values[0, 0] = np.asarray(value).astype(kind)
        with h5py.File(folder / "scene.nc", "w") as file:
            file["cube"] = values
        return [*_train(), "--out", "m.polyad"]

    make.__name__ = f"values_{np.dtype(kind).name}_{_word(value)}"
    make.__doc__ = f"A cube of {np.dtype(kind).name} with {value:g} among its values."
    return make


for _kind, _number in (("g", 0.5), ("g", 1e300), ("f8", 1e300), ("f8", -1e300), ("f2", 6e4),
                       (">f8", 0.5), ("?", 1), ("u8", 1.8e19)):  # fmt: skip
    case(10, says=None)(_cube_of(_kind, _number))


def _wavelengths_of(name: str, values: Any) -> None:
    def make(folder: Path) -> list[str]:
        with h5py.File(folder / "scene.nc", "w") as file:
            file["cube"] = _CUBE
            file["wavelength"] = values
        return _info()

    make.__name__ = f"wavelengths_{name}"
    make.__doc__ = f"Wavelengths that are {name.replace('_', ' ')}."
    case(10, says=None)(make)


_wavelengths_of("not_a_number", np.full(8, np.nan))
_wavelengths_of("infinite", np.full(8, np.inf))
_wavelengths_of("negative", np.full(8, -1.0))
_wavelengths_of("words", ["red"] * 8)
_wavelengths_of("complex", np.full(8, 1j))
_wavelengths_of("square", np.ones((8, 8)))
_wavelengths_of("too_few", np.ones(3))
_wavelengths_of("nothing", h5py.Empty("f8"))
