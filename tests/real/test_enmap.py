"""An EnMAP L2A scene as GeoTIFF: six bands hold nothing, most of the raster has no data."""

import json

import numpy as np
import pytest
import rasterio

from polyad.cli import main

SIX = "6 of 224: 130-135 (1331-1391 nm) flagged as bad"


def run(capsys, *arguments):
    """Run a command with --json and return what it prints."""
    with pytest.raises(SystemExit) as stop:
        main([*map(str, arguments), "--json"])
    assert stop.value.code == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_info_names_the_six_bands_without_data(potsdam, capsys):
    facts = run(capsys, "info", potsdam / "potsdam_train.tif")
    assert (facts["bands"], facts["bands_left_out"]) == (218, SIX)


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_scene_and_label_raster_are_enough_for_a_map(potsdam, capsys, tmp_path, preset):
    scene, labels = potsdam / "potsdam_train.tif", potsdam / "potsdam_train_labels.tif"
    model, out = tmp_path / "model.polyad", tmp_path / "map.tif"
    learn = ("--samples-per-class", 10, "--preset", preset, "--out", model)
    trained = run(capsys, "train", scene, labels, *learn)
    assert (trained["n_train"], trained["bands"], trained["bands_left_out"]) == (60, 218, SIX)
    run(capsys, "map", model, scene, "--out", out)
    scores = run(capsys, "evaluate", model, scene, labels)
    assert scores["n_test"] == 3746
    with rasterio.open(out) as made, rasterio.open(scene) as product:
        outside = product.read(1) == product.nodata
        class_ids = made.read(1)
    assert (class_ids == 0)[outside].all()
    assert (class_ids > 0)[~outside].mean() > 0.99
    assert np.unique(class_ids).tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.filterwarnings("default:.*45 of 120 labels lie outside the scene")
def test_points_of_a_geopackage_are_enough_for_a_map(potsdam, capsys, tmp_path):
    pytest.importorskip("pyogrio")
    scene, points = potsdam / "potsdam_train.tif", potsdam / "landcover_potsdam_point.gpkg"
    model, out = tmp_path / "model.polyad", tmp_path / "map.tif"
    trained = run(capsys, "train", scene, points, "--field", "level_2", "--out", model)
    assert (trained["n_train"], trained["labels_without_data"]) == (37, 38)
    assert trained["classes"] == ["impervious", "low vegetation", "soil", "tree", "water"]
    assert trained["bands_left_out"] == SIX
    run(capsys, "map", model, scene, "--out", out)
    assert (tmp_path / "map.qml").exists()


def test_field_of_a_geopackage_is_asked_for_with_the_choice(potsdam, capsys):
    pytest.importorskip("pyogrio")
    files = [str(potsdam / name) for name in ("potsdam_train.tif", "landcover_potsdam_point.gpkg")]
    with pytest.raises(SystemExit):
        main(["train", *files])
    assert "level_1 (4 values), level_2 (5 values)" in capsys.readouterr().err
