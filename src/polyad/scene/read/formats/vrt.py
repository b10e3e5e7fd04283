"""GDAL's VRT, as far as it puts together plain files of its own folder; GDAL never opens it.

A VRT can name any file and address, nest, warp and run functions on pixels. What is read here is a
list of bands, each a copy of rectangles of TIFF or JPEG 2000 files that lie beside the VRT and are
named without any folder. Whatever else stands in it is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from affine import Affine

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import representable
from polyad.scene.read.formats.band_tags import Facts, band_facts, columns
from polyad.scene.read.formats.cf import placed
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.markup import read_xml
from polyad.scene.read.formats.mosaic import (
    MosaicSource,
    Piece,
    RasterFile,
    common,
    describe_raster,
)
from polyad.scene.read.formats.opening import Opened, check_beside

_XML_BYTES = 16 * 2**20  # 425 bands with metadata take half a megabyte
_MOST_FILES = 10_000
_TYPES = {
    "Byte": "u1", "Int8": "i1", "UInt16": "u2", "Int16": "i2", "UInt32": "u4", "Int32": "i4",
    "UInt64": "u8", "Int64": "i8", "Float32": "f4", "Float64": "f8",
}  # fmt: skip
# What is read or, having no bearing on the pixels, passed over; all else is refused.
_DATASET = {"SRS", "GeoTransform", "Metadata", "VRTRasterBand", "OverviewList", "BlockXSize",
            "BlockYSize"}  # fmt: skip
_BAND = {
    "Metadata", "Description", "NoDataValue", "SimpleSource", "ComplexSource", "ColorInterp",
    "UnitType", "Scale", "Offset", "CategoryNames", "ColorTable", "Histograms", "HideNoDataValue",
}  # fmt: skip
_SOURCE = {"SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect", "NODATA"}
_REMEDY = "convert it with gdal_translate"


def open_vrt(path: Path, key: str | None, budget: int) -> Opened:
    """Open a VRT whose sources are plain files in its own folder."""
    if key is not None:
        raise SceneError(f"{path}: a VRT has one image and no key, got ':{key}'; leave it out")
    root = read_xml(path, "a VRT", _XML_BYTES)
    _check_children(path, root, "VRTDataset", _DATASET)
    rows, cols = (_whole(path, root.get(f"raster{axis}Size")) for axis in "YX")
    bands = root.findall("VRTRasterBand")
    guards.check_shape(path, (rows, cols, len(bands)))
    dtype = np.dtype(common(path, "type", [_dtype(path, band) for band in bands]))
    files = _Files(path, budget)
    pieces = tuple(tuple(_pieces(path, band, files, dtype)) for band in bands)
    stored = sum(r.source.path.stat().st_size for r in files.opened.values())
    guards.check_inflation(path, guards.declared_bytes((rows, cols, len(bands)), dtype), stored)
    nodata = common(path, "nodata value", [_number(band, "NoDataValue") for band in bands])
    value = representable(nodata, dtype)
    told = [_facts(band, own, files) for band, own in zip(bands, pieces, strict=True)]
    return Opened.of(
        MosaicSource(path, (rows, cols, len(bands)), dtype, pieces, 0 if value is None else value),
        **columns(told),
        nodata=nodata,
        crs=parse_crs(path, root.findtext("SRS") or ""),
        transform=_transform(path, root),
    )


class _Files:
    """The files of a VRT, each described once."""

    def __init__(self, vrt: Path, budget: int) -> None:
        self.vrt, self.budget = vrt, budget
        self.opened: dict[str, RasterFile] = {}

    def named(self, source: ET.Element) -> RasterFile:
        """Return the file that a source names, which must lie beside the VRT."""
        element = source.find("SourceFilename")
        name = "" if element is None else (element.text or "").strip()
        relative = element is not None and element.get("relativeToVRT") == "1"
        plain = name not in ("", ".", "..") and not set(name) & set("/\\:\0")
        if not (relative and plain):
            raise SceneError(
                f"{self.vrt}: names the file {name[:80]!r}, wanted files beside the VRT by their "
                "names alone (relativeToVRT); build the VRT in the folder of its files"
            )
        if name not in self.opened:
            guards.check_count(self.vrt, len(self.opened), _MOST_FILES, "files in a VRT")
            file = self.vrt.parent / name
            guards.existing_file(file)
            self.opened[name] = describe_raster(check_beside(self.vrt, file), self.budget)
        return self.opened[name]


def _pieces(path: Path, band: ET.Element, files: _Files, dtype: np.dtype) -> Iterator[Piece]:
    for source in band:
        if source.tag not in ("SimpleSource", "ComplexSource"):
            continue
        _check_children(path, source, source.tag, _SOURCE)
        raster = files.named(source)
        rows, cols, count = raster.source.shape
        number = _whole(path, source.findtext("SourceBand") or "1")
        there, size = _rectangle(path, source.find("SrcRect"), (rows, cols))
        here, shown = _rectangle(path, source.find("DstRect"), size)
        inside = all(
            t >= 0 and t + n <= m for t, n, m in zip(there, size, (rows, cols), strict=True)
        )
        if not (1 <= number <= count and inside and size == shown):
            raise SceneError(
                f"{path}: shows band {number}, {size} pixels from {there} of "
                f"{raster.source.path.name}, at a size of {shown}; wanted pixels that the file "
                f"has, at their own size; {_REMEDY}"
            )
        if raster.source.dtype != dtype:
            raise SceneError(
                f"{path}: declares {dtype}, {raster.source.path.name} holds {raster.source.dtype}; "
                f"wanted one type; {_REMEDY}"
            )
        yield Piece(raster.source, number - 1, here, there, size, _number(source, "NODATA"))


def _check_children(path: Path, element: ET.Element, tag: str, known: set[str]) -> None:
    """Refuse an element of another kind, a sub-class, or what is not known to be harmless."""
    strange = [child.tag for child in element if child.tag not in known]
    if element.tag != tag or "subClass" in element.attrib or strange:
        got = strange[0] if strange else element.get("subClass", element.tag)
        raise SceneError(
            f"{path}: a VRT is read that only puts files together, it has {got[:40]!r}; {_REMEDY}"
        )


def _dtype(path: Path, band: ET.Element) -> str:
    _check_children(path, band, "VRTRasterBand", _BAND)
    name = band.get("dataType", "Byte")
    if name not in _TYPES:
        raise SceneError(f"{path}: wanted real numbers, got bands of {name[:40]!r}; {_REMEDY}")
    return _TYPES[name]


def _facts(band: ET.Element, pieces: tuple[Piece, ...], files: _Files) -> Facts:
    """Return what the VRT tells of a band; what it leaves out, its first file tells."""
    domains: dict[str, dict[str, str]] = {}
    for metadata in band.iterfind("Metadata"):
        tags = {item.get("key", ""): item.text or "" for item in metadata.iterfind("MDI")}
        domains.setdefault(metadata.get("domain", ""), {}).update(tags)
    own = band_facts(domains.get("", {}), domains.get("IMAGERY", {}), band.findtext("Description"))
    if not pieces:
        return own
    below = files.opened[pieces[0].source.path.name].bands[pieces[0].band]
    center, width, good = (b if a is None else a for a, b in zip(own, below, strict=True))
    return center, width, good  # type: ignore[return-value]


def _rectangle(
    path: Path, element: ET.Element | None, whole: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (row, column) of the first pixel and (rows, columns) of a rectangle."""
    if element is None:
        return (0, 0), whole
    about: Mapping[str, Any] = element.attrib
    x, y, width, height = (_whole(path, about.get(n)) for n in ("xOff", "yOff", "xSize", "ySize"))
    return (y, x), (height, width)


def _number(element: ET.Element, name: str) -> float | None:
    text = element.findtext(name)
    return None if text is None else float(text)


def _whole(path: Path, text: str | None) -> int:
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not (abs(value) < 2**53 and value == int(value)):
        raise SceneError(f"{path}: wanted whole pixels in a VRT, got {text!r}; {_REMEDY}")
    return int(value)


def _transform(path: Path, root: ET.Element) -> Affine | None:
    text = root.findtext("GeoTransform")
    if text is None:
        return None
    numbers = [float(word) for word in text.replace(",", " ").split()]
    if len(numbers) != 6:
        raise SceneError(f"{path}: wanted 6 numbers in GeoTransform, got {len(numbers)}; {_REMEDY}")
    return placed(path, numbers)
