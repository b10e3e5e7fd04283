"""What a file calls its reference system is looked at before any library is given it."""

import json
import os
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.crs import CRS

from polyad.errors import SceneError
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene, scene_from_array

FILE = Path("scene.nc")
UTM = CRS.from_epsg(32633)
GRID = 'EXTENSION["PROJ4","+proj=longlat +nadgrids={}"]'
HOSTILE = [
    "http://127.0.0.1:9/crs",
    "https://example.invalid/crs",
    "/vsicurl/http://127.0.0.1:9/crs",
    "/etc/hosts",
    "file:///etc/hosts",
    "+init=/etc/passwd:x",
    "+proj=longlat +nadgrids=/etc/passwd",
    "EPSG:../../etc/passwd",
    f'GEOGCS["x",{GRID.format("/etc/passwd")}]',
    UTM.to_wkt()[:-1] + "," + GRID.format("@null,/etc/passwd") + "]",
    'GEOGCS["x",EXTENSION["PROJ4_GRIDS","/etc/passwd"]]',
    'BOUNDCRS[ABRIDGEDTRANSFORMATION["x",PARAMETERFILE["a","/etc/passwd"]]]',
    '{"type":"BoundCRS","transformation":{"parameters":[{"name":"a","value":"/etc/passwd"}]}}',
    '{"type":"GeographicCRS"' + "{" * 5000,
    "GEOGCS[" * 5000,
    "EPSG:4326" + "0" * 200_000,
]


@pytest.mark.parametrize(
    "stated",
    [
        "EPSG:32633", "epsg:32633", "EPSG::32633", "32633", 32633,
        "urn:ogc:def:crs:EPSG::32633", "urn:ogc:def:crs:EPSG:9.8:32633",
        UTM.to_wkt(), UTM.to_wkt(version="WKT2_2019"), UTM.to_wkt(version="WKT1_ESRI"),
    ],
    ids=lambda stated: str(stated)[:30],
)  # fmt: skip
def test_codes_and_well_known_text_are_taken(stated):
    assert parse_crs(FILE, stated) == UTM


def test_the_web_mercator_of_gdal_is_taken_though_it_names_a_grid_that_is_none():
    wkt = CRS.from_epsg(3857).to_wkt(version="WKT1_GDAL")
    assert "nadgrids=@null" in wkt
    assert parse_crs(FILE, wkt) == CRS.from_epsg(3857)


def test_no_statement_is_no_reference_system():
    assert parse_crs(FILE, " ") is None


@pytest.mark.parametrize("stated", HOSTILE, ids=lambda stated: stated[:30])
def test_anything_else_is_refused_in_one_sentence(stated):
    with pytest.raises(SceneError, match=r"^scene\.nc: the reference system ") as told:
        parse_crs(FILE, stated)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400


@given(st.text(max_size=60))
@settings(deadline=None)
def test_no_text_ends_in_another_error(stated):
    with suppress(SceneError):
        parse_crs(FILE, stated)


def netcdf(path, stated):
    with h5py.File(path, "w") as file:
        file["cube"] = np.ones((4, 5, 3))
        file["cube"].attrs["grid_mapping"] = "spatial_ref"
        file.create_dataset("spatial_ref", data=0).attrs["crs_wkt"] = stated
    return path


def geojson(path, stated):
    point = {"type": "Point", "coordinates": [10.5, 49.5]}
    feature = {"type": "Feature", "geometry": point, "properties": {"class": "Corn"}}
    crs = {"type": "name", "properties": {"name": stated}}
    document = {"type": "FeatureCollection", "crs": crs, "features": [feature]}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.unix
@pytest.mark.parametrize("stated", ["/etc/hosts", "http://127.0.0.1:9/crs", "{fifo}"])
def test_a_hostile_reference_system_in_a_file_opens_neither_files_nor_sockets(stated, tmp_path):
    os.mkfifo(tmp_path / "fifo")  # opening it would hang for good
    stated = stated.replace("{fifo}", str(tmp_path / "fifo"))
    with pytest.raises(SceneError, match="reference system"):
        open_scene(netcdf(tmp_path / "scene.nc", stated))
    place = Affine(1.0, 0.0, 8.0, 0.0, -1.0, 51.0)
    scene = scene_from_array(np.ones((4, 5, 3)), crs="EPSG:4326", transform=place)
    with pytest.raises(SceneError, match="reference system"):
        open_labels(geojson(tmp_path / "labels.geojson", stated), scene)
