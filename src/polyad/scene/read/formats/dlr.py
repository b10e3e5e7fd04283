"""EnMAP and DESIS: ``*-METADATA.XML`` beside ``*-SPECTRAL_IMAGE.TIF``, as DLR delivers both.

The XML gives each band of the TIFF, by number, its center, width, gain and offset. EnMAP's two
detectors overlap between 900 and 1000 nm; the bands are put in order of wavelength. Which of them
are full of nodata stands in the XML too, in newer products; for older ones three lines are read.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import to_nm
from polyad.scene.read.formats.opening import Opened, check_beside, open_raster
from polyad.scene.read.formats.rasters import RasterSource, check_raster
from polyad.scene.read.formats.raw import ScaledSource
from polyad.scene.read.formats.sidecars import georeference, read_xml

# Archives differ: .XML and .xml, .XML.XML; .TIF, .tif, _COG.TIF and _COG.tiff.
_METADATA = re.compile(r"METADATA\.XML(\.XML)?$", re.I)
_IMAGE = re.compile(r"SPECTRAL_IMAGE(_COG)?\.TIFF?$", re.I)
_NODATA = -32768.0
_XML_BYTES = 16 * 2**20  # real ones have about one megabyte


# How each product's XML names a band, and its number, center, width, gain and offset. "@" is the
# attribute "number"; DESIS has further elements of this name in interiorOrientation.
_DIALECTS = (
    (".//bandCharacterisation/bandID", "@", "wavelengthCenterOfBand", "FWHMOfBand",
     "GainOfBand", "OffsetOfBand"),
    (".//bandCharacterisation/band", "bandNumber", "wavelengthCenterOfBand",
     "wavelengthWidthOfBand", "gainOfBand", "offsetOfBand"),
)  # fmt: skip
_UNTOLD = ("", "nan", "1", "0")  # center, width, gain and offset where the XML has none


def find_dlr(path: Path) -> tuple[Path, Path] | None:
    """Return (metadata, image) for the folder or either file, or None if this is no such scene."""
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or _METADATA.search(path.name) or _IMAGE.search(path.name)):
        return None
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    described = {_METADATA.sub("", name): name for name in filter(_METADATA.search, names)}
    pairs: dict[str, tuple[Path, Path]] = {}  # of one scene the plain TIFF stands before the COG
    for image in filter(_IMAGE.search, names):
        metadata = described.get(_IMAGE.sub("", image))
        if metadata is not None and (path.is_dir() or path.name in (image, metadata)):
            pairs.setdefault(metadata, (folder / metadata, folder / image))
    if len(pairs) > 1:
        listed = f"{len(pairs)}: {guards.listing(pairs)}; name one of these files"
        raise SceneError(f"{path}: expected one EnMAP or DESIS scene, got {listed}")
    return next(iter(pairs.values()), None)


def open_dlr(path: Path, budget: int) -> Opened:
    """Open an EnMAP or DESIS scene as physical values (gain * stored + offset)."""
    pair = find_dlr(path)
    if pair is None:
        missing = "expected METADATA.XML and SPECTRAL_IMAGE.TIF of one scene, got not both"
        raise SceneError(f"{path}: {missing}; put them in one folder")
    metadata, image = (check_beside(path, file) for file in pair)
    root = read_xml(metadata, "EnMAP or DESIS metadata", _XML_BYTES)
    guards.existing_file(image)
    with open_raster(image, "GTiff") as dataset:
        tiff = RasterSource(image, *check_raster(image, dataset, image.stat().st_size, budget))
        table = _band_table(metadata, root, tiff.shape[2])
        line = guards.declared_bytes((dataset.width, dataset.count), tiff.dtype)
        guards.check_budget(image, line, budget, "a line of all bands")
        nodata = _NODATA if dataset.nodata is None else float(dataset.nodata)
        useful = _useful(root, dataset, nodata)
        order = [int(b) for b in np.argsort(table[:, 0], kind="stable")]
        center, width, gain, offset = table[order].T
        return Opened.of(
            ScaledSource(tiff, tuple(order), tuple(gain), tuple(offset), nodata),
            wavelength=to_nm(center, "nm"),
            fwhm=to_nm(width, "nm"),
            good=useful[order],
            number=np.array(order) + 1,
            nodata=np.nan,
            **georeference(image, dataset),
        )


def _band_table(path: Path, root: ET.Element, count: int) -> NDArray[np.float64]:
    """Return center, width, gain and offset of each TIFF band, shape ``(bands, 4)``."""
    table = np.full((count, 4), np.nan)
    place, number, *names = next(
        (d for d in _DIALECTS if root.find(d[0]) is not None), _DIALECTS[0]
    )
    for band in root.iterfind(place):
        k = int((band.get("number") if number == "@" else band.findtext(number)) or "0")
        if not 1 <= k <= count:
            what = f"describes band {k}, the image has {count} bands"
            raise SceneError(f"{path}: {what}; metadata and image are not of one scene")
        texts = (band.findtext(n) or untold for n, untold in zip(names, _UNTOLD, strict=True))
        table[k - 1] = [float(t or "nan") for t in texts]
    if not np.isfinite(table[:, [0, 2, 3]]).all():
        known = int(np.isfinite(table[:, 0]).sum())
        raise SceneError(
            f"{path}: expected wavelength, gain and offset of {count} bands, got {known}; metadata "
            "and image are not of one scene, or one is damaged"
        )
    return table


def _useful(root: ET.Element, dataset: Any, nodata: float) -> NDArray[np.bool_]:
    """Return which bands hold a measurement, shape ``(bands,)``.

    Bands in deep water absorption are delivered full of nodata. Kept, they would make every pixel
    invalid, so that a band is left out if the metadata does not expect it, or if its statistics
    are those of nodata. Without statistics, one that is empty on three sample lines is left out.
    """
    count, useful = dataset.count, np.ones(dataset.count, bool)
    named = (root.findtext(f".//{d}ProductQuality/expectedChannelsList") for d in ("vnir", "swir"))
    expected = [int(n) for text in named for n in (text or "").split(",") if n.strip().isdecimal()]
    if expected and max(expected) <= count:
        useful = np.isin(np.arange(1, count + 1), expected)
    spreads: dict[int, bool] = {}  # whether a band has the statistics of a measurement
    for band in root.iterfind(".//bandStatistics/bandID"):
        mean, spread = (float(band.findtext(n) or "nan") for n in ("mean", "stdDeviation"))
        if np.isfinite([mean, spread]).all():
            # A band without a measurement has a mean of -1000000 and no spread.
            spreads[int(band.get("number") or "0")] = spread != 0 or mean > _NODATA
    complete = sorted(spreads) == [*range(1, count + 1)]
    filled = np.array([complete and spreads[k] for k in range(1, count + 1)])
    if not complete:
        for quarter in (1, 2, 3):
            row = dataset.height * quarter // 4
            line = dataset.read(window=((row, row + 1), (0, dataset.width)))  # (bands, 1, width)
            filled |= (line != nodata).any(axis=(1, 2))
    return useful & filled if (useful & filled).any() else useful
