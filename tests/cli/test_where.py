"""Vector labels, several files of them, masks and rectangles, as a user types them."""

import json

import numpy as np
import pytest
import rasterio

from attacks.vectors import PLACE, at, box, point, polygon, write
from land import run
from polyad.scene.learn.model import SceneModel
from polyad.scene.read.masks import open_mask
from polyad.scene.read.scenes import open_scene

pytest.importorskip("pyogrio", reason="vector files are read with polyad[vector]")

SIDE, BANDS = 30, 6
QUICK = ("--epochs", "20", "--hidden", "8", "--window", "3")
WEST = [*at(0, SIDE), *at(SIDE // 2, 0)]  # left, bottom, right, top


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a scene of two fields, north and south, and its labels in a GeoPackage."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    north = (np.arange(SIDE) < SIDE // 2)[:, None, None]
    values = rng.normal(100, 5, (SIDE, SIDE, BANDS)) + 60 * north * np.arange(BANDS) / BANDS
    shape = {"height": SIDE, "width": SIDE, "count": BANDS, "dtype": "float32"}
    with rasterio.open(
        "scene.tif", "w", "GTiff", crs="EPSG:32633", transform=PLACE, **shape
    ) as file:
        file.write(np.moveaxis(values.astype(np.float32), -1, 0))
    spots = [(c + 0.5, r + 0.5) for r in range(2, SIDE, 4) for c in range(2, SIDE, 4)]
    classes = ["forest" if row < SIDE / 2 else "meadow" for _, row in spots]
    fields = {
        "level_1": ["green"] * len(spots),
        "level_2": classes,
        "fid_2": list(range(len(spots))),
    }
    fields["plot"] = [k % 5 for k in range(len(spots))]
    write(tmp_path / "labels.gpkg", [point(*at(*spot)) for spot in spots], fields)
    return tmp_path


def test_train_on_a_geopackage_asks_for_the_field_and_takes_it(place, capsys):
    assert run("train", "scene.tif", "labels.gpkg", *QUICK) == 2
    asked = capsys.readouterr().err
    assert "--field" in asked
    assert "level_2 (2 values)" in asked
    assert "plot (5 values)" in asked
    assert not (place / "model.polyad").exists()
    assert run("train", "scene.tif", "labels.gpkg", "--field", "level_2", *QUICK) == 0
    assert [c.name for c in SceneModel.load("model.polyad").classes] == ["forest", "meadow"]
    assert run("map", "model.polyad", "scene.tif") == 0
    with rasterio.open("map.tif") as file:
        assert (file.read(1)[:12] == 1).mean() > 0.9


def test_train_and_evaluate_take_several_files_of_labels(place, capsys):
    for name, row in (("forest", 3), ("meadow", 20)):
        shape = polygon(box(2, row, 12, row + 5))
        write(place / f"{name}.shp", [shape], {"land": [name]}, driver="ESRI Shapefile")
    assert run("train", "scene.tif", "forest.shp", "meadow.shp", *QUICK) == 0
    assert "100 pixels of 2 classes" in capsys.readouterr().out
    truth = ("labels.gpkg", "--layer", "labels", "--field", "level_2")
    assert run("evaluate", "model.polyad", "scene.tif", *truth) == 0
    assert "Classes were matched by id" not in capsys.readouterr().out


def test_all_touched_labels_more_pixels(place, capsys):
    shapes = [polygon(box(2.8, 3.8, 9.2, 8.2)), polygon(box(2.8, 19.8, 9.2, 24.2))]
    write(place / "fields.fgb", shapes, {"land": ["a", "b"]}, driver="FlatGeobuf",
          geometry_type="Polygon")  # fmt: skip
    counts = []
    for extra in ((), ("--all-touched",)):
        assert run("train", "scene.tif", "fields.fgb", "--json", *QUICK, *extra) == 0
        counts.append(json.loads(capsys.readouterr().out)["n_train"])
    assert counts == [2 * 6 * 4, 2 * 8 * 6]


def test_train_map_and_evaluate_inside_a_rectangle(place, capsys):
    box_ = ("--bbox", *WEST)
    assert run("train", "scene.tif", "labels.gpkg", "--field", "level_2", *box_, *QUICK) == 0
    _, cols = SceneModel.load("model.polyad").training.pixels.T
    assert cols.max() < SIDE // 2
    assert run("map", "model.polyad", "scene.tif", *box_) == 0
    with rasterio.open("map.tif") as file:
        ids = file.read(1)
        assert file.transform == PLACE
    assert (ids[:, : SIDE // 2] > 0).all()
    assert not ids[:, SIDE // 2 :].any()
    np.testing.assert_array_equal(open_mask("map.tif", open_scene("scene.tif")).values, ids > 0)
    east = ("--bbox", *at(SIDE // 2, SIDE), *at(SIDE, 0))
    capsys.readouterr()
    truth = ("labels.gpkg", "--field", "level_2")
    report = ("--report", "page.html")
    assert run("evaluate", "model.polyad", "scene.tif", *truth, *east, *report, "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_test"] == 21
    assert "--bbox 365450.0" in (place / "page.html").read_text()


def test_a_map_may_be_the_mask_of_another(place):
    write(place / "area.gpkg", [polygon(box(0, 0, 15, 30))], {"k": [1]})
    labels = ("labels.gpkg", "--field", "level_2")
    assert run("train", "scene.tif", *labels, "--mask", "area.gpkg", *QUICK) == 0
    assert run("map", "model.polyad", "scene.tif", "--mask", "area.gpkg") == 0
    again = ("--mask", "map.tif", "--out-dir", "maps")
    assert run("map", "model.polyad", "scene.tif", *again) == 0
    assert (place / "maps" / "scene.tif").read_bytes() == (place / "map.tif").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mask", "none.gpkg"], "none.gpkg: no such file"),
        (
            ["--bbox", "0", "0", "9", "9"],
            "it reaches from (0, 0) to (9, 9), the scene from (365000",
        ),
        (["--bbox", "9", "0", "0", "9"], "left < right"),
        (["--mask", "labels.gpkg"], "a mask is made of polygons, got none"),
        (["--out", "labels.gpkg", "--mask", "labels.gpkg"], "is the input labels.gpkg"),
        (
            ["--mask", "image.tif"],
            "image.tif: a mask is 0 outside and another value inside, got values from -3 to 9",
        ),
    ],
)
def test_a_bad_place_gets_one_sentence_before_any_work(place, capsys, arguments, words):
    write_raster("image.tif", np.linspace(-3, 9, SIDE * SIDE).reshape(SIDE, SIDE).astype("f4"))
    code = run("train", "scene.tif", "labels.gpkg", "--field", "level_2", *arguments)
    said = capsys.readouterr().err
    assert code == 2
    assert words in said
    assert said.count("\n") == 1


def test_the_labeling_page_takes_the_same_options(place, monkeypatch):
    app = pytest.importorskip("polyad.app")
    given = {}
    monkeypatch.setattr(app, "serve", lambda *a, **k: given.update(k))
    options = ("--layer", "labels", "--field", "level_2", "--nodata", "-1", "--bbox", *WEST)
    assert run("label", "scene.tif", "--labels", "labels.gpkg", "--no-browser", *options) == 0
    assert (given["layer"], given["field"], given["bbox"]) == ("labels", "level_2", tuple(WEST))
    assert given["nodata"] == -1
    workspace = app.launch.LabelWorkspace(
        "scene.tif",
        "labels.gpkg",
        journal=place / "journal.jsonl",
        field="level_2",
        bbox=WEST,
        nodata=-1,
    )
    try:
        assert workspace.scene.rio.nodata == -1
        assert workspace.scene["inside"].sum() == SIDE * SIDE // 2
        raster = workspace.session.snapshot().raster(workspace.scene)
        assert "inside" not in raster.coords
        assert np.count_nonzero(raster.values) == 49
    finally:
        workspace.close()


@pytest.mark.parametrize(
    ("option", "blind"), [((), True), (("--blind",), True), (("--show-map",), False)]
)
def test_a_sample_is_checked_blind_unless_the_map_is_asked_for(place, monkeypatch, option, blind):
    app = pytest.importorskip("polyad.app")
    given = {}
    monkeypatch.setattr(app, "check", lambda *a, **k: given.update(k))
    assert run("label", "scene.tif", "--check", "labels.gpkg", "--no-browser", *option) == 0
    assert given["blind"] is blind


@pytest.mark.parametrize(("value", "dtype"), [(-1, "int16"), (255, "uint8"), (0.5, "float32")])
def test_a_mask_is_outside_where_it_is_0_whatever_the_other_value(place, capsys, value, dtype):
    values = np.zeros((SIDE, SIDE), dtype)
    values[:, : SIDE // 2] = value
    write_raster("mask.tif", values)
    assert run("train", "scene.tif", "labels.gpkg", "--field", "level_2", *QUICK) == 0
    assert run("map", "model.polyad", "scene.tif", "--mask", "mask.tif", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["mapped"] == SIDE * SIDE // 2
    with rasterio.open("map.tif") as file:
        np.testing.assert_array_equal(file.read(1) != 0, values != 0)


def write_raster(path, values):
    shape = {"height": SIDE, "width": SIDE, "count": 1, "dtype": values.dtype}
    with rasterio.open(path, "w", "GTiff", crs="EPSG:32633", transform=PLACE, **shape) as file:
        file.write(values[None])
