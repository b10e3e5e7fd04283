"""Labels given as points and polygons, CSV or GeoJSON, read as marks on the scene's grid.

Both become a list of marks in pixels of the scene's grid, see `polyad.scene.read.rasterize`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS

from polyad.errors import PolyadWarning, SceneError, SceneMismatch, reason
from polyad.regular import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid
from polyad.scene.read.columns import Column, choose_field
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.rasterize import (
    Annotation,
    Labeled,
    Mark,
    Part,
    Points,
    is_number,
    marks_of,
    parts_of_geojson,
    to_pixels,
)

_WGS84 = CRS.from_epsg(4326)
_TEXT_INFLATION = 20  # parsed text takes about this many times its size in memory
_MARK_BYTES = 1000  # and a point or a list of a GeoJSON about this much
_MOST_VALUES = 20_000_000  # of all fields of all features
CLASS_FIELDS = ("class", "label", "name", "id")
# Which columns of a CSV place a label: what they are, and their names across and down.
_PLACES = (
    ("pixel", ("col", "column"), ("row",)),
    ("map", ("x", "easting"), ("y", "northing")),
    ("wgs84", ("lon", "long", "lng", "longitude"), ("lat", "latitude")),
)
PLACE_NAMES = {name for _, *ways in _PLACES for way in ways for name in way}
_HEX = "0123456789abcdefABCDEF"


class CsvPoints(NamedTuple):
    """The lines of a CSV: their numbers, their classes if they have one, their places in pixels.

    ``exact`` says that the file gives rows and columns.
    """

    numbers: Sequence[int]
    annotations: list[Annotation | None]
    xy: NDArray[np.float64]
    exact: bool


def read_csv_marks(path: Path, grid: Grid, budget: int, *, field: str | None = None) -> list[Mark]:
    """Read ``row,col,class`` (0-based), ``x,y,class`` (map) or ``lon,lat,class`` (WGS 84).

    ``easting,northing`` and ``longitude,latitude`` are read too, in capitals or not, and ``field``
    in place of ``class``.
    """
    points = read_csv_points(path, grid, budget, field=field)
    annotations = [a for a in points.annotations if a is not None]
    if len(annotations) < len(points.annotations):
        first = points.annotations.index(None)
        raise _no_class(path, f"line {points.numbers[first]}")
    marks = Points("line", points.numbers, annotations, points.xy, points.exact)
    return [marks] if annotations else []


def read_csv_points(
    path: Path, grid: Grid, budget: int, *, field: str | None = None, required: bool = True
) -> CsvPoints:
    """Read the points of a CSV, those without a class too; see `read_csv_marks`.

    Without ``required`` the file need not have the field; then no point has a class.
    """
    first, rows = _csv_rows(path, budget)
    try:
        columns = [name.strip().lower() for name in next(rows, [])]
        system, place = place_columns(columns)
        named = CLASS_FIELDS if field is None else (field.strip().lower(),)
        if not system or (required and not set(named) & set(columns)):
            raise SceneError(
                f"{path}: the first line must name the columns, wanted 'row,col,class', 'x,y,class'"
                f" or 'lon,lat,class', {_instead(field)}got {first[:80]!r}; name the column of the "
                "classes with --field, of numbers with --task regression too"
            )
        points = _csv_points(path, rows, columns, place, system == "pixel", named)
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({reason(error)})") from error
    if system == "pixel":
        xy = points.xy + 0.5  # indices name pixel centers
    else:
        xy = to_pixels(path, points.xy, _WGS84 if system == "wgs84" else grid.crs, grid)
    return points._replace(xy=xy)


def read_csv_fields(path: Path, budget: int) -> dict[str, list[str]]:
    """Return the columns of a CSV by name as text.

    Lines are those that `read_csv_points` takes for points.
    """
    _, rows = _csv_rows(path, budget)
    try:
        names = [name.strip() for name in next(rows, [])]
        lines = [row for row in rows if any(map(str.strip, row))]
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({reason(error)})") from error
    guards.check_count(path, len(names) * len(lines), _MOST_VALUES, "values of fields")
    _check_columns_differ(path, names)
    kept = {name: k for k, name in enumerate(names) if name}
    return {name: [row[k] if k < len(row) else "" for row in lines] for name, k in kept.items()}


def _check_columns_differ(path: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name; those that place a point are read whatever their case."""
    seen: set[str] = set()
    for name in names:
        key = name.lower() if name.lower() in PLACE_NAMES else name
        if key and key in seen:
            raise SceneError(
                f"{path}: wanted columns of different names, got two called {name[:80]!r}; rename "
                "one of them or take it out"
            )
        seen.add(key)


def _csv_rows(path: Path, budget: int) -> tuple[str, Any]:
    """Return the first line of a CSV, and a reader of all its lines."""
    text = _read_text(path, budget)
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = max(",;\t", key=first.count)
    return first, csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)


def _csv_points(
    path: Path,
    rows: Any,
    columns: Sequence[str],
    place: tuple[str, str],
    whole: bool,
    named: Sequence[str],
) -> CsvPoints:
    """Return the points of a CSV in its own coordinates; one pass over its lines."""
    at = {name: k for k, name in enumerate(columns)}
    across, down = at[place[0]], at[place[1]]
    fields = [name for name in dict.fromkeys((*named, "name", "color")) if name in at]
    cells = [at[name] for name in fields]
    numbers, xy, annotations = array("q"), array("d"), []

    @cache  # a file has few classes and many lines
    def annotation_of(*values: str) -> Annotation | None:
        return record_annotation(dict(zip(fields, values, strict=True)), named)

    for row in rows:
        if not any(map(str.strip, row)):
            continue
        # Of a short line, what is missing is empty; a header may have a million columns
        told_x, told_y, *texts = [row[k] if k < len(row) else "" for k in (across, down, *cells)]
        try:
            x, y = float(told_x), float(told_y)
        except ValueError as error:
            raise SceneError(
                f"{path}, line {rows.line_num}: wanted numbers for {place[1]} and {place[0]}, got "
                f"{told_y[:40]!r} and {told_x[:40]!r}"
            ) from error
        if whole and not (x.is_integer() and y.is_integer()):
            raise SceneError(
                f"{path}, line {rows.line_num}: row and col are whole numbers counted from 0, got "
                f"{told_y[:40]} and {told_x[:40]}; name map coordinates x and y"
            )
        numbers.append(rows.line_num)
        annotations.append(annotation_of(*texts))
        xy.extend((x, y))
    return CsvPoints(numbers, annotations, np.array(xy).reshape(-1, 2), whole)


def read_geojson_marks(
    path: Path, grid: Grid, budget: int, *, field: str | None = None
) -> list[Mark]:
    """Read the features of a GeoJSON file; WGS 84 unless it has a ``crs`` member.

    The class is in ``field``; by default in ``class``, ``label``, ``name`` or ``id`` where a
    feature has one of these, else in the field that `choose_field` guesses.
    """
    features, shapes, crs = read_geojson(path, budget)
    if grid.transform is None:
        raise no_georeference(path, "GeoJSON labels")
    records = [properties_of(feature) for feature in features]
    annotations, skipped = feature_annotations(path, records, field)
    parts: list[Labeled] = []
    for number, (own, annotation) in enumerate(zip(shapes, annotations, strict=True), start=1):
        if annotation is not None:
            parts += [(number, annotation, part) for part in own]
        elif not skipped:
            raise _no_class(path, f"feature {number}")
    if skipped:
        warn_of_skipped(path, skipped)
    return marks_of(path, parts, crs, grid)


def read_geojson(path: Path, budget: int) -> tuple[list[Any], list[list[Part]], CRS]:
    """Return the features of a GeoJSON file, the parts of each, and their reference system."""
    try:
        document = json.loads(_read_text(path, budget, each=b"["))
    except (ValueError, RecursionError) as error:
        raise SceneError(f"{path}: not a JSON file ({reason(error)}); save it again") from error
    if not isinstance(document, dict) or document.get("type") not in (
        "FeatureCollection",
        "Feature",
    ):
        raise SceneError(f"{path}: wanted a GeoJSON FeatureCollection, got another JSON document")
    members = document.get("features") if document["type"] == "FeatureCollection" else [document]
    features = members if isinstance(members, list) else []
    shapes = [_parts(path, number, feature) for number, feature in enumerate(features, start=1)]
    return features, shapes, _geojson_crs(path, document)


def _parts(path: Path, number: int, feature: Any) -> list[Part]:
    shape = feature.get("geometry") if isinstance(feature, dict) else None
    try:
        return list(parts_of_geojson(shape))
    except RecursionError as error:
        raise SceneError(
            f"{path}, feature {number}: geometries nested too deeply; flatten"
        ) from error
    except ValueError as error:
        raise SceneError(f"{path}, feature {number}: {error}; draw it again") from error


def feature_annotations(
    path: Path, records: Sequence[Mapping[str, Any]], field: str | None
) -> tuple[list[Annotation | None], str]:
    """Return the class of each feature, None if it has none, and what to say of those skipped."""
    if field is None and any(name in CLASS_FIELDS for r in records for name in _lower(r)):
        return [record_annotation(record) for record in records], ""
    names = dict.fromkeys(name for record in records for name in record)
    if field is None and not names:
        return [None] * len(records), ""
    guards.check_count(path, len(names) * len(records), _MOST_VALUES, "values of fields")
    plain = (int, float, str, type(None))
    values = ([r.get(n) if isinstance(r.get(n), plain) else None for r in records] for n in names)
    columns = [Column.of(name, items) for name, items in zip(names, values, strict=True)]
    column = choose_field(path, columns, field)
    own = [Annotation(label_of(value), "", "") for value in column.values]
    empty = len(records) - column.filled
    skipped = f"{empty:,} features without a value in {column.name!r}" if empty else ""
    return [own[code] if code >= 0 else None for code in column.codes], skipped


def properties_of(feature: Any) -> Mapping[str, Any]:
    """Return the fields of a GeoJSON feature."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    return properties if isinstance(properties, dict) else {}


def record_annotation(
    record: Mapping[str, Any], named: Sequence[str] = CLASS_FIELDS
) -> Annotation | None:
    """Return the annotation of a CSV line or a feature's properties; None if they name no class."""
    lower = _lower(record)
    field = next((f for f in named if f in lower), None)
    if field is None:
        return None
    label = label_of(lower[field])
    # Beside a number, a name says what the number means.
    name = str(lower.get("name", "")).strip() if field != "name" and label.isdecimal() else ""
    color = str(lower.get("color", "")).strip()
    hex_color = len(color) == 7 and color[0] == "#" and all(c in _HEX for c in color[1:])
    return Annotation(label, name, color if hex_color else "")


def _lower(record: Mapping[str, Any]) -> dict[str, Any]:
    return {str(k).strip().lower(): v for k, v in record.items() if v not in (None, "")}


def warn_of_skipped(path: Path, what: str) -> None:
    """Warn of features that label nothing."""
    warnings.warn(f"{path}: skipped {what}", PolyadWarning, stacklevel=6)


def no_georeference(path: Path, what: str) -> SceneMismatch:
    """Return the error for labels on the map of a scene that has no place on it."""
    return SceneMismatch(
        f"{path}: {what} lie on the map, but the scene has no georeference; give labels as a CSV "
        "of row,col,class"
    )


def _no_class(path: Path, where: str) -> SceneError:
    return SceneError(
        f"{path}, {where}: no class, wanted a value for one of {', '.join(CLASS_FIELDS)}"
    )


def label_of(value: Any) -> str:
    """Return a class as text; 3, 3.0, "3" and "03" are one class."""
    text = str(value).strip()
    number = float(text) if is_number(text) else -1.0
    return str(int(number)) if 0 <= number < 2**31 and number.is_integer() else text


def _instead(field: str | None) -> str:
    return "" if field is None else f"with {field[:80]!r} in place of class, "


def place_columns(columns: Sequence[str]) -> tuple[str, tuple[str, str]]:
    """Return what the columns that place a label are, "" if there are none, and their names."""
    for system, *ways in _PLACES:
        names = [next((name for name in way if name in columns), "") for way in ways]
        if all(names):
            return system, (names[0], names[1])
    return "", ("", "")


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
            f"{path}: wanted text in UTF-8 ({reason(error)}); save it as UTF-8"
        ) from error
