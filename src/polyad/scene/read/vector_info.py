"""What a file of points, lines or polygons holds, as `polyad info` shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyad.errors import SceneError
from polyad.scene.read.columns import MOST_CLASSES, Column, choose_field
from polyad.scene.read.formats.ogr import VectorLayer, WhichLayer, read_layer, vector_kind
from polyad.scene.read.label_layers import class_columns
from polyad.scene.read.label_vectors import (
    CLASS_FIELDS,
    feature_annotations,
    label_of,
    place_columns,
    properties_of,
    read_csv_fields,
    read_geojson,
    record_annotation,
)
from polyad.scene.read.rasterize import Annotation

_TEXTS = {
    ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".geojson": "GeoJSON", ".json": "GeoJSON",
}  # fmt: skip
_COORDINATES = {
    "pixel": "rows and columns of a scene",
    "map": "x and y in the reference system of a scene",
    "wgs84": "EPSG:4326",
}
# The first four bytes of a geometry after its byte order, without the flags for Z and M
_GEOMETRIES = (
    "geometry", "point", "line", "polygon", "multipoint", "multiline", "multipolygon", "collection",
)  # fmt: skip


def vector_format(path: Path) -> str | None:
    """Return the format of a vector file, by the ending of a text and the content of others."""
    return _TEXTS.get(path.suffix.lower()) or vector_kind(path)


def describe_vector(path: Path, kind: str, layer: str | None, budget: int) -> dict[str, Any]:
    """Describe a vector file of a format that `vector_format` told: plain values only.

    Of a file with several layers, only their names and features are told unless one is named.
    """
    if kind == "CSV":
        return _describe_csv(path, budget)
    if kind == "GeoJSON":
        return _describe_geojson(path, budget)
    try:
        return _describe_layer(path, kind, read_layer(path, kind, layer, budget))
    except WhichLayer as error:
        if layer is not None or not error.layers:
            raise
        read = (read_layer(path, kind, name, budget) for name in error.layers)
        return {"kind": f"vector ({kind})", "layers": {t.name: len(t.sizes) for t in read}}


def _describe_layer(path: Path, kind: str, table: VectorLayer) -> dict[str, Any]:
    columns = class_columns(kind, table)
    facts: dict[str, Any] = {
        "kind": f"vector ({kind})",
        "layer": table.name,
        "features": len(table.sizes),
        "geometry": _geometries(table),
        "fields": [_field(column) for column in columns],
        "crs": None if table.crs is None else table.crs.to_string(),
    }
    return facts | _classes(path, columns)


def _describe_geojson(path: Path, budget: int) -> dict[str, Any]:
    features, _, crs = read_geojson(path, budget)
    records = [properties_of(feature) for feature in features]
    shapes = [f.get("geometry") if isinstance(f, dict) else None for f in features]
    names = list(dict.fromkeys(str(name) for record in records for name in record))
    facts: dict[str, Any] = {
        "kind": "vector (GeoJSON)",
        "features": len(features),
        "geometry": dict(Counter(str(s["type"]).lower() for s in shapes if s)),
        "fields": names,
        "crs": crs.to_string(),
    }
    try:
        annotations, _ = feature_annotations(path, records, None)
    except SceneError:  # several fields could be meant
        return facts
    return facts | _counts(annotations)


def _describe_csv(path: Path, budget: int) -> dict[str, Any]:
    fields = read_csv_fields(path, budget)
    system, _ = place_columns([name.lower() for name in fields])
    count = len(next(iter(fields.values()), ()))
    if not system:
        return {"kind": "table (CSV) without coordinates", "lines": count, "fields": [*fields]}
    facts: dict[str, Any] = {
        "kind": "points (CSV)",
        "points": count,
        "coordinates": _COORDINATES[system],
        "fields": [*fields],
    }
    named = {name: values for name, values in fields.items() if name.lower() in CLASS_FIELDS}
    rows = zip(*named.values(), strict=True)
    return facts | _counts([record_annotation(dict(zip(named, row, strict=True))) for row in rows])


def _geometries(table: VectorLayer) -> dict[str, int]:
    """Return how many features have which kind of geometry."""
    counts: Counter[str] = Counter()
    start = 0
    for size in table.sizes.tolist():
        head = table.wkb[start : start + 5]
        code = int.from_bytes(head[1:], "little" if head[:1] == b"\1" else "big") % 1000
        known = size and code < len(_GEOMETRIES)
        counts[_GEOMETRIES[code] if known else "other" if size else "none"] += 1
        start += size
    return dict(counts)


def _field(column: Column) -> str:
    count = len(column.values)
    return f"{column.name} ({column.kind}, {count:,} value{'' if count == 1 else 's'})"


def _classes(path: Path, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the field that is taken for the class, and its counts; nothing if it is ambiguous."""
    try:
        column = choose_field(path, columns)
    except SceneError:
        return {}
    labels = [label_of(value) for value in column.values]
    counts = Counter(labels[code] for code in column.codes.tolist() if code >= 0)
    return {"class_field": column.name, "classes": dict(counts)}


def _counts(annotations: Sequence[Annotation | None]) -> dict[str, Any]:
    counts = Counter(a.name or a.label for a in annotations if a is not None)
    plain = len(counts) <= MOST_CLASSES and len(counts) < counts.total()
    return {"classes": dict(counts)} if plain else {}
