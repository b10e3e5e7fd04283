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
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.safe_open import open_regular
from polyad.scene.files.paths import no_file
from polyad.scene.raster.classes import (
    UNLABELED,
    ClassInfo,
    class_color,
    class_table,
    has_own_name,
    is_color,
    with_classes,
)
from polyad.scene.raster.guards import human_bytes, listing
from polyad.scene.raster.labels import (
    Labels,
    folded_name,
    known_classes,
    merge_labels,
    recolored,
)
from polyad.scene.read.class_tables import complete, symbol_color
from polyad.scene.read.formats.sidecars import read_xml
from polyad.text import from_csv_cell


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
    if by == "name":
        # Among classes of one name the id decides
        same = {(c.value, c.name): c.value for c in classes}
        exact = _once((c.name, c.value) for c in classes)
        alike = _once((folded_name(c.name), c.value) for c in classes)
        matched = {
            c.value: same.get((c.value, c.name), exact.get(c.name, alike.get(folded_name(c.name))))
            for c in table
        }
        ids = {theirs: ours for theirs, ours in matched.items() if ours is not None}
    else:
        known = {c.value for c in classes}
        ids = {c.value: c.value for c in table if c.value in known}
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
    ids = {**match.ids, **{info.value: value for info, value in new}}
    values = labels.to_numpy()
    lookup = np.zeros(max(int(values.max(initial=0)), *ids, 0) + 1, np.uint16)
    lookup[list(ids)] = list(ids.values())
    more = [
        ClassInfo(value, info.name, _own_color(info) or class_color(value)) for info, value in new
    ]
    lookup[UNLABELED] = UNLABELED
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
                "names without ids: which class is which cannot be told; give both names"
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
            warnings.warn(
                f"{source}: {clashes:,} pixels have another class in a file before it; the later "
                "label wins",
                PolyadWarning,
                stacklevel=3,
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


def _once(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return a dictionary of the pairs whose name comes once."""
    pairs = list(pairs)
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1}


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
            f"{file}: expected the colors of classes, such as 'corn,#ffdd00' in each line, or a "
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
            f"{path}: expected a table of colors of at most {human_bytes(MAX_BYTES)}, got more; "
            "this is another file"
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
                f"{path}: line {number} is {line[:60]!r}, expected a class and its color, such as "
                "'corn,#ffdd00' or '1,255,221,0'; mend the line"
            )


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
        color = "" if symbol is None else symbol_color(symbol)
        if color:
            yield category.get("value", "") or category.get("label", ""), color


def _name(value: str, label: str) -> str:
    """Return how a class is called that has an id and perhaps a label; some labels are the id."""
    try:
        whole = float(value) == int(float(value))
    except (ValueError, OverflowError):
        return label or value
    number = str(int(float(value))) if whole else value
    return number if not label or label in (value, number) else label
