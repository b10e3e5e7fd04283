"""Files of scenes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import scipy.io

from attacks import builders
from attacks.targets.base import (
    SHAPE,
    Target,
    from_file,
    open_and_read,
    open_as_either,
)

_RAMP = np.arange(60, dtype=np.int16).reshape(SHAPE)


def tiffs(count: int) -> list[bytes]:
    found = []
    plain = {"driver": "GTiff", "height": 16, "width": 16, "count": count, "dtype": "uint8"}
    kinds: list[dict[str, Any]] = [
        {},
        {"compress": "deflate", "interleave": "pixel", "tiled": True, "blockxsize": 16,
         "blockysize": 16},
        {"crs": "EPSG:32633", "transform": rasterio.Affine(30, 0, 5e5, 0, -30, 5e6), "nodata": 0,
         "BIGTIFF": "YES"},
    ]  # fmt: skip
    for options in kinds:

        def write(path: Path, options: dict[str, Any] = options) -> None:
            with rasterio.open(path, "w", **plain, **options) as file:
                file.write(np.arange(256 * count, dtype=np.uint8).reshape(count, 16, 16) % 3)
                file.update_tags(class_names="a,b", class_1="Corn")
                file.update_tags(1, wavelength="450", wavelength_units="nm")
                if count == 1:
                    file.write_colormap(1, {0: (0, 0, 0, 0), 1: (255, 0, 0, 255)})

        found.append(builders.saved(write, "x.tif"))
    return found


def mats() -> list[bytes]:
    return [
        builders.saved(
            lambda path, zipped=zipped: scipy.io.savemat(
                path, {"cube": _RAMP, "gt": _RAMP[..., 0], "s": {"a": 1}}, do_compression=zipped
            ),
            "x.mat",
        )
        for zipped in (False, True)
    ]


_ENVI = (
    b"ENVI\ndescription = {a {b} c}\nsamples = 5\nlines = 4\nbands = 3\nheader offset = 0\n"
    b"data type = 2\ninterleave = bip\nbyte order = 0\nwavelength units = Nanometers\n"
    b"wavelength = {450, 550, 650}\nfwhm = {9, 9, 9}\nbbl = {1, 0, 1}\ndata ignore value = -9\n"
    b"map info = {UTM, 1, 1, 500000, 5000000, 30, 30, 33, North, WGS-84}\n"
    b'coordinate system string = {GEOGCS["WGS 84"]}\nband names = {a, b, c}\n'
    b"data gain values = {0.1, 0.2, 0.3}\nreflectance scale factor = 10000\n"
)
_ENVI_CLASSES = (
    b"ENVI\nsamples = 5\nlines = 4\nbands = 1\ndata type = 1\ninterleave = bsq\nbyte order = 0\n"
    b"file type = ENVI Classification\nclasses = 3\nclass names = {none, corn, oats}\n"
    b"class lookup = {0,0,0,255,0,0,0,255,0}\n"
)


def _envi(data: bytes, folder: Path) -> None:
    (folder / "scene.img").write_bytes(_RAMP.tobytes())
    (folder / "scene.hdr").write_bytes(data)
    open_as_either(folder / "scene.hdr")


def _enmap(data: bytes, folder: Path) -> None:
    (folder / "E-SPECTRAL_IMAGE.TIF").write_bytes(_two_bands()[0])
    (folder / "E-METADATA.XML").write_bytes(data)
    open_and_read(folder)


@functools.cache
def _two_bands() -> list[bytes]:
    return tiffs(2)


_DESIS = b"""<hsi_doc><bandCharacterisation><band><bandNumber>1</bandNumber><wavelengthCenterOfBand>
450</wavelengthCenterOfBand><wavelengthWidthOfBand>9</wavelengthWidthOfBand><gainOfBand>0.1
</gainOfBand><offsetOfBand>0</offsetOfBand></band><band><bandNumber>2</bandNumber>
<wavelengthCenterOfBand>440</wavelengthCenterOfBand><gainOfBand>2</gainOfBand></band>
</bandCharacterisation><bandStatistics><bandID number="1"><mean>1</mean><stdDeviation>2
</stdDeviation></bandID></bandStatistics></hsi_doc>"""
_ENMAP = b"""<?xml version="1.0" encoding="UTF-8"?><level_X><product><bandCharacterisation>
<bandID number="1"><wavelengthCenterOfBand>450</wavelengthCenterOfBand><FWHMOfBand>9</FWHMOfBand>
<GainOfBand>0.0001</GainOfBand><OffsetOfBand>0</OffsetOfBand></bandID><bandID number="2">
<wavelengthCenterOfBand>440</wavelengthCenterOfBand><FWHMOfBand>9</FWHMOfBand>
<GainOfBand>0.0001</GainOfBand><OffsetOfBand>0</OffsetOfBand></bandID></bandCharacterisation>
</product></level_X>"""


def _scene_file(name: str) -> Callable[[bytes, Path], None]:
    return from_file(name, open_and_read)


SCENES = {
    "geotiff": Target(lambda: tiffs(2), _scene_file("scene.tif")),
    "npy": Target(lambda: [builders.npy(_RAMP)], _scene_file("scene.npy"), words=(b"shape", b"|O")),
    "envi": Target(lambda: [_ENVI, _ENVI_CLASSES], _envi, words=(b"{", b"}", b"bands", b"1e9")),
    "enmap": Target(
        lambda: [_ENMAP, _DESIS], _enmap, words=(b"<!DOCTYPE x [", b"<!ENTITY", b"bandID")
    ),
}
