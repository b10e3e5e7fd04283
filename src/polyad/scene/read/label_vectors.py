"""Labels given as points and polygons, CSV or GeoJSON, read as marks on the scene's grid.

Both become a list of marks in pixels of the scene's grid, see `polyad.scene.read.label_marks`.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from rasterio.crs import CRS
from rasterio.warp import transform as transform_points

from polyad.errors import SceneError, SceneMismatch, reason
from polyad.regular import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.grid import Grid, move
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.label_marks import Annotation, Array, Mark, Points, Polygon, is_number

_WGS84 = CRS.from_epsg(4326)
_TEXT_INFLATION = 20  # parsed text takes about this many times its size in memory
_MARK_BYTES = 1000  # and a point or a list of a GeoJSON about this much
_CLASS_FIELDS = ("class", "label", "name", "id")
# Which columns of a CSV place a label: what they are, and their names across and down.
_PLACES = (
    ("pixel", ("col", "column"), ("row",)),
    ("map", ("x", "easting"), ("y", "northing")),
    ("wgs84", ("lon", "long", "lng", "longitude"), ("lat", "latitude")),
)
_HEX = "0123456789abcdefABCDEF"


def read_csv_marks(path: Path, grid: Grid, budget: int) -> list[Mark]:
    """Read ``row,col,class`` (0-based), ``x,y,class`` (map) or ``lon,lat,class`` (WGS 84).

    ``easting,northing`` and ``longitude,latitude`` are read too, in capitals or not.
    """
    text = _read_text(path, budget)
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    try:
        columns = [name.strip().lower() for name in next(rows, [])]
        system, place = _placed(columns)
        if not system or not set(_CLASS_FIELDS) & set(columns):
            raise SceneError(
                f"{path}: the first line must name the columns, wanted 'row,col,class', 'x,y,class'"
                f" or 'lon,lat,class', got {first[:80]!r}"
            )
        points = _csv_points(path, rows, columns, place, system == "pixel")
    except csv.Error as error:
        raise SceneError(f"{path}, line {rows.line_num}: not a CSV ({reason(error)})") from error
    if system == "pixel":
        xy = points.xy + 0.5  # indices name pixel centers
    else:
        xy = _to_pixels(path, points.xy, _WGS84 if system == "wgs84" else grid.crs, grid)
    return [Points("line", points.numbers, points.annotations, xy)] if points.annotations else []


def _csv_points(
    path: Path, rows: Any, columns: Sequence[str], place: tuple[str, str], whole: bool
) -> Points:
    """Return the points of a CSV in its own coordinates; one pass over its lines."""
    at = {name: k for k, name in enumerate(columns)}
    across, down = at[place[0]], at[place[1]]
    fields = [name for name in (*_CLASS_FIELDS, "color") if name in at]
    cells = [at[name] for name in fields]
    numbers, xy, annotations = array("q"), array("d"), []

    @cache  # a file has few classes and many lines
    def annotation_of(*values: str) -> Annotation | None:
        return _annotation(dict(zip(fields, values, strict=True)))

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
        annotation = annotation_of(*texts)
        if annotation is None:
            raise _no_class(path, f"line {rows.line_num}")
        numbers.append(rows.line_num)
        annotations.append(annotation)
        xy.extend((x, y))
    return Points("line", numbers, annotations, np.array(xy).reshape(-1, 2))


def read_geojson_marks(path: Path, grid: Grid, budget: int) -> list[Mark]:
    """Read the points and polygons of a GeoJSON file; WGS 84 unless it has a ``crs`` member."""
    try:
        document = json.loads(_read_text(path, budget, each=b"["))
    except (ValueError, RecursionError) as error:
        raise SceneError(f"{path}: not a JSON file ({reason(error)}); save it again") from error
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
    shapes: list[tuple[int, Annotation, dict[str, Any]]] = []
    for number, feature in enumerate(features if isinstance(features, list) else [], start=1):
        where = f"feature {number}"
        shape = feature.get("geometry") if isinstance(feature, dict) else None
        properties = feature.get("properties") if isinstance(feature, dict) else None
        annotation = _annotation(properties if isinstance(properties, dict) else {})
        try:
            geometries = list(_geometries(path, where, shape))
        except RecursionError as error:
            raise SceneError(f"{path}, {where}: geometries nested too deeply; flatten") from error
        if annotation is None:
            raise _no_class(path, where)
        shapes += [(number, annotation, geometry) for geometry in geometries]
    # All corners of all geometries are moved in one call: one each would take minutes.
    corners = np.array([xy for _, _, geometry in shapes for xy in _flat(geometry["coordinates"])])
    moved = _to_pixels(path, corners.reshape(-1, 2), _geojson_crs(path, document), grid)
    return _in_runs(shapes, iter(map(tuple, moved.tolist())))


def _in_runs(
    shapes: Sequence[tuple[int, Annotation, dict[str, Any]]], moved: Iterator[tuple[float, float]]
) -> list[Mark]:
    """Return marks at their moved corners, points that follow each other in one run."""
    marks: list[Mark] = []
    for is_point, run in groupby(shapes, key=lambda item: item[2]["type"] == "Point"):
        items = list(run)
        if is_point:
            xy = np.array([next(moved) for _ in items])
            marks.append(Points("feature", [n for n, _, _ in items], [k for _, k, _ in items], xy))
        else:
            marks += [
                Polygon(
                    n,
                    annotation,
                    geometry | {"coordinates": _refill(geometry["coordinates"], moved)},
                )
                for n, annotation, geometry in items
            ]
    return marks


def _annotation(record: Mapping[str, Any]) -> Annotation | None:
    """Return the annotation of a CSV line or a feature's properties; None if they name no class."""
    lower = {str(k).strip().lower(): v for k, v in record.items() if v not in (None, "")}
    field = next((f for f in _CLASS_FIELDS if f in lower), None)
    if field is None:
        return None
    label = _label(lower[field])
    # Beside a number, a name says what the number means.
    name = str(lower.get("name", "")).strip() if field != "name" and label.isdecimal() else ""
    color = str(lower.get("color", "")).strip()
    hex_color = len(color) == 7 and color[0] == "#" and all(c in _HEX for c in color[1:])
    return Annotation(label, name, color if hex_color else "")


def _no_class(path: Path, where: str) -> SceneError:
    return SceneError(
        f"{path}, {where}: no class, wanted a value for one of {', '.join(_CLASS_FIELDS)}"
    )


def _label(value: Any) -> str:
    """Return a class as text; 3, 3.0, "3" and "03" are one class."""
    text = str(value).strip()
    number = float(text) if is_number(text) else -1.0
    return str(int(number)) if 0 <= number < 2**31 and number.is_integer() else text


def _placed(columns: Sequence[str]) -> tuple[str, tuple[str, str]]:
    """Return what the columns that place a label are, "" if there are none, and their names."""
    for system, *ways in _PLACES:
        names = [next((name for name in way if name in columns), "") for way in ways]
        if all(names):
            return system, (names[0], names[1])
    return "", ("", "")


def _geometries(path: Path, where: str, geometry: Any) -> Iterator[dict[str, Any]]:
    """Yield the single points and polygons of a geometry, checked."""
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for inner in geometry["geometries"]:
            yield from _geometries(path, where, inner)
        return
    if kind not in ("Point", "MultiPoint", "Polygon", "MultiPolygon"):
        raise SceneError(
            f"{path}, {where}: wanted points or polygons, got {kind or 'no geometry'}; buffer "
            f"lines to polygons"
        )
    depth = {"Point": 0, "MultiPoint": 1, "Polygon": 2, "MultiPolygon": 3}[kind]
    try:
        coordinates = _plain(geometry.get("coordinates"), depth)
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise SceneError(f"{path}, {where}: damaged coordinates of its {kind}") from error
    single = kind.removeprefix("Multi")
    for each in coordinates if kind.startswith("Multi") else [coordinates]:
        yield {"type": single, "coordinates": each}


def _plain(coordinates: Any, depth: int) -> Any:
    """Return nested coordinates as lists of (x, y), heights dropped; raise if they are not that."""
    if depth == 0:
        x, y = float(coordinates[0]), float(coordinates[1])
        if not (math.isfinite(x) and math.isfinite(y)):
            raise ValueError("not finite")
        return (x, y)
    nested = [_plain(inner, depth - 1) for inner in coordinates]
    if depth == 2 and not all(len(ring) >= 4 for ring in nested or [[]]):
        raise ValueError("a ring needs four points, the last one equal to the first")
    return nested


def _geojson_crs(path: Path, document: Mapping[str, Any]) -> CRS:
    """Return the reference system: RFC 7946 says WGS 84; older files have a ``crs`` member."""
    member = document.get("crs")
    if member is None:
        return _WGS84
    properties = member.get("properties") if isinstance(member, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return parse_crs(path, name) or _WGS84


def _to_pixels(path: Path, points: Array, crs: CRS | None, grid: Grid) -> Array:
    """Return map points in ``crs`` as (column, row) of the grid, infinite where there is none."""
    inverse = ~(grid.transform or Affine.identity())  # without georeference, x and y are pixels
    if crs is not None and grid.transform is not None and crs != grid.crs:
        if grid.crs is None:
            raise SceneMismatch(
                f"{path}: labels are in {crs}, but the scene does not say its reference system; "
                f"write it into the scene, or give labels as a CSV of row,col,class"
            )
        points = _reproject(points, crs, grid.crs)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN lie outside the scene
        return np.stack(move(inverse, points[:, 0], points[:, 1]), axis=1)


def _reproject(points: Array, source: CRS, target: CRS) -> Array:
    """Return points in another reference system, infinite from the first that has no place there.

    That point is refused when it is drawn; here it is only located, by bisection.
    """
    try:
        xs, ys = transform_points(source, target, points[:, 0], points[:, 1])
    except Exception:  # GDAL's errors have no public base
        half = len(points) // 2
        if not half:
            return np.full((1, 2), np.inf)
        first = _reproject(points[:half], source, target)
        lost = not np.isfinite(first[-1]).all()
        rest = points[half:]
        last = np.full_like(rest, np.inf) if lost else _reproject(rest, source, target)
        return np.concatenate([first, last])
    return np.stack([xs, ys], axis=1)


def _flat(coordinates: Any) -> Iterator[tuple[float, float]]:
    """Yield the points of nested coordinates in their order."""
    if isinstance(coordinates, tuple):
        yield coordinates
    else:
        for inner in coordinates:
            yield from _flat(inner)


def _refill(coordinates: Any, points: Iterator[tuple[float, float]]) -> Any:
    """Return coordinates nested as given, with their points replaced in order."""
    if isinstance(coordinates, tuple):
        return next(points)
    return [_refill(inner, points) for inner in coordinates]


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
