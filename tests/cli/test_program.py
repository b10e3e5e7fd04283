"""The program: `info`, `scenes`, `fetch`, help, version and what is typed wrongly."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from land import BANDS, HEIGHT, NAMES, WIDTH, as_json, pixels, run, write_envi, write_tiff
from polyad.cli.options import PANELS
from polyad.scene.read.labels import open_labels


def test_info_of_a_scene_and_of_a_model(place, tmp_path, capsys):
    scene = as_json(capsys, "info", place / "bil.hdr")
    assert (scene["rows"], scene["columns"], scene["bands"]) == (HEIGHT, WIDTH, BANDS)
    assert (scene["crs"], scene["pixel_size"]) == ("EPSG:32633", [10.0, 10.0])
    assert scene["wavelength_nm"] == [450.0, 900.0]
    shutil.copy(place / "m.polyad", tmp_path / "model.bin")
    for name in (place / "m.polyad", tmp_path / "model.bin"):
        model = as_json(capsys, "info", name)
        assert (model["classes"], model["window"]) == (list(NAMES), 3)
    run("info", place / "m.polyad")
    assert "Corn, Soil, Water" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["tif", "hdr", "nc", "npy", "zarr"])
def test_info_of_a_map_counts_the_pixels_of_each_class(place, tmp_path, capsys, ending):
    values = pixels()
    values[:2, :5] = -9999
    write_envi(tmp_path / "holed.hdr", values, "bil")
    out = tmp_path / f"map.{ending}"
    assert run("map", place / "m.polyad", tmp_path / "holed.hdr", "--out", out) == 0
    ids, counts = np.unique(open_labels(out).values, return_counts=True)
    assert ids.tolist() == [0, 1, 2, 3]
    told = as_json(capsys, "info", out)
    names = ["class 1", "class 2", "class 3"] if ending == "npy" else NAMES
    assert (told["kind"], told["classes"], told["without_class"]) == ("class map", 3, 10)
    assert told["pixels"] == dict(zip(names, counts[1:].tolist(), strict=True))
    assert (told["rows"], told["columns"]) == (HEIGHT, WIDTH)
    if ending != "npy":
        assert (told["crs"], told["pixel_size"]) == ("EPSG:32633", [10.0, 10.0])
    assert run("info", out) == 0
    assert "without class  10\n" in capsys.readouterr().out


def test_known_scenes_are_listed_and_need_no_network(capsys):
    rows = {row["name"]: row for row in as_json(capsys, "scenes")["scenes"]}
    assert rows["indian-pines"]["here"]
    assert run("scenes") == 0
    assert "610 rows x 340 columns, 103 bands" in capsys.readouterr().out
    assert run("fetch", "indian-pines") == 0
    assert "nothing to do" in capsys.readouterr().out


COMMANDS = (
    "demo", "train", "map", "evaluate", "sample", "area", "export", "info", "scenes", "fetch",
    "label", "reproduce",
)  # fmt: skip


def helped(capsys, monkeypatch, command, columns=80):
    """Return the help of a command on a terminal of some width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(command, "--help") == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_in_panels_with_an_example(capsys, monkeypatch, command):
    told = helped(capsys, monkeypatch, command)
    assert f"\n  Example:  polyad {command}" in told
    assert max(map(len, told.splitlines())) <= 80
    panels = re.findall(r"^(\w+):$", told, re.M)
    assert panels[-1] == "Advanced"
    assert panels == [panel for panel in ("Arguments", *PANELS) if panel in panels]
    assert re.findall(r"<\w+|\bNone\b|x<=|\[default", told) == []  # Python's types, Typer's notes


def test_train_shows_choices_and_defaults(capsys, monkeypatch):
    told = helped(capsys, monkeypatch, "train", columns=120)
    assert "train SCENE LABELS... [OPTIONS]\n" in told
    for words in (
        "--preset best|fast|paper", "--goal this-scene|other-scenes", "--solver joint|alternating",
        "--task classes|regression    Predict classes or continuous values. Default: classes.",
        "--samples-per-class N        Training pixels per class (half of any smaller class).",
        "Number of hidden units. Default: 75. At most 10000.\n",
        "--out FILE                   Model file to write. Default: model.polyad.\n",
        "Overwrite existing files not written by polyad.\n",
    ):  # fmt: skip
        assert words in told
    assert told.index("Labels:") < told.index("Model:") < told.index("Output:")


def test_the_version_and_a_list_of_commands_that_cuts_no_sentence_short(capsys, monkeypatch):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip()[0].isdigit()
    monkeypatch.setenv("COLUMNS", "80")
    assert run("--help") == 0
    told = capsys.readouterr().out
    assert all(f"\n  {command} " in told for command in COMMANDS)
    assert "..." not in told.partition("Commands:")[2]


@pytest.mark.parametrize(
    "arguments", [("train",), ("map", "a", "--tile", "x"), ("mapp",), ("train", "a", "b", "--rang")]
)
def test_misspelt_commands_and_options_are_refused_without_a_traceback(capsys, arguments):
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "--help" in err


def test_a_reader_that_stops_listening_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m polyad scenes | true",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Traceback" not in done.stderr


def test_info_takes_few_whole_numbers_in_one_band_for_classes(place, tmp_path, capsys):
    told = as_json(capsys, "info", place / "truth.tif")
    assert (told["kind"], told["classes"]) == ("class map", 3)
    gray = np.arange(40 * 50).reshape(40, 50) % 200
    for values, dtype in ((gray, "uint8"), (gray + 0.5, "float32")):
        write_tiff(tmp_path / "gray.tif", values, dtype=dtype)
        assert as_json(capsys, "info", tmp_path / "gray.tif")["kind"] == "scene"
