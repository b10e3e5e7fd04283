"""The commands as docs/values.md writes them, on files."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest
import rasterio
from plots import HEIGHT, WIDTH

from land import run as run_command

QUICK = ("--epochs", "25", "--hidden", "8")


def run(*arguments, code=0):
    """Run a command and return what it said; it must end with this code."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = run_command(*arguments)
    assert ended == code, err.getvalue()
    return SimpleNamespace(out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def trained(place):
    """A model by the command, and what the command said as JSON."""
    path = place / "cover.polyad"
    said = run(
        "train", place / "scene.tif", place / "plots.csv", "--task", "regression", "--field",
        "cover", "--bounds", "0", "1", "--out", path, "--window", "3", "--json", *QUICK,
    )  # fmt: skip
    return path, json.loads(said.out)


def test_train_tells_scores_on_places_held_out(trained):
    _, told = trained
    (score,) = told["spatial_scores"]
    assert told["task"] == "regression"
    assert told["targets"] == [{"name": "cover", "units": "", "low": 0.0, "high": 1.0}]
    assert score["r2"] > 0.8
    assert score["r2_ci95"][0] <= score["r2"] <= score["r2_ci95"][1]


def test_map_writes_values_and_their_deviation(trained, place):
    path, _ = trained
    out, unsure = place / "cover.tif", place / "cover-sd.tif"
    said = run("map", path, place / "scene.tif", "--out", out, "--uncertainty", unsure)
    assert f"{HEIGHT * WIDTH:,} pixels mapped" in said.out
    assert said.out.rstrip().endswith(f"map: {out}; uncertainty: {unsure}")
    with rasterio.open(out) as file:
        values = file.read(1)
        assert file.tags(1)["valid_max"] == "1"
    assert 0 <= values.min() < values.max() <= 1
    with rasterio.open(unsure) as file:
        assert (file.read(1) > 0).all()
    told = json.loads(run("info", out, "--json").out)
    assert told["kind"] == "map of a regression target"
    assert told["targets"] == [f"cover: {values.min():.7g} to {values.max():.7g}"]
    assert json.loads(run("info", unsure, "--json").out)["kind"].startswith("standard deviation")


def test_evaluate_compares_with_other_plots_and_draws_them(trained, place):
    path, _ = trained
    page, scores = place / "page.html", place / "scores.csv"
    given = (path, place / "scene.tif", place / "others.csv", "--report", page, "--out", scores)
    told = json.loads(run("evaluate", *given, "--json").out)
    (row,) = told["targets"]
    assert row["r2"] > 0.8
    assert 0.8 < row["within_95"] <= 1
    assert set(row) >= {"rmse", "rmse_ci95", "mae", "mae_ci95", "bias", "bias_ci95"}
    assert "R2 0." in run("evaluate", *given).out  # and replaces its own outputs
    assert "rmse_ci95_low,cover," in scores.read_text()
    text = page.read_text()
    assert "Predicted against measured cover" in text
    assert all(name in text for name in ("What was done", "<dt>Preset</dt>", "<dt>Steps</dt>"))
    assert "<dt>cover by its own values</dt>" in text


def test_info_tells_targets_and_scores(trained):
    path, _ = trained
    told = json.loads(run("info", path, "--json").out)
    assert told["targets"] == ["cover"]
    assert told["spatial_scores"][0].startswith("cover: R2 0.")


def test_several_targets_are_several_bands(place):
    path, out = place / "two.polyad", place / "two.tif"
    page = place / "two.html"
    said = run(
        "train", place / "scene.tif", place / "plots.csv", "--task", "regression", "--field",
        "cover", "--field", "mass", "--units", "1", "--units", "t/ha", "--out", path, "--window",
        "1", "--report", page, *QUICK,
    )  # fmt: skip
    assert said.out.endswith(f"report: {page}\n")
    text = page.read_text()
    assert all(
        words in text for words in ("Where mass was measured", "mass [t/ha]", "What was done")
    )
    assert text.index("<h2>cover") < text.index("<h2>mass [t/ha]")
    run("map", path, place / "scene.tif", "--out", out)
    with rasterio.open(out) as file:
        assert file.descriptions == ("cover", "mass")
        assert file.units == ("1", "t/ha")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--field", "crop"), "line 2: expected a number for 'crop', got 'corn'"),
        (("--field", "cover", "--bounds", "1", "0"), "bounds must be two finite numbers"),
        (("--field", "cover", "--bounds", "0", "1e300"), "bounds must be from -3.4e+38"),
        (("--field", "cover,cover"), "got cover, cover; name each once"),
        (("--field", "cover", "--merge", "a+b=c"), "--merge is for classes; leave it out"),
        (("--field", "cover", "--preset", "paper"), "presets fast and best, got 'paper'"),
        (("--field", "mass", "--bounds", "0", "1"), "lie outside the bounds 0 to 1"),
        ((), "name it with --field (in Python, field): cover ("),
    ],
)
def test_what_cannot_be_learned_is_told_in_one_sentence(place, tmp_path, options, said):
    given = (place / "scene.tif", place / "plots.csv", "--task", "regression", *options)
    told = run("train", *given, "--out", tmp_path / "m.polyad", code=2)
    assert said in told.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "numbers"), "task must be one of classes, regression, got 'numbers'"),
        (("--bounds", "0", "1"), "--bounds is for regression; add --task regression"),
        (
            ("--field", "crop", "--field", "cover"),
            "a class comes from one --field, got crop, cover",
        ),
    ],
)
def test_options_of_values_are_refused_for_classes(place, tmp_path, options, said):
    given = (place / "scene.tif", place / "plots.csv", *options)
    told = run("train", *given, "--out", tmp_path / "m.polyad", code=2)
    assert said in told.err
