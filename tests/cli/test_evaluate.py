"""`polyad evaluate`: scores, reports and how classes are matched."""

import csv
import html
import json
import shutil

import numpy as np
import pytest
import scipy.io

from land import (
    BANDS,
    HEIGHT,
    NAMES,
    QUICK,
    WIDTH,
    as_json,
    pixels,
    refused,
    run,
    truth,
    write_envi,
    write_named,
)
from polyad.scene.learn.model import SceneModel

SCORES = {
    "overall_accuracy", "average_accuracy", "kappa", "overall_accuracy_no_overlap", "n_train",
    "n_test", "fit_seconds", "map_seconds",
}  # fmt: skip


def test_evaluate_tells_everything_to_machines_and_files(place, tmp_path, capsys):
    capsys.readouterr()
    files = {"--out": tmp_path / "s.json", "--report": tmp_path / "page.html"}
    written = [str(word) for pair in files.items() for word in pair]
    arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    result = as_json(capsys, *arguments, *written)
    assert set(result) >= SCORES
    assert result == json.loads(files["--out"].read_text())
    trained = len(SceneModel.load(place / "m.polyad").training.pixels)
    assert (result["n_train"], result["n_test"]) == (trained, HEIGHT * WIDTH - trained)
    page = files["--report"].read_text()
    assert page.count("<img") == 6
    assert "polyad evaluate" in page
    assert run(*arguments, "--out", tmp_path / "s.csv") == 0
    assert "overall accuracy" in capsys.readouterr().out
    with (tmp_path / "s.csv").open(newline="") as file:
        assert {"recall", "kappa"} <= {row["measure"] for row in csv.DictReader(file)}


def renumbered(place, kind, folder):
    """Write the truth with Corn 3, Soil 1, Water 2 in the asked kind of file."""
    path, names = folder / f"turned.{kind}", ("soil", "Water ", "Corn")
    turned = np.array([0, 3, 1, 2])[truth()]
    if kind == "tif":
        write_named(path, turned, names)
    elif kind == "csv":
        lines = [f"{r},{c},{k},{names[k - 1]}" for (r, c), k in np.ndenumerate(turned)]
        path.write_text("\n".join(["row,col,class,name", *lines]))
    else:
        shutil.copy(place / "labels.geojson", path)
    return path


@pytest.mark.parametrize("kind", ["tif", "csv", "geojson"])
def test_evaluate_matches_classes_by_name_whatever_their_ids(place, tmp_path, capsys, kind):
    labels = renumbered(place, kind, tmp_path)
    model = place / "m.polyad"
    if kind == "geojson":  # by name; the model's ids are those of another file
        run("train", place / "bil.hdr", renumbered(place, "tif", tmp_path), "--out",
            model := tmp_path / "m.polyad", "--samples-per-class", 30, *QUICK)  # fmt: skip
    result = as_json(capsys, "evaluate", model, place / "bil.hdr", labels)
    assert (result["matched_by"], result["left_out"]) == ("name", [])
    assert result["overall_accuracy"] > 0.9


def test_evaluate_says_that_labels_without_names_are_matched_by_id(place, tmp_path, capsys):
    scipy.io.savemat(tmp_path / "gt.mat", {"gt": truth()})
    for labels in (place / "truth.tif", tmp_path / "gt.mat"):
        page = tmp_path / "page.html"
        arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", labels)
        run(*arguments, "--report", page)
        out = capsys.readouterr().out
        assert 0 <= out.index("matched by id") < out.index("overall accuracy")  # before the table
        assert "1 Corn, 2 Soil, 3 Water" in out
        assert "matched by id" in page.read_text()
        assert as_json(capsys, *arguments)["matched_by"] == "id"


def test_evaluate_counts_names_and_leaves_out_classes_the_model_never_saw(place, tmp_path, capsys):
    new = truth()
    new[:10] = 4
    write_named(tmp_path / "new.tif", new, (*NAMES, "Lava"))
    trained = SceneModel.load(place / "m.polyad").training.pixels
    lost = 10 * WIDTH - int((trained[:, 0] < 10).sum())
    arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", tmp_path / "new.tif")
    files = (tmp_path / "s.json", tmp_path / "s.csv")
    for path in files:
        assert run(*arguments, "--out", path, "--report", tmp_path / "page.html") == 0
    assert f"Left out: {lost} pixels" in (out := capsys.readouterr().out)
    assert f"4 Lava: {lost}" in out
    result = as_json(capsys, *arguments)
    assert result["left_out"] == [{"id": 4, "name": "Lava", "pixels": lost}]
    assert result["n_test"] + lost == HEIGHT * WIDTH - len(trained)
    assert result["overall_accuracy"] > 0.9
    assert [row["name"] for row in result["classes"]] == list(NAMES)
    assert json.loads(files[0].read_text())["left_out"] == result["left_out"]
    assert f"left_out,Lava,{lost}" in files[1].read_text()
    assert f"4 Lava: {lost}" in (tmp_path / "page.html").read_text()


def test_names_alone_are_never_compared_with_bare_ids(place, tmp_path, capsys):
    model = tmp_path / "m.polyad"
    run("train", place / "bil.hdr", place / "truth.tif", "--out", model, *QUICK,
        "--samples-per-class", 20)  # fmt: skip
    sentence = refused(capsys, "evaluate", model, place / "bil.hdr", place / "labels.csv")
    assert "class 1, class 2, class 3" in sentence
    assert "Corn" in sentence


def test_the_report_tells_preset_goal_and_steps(place, best, tmp_path):
    page = tmp_path / "page.html"
    run("evaluate", best, place / "bil.hdr", place / "truth.tif", "--report", page)
    text, model = page.read_text(), SceneModel.load(best)
    assert "best, goal this-scene" in text
    assert model.recipe.line in html.unescape(text)
    assert f"{HEIGHT} rows x {WIDTH} columns, {BANDS} bands" in text
    assert "honest" not in text
    assert "the same fields as the labels" in " ".join(text.split())


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_scores_and_reports_of_another_scene_say_that_the_network_worked_alone(
    place, best, tmp_path, capsys
):
    write_envi(tmp_path / "other.hdr", pixels() + 1, "bil")
    page = tmp_path / "page.html"
    words = ("evaluate", best, tmp_path / "other.hdr", place / "truth.tif", "--report", page)
    capsys.readouterr()
    assert run(*words) == 0
    assert "used on another one: the network works alone" in capsys.readouterr().err
    told = "on this scene, which it was not trained on, the network alone"
    assert told in page.read_text()


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_labels_that_number_the_classes_otherwise_bring_a_warning(tmp_path, capsys):
    values = np.repeat(np.arange(3), 8)[:, None, None] * np.ones((1, 12, 5)) * 50
    values = values + np.random.default_rng(0).normal(size=values.shape)
    np.save(tmp_path / "scene.npy", values.astype("f4"))
    named = ["water", "forest", "crop"]  # numbered 3, 2, 1 by their alphabet
    lines = [f"{row},{col},{named[row // 8]}" for row in range(24) for col in (2, 5)]
    (tmp_path / "labels.csv").write_text("\n".join(["row,col,class", *lines]))
    np.save(tmp_path / "truth.npy", np.repeat(np.arange(3), 8)[:, None].repeat(12, 1) + 1)
    run("train", tmp_path / "scene.npy", tmp_path / "labels.csv", "--out", tmp_path / "m.polyad")
    run("evaluate", tmp_path / "m.polyad", tmp_path / "scene.npy", tmp_path / "truth.npy")
    assert "polyad: warning: classes were matched by id, but" in capsys.readouterr().err
