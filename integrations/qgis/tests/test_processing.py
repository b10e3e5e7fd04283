"""What an analyst does in QGIS, from labels to areas, through `qgis_process`."""

import csv
import json
import os
import re
import signal
import subprocess

import httpx
import numpy as np
import pytest
import rasterio

from tests.waiting import PATIENCE, wait_until


def classes_in(path):
    """Return the values of the pixels with data."""
    with rasterio.open(path) as raster:
        return set(np.unique(raster.read(1, masked=True).compressed()).tolist())


NAMES = {"label", "train", "train_regression", "map", "evaluate", "sample", "area"}


def test_toolbox_lists_the_algorithms(qgis):
    listed = qgis.process("list").stdout
    assert set(re.findall(r"polyad:(\w+)", listed)) == NAMES


def test_dialogs_have_a_text_and_every_row_of_their_table(qgis):
    for name, about in qgis.script("dialogs").items():
        assert len(about["help"]) > 100, name
        assert about["parameters"] == about["rows"], name


def test_sample_is_checked_in_qgis_and_gives_areas(qgis, campaign, tmp_path):
    points, page, table = tmp_path / "sample.gpkg", tmp_path / "a.html", tmp_path / "areas.csv"
    class_map = {"MAP": campaign / "truth.tif"}  # a map that is right everywhere
    drawn = qgis.run("sample", **class_map, SIZE=60, MINIMUM=5, SEED=1, OUTPUT=points)
    assert drawn == {"OUTPUT": str(points)}
    assert qgis.script("check_sample", points=points) == {"checked": 60, "crs": True}
    given = {"POINTS": points, "REPORT": page, "TABLE": table}
    results = qgis.run("area", **class_map, **given)
    assert results == {"REPORT": str(page), "TABLE": str(table)}
    assert "Error matrix" in page.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {float(row["users_accuracy"]) for row in rows if row["users_accuracy"]} == {1.0}


def test_regression_is_trained_mapped_and_evaluated(qgis, campaign, tmp_path):
    model, out = tmp_path / "cover.polyad", tmp_path / "cover.tif"
    plots = qgis.script("plots", csv=campaign / "plots.csv", out=tmp_path / "plots.gpkg",
                        scene=campaign / "scene.img")["path"]  # fmt: skip
    scene = {"SCENE": campaign / "scene.img"}
    qgis.run("train_regression", **scene, LABELS=plots, FIELD="cover", BOUNDS="0,1", OUTPUT=model)
    assert qgis.run("map", MODEL=model, **scene, OUTPUT=out) == {"OUTPUT": str(out)}
    with rasterio.open(out) as written:
        values = written.read(1, masked=True).compressed()
    assert (values.min() >= 0, values.max() <= 1) == (True, True)
    raster = {"LABEL_RASTER": out}
    results = qgis.run("evaluate", MODEL=model, **scene, **raster)
    assert results["R2"] > 0.99
    assert results["RMSE"] < 0.01


def test_map_of_a_trained_model_lies_on_the_scene(qgis, area, model):
    scene, labels = area
    out = qgis.folder / "map of the area.tif"
    assert qgis.run("map", MODEL=model, SCENE=scene, OUTPUT=out) == {"OUTPUT": str(out)}
    with rasterio.open(out) as written, rasterio.open(scene) as source:
        assert (written.crs, written.shape) == (source.crs, source.shape)
        assert written.transform.almost_equals(source.transform)
    assert classes_in(out) <= classes_in(labels) - {0}


def test_probabilities_come_with_the_map_when_they_are_asked_for(qgis, campaign, tmp_path):
    model, out = tmp_path / "m.polyad", tmp_path / "probabilities.tif"
    scene = {"SCENE": campaign / "scene.img"}
    qgis.run("train", **scene, LABEL_RASTER=campaign / "truth.tif", OUTPUT=model)
    results = qgis.run(
        "map", MODEL=model, **scene, OUTPUT=tmp_path / "map.tif", PROBABILITIES=out
    )  # fmt: skip
    assert results["PROBABILITIES"] == str(out)
    with rasterio.open(out) as written:
        assert written.count == 4


def test_scene_may_be_a_file_that_qgis_does_not_show(qgis, campaign, tmp_path):
    model = tmp_path / "m.polyad"
    qgis.run("train", SCENE_FILE=campaign / "scene.hdr", LABEL_RASTER=campaign / "truth.tif",
             OUTPUT=model)  # fmt: skip
    assert model.stat().st_size > 0


def test_evaluate_returns_scores_and_writes_a_report(qgis, area, model, tmp_path):
    scene, labels = area
    page = tmp_path / "report.html"
    given = {"SCENE": scene, "LABEL_RASTER": labels}
    results = qgis.run("evaluate", MODEL=model, **given, REPORT=page, SCORES=tmp_path / "s.json")
    written = json.loads((tmp_path / "s.json").read_text())
    assert results["OVERALL_ACCURACY"] == pytest.approx(written["overall_accuracy"])
    assert results["N_TEST"] == written["n_test"]
    assert "<html" in page.read_text()


def test_error_of_polyad_is_the_error_of_the_algorithm(qgis, campaign, tmp_path):
    (tmp_path / "broken.polyad").write_text("no model")
    given = {"MODEL": tmp_path / "broken.polyad", "SCENE": campaign / "scene.img"}
    words = [f"{name}={value}" for name, value in given.items()]
    done = qgis.process("run", "polyad:map", "--", *words, f"OUTPUT={tmp_path / 'map.tif'}")
    assert done.returncode != 0
    assert re.search(r"broken\.polyad.*model", done.stderr)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "map.tif").exists()


def test_output_that_is_something_else_is_kept(qgis, campaign, model, tmp_path):
    other = tmp_path / "field notes.tif"
    other.write_text("mine")
    given = [f"MODEL={model}", f"SCENE={campaign / 'scene.img'}", f"OUTPUT={other}"]
    done = qgis.process("run", "polyad:map", "--", *given)
    assert done.returncode != 0
    assert "would be lost" in done.stderr
    assert other.read_text() == "mine"


def test_missing_program_is_told_with_where_to_set_it(qgis, campaign, tmp_path, monkeypatch):
    monkeypatch.setitem(qgis.environment, "POLYAD_COMMAND", "/nowhere/polyad")
    given = [f"SCENE={campaign / 'scene.img'}", f"LABEL_RASTER={campaign / 'truth.tif'}"]
    done = qgis.process("run", "polyad:train", "--", *given, f"OUTPUT={tmp_path / 'm.polyad'}")
    assert done.returncode != 0
    assert "no program '/nowhere/polyad'; install polyad" in done.stderr


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"LABEL_RASTER": "truth.tif"}, "expected scene as a raster layer or as a file, got none"),
        (
            {"SCENE": "scene.img"},
            "expected labels as a vector layer or as a raster layer, got no",
        ),
    ],
)
def test_what_is_missing_is_told_in_one_sentence(qgis, campaign, tmp_path, given, sentence):
    words = [f"{name}={campaign / file}" for name, file in given.items()]
    done = qgis.process("run", "polyad:train", "--", *words, f"OUTPUT={tmp_path / 'm.polyad'}")
    assert done.returncode != 0
    assert sentence in done.stderr


def test_label_tells_the_address_and_serves_until_it_is_ended(qgis, campaign):
    words = ["run", "polyad:label", "--", f"SCENE={campaign / 'scene.img'}", "BROWSER=0"]
    ours, theirs = os.openpty()  # qgis_process keeps its lines back from a pipe
    running = subprocess.Popen(
        [qgis.program, *words],
        env=qgis.environment, stdin=subprocess.DEVNULL, stdout=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        with os.fdopen(ours, errors="replace") as screen:
            address = next(filter(None, (re.search(r"http://\S+", line) for line in screen)))
            assert httpx.get(address[0], timeout=PATIENCE).status_code == 200
            os.killpg(running.pid, signal.SIGINT)  # as Ctrl+C does
            running.wait()
        wait_until(lambda: gone(address[0]))
    finally:
        running.kill()
        running.wait()


def gone(address):
    """Whether nobody answers there any more; the page closes its connections first."""
    try:
        httpx.get(address, timeout=PATIENCE)
    except httpx.ConnectError:
        return True
    except httpx.TransportError:
        return False
    return False
