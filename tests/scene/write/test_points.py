"""Points with fields of any name and value: written, or refused in a sentence."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from affine import Affine
from rasterio.crs import CRS

from polyad.errors import OutputError
from polyad.scene.raster.grid import Grid
from polyad.scene.read.samples import open_sample
from polyad.scene.write.tables import write_points

GRID = Grid((6, 5), CRS.from_epsg(32633), Affine(10, 0, 500000, 0, -10, 5200000))
PIXELS = np.array([[0, 1], [2, 3]])


@pytest.mark.parametrize("values", [["a", "b"], [1.5, 2.5], [7, 7], [-1, None]])
@pytest.mark.parametrize("name", ["fid", "FID", "geom", "geometry"])
def test_a_geopackage_keeps_fields_called_as_its_own_columns(tmp_path, name, values):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {name: values, "fid_": ["u", "v"]})
    found = open_sample(tmp_path / "p.gpkg", GRID)
    np.testing.assert_array_equal(found.pixels, PIXELS)
    assert found.fields[name] == values
    assert found.fields["fid_"] == ["u", "v"]


def test_columns_of_a_geopackage_have_their_usual_names(tmp_path):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {"id": [1, 2]})
    with closing(sqlite3.connect(tmp_path / "p.gpkg")) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(sample)")]
    assert names == ["fid", "geom", "id", "row", "col"]


def test_a_geopackage_has_a_version_that_old_gdal_reads_without_a_warning(tmp_path):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {"id": [1, 2]})
    with closing(sqlite3.connect(tmp_path / "p.gpkg")) as database:
        ((number,),) = database.execute("PRAGMA application_id")
        ((version,),) = database.execute("PRAGMA user_version")
    assert number.to_bytes(4, "big") == b"GPKG"
    assert version == 10200  # GDAL 3.0 knows up to 1.2


@pytest.mark.parametrize("values", [[2**70, 1], [10**400, 1.5], [-(2**63) - 1, None]])
def test_numbers_too_long_for_a_geopackage_are_kept_as_text(tmp_path, values):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {"a": values})
    told = [None if value is None else str(value) for value in values]
    assert open_sample(tmp_path / "p.gpkg", GRID).fields["a"] == told


@pytest.mark.parametrize(
    ("ending", "fields", "words"),
    [
        ("gpkg", {"Name": [1, 2], "name": [1, 2]}, "'name' has the name of the field 'Name'"),
        ("gpkg", {"a\0b": [1, 2]}, "names of fields in Unicode"),
        ("gpkg", {"a": ["x", "v\0"]}, "in the field 'a' of point 2"),
        ("gpkg", {"Row": [1, 2]}, "has the name of what places a point"),
        ("geojson", {"row": [1, 2]}, "has the name of what places a point"),
        ("geojson", {"a": [1.0, float("nan")]}, "expected finite numbers"),
        ("csv", {"id": [1, 2], "Y": [1, 2]}, "has the name of what places a point"),
        ("csv", {"a": ["x", "\udc80"]}, "expected text in Unicode"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_the_file_left(tmp_path, ending, fields, words):
    path = tmp_path / f"p.{ending}"
    path.write_bytes(b"before")
    if ending == "gpkg":
        pytest.importorskip("pyogrio")
    with pytest.raises(OutputError, match=words) as caught:
        write_points(path, GRID, PIXELS, fields)
    assert "\n" not in str(caught.value)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [(path.name, b"before")]
