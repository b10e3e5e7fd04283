"""Labels given as points and polygons, CSV or GeoJSON, drawn onto the scene's grid.

Both become a list of `Mark`: a class and a geometry in the scene's own coordinates. Marks are drawn
in the order of the file, so that a later one overrules an earlier one.
"""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.features import bounds, rasterize
from rasterio.warp import transform as transform_points

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.class_tables import Colors, Names
from polyad.scene.formats import guards
from polyad.scene.formats.crs import parse_crs
from polyad.scene.grid import Grid, move

Point = tuple[float, float]

_WGS84 = CRS.from_epsg(4326)
_TEXT_INFLATION = 20  # parsed text takes about this many times its size in memory
_CLASS_FIELDS = ("class", "label", "name", "id")
# Which columns of a CSV place a label: what they are, and their names across and down.
_PLACES = (
    ("pixel", ("col", "column"), ("row",)),
    ("map", ("x", "easting"), ("y", "northing")),
    ("wgs84", ("lon", "long", "lng", "longitude"), ("lat", "latitude")),
)


@dataclass(frozen=True)
class Mark:
    """One label: where it stands in the file, what it says, and where it lies.

    ``geometry`` is a GeoJSON geometry in pixel coordinates, (column, row) from the outer corner of
    the first pixel.
    """

    where: str
    label: str
    name: str
    color: str
    geometry: Mapping[str, Any]


def read_csv_marks(path: Path, grid: Grid, budget: int) -> list[Mark]:
    """Read ``row,col,class`` (0-based), ``x,y,class`` (map) or ``lon,lat,class`` (WGS 84).

    ``easting,northing`` and ``longitude,latitude`` are read too, in capitals or not.
    """
    text = _read_text(path, budget)
    first = text.splitlines()[0] if text else ""
    delimiter = max(",;\t", key=first.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    columns = [(name or "").strip().lower() for name in rows.fieldnames or ()]
    rows.fieldnames = columns
    kind, place = _placed(columns)
    if not kind or not set(_CLASS_FIELDS) & set(columns):
        raise SceneError(
            f"{path}: the first line must name the columns, wanted 'row,col,class', 'x,y,class' or "
            f"'lon,lat,class', got {first[:80]!r}"
        )
    try:
        records = [(f"line {rows.line_num}", r) for r in rows if any(_texts(r))]
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({error})") from error
    whole = kind == "pixel"
    points = [_csv_point(path, where, record, place, whole) for where, record in records]
    if whole:
        pixels = [(col + 0.5, row + 0.5) for col, row in points]  # indices name pixel centres
    else:
        pixels = _to_pixels(path, points, _WGS84 if kind == "wgs84" else grid.crs, grid)
    return [
        _mark(path, where, record, {"type": "Point", "coordinates": xy})
        for (where, record), xy in zip(records, pixels, strict=True)
    ]


def read_geojson_marks(path: Path, grid: Grid, budget: int) -> list[Mark]:
    """Read the points and polygons of a GeoJSON file; WGS 84 unless it has a ``crs`` member."""
    try:
        document = json.loads(_read_text(path, budget))
    except (ValueError, RecursionError) as error:
        raise SceneError(f"{path}: not a JSON file ({error}); save it again") from error
    if not isinstance(document, dict) or document.get("type") not in (
        "FeatureCollection",
        "Feature",
    ):
        raise SceneError(f"{path}: wanted a GeoJSON FeatureCollection, got another JSON document")
    features = document.get("features") if document["type"] == "FeatureCollection" else [document]
    if grid.transform is None:
        raise SceneMismatch(
            f"{path}: GeoJSON labels lie on the map, but the scene has no georeference; give "
            f"labels as a CSV of row,col,class"
        )
    found = []
    for number, feature in enumerate(features if isinstance(features, list) else [], start=1):
        where = f"feature {number}"
        shape = feature.get("geometry") if isinstance(feature, dict) else None
        properties = feature.get("properties") if isinstance(feature, dict) else None
        record = properties if isinstance(properties, dict) else {}
        try:
            found += [(where, record, part) for part in _parts(path, where, shape)]
        except RecursionError as error:
            raise SceneError(f"{path}, {where}: geometries nested too deeply; flatten") from error
    # All corners of all geometries are moved in one call: one each would take minutes.
    corners = [xy for _, _, part in found for xy in _flat(part["coordinates"])]
    moved = iter(_to_pixels(path, corners, _geojson_crs(path, document), grid))
    return [
        _mark(path, where, record, part | {"coordinates": _refill(part["coordinates"], moved)})
        for where, record, part in found
    ]


def draw(path: Path, marks: Sequence[Mark], grid: Grid) -> tuple[NDArray[np.uint16], Names, Colors]:
    """Draw marks onto the grid.

    A polygon labels the pixels whose centres it holds; one too small to hold any labels the pixels
    it touches. A mark outside the scene is an error.

    Returns
    -------
    values : ndarray of uint16, shape (height, width)
    names, colors : dict
        By class id, as far as the file tells.
    """
    ids, names, colors = _number(path, marks)
    values = np.zeros(grid.shape, dtype=np.uint16)
    clashes = []
    for mark in marks:
        rows, cols = _covered(mark, grid.shape)
        if not len(rows):
            raise SceneMismatch(
                f"{path}, {mark.where}: label {mark.label!r} lies outside the scene of "
                f"{grid.shape[0]} rows and {grid.shape[1]} columns, at {_position(mark)}; remove "
                f"it, or check the coordinates and their reference system"
            )
        value = ids[mark.label]
        before = values[rows, cols]
        if ((before != 0) & (before != value)).any():
            clashes.append(mark.where)
        values[rows, cols] = value
    if clashes:
        warnings.warn(
            f"{path}: {len(clashes)} labels fall on pixels that another class has, the first in "
            f"{clashes[0]}; the later label wins",
            PolyadWarning,
            stacklevel=4,
        )
    return values, names, colors


def _covered(mark: Mark, shape: tuple[int, int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the pixels that a mark labels; none if it lies outside."""
    nothing = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    left, top, right, bottom = bounds(mark.geometry)
    if not all(math.isfinite(v) for v in (left, top, right, bottom)):
        return nothing
    if mark.geometry["type"] == "Point":
        row, col = math.floor(top), math.floor(left)
        inside = 0 <= row < shape[0] and 0 <= col < shape[1]
        return (np.array([row]), np.array([col])) if inside else nothing
    # Only the polygon's own box is rasterized, not the scene for each polygon.
    rows = slice(max(math.floor(top), 0), min(math.floor(bottom) + 1, shape[0]))
    cols = slice(max(math.floor(left), 0), min(math.floor(right) + 1, shape[1]))
    if rows.start >= rows.stop or cols.start >= cols.stop:
        return nothing
    box = (rows.stop - rows.start, cols.stop - cols.start)
    to_box = Affine.translation(cols.start, rows.start)
    for all_touched in (False, True):
        drawn = rasterize(
            [(mark.geometry, 1)], box, transform=to_box, all_touched=all_touched, dtype=np.uint8
        )
        if drawn.any():
            row, col = np.nonzero(drawn)
            return row + rows.start, col + cols.start
    return nothing


def _number(path: Path, marks: Sequence[Mark]) -> tuple[dict[str, int], Names, Colors]:
    """Return label -> class id. Labels are all ids or all names; names get ids in their order."""
    names: Names = {}
    colors: Colors = {}
    labels = sorted({mark.label for mark in marks})
    if all(label.isdecimal() for label in labels):
        ids = {label: int(label) for label in labels}
    else:
        # "-1" and "2.5" are spoilt ids, not names.
        named = [label for label in labels if label.isdecimal() or not _is_number(label)]
        ids = {label: k for k, label in enumerate(named, start=1)}
        names = {k: label for label, k in ids.items()}
    for mark in marks:
        value = ids.get(mark.label)
        if value is None or value > 65535:
            raise SceneError(
                f"{path}, {mark.where}: unknown class {mark.label!r}; wanted one of whole numbers "
                f"from 1 to 65535"
            )
        if mark.name:
            names.setdefault(value, mark.name)
        if mark.color:
            colors.setdefault(value, mark.color)
    return ids, names, colors


def _mark(path: Path, where: str, record: Mapping[str, Any], geometry: Any) -> Mark:
    """Make a mark of a CSV line or of a feature's properties."""
    lower = {str(k).strip().lower(): v for k, v in record.items() if v not in (None, "")}
    field = next((f for f in _CLASS_FIELDS if f in lower), None)
    if field is None:
        raise SceneError(
            f"{path}, {where}: no class, wanted a value for one of {', '.join(_CLASS_FIELDS)}"
        )
    label = _label(lower[field])
    # Beside a number, a name says what the number means.
    name = str(lower.get("name", "")).strip() if field != "name" and label.isdecimal() else ""
    color = str(lower.get("color", "")).strip()
    hex_color = len(color) == 7 and color[0] == "#" and all(c in _HEX for c in color[1:])
    return Mark(where, label, name, color if hex_color else "", geometry)


_HEX = "0123456789abcdefABCDEF"


def _label(value: Any) -> str:
    """Return a class as text; 3, 3.0, "3" and "03" are one class."""
    text = str(value).strip()
    number = float(text) if _is_number(text) else -1.0
    return str(int(number)) if 0 <= number < 2**31 and number.is_integer() else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _placed(columns: Sequence[str]) -> tuple[str, tuple[str, str]]:
    """Return what the columns that place a label are, "" if there are none, and their names."""
    for kind, *ways in _PLACES:
        names = [next((name for name in way if name in columns), "") for way in ways]
        if all(names):
            return kind, (names[0], names[1])
    return "", ("", "")


def _csv_point(
    path: Path, where: str, record: Mapping[str, Any], place: tuple[str, str], whole: bool
) -> tuple[float, float]:
    try:
        across, down = (float(record[name]) for name in place)
    except (TypeError, ValueError) as error:
        raise SceneError(
            f"{path}, {where}: wanted numbers for {place[1]} and {place[0]}, got "
            f"{record.get(place[1])!r} and {record.get(place[0])!r}"
        ) from error
    if whole and not (across.is_integer() and down.is_integer()):
        raise SceneError(
            f"{path}, {where}: row and col are whole numbers counted from 0, got "
            f"{record[place[1]]} and {record[place[0]]}; name map coordinates x and y"
        )
    return across, down


def _texts(record: Mapping[str, Any]) -> list[str]:
    return [value for value in record.values() if isinstance(value, str) and value.strip()]


def _parts(path: Path, where: str, geometry: Any) -> Iterator[dict[str, Any]]:
    """Yield the single points and polygons of a geometry, checked."""
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for part in geometry["geometries"]:
            yield from _parts(path, where, part)
        return
    if kind not in ("Point", "MultiPoint", "Polygon", "MultiPolygon"):
        raise SceneError(
            f"{path}, {where}: wanted points or polygons, got {kind or 'no geometry'}; buffer "
            f"lines to polygons"
        )
    depth = {"Point": 0, "MultiPoint": 1, "Polygon": 2, "MultiPolygon": 3}[kind]
    try:
        coordinates = _plain(geometry.get("coordinates"), depth)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise SceneError(f"{path}, {where}: damaged coordinates of its {kind}") from error
    single = kind.removeprefix("Multi")
    for part in coordinates if kind.startswith("Multi") else [coordinates]:
        yield {"type": single, "coordinates": part}


def _plain(coordinates: Any, depth: int) -> Any:
    """Return nested coordinates as lists of (x, y), heights dropped; raise if they are not that."""
    if depth == 0:
        x, y = float(coordinates[0]), float(coordinates[1])
        if not (math.isfinite(x) and math.isfinite(y)):
            raise ValueError("not finite")
        return (x, y)
    parts = [_plain(part, depth - 1) for part in coordinates]
    if depth == 2 and not all(len(ring) >= 4 for ring in parts or [[]]):
        raise ValueError("a ring needs four points, the last one equal to the first")
    return parts


def _geojson_crs(path: Path, document: Mapping[str, Any]) -> CRS:
    """Return the reference system: RFC 7946 says WGS 84; older files have a ``crs`` member."""
    member = document.get("crs")
    if member is None:
        return _WGS84
    properties = member.get("properties") if isinstance(member, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return parse_crs(path, name) or _WGS84


def _to_pixels(path: Path, points: Sequence[Point], crs: CRS | None, grid: Grid) -> list[Point]:
    """Return map points in ``crs`` as (column, row) of the grid, infinite where there is none."""
    inverse = ~(grid.transform or Affine.identity())  # without georeference, x and y are pixels
    if crs is not None and grid.transform is not None and crs != grid.crs:
        if grid.crs is None:
            raise SceneMismatch(
                f"{path}: labels are in {crs}, but the scene does not say its reference system; "
                f"write it into the scene, or give labels as a CSV of row,col,class"
            )
        points = _reproject(points, crs, grid.crs)
    return [move(inverse, x, y) for x, y in points]


def _reproject(points: Sequence[Point], source: CRS, target: CRS) -> Sequence[Point]:
    try:
        xs, ys = transform_points(source, target, [x for x, _ in points], [y for _, y in points])
    except Exception:  # GDAL's errors have no public base; a point may have no place in the target
        if len(points) == 1:
            return [(math.inf, math.inf)]
        return [_reproject([point], source, target)[0] for point in points]
    return list(zip(xs, ys, strict=True))


def _flat(coordinates: Any) -> Iterator[Point]:
    """Yield the points of nested coordinates in their order."""
    if isinstance(coordinates, tuple):
        yield coordinates
    else:
        for part in coordinates:
            yield from _flat(part)


def _refill(coordinates: Any, points: Iterator[Point]) -> Any:
    """Return coordinates nested as given, with their points replaced in order."""
    if isinstance(coordinates, tuple):
        return next(points)
    return [_refill(part, points) for part in coordinates]


def _position(mark: Mark) -> str:
    left, top, _, _ = bounds(mark.geometry)
    if not (math.isfinite(left) and math.isfinite(top)):
        return "a place the scene's map projection does not reach"
    return f"row {math.floor(top)}, col {math.floor(left)}"


def _read_text(path: Path, budget: int) -> str:
    size = guards.existing_file(path)
    guards.check_budget(path, size * _TEXT_INFLATION, budget, "a text file")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SceneError(f"{path}: wanted text in UTF-8 ({error}); save it as UTF-8") from error
