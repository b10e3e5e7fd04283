"""Labels, map and model as files to download."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr
from rasterio.crs import CRS
from rasterio.warp import transform as transform_points

from polyad.app.session import Snapshot
from polyad.errors import SceneMismatch
from polyad.scene.files.paths import LABELS
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.mapping import map_file
from polyad.scene.raster.grid import grid_of, move
from polyad.scene.write.writers import write_map


def labels_csv(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as ``row,col,class,name,color``, rows and columns counted from 0."""
    del scene
    table = {c.value: c for c in snapshot.classes}
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "col", "class", "name", "color"])
    for (row, col), value in sorted(snapshot.labels.items()):
        writer.writerow([row, col, value, table[value].name, table[value].color])
    return out.getvalue().encode()


def labels_geojson(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as GeoJSON points: pixel centers in longitude and latitude."""
    grid = grid_of(scene)
    if grid.transform is None or grid.crs is None:
        raise SceneMismatch(
            "GeoJSON lies on the map, but this scene has no georeference; save the labels as CSV"
        )
    pixels = sorted(snapshot.labels)
    points = [move(grid.transform, col + 0.5, row + 0.5) for row, col in pixels]
    if points and grid.crs != CRS.from_epsg(4326):
        xs, ys = transform_points(grid.crs, CRS.from_epsg(4326), *zip(*points, strict=True))
        points = list(zip(xs, ys, strict=True))
    table = {c.value: c for c in snapshot.classes}
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [round(x, 9), round(y, 9)]},
            "properties": {
                "class": snapshot.labels[pixel],
                "name": table[snapshot.labels[pixel]].name,
                "color": table[snapshot.labels[pixel]].color,
            },
        }
        for pixel, (x, y) in zip(pixels, points, strict=True)
    ]
    document = {"type": "FeatureCollection", "features": features}
    return json.dumps(document, ensure_ascii=False).encode()


def labels_tif(snapshot: Snapshot, scene: xr.DataArray) -> bytes:
    """Return labels as a GeoTIFF of class ids with the scene's georeference and a palette."""
    raster = snapshot.raster(scene).assign_attrs(quantity=LABELS)
    return _file_content("labels.tif", lambda path: write_map(path, raster))


def map_tif(model: SceneModel, scene: xr.DataArray) -> bytes:
    """Return the map of ``model`` as a GeoTIFF."""
    return _file_content("map.tif", lambda path: map_file(model, scene, path))


def model_file(model: SceneModel) -> bytes:
    """Return the model as a ``.polyad`` file."""
    return _file_content("model.polyad", model.save)


LABEL_FILES: dict[str, tuple[str, Callable[[Snapshot, xr.DataArray], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", labels_csv),
    "geojson": ("application/geo+json", labels_geojson),
    "tif": ("image/tiff", labels_tif),
}


def _file_content(name: str, write: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()
