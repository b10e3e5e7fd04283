"""Points, lines and polygons with their attributes, from CSV, GeoJSON and what OGR reads.

`read_features` reads a file once. Labels, groups, targets, samples and masks are made of what it
returns: `class_annotations` finds the class of each feature, `Features.marks` places them on the
grid of a scene, and `polyad.scene.read.rasterize` draws them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rasterio.crs import CRS

from polyad.errors import PolyadWarning, SceneError, SceneMismatch, reason
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid, describe_extents
from polyad.scene.read.class_tables import symbol_color
from polyad.scene.read.columns import MOST_CLASSES, Column, choose_field, find_column, numbers_of
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.ogr import (
    VectorLayer,
    WhichLayer,
    layer_style,
    read_layer,
    vector_kind,
)
from polyad.scene.read.formats.opening import check_beside
from polyad.scene.read.formats.sidecars import parse_xml, read_text
from polyad.scene.read.rasterize import (
    Annotation,
    Array,
    Mark,
    Part,
    Points,
    is_number,
    marks_of,
    parts_of_geojson,
    parts_of_wkb,
    to_pixels,
)
from polyad.text import from_csv_cell

CLASS_FIELDS = ("class", "label", "name", "id")
_WGS84 = CRS.from_epsg(4326)
_TEXTS = {
    ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".geojson": "GeoJSON", ".json": "GeoJSON",
}  # fmt: skip
_TEXT_INFLATION = 20  # parsed text takes about this many times its size in memory
_MARK_BYTES = 1000  # and a point or a list of a GeoJSON about this much
_CORNER_BYTES = 100  # what a corner takes while it is read, moved and drawn
_MOST_VALUES = 20_000_000  # of all fields of all features
_HEX = re.compile("#[0-9a-fA-F]{6}")
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
# The four bytes of a geometry after its byte order, without the flags for Z and M
_GEOMETRIES = (
    "geometry", "point", "line", "polygon", "multipoint", "multiline", "multipolygon", "collection",
)  # fmt: skip
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
    geometries : mapping of str to int
        How many features have which kind of geometry.
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
    geometries: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def unit(self) -> str:
        """What of the file ``numbers`` count."""
        return "line" if self.format == "CSV" else "feature"

    def where(self, k: int) -> str:
        """Return the place of a feature in the file, for messages."""
        return f"{self.unit} {self.numbers[k]}"

    def texts(self, name: str) -> list[str] | None:
        """Return an attribute of every feature as text, "" where empty; None if there is none."""
        column = next((c for c in self.columns if c.name.casefold() == name.casefold()), None)
        if column is None:
            return None
        distinct = [label_of(value) for value in column.values]
        return [distinct[code] if code >= 0 else "" for code in column.codes.tolist()]

    def values(self, name: str) -> Array:
        """Return the number that each feature has in a field, NaN where it has none."""
        if self.format != "CSV":
            return numbers_of(self.path, self.columns, name)
        check_columns(self, [name], name)
        column = find_column(self.path, self.columns, name)
        numbers = []
        for code, text in enumerate(column.values):
            try:
                numbers.append(float(text))
            except ValueError as error:
                line = self.where(int(np.argmax(column.codes == code)))
                raise SceneError(
                    f"{self.path}, {line}: expected a number for {name[:80]!r}, got {text[:40]!r}; "
                    "choose a --field of numbers, or leave the cell empty"
                ) from error
        return np.array([*numbers, np.nan])[column.codes]  # of -1 the last

    def pixels(self, corners: Array, grid: Grid) -> Array:
        """Return corners as (column, row) of the grid, infinite where they have no place."""
        if self.system == "pixel":
            return corners + 0.5  # indices name pixel centers
        self.check_placed(corners, grid)
        return to_pixels(self.path, corners, self.crs or grid.crs, grid)

    def single_points(self, grid: Grid) -> Array:
        """Return the one point of each feature in pixels, shape (n, 2); refuse other geometries."""
        if self.points is not None:
            return self.pixels(self.points, grid)
        for k, parts in enumerate(self.parts):
            if len(parts) != 1 or parts[0].kind != "Point":
                got = "no geometry" if not parts else f"{len(parts)} of kind {parts[0].kind}"
                raise SceneError(
                    f"{self.path}, {self.where(k)}: expected one point for each feature of a "
                    f"sample, got {got}; keep the points alone"
                )
        return self.pixels(np.array([parts[0].rings[0][0] for parts in self.parts]), grid)

    def marks(self, annotations: Sequence[Annotation | None], grid: Grid) -> list[Mark]:
        """Return the features that have an annotation as marks in pixels of the grid."""
        chosen = [k for k, annotation in enumerate(annotations) if annotation is not None]
        given = [a for a in annotations if a is not None]
        if not given:
            return []
        if self.points is not None:
            numbers = [self.numbers[k] for k in chosen]
            xy = self.pixels(self.points[chosen], grid)
            return [Points(self.unit, numbers, given, xy, self.system == "pixel")]
        parts = [
            (self.numbers[k], annotation, part)
            for k, annotation in zip(chosen, given, strict=True)
            for part in self.parts[k]
        ]
        if parts:
            corners = np.concatenate([ring for _, _, part in parts for ring in part.rings])
            self.check_placed(corners, grid)
        return marks_of(self.path, parts, self.crs or grid.crs, grid)

    def check_placed(self, corners: Array, grid: Grid) -> None:
        """Refuse map coordinates that cannot be placed on the grid of the scene."""
        if self.format == "CSV":
            return
        if grid.transform is None:
            raise SceneMismatch(
                f"{self.path}: features of a {self.format} lie on the map, but the scene has no "
                "georeference; give labels as a CSV of row,col,class"
            )
        if self.crs is not None or grid.crs is None:
            return
        pixels = to_pixels(self.path, corners, None, grid)
        height, width = grid.shape
        if ((pixels >= 0) & (pixels <= (width, height))).all():
            warnings.warn(
                f"{self.path}: layer {self.layer[:80]!r} has no reference system; its coordinates "
                f"lie within the scene's, so {grid.crs} is taken",
                PolyadWarning,
                stacklevel=7,
            )
            return
        raise SceneMismatch(
            f"{self.path}: layer {self.layer[:80]!r} has no reference system, and its coordinates "
            f"do not lie within the scene's: {describe_extents(pixels, grid)}; write it into the "
            "file, as with QGIS's Assign projection"
        )


def feature_format(path: Path) -> str | None:
    """Return the format of a file of features, by ending or content; None if it is none."""
    return _TEXTS.get(path.suffix.lower()) or vector_kind(path)


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
    kind = feature_format(path)
    if kind in ("CSV", "GeoJSON") and layer is not None:
        raise SceneError(f"{path}: this kind of file has no layers; leave --layer out")
    if kind == "CSV":
        return _read_csv(path, budget, fields)
    if kind == "GeoJSON":
        return _read_geojson(path, budget)
    table = read_layer(path, str(kind), layer, budget, how, named, numbers)
    guards.check_budget(path, len(table.wkb) // 16 * _CORNER_BYTES, budget, "a layer")
    points = _all_points(table)
    return Features(
        path,
        str(kind),
        table.columns,
        range(1, len(table.sizes) + 1),
        points,
        () if points is not None else _parts_of_layer(path, table),
        table.crs,
        table.name,
        geometries=_geometries(table),
    )


def _read_csv(path: Path, budget: int, fields: Sequence[str] | None) -> Features:
    text = _read_text(path, budget)
    heading = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = max(",;\t", key=heading.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    try:
        return _csv_features(path, heading, rows, fields)
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({reason(error)})") from error


def _csv_features(path: Path, heading: str, rows: Any, fields: Sequence[str] | None) -> Features:
    """Read the lines of a CSV in one pass; points are kept in columns, texts as codes."""
    names = [from_csv_cell(name.strip()) for name in next(rows, [])]
    if fields is None:
        _check_columns_differ(path, names)
    wanted = None if fields is None else {name.strip().lower() for name in fields}
    # Of two columns of one name the later counts; a header may have a million of them
    at = {(n if wanted is None else n.lower()): k for k, n in enumerate(names) if n}
    kept = [k for n, k in at.items() if wanted is None or n.lower() in wanted]
    system, across, down = _place_columns([name.lower() for name in names])
    numbers, xy = array("q"), array("d")
    codes = [array("i") for _ in kept]
    distinct: list[dict[str, int]] = [{} for _ in kept]
    for row in rows:
        if not any(map(str.strip, row)):
            continue
        numbers.append(rows.line_num)
        if wanted is None:
            guards.check_count(path, len(names) * len(numbers), _MOST_VALUES, "values of fields")
        for own, known, k in zip(codes, distinct, kept, strict=True):
            # The rest of a short line is empty
            value = from_csv_cell(row[k].strip()) if k < len(row) else ""
            own.append(known.setdefault(value, len(known)) if value else -1)
        if system:
            xy.extend(_position(path, rows.line_num, system, row, names, across, down))
    columns = tuple(
        Column(names[k], "text", list(known), np.array(own, np.int32))
        for own, known, k in zip(codes, distinct, kept, strict=True)
    )
    crs = _WGS84 if system == "wgs84" else None
    points = np.array(xy).reshape(-1, 2) if system else None
    return Features(path, "CSV", columns, numbers, points, (), crs, "", heading, system)


def _position(
    path: Path,
    line: int,
    system: str,
    row: Sequence[str],
    names: Sequence[str],
    across: int,
    down: int,
) -> tuple[float, float]:
    """Return x and y of a line; one function call for each of millions of lines."""
    told_x = row[across] if across < len(row) else ""
    told_y = row[down] if down < len(row) else ""
    try:
        x, y = float(told_x), float(told_y)
    except ValueError as error:
        raise SceneError(
            f"{path}, line {line}: expected numbers for {names[down].lower()} and "
            f"{names[across].lower()}, got {told_y[:40]!r} and {told_x[:40]!r}"
        ) from error
    if system == "pixel" and not (x.is_integer() and y.is_integer()):
        raise SceneError(
            f"{path}, line {line}: row and col are whole numbers counted from 0, got "
            f"{told_y[:40]} and {told_x[:40]}; name map coordinates x and y"
        )
    return x, y


def _place_columns(names: Sequence[str]) -> tuple[str, int, int]:
    """Return what the columns are that place a feature, "" if there are none, and which."""
    for system, *ways in _PLACES:
        found = [next((name for name in way if name in names), "") for way in ways]
        if all(found):
            last = {name: k for k, name in enumerate(names)}
            return system, last[found[0]], last[found[1]]
    return "", -1, -1


def _check_columns_differ(path: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name; those that place a point are read whatever their case."""
    seen: set[str] = set()
    for name in names:
        key = name.lower() if name.lower() in PLACE_NAMES else name
        if key and key in seen:
            raise SceneError(
                f"{path}: expected columns of different names, got two called {name[:80]!r}; "
                "rename one of them or take it out"
            )
        seen.add(key)


def check_columns(features: Features, named: Sequence[str], field: str | None = None) -> None:
    """Raise `SceneError` unless a CSV places its lines and has one of the named columns."""
    if features.format != "CSV":
        return
    columns = {column.name.lower() for column in features.columns}
    if features.system and columns & {name.strip().lower() for name in named}:
        return
    instead = "" if field is None else f"with {field[:80]!r} in place of class, "
    raise SceneError(
        f"{features.path}: the first line must name the columns, expected 'row,col,class', "
        f"'x,y,class' or 'lon,lat,class', {instead}got {features.heading[:80]!r}; name the column "
        "of the classes with --field, of numbers with --task regression too"
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
    parts = [_parts_of_json(path, k, each) for k, each in enumerate(features, start=1)]
    records = [_properties(feature) for feature in features]
    names = dict.fromkeys(str(name) for record in records for name in record)
    guards.check_count(path, len(names) * len(records), _MOST_VALUES, "values of fields")
    plain = (int, float, str)
    columns = tuple(
        Column.of(n, (v if isinstance(v := r.get(n), plain) else None for r in records))
        for n in names
    )
    single = all(len(own) == 1 and own[0].kind == "Point" for own in parts)
    points = np.array([own[0].rings[0][0] for own in parts]).reshape(-1, 2) if single else None
    kinds = Counter(str(each["geometry"]["type"]).lower() for each in features)
    numbers, crs = range(1, len(features) + 1), _geojson_crs(path, document)
    return Features(path, "GeoJSON", columns, numbers, points, parts, crs, geometries=kinds)


def _parts_of_json(path: Path, number: int, feature: Any) -> list[Part]:
    shape = feature.get("geometry") if isinstance(feature, dict) else None
    try:
        return list(parts_of_geojson(shape))
    except RecursionError as error:
        raise SceneError(
            f"{path}, feature {number}: geometries nested too deeply; flatten"
        ) from error
    except ValueError as error:
        raise SceneError(f"{path}, feature {number}: {error}; draw it again") from error


def _properties(feature: Any) -> Mapping[str, Any]:
    properties = feature.get("properties") if isinstance(feature, dict) else None
    return properties if isinstance(properties, dict) else {}


def _geojson_crs(path: Path, document: Mapping[str, Any]) -> CRS:
    """Return the reference system: RFC 7946 says WGS 84; older files have a ``crs`` member."""
    member = document.get("crs")
    if member is None:
        return _WGS84
    properties = member.get("properties") if isinstance(member, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return parse_crs(path, name) or _WGS84


def _read_text(path: Path, budget: int, each: bytes | None = None) -> str:
    """Return the text of a file if it fits the budget, with a mark for ``each`` of something."""
    size = guards.existing_file(path) * _TEXT_INFLATION
    guards.check_budget(path, size, budget, "a text file")
    with open_regular(path) as file:
        content = file.read()
    if each is not None:
        held = size + content.count(each) * _MARK_BYTES
        guards.check_budget(path, held, budget, "a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SceneError(
            f"{path}: expected text in UTF-8 ({reason(error)}); save it as UTF-8"
        ) from error


def _geometries_of(table: VectorLayer) -> Iterator[bytes]:
    at = 0
    for size in table.sizes.tolist():
        yield table.wkb[at : at + size]
        at += size


def _parts_of_layer(path: Path, table: VectorLayer) -> list[list[Part]]:
    parts = []
    for number, wkb in enumerate(_geometries_of(table), start=1):
        try:
            parts.append(parts_of_wkb(wkb) if wkb else [])
        except ValueError as error:
            raise SceneError(f"{path}, feature {number}: {error}; draw it again") from error
    return parts


def _all_points(table: VectorLayer) -> Array | None:
    """Return the positions of a layer of nothing but points; None if it is another."""
    if not len(table.sizes) or (table.sizes != _POINT).any():
        return None
    points = np.frombuffer(table.wkb, _POINTS)
    if (points["order"] != 1).any() or (points["kind"] != 1).any():
        return None
    return np.ascontiguousarray(points["xy"], np.float64)


def _geometries(table: VectorLayer) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for wkb in _geometries_of(table):
        code = int.from_bytes(wkb[1:5], "little" if wkb[:1] == b"\1" else "big") % 1000
        known = wkb and code < len(_GEOMETRIES)
        counts[_GEOMETRIES[code] if known else "other" if wkb else "none"] += 1
    return dict(counts)


def label_of(value: Any) -> str:
    """Return a class as text; 3, 3.0, "3" and "03" are one class."""
    text = str(value).strip()
    number = float(text) if is_number(text) else -1.0
    return str(int(number)) if 0 <= number < 2**31 and number.is_integer() else text


def read_labeled(
    path: Path, grid: Grid, budget: int, layer: str | None = None, field: str | None = None
) -> list[Mark]:
    """Read a file of labeled features as marks on the grid of a scene."""
    features = read_features(path, budget, layer=layer, fields=class_fields(field))
    return features.marks(class_annotations(features, field), grid)


def class_fields(field: str | None, *more: str) -> list[str]:
    """Return the columns of a CSV that say of which class a line is."""
    return [*(CLASS_FIELDS if field is None else (field,)), "name", "color", *more]


def class_annotations(features: Features, field: str | None = None) -> list[Annotation | None]:
    """Return the class of each feature with its name and color, None of one that is skipped.

    The class is in ``field``; by default in ``class``, ``label``, ``name`` or ``id`` of a CSV or
    GeoJSON that has one of these, else in the field that `choose_field` guesses.

    Raises
    ------
    SceneError
        No field holds the class, or a line of a CSV, or a feature with such a field, has none.
    """
    path, named = features.path, CLASS_FIELDS if field is None else (field.strip().lower(),)
    check_columns(features, named, field)
    names = {c.name.strip().lower() for c in features.columns if c.filled}
    plain = field is None and (not features.columns or names & {*CLASS_FIELDS})
    if features.format == "CSV" or (features.format == "GeoJSON" and plain):
        annotations = _recorded(features, named)
        if None in annotations:
            raise SceneError(
                f"{path}, {features.where(annotations.index(None))}: no class, expected a value "
                f"for one of {', '.join(CLASS_FIELDS)}"
            )
        return annotations
    column = choose_field(path, class_columns(features), field)
    style = _style(features, column.name)
    distinct = [_styled(value, style) for value in column.values]
    empty = int(np.count_nonzero(column.codes < 0))
    shapeless = features.geometries.get("none", 0)
    nowhere = shapeless and sum(
        not parts and code >= 0
        for parts, code in zip(features.parts, column.codes.tolist(), strict=True)
    )
    skipped = [f"{empty:,} features without a value in {column.name!r}"] if empty else []
    skipped += [f"{nowhere:,} features without a geometry"] if nowhere else []
    if skipped:
        warnings.warn(f"{path}: skipped {' and '.join(skipped)}", PolyadWarning, stacklevel=6)
    return [distinct[code] if code >= 0 else None for code in column.codes.tolist()]


def class_columns(features: Features) -> Sequence[Column]:
    """Return the fields that the author of a layer gave it."""
    kml = features.format == "KML"
    columns = [c for c in features.columns if not kml or c.name.lower() not in _OF_KML]
    return columns or features.columns


def _recorded(features: Features, named: Sequence[str]) -> list[Annotation | None]:
    """Return the annotations of lines or properties, by the first of some fields that has one."""
    columns = {c.name.strip().lower(): c for c in features.columns}
    fields = [name for name in dict.fromkeys((*named, "name", "color")) if name in columns]

    @cache  # a file has few classes and many lines
    def annotation_of(*codes: int) -> Annotation | None:
        record = {
            name: columns[name].values[code]
            for name, code in zip(fields, codes, strict=True)
            if code >= 0
        }
        chosen = next((name for name in named if name in record), None)
        if chosen is None:
            return None
        label = label_of(record[chosen])
        # Beside a number, a name says what the number means.
        beside = chosen != "name" and label.isdecimal()
        color = str(record.get("color", "")).strip()
        return Annotation(
            label,
            str(record.get("name", "")).strip() if beside else "",
            color if _HEX.fullmatch(color) else "",
        )

    if not fields:
        return [None] * len(features)
    codes = zip(*(columns[name].codes.tolist() for name in fields), strict=True)
    return [annotation_of(*each) for each in codes]


class _Category(NamedTuple):
    """One class of a QGIS style: its color as ``#rrggbb`` and its legend, "" if nothing."""

    color: str
    name: str


def _styled(value: Any, style: Mapping[str, _Category]) -> Annotation:
    label = label_of(value)
    category = style.get(str(value), style.get(label, _Category("", "")))
    # Beside a number, the legend says what the number means.
    name = category.name.strip() if label.isdecimal() and category.name.strip() != label else ""
    return Annotation(label, name, category.color)


def _style(features: Features, field: str) -> Mapping[str, _Category]:
    """Return the categories of a QGIS style beside the file or in it; an odd one colors nothing.

    A style is text from a stranger: only the renderer's categories are looked at, nothing that the
    style names is opened.
    """
    path, beside = features.path, features.path.with_suffix(".qml")
    if features.format == "GeoJSON":
        return {}
    text: str | None = None
    try:
        if beside.is_file():
            text = read_text(check_beside(path, beside), "a style of QGIS", _MOST_STYLE_BYTES)
        elif features.format == "GeoPackage":
            text = layer_style(path, features.layer)
        if not text:
            return {}
        root = parse_xml(beside, _DOCTYPE.sub("", text, count=1), "a style of QGIS")
    except SceneError as error:
        warnings.warn(f"{error}; default colors are used", PolyadWarning, stacklevel=7)
        return {}
    renderer = root.find("renderer-v2")
    if renderer is None or renderer.get("type") != "categorizedSymbol":
        return {}
    if renderer.get("attr", "").strip('"') != field:
        return {}
    colors = {s.get("name", ""): symbol_color(s) for s in renderer.iterfind("symbols/symbol")}
    return {
        value: _Category(colors.get(category.get("symbol", ""), ""), category.get("label", ""))
        for category in renderer.iterfind("categories/category")
        if (value := category.get("value", ""))
    }


def describe_features(path: Path, layer: str | None, budget: int) -> dict[str, Any]:
    """Describe a file of features as `polyad info` shows it: plain values only.

    Of a file with several layers, only their names and features are told unless one is named.
    """
    kind = feature_format(path)
    if kind in ("CSV", "GeoJSON"):
        layer = None
    try:
        features = read_features(path, budget, layer=layer)
    except WhichLayer as error:
        if layer is not None or not error.layers:
            raise
        read = (read_features(path, budget, layer=name) for name in error.layers)
        return {"kind": f"vector ({kind})", "layers": {f.layer: len(f) for f in read}}
    names = [column.name for column in features.columns]
    if kind == "CSV" and not features.system:
        return {
            "kind": "table (CSV) without coordinates",
            "lines": len(features),
            "fields": names,
        }
    facts: dict[str, Any] = {}
    if kind == "CSV":
        facts = {
            "kind": "points (CSV)",
            "points": len(features),
            "coordinates": _COORDINATES[features.system],
            "fields": names,
        }
        return facts | _counts(_recorded(features, CLASS_FIELDS))
    columns = class_columns(features)
    facts["kind"] = f"vector ({kind})"
    if features.layer:
        facts["layer"] = features.layer
    facts |= {
        "features": len(features),
        "geometry": dict(features.geometries),
        "fields": names if kind == "GeoJSON" else [_described(column) for column in columns],
        "crs": None if features.crs is None else features.crs.to_string(),
    }
    if kind == "GeoJSON" and {name.lower() for name in names} & {*CLASS_FIELDS}:
        return facts | _counts(_recorded(features, CLASS_FIELDS))
    try:
        column = choose_field(path, columns)
    except SceneError:  # several fields could be meant
        return facts
    labels = [label_of(value) for value in column.values]
    counts = Counter(labels[code] for code in column.codes.tolist() if code >= 0)
    return facts | {"class_field": column.name, "classes": dict(counts)}


def _described(column: Column) -> str:
    count = len(column.values)
    return f"{column.name} ({column.kind}, {count:,} value{'' if count == 1 else 's'})"


def _counts(annotations: Sequence[Annotation | None]) -> dict[str, Any]:
    counts = Counter(a.name or a.label for a in annotations if a is not None)
    plain = len(counts) <= MOST_CLASSES and len(counts) < counts.total()
    return {"classes": dict(counts)} if plain else {}
