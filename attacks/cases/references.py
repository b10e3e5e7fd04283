"""Reference systems that would be fetched or opened if a parser took them as it takes anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import rasterio

from attacks.cases import BUDGET, SECRET, case

TEXTS = {
    "address": "http://127.0.0.1:9/x",
    "remote": "/vsicurl/http://127.0.0.1:9/x",
    "path": f"../{SECRET}",
    "init": f"+init=../{SECRET}:x",
    "grid": f"+proj=longlat +nadgrids=../{SECRET} +type=crs",
    "pipe": "pipe",
    "init-key": f'{{"type":"GeographicCRS","init":"../{SECRET}:x"}}',
    "grids-key": f'{{"type":"GeographicCRS","proj":"longlat","nadgrids":"../{SECRET}"}}',
    "escaped": '{"type":"ProjectedCRS","name":"x","conversion":{"name":"c","method":{"name":'
    f'"PROJ-based operation method: +proj=tinshift +f\\u0069le=../{SECRET}"}},"parameters":[]}}}}',
    "method": 'PROJCRS["x",CONVERSION["c",METHOD["PROJ-based operation method: proj=defmodel '
    f'model=../{SECRET}"]]]',
    "extension": 'GEOGCS["y",DATUM["d",SPHEROID["s",6378137,298]],UNIT["degree",0.0174],'
    f'EXTENSION["PROJ4","proj=longlat init=../{SECRET}:x"]]',
    "damaged": 'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",-6378137,298.3]]',
    "unknown": "EPSG:999999",
}


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")  # to open it is to wait for good


def _netcdf(kind: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _pipe(folder)
        with h5py.File(folder / "scene.nc", "w") as file:
            cube = file.create_dataset("cube", data=np.zeros((4, 5, 3), np.float32))
            cube.attrs["grid_mapping"] = "crs"
            file.create_dataset("crs", data=0).attrs["crs_wkt"] = TEXTS[kind]
        return ["info", "scene.nc", "--max-bytes", str(BUDGET)]

    make.__name__ = f"crs_wkt_{kind}"
    make.__doc__ = f"NetCDF whose crs_wkt is {TEXTS[kind]!r}."
    return make


def _geojson(kind: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _pipe(folder)
        place = rasterio.Affine(0.1, 0, 10, 0, -0.1, 40)
        raster = {"driver": "GTiff", "height": 8, "width": 8, "count": 1, "dtype": "uint8"}
        with rasterio.open(
            folder / "scene.tif", "w", crs="EPSG:4326", transform=place, **raster
        ) as file:
            file.write(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))
        crs = {"type": "name", "properties": {"name": TEXTS[kind]}}
        point = {"type": "Point", "coordinates": [1, 1]}
        feature = {"type": "Feature", "properties": {"class": 1}, "geometry": point}
        text = json.dumps({"type": "FeatureCollection", "crs": crs, "features": [feature]})
        (folder / "labels.geojson").write_text(text)
        return ["train", "scene.tif", "labels.geojson", "--max-bytes", str(BUDGET)]

    make.__name__ = f"geojson_crs_{kind}"
    make.__doc__ = f"GeoJSON whose crs is {TEXTS[kind]!r}."
    return make


for _kind in TEXTS:
    case(1, says="the reference system")(_netcdf(_kind))
    case(1, says="the reference system")(_geojson(_kind))
