"""Colors of classes from a file: CSV, a QGIS style, or GDAL's and QGIS's color tables in text.

====================================  ==========================================================
a line of the text                    what it is
====================================  ==========================================================
``corn,#ffdd00`` or ``1,#ffdd00``     CSV: class by name or id
``corn,255,221,0``                    CSV: red, green, blue
``1,corn,#ffdd00``                    CSV: id and name
``1 255 221 0`` or ``1:255:221:0``    GDAL: id, red, green, blue and perhaps alpha
``1,255,221,0,255,corn``              QGIS's export of a color map
====================================  ==========================================================

A CSV may have semicolons for commas. A first line that is none of these is taken for a heading;
empty lines and comments (``#``) are skipped, and so is id 0, which has no color.
"""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import xarray as xr

from polyad.errors import PolyadWarning, SceneError
from polyad.regular import open_regular
from polyad.scene.files.paths import no_file
from polyad.scene.raster.classes import ClassInfo, class_table, is_color, with_classes
from polyad.scene.raster.guards import human_bytes, listing
from polyad.scene.raster.legend import known_classes, merge_labels, recolored
from polyad.scene.read.formats.markup import read_xml

MAX_BYTES = 2**20  # ten thousand classes need less
_NO_CLASS = {"", "0", "nv", "default", "unclassified"}
_QGIS = re.compile(r"<!DOCTYPE qgis PUBLIC '[^'<>\[\]]*' '[^'<>\[\]]*'>")  # declares nothing

Colors = str | os.PathLike[str] | Mapping[Any, str]


def read_colors(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Read the colors of classes.

    Parameters
    ----------
    path : path-like
        A QGIS style (``.qml``: paletted raster or categorized vector), or a text file as the module
        describes.

    Returns
    -------
    dict
        From the name of a class, or its id as text, to its color as ``#rrggbb``.

    Raises
    ------
    SceneError
        The file is missing, too large, or has no color.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "colors.csv"
    >>> _ = file.write_text('class,color\n"Corn, no till",#ffdd00\n3,0,90,50\n')
    >>> read_colors(file)
    {'Corn, no till': '#FFDD00', '3': '#005A32'}
    """
    file = Path(path)
    if not file.is_file():
        raise no_file(file)
    rows = _qml_rows(file) if file.suffix.lower() == ".qml" else _text_rows(file)
    colors = {name: color for name, color in rows if name.strip().casefold() not in _NO_CLASS}
    if not colors:
        raise SceneError(
            f"{file}: wanted the colors of classes, such as 'corn,#ffdd00' in each line, or a "
            "paletted style of QGIS, found none; check the file"
        )
    return colors


def with_colors(
    classes: Sequence[ClassInfo], colors: Colors, stacklevel: int = 3
) -> tuple[ClassInfo, ...]:
    """Return ``classes`` with the colors of a file or mapping; see `read_colors`.

    A table may name classes that are not there, as that of a whole country does: they are told in a
    warning. Only if none of them is there is it an error.
    """
    table = colors if isinstance(colors, Mapping) else read_colors(colors)
    new, unknown = recolored(classes, table)
    if unknown:
        warnings.warn(
            f"there are colors for {listing(map(repr, unknown))}, but no such class; "
            f"{known_classes(classes)}",
            PolyadWarning,
            stacklevel=stacklevel,
        )
    return new


def with_legend(
    labels: xr.DataArray, merge: str | Sequence[str] = (), colors: Colors | None = None
) -> xr.DataArray:
    """Return labels with classes merged and then colored; see `merge_labels`, `with_colors`."""
    if merge:
        labels = merge_labels(labels, merge)
    if colors is None:
        return labels
    return with_classes(labels, with_colors(class_table(labels), colors, stacklevel=4))


def _text_rows(path: Path) -> Iterator[tuple[str, str]]:
    with open_regular(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SceneError(
            f"{path}: wanted a table of colors of at most {human_bytes(MAX_BYTES)}, got more; this "
            "is another file"
        )
    text = content.decode("utf-8-sig", errors="replace").replace("\0", "")
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith(("#", "INTERPOLATION:"))
    ]
    for position, (number, line) in enumerate(lines):
        row = _row(line)
        if row is not None:
            yield row
        elif position:
            raise SceneError(
                f"{path}: line {number} is {line[:60]!r}, wanted a class and its color, such as "
                "'corn,#ffdd00' or '1,255,221,0'; mend the line"
            )


def _row(line: str) -> tuple[str, str] | None:
    """Return class and color of a line, None if it has none."""
    for delimiter in ";,":
        try:
            fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        except csv.Error:
            return None
        row = _class_and_color([field.strip() for field in fields])
        if row is not None:
            return row
    return _class_and_color(re.split(r"[\s:]+", line)) if len(fields) == 1 else None


def _class_and_color(fields: list[str]) -> tuple[str, str] | None:
    """Return class and color of the fields of a line, None if they have none."""
    key, *rest = fields
    if rest and is_color(rest[-1]):
        return _name(key, rest[0] if len(rest) > 1 else ""), rest[-1].upper()
    channels = [c for c in rest[:3] if c.isdecimal() and len(c) < 4 and int(c) < 256]
    if len(channels) < 3:
        return None
    color = "#" + "".join(f"{int(channel):02X}" for channel in channels)
    return _name(key, rest[4] if len(rest) > 4 else ""), color


def _qml_rows(path: Path) -> Iterator[tuple[str, str]]:
    root = read_xml(path, "a style of QGIS", MAX_BYTES, doctype=_QGIS)
    for entry in [*root.iter("paletteEntry"), *root.iterfind(".//colorrampshader/item")]:
        color = entry.get("color", "")
        if is_color(color[:7]):
            yield _name(entry.get("value", ""), entry.get("label", "")), color[:7].upper()
    symbols = {symbol.get("name"): symbol for symbol in root.iter("symbol")}
    for category in root.iter("category"):
        symbol = symbols.get(category.get("symbol"))
        color = "" if symbol is None else _symbol_color(symbol)
        if color:
            yield category.get("value", "") or category.get("label", ""), color


def _symbol_color(symbol: ET.Element) -> str:
    """Return the fill of a vector symbol, "" if it has none in plain sight."""
    stated = [o.get("value", "") for o in symbol.iter("Option") if o.get("name") == "color"]
    stated += [o.get("v", "") for o in symbol.iter("prop") if o.get("k") == "color"]
    row = _row(f"color,{stated[0]}") if stated else None
    return "" if row is None else row[1]


def _name(value: str, label: str) -> str:
    """Return how a class is called that has an id and perhaps a label; some labels are the id."""
    try:
        whole = float(value) == int(float(value))
    except (ValueError, OverflowError):
        return label or value
    number = str(int(float(value))) if whole else value
    return number if not label or label in (value, number) else label
