"""Memory and time are bounded, whatever a file declares or unpacks to."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from attacks import formats
from attacks.cases import EITHER, case
from attacks.formats import (
    LIMIT,
    SHORT,
    XML,
    command,
    deflated_zeros,
    good,
    info,
    train,
    write_zarr,
)
from attacks.vectors import point, write

GIGA = 2**30
_ASCII, _SHORT, _LONG = 2, 3, 4


def sparse(path: Path, head: bytes, size: int) -> None:
    """Write a file that begins with ``head`` and is padded with zeros that take no room."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


# TIFF


def tiff(tags: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Return a TIFF of one directory: tag, type, count and value or place of each entry."""
    entries = b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags))
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4)


def image(*changed: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """Return the tags of 8 x 8 bytes in one strip, others in place of some."""
    tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 8, 279: 64, 284: 1}
    kinds = {tag: _SHORT if tag in (258, 259, 262, 277, 284) else _LONG for tag in tags}
    found = {tag: (tag, kinds[tag], 1, value) for tag, value in tags.items()}
    return list((found | {tag[0]: tag for tag in changed}).values())


for _name in ("scene.tif", "labels.tif"):

    @case("a block of the TIFF", f"tiff_{_name[:-4]}_of_one_large_tile")
    def _tile(folder: Path, name: str = _name) -> list[str]:
        """TIFF of 8 x 8 pixels in one deflated tile of 1 GiB."""
        packed = deflated_zeros(2**24)
        places = {322: 32768, 323: 32768, 324: 4096, 325: len(packed)}
        tags = [t for t in image((259, _SHORT, 1, 8)) if t[0] not in (273, 278, 279)]
        tags += [(tag, _LONG, 1, value) for tag, value in places.items()]
        (folder / name).write_bytes(tiff(tags).ljust(4096, b"\0") + packed)
        return command(folder, name)


for _label, _tag in {
    "metadata_of_a_gigabyte": (42112, _ASCII, GIGA, 2048),
    "many_strips": (273, _LONG, GIGA // 2, 2048),
}.items():

    @case(EITHER, f"tiff_of_{_label}")
    def _declared(folder: Path, tag: tuple[int, int, int, int] = _tag) -> list[str]:
        sparse(folder / "scene.tif", tiff(image(tag)), 4 * GIGA - 1)
        return info("scene.tif")


# PNG, JPEG 2000, VRT


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


@case("8 rows and 8 columns, got|cannot read it as one")
def png_that_claims_much(folder: Path) -> list[str]:
    """PNG of a few bytes that claims a milliard of pixels."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 8, 0, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(bytes(1000))) + _chunk(b"IEND", b"")
    (folder / "labels.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + data)
    return train(folder, "labels.png")


def _codestream(side: int, *marks: tuple[int, bytes]) -> bytes:
    """Return the start of a JPEG 2000 codestream of one band in one tile."""
    size = struct.pack(">HIIIIIIIIH3B", 0, side, side, 0, 0, side, side, 0, 0, 1, 7, 1, 1)
    return b"\xff\x4f" + b"".join(
        struct.pack(">BBH", 0xFF, mark, len(body) + 2) + body
        for mark, body in ((0x51, size), *marks)
    )


@case(EITHER)
def jpeg2000_of_many_precincts(folder: Path) -> list[str]:
    """JPEG 2000 image of 8000 x 8000 pixels whose precincts have one pixel each."""
    style = struct.pack(">BBHBBBBBB", 1, 0, 1, 0, 5, 4, 4, 0, 1) + b"\0" + b"\x11" * 5
    steps = struct.pack(">B16B", 0x40, *range(0x40, 0x50))
    packets = bytes(400_000)
    tile = struct.pack(">2sHHIBB2s", b"\xff\x90", 10, 0, len(packets) + 14, 0, 1, b"\xff\x93")
    head = _codestream(8000, (0x52, style), (0x5C, steps))
    (folder / "scene.jp2").write_bytes(head + tile + packets + b"\xff\xd9")
    np.save(folder / "labels.npy", np.eye(8000, dtype=np.uint8) * 2)
    return ["train", "scene.jp2", "labels.npy", *LIMIT]


@case("more than 200:1")
def vrt_of_terabytes(folder: Path) -> list[str]:
    """VRT of four million rows and columns over a file of 8 x 8 pixels."""
    formats.write_raster(folder / "a.tif", 1)
    (folder / "scene.vrt").write_text(
        '<VRTDataset rasterXSize="4000000" rasterYSize="4000000"><VRTRasterBand dataType="Byte" '
        'band="1"><SimpleSource><SourceFilename relativeToVRT="1">a.tif</SourceFilename>'
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    return info("scene.vrt")


@case(None)
def vrt_of_20000_pieces(folder: Path) -> list[str]:
    """VRT that puts one file into place 20,000 times: it is parsed once, not for every window."""
    formats.write_raster(folder / "a.tif", 1)
    np.save(folder / "labels.npy", np.pad(formats.IDS, (0, 292)))
    rects = "".join(f'<{r}Rect xOff="0" yOff="0" xSize="8" ySize="8"/>' for r in ("Src", "Dst"))
    piece = f'<SimpleSource><SourceFilename relativeToVRT="1">a.tif</SourceFilename>{rects}'
    (folder / "scene.vrt").write_text(
        '<VRTDataset rasterXSize="300" rasterYSize="300"><VRTRasterBand dataType="Byte" '
        f'band="1">{f"{piece}</SimpleSource>" * 20_000}</VRTRasterBand></VRTDataset>'
    )
    return ["train", "scene.vrt", "labels.npy", *SHORT, *LIMIT]


# ENVI and NumPy: plain bytes, declared and sparse

case("bands", "envi_of_many_bands")(
    lambda folder: formats.write_envi(folder, f"bands = {10**8}", size=16 * 10**8)
)
_PLACE = "map info = {UTM, 1, 1, 5e5, 4e6, 10, 10, 33, North, WGS-84}"
case("rows and columns", "envi_of_many_rows")(
    lambda folder: formats.write_envi(folder, _PLACE, "900000000", 36 * 10**8)
)


@case("below 4.0 MiB")
def envi_header_of_gigabytes(folder: Path) -> list[str]:
    """ENVI header of 3 GB, sparse."""
    arguments = formats.write_envi(folder)
    sparse(folder / "scene.hdr", (folder / "scene.hdr").read_bytes(), 3 * GIGA)
    return arguments


def _declared_npy(path: Path, shape: tuple[int, ...]) -> None:
    with path.open("wb") as file:
        about = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        file.truncate(file.tell() + int(np.prod(shape)))


@case("a label raster must be read at once")
def npy_labels_of_the_whole_budget(folder: Path) -> list[str]:
    """Labels that fit the budget as they are stored, sparse, but not as they are worked with."""
    _declared_npy(folder / "scene.npy", (13000, 13000, 1))
    _declared_npy(folder / "labels.npy", (13000, 13000))
    return ["train", "scene.npy", "labels.npy", *LIMIT]


@case("header of at most")
def npy_scene_with_a_header_of_gigabytes(folder: Path) -> list[str]:
    """NumPy file of version 2 that is all header, 3 GB, sparse."""
    head = b"\x93NUMPY" + struct.pack("<BBI", 2, 0, 3 * 10**9)
    sparse(folder / "scene.npy", head, 3 * 10**9 + 12)
    return info("scene.npy")


# HDF5, NetCDF-4, EMIT and MATLAB 7.3: little in the file, much to decode or to visit


def _bomb(path: Path, name: str, shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    """Write an array of bytes whose one chunk inflates to 2 GiB, whatever it declares."""
    with h5py.File(path, "w") as file:
        options: dict[str, Any] = {"maxshape": (None,) * len(shape), "compression": "gzip"}
        array = file.create_dataset(name, shape, "u1", chunks=chunk, **options)
        array.id.write_direct_chunk((0,) * len(shape), deflated_zeros(2**31))


for _name, _shape, _chunk_shape, _says in (
    ("scene.nc", (8, 8, 3), (2**11, 2**10, 2**10), "a chunk of '/cube'"),
    ("scene.nc", (8, 8, 3), (2**8, 2**7, 2**6), EITHER),
    ("labels.h5", (8, 8), (2**16, 2**15), "a chunk of '/gt'"),
    ("labels.h5", (8, 8), (2**11, 2**10), EITHER),
    ("labels.mat", (8, 8), (2**16, 2**15), "a chunk of '/gt'"),
    ("labels.mat", (8, 8), (2**11, 2**10), EITHER),
):

    @case(_says, f"hdf5_bomb_{_name.replace('.', '_')}_{'declared' if _says else 'hidden'}")
    def _inflates(
        folder: Path,
        name: str = _name,
        shape: tuple[int, ...] = _shape,
        chunk: tuple[int, ...] = _chunk_shape,
    ) -> list[str]:
        if name.startswith("labels"):
            _bomb(folder / name, "gt", shape, chunk)
            return train(folder, name)
        _bomb(folder / name, "cube", shape, chunk)
        np.save(folder / "labels.npy", formats.IDS)
        return ["train", name, "labels.npy", *LIMIT]


@case(None)
def chunks_of_a_pixel(folder: Path) -> list[str]:
    """Labels in 100,000 chunks of one pixel, for each of which HDF5 takes 6 kB while it reads."""
    np.save(folder / "scene.npy", np.random.default_rng(0).random((320, 320, 2)))
    with h5py.File(folder / "labels.nc", "w") as file:
        gt = file.create_dataset("gt", (320, 320), "u1", chunks=(1, 1))
        gt[0, :6] = 1, 2, 1, 2, 1, 2
    return ["train", "scene.npy", "labels.nc", *LIMIT, "--out", "m.polyad"]


@case("took more than")
def heap_without_end(folder: Path) -> list[str]:
    """Texts in a heap whose free space has the size 0, in which HDF5 goes round for good."""
    path = folder / "scene.nc"
    with h5py.File(path, "w") as file:
        file["cube"] = formats.CUBE
        file.create_dataset("crs", data=0).attrs["crs_wkt"] = "EPSG:32632"
    content = bytearray(path.read_bytes())
    free = content.index(b"GCOL") + 16 + 16 + 16  # behind its head, one object and its text
    content[free : free + 16] = bytes(16)
    path.write_bytes(content)
    return info("scene.nc")


@case("points all over the swath")
def lookup_table_all_over(folder: Path) -> list[str]:
    """EMIT whose lookup table sends each pixel somewhere else in a swath of 2 GB."""
    packed = deflated_zeros(512 * 512 * 32 * 4) + bytes(150_000)  # as large as an honest one
    rng, shape, chunk = np.random.default_rng(0), (2048, 2048, 128), (512, 512, 32)
    with h5py.File(folder / "emit.nc", "w") as file:
        options: dict[str, Any] = {"chunks": chunk, "compression": "gzip"}
        cube = file.create_dataset("reflectance", shape, "f4", **options)
        for corner in itertools.product(*map(range, (0, 0, 0), shape, chunk)):
            cube.id.write_direct_chunk(corner, packed)
        for name in ("glt_y", "glt_x"):
            file[f"location/{name}"] = rng.integers(1, 2049, (8, 8)).astype("i4")
    np.save(folder / "labels.npy", formats.IDS)
    return ["train", "emit.nc", "labels.npy", *LIMIT]


# Zarr


def _blosc(size: int) -> bytes:
    return struct.pack("<BBBBIII", 2, 1, 0x02, 1, size, size, 16 + 64) + bytes(64)


BOMBS: dict[str, Callable[[], bytes]] = {
    "zlib": lambda: deflated_zeros(GIGA),
    "lz4": lambda: struct.pack("<i", 2**31 - 1) + bytes(100),
    "zstd": lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 4 * GIGA),
    "blosc": lambda: _blosc(2 * GIGA - 17),
}
for _codec, _array in itertools.product(BOMBS, ("cube", "wavelength")):

    @case(EITHER, f"zarr_bomb_{_codec}_in_{_array}")
    def _zarr_bomb(folder: Path, codec: str = _codec, array: str = _array) -> list[str]:
        packed = {"compressor": {"id": codec}}
        if array == "cube":
            (write_zarr(folder, **packed) / "0.0.0").write_bytes(BOMBS[codec]())
            return train(folder, "scene.zarr")  # as labels, which are read at once
        write_zarr(folder)
        place = write_zarr(folder, array, shape=[1], chunks=[1], dtype="<f4", **packed)
        (place / "0").write_bytes(BOMBS[codec]())
        return info("scene.zarr")


# Texts: XML with any file that has some, CSV, GeoJSON; and layers

_LAUGHS = "<!DOCTYPE {0} [<!ENTITY a 'aaaaaaaaaa'>{1}]><{0}>&i;</{0}>"
_MORE = "".join(
    f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
_HOSTILE_XML: dict[str, Callable[[str], str]] = {
    "entities": lambda root: _LAUGHS.format(root, _MORE),
    "nested": lambda _: "<a>" * 300_000,
    "many_elements": lambda root: f"<{root}>{'<a/>' * 1_000_001}</{root}>",
    "megabytes": lambda root: f"<{root}>{' ' * 17 * 2**20}</{root}>",
}
for (_carrier, (_root, _place, _says)), (_label, _text) in itertools.product(
    XML.items(), _HOSTILE_XML.items()
):
    case(_says, f"xml_{_label}_in_{_carrier}")(
        lambda folder, place=_place, text=_text, root=_root: place(folder, text(root).encode())
    )


_POINTS = '{"type":"Feature","properties":{"class":1},"geometry":{"type":"%s","coordinates":%s}}'
for _name, _says, _make in (
    ("labels.csv", "lies outside",
     lambda: "row,col,class" + ",x" * 500_000 + "\n" + "0,0,1\n" * 20_000 + "0,9,1\n"),
    ("labels.csv", "all 1 training pixels", lambda: "row,col,class\n" + "0,0,1\n" * 1_500_000),
    ("labels.geojson", "a text file must be read at once",
     lambda: _POINTS % ("MultiPoint", "[" + "[1,2]," * 1_000_000 + "[1,2]]")),
    ("labels.geojson", "outside the scene",
     lambda: '{"type":"FeatureCollection","features":['
     + ",".join([_POINTS % ("Point", "[400, 95]")] * 20_000) + "]}"),
):  # fmt: skip

    @case(_says, f"text_{_name.replace('.', '_')}_{_says}".replace(" ", "_"))
    def _text(folder: Path, name: str = _name, make: Callable[[], str] = _make) -> list[str]:
        (folder / name).write_text(make())
        return train(folder, name)


@case("must be read at once")
def layer_of_many_features(folder: Path) -> list[str]:
    """FlatGeobuf of more features than the budget holds."""
    n = 500_000
    write(folder / "labels.fgb", [point(500_015.0, 4_999_985.0)] * n, {"land": [1] * n},
          driver="FlatGeobuf", geometry_type="Point")  # fmt: skip
    return train(folder, "labels.fgb")


@case(None)
def kml_under_a_large_budget(folder: Path) -> list[str]:
    """Few points in a format that does not say how many, and no limit given."""
    return [a for a in good(folder, "labels.kml") if a not in LIMIT]


for _name, _at, _says in (("labels.shp", 104, None), ("labels.fgb", 8, "labels")):

    @case(_says, f"{_name.replace('.', '_')}_of_a_record_without_end")
    def _record(folder: Path, name: str = _name, at: int = _at) -> list[str]:
        arguments, content = good(folder, name), bytearray((folder / name).read_bytes())
        content[at : at + 4] = (2**31 - 1).to_bytes(4, "big" if name.endswith("shp") else "little")
        (folder / name).write_bytes(content)
        return arguments
