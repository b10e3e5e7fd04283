"""`polyad train`: what it says of labels, choice and score."""

import json
import re

import pytest

from land import QUICK, as_json, pixels, refused, run, write_envi
from polyad.scene.learn.model import SceneModel


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_train_says_what_was_chosen_and_how_it_did_on_labels_held_out(
    place, tmp_path, capsys, preset
):
    model = tmp_path / "m.polyad"
    said = ("--samples-per-class", 12, "--preset", preset, "--out", model, "--epochs", 40)
    assert run("train", place / "scene.tif", place / "truth.tif", *said) == 0
    out = capsys.readouterr().out
    assert "steps: network on " in out
    assert re.search(r"spatial cross-validation: OA [\d.]+ %, AA [\d.]+ %", out)
    facts = as_json(capsys, "info", model)
    assert f"spatial cross-validation: {facts['spatial_accuracy']}\n" in out
    trained = as_json(capsys, "train", place / "scene.tif", place / "truth.tif", *said)
    scores = trained["cross_validation"]["spatial"]
    assert not [key for key in scores if "ci95" in key]
    assert scores["labels"] > 20


@pytest.mark.parametrize("goal", [(), ("--goal", "other-scenes")])
def test_without_a_preset_train_takes_the_best_one_whatever_the_goal(place, tmp_path, capsys, goal):
    hasty = ("--epochs", 2, "--hidden", 2, "--window", 1, "--json", "--out", tmp_path / "m.polyad")
    assert run("train", place / "bil.hdr", place / "labels.csv", *hasty, *goal) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["preset"], told["goal"]) == ("best", (*goal, "this-scene", "this-scene")[1])


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_train_falls_back_to_fast_with_one_line_and_best_when_asked_for_does_not(
    place, tmp_path, capsys
):
    hasty = ("--epochs", 2, "--hidden", 2, "--window", 1, "--out", tmp_path / "m.polyad")
    words = ("train", place / "bil.hdr", place / "labels.csv", *hasty, "--max-bytes", 50_000)
    assert run(*words, "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["preset"] == "fast"
    assert told.err.startswith("polyad: warning: the preset fast is used instead of best, ")
    assert told.err.count("\n") == 1
    assert "preset best with goal this-scene holds" in refused(capsys, *words, "--preset", "best")


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_train_says_which_labels_could_not_be_tested(place, tmp_path, capsys, preset):
    """Water has one label: held out, none is left to train on."""
    lines = (place / "labels.csv").read_text().splitlines()
    lines = [line for line in lines if "Water" not in line] + ["20,40,Water"]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    words = ("train", place / "scene.tif", tmp_path / "labels.csv", "--preset", preset)
    words = (*words, "--epochs", 25, "--out", tmp_path / "m.polyad")
    assert run(*words) == 0
    told = "not tested: 1 label (Water 1), as none of their class was left to train on\n"
    assert told in (out := capsys.readouterr().out)
    assert re.search(r"spatial cross-validation: .* on 52 labels held out by .*\nnot tested: ", out)
    found = as_json(capsys, *words)
    assert found["cross_validation"]["spatial"]["labels"] == 52
    assert found["not_tested"] == {"Water": 1}
    assert run("info", tmp_path / "m.polyad") == 0  # the file is as it was


def test_train_says_how_many_labels_of_each_class_it_used(place, tmp_path, capsys):
    values = pixels()
    values[:, 45:] = -9999
    write_envi(tmp_path / "holed.hdr", values, "bil")
    arguments = ("train", tmp_path / "holed.hdr", place / "labels.csv", *QUICK)
    model = tmp_path / "m.polyad"
    capsys.readouterr()
    run(*arguments, "--out", model)
    told = "labels: Corn 26, Soil 26, Water 13; 13 more lie where the scene has no data\n"
    assert told in capsys.readouterr().out
    result = as_json(capsys, *arguments, "--out", model)
    assert result["labels"] == {"Corn": 26, "Soil": 26, "Water": 13}
    told = as_json(capsys, "info", model)
    assert (told["labels"], told["training_seconds"]) == (result["labels"], result["fit_seconds"])
    run("info", model)
    assert "Corn 26, Soil 26, Water 13" in capsys.readouterr().out


def test_train_reports_each_class_kappa_and_what_is_missing(place, tmp_path, capsys):
    out = tmp_path / "m.polyad"
    assert run("train", place / "bil.hdr", place / "labels.csv", *QUICK, "--out", out) == 0
    said = capsys.readouterr().out
    assert re.search(r"spatial cross-validation: .*, AA .* %, kappa -?\d\.\d\d, on 78 labels", said)
    assert re.search(r"recall by class: Corn \d+ %, Soil \d+ %, Water \d+ %\n", said)
    assert run("info", out) == 0
    assert re.search(r"\nclass +recall  precision", capsys.readouterr().out)


def test_train_cross_validates_and_keeps_it_in_the_model(place, tmp_path, capsys):
    out = tmp_path / "m.polyad"
    words = ("train", place / "bil.hdr", place / "labels.csv", *QUICK, "--out", out)
    found = as_json(capsys, *words, "--cross-validate")["cross_validation"]
    assert found["method"] == "outer"
    assert found["spatial"]["by"] == "blocks"
    assert found["pixelwise"]["labels"] == 78
    assert run("info", out) == 0
    said = capsys.readouterr().out
    assert "pixel by pixel" in said
    assert SceneModel.load(out).accuracy.method == "outer"


def test_groups_of_a_column_are_held_out_together(place, tmp_path, capsys):
    lines = (place / "labels.csv").read_text().splitlines()
    rows = [f"{line},plot{number % 6}" for number, line in enumerate(lines[1:])]
    (tmp_path / "l.csv").write_text("\n".join([f"{lines[0]},Plot", *rows]))
    words = ("train", place / "bil.hdr", tmp_path / "l.csv", *QUICK, "--groups", "plot")
    spatial = as_json(capsys, *words, "--out", tmp_path / "m.polyad")["cross_validation"]["spatial"]
    assert (spatial["by"], spatial["groups"]) == ("groups", 6)


def test_a_class_of_one_polygon_is_named_as_not_tested(place, tmp_path, capsys):
    """Soil is one polygon, whose pixels are not split between training and test."""
    words = ("train", place / "bil.hdr", place / "labels.geojson", *QUICK)
    assert run(*words, "--out", tmp_path / "m.polyad") == 0
    said = capsys.readouterr().out
    assert re.search(r"not tested: \d+ labels \(Soil \d+\)", said)
    assert re.search(r"label it in more places: Soil 1\n", said)


def test_groups_that_are_none_are_refused_and_nothing_is_written(place, tmp_path, capsys):
    more, told = ("--groups", "day"), "there is no field 'day' to group labels by"
    out = tmp_path / "m.polyad"
    words = ("train", place / "bil.hdr", place / "labels.csv", "--out", out)
    assert told in refused(capsys, *words, *more)
    assert not list(tmp_path.iterdir())
