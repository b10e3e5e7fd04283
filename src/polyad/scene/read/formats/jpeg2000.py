"""JPEG 2000, by GDAL's OpenJPEG driver, after its boxes are checked.

A tile is decoded whole, as 32-bit integers, and OpenJPEG keeps something of each tile and component
from the start: the sizes that the codestream declares are held against the budget first. GDAL would
look up what the GML inside names as its reference system, so that this may only be a code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from polyad.errors import SceneError
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.read.formats.band_tags import columns
from polyad.scene.read.formats.geotiff import TiffSource, tiff_bands
from polyad.scene.read.formats.opening import Opened, open_raster
from polyad.scene.read.formats.sidecars import georeference

DRIVER = "JP2OpenJPEG"
MAGIC = (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")  # boxes, or the bare codestream
_METADATA_BYTES = 16 * 2**20  # of all boxes beside the codestream
_MOST_BOXES = 1000
_DECODED = 4  # bytes of a sample in OpenJPEG
_KEPT = 1000  # bytes of each tile and component in OpenJPEG, about
_SYSTEM = re.compile(
    rb"urn:(?:x-)?ogc:def:crs:EPSG:[\d.]*:\d{1,6}|EPSG:\d{1,6}"
    rb"|https?://www\.opengis\.net/(?:def/crs/EPSG/[\d.]+/|gml/srs/epsg\.xml#)\d{1,6}"
)
_NAMES = re.compile(rb"""srsName\s*=\s*["']([^"']*)["']""", re.I)
_LINKS = re.compile(rb"""href\s*=\s*["'](?!gmljp2:|#)([^"']*)["']""", re.I)


def open_jpeg2000(path: Path, key: str | None, budget: int) -> Opened:
    """Open a JPEG 2000 image; values as stored, wavelengths from what lies beside it."""
    guards.existing_file(path)
    if key is not None:
        raise SceneError(f"{path}: a JPEG 2000 file has one image and no key, got ':{key}'")
    with open_jp2(path, budget) as dataset:
        return Opened.of(
            jp2_source(path, dataset),
            **columns(tiff_bands(path, dataset)),
            nodata=dataset.nodata,
            **georeference(path, dataset),
        )


def open_jp2(path: Path, budget: int) -> AbstractContextManager[Any]:
    """Open a JPEG 2000 file after its boxes are checked."""
    check_boxes(path, budget)
    return open_raster(path, DRIVER)


def jp2_source(path: Path, dataset: Any) -> TiffSource:
    """Check an open JPEG 2000 image against its file and return its source."""
    dtype = np.dtype(dataset.dtypes[0])
    guards.check_numeric(path, dtype)
    shape = (dataset.height, dataset.width, dataset.count)
    guards.check_shape(path, shape)
    guards.check_inflation(path, guards.declared_bytes(shape, dtype), path.stat().st_size)
    return TiffSource(path, shape, dtype, DRIVER)


def check_boxes(path: Path, budget: int) -> None:
    """Refuse metadata that are large or name other files, and tiles beyond the budget."""
    with open_regular(path) as file:
        taken = 0
        for kind, start, size in _boxes(path, file):
            file.seek(start)
            if kind == b"jp2c":
                _check_codestream(path, file.read(64), budget)
                continue
            taken += size
            if taken > _METADATA_BYTES:
                raise SceneError(
                    f"{path}: wanted at most {guards.human_bytes(_METADATA_BYTES)} of metadata, "
                    "got more; save the scene without it"
                )
            _check_names(path, file.read(size))


def _boxes(path: Path, file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and size of the content of each box of the outermost level."""
    end = file.seek(0, 2)
    file.seek(0)
    if file.read(4) == MAGIC[1]:
        yield b"jp2c", 0, end
        return
    place = count = 0
    while place + 8 <= end:
        file.seek(place)
        length, kind = struct.unpack(">I4s", file.read(8))
        head = 8
        if length == 1:
            (length,), head = struct.unpack(">Q", file.read(8).rjust(8, b"\0")), 16
        length = length or end - place  # 0: to the end of the file
        if length < head:
            raise SceneError(
                f"{path}: a box of JPEG 2000 at byte {place} has {length} bytes, fewer than its "
                "own head; the file is damaged, copy it again"
            )
        yield kind, place + head, min(length, end - place) - head
        place, count = place + length, count + 1
        guards.check_count(path, count, _MOST_BOXES, "boxes of JPEG 2000")


def _check_codestream(path: Path, head: bytes, budget: int) -> None:
    """Check the sizes that the codestream declares right at its start."""
    if len(head) < 42 or head[:4] != MAGIC[1]:
        raise SceneError(
            f"{path}: wanted a JPEG 2000 codestream, its header is missing; the file is damaged, "
            "copy it again"
        )
    right, bottom, left, top, wide, high, _, _, components = struct.unpack(">8IH", head[8:42])
    width, height = max(0, right - left), max(0, bottom - top)
    tile = min(wide, width) * min(high, height) * components * _DECODED
    guards.check_budget(path, tile, budget, "a tile of the JPEG 2000 image")
    tiles = -(-width // max(wide, 1)) * -(-height // max(high, 1))
    guards.check_budget(path, tiles * components * _KEPT, budget, "the list of JPEG 2000 tiles")


def _check_names(path: Path, content: bytes) -> None:
    """Refuse metadata that name a reference system by more than a code, or link elsewhere."""
    strange = [name for name in _NAMES.findall(content) if not _SYSTEM.fullmatch(name.strip())]
    strange += _LINKS.findall(content)
    if strange:
        raise SceneError(
            f"{path}: its metadata name {strange[0][:60].decode('latin-1')!r}, wanted a code such "
            "as 'EPSG:32632' and no other file; write it again, as with gdal_translate"
        )
