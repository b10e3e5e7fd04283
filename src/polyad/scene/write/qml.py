"""The ``.qml`` file beside a GeoTIFF map: the style that QGIS gives it when it is opened.

QGIS looks for a style under the raster's own name. The one for a map names and colors each class;
id 0, which the map declares to be nodata, has no entry and is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from polyad.scene.files.own_outputs import QML_MARK
from polyad.scene.raster.classes import ClassInfo

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
    """Return the text of the ``.qml`` file that names and colors ``classes`` in band 1."""
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
