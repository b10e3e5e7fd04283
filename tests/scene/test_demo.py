"""`polyad demo`: all that it promises, from one short run."""

import json

import numpy as np
import pytest

from polyad.cli import main
from polyad.scene import demo
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.read.labels import open_labels

FILES = [
    "map.png",
    "map.qml",
    "map.tif",
    "map.tif.aux.xml",
    "model.polyad",
    "report.html",
    "scores.json",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the demonstration with a network that is small and hardly trained."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "train", lambda *a, **k: train(*a, **k, hidden=10, epochs=15))
        return out, demo.run_demo(out, seed=3)


def test_every_promised_file_is_there_and_nothing_else(made):
    assert sorted(p.name for p in made[0].iterdir()) == FILES


def test_the_result_is_what_the_scores_file_holds(made):
    out, result = made
    assert json.loads((out / "scores.json").read_text()) == result
    assert {
        "overall_accuracy", "average_accuracy", "kappa", "overall_accuracy_no_overlap", "n_train",
        "n_test", "fit_seconds", "map_seconds", "expected_calibration_error", "seed",
    } <= set(result)  # fmt: skip


def test_it_learns_from_ten_pixels_of_each_class_and_tests_on_the_others(made):
    result = made[1]
    assert result["n_train"] == 160
    assert result["n_train"] + result["n_test"] == 10_249
    assert 0.4 < result["n_test_no_overlap"] / result["n_test"] < 0.6


def test_the_accuracy_is_that_of_the_map_in_the_file(made):
    out, result = made
    labels = open_labels("indian-pines").values
    tested = labels > 0
    tested[tuple(SceneModel.load(out / "model.polyad").training.pixels.T)] = False
    ids = open_labels(out / "map.tif").values
    assert (ids > 0).all()
    assert np.mean(ids[tested] == labels[tested]) == pytest.approx(result["overall_accuracy"])


def test_the_report_stands_alone_and_says_how_to_do_it_again(made):
    page = (made[0] / "report.html").read_text()
    assert "polyad demo --seed 3" in page
    assert f"{100 * made[1]['overall_accuracy']:.1f}" in page
    assert page.count("<img") == 6
    assert 'src="http' not in page
    assert "<script" not in page
    assert len(page) < 2_000_000


@pytest.mark.slow
def test_the_command_prints_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "train", lambda *a, **k: train(*a, **k, hidden=5, epochs=3))
    with pytest.raises(SystemExit) as stop:
        main(["demo", "--out", str(tmp_path), "--json"])
    assert not stop.value.code
    assert json.loads(capsys.readouterr().out)["n_train"] == 160
