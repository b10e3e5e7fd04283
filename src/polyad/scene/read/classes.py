"""Classes of label files: matched with those of a model, merged, and colored from a file.

Two files of the same area often number the same classes differently. A name says what a class is,
an id nothing beyond its file: names are compared wherever both sides have their own.

Files of colors are CSV, QGIS styles, or GDAL's and QGIS's color tables in text:

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
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError, SceneMismatch, warn_user
from polyad.scene.files.paths import no_file
from polyad.scene.raster.classes import (
    EXACT_NAMES,
    UNLABELED,
    ClassInfo,
    class_color,
    class_table,
    default_name,
    has_own_name,
    is_color,
    with_classes,
)
from polyad.scene.raster.guards import listing
from polyad.scene.raster.labels import (
    Labels,
    folded_name,
    known_classes,
    merge_labels,
    recolored,
)
from polyad.scene.read.formats.sidecars import read_pam, read_text, read_xml
from polyad.text import from_csv_cell

# What files tell of names and colors: readers return two dictionaries, id -> name and
# id -> ``#rrggbb``, of what the file says; `complete` fills in the rest for the ids that occur.

IdNames = dict[int, str]
IdColors = dict[int, str]

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
    return _named_classes(named), known


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
    triples = (_hex(lookup[k : k + 3]) for k in range(0, len(lookup) - 2, 3))
    colors = {v: color for v, color in enumerate(triples) if color}
    return _named_classes(dict(enumerate(names))), colors


def from_pam(path: Path) -> tuple[IdNames, IdColors]:
    """Read the category names and attribute table of ``<path>.aux.xml``, if it exists."""
    root = read_pam(path)
    band = None if root is None else root.find("PAMRasterBand")
    if band is None:
        return {}, {}
    names, colors = _attribute_table(band)
    categories = [c.text or "" for c in band.iterfind("CategoryNames/Category")]
    return names | _named_classes(dict(enumerate(categories))), colors


def _attribute_table(band: ET.Element) -> tuple[IdNames, IdColors]:
    table = band.find("GDALRasterAttributeTable")
    if table is None:
        return {}, {}
    usage = [field.findtext("Usage", "") for field in table.iterfind("FieldDefn")]
    names, colors = {}, {}
    for row in table.iterfind("Row"):
        cells = dict(zip(usage, (f.text or "" for f in row.iterfind("F")), strict=False))
        try:
            value = int(float(cells.get(_MINMAX, cells.get(_MIN, ""))))
        except (ValueError, OverflowError):
            continue
        names[value] = cells.get(_NAME, "")
        if color := _hex([cells.get(c, "") for c in (_RED, _GREEN, _BLUE)]):
            colors[value] = color
    return _named_classes(names), colors


def _symbol_color(symbol: ET.Element) -> str:
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
        if color := _hex(settings.get(name, "").split(",")[:3]):
            return color
    return ""


def _hex(channels: Sequence[str]) -> str:
    """Return red, green and blue, each from 0 to 255, as ``#RRGGBB``; "" if they are not that."""
    whole = all(text.isdecimal() and len(text) <= 3 and int(text) <= 255 for text in channels)
    return "#" + "".join(f"{int(c):02X}" for c in channels) if whole and len(channels) == 3 else ""


def _named_classes(names: IdNames) -> IdNames:
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


# Classes of labels and of a model


@dataclass(frozen=True)
class ClassMatch:
    """The classes of some labels as the classes of a model.

    Attributes
    ----------
    by : {"name", "id"}
        What was compared.
    ids : mapping of int to int
        Id in the labels to id in the model, of each class that the model knows.
    unknown : tuple of ClassInfo
        The classes of the labels that the model does not know.
    """

    by: str
    ids: Mapping[int, int]
    unknown: tuple[ClassInfo, ...]


# What is compared, the most particular first: among classes of one name the id decides
_SAME_CLASS: dict[str, tuple[Callable[[ClassInfo], Any], ...]] = {
    "id": (lambda c: c.value,),
    "name": (lambda c: (c.value, c.name), lambda c: c.name, lambda c: folded_name(c.name)),
}


def match_classes(labels: xr.DataArray, classes: Sequence[ClassInfo]) -> ClassMatch:
    """Match the classes of ``labels`` with ``classes``, by name if both have names of their own.

    Names that differ in case and blanks only are the same.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    classes : sequence of ClassInfo
        Those of a model.

    Examples
    --------
    >>> raster = xr.DataArray(np.array([[1, 2]]), dims=("y", "x"))
    >>> model = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]
    >>> rye = ClassInfo(2, "Rye", "#117733")
    >>> named = with_classes(raster, [ClassInfo(1, "oats", "#EE7733"), rye])
    >>> match_classes(named, model)
    ClassMatch(by='name', ids={1: 2}, unknown=(ClassInfo(value=2, name='Rye', color='#117733'),))
    >>> match_classes(raster, model).by
    'id'
    """
    table = _whole_table(labels)
    named = any(map(has_own_name, table)) and any(map(has_own_name, classes))
    by = "name" if named or Labels(labels).numbered_by_name else "id"
    ids: dict[int, int] = {}
    for key in _SAME_CLASS[by]:
        times = Counter(map(key, classes))
        known = {key(c): c.value for c in classes if times[key(c)] == 1}
        found = {c.value: known[key(c)] for c in table if key(c) in known}
        ids = found | ids
    return ClassMatch(by, ids, tuple(c for c in table if c.value not in ids))


def in_model_ids(
    labels: xr.DataArray, classes: Sequence[ClassInfo]
) -> tuple[xr.DataArray, ClassMatch]:
    """Return ``labels`` in the ids, names and colors of a model's ``classes``, and the match.

    Classes that the model does not know keep their ids, or get ones that the model does not have.
    """
    match = match_classes(labels, classes)
    ours = {c.value for c in classes}
    taken = ours | {c.value for c in match.unknown}
    free = (v for v in range(1, 2**16) if v not in taken)
    new = [(c, next(free) if c.value in ours else c.value) for c in match.unknown]
    ids = {**match.ids, **{c.value: value for c, value in new}}
    values = labels.to_numpy()
    lookup = np.zeros(max(int(values.max(initial=0)), *ids, 0) + 1, np.uint16)
    lookup[list(ids)] = list(ids.values())
    lookup[UNLABELED] = UNLABELED
    more = [ClassInfo(value, c.name, _own_color(c) or class_color(value)) for c, value in new]
    return with_classes(labels.copy(data=lookup[values]), [*classes, *more]), match


def join_labels(rasters: Sequence[xr.DataArray], sources: Sequence[str]) -> xr.DataArray:
    """Return labels of several sources as one raster; of two labels of a pixel the later one wins.

    Parameters
    ----------
    rasters : sequence of DataArray of int, dims (y, x)
        On one grid. Classes are the same if their names are, or their ids where there are no names;
        names that came without ids are not joined with ids that came without names.
    sources : sequence of str
        Where each comes from, for messages.

    Examples
    --------
    >>> first = with_classes(xr.DataArray([[1, 0]], dims=("y", "x")), [ClassInfo(1, "Oats", "")])
    >>> other = with_classes(xr.DataArray([[0, 1]], dims=("y", "x")), [ClassInfo(1, "Corn", "")])
    >>> joined = join_labels([first, other], ["a.tif", "b.tif"])
    >>> joined.values.tolist(), [c.name for c in class_table(joined)]
    ([[1, 2]], ['Oats', 'Corn'])
    """
    numbered = [Labels(raster).numbered_by_name for raster in rasters]
    for raster, source in zip(rasters, sources, strict=True):
        if any(numbered) and not any(map(has_own_name, _whole_table(raster))):
            raise SceneMismatch(
                f"{source}: has class ids without names, and {sources[numbered.index(True)]} has "
                "names without ids: classes cannot be matched; give both names"
            )
    by_name = all(numbered)
    if by_name:  # then the order of the files does not matter
        named = {c.name: c for raster in reversed(rasters) for c in class_table(raster)}
        classes: tuple[ClassInfo, ...] = tuple(
            ClassInfo(k, name, _own_color(named[name]) or class_color(k))
            for k, name in enumerate(sorted(named), start=1)
        )
    else:
        classes = _whole_table(rasters[0])
    joined = np.zeros(rasters[0].shape, np.uint16)
    for raster, source in zip(rasters, sources, strict=True):
        if raster.shape != joined.shape:
            raise SceneMismatch(
                f"{source}: labels of several files must have one size, got {raster.shape} beside "
                f"{joined.shape} of {sources[0]}; resample them to one grid"
            )
        renumbered, _ = in_model_ids(raster, classes)
        classes = class_table(renumbered)
        values = renumbered.to_numpy()
        clashes = np.count_nonzero((values != 0) & (joined != 0) & (values != joined))
        if clashes:
            warn_user(
                f"{source}: {clashes:,} pixels have another class in an earlier file; the later "
                "label wins"
            )
        joined = np.where(values != 0, values, joined).astype(np.uint16)
    return with_classes(rasters[0].copy(data=joined), classes)


def _own_color(info: ClassInfo) -> str:
    """Return the color that a class was given, "" if it has the default one of its id."""
    return "" if info.color.upper() == class_color(info.value) else info.color


def _whole_table(labels: xr.DataArray) -> tuple[ClassInfo, ...]:
    """Return the classes that ``labels`` list and, with names filled in, those that just occur."""
    listed = class_table(labels)
    names, colors = {c.value: c.name for c in listed}, {c.value: c.color for c in listed}
    return complete(labels.to_numpy(), names, colors)


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
        raise SceneError(f"{file}: expected lines such as 'corn,#ffdd00' or a QGIS style, got none")
    return colors


def with_colors(classes: Sequence[ClassInfo], colors: Colors) -> tuple[ClassInfo, ...]:
    """Return ``classes`` with the colors of a file or mapping; see `read_colors`.

    A table may name classes that are not there, as that of a whole country does: they are told in a
    warning. Only if none of them is there is it an error.
    """
    table = colors if isinstance(colors, Mapping) else read_colors(colors)
    new, unknown = recolored(classes, table)
    if unknown:
        missing = f"there are colors for {listing(map(repr, unknown))}, but no such class"
        warn_user(f"{missing}; {known_classes(classes)}")
    return new


def with_legend(
    labels: xr.DataArray, merge: str | Sequence[str] = (), colors: Colors | None = None
) -> xr.DataArray:
    """Return labels with classes merged and then colored; see `merge_labels`, `with_colors`."""
    if merge:
        labels = merge_labels(labels, merge)
    if colors is None:
        return labels
    return with_classes(labels, with_colors(class_table(labels), colors))


def _text_rows(path: Path) -> Iterator[tuple[str, str]]:
    text = read_text(path, "a table of colors", MAX_BYTES).replace("\0", "")
    first = True
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith(("#", "INTERPOLATION:")):
            continue
        row = _row(line)
        if row is not None:
            yield row
        elif not first:
            raise SceneError(
                f"{path}: line {number} is {line[:60]!r}, expected a class and its color, such as "
                "'corn,#ffdd00' or '1,255,221,0'; correct the line"
            )
        first = False


def _row(line: str) -> tuple[str, str] | None:
    """Return class and color of a line, None if it has none."""
    for delimiter in ";,":
        try:
            fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        except csv.Error:
            return None
        row = _class_and_color([from_csv_cell(field.strip()) for field in fields])
        if row is not None:
            return row
    return _class_and_color(re.split(r"[\s:]+", line)) if len(fields) == 1 else None


def _class_and_color(fields: list[str]) -> tuple[str, str] | None:
    """Return class and color of the fields of a line, None if they have none."""
    key, *rest = fields
    if rest and is_color(rest[-1]):
        return _name(key, rest[0] if len(rest) > 1 else ""), rest[-1].upper()
    color = _hex(rest[:3])
    return (_name(key, rest[4] if len(rest) > 4 else ""), color) if color else None


def _qml_rows(path: Path) -> Iterator[tuple[str, str]]:
    root = read_xml(path, "a style of QGIS", MAX_BYTES, doctype=_QGIS)
    for entry in [*root.iter("paletteEntry"), *root.iterfind(".//colorrampshader/item")]:
        color = entry.get("color", "")
        if is_color(color[:7]):
            yield _name(entry.get("value", ""), entry.get("label", "")), color[:7].upper()
    for value, label, color in style_categories(root):
        if color:
            yield value or label, color


def style_categories(root: ET.Element) -> Iterator[tuple[str, str, str]]:
    """Yield value, legend and color of the classes of a QGIS style, "" where there is none."""
    colors = {
        symbol.get("name", ""): _symbol_color(symbol)
        for symbol in root.iterfind(".//symbols/symbol")
    }
    for category in root.iterfind(".//categories/category"):
        color = colors.get(category.get("symbol", ""), "")
        yield category.get("value", ""), category.get("label", ""), color


def _name(value: str, label: str) -> str:
    """Return how a class is called that has an id and perhaps a label; some labels are the id."""
    try:
        number = str(int(float(value))) if float(value).is_integer() else value
    except (ValueError, OverflowError):
        return label or value
    return number if label in ("", value, number) else label
