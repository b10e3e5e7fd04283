"""Products and scenes of several files: VRT, JPEG 2000, folders of bands, Tanager, ENVI's scale."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import rasterio

from attacks.cases import SECRET, case
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


@case(9, says="wanted a TIFF or JPEG 2000 file")
def vrt_of_itself(folder: Path) -> list[str]:
    """VRT whose source is the VRT."""
    return _vrt(folder, "scene.vrt")


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


@case(9, says="is a named pipe")
def band_of_a_folder_is_a_pipe(folder: Path) -> list[str]:
    """Folder of bands, one of them a named pipe."""
    write_tiff(folder / "b1.tif", bands=1)
    os.mkfifo(folder / "b2.tif")
    return info(".")


@case(5, says="wanted at most 10,000 files of bands")
def folder_of_many_bands(folder: Path) -> list[str]:
    """Folder of 10,001 empty files that are called bands."""
    for number in range(10_001):
        (folder / f"b{number}.tif").touch()
    return info(".")


def _codestream(width: int, height: int, tile: tuple[int, int], components: int) -> bytes:
    """Return the start of a codestream; its tiles never come."""
    sizes = struct.pack(">8IH", width, height, 0, 0, *tile, 0, 0, components)
    body = struct.pack(">H", 0) + sizes + b"\x07\x01\x01" * components
    return b"\xff\x4f\xff\x51" + struct.pack(">H", len(body) + 2) + body + b"\xff\xd9"


@case(5, says="a tile of the JPEG 2000 image must be read at once")
def jpeg2000_of_one_huge_tile(folder: Path) -> list[str]:
    """JPEG 2000 codestream of 60,000 x 60,000 pixels in one tile."""
    (folder / "s.j2k").write_bytes(_codestream(60_000, 60_000, (60_000, 60_000), 3))
    return info("s.j2k")


@case(5, says="the list of JPEG 2000 tiles must be read at once")
def jpeg2000_of_many_tiles(folder: Path) -> list[str]:
    """JPEG 2000 codestream of a billion tiles."""
    (folder / "s.j2k").write_bytes(_codestream(2**20, 2**20, (32, 32), 3))
    return info("s.j2k")


@case(5, says="wanted at most 16.0 MiB of metadata")
def jpeg2000_with_a_huge_box(folder: Path) -> list[str]:
    """JPEG 2000 file with an XML box of 300 MB, of which the disk holds nothing."""
    with (folder / "s.jp2").open("wb") as file:
        file.write(_JP2 + struct.pack(">I4s", 300_000_008, b"xml "))
        file.truncate(300_000_100)
    return info("s.jp2")


@case(5, says="boxes of JPEG 2000")
def jpeg2000_with_many_boxes(folder: Path) -> list[str]:
    """JPEG 2000 file of 100,000 empty boxes."""
    (folder / "s.jp2").write_bytes(_JP2 + b"\0\0\0\x08free" * 100_000)
    return info("s.jp2")


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


def _tanager(folder: Path, structure: bytes = b"", wavelengths: int = 3) -> list[str]:
    with h5py.File(folder / "s.h5", "w") as file:
        name = "HDFEOS/GRIDS/HYP/Data Fields/surface_reflectance"
        cube = file.create_dataset(name, data=np.ones((3, 4, 5), np.float32))
        cube.attrs["wavelengths"] = np.linspace(400, 2500, wavelengths, dtype=np.float32)
        if structure:
            file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(structure)
    return info("s.h5")


@case(5, says=None)
def tanager_with_a_long_description(folder: Path) -> list[str]:
    """Tanager file whose StructMetadata.0 is a text of 50 MB; it is not read."""
    return _tanager(folder, b"UpperLeftPointMtrs=" * 2_600_000)


@case(5, says="wanted 3 values of 'wavelengths'")
def tanager_with_many_wavelengths(folder: Path) -> list[str]:
    """Tanager file of three bands with 8000 wavelengths."""
    return _tanager(folder, wavelengths=8000)


@case(9, says="place on the map in finite numbers")
def tanager_placed_nowhere(folder: Path) -> list[str]:
    """Tanager grid whose corners are infinite."""
    return _tanager(folder, b"UpperLeftPointMtrs=(inf,1e400)\nLowerRightMtrs=(nan,0)\n")


@case(5, says=None)
def envi_scaled_beyond_any_number(folder: Path) -> list[str]:
    """ENVI file whose gains and scale factor are no numbers to scale by; values stay as stored."""
    np.ones((4, 5, 3), "<i2").tofile(folder / "s.img")
    (folder / "s.hdr").write_text(
        "ENVI\nsamples = 5\nlines = 4\nbands = 3\ndata type = 2\ninterleave = bip\n"
        "data gain values = {1e999, nan, 0}\nreflectance scale factor = 1e-320\n"
    )
    return info("s.hdr")
