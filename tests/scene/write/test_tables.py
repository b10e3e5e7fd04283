"""Tables and points with fields of any name and value: written, or refused in a sentence."""

import csv
import io
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import xarray as xr
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from rasterio.crs import CRS

from polyad.app.labels import Snapshot, labels_csv
from polyad.errors import OutputError
from polyad.scene.assess.areas import estimate_areas
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.raster.grid import Grid
from polyad.scene.read.labels import open_labels
from polyad.scene.read.samples import SamplePoints, open_sample
from polyad.scene.read.scenes import scene_from_array
from polyad.scene.write.tables import write_areas, write_points, write_scores
from polyad.text import csv_text, from_csv_cell

GRID = Grid((6, 5), CRS.from_epsg(32633), Affine(10, 0, 500000, 0, -10, 5200000))
PIXELS = np.array([[0, 1], [2, 3]])
FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+cmd", "@SUM(A1)", "'=1+1", "a=b"]
SCORES = {
    "overall_accuracy": 0.875,
    "kappa": None,
    "classes": [
        {"name": name, "precision": -1.0, "recall": None, "f1": 0.5, "support": 8}
        for name in ("Corn, no till", *FORMULAS)
    ],
    "confusion_matrix": [[1, 0], [0, 1]],
}


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_no_formula(path):
    """Check that no cell of a table but a number begins as a formula does."""
    with path.open(newline="", encoding="utf-8") as file:
        for cell in (cell for row in csv.reader(file) for cell in row):
            if cell[:1] in "=+-@\t\r" and cell:
                float(cell)


def test_scores_come_back_from_json_and_csv(tmp_path):
    write_scores(tmp_path / "scores.json", SCORES)
    assert json.loads((tmp_path / "scores.json").read_text()) == SCORES
    write_scores(tmp_path / "scores.csv", SCORES)
    rows = rows_of(tmp_path / "scores.csv")
    assert {"measure": "overall_accuracy", "class": "", "value": "0.875"} in rows
    assert {"measure": "support", "class": "Corn, no till", "value": "8"} in rows
    with pytest.raises(OutputError, match=r"\.json, \.csv"):
        write_scores(tmp_path / "scores.xml", SCORES)


# -- text that a spreadsheet would run ------------------------------------------------------------


def test_no_table_brings_a_formula_into_a_spreadsheet(tmp_path):
    classes = [ClassInfo(k, name, "") for k, name in enumerate(FORMULAS, start=1)]
    ids = np.repeat(np.arange(1, 7), 10)[None].repeat(4, axis=0)
    land = with_classes(xr.DataArray(ids, dims=("y", "x")), classes)
    pixels = np.array([[row, 10 * k + row] for k in range(6) for row in range(3)])
    estimates = estimate_areas(land, SamplePoints(pixels, np.repeat(np.arange(1, 7), 3)))
    write_areas(tmp_path / "areas.csv", estimates.to_dict())
    write_scores(tmp_path / "scores.csv", SCORES)
    names = {name: [name] * 2 for name in FORMULAS}
    write_points(tmp_path / "points.csv", GRID, PIXELS, {"id": [-1, 2], **names})
    for name in ("areas", "scores", "points"):
        check_no_formula(tmp_path / f"{name}.csv")
    assert open_sample(tmp_path / "points.csv", GRID).fields == {"id": ["-1", "2"], **names}


def test_labels_of_classes_named_like_formulas_come_back_from_the_page(tmp_path):
    scene = scene_from_array(np.zeros((4, 6, 3)))
    classes = tuple(ClassInfo(k, name, "") for k, name in enumerate(FORMULAS, start=1))
    labels = {(1, k): k + 1 for k in range(6)}
    path = tmp_path / "labels.csv"
    path.write_bytes(labels_csv(Snapshot(1, labels, classes), scene))
    check_no_formula(path)
    found = open_labels(path, scene, field="name")
    assert {c.name for c in class_table(found)} == set(FORMULAS)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_every_text_comes_back_from_its_cell(text):
    ((cell, number),) = csv.reader(io.StringIO(csv_text([[text, -1]]), newline=""))
    assert from_csv_cell(cell) == text
    assert number == "-1"


@pytest.mark.parametrize("values", [["a", "b"], [1.5, 2.5], [7, 7], [-1, None]])
@pytest.mark.parametrize("name", ["fid", "FID", "geom", "geometry"])
def test_a_geopackage_keeps_fields_called_as_its_own_columns(tmp_path, name, values):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {name: values, "fid_": ["u", "v"]})
    found = open_sample(tmp_path / "p.gpkg", GRID)
    np.testing.assert_array_equal(found.pixels, PIXELS)
    assert found.fields[name] == values
    assert found.fields["fid_"] == ["u", "v"]


def test_a_geopackage_has_its_usual_columns_and_a_version_that_old_gdal_reads(tmp_path):
    pytest.importorskip("pyogrio")
    write_points(tmp_path / "p.gpkg", GRID, PIXELS, {"id": [1, 2]})
    with closing(sqlite3.connect(tmp_path / "p.gpkg")) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(sample)")]
        ((number,),) = database.execute("PRAGMA application_id")
        ((version,),) = database.execute("PRAGMA user_version")
    assert names == ["fid", "geom", "id", "row", "col"]
    assert number.to_bytes(4, "big") == b"GPKG"
    assert version == 10200  # GDAL 3.0 knows up to 1.2, without a warning


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
        ("gpkg", {"a": ["x", "v\0"]}, "expected text in Unicode, got a NUL"),
        ("gpkg", {"Row": [1, 2]}, "has the name of what places a point"),
        ("geojson", {"row": [1, 2]}, "has the name of what places a point"),
        ("geojson", {"a": [1.0, float("nan")]}, "its fields are refused .*not JSON compliant"),
        ("csv", {"id": [1, 2], "Y": [1, 2]}, "has the name of what places a point"),
        ("csv", {"a": ["x", "\udc80"]}, "its fields are refused .*surrogates not allowed"),
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
