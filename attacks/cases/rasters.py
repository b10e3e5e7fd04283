"""Rasters that declare, or unpack to, far more than they hold: TIFF, PNG, ENVI, NumPy."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from attacks.cases import BUDGET, EITHER, case
from attacks.cases.opening import info, train

GIGA = 2**30
_ASCII, _SHORT, _LONG = 2, 3, 4


def tiff(path: Path, tags: Sequence[tuple[int, int, bytes | int]], size: int = 0) -> None:
    """Write a TIFF of one directory: tag, type, and its value or its bytes; padded to ``size``."""
    entries, extra = b"", b""
    start = 8 + 2 + 12 * len(tags) + 4
    for tag, kind, value in sorted(tags, key=lambda one: one[0]):
        content = value if isinstance(value, bytes) else struct.pack("<I", value)
        width = {_ASCII: 1, _SHORT: 2, _LONG: 4}[kind]
        count = len(content) // width if isinstance(value, bytes) else 1
        if len(content) > 4:
            content, extra = struct.pack("<I", start + len(extra)), extra + content
        entries += struct.pack("<HHI", tag, kind, count) + content.ljust(4, b"\0")
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    with path.open("wb") as file:
        file.write(head + entries + bytes(4) + extra)
        if size:
            file.truncate(size)


def image(width: int, height: int, bands: int = 1, **changes: int) -> list[tuple[int, int, int]]:
    """Return the tags of an image of bytes, uncompressed, in one strip at byte 8."""
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: bands, 278: height,
            279: width * height * bands, 284: 1}  # fmt: skip
    tags |= {int(name[1:]): value for name, value in changes.items()}
    return [(tag, _SHORT if tag in (258, 259, 262, 277, 284) else _LONG, value)
            for tag, value in tags.items()]  # fmt: skip


def _tile(folder: Path, name: str) -> None:
    """Write a TIFF of 8 x 8 pixels in one deflated tile of 32768 x 32768."""
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(16)) + packer.flush()
    tags = [t for t in image(8, 8, t259=8) if t[0] not in (273, 278, 279)]
    tags += [
        (322, _LONG, 32768),
        (323, _LONG, 32768),
        (324, _LONG, 4096),
        (325, _LONG, len(packed)),
    ]
    tiff(folder / name, tags)
    with (folder / name).open("r+b") as file:
        file.seek(4096)
        file.write(packed)


@case(5, says="a block of the TIFF")
def tiff_of_one_large_tile(folder: Path) -> list[str]:
    """TIFF of 8 x 8 pixels in one tile of 1 GiB."""
    _tile(folder, "scene.tif")
    return info("scene.tif")


@case(5, says="a block of the TIFF")
def tiff_labels_of_one_large_tile(folder: Path) -> list[str]:
    """TIFF labels of 8 x 8 pixels in one tile of 1 GiB."""
    _tile(folder, "labels.tif")
    return train(folder, "labels.tif")


@case(5, says=EITHER)
def tiff_metadata_of_gigabytes(folder: Path) -> list[str]:
    """TIFF whose GDAL metadata is declared as 1 GiB, sparse."""
    tiff(folder / "scene.tif", image(8, 8), size=GIGA + 4096)
    _declare(folder / "scene.tif", 42112, _ASCII, GIGA)
    return info("scene.tif")


@case(5, says=EITHER)
def tiff_of_many_strips(folder: Path) -> list[str]:
    """TIFF whose table of strips has a milliard of entries, sparse."""
    tiff(folder / "scene.tif", [t for t in image(8, 8) if t[0] != 273], size=4 * GIGA - 1)
    _declare(folder / "scene.tif", 273, _LONG, GIGA // 2)
    return info("scene.tif")


def _declare(path: Path, tag: int, kind: int, count: int) -> None:
    """Put one more entry in front of a TIFF's others."""
    with path.open("r+b") as file:
        head = file.read(4096)
        (old,) = struct.unpack_from("<H", head, 8)
        entries = [head[10 + 12 * k : 22 + 12 * k] for k in range(old)]
        entries.append(struct.pack("<HHII", tag, kind, count, 2048))
        file.seek(8)
        file.write(struct.pack("<H", old + 1) + b"".join(sorted(entries, key=_tag)) + bytes(4))


def _tag(entry: bytes) -> int:
    return int.from_bytes(entry[:2], "little")


@case(10, says="finite")
def tiff_at_infinity(folder: Path) -> list[str]:
    """GeoTIFF whose pixel size is infinite."""
    scale, tie = struct.pack("<3d", np.inf, 1, 0), struct.pack("<6d", 0, 0, 0, 1, 1, 0)
    tags = [*image(8, 8), (33550, _SHORT, scale), (33922, _SHORT, tie)]
    tiff(folder / "scene.tif", tags, size=10**4)
    content = (folder / "scene.tif").read_bytes()
    for tag, count in ((33550, 3), (33922, 6)):  # twelve is the type of doubles
        old = struct.pack("<HHI", tag, _SHORT, count * 4)
        content = content.replace(old, struct.pack("<HHI", tag, 12, count))
    (folder / "scene.tif").write_bytes(content)
    return info("scene.tif")


# PNG


def png(path: Path, width: int, height: int, data: bytes, extra: bytes = b"") -> None:
    """Write a PNG of gray bytes from its packed lines, with further chunks."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


@case(5, says="8 rows and 8 columns, got|cannot read it as one")
def png_that_claims_much(folder: Path) -> list[str]:
    """PNG of a few bytes that claims a milliard of pixels."""
    png(folder / "labels.png", 30000, 30000, zlib.compress(bytes(1000)))
    return train(folder, "labels.png")


@case(5, says=EITHER)
def png_with_texts(folder: Path) -> list[str]:
    """PNG with a thousand packed texts of seven megabytes each; none is unpacked."""
    text = _chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * 7_000_000, 9))
    png(folder / "labels.png", 8, 8, zlib.compress(bytes(9 * 8)), text * 1000)
    return train(folder, "labels.png")


# ENVI


def envi(folder: Path, text: str, size: int = 16) -> list[str]:
    """Write an ENVI pair whose data are ``size`` zeros, sparse."""
    (folder / "scene.hdr").write_text(f"ENVI\ndata type = 1\ninterleave = bsq\n{text}\n")
    with (folder / "scene.img").open("wb") as file:
        file.truncate(size)
    return info("scene.hdr")


@case(5, says="bands")
def envi_of_many_bands(folder: Path) -> list[str]:
    """ENVI header of 1e8 bands of one pixel, and the bytes for them, sparse."""
    return envi(folder, f"samples = 1\nlines = 1\nbands = {10**8}", 10**8)


@case(5, says="rows and columns")
def envi_of_many_rows(folder: Path) -> list[str]:
    """ENVI header of 9e8 rows of one pixel with a place on the map, and their bytes, sparse."""
    place = "map info = {UTM, 1, 1, 5e5, 4e6, 10, 10, 33, North, WGS-84}"
    return envi(folder, f"samples = 1\nlines = 900000000\nbands = 1\n{place}", 9 * 10**8)


@case(10, says="pixel size other than 0")
def envi_of_pixels_without_size(folder: Path) -> list[str]:
    """ENVI header whose pixels are 0 m wide."""
    place = "map info = {UTM, 1, 1, 5e5, 4e6, 0, 0, 33, North, WGS-84}"
    return envi(folder, f"samples = 4\nlines = 4\nbands = 1\n{place}")


@case(10, says=None)
def envi_with_a_nested_reference_system(folder: Path) -> list[str]:
    """ENVI header whose coordinate system is nested 8,000 deep; it is taken for none."""
    text = 'PROJCS["a",' * 8000
    return envi(folder, f"samples = 4\nlines = 4\nbands = 1\ncoordinate system string = {{{text}}}")


@case(5, says="below 4.0 MiB")
def envi_header_of_gigabytes(folder: Path) -> list[str]:
    """ENVI header of 3 GB, sparse."""
    arguments = envi(folder, "samples = 4\nlines = 4\nbands = 1")
    with (folder / "scene.hdr").open("r+b") as file:
        file.truncate(3 * GIGA)
    return arguments


@case(10, says="whole number")
def envi_of_a_number_without_end(folder: Path) -> list[str]:
    """ENVI header whose count of lines has 5,000 digits."""
    return envi(folder, f"samples = 4\nlines = {'9' * 5000}\nbands = 1")


# NumPy


def npy(path: Path, header: str, version: int = 1) -> None:
    """Write a .npy file of a header alone."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + bytes(64))


def _headers() -> dict[str, tuple[str, int]]:
    def plain(shape: str, descr: str = "'<f8'") -> str:
        return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"

    return {
        "nested": ("(" * 60_000, 1),
        "long": (plain("(1,1,1)") + " " * 5_000_000, 2),
        "objects": (plain("(2,2,2)", "'|O'"), 1),
        "wide": (plain("(2,2,2)", "'<U1000000000'"), 1),
        "negative": (plain("(-1,2,2)"), 1),
        "endless": (plain(f"({'9' * 5000},1,1)"), 1),
        "powers": (plain("(9**9**9,1,1)"), 1),
        "record": (plain("(2,2,2)", "[('a', '<f8', (1000000, 1000))]"), 1),
    }


def _npy(kind: str, labels: bool) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        npy(folder / "s.npy", *_headers()[kind])
        return train(folder, "s.npy") if labels else info("s.npy")

    make.__name__ = f"npy_{'labels_' if labels else ''}header_{kind}"
    make.__doc__ = f"NumPy header that is {kind}."
    return make


for _kind in _headers():
    case(10, says="wanted|declares|holds pickled|needs three|2-D raster")(_npy(_kind, False))
    case(10, says="wanted|declares|2-D raster")(_npy(_kind, True))


@case(5, says="a label raster must be read at once")
def npy_labels_of_the_whole_budget(folder: Path) -> list[str]:
    """Labels that fit the budget as they are stored, sparse, but not as they are worked with."""
    for name, shape in (("scene.npy", (13000, 13000, 1)), ("labels.npy", (13000, 13000))):
        with (folder / name).open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 13000**2)
    return ["train", "scene.npy", "labels.npy", "--max-bytes", str(BUDGET)]


def _long_header(path: Path, version: int) -> None:
    with path.open("wb") as file:
        file.write(b"\x93NUMPY" + struct.pack("<BBI", version, 0, 3 * 10**9))
        file.truncate(3 * 10**9 + 12)


@case(5, says="header of at most")
def npy_scene_with_a_header_of_gigabytes(folder: Path) -> list[str]:
    """NumPy file of version 2 that is all header, 3 GB, sparse."""
    _long_header(folder / "scene.npy", 2)
    return info("scene.npy")
