"""Names and colors of classes as the file formats keep them, read back.

Each reader returns two dictionaries, id -> name and id -> ``#rrggbb``, holding only what the file
says; `complete` fills in the rest for the ids that occur.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from polyad.scene.raster.classes import (
    EXACT_NAMES,
    UNLABELED,
    ClassInfo,
    class_color,
    default_name,
    is_color,
)
from polyad.scene.read.formats.sidecars import read_pam

IdNames = dict[int, str]
IdColors = dict[int, str]

# All that `from_attributes` looks at.
ATTRIBUTES = ("class_values", "flag_values", "class_names", "flag_meanings", "class_colors")

LAST_CLASS = 65535  # what 16 bits hold
# GDAL's numbers for what a column of an attribute table means.
_NAME, _MINMAX, _MIN, _RED, _GREEN, _BLUE = "2", "5", "3", "6", "7", "8"


def complete(values: NDArray[np.uint16], names: IdNames, colors: IdColors) -> tuple[ClassInfo, ...]:
    """Return a table of every named class and every class that occurs in ``values``.

    Examples
    --------
    >>> complete(np.array([[0, 3]], dtype=np.uint16), {1: "Corn"}, {1: "#FFDD00"})
    (ClassInfo(value=1, name='Corn', color='#FFDD00'),
     ClassInfo(value=3, name='class 3', color='#117733'))
    """
    ids = sorted({int(v) for v in np.unique(values)} | set(names) - {UNLABELED})
    ids = [v for v in ids if v != UNLABELED]
    return tuple(
        ClassInfo(v, names.get(v, default_name(v)), colors.get(v, class_color(v)).upper())
        for v in ids
    )


def from_attributes(attrs: Mapping[str, Any]) -> tuple[IdNames, IdColors]:
    """Read ``class_values``/``class_names``/``class_colors``, or CF's flags.

    Examples
    --------
    >>> from_attributes({"flag_values": [1, 2], "flag_meanings": "corn oats"})
    ({1: 'corn', 2: 'oats'}, {})
    """
    values = _items(attrs.get("class_values", attrs.get("flag_values")))
    names = _items(attrs.get("class_names"))
    if not names and "flag_meanings" in attrs:
        names = _text(attrs["flag_meanings"]).split()  # CF: words separated by blanks
    colors = _items(attrs.get("class_colors"))
    try:
        ids = [int(v) for v in values]
    except (TypeError, ValueError, OverflowError):
        return {}, {}
    # Lists of unequal length cannot be told apart: better no name than a wrong one.
    named = dict(zip(ids, map(_text, names), strict=True)) if len(names) == len(ids) else {}
    hues = dict(zip(ids, map(_text, colors), strict=True)) if len(colors) == len(ids) else {}
    known = {v: c for v, c in hues.items() if 0 <= v <= LAST_CLASS and is_color(c)}
    return _keep(named), known


def from_colormap(colormap: Mapping[int, tuple[int, ...]]) -> IdColors:
    """Read a palette, id -> (red, green, blue, ...)."""
    return {v: "#{:02X}{:02X}{:02X}".format(*rgb[:3]) for v, rgb in colormap.items()}


def from_envi(fields: Mapping[str, str]) -> tuple[IdNames, IdColors]:
    """Read ``class names`` and ``class lookup`` of an ENVI header.

    Examples
    --------
    >>> from_envi({"class names": "{Unclassified, Corn}", "class lookup": "{0, 0, 0, 255, 221, 0}"})
    ({1: 'Corn'}, {0: '#000000', 1: '#FFDD00'})
    """
    names = [" ".join(_utf8(n).split()) for n in _braced(fields.get("class names"))]
    exact = [_text(name) for name in _items(fields.get(EXACT_NAMES, ""))]
    names = exact if len(exact) == len(names) else names
    lookup = [v.strip() for v in _braced(fields.get("class lookup"))]
    triples = [_rgb(lookup[k : k + 3]) for k in range(0, len(lookup) - 2, 3)]
    colors = from_colormap({v: rgb for v, rgb in enumerate(triples) if rgb})
    return _keep(dict(enumerate(names))), colors


def from_pam(path: Path) -> tuple[IdNames, IdColors]:
    """Read the category names and attribute table of ``<path>.aux.xml``, if it exists."""
    root = read_pam(path)
    band = None if root is None else root.find("PAMRasterBand")
    if band is None:
        return {}, {}
    names, colors = _attribute_table(band)
    categories = [c.text or "" for c in band.iterfind("CategoryNames/Category")]
    return names | _keep(dict(enumerate(categories))), colors


def _attribute_table(band: ET.Element) -> tuple[IdNames, IdColors]:
    table = band.find("GDALRasterAttributeTable")
    if table is None:
        return {}, {}
    usage = [field.findtext("Usage", "") for field in table.iterfind("FieldDefn")]
    names, rgb = {}, {}
    for row in table.iterfind("Row"):
        cells = dict(zip(usage, (f.text or "" for f in row.iterfind("F")), strict=False))
        try:
            value = int(float(cells.get(_MINMAX, cells.get(_MIN, ""))))
        except (ValueError, OverflowError):
            continue
        names[value] = cells.get(_NAME, "")
        if channels := _rgb([cells.get(c, "") for c in (_RED, _GREEN, _BLUE)]):
            rgb[value] = channels
    return _keep(names), from_colormap(rgb)


def symbol_color(symbol: ET.Element) -> str:
    """Return the color of the first layer of a QGIS symbol; "" if it has none.

    QGIS writes ``<Option name="color" value="230,0,0,255"/>``, before 3.26 ``<prop k= v=/>``; lines
    have ``line_color``.
    """
    layer = symbol.find("layer")
    if layer is None:
        return ""
    settings = {o.get("name", ""): o.get("value", "") for o in layer.iterfind("Option/Option")}
    settings |= {p.get("k", ""): p.get("v", "") for p in layer.iterfind("prop")}
    for name in ("color", "line_color"):
        parts = settings.get(name, "").split(",")[:3]
        if len(parts) == 3 and (channels := _rgb(parts)):
            return "#{:02X}{:02X}{:02X}".format(*channels)
    return ""


def _rgb(texts: Sequence[str]) -> tuple[int, ...]:
    """Return red, green and blue, each from 0 to 255; () if they are not that."""
    whole = all(text.isdecimal() and len(text) <= 3 and int(text) <= 255 for text in texts)
    return tuple(int(text) for text in texts) if whole else ()


def _keep(names: IdNames) -> IdNames:
    """Drop empty names, the name of "no class" and of what can be no class."""
    return {v: n.strip() for v, n in names.items() if n.strip() and UNLABELED < v <= LAST_CLASS}


def _items(value: Any) -> list[Any]:
    """Return a list attribute as a list; GeoTIFF tags keep it as JSON text.

    A list of lists holds no values or names and gives an empty list.
    """
    if isinstance(value, bytes | str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    if isinstance(value, list | tuple):
        return [] if any(isinstance(item, list | tuple | dict) for item in value) else list(value)
    return [] if value is None else list(np.ravel(value))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _braced(text: str | None) -> list[str]:
    inside = (text or "").strip().strip("{}").strip(" \t\n")  # half of an à is a blank in Latin-1
    return inside.split(",") if inside else []


def _utf8(text: str) -> str:
    """Undo Latin-1, which headers are read as, where the bytes are UTF-8, which we write."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
