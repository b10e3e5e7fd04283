"""The ``.aux.xml`` file in which GDAL and QGIS look for the class names of a GeoTIFF.

A GeoTIFF has room for a palette but not for names. GDAL's Persistent Auxiliary Metadata (PAM) has
two places for them: category names, one for each id from 0, and a raster attribute table (RAT),
one row for each class. Programs look in either, so both are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from polyad.scene.raster.classes import UNLABELED, ClassInfo, rgb

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
