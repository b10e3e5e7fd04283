"""EnMAP L2A: ``*-METADATA.XML`` beside ``*-SPECTRAL_IMAGE.TIF``.

The XML gives each band of the TIFF, by number, its center, width, gain and offset. The two
detectors overlap between 900 and 1000 nm; the bands are put in order of wavelength.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.lazy import Array, lazy_scene
from polyad.scene.raster.wavelengths import to_nm
from polyad.scene.read.formats.geotiff import TiffSource, open_tiff, tiff_source
from polyad.scene.read.formats.markup import read_xml
from polyad.scene.read.formats.opening import check_beside
from polyad.scene.read.formats.sidecars import georeference

_METADATA = re.compile(r"METADATA\.XML$", re.I)
_IMAGE = re.compile(r"SPECTRAL_IMAGE(_COG)?\.TIFF?$", re.I)
_NODATA = -32768.0
_XML_BYTES = 16 * 2**20  # real ones have about one megabyte


def find_enmap(path: Path) -> tuple[Path, Path] | None:
    """Return (metadata, image) for the folder or either file, or None if this is no EnMAP scene."""
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or _METADATA.search(path.name) or _IMAGE.search(path.name)):
        return None
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    described = {_METADATA.sub("", name): name for name in filter(_METADATA.search, names)}
    for image in filter(_IMAGE.search, names):
        metadata = described.get(_IMAGE.sub("", image))
        if metadata is not None and path.name in (image, metadata, folder.name):
            return folder / metadata, folder / image
    return None


@dataclass(frozen=True)
class EnmapSource:
    """Reflectance of EnMAP, float32; NaN where the TIFF has its nodata value."""

    tiff: TiffSource
    order: tuple[int, ...]
    gain: tuple[float, ...]
    offset: tuple[float, ...]
    nodata: float

    @property
    def path(self) -> Path:
        """The image."""
        return self.tiff.path

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        return (*self.tiff.shape[:2], len(self.order))

    @property
    def dtype(self) -> np.dtype:
        """Reflectance is float32."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        stored = self.tiff.read(rows, cols, np.asarray(self.order)[bands])
        gain, offset = (np.asarray(v, np.float32)[bands] for v in (self.gain, self.offset))
        values = stored.astype(np.float32) * gain + offset
        values[stored == self.nodata] = np.nan
        return values


def open_enmap(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open an EnMAP scene as reflectance (gain * stored + offset)."""
    pair = find_enmap(path)
    if pair is None:
        raise SceneError(
            f"{path}: wanted METADATA.XML and SPECTRAL_IMAGE.TIF of one EnMAP scene side by side, "
            "found not both; put them in one folder"
        )
    if key is not None:
        raise SceneError(f"{path}: an EnMAP scene takes no key, got ':{key}'; leave it out")
    metadata, image = (check_beside(path, file) for file in pair)
    root = read_xml(metadata, "EnMAP metadata", _XML_BYTES)
    guards.existing_file(image)
    with open_tiff(image, budget) as dataset:
        tiff = tiff_source(image, dataset, budget)
        table = _band_table(metadata, root, tiff.shape[2])
        line = guards.declared_bytes((dataset.width, dataset.count), tiff.dtype)
        guards.check_budget(image, line, budget, "a line of all bands")
        nodata = _NODATA if dataset.nodata is None else float(dataset.nodata)
        useful = _useful(root, dataset, nodata)
        order = [int(b) for b in np.argsort(table[:, 0], kind="stable")]
        center, width, gain, offset = table[order].T
        source = EnmapSource(tiff, tuple(order), tuple(gain), tuple(offset), nodata)
        return lazy_scene(
            source,
            wavelength=to_nm(center, "nm"),
            fwhm=to_nm(width, "nm"),
            good=useful[order],
            nodata=np.nan,
            **georeference(image, dataset),
        )


def _band_table(path: Path, root: ET.Element, count: int) -> NDArray[np.float64]:
    """Return center, width, gain and offset of each TIFF band, shape ``(bands, 4)``."""
    table = np.full((count, 4), np.nan)
    for band in root.iterfind(".//bandCharacterisation/bandID"):
        number = int(band.get("number", "0"))
        if not 1 <= number <= count:
            raise SceneError(
                f"{path}: describes band {number}, the image has {count} bands; metadata and image "
                "are not of one scene"
            )
        fields = (
            ("wavelengthCenterOfBand", ""), ("FWHMOfBand", "nan"), ("GainOfBand", "1"),
            ("OffsetOfBand", "0"),
        )  # fmt: skip
        texts = (band.findtext(name, default) or default for name, default in fields)
        table[number - 1] = [float(t or "nan") for t in texts]
    if np.isnan(table[:, [0, 2, 3]]).any():
        known = int((~np.isnan(table[:, 0])).sum())
        raise SceneError(
            f"{path}: wanted wavelength, gain and offset of {count} bands, got {known}; metadata "
            "and image are not of one scene, or one is damaged"
        )
    return table


def _useful(root: ET.Element, dataset: Any, nodata: float) -> NDArray[np.bool_]:
    """Return which bands hold a measurement, shape ``(bands,)``.

    Bands in deep water absorption are delivered full of nodata. Kept, they would make every pixel
    invalid, so that a band is left out if the metadata does not expect it, or if it is empty on
    three sample lines while others are not.
    """
    useful = np.ones(dataset.count, bool)
    listed = _expected(root)
    if listed and max(listed) <= dataset.count:
        useful = np.isin(np.arange(1, dataset.count + 1), listed)
    filled = np.zeros(dataset.count, bool)
    for quarter in (1, 2, 3):
        row = dataset.height * quarter // 4
        line = dataset.read(window=((row, row + 1), (0, dataset.width)))  # (bands, 1, width)
        filled |= (line != nodata).any(axis=(1, 2))
    return useful & filled if (useful & filled).any() else useful


def _expected(root: ET.Element) -> Sequence[int]:
    texts = [
        root.findtext(f".//{detector}ProductQuality/expectedChannelsList") or ""
        for detector in ("vnir", "swir")
    ]
    return [int(n) for t in texts for n in t.split(",") if n.strip().isdigit()]
