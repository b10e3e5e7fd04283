"""Products and scenes of several files: VRT, JPEG 2000, folders of bands, Tanager, ENVI's scale."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import rasterio

from attacks.cases import BUDGET, EITHER, SECRET, case
from attacks.cases.opening import info, write_tiff

_JP2 = b"\0\0\0\x0cjP  \r\n\x87\n" + b"\0\0\0\x14ftypjp2 \0\0\0\0jp2 "


def _vrt(folder: Path, name: str, more: str = "", relative: int = 1) -> list[str]:
    (folder / "scene.vrt").write_text(
        '<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1">'
        f'<SimpleSource><SourceFilename relativeToVRT="{relative}">{name}</SourceFilename>'
        f"<SourceBand>1</SourceBand></SimpleSource>{more}</VRTRasterBand></VRTDataset>"
    )
    return info("scene.vrt")


def _vrt_names(name: str, label: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        write_tiff(folder / "a.tif", bands=1)
        return _vrt(folder, name)

    make.__name__ = f"vrt_names_{label}"
    make.__doc__ = f"VRT whose source is {name!r}."
    return make


for _name, _label in (
    (f"../{SECRET}", "a_file_above"),
    ("/etc/passwd", "an_absolute_file"),
    ("/vsicurl/http://127.0.0.1:9/a.tif", "an_address_of_gdal"),
    ("https://127.0.0.1:9/a.tif", "an_address"),
    ("/vsizip/a.zip/a.tif", "a_file_in_an_archive"),
    (f"GTIFF_DIR:1:../{SECRET}", "a_driver"),
    ("&lt;VRTDataset/&gt;", "xml"),
):
    case(9, says="wanted files beside the VRT|no such file|another kind")(_vrt_names(_name, _label))


@case(9, says="leads out of the folder")
def vrt_source_links_out(folder: Path) -> list[str]:
    """VRT whose source beside it is a link to an outside file."""
    (folder / "a.tif").symlink_to(folder.parent / SECRET)
    return _vrt(folder, "a.tif")


@case(9, says="is a named pipe|no such file")
def vrt_source_is_a_pipe(folder: Path) -> list[str]:
    """VRT whose source is a named pipe."""
    os.mkfifo(folder / "a.tif")
    return _vrt(folder, "a.tif")


@case(2, says="only puts files together")
def vrt_with_a_pixel_function(folder: Path) -> list[str]:
    """VRT with a pixel function in Python."""
    write_tiff(folder / "a.tif", bands=1)
    code = "<PixelFunctionCode>import os; os.system('touch owned')</PixelFunctionCode>"
    return _vrt(folder, "a.tif", f"<PixelFunctionLanguage>Python</PixelFunctionLanguage>{code}")


@case(5, says="more than 200:1")
def vrt_of_terabytes(folder: Path) -> list[str]:
    """VRT of four million rows and columns over a file of 8 x 8 pixels."""
    write_tiff(folder / "a.tif", bands=1)
    arguments = _vrt(folder, "a.tif")
    text = (folder / "scene.vrt").read_text()
    (folder / "scene.vrt").write_text(re.sub(r'Size="8"', 'Size="4000000"', text))
    return arguments


@case(9, says="leads out of the folder")
def band_of_a_folder_links_out(folder: Path) -> list[str]:
    """Folder of bands, one of them a link to an outside file."""
    write_tiff(folder / "b1.tif", bands=1)
    (folder / "b2.tif").symlink_to(folder.parent / SECRET)
    return info(".")


def _codestream(width: int, height: int, tile: tuple[int, int], components: int) -> bytes:
    """Return the start of a codestream; its tiles never come."""
    sizes = struct.pack(">8IH", width, height, 0, 0, *tile, 0, 0, components)
    body = struct.pack(">H", 0) + sizes + b"\x07\x01\x01" * components
    return b"\xff\x4f\xff\x51" + struct.pack(">H", len(body) + 2) + body + b"\xff\xd9"


@case(5, says=EITHER)
def jpeg2000_of_one_huge_tile(folder: Path) -> list[str]:
    """JPEG 2000 codestream of 60,000 x 60,000 pixels in one tile."""
    (folder / "s.j2k").write_bytes(_codestream(60_000, 60_000, (60_000, 60_000), 3))
    return info("s.j2k")


@case(9, says="its metadata name")
def jpeg2000_whose_gml_names_a_file(folder: Path) -> list[str]:
    """JPEG 2000 file whose GML names an outside file as its reference system."""
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(30, 0, 5e5, 0, -30, 5e6)}
    shape = {"height": 8, "width": 8, "count": 1, "dtype": "uint8"}
    path = folder / "s.jp2"
    with rasterio.open(path, "w", driver="JP2OpenJPEG", **place, **shape) as file:
        file.write(np.ones((1, 8, 8), np.uint8))
    content = path.read_bytes()
    old = b'srsName="urn:ogc:def:crs:EPSG::32633"'
    new = f'srsName="../{SECRET}"'.encode()
    path.write_bytes(content.replace(old, new + b" " * (len(old) - len(new))))
    return info("s.jp2")


@case(5, says=EITHER)
def jpeg2000_of_many_precincts(folder: Path) -> list[str]:
    """JPEG 2000 image of 8000 x 8000 pixels whose precincts have one pixel each."""
    size = struct.pack(">HIIIIIIIIH3B", 0, 8000, 8000, 0, 0, 8000, 8000, 0, 0, 1, 7, 1, 1)
    style = struct.pack(">BBHBBBBBB", 1, 0, 1, 0, 5, 4, 4, 0, 1) + b"\0" + b"\x11" * 5
    steps = struct.pack(">B16B", 0x40, *range(0x40, 0x50))
    marks = [(0x51, size), (0x52, style), (0x5C, steps)]
    head = b"\xff\x4f" + b"".join(
        struct.pack(">BBH", 0xFF, mark, len(body) + 2) + body for mark, body in marks
    )
    packets = bytes(400_000)
    tile = struct.pack(">2sHHIBB2s", b"\xff\x90", 10, 0, len(packets) + 14, 0, 1, b"\xff\x93")
    (folder / "scene.jp2").write_bytes(head + tile + packets + b"\xff\xd9")
    np.save(folder / "labels.npy", np.eye(8000, dtype=np.uint8) * 2)
    return ["train", "scene.jp2", "labels.npy", "--max-bytes", str(BUDGET)]
