"""Colors and names of classes from QGIS's layer styles (QML), where a layer is drawn by category.

A style is text from a stranger: only the renderer's categories are looked at, nothing that the
style names is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree as ET

MAX_BYTES = 4 * 2**20
# QGIS begins every style with this line, which defines nothing
_DOCTYPE = re.compile(r"<!DOCTYPE\s+qgis\b[^<>\[\]]*>")


class Category(NamedTuple):
    """One class of a style: its color as ``#rrggbb`` and what its legend says, "" if nothing."""

    color: str
    name: str


def without_doctype(text: str) -> str:
    """Return a style without the line that QGIS begins it with.

    Examples
    --------
    >>> without_doctype("<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'><qgis/>")
    '<qgis/>'
    """
    return _DOCTYPE.sub("", text, count=1)


def categories(root: ET.Element, field: str) -> Mapping[str, Category]:
    """Return the classes of a style by their value, if it draws by category of ``field``."""
    renderer = root.find("renderer-v2")
    if renderer is None or renderer.get("type") != "categorizedSymbol":
        return {}
    if renderer.get("attr", "").strip('"') != field:
        return {}
    colors = {s.get("name", ""): _color(s) for s in renderer.iterfind("symbols/symbol")}
    return {
        value: Category(colors.get(category.get("symbol", ""), ""), category.get("label", ""))
        for category in renderer.iterfind("categories/category")
        if (value := category.get("value", ""))
    }


def _color(symbol: ET.Element) -> str:
    """Return the color of a symbol's first layer; "" if it has none.

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
        if len(parts) == 3 and all(p.isdecimal() and len(p) <= 3 and int(p) < 256 for p in parts):
            return "#{:02X}{:02X}{:02X}".format(*map(int, parts))
    return ""
