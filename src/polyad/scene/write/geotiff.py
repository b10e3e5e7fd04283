"""GeoTIFF class maps, probabilities, uncertainties and sets, written window by window."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling

from polyad.atomic import Outputs
from polyad.errors import InputError, SceneMismatch
from polyad.scene.files.paths import QML_MARK
from polyad.scene.raster.classes import (
    NO_SET,
    SET_MEMBERS,
    SET_SIZE,
    UNLABELED,
    ClassInfo,
    SetRule,
    class_dtype,
    rgb,
    size_dtype,
)
from polyad.scene.write.cog import Raster, open_raster, placed
from polyad.text import clean_name

PROBABILITY = "class probability"  # the tag "quantity" of a file of probabilities
_UINT8_STEPS = 254  # probability p is kept as round(254 p); 255 means "not mapped"


def checked_ids(ids: npt.ArrayLike, classes: Sequence[ClassInfo]) -> npt.NDArray[Any]:
    """Return ``ids`` (any shape) in the type of the map, or refuse ids that have no class."""
    ids = np.asarray(ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"class ids must be integers, got {ids.dtype}; use .astype('uint8')")
    dtype = class_dtype(classes)
    known = np.zeros(np.iinfo(dtype).max + 1, dtype=bool)
    known[[UNLABELED, *(c.value for c in classes)]] = True
    inside = (ids >= 0) & (ids < known.size)
    if not inside.all() or not known[ids].all():
        unknown = sorted({int(i) for i in np.unique(ids)} - set(np.flatnonzero(known).tolist()))
        raise SceneMismatch(
            f"the map holds class ids {unknown[:5]} but its class table lists "
            f"{[c.value for c in classes][:20]}; pass the classes the model was fitted on"
        )
    return ids.astype(dtype)


@contextmanager
def open_class_map(
    outputs: Outputs,
    path: str | os.PathLike[str],
    shape: tuple[int, int],
    classes: Sequence[ClassInfo],
    *,
    crs: CRS | None = None,
    transform: Affine | None = None,
    quantity: str | None = None,
) -> Iterator[Raster]:
    """Yield a GeoTIFF of class ids, to be written window by window.

    The TIFF stands alone: palette, nodata and names are in its tags. Beside it go the names for
    GDAL (``.aux.xml``) and the style for QGIS (``.qml``).

    Parameters
    ----------
    outputs : Outputs
        What the map appears together with.
    path, shape, classes, crs, transform
        See `polyad.scene.MapWriter`.
    quantity : str, optional
        A tag that says what the ids are, if no map; see `polyad.scene.files.paths`.
    """
    profile = {"count": 1, "dtype": class_dtype(classes).name, "nodata": UNLABELED}
    profile |= placed(shape, crs, transform)
    with open_raster(outputs, path, profile, Resampling.mode) as raster:
        colors = {UNLABELED: (0, 0, 0, 0)}
        colors |= {c.value: (*rgb(c.color), 255) for c in classes}
        raster.dataset.write_colormap(1, colors)
        raster.dataset.set_band_description(1, "class")
        raster.dataset.update_tags(**class_tags(classes))
        if quantity is not None:
            raster.dataset.update_tags(quantity=quantity)
        raster.flush()
        names_temporary = outputs.temporary(f"{os.fspath(path)}.aux.xml", companion=True)
        style_temporary = outputs.temporary(style_path(Path(path)), companion=True)
        yield raster
    names_temporary.write_text(pam_xml(classes), encoding="utf-8")
    style_temporary.write_text(qml_style(classes), encoding="utf-8")


@contextmanager
def open_probabilities(
    outputs: Outputs,
    path: str | os.PathLike[str],
    shape: tuple[int, int],
    names: Sequence[str],
    *,
    dtype: str,
    crs: CRS | None,
    transform: Affine | None,
    quantity: str = PROBABILITY,
) -> Iterator[Raster]:
    """Yield a GeoTIFF of one band for each of ``names``, to be written window by window.

    It is a companion of the map: no moment shows the probabilities of another one.
    """
    encoded = encode_probabilities(np.empty((0, 0, 0)), dtype).dtype.name  # refuses other types
    profile = placed(shape, crs, transform) | {"count": len(names), "dtype": encoded}
    profile |= {"nodata": np.nan, "predictor": 3} if encoded == "float32" else {"nodata": 255}
    with open_raster(outputs, path, profile, Resampling.average, companion=True) as raster:
        raster.dataset.descriptions = tuple(map(clean_name, names))
        raster.dataset.update_tags(quantity=quantity)
        if encoded == "uint8":
            raster.dataset.scales = (1 / _UINT8_STEPS,) * len(names)
            raster.dataset.update_tags(probability_scale=f"1/{_UINT8_STEPS}")
        raster.flush()
        yield raster


@contextmanager
def open_sets(
    outputs: Outputs,
    paths: Sequence[Path],
    shape: tuple[int, int],
    names: Sequence[str],
    rule: SetRule,
    *,
    crs: CRS | None,
    transform: Affine | None,
) -> Iterator[tuple[Raster, Raster]]:
    """Yield two GeoTIFFs: the size of each pixel's set, 0 where there is none, and its members.

    The members have one band for each class: 1 in the set, 0 not in it, 255 where there is none.
    """
    place = placed(shape, crs, transform)
    sizes = place | {"count": 1, "dtype": size_dtype(len(names)).name, "nodata": 0}
    members = place | {"count": len(names), "dtype": "uint8", "nodata": NO_SET}
    tags = {"coverage": f"{rule.coverage:g}", "held_out_labels": str(rule.labels)}
    with (
        open_raster(outputs, paths[0], sizes, Resampling.mode, companion=True) as size_raster,
        open_raster(outputs, paths[1], members, Resampling.mode, companion=True) as set_raster,
    ):
        size_raster.dataset.set_band_description(1, "classes in the set")
        size_raster.dataset.update_tags(quantity=SET_SIZE, **tags)
        set_raster.dataset.descriptions = tuple(map(clean_name, names))
        set_raster.dataset.update_tags(quantity=SET_MEMBERS, **tags)
        size_raster.flush()
        set_raster.flush()
        yield size_raster, set_raster


def encode_probabilities(proba: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
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


def class_tags(classes: Sequence[ClassInfo]) -> dict[str, str]:
    """Return the table of classes as GeoTIFF tags, each a JSON list."""
    return {
        "class_values": json.dumps([c.value for c in classes]),
        "class_names": json.dumps([c.name for c in classes], ensure_ascii=False),
        "class_colors": json.dumps([c.color for c in classes]),
    }


# A GeoTIFF has room for a palette but not for names. GDAL's Persistent Auxiliary Metadata (PAM) has
# two places for them: category names, one for each id from 0, and a raster attribute table (RAT),
# one row for each class. Programs look in either, so both are written.


UNLABELED_NAME = "Unclassified"  # ENVI's word, which GDAL and QGIS show for id 0

# GDAL's numbers: GFT_Integer = 0, GFT_String = 2; the GFU_* usages Name, MinMax, Red .. Alpha.
_INTEGER, _STRING = "0", "2"
_COLUMNS = (
    ("Value", _INTEGER, "5"),
    ("Class", _STRING, "2"),
    ("Red", _INTEGER, "6"),
    ("Green", _INTEGER, "7"),
    ("Blue", _INTEGER, "8"),
    ("Alpha", _INTEGER, "9"),
)


def category_names(classes: Sequence[ClassInfo]) -> list[str]:
    """Return one name for each id from 0 to the largest; ids without a class have none.

    Examples
    --------
    >>> category_names([ClassInfo(2, "Corn", "#4477AA")])
    ['Unclassified', '', 'Corn']
    """
    names = [""] * (1 + max((c.value for c in classes), default=0))
    names[UNLABELED] = UNLABELED_NAME
    for c in classes:
        names[c.value] = c.name
    return names


def pam_xml(classes: Sequence[ClassInfo]) -> str:
    """Return the text of the ``.aux.xml`` file that names ``classes`` in band 1."""
    root = ET.Element("PAMDataset")
    band = ET.SubElement(root, "PAMRasterBand", band="1")
    categories = ET.SubElement(band, "CategoryNames")
    for name in category_names(classes):
        ET.SubElement(categories, "Category").text = name
    table = ET.SubElement(band, "GDALRasterAttributeTable", tableType="thematic")
    for index, (name, kind, usage) in enumerate(_COLUMNS):
        column = ET.SubElement(table, "FieldDefn", index=str(index))
        ET.SubElement(column, "Name").text = name
        ET.SubElement(column, "Type").text = kind
        ET.SubElement(column, "Usage").text = usage
    rows = [(UNLABELED, UNLABELED_NAME, 0, 0, 0, 0)]
    rows += [(c.value, c.name, *rgb(c.color), 255) for c in classes]
    for index, values in enumerate(rows):
        row = ET.SubElement(table, "Row", index=str(index))
        for value in values:
            ET.SubElement(row, "F").text = str(value)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


_VERSION = "3.22.0"  # of QGIS, whose way of writing this is


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
    root = ET.Element("qgis", version=_VERSION, styleCategories="Symbology")
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
