"""Scores, areas and points to files; the ending chooses the format."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.warp import transform as transform_points

from polyad.atomic import replacing
from polyad.errors import OutputError, told_as
from polyad.scene.files.paths import check_ending
from polyad.scene.raster.grid import Grid, move
from polyad.text import csv_text

AnyPath = str | os.PathLike[str]
Rows = Iterator[Sequence[object]]
_TOTALS = ("overall_accuracy", "overall_accuracy_se", "overall_accuracy_ci95")


def write_areas(path: AnyPath, estimates: Mapping[str, Any]) -> None:
    """Write areas as a table (``.csv``) or with all that belongs to them (``.json``).

    The last line of the table, ``total``, has the region's area, and the overall accuracy in
    columns of its own.

    Parameters
    ----------
    path : path-like
    estimates : mapping
        As `polyad.scene.AreaEstimates.to_dict` gives them.
    """
    _write(path, "table of areas", estimates, _area_rows)


def write_scores(path: AnyPath, scores: Mapping[str, Any]) -> None:
    """Write scores as JSON (``.json``) or as a table ``measure, class, value`` (``.csv``).

    Parameters
    ----------
    path : path-like
        The file to write.
    scores : mapping
        Numbers, strings, lists and mappings, as `polyad.scene.Scores.to_dict` gives them.
    """
    _write(path, "file of scores", scores, _score_rows)


def _write(
    path: AnyPath, what: str, content: Mapping[str, Any], rows: Callable[[Mapping[str, Any]], Rows]
) -> None:
    """Write everything as JSON, or ``rows`` as CSV."""
    if check_ending(path, what) == ".json":
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        text += "\n"
    else:
        text = csv_text(rows(content))
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _area_rows(estimates: Mapping[str, Any]) -> Rows:
    points, total = estimates["n_points"], {key: estimates[key] for key in _TOTALS}
    total |= {"name": "total", "points_mapped": points, "points_reference": points}
    total |= {"area_ha": estimates["total_ha"], "area_pixels": estimates["total_pixels"]}
    rows = [_flat(row) for row in (*estimates["classes"], total)]
    names = [name for name in dict.fromkeys(n for row in rows for n in row) if name != "color"]
    yield ["class" if name == "name" else name for name in names]
    yield from ([row.get(name) for name in names] for row in rows)


def _flat(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a row with the ends of each interval under names of their own."""
    flat: dict[str, object] = {}
    for key, value in row.items():
        if "ci95" in key:
            pattern = key.replace("ci95", "ci95_{}") if key.startswith("ci95") else key[:-4] + "{}"
            ends = value or (None, None)
            flat |= {pattern.format(end): v for end, v in zip(("low", "high"), ends, strict=True)}
        else:
            flat[key] = value
    return flat


def _score_rows(scores: Mapping[str, Any]) -> Rows:
    yield "measure", "class", "value"
    yield from ((name, "", v) for name, v in scores.items() if not isinstance(v, dict | list))
    for row in scores.get("classes", []):
        for measure in ("precision", "recall", "f1", "support"):
            yield measure, row["name"], row[measure]
    for row in scores.get("targets", []):
        for measure, value in row.items():
            if isinstance(value, list):
                yield f"{measure}_low", row["target"], value[0]
                yield f"{measure}_high", row["target"], value[1]
            elif measure != "target":
                yield measure, row["target"], value
    for row in scores.get("sets", []):
        for measure in ("coverage", "mean_set_size"):
            yield measure, row["name"], row[measure]
    for row in scores.get("left_out", []):
        yield "left_out", row["name"], row["pixels"]


# --- points --------------------------------------------------------------------------------------

Fields = Mapping[str, Sequence[Any]]
_WGS84 = CRS.from_epsg(4326)
_OWN = {".csv": ("x", "y", "row", "col"), ".geojson": ("row", "col"), ".gpkg": ("row", "col")}


def write_points(path: AnyPath, grid: Grid, pixels: NDArray[np.intp], fields: Fields) -> None:
    """Write the centers of pixels as points; nothing of an existing file is lost if that fails.

    ======== ==================================================================================
    ending   format
    ======== ==================================================================================
    .gpkg    GeoPackage in the reference system of the grid (with ``polyad[vector]``)
    .geojson longitude and latitude (RFC 7946)
    .csv     columns ``x,y`` in the reference system of the grid, and ``row,col`` from 0
    ======== ==================================================================================

    Parameters
    ----------
    path : path-like
    grid : Grid
    pixels : ndarray of int, shape (n, 2)
        Rows and columns.
    fields : mapping of str to sequence
        Whole numbers, texts, or None for what is to be filled in.

    Raises
    ------
    OutputError
        The format cannot hold a field or a value, or the file cannot be written.
    """
    content = points_content(path, grid, pixels, fields)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def points_content(path: AnyPath, grid: Grid, pixels: NDArray[np.intp], fields: Fields) -> bytes:
    """Return what `write_points` writes, or raise its error without writing anything."""
    ending, path = check_ending(path, "sample"), Path(path)
    _check_names(path, ending, list(fields))
    texts = [*fields, *(value for values in fields.values() for value in values)]
    if ending == ".gpkg" and any("\0" in text for text in texts if isinstance(text, str)):
        raise OutputError(f"cannot write {path}: expected text in Unicode, got a NUL; correct it")
    remedy = "rename or take out the fields of the sample that are unlike the others"
    with told_as(OutputError, f"cannot write {path}: its fields are refused", remedy):
        return _POINT_FORMATS[ending](path, grid, pixels, fields)


def _check_names(path: Path, ending: str, names: Sequence[str]) -> None:
    """Refuse fields of one name, which a GeoPackage tells apart by more than their case."""
    taken = dict.fromkeys(_OWN[ending], "what places a point")
    for name in names:
        key = name.lower() if ending == ".gpkg" or name.lower() in _OWN[ending] else name
        if key in taken:
            raise OutputError(
                f"cannot write {path}: the field {name[:80]!r} has the name of {taken[key]}; "
                "rename it, or choose a name with another ending"
            )
        taken[key] = f"the field {name[:80]!r}"


def centers(grid: Grid, pixels: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the centers of pixels on the map, shape (n, 2); without one, in columns and rows."""
    rows, cols = pixels.T.astype(np.float64) + 0.5
    xy = (cols, rows) if grid.transform is None else move(grid.transform, cols, rows)
    return np.stack(xy, axis=1)


def _csv(path: Path, grid: Grid, pixels: NDArray[np.intp], fields: Fields) -> bytes:
    del path
    (first, values), *others = fields.items()
    places = zip(("x", "y", "row", "col"), (*centers(grid, pixels).T, *pixels.T), strict=True)
    columns = {first: values} | {name: a.tolist() for name, a in places} | dict(others)
    return csv_text([list(columns), *zip(*columns.values(), strict=True)]).encode()


def _geojson(path: Path, grid: Grid, pixels: NDArray[np.intp], fields: Fields) -> bytes:
    if grid.transform is None or grid.crs is None:
        raise _not_on_the_map(path)
    xy = centers(grid, pixels)
    if grid.crs != _WGS84 and len(xy):
        xy = np.stack(transform_points(grid.crs, _WGS84, *xy.T.tolist()), axis=1)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [round(x, 9), round(y, 9)]},
            "properties": dict(zip(fields, values, strict=True)) | {"row": row, "col": col},
        }
        for (x, y), (row, col), *values in zip(
            xy.tolist(), pixels.tolist(), *fields.values(), strict=True
        )
    ]
    document = {"type": "FeatureCollection", "features": features}
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def _geopackage(path: Path, grid: Grid, pixels: NDArray[np.intp], fields: Fields) -> bytes:
    if grid.transform is None:
        raise _not_on_the_map(path)
    if importlib.util.find_spec("pyogrio") is None:
        raise OutputError(
            f"cannot write {path}: a GeoPackage needs pyogrio; install it with: pip install "
            "'polyad[vector]', or choose a name ending in .geojson or .csv"
        )
    from pyogrio.raw import write as write_layer

    shapes = [struct.pack("<BIdd", 1, 1, x, y) for x, y in centers(grid, pixels).tolist()]
    named = {**fields, "row": pixels[:, 0].tolist(), "col": pixels[:, 1].tolist()}
    data = [_column(values) for values in named.values()]
    # Into a folder of its own: the library looks at the ending, and at what lies beside the file
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no reference system
        temporary = Path(folder) / "sample.gpkg"
        write_layer(
            temporary,
            np.array([*shapes, None], dtype=object)[:-1],
            data,
            list(named),
            geometry_type="Point",
            crs=None if grid.crs is None else grid.crs.to_wkt(),
            driver="GPKG",
            layer="sample",
            dataset_options={"VERSION": "1.2"},  # older GDAL warns of newer ones
            layer_options={"FID": _free("fid", named), "GEOMETRY_NAME": _free("geom", named)},
        )
        return temporary.read_bytes()


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a column of the format's own that no field has."""
    lower = {field.lower() for field in taken}
    while name in lower:
        name += "_"
    return name


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Return a field as an array of whole numbers, of numbers, or of texts and None."""
    filled = [v for v in values if v is not None]
    whole = [v for v in filled if isinstance(v, int)]
    long = any(not -(2**63) <= v < 2**63 for v in whole)  # such a number is kept as text
    if filled and len(whole) == len(values) and not long:
        return np.array(values, np.int64)
    if filled and all(isinstance(v, int | float) for v in filled) and not long:
        return np.array([np.nan if v is None else v for v in values], np.float64)
    return np.array([v if v is None else str(v) for v in values], object)


def _not_on_the_map(path: Path) -> OutputError:
    return OutputError(
        f"cannot write {path}: its points lie on the map, and this one has no georeference; choose "
        f"a name ending in .csv, as in --out {path.with_suffix('.csv')}, for rows and columns"
    )


_POINT_FORMATS: dict[str, Callable[[Path, Grid, NDArray[np.intp], Fields], bytes]] = {
    ".gpkg": _geopackage,
    ".geojson": _geojson,
    ".csv": _csv,
}
