"""Rasters that GDAL reads: GeoTIFF, JPEG 2000, VRT, and scenes with a file for each band."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.windows import Window

from polyad.errors import SceneError
from polyad.safe_open import open_regular
from polyad.scene.files.paths import JP2_MAGIC, TIFF_MAGIC
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, nm_factor, to_nm
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.opening import (
    MOST_FILES,
    Opened,
    check_beside,
    kept_raster,
    open_raster,
)
from polyad.scene.read.formats.sidecars import band_metadata, georeference, read_pam, read_xml

_ENDINGS = (".tif", ".tiff", ".jp2", ".j2k")
_XML_BYTES = 16 * 2**20  # 425 bands with metadata take half a megabyte
# What a VRT that puts files together is made of; masks, look-up tables and functions are not
_OF_VRT = {
    "SRS", "GeoTransform", "Metadata", "MDI", "VRTRasterBand", "OverviewList", "BlockXSize",
    "BlockYSize", "Description", "NoDataValue", "SimpleSource", "ComplexSource", "ColorInterp",
    "UnitType", "Scale", "Offset", "CategoryNames", "Category", "ColorTable", "Entry",
    "Histograms", "HistItem", "HistMin", "HistMax", "BucketCount", "IncludeOutOfRange",
    "Approximate", "HistCounts", "HideNoDataValue", "SourceFilename", "SourceBand",
    "SourceProperties", "SrcRect", "DstRect", "NODATA",
}  # fmt: skip
# How GML inside of JPEG 2000 may name a reference system: GDAL would look up anything else
_SYSTEM = re.compile(
    rb"urn:(?:x-)?ogc:def:crs:EPSG:[\d.]*:\d{1,6}|EPSG:\d{1,6}"
    rb"|https?://www\.opengis\.net/(?:def/crs/EPSG/[\d.]+/|gml/srs/epsg\.xml#)\d{1,6}"
)
_NAMES = re.compile(rb"""srsName\s*=\s*["']([^"']*)["']|href\s*=\s*["'](?!gmljp2:|#)""", re.I)
# "0.4 Micrometers", "band 3 (550.2 nm)": how other programs name bands.
_NAMED = re.compile(r"([\d.]+)\s*\(?(nanomet(?:er|re)s?|micromet(?:er|re)s?|nm|[uµμ]m)\b", re.I)

Facts = tuple[float | None, float | None, bool | None]


def band_facts(
    tags: Mapping[str, str], imagery: Mapping[str, str], description: str | None
) -> Facts:
    """Return center and width of a band in nm, and whether it is good; None where untold.

    Parameters
    ----------
    tags, imagery : mapping of str to str
        Of the usual domain, and of IMAGERY, where GDAL >= 3.10 keeps micrometers.
    description : str, optional
        The band's name.

    Examples
    --------
    >>> band_facts({"wavelength": "0.55", "wavelength_units": "um", "bbl": "0"}, {}, None)
    (550.0, None, False)
    >>> band_facts({}, {}, "band 3 (550.2 nm)")
    (550.2, None, None)
    """
    tags = {k.lower(): v for k, v in tags.items()}  # ENVI turned into TIFF has plain tags
    units = tags.get("wavelength_units") or tags.get("wavelength_unit")
    stated = [(_number(tags.get("wavelength")), units)]
    stated += [(_number(imagery.get("CENTRAL_WAVELENGTH_UM")), "um")]
    stated += [(_number(value), unit) for value, unit in _NAMED.findall(description or "")[:1]]
    centers = [float(to_nm([value], unit)[0]) for value, unit in stated if value is not None]
    # A width shares the unit of its center, also where that unit has to be guessed
    scale = nm_factor(np.array([stated[0][0] or np.nan]), units)
    width, micrometers = _number(tags.get("fwhm")), _number(imagery.get("FWHM_UM"))
    if width is not None:
        width = round(width * scale, 6)
    elif micrometers is not None:
        width = float(to_nm([micrometers], "um")[0])
    flag = _number(tags.get("bbl"))
    return centers[0] if centers else None, width, None if flag is None else flag != 0


def columns(told: Sequence[Facts]) -> dict[str, NDArray[Any]]:
    """Return ``wavelength``, ``fwhm`` and ``good`` of all bands, as far as they tell.

    Centers and widths are of use only if every band tells its own; a band is good unless it tells
    that it is not.

    Examples
    --------
    >>> columns([(550.0, None, None), (560.0, 9.0, False)])
    {'wavelength': array([550., 560.]), 'good': array([ True, False])}
    """
    wavelength, fwhm, good = zip(*told, strict=True)
    all_told = {"wavelength": wavelength, "fwhm": fwhm}
    known = {name: np.array(v) for name, v in all_told.items() if None not in v}
    if any(flag is not None for flag in good):
        known["good"] = np.array([flag is not False for flag in good])
    return known


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def band_facts_of(
    dataset: Any, beside: Mapping[int, Mapping[str, dict[str, str]]] = MappingProxyType({})
) -> list[Facts]:
    """Return what the tags of a raster tell of each band, over those that lie ``beside`` it."""
    return [
        band_facts(
            dataset.tags(band) | beside.get(band, {}).get("", {}),
            dataset.tags(band, ns="IMAGERY") | beside.get(band, {}).get("IMAGERY", {}),
            description,
        )
        for band, description in zip(dataset.indexes, dataset.descriptions, strict=True)
    ]


@dataclass(frozen=True)
class RasterSource:
    """Pixels of a raster that one of GDAL's drivers reads."""

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype
    driver: str = "GTiff"

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        window = Window.from_slices(rows, cols)
        with kept_raster(self.path, self.driver) as dataset:
            pixels = dataset.read([int(b) + 1 for b in bands], window=window)  # (band, y, x)
        turned = np.moveaxis(pixels, 0, -1)
        return np.ascontiguousarray(turned) if self.driver == "VRT" else turned


@dataclass(frozen=True)
class RasterFile:
    """A raster: where its pixels lie, and what it says of itself."""

    source: RasterSource
    bands: tuple[Facts, ...]
    nodata: float | None
    crs: Any
    transform: Affine | None


def describe_raster(path: Path, budget: int) -> RasterFile:
    """Check a TIFF or JPEG 2000 file and return what it says."""
    guards.existing_file(path)
    with open_regular(path) as file:
        head = file.read(16)
    driver = "GTiff" if head.startswith(TIFF_MAGIC) else "JP2OpenJPEG"
    if driver != "GTiff":
        if not head.startswith(JP2_MAGIC):
            raise SceneError(f"{path}: expected a TIFF or JPEG 2000 file, got another kind")
        _check_names(path)
    with open_raster(path, driver) as dataset:
        shape, dtype = check_raster(path, dataset, path.stat().st_size, budget)
        source = RasterSource(path, shape, dtype, driver)
        facts = band_facts_of(dataset, band_metadata(read_pam(path)))
        return RasterFile(source, tuple(facts), dataset.nodata, **georeference(path, dataset))


def open_image(path: Path, budget: int) -> Opened:
    """Open a GeoTIFF or JPEG 2000 image; values as stored, wavelengths from its tags."""
    raster = describe_raster(path, budget)
    place = {"crs": raster.crs, "transform": raster.transform}
    return Opened.of(raster.source, **columns(raster.bands), nodata=raster.nodata, **place)


def check_raster(
    path: Path | str, dataset: Any, stored: int, budget: int
) -> tuple[tuple[int, int, int], np.dtype]:
    """Check an open raster against the ``stored`` bytes of its file; return shape and type."""
    dtypes = {np.dtype(d) for d in dataset.dtypes}
    if len(dtypes) > 1:
        got = f"got {sorted(map(str, dtypes))}; write the bands again with a common type"
        raise SceneError(f"{path}: expected bands of one type, {got}")
    (dtype,) = dtypes
    guards.check_numeric(path, dtype)
    shape = (dataset.height, dataset.width, dataset.count)
    guards.check_shape(path, shape)
    declared = guards.declared_bytes(shape, dtype)
    if dataset.driver == "GTiff" and dataset.compression is None:
        guards.check_stored(path, declared, stored)
    guards.check_inflation(path, declared, stored)
    if dataset.driver == "GTiff":
        _check_last_block(path, dataset, stored)
        check_blocks(path, dataset, budget)
    return shape, dtype


def check_blocks(path: Path | str, dataset: Any, budget: int) -> None:
    """Refuse a TIFF whose strips or tiles, which are unpacked whole, are too large."""
    dtype = np.dtype(dataset.dtypes[0])
    declared = guards.declared_bytes((dataset.height, dataset.width, dataset.count), dtype)
    pixelwise = "PIXEL" in str(dataset.interleaving).upper()
    together = dataset.count if pixelwise else 1
    block = guards.declared_bytes((*max(dataset.block_shapes), together), dtype)
    guards.check_piece(path, block, declared, budget, "a block of the TIFF")


def _check_last_block(path: Path | str, dataset: Any, stored: int) -> None:
    # Blocks are written in order: a file cut short has lost its last one.
    rows, cols = dataset.block_shapes[-1]
    across, down = (dataset.width - 1) // cols, (dataset.height - 1) // rows
    items = (f"BLOCK_{what}_{across}_{down}" for what in ("OFFSET", "SIZE"))
    offset, size = (dataset.get_tag_item(item, "TIFF", bidx=dataset.count) for item in items)
    if offset is not None and size is not None:
        guards.check_stored(path, int(offset) + int(size), stored)


def _check_names(path: Path) -> None:
    """Refuse GML in JPEG 2000 that names a reference system by more than a code, or links."""
    with open_regular(path) as file:
        content = file.read(_XML_BYTES)
        file.seek(max(len(content), path.stat().st_size - _XML_BYTES))
        content += file.read(_XML_BYTES)
    strange = [name for name in _NAMES.findall(content) if not _SYSTEM.fullmatch(name.strip())]
    if strange:
        name = strange[0][:60].decode("latin-1") or "a link"
        expected = "expected a code such as 'EPSG:32632' and no other file"
        raise SceneError(f"{path}: its metadata name {name!r}, {expected}; convert the file")


# Several files in one scene


@dataclass(frozen=True)
class StackSource:
    """A file for each band."""

    path: Path
    sources: tuple[RasterSource, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        return (*self.sources[0].shape[:2], len(self.sources))

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self.sources[0].dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        only = np.zeros(1, np.intp)
        return np.concatenate([self.sources[b].read(rows, cols, only) for b in bands], axis=-1)


def split_files(folder: Path) -> list[Path]:
    """Return the image files of a folder, in the natural order of their names."""
    if not folder.is_dir():
        return []
    files = [p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS]
    return sorted(files, key=lambda p: natural(p.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers in names by their value.

    Examples
    --------
    >>> sorted(["B10.tif", "B9.tif", "B1.tif"], key=natural)
    ['B1.tif', 'B9.tif', 'B10.tif']
    """
    words = re.findall(r"\d+|\D+", name.lower())
    numbers = [int(word) if word.isdecimal() and len(word) < 19 else None for word in words]
    return [(1, 0, w) if n is None else (0, n, "") for w, n in zip(words, numbers, strict=True)]


def open_folder(path: Path, budget: int) -> Opened:
    """Open a folder of single-band files as one scene."""
    return open_bands(path, [check_beside(path, file) for file in split_files(path)], budget)


def open_bands(path: Path, files: Sequence[Path], budget: int) -> Opened:
    """Open single-band files as one scene, named ``path`` in messages.

    The bands are ordered by wavelength if every file tells one, else as given.
    """
    guards.check_count(path, len(files), MOST_FILES, "files of bands")
    rasters = [describe_raster(file, budget) for file in files]
    for raster in rasters:
        if raster.source.shape[2] != 1:
            raise SceneError(
                f"{raster.source.path}: expected files of one band each, got "
                f"{raster.source.shape[2]} bands; open that file alone, or move it elsewhere"
            )
    centers, order = [raster.bands[0][0] for raster in rasters], list(range(len(rasters)))
    if None not in centers:
        order.sort(key=lambda i: centers[i] or 0.0)
    rasters = [rasters[i] for i in order]
    _common(path, "size", [r.source.shape for r in rasters])
    _common(path, "type", [r.source.dtype for r in rasters])
    return Opened.of(
        StackSource(path, tuple(r.source for r in rasters)),
        **columns([r.bands[0] for r in rasters]),
        number=np.array(order) + 1,
        crs=_common(path, "reference system", [r.crs for r in rasters]),
        transform=_common(path, "place on the map", [r.transform for r in rasters]),
        nodata=_common(path, "nodata value", [r.nodata for r in rasters]),
    )


def _common(path: Path, what: str, values: Sequence[Any]) -> Any:
    """Return the one value that all parts of a scene have; refuse parts that differ."""
    first = values[0]
    for value in values:
        nan = value != value and first != first  # noqa: PLR0124  (nodata may be NaN)
        if value != first and not nan:
            expected = f"expected one {what} in all files of the scene, got {first} and {value}"
            raise SceneError(f"{path}: {expected}; write the files on one grid with one type")
    return first


def open_vrt(path: Path, budget: int) -> Opened:
    """Open a VRT whose sources are TIFF and JPEG 2000 files in its own folder, by GDAL.

    A VRT can name any file and address, and nest. Its sources are looked at before GDAL opens it:
    each must be a file beside the VRT, named without any folder.
    """
    root = read_xml(path, "a VRT", _XML_BYTES)
    crs = parse_crs(path, root.findtext("SRS") or "")
    named = [_beside(path, element) for element in root.iter("SourceFilename")]
    tags = [element.get("subClass", element.tag) for element in root.iter()]
    odd = [tag for tag in tags[tags[0] == "VRTDataset" :] if tag not in _OF_VRT]
    if odd:
        expected = "a VRT is read that only puts files together, it has"
        raise SceneError(f"{path}: {expected} {odd[0][:40]!r}; convert it with gdal_translate")
    guards.check_count(path, len(set(named)), MOST_FILES, "files in a VRT")
    files = {name: describe_raster(path.parent / name, budget) for name in dict.fromkeys(named)}
    stored = sum(file.source.path.stat().st_size for file in files.values())
    with open_raster(path, "VRT") as dataset:
        shape, dtype = check_raster(path, dataset, stored, budget)
        nodata = _common(path, "nodata value", dataset.nodatavals)
        facts = [
            cast(Facts, tuple(b if a is None else a for a, b in zip(own, other, strict=True)))
            for own, other in zip(band_facts_of(dataset), _below(root, files), strict=True)
        ]
        transform = None if root.find("GeoTransform") is None else dataset.transform
    source = RasterSource(path, shape, dtype, "VRT")
    place = {"crs": crs, "transform": transform}
    return Opened.of(source, **columns(facts), nodata=nodata, **place)


def _beside(vrt: Path, element: ET.Element) -> str:
    """Return the name of a VRT's source, which must be a file beside it."""
    name = (element.text or "").strip()
    plain = name not in ("", ".", "..") and not set(name) & set("/\\:\0")
    if not (element.get("relativeToVRT") == "1" and plain):
        raise SceneError(
            f"{vrt}: names the file {name[:80]!r}, expected files beside the VRT by their names "
            "alone (relativeToVRT); build the VRT in the folder of its files"
        )
    guards.existing_file(vrt.parent / name)
    check_beside(vrt, vrt.parent / name)
    return name


def _below(root: ET.Element, files: Mapping[str, RasterFile]) -> Iterator[Facts]:
    """Yield what the first file of each band of a VRT tells of it."""
    for band in root.iterfind("VRTRasterBand"):
        file = files.get((band.findtext(".//SourceFilename") or "").strip())
        number = (band.findtext(".//SourceBand") or "1").strip()
        known = file and number.isdecimal() and 1 <= int(number) <= len(file.bands)
        yield file.bands[int(number) - 1] if file and known else (None, None, None)
