"""Points, lines and polygons with their attributes, from CSV, GeoJSON and what OGR reads.

`read_features` reads a file once. Labels, groups, targets, samples and masks are made of the
`Features` that it returns: `class_annotations` finds the class of each, and `Features.marks` places
them on the grid of a scene. `polyad.scene.read.rasterize` turns marks into pixels.
"""

from __future__ import annotations

import csv
import io
import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS

from polyad.errors import SceneError, SceneMismatch, reason, warn_user
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid, describe_extents
from polyad.scene.read.formats import ogr
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.kinds import feature_format
from polyad.scene.read.formats.ogr import MOST_CLASSES, Column
from polyad.scene.read.formats.opening import check_beside
from polyad.scene.read.formats.sidecars import parse_xml, read_text
from polyad.scene.read.rasterize import (
    Array,
    Mark,
    Part,
    Points,
    Shape,
    parts_of_geojson,
    parts_of_wkb,
    to_pixels,
)
from polyad.text import composed, from_csv_cell

CLASS_FIELDS = ("class", "label", "name", "id")
_TEXT_INFLATION = 20  # parsed text takes about this many times its size in memory
_MARK_BYTES = 1000  # and a point or a list of a GeoJSON about this much
_CORNER_BYTES = 100  # what a corner takes while it is read, moved and drawn
_MOST_VALUES = 20_000_000  # of all fields of all features
# Which columns of a CSV place a feature: what they are, and their names across and down.
_PLACES = (
    ("pixel", ("col", "column"), ("row",)),
    ("map", ("x", "easting"), ("y", "northing")),
    ("wgs84", ("lon", "long", "lng", "longitude"), ("lat", "latitude")),
)
PLACE_NAMES = {name for _, *ways in _PLACES for way in ways for name in way}
_COORDINATES = {
    "pixel": "rows and columns of a scene",
    "map": "x and y in the reference system of a scene",
    "wgs84": "EPSG:4326",
}
_POINT = 21  # bytes of a point in well-known binary: byte order, kind, two numbers
_POINTS = np.dtype([("order", "u1"), ("kind", "<u4"), ("xy", "<f8", (2,))])
# What the driver for KML puts into every table, whatever the file says
_OF_KML = {
    "id", "timestamp", "begin", "end", "altitudemode", "tessellate", "extrude", "visibility",
    "draworder", "icon", "snippet", "address", "phonenumber", "camera_altitudemode",
}  # fmt: skip
# QGIS begins every style with this line, which defines nothing
_DOCTYPE = re.compile(r"<!DOCTYPE\s+qgis\b[^<>\[\]]*>")
_MOST_STYLE_BYTES = 4 * 2**20


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one layer of a file.

    Attributes
    ----------
    path : Path
    format : str
        "CSV", "GeoJSON", or the kind of a vector file such as "GeoPackage".
    columns : tuple of Column
        The attributes: text and numbers.
    numbers : sequence of int
        Line or number of each feature in the file.
    points : ndarray of float, shape (n, 2), or None
        Where the features are, if each is one point.
    parts : sequence of list of Part
        The points, lines and polygons of each feature; empty where ``points`` says it all.
    crs : CRS or None
        Of the coordinates; None in a CSV of rows and columns, or of x and y on the scene's map.
    layer : str
    heading : str
        First line of a CSV.
    system : {"pixel", "map", "wgs84", ""}
        What the coordinates of a CSV are; "" if it has none, and for other formats.
    """

    path: Path
    format: str
    columns: tuple[Column, ...]
    numbers: Sequence[int]
    points: Array | None = None
    parts: Sequence[list[Part]] = ()
    crs: CRS | None = None
    layer: str = ""
    heading: str = ""
    system: str = ""

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, k: int) -> str:
        """Return the place of a feature in the file, for messages."""
        return f"{'line' if self.format == 'CSV' else 'feature'} {self.numbers[k]}"

    # -- fields

    def texts(self, name: str) -> list[str] | None:
        """Return an attribute of every feature as text, "" where empty; None if there is none."""
        column = next((c for c in self.columns if c.name.casefold() == name.casefold()), None)
        return None if column is None else column.of_features([*map(label_of, column.values)], "")

    def column(self, name: str) -> Column:
        """Return the field of a name, whatever its case."""
        folded = composed(name).casefold()
        alike = [c for c in self.columns if composed(c.name).casefold() == folded]
        alike = [c for c in alike if c.name == name] or alike
        if len(alike) != 1:
            raise SceneError(
                f"{self.path}: there is no field {name[:80]!r}; it has "
                f"{_listing(self.columns) or 'no fields of text or numbers'}"
            )
        return alike[0]

    def values(self, name: str) -> Array:
        """Return the number that each feature has in a field, NaN where it has none."""
        check_columns(self, [name], name)
        column = self.column(name)
        if column.numbers is not None:
            return column.numbers
        numbers = []
        # Of a text with thousands of values the values are unknown
        for code, value in enumerate(column.values if isinstance(column.values, list) else ["?"]):
            try:
                numbers.append(float(value))
            except ValueError as error:
                where = self.where(int(np.argmax(column.codes == code)))
                raise SceneError(
                    f"{self.path}, {where}: expected a number for {column.name[:80]!r}, got "
                    f"{str(value)[:40]!r}; leave it empty, or name a field of numbers with --field "
                    f"(in Python, field): {self.number_fields() or 'it has none'}"
                ) from error
        return np.array([*numbers, np.nan])[column.codes]  # of -1 the last

    def number_fields(self) -> str:
        """Return the fields of numbers with how many values each has, "" if there are none."""
        csv, filled = self.format == "CSV", [c for c in self.columns if len(c.values)]
        numbers = (all(map(is_number, c.values)) if csv else c.kind != "text" for c in filled)
        placing = PLACE_NAMES if csv else ()
        pairs = zip(filled, numbers, strict=True)
        return _listing(c for c, number in pairs if number and c.name.lower() not in placing)

    def class_column(self, field: str | None = None) -> Column:
        """Return the field of the classes.

        Without a name it is guessed: the only field of text or whole numbers whose values repeat,
        of fields with two values or more if there is one; or the only field of text or whole
        numbers.

        Raises
        ------
        SceneError
            There is no such field, it has thousands of values, or several could be meant; the
            message lists them with the number of their values.
        """
        if field is not None:
            column = self.column(field)
            if len(column.values) > MOST_CLASSES:
                got = f"field {column.name[:80]!r} has {len(column.values):,} values"
                raise SceneError(
                    f"{self.path}: {got}, expected at most {MOST_CLASSES:,} classes; choose "
                    "another --field"
                )
            return column
        columns = self.own_columns
        usable = [c for c in columns if c.kind != "real" and 0 < len(c.values) <= MOST_CLASSES]
        repeating = [c for c in usable if c.repeats]
        choices = ([c for c in repeating if len(c.values) > 1], repeating, usable)
        choice = next(filter(None, choices), [])
        if len(choice) != 1:
            raise SceneError(
                f"{self.path}: the attribute holding the class is ambiguous, got "
                f"{_listing(columns) or 'features without fields'}; name it with --field (in "
                "Python, field); --task regression learns numbers"
            )
        return choice[0]

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The fields that the author of a layer gave it."""
        kml = self.format == "KML"
        columns = tuple(c for c in self.columns if not kml or c.name.lower() not in _OF_KML)
        return columns or self.columns

    # -- places

    @property
    def geometries(self) -> dict[str, int]:
        """How many features have which kind of geometry."""
        if self.points is not None:
            return {"point": len(self)}
        return dict(Counter(map(_kind_of, self.parts)))

    def pixels(self, corners: Array, grid: Grid) -> Array:
        """Return corners as (column, row) of the grid, infinite where they have no place."""
        if self.system == "pixel":
            return corners + 0.5  # indices name pixel centers
        self._check_placed(corners, grid)
        return to_pixels(self.path, corners, self.crs or grid.crs, grid)

    def single_points(self, grid: Grid) -> Array:
        """Return the one point of each feature in pixels, shape (n, 2); refuse other geometries."""
        if self.points is None:
            k = next(k for k, parts in enumerate(self.parts) if _kind_of(parts) != "point")
            got = f"expected a point, got {_kind_of(self.parts[k])}"
            raise SceneError(f"{self.path}, {self.where(k)}: {got}; a sample has points only")
        return self.pixels(self.points, grid)

    def marks(self, grid: Grid, chosen: NDArray[np.bool_] | None = None) -> list[Mark]:
        """Return some or all features in pixels of the grid; runs of points come together."""
        index = np.arange(len(self)) if chosen is None else np.flatnonzero(chosen)
        if self.points is not None:
            return [Points(index, self.pixels(self.points[index], grid))] if len(index) else []
        parts = [(k, part) for k in index.tolist() for part in self.parts[k]]
        if not parts:
            return []
        # All corners of all shapes are moved in one call: one each would take minutes.
        rings = [ring for _, part in parts for ring in part.rings]
        moved = self.pixels(np.concatenate(rings), grid)
        pixels = iter(np.split(moved, np.cumsum([len(ring) for ring in rings])[:-1]))
        marks: list[Mark] = []
        for is_point, run in groupby(parts, key=lambda item: item[1].kind == "Point"):
            items = list(run)
            if is_point:
                xy = np.concatenate([next(pixels) for _ in items])
                marks.append(Points(np.array([k for k, _ in items], np.intp), xy))
                continue
            for k, part in items:
                corners = tuple(next(pixels) for _ in part.rings)
                marks.append(Shape(k, corners, part.kind == "LineString"))
        return marks

    def _check_placed(self, corners: Array, grid: Grid) -> None:
        """Refuse map coordinates that cannot be placed on the grid of the scene."""
        if self.format == "CSV":
            return
        if grid.transform is None:
            remedy = "give labels as a CSV of row,col,class"
            raise SceneMismatch(f"{self.path}: the scene has no georeference; {remedy}")
        if self.crs is not None or grid.crs is None:
            return
        pixels = to_pixels(self.path, corners, None, grid)
        height, width = grid.shape
        missing = f"{self.path}: layer {self.layer[:80]!r} has no reference system"
        if not ((pixels >= 0) & (pixels <= (width, height))).all():
            raise SceneMismatch(
                f"{missing}, and its coordinates do not lie within the scene's: "
                f"{describe_extents(pixels, grid)}; assign one, as with QGIS's Assign projection"
            )
        warn_user(f"{missing}; its coordinates lie within the scene's, so {grid.crs} is taken")


def _kind_of(parts: Sequence[Part]) -> str:
    kinds = {part.kind.lower() for part in parts}
    if len(kinds) != 1:
        return "collection" if kinds else "none"
    return ("multi" if len(parts) > 1 else "") + kinds.pop()


def _listing(columns: Iterable[Column]) -> str:
    order = sorted(columns, key=lambda c: (c.kind == "real", not c.repeats))
    return guards.listing(f"{c.name} ({_values(c)})" for c in order)


def _values(column: Column) -> str:
    return f"{len(column.values):,} value{'' if len(column.values) == 1 else 's'}"


# -- reading a file


def read_features(
    path: Path,
    budget: int,
    *,
    layer: str | None = None,
    fields: Sequence[str] | None = None,
    named: int = MOST_CLASSES,
    numbers: Sequence[str] = (),
    how: str = "with --layer (in Python, layer)",
) -> Features:
    """Read the features of a file.

    Parameters
    ----------
    path : Path
        Of a format that `feature_format` knows.
    budget : int
        Bytes that may be read.
    layer : str, optional
        Of a file with several.
    fields : sequence of str, optional
        Columns of a CSV that are needed, in any case; all by default.
    named, numbers, how
        See `polyad.scene.read.formats.ogr.read_layer`.
    """
    kind = str(feature_format(path))
    if kind in ("CSV", "GeoJSON") and layer is not None:
        raise SceneError(f"{path}: this kind of file has no layers; leave --layer out")
    if kind == "CSV":
        return _read_csv(path, budget, fields)
    if kind == "GeoJSON":
        return _read_geojson(path, budget)
    table = ogr.read_layer(path, kind, layer, budget, how, named, numbers)
    guards.check_budget(path, len(table.wkb) // 16 * _CORNER_BYTES, budget, "a layer")
    about = {"crs": table.crs, "layer": table.name}
    index = range(1, len(table.sizes) + 1)
    if len(table.sizes) and (table.sizes == _POINT).all():
        points = np.frombuffer(table.wkb, _POINTS)
        if (points["order"] == 1).all() and (points["kind"] == 1).all():
            xy = np.ascontiguousarray(points["xy"], np.float64)
            return Features(path, kind, table.columns, index, xy, **about)
    ends = np.cumsum(table.sizes).tolist()
    shapes = [table.wkb[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    geometries = _parts(path, parts_of_wkb, shapes)
    return Features(path, kind, table.columns, index, *geometries, **about)


_Geometries = tuple[Array | None, list[list[Part]]]


def _parts(path: Path, parse: Callable[[Any], Iterable[Part]], shapes: list[Any]) -> _Geometries:
    """Return the points of features that are one point each, else None, and the parts of all."""
    parts: list[list[Part]] = []
    for number, shape in enumerate(shapes, start=1):
        try:
            parts.append([] if shape == b"" else list(parse(shape)))
        except (RecursionError, ValueError) as error:
            deep = isinstance(error, RecursionError)
            why = "geometries nested too deeply; flatten" if deep else f"{error}; draw it again"
            raise SceneError(f"{path}, feature {number}: {why}") from error
    if any(len(each) != 1 or each[0].kind != "Point" for each in parts):
        return None, parts
    return np.array([each[0].rings[0][0] for each in parts]).reshape(-1, 2), parts


def _read_csv(path: Path, budget: int, fields: Sequence[str] | None) -> Features:
    """Read the lines of a CSV in one pass; points are stored in columns, texts as codes."""
    text = _read_text(path, budget)
    heading = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = max(",;\t", key=heading.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    try:
        return _csv_features(path, heading, rows, fields)
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({reason(error)})") from error


def _csv_features(path: Path, heading: str, rows: Any, fields: Sequence[str] | None) -> Features:
    names = [from_csv_cell(name.strip()) for name in next(rows, [])]
    lower = [name.lower() for name in names]
    if fields is None:  # those that place a point are read whatever their case
        keys = Counter(n.lower() if n.lower() in PLACE_NAMES else n for n in names if n)
        name, times = keys.most_common(1)[0] if keys else ("", 1)
        if times > 1:
            raise SceneError(f"{path}: two columns are called {name[:80]!r}; rename one of them")
    wanted = None if fields is None else {name.strip().lower() for name in fields}
    # Of two columns of one name the later counts; a header may have a million of them
    at = {(n if wanted is None else n.lower()): k for k, n in enumerate(names) if n}
    columns: list[tuple[int, dict[str, int], array[int]]] = [
        (k, {}, array("i")) for n, k in at.items() if wanted is None or n.lower() in wanted
    ]
    system, across, down = "", -1, -1
    last = {name: k for k, name in enumerate(lower)}
    for kind, *ways in _PLACES:
        found = [next((last[name] for name in way if name in last), -1) for way in ways]
        if min(found) >= 0:
            system, (across, down) = kind, found
            break
    numbers, xy = array("q"), array("d")
    for row in rows:
        if not any(map(str.strip, row)):
            continue
        numbers.append(rows.line_num)
        if wanted is None:
            guards.check_count(path, len(names) * len(numbers), _MOST_VALUES, "values of fields")
        for k, known, codes in columns:
            value = row[k].strip() if k < len(row) else ""  # of a short line, the rest is empty
            codes.append(known.setdefault(value, len(known)) if value else -1)
        if system:
            x = row[across] if across < len(row) else ""
            y = row[down] if down < len(row) else ""
            whole = "whole " if system == "pixel" else ""
            try:
                xy.extend(place := (float(x), float(y)))
                if whole and not (place[0].is_integer() and place[1].is_integer()):
                    raise ValueError("no whole numbers")
            except ValueError as error:
                raise SceneError(
                    f"{path}, line {rows.line_num}: expected {whole}numbers for {lower[down]} and "
                    f"{lower[across]}, got {y[:40]!r} and {x[:40]!r}"
                    + ("; name map coordinates x and y" if whole else "")
                ) from error
    table = tuple(
        Column(names[k], "text", [*map(from_csv_cell, known)], np.array(codes, np.int32))
        for k, known, codes in columns
    )
    crs = CRS.from_epsg(4326) if system == "wgs84" else None
    points = np.array(xy).reshape(-1, 2) if system else None
    return Features(path, "CSV", table, numbers, points, (), crs, "", heading, system)


def check_columns(features: Features, named: Sequence[str], field: str | None = None) -> None:
    """Raise `SceneError` unless a CSV places its lines and has one of the named columns."""
    if features.format != "CSV":
        return
    columns = {column.name.lower() for column in features.columns}
    if features.system and columns & {name.strip().lower() for name in named}:
        return
    name = "class" if field is None else field[:80]
    raise SceneError(
        f"{features.path}: expected the columns 'row,col,{name}', 'x,y,{name}' or 'lon,lat,{name}',"
        f" got {features.heading[:80]!r}; name the column of the classes with --field, of numbers "
        "with --task regression too"
    )


def _read_geojson(path: Path, budget: int) -> Features:
    try:
        document = json.loads(_read_text(path, budget, each=b"["))
    except (ValueError, RecursionError) as error:
        raise SceneError(f"{path}: not a JSON file ({reason(error)}); save it again") from error
    kind = document.get("type") if isinstance(document, dict) else None
    if kind not in ("FeatureCollection", "Feature"):
        raise SceneError(f"{path}: expected a GeoJSON FeatureCollection, got another JSON document")
    members = document.get("features") if kind == "FeatureCollection" else [document]
    features = members if isinstance(members, list) else []
    geometries = _parts(path, parts_of_geojson, [_member(each, "geometry") for each in features])
    records = [_member(feature, "properties") for feature in features]
    names = dict.fromkeys(str(name) for record in records for name in record)
    guards.check_count(path, len(names) * len(records), _MOST_VALUES, "values of fields")
    plain = (int, float, str)
    columns = tuple(
        Column.of(n, (v if isinstance(v := r.get(n), plain) else None for r in records))
        for n in names
    )
    # RFC 7946 says WGS 84; older files have a ``crs`` member
    name = _member(_member(document, "crs"), "properties").get("name")
    crs = CRS.from_epsg(4326) if document.get("crs") is None else parse_crs(path, name)
    index = range(1, len(features) + 1)
    return Features(path, "GeoJSON", columns, index, *geometries, crs)


def _member(item: Any, name: str) -> dict[str, Any]:
    """Return an object in a JSON object, an empty one where there is none."""
    inner = item.get(name) if isinstance(item, dict) else None
    return inner if isinstance(inner, dict) else {}


def _read_text(path: Path, budget: int, each: bytes | None = None) -> str:
    """Return the text of a file if it fits the budget, with a mark for ``each`` of something."""
    size = guards.existing_file(path) * _TEXT_INFLATION
    guards.check_budget(path, size, budget, "a text file")
    with open_regular(path) as file:
        content = file.read()
    if each is not None:
        size += content.count(each) * _MARK_BYTES
        guards.check_budget(path, size, budget, "a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SceneError(
            f"{path}: expected text in UTF-8 ({reason(error)}); save it as UTF-8"
        ) from error


# -- the class of each feature


class Annotation(NamedTuple):
    """The class of a feature as text, and the name and color beside it, "" if none."""

    label: str
    name: str = ""
    color: str = ""


def label_of(value: Any) -> str:
    """Return a class as text; 3, 3.0, "3" and "03" are one class."""
    text = composed(str(value).strip())
    number = float(text) if is_number(text) else -1.0
    return str(int(number)) if 0 <= number < 2**31 and number.is_integer() else text


def is_number(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def class_fields(field: str | None, *more: str) -> list[str]:
    """Return the columns of a CSV that say of which class a line is."""
    return [*(CLASS_FIELDS if field is None else (field,)), "name", "color", *more]


def class_annotations(features: Features, field: str | None = None) -> list[Annotation | None]:
    """Return the class of each feature with its name and color, None of one that is skipped.

    The class is in ``field``; by default in ``class``, ``label``, ``name`` or ``id`` of a CSV or
    GeoJSON that has one of these, else in the field that `Features.class_column` guesses.

    Raises
    ------
    SceneError
        No field holds the class, or a line of a CSV, or a feature with such a field, has none.
    """
    named = CLASS_FIELDS if field is None else (field.strip().lower(),)
    check_columns(features, named, field)
    if _has_class_fields(features, field):
        annotations = _recorded(features, named)
        if None in annotations:
            where = features.where(annotations.index(None))
            fields = ", ".join(CLASS_FIELDS)
            raise SceneError(f"{features.path}, {where}: no class, expected one of {fields}")
        return annotations
    column = features.class_column(field)
    style = _style(features, column.name)
    distinct = []
    for value in column.values:
        label = label_of(value)
        color, name = style.get(str(value), style.get(label, ("", "")))
        # Beside a number, the legend says what the number means
        distinct.append(
            Annotation(label, name if label.isdecimal() and name != label else "", color)
        )
    annotations = column.of_features(distinct)
    empty = annotations.count(None)
    if features.points is None:
        pairs = zip(annotations, features.parts, strict=True)
        annotations = [annotation if parts else None for annotation, parts in pairs]
    shapeless = annotations.count(None) - empty
    skipped = [f"{empty:,} features without a value in {column.name!r}"] if empty else []
    skipped += [f"{shapeless:,} features without a geometry"] if shapeless else []
    if skipped:
        warn_user(f"{features.path}: skipped {' and '.join(skipped)}")
    return annotations


def _has_class_fields(features: Features, field: str | None = None) -> bool:
    """Whether fields of well-known names hold class, name and color of each feature."""
    if features.format != "GeoJSON" or field is not None:
        return features.format == "CSV"
    names = {c.name.strip().lower() for c in features.columns if c.filled}
    return not features.columns or bool(names & {*CLASS_FIELDS})


def _recorded(features: Features, named: Sequence[str]) -> list[Annotation | None]:
    """Return the annotations of lines or properties, by the first of some fields that has one."""
    columns = {c.name.strip().lower(): c for c in features.columns}
    fields = [name for name in dict.fromkeys((*named, "name", "color")) if name in columns]

    @cache  # a file has few classes and many lines
    def annotation_of(*codes: int) -> Annotation | None:
        pairs = zip(fields, codes, strict=True)
        record = {name: str(columns[name].values[code]) for name, code in pairs if code >= 0}
        chosen = next((name for name in named if name in record), None)
        if chosen is None:
            return None
        label = label_of(record[chosen])
        # Beside a number, a name says what the number means.
        beside = chosen != "name" and label.isdecimal()
        color = record.get("color", "").strip()
        valid = re.fullmatch("#[0-9a-fA-F]{6}", color) is not None
        name = record.get("name", "").strip() if beside else ""
        return Annotation(label, name, color if valid else "")

    if not fields:
        return [None] * len(features)
    codes = zip(*(columns[name].codes.tolist() for name in fields), strict=True)
    return [annotation_of(*each) for each in codes]


def _style(features: Features, field: str) -> dict[str, tuple[str, str]]:
    """Return color and legend of each value of a field by a QGIS style beside the file or in it.

    A style is text from a stranger: only the renderer's categories are looked at, nothing that the
    style names is opened. An odd one colors nothing.
    """
    path, beside = features.path, features.path.with_suffix(".qml")
    if features.format == "GeoJSON":
        return {}
    text: str | None = None
    try:
        if beside.is_file():
            text = read_text(check_beside(path, beside), "a style of QGIS", _MOST_STYLE_BYTES)
        elif features.format == "GeoPackage":
            text = ogr.layer_style(path, features.layer)
        if not text:
            return {}
        root = parse_xml(beside, _DOCTYPE.sub("", text, count=1), "a style of QGIS")
    except SceneError as error:
        warn_user(f"{error}; default colors are used")
        return {}
    from polyad.scene.read.classes import style_categories  # brings xarray

    renderer = root.find("renderer-v2[@type='categorizedSymbol']")
    if renderer is None or renderer.get("attr", "").strip('"') != field:
        return {}
    return {
        value: (color, label.strip()) for value, label, color in style_categories(renderer) if value
    }


# -- what `polyad info` shows


def describe_features(path: Path, layer: str | None, budget: int) -> dict[str, Any]:
    """Describe a file of features as `polyad info` shows it: plain values only.

    Of a file with several layers, only their names and features are told unless one is named.
    """
    kind = feature_format(path)
    try:
        features = read_features(path, budget, layer=None if kind in ("CSV", "GeoJSON") else layer)
    except ogr.WhichLayer as error:
        if layer is not None or not error.layers:
            raise
        read = (read_features(path, budget, layer=name) for name in error.layers)
        return {"kind": f"vector ({kind})", "layers": {f.layer: len(f) for f in read}}
    names = [column.name for column in features.columns]
    facts: dict[str, Any] = {"kind": f"vector ({kind})"}
    if kind == "CSV" and not features.system:
        lines = len(features)
        return {"kind": "table (CSV) without coordinates", "lines": lines, "fields": names}
    if kind == "CSV":
        facts = {"kind": "points (CSV)", "points": len(features)}
        facts |= {"coordinates": _COORDINATES[features.system], "fields": names}
    else:
        described = [f"{c.name} ({c.kind}, {_values(c)})" for c in features.own_columns]
        facts |= {"layer": features.layer} if features.layer else {}
        facts |= {"features": len(features), "geometry": features.geometries}
        facts |= {"fields": names if kind == "GeoJSON" else described}
        facts |= {"crs": None if features.crs is None else features.crs.to_string()}
    if _has_class_fields(features) and features.columns:
        found = [a for a in _recorded(features, CLASS_FIELDS) if a is not None]
        times = Counter((a.label, a.name or a.label) for a in found)
        shared = Counter(name for _, name in times)  # by several ids
        counts = {
            name if shared[name] == 1 else f"{label} {name}": count
            for (label, name), count in times.items()
        }
        return facts | (
            {"classes": counts} if len(counts) <= min(MOST_CLASSES, len(found) - 1) else {}
        )
    with suppress(SceneError):  # several fields could be meant
        column = features.class_column()
        labels = column.of_features([*map(label_of, column.values)])
        classes = dict(Counter(label for label in labels if label is not None))
        facts |= {"class_field": column.name, "classes": classes}
    return facts
