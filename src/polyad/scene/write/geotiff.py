"""GeoTIFFs of classes, probabilities, sets and values, written window by window."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
from rasterio.enums import Resampling

from polyad.atomic import Outputs
from polyad.errors import InputError
from polyad.scene.files.paths import DEVIATION, QML_MARK, VALUES
from polyad.scene.raster.classes import (
    NO_SET,
    SET_MEMBERS,
    SET_SIZE,
    UNLABELED,
    ClassInfo,
    SetRule,
    Target,
    class_dtype,
    rgb,
    size_dtype,
)
from polyad.scene.raster.grid import Grid
from polyad.scene.write.cog import Raster, open_raster, placed
from polyad.scene.write.frame import (
    UNLABELED_NAME,
    AnyPath,
    Array,
    MapFrame,
    Slices,
    Windows,
    category_names,
)
from polyad.text import clean_name

PROBABILITY = "class probability"  # the tag "quantity" of a file of probabilities
_UINT8_STEPS = 254  # probability p is kept as round(254 p); 255 means "not mapped"
_QGIS = "3.22.0"  # whose way of writing styles this is


@dataclass(frozen=True)
class Bands:
    """What a GeoTIFF holds: ``names``, ``units`` and ``about`` of its bands, ``tags`` of it all."""

    names: Sequence[str]
    dtype: str
    nodata: float
    tags: Mapping[str, str]
    resampling: Resampling = Resampling.mode  # of overviews: between two ids lies no class
    units: Sequence[str] = ()
    about: Sequence[Mapping[str, str]] = ()
    scale: float | None = None
    palette: Mapping[int, tuple[int, ...]] | None = None


@contextmanager
def open_bands(
    outputs: Outputs, path: AnyPath, grid: Grid, bands: Bands, *, companion: bool = True
) -> Iterator[Raster]:
    """Yield a GeoTIFF to be written window by window.

    A companion of a map appears with it: no moment shows the probabilities of another one.
    """
    profile = placed(grid) | {"count": len(bands.names), "dtype": bands.dtype}
    profile |= {"nodata": bands.nodata}
    if bands.dtype == "float32":
        profile["predictor"] = 3
    with open_raster(outputs, path, profile, bands.resampling, companion=companion) as raster:
        raster.dataset.descriptions = tuple(map(clean_name, bands.names))
        if bands.units:
            raster.dataset.units = tuple(bands.units)
        if bands.scale is not None:
            raster.dataset.scales = (bands.scale,) * len(bands.names)
        if bands.palette is not None:
            raster.dataset.write_colormap(1, bands.palette)
        raster.dataset.update_tags(**bands.tags)
        for k, tags in enumerate(bands.about, start=1):
            raster.dataset.update_tags(k, **tags)
        raster.flush()
        yield raster


def open_geotiff(outputs: Outputs, path: Path, frame: MapFrame) -> AbstractContextManager[Windows]:
    """Return a map of classes or of values, to be written window by window."""
    return (open_values if frame.targets else open_classes)(outputs, path, frame)


@contextmanager
def open_classes(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Raster]:
    """Yield a class map, which stands alone: palette, nodata and names are in the TIFF's tags.

    Beside it go the names for GDAL (``.aux.xml``) and the style for QGIS (``.qml``).
    """
    classes, tags = frame.classes, class_tags(frame.classes)
    if (quantity := frame.attrs.get("quantity")) is not None:  # what the ids are, if no map
        tags["quantity"] = quantity
    colors = {UNLABELED: (0, 0, 0, 0)} | {c.value: (*rgb(c.color), 255) for c in classes}
    bands = Bands(["class"], class_dtype(classes).name, UNLABELED, tags, palette=colors)
    with open_bands(outputs, path, frame.grid, bands, companion=False) as raster:
        names_temporary = outputs.temporary(f"{os.fspath(path)}.aux.xml", companion=True)
        style_temporary = outputs.temporary(style_path(path), companion=True)
        yield raster
    names_temporary.write_text(pam_xml(classes), encoding="utf-8")
    style_temporary.write_text(qml_style(classes), encoding="utf-8")


@contextmanager
def open_values(
    outputs: Outputs, path: Path, frame: MapFrame, *, deviation: bool = False
) -> Iterator[ValueBands]:
    """Yield a map of values, or of their standard deviations, which appears with such a map."""
    names, units = [t.name for t in frame.targets], [t.units for t in frame.targets]
    about = [{} if deviation else _bounds(target) for target in frame.targets]
    tags = {"quantity": DEVIATION if deviation else VALUES}
    bands = Bands(names, "float32", np.nan, tags, Resampling.average, units, about)
    with open_bands(outputs, path, frame.grid, bands, companion=deviation) as raster:
        values = ValueBands(raster)
        yield values
        values.add_statistics()


def _bounds(target: Target) -> dict[str, str]:
    if target.low is None or target.high is None:
        return {}
    return {"valid_min": f"{target.low:g}", "valid_max": f"{target.high:g}"}


class ValueBands:
    """Bands of a GeoTIFF that gets their statistics when it is whole."""

    def __init__(self, raster: Raster) -> None:
        self._raster, count = raster, raster.dataset.count
        self._low, self._high = np.full(count, np.inf), np.full(count, -np.inf)
        self._sums = np.zeros((3, count))  # of ones, values and squares

    def write(self, window: Slices, bands: Array) -> None:
        """Write ``bands`` (band, rows, columns) into ``window`` (rows, columns)."""
        self._raster.write(window, bands)
        known = np.isfinite(bands)
        if not known.any():
            return
        values = np.where(known, bands, 0).astype(np.float64)
        self._sums += [a.sum(axis=(1, 2)) for a in (known, values, values**2)]
        self._low = np.minimum(self._low, np.where(known, bands, np.inf).min(axis=(1, 2)))
        self._high = np.maximum(self._high, np.where(known, bands, -np.inf).max(axis=(1, 2)))

    def add_statistics(self) -> None:
        """Put them into the file, under the names that GDAL and a GIS look for."""
        for k, (count, total, square) in enumerate(self._sums.T.tolist()):
            if count:
                mean = total / count
                found = {"MINIMUM": self._low[k], "MAXIMUM": self._high[k], "MEAN": mean}
                found["STDDEV"] = max(square / count - mean**2, 0.0) ** 0.5
                tags = {f"STATISTICS_{name}": f"{value:.7g}" for name, value in found.items()}
                self._raster.dataset.update_tags(k + 1, **tags)


def probability_bands(names: Sequence[str], dtype: str, quantity: str = PROBABILITY) -> Bands:
    """Return one band of numbers from 0 to 1 for each name; see `encode_probabilities`."""
    encoded = encode_probabilities(np.empty((0, 0, 0)), dtype).dtype.name  # refuses other types
    tags = {"quantity": quantity}
    if encoded == "float32":
        return Bands(names, encoded, np.nan, tags, Resampling.average)
    tags["probability_scale"] = f"1/{_UINT8_STEPS}"
    return Bands(names, encoded, 255, tags, Resampling.average, scale=1 / _UINT8_STEPS)


def encode_probabilities(proba: Array, dtype: str) -> Array:
    """Return probabilities of any shape as they are kept in a file of type ``dtype``.

    Examples
    --------
    >>> encode_probabilities(np.array([0.0, 0.5, 1.0, np.nan]), "uint8")
    array([  0, 127, 254, 255], dtype=uint8)
    """
    if dtype == "float32":
        return proba.astype(np.float32)
    if dtype != "uint8":
        raise InputError(f"probabilities are kept as 'float32' or 'uint8', got {dtype!r}")
    scaled = np.rint(np.clip(proba, 0.0, 1.0) * _UINT8_STEPS)
    return np.where(np.isnan(scaled), 255, scaled).astype(np.uint8)


def set_bands(names: Sequence[str], rule: SetRule) -> tuple[Bands, Bands]:
    """Return the size of each pixel's set, 0 where there is none, and its members.

    The members have one band for each class: 1 in the set, 0 not in it, 255 where there is none.
    """
    tags = {"coverage": f"{rule.coverage:g}", "held_out_labels": str(rule.labels)}
    sizes = {"quantity": SET_SIZE, **tags}
    members = {"quantity": SET_MEMBERS, **tags}
    return (
        Bands(["classes in the set"], size_dtype(len(names)).name, 0, sizes),
        Bands(names, "uint8", NO_SET, members),
    )


def class_tags(classes: Sequence[ClassInfo]) -> dict[str, str]:
    """Return the table of classes as GeoTIFF tags, each a JSON list."""
    return {
        "class_values": json.dumps([c.value for c in classes]),
        "class_names": json.dumps([c.name for c in classes], ensure_ascii=False),
        "class_colors": json.dumps([c.color for c in classes]),
    }


# --- files beside a class map --------------------------------------------------------------------

# GDAL's numbers: GFT_Integer = 0, GFT_String = 2; the GFU_* usages Name, MinMax, Red .. Alpha.
_COLUMNS = (
    ("Value", "0", "5"),
    ("Class", "2", "2"),
    ("Red", "0", "6"),
    ("Green", "0", "7"),
    ("Blue", "0", "8"),
    ("Alpha", "0", "9"),
)


def pam_xml(classes: Sequence[ClassInfo]) -> str:
    """Return the text of the ``.aux.xml`` file that names ``classes`` in band 1.

    A GeoTIFF has room for a palette but not for names. GDAL's Persistent Auxiliary Metadata has
    two places for them: category names, one for each id from 0, and a raster attribute table, one
    row for each class. Programs look in either, so both are written.
    """
    root = ET.Element("PAMDataset")
    band = ET.SubElement(root, "PAMRasterBand", band="1")
    categories = ET.SubElement(band, "CategoryNames")
    for name in category_names(classes):
        ET.SubElement(categories, "Category").text = name
    table = ET.SubElement(band, "GDALRasterAttributeTable", tableType="thematic")
    for index, column in enumerate(_COLUMNS):
        definition = ET.SubElement(table, "FieldDefn", index=str(index))
        for key, text in zip(("Name", "Type", "Usage"), column, strict=True):
            ET.SubElement(definition, key).text = text
    rows = [(UNLABELED, UNLABELED_NAME, 0, 0, 0, 0)]
    rows += [(c.value, c.name, *rgb(c.color), 255) for c in classes]
    for index, values in enumerate(rows):
        row = ET.SubElement(table, "Row", index=str(index))
        for value in values:
            ET.SubElement(row, "F").text = str(value)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def style_path(path: Path) -> Path:
    """Return the name under which QGIS looks for the style of a raster.

    Examples
    --------
    >>> style_path(Path("fields.2024.tif")).name
    'fields.2024.qml'
    """
    return path.with_suffix(".qml")


def qml_style(classes: Sequence[ClassInfo]) -> str:
    """Return the text of the ``.qml`` file that names and colors ``classes`` in band 1.

    QGIS looks for a style under the raster's own name. Id 0, which the map declares to be nodata,
    has no entry and is not drawn.
    """
    root = ET.Element("qgis", version=_QGIS, styleCategories="Symbology")
    root.append(ET.Comment(f" {QML_MARK} "))
    pipe = ET.SubElement(root, "pipe")
    renderer = ET.SubElement(
        pipe, "rasterrenderer", type="paletted", band="1", opacity="1", alphaBand="-1",
        nodataColor="",
    )  # fmt: skip
    ET.SubElement(renderer, "rasterTransparency")
    palette = ET.SubElement(renderer, "colorPalette")
    for c in classes:
        entry = {"value": str(c.value), "label": c.name, "color": c.color.lower(), "alpha": "255"}
        ET.SubElement(palette, "paletteEntry", entry)
    # Neither smoothed when magnified nor averaged when reduced: between two ids lies no class
    ET.SubElement(pipe, "rasterresampler", maxOversampling="2")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"
