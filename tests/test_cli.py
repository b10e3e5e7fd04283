"""The command line: every command from real files to real files, and every refusal."""

import csv
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
import scipy.io
from affine import Affine
from rasterio.warp import transform as reproject

from polyad.cli import main
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.write.map_writer import MapWriter

HEIGHT, WIDTH, BANDS = 40, 50, 8
CORNER = (500_000.0, 4_000_000.0)  # UTM 33 N, pixels of 10 m
NM = np.linspace(450, 900, BANDS)
NAMES = ("Corn", "Soil", "Water")
QUICK = ("--epochs", "25", "--hidden", "10", "--window", "3")
SCORES = {
    "overall_accuracy", "average_accuracy", "kappa", "overall_accuracy_no_overlap", "n_train",
    "n_test", "fit_seconds", "map_seconds",
}  # fmt: skip


def truth():
    """Three upright fields: Corn in the west, Soil, Water in the east."""
    return np.repeat([1, 2, 3], [20, 15, 15])[None].repeat(HEIGHT, axis=0)


def pixels():
    rng = np.random.default_rng(0)
    clean = 300 * truth()[..., None] + 20 * np.arange(BANDS) * (truth()[..., None] - 2)
    return np.rint(clean + rng.normal(0, 60, (HEIGHT, WIDTH, BANDS)) + 1000).astype(np.int16)


def center(row, col):
    return CORNER[0] + 10 * (col + 0.5), CORNER[1] - 10 * (row + 0.5)


def write_envi(path, values, interleave):
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    path.with_suffix(".img").write_bytes(values.transpose(axes).tobytes())
    wavelengths = ", ".join(f"{w:.1f}" for w in NM[: values.shape[2]])
    path.write_text(
        f"ENVI\nsamples = {values.shape[1]}\nlines = {values.shape[0]}\n"
        f"bands = {values.shape[2]}\nheader offset = 0\nfile type = ENVI Standard\n"
        f"data type = 2\ninterleave = {interleave}\nbyte order = 0\ndata ignore value = -9999\n"
        f"map info = {{UTM, 1, 1, {CORNER[0]}, {CORNER[1]}, 10, 10, 33, North, WGS-84}}\n"
        f"wavelength units = Nanometers\nwavelength = {{{wavelengths}}}\n"
    )


def write_tiff(path, values, crs="EPSG:32633", dtype="int16"):
    grid = Affine(10, 0, CORNER[0], 0, -10, CORNER[1])
    bands = np.moveaxis(np.atleast_3d(values), -1, 0)
    with rasterio.open(
        path, "w", driver="GTiff", width=bands.shape[2], height=bands.shape[1], count=len(bands),
        dtype=dtype, crs=crs, transform=grid,
    ) as out:  # fmt: skip
        out.write(bands.astype(dtype))


def write_named(path, values, names):
    """Write a class map as polyad does, with names for the ids from 1 on."""
    classes = [ClassInfo(k, n, "#112233") for k, n in enumerate(names, start=1)]
    grid = {"crs": "EPSG:32633", "transform": Affine(10, 0, CORNER[0], 0, -10, CORNER[1])}
    with MapWriter(path, values.shape, classes, **grid) as out:
        out.write((slice(None), slice(None)), values.astype(np.uint8))


def write_geojson(path, crs="EPSG:4326"):
    """Points of Corn and Water and a polygon of Soil, in longitude and latitude."""
    places = [(r, c, "Corn") for r in range(2, 38, 4) for c in (3, 9, 15)]
    places += [(r, c, "Water") for r in range(2, 38, 4) for c in (37, 42, 47)]

    def moved(points):
        x, y = zip(*points, strict=True)
        return [list(p) for p in zip(*reproject("EPSG:32633", crs, x, y), strict=True)]

    features = [
        {"type": "Feature", "properties": {"class": name},
         "geometry": {"type": "Point", "coordinates": moved([center(r, c)])[0]}}
        for r, c, name in places
    ]  # fmt: skip
    ring = moved([center(*p) for p in ((10, 22), (10, 30), (14, 30), (14, 22), (10, 22))])
    geometry = {"type": "Polygon", "coordinates": [ring]}
    features.append({"type": "Feature", "properties": {"class": "Soil"}, "geometry": geometry})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def write_csv(path, ids=False):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["row", "col", "class"])
        for row in range(1, 39, 3):
            for col in (4, 12, 24, 31, 38, 46):
                k = truth()[row, col]
                table.writerow([row, col, k if ids else NAMES[k - 1]])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with one scene in several kinds, labels in several kinds, and a model."""
    folder = tmp_path_factory.mktemp("land")
    for interleave in ("bsq", "bil"):
        write_envi(folder / f"{interleave}.hdr", pixels(), interleave)
    write_tiff(folder / "scene.tif", pixels())
    np.save(folder / "scene.npy", pixels())
    write_geojson(folder / "labels.geojson")
    write_csv(folder / "labels.csv")
    write_tiff(folder / "truth.tif", truth(), dtype="uint8")
    run(
        "train", folder / "bil.hdr", folder / "labels.geojson", "--out", folder / "m.polyad", *QUICK
    )
    return folder


def run(*arguments):
    """Run a command in this process; return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code or 0


def refused(capsys, *arguments):
    """Return the one sentence that bad input is answered with."""
    capsys.readouterr()
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("polyad: ")
    assert err.count("\n") == 1, err
    return err


# -- what was chosen ---------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_train_says_what_was_chosen_and_how_it_did_on_labels_held_out(
    place, tmp_path, capsys, preset
):
    model = tmp_path / "m.polyad"
    said = ("--samples-per-class", 12, "--preset", preset, "--out", model, "--epochs", 40)
    assert run("train", place / "scene.tif", place / "truth.tif", *said) == 0
    out = capsys.readouterr().out
    assert "steps: network on " in out
    assert re.search(r"by its own labels: [\d.]+ % overall \(95 % interval \d+ to \d+\)", out)
    assert run("info", model, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert f"by its own labels: {facts['spatial_accuracy']}\n" in out
    assert run("train", place / "scene.tif", place / "truth.tif", *said, "--json") == 0
    scores = json.loads(capsys.readouterr().out)["spatial_accuracy"]
    assert scores["interval"][0] <= scores["overall"] <= scores["interval"][1]
    assert scores["labels"] > 20


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
    assert re.search(r"by its own labels: .* on 52 labels held out by .*\nnot tested: ", out)
    assert run(*words, "--json") == 0
    scores = json.loads(capsys.readouterr().out)["spatial_accuracy"]
    assert (scores["labels"], scores["not_tested"]) == (52, {"Water": 1})
    assert run("info", tmp_path / "m.polyad") == 0  # the file is as it was


def test_an_objective_that_is_none_is_refused(place, capsys):
    assert run("train", place / "scene.tif", place / "truth.tif", "--objective", "both") == 2
    assert "objective must be one of overall, average, got 'both'" in capsys.readouterr().err


# -- from files to files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "labels"),
    [
        ("bil.hdr", "labels.geojson"),
        ("bsq.hdr", "labels.csv"),
        ("bsq.img", "truth.tif"),
        ("scene.tif", "labels.geojson"),
        ("scene.tif", "truth.tif"),
    ],
)
def test_train_map_and_evaluate(place, tmp_path, capsys, scene, labels):
    model, out = tmp_path / "m.polyad", tmp_path / "map.tif"
    every = ("--samples-per-class", 12, "--seed", 1, "--json")
    assert run("train", place / scene, place / labels, "--out", model, *every, *QUICK) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_train"], len(result["classes"])) == (36, 3)
    assert run("map", model, place / scene, "--out", out, "--tile", 17, "--json") == 0
    assert json.loads(capsys.readouterr().out)["pixels"] == HEIGHT * WIDTH
    with rasterio.open(out) as dataset:
        assert dataset.crs.to_epsg() == 32633
        assert dataset.transform == Affine(10, 0, CORNER[0], 0, -10, CORNER[1])
        assert dataset.nodata == 0
        assert dataset.colormap(1)[1][3] == 255
        found = dataset.read(1)
    names = SceneModel.load(model).classes
    if labels != "truth.tif":
        assert [c.name for c in names] == list(NAMES)
        assert (found == truth()).mean() > 0.9
    assert run("evaluate", model, place / scene, place / "truth.tif", "--json") == 0
    assert json.loads(capsys.readouterr().out)["overall_accuracy"] > 0.9


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="GDAL's own programs are not here")
def test_gdal_itself_finds_names_palette_and_place(place, tmp_path):
    run("map", place / "m.polyad", place / "bil.hdr", "--out", tmp_path / "map.tif")
    told = subprocess.run(
        ["gdalinfo", "-json", tmp_path / "map.tif"], capture_output=True, text=True, check=True
    ).stdout
    told = json.loads(told)
    assert told["geoTransform"] == [CORNER[0], 10.0, 0.0, CORNER[1], 0.0, -10.0]
    assert "UTM zone 33N" in told["coordinateSystem"]["wkt"]
    band = told["bands"][0]
    assert band["colorInterpretation"] == "Palette"
    assert band["noDataValue"] == 0


@pytest.mark.parametrize("ending", ["hdr", "png", "nc", "npy"])
def test_a_map_of_every_kind(place, tmp_path, ending):
    out = tmp_path / f"map.{ending}"
    assert run("map", place / "m.polyad", place / "bsq.hdr", "--out", out) == 0
    assert out.stat().st_size > 100


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_probabilities(place, tmp_path, kind):
    out, shares = tmp_path / "map.tif", tmp_path / "p.tif"
    options = ("--probabilities", shares, "--probability-type", kind)
    assert run("map", place / "m.polyad", place / "bsq.hdr", "--out", out, *options) == 0
    with rasterio.open(shares) as dataset, rasterio.open(out) as classes:
        assert dataset.descriptions == NAMES
        assert dataset.dtypes[0] == kind
        proba = dataset.read() * (dataset.scales[0] if kind == "uint8" else 1.0)
        np.testing.assert_allclose(proba.sum(axis=0), 1.0, atol=0.01)
        agree = proba.argmax(axis=0) + 1 == classes.read(1)
        assert agree.mean() > (0.97 if kind == "uint8" else 0.999)


def test_evaluate_tells_everything_to_machines_and_files(place, tmp_path, capsys):
    capsys.readouterr()
    files = {"--out": tmp_path / "s.json", "--report": tmp_path / "page.html"}
    written = [str(word) for pair in files.items() for word in pair]
    arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    assert run(*arguments, "--json", *written) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= SCORES
    assert result == json.loads(files["--out"].read_text())
    trained = len(SceneModel.load(place / "m.polyad").training["pixels"])
    assert (result["n_train"], result["n_test"]) == (trained, HEIGHT * WIDTH - trained)
    page = files["--report"].read_text()
    assert page.count("<img") == 5
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
    capsys.readouterr()
    assert run("evaluate", model, place / "bil.hdr", labels, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["matched_by"], result["left_out"]) == ("name", [])
    assert result["overall_accuracy"] > 0.9


def test_evaluate_says_that_labels_without_names_are_matched_by_id(place, tmp_path, capsys):
    scipy.io.savemat(tmp_path / "gt.mat", {"gt": truth()})
    for labels in (place / "truth.tif", tmp_path / "gt.mat"):
        page = tmp_path / "page.html"
        arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", labels)
        run(*arguments, "--report", page)
        out = capsys.readouterr().out
        assert "matched by id" in out
        assert "1 Corn, 2 Soil, 3 Water" in out
        assert "matched by id" in page.read_text()
        run(*arguments, "--json")
        assert json.loads(capsys.readouterr().out)["matched_by"] == "id"


def test_evaluate_counts_names_and_leaves_out_classes_the_model_never_saw(place, tmp_path, capsys):
    new = truth()
    new[:10] = 4
    write_named(tmp_path / "new.tif", new, (*NAMES, "Lava"))
    trained = np.array(SceneModel.load(place / "m.polyad").training["pixels"])
    lost = 10 * WIDTH - int((trained[:, 0] < 10).sum())
    arguments = ("evaluate", place / "m.polyad", place / "bil.hdr", tmp_path / "new.tif")
    files = (tmp_path / "s.json", tmp_path / "s.csv")
    for path in files:
        assert run(*arguments, "--out", path, "--report", tmp_path / "page.html") == 0
    assert f"Left out: {lost} pixels" in (out := capsys.readouterr().out)
    assert f"4 Lava: {lost}" in out
    assert run(*arguments, "--json") == 0
    result = json.loads(capsys.readouterr().out)
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
    run(*arguments, "--out", model, "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["labels"] == {"Corn": 26, "Soil": 26, "Water": 13}
    run("info", model, "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"], told["training_seconds"]) == (result["labels"], result["fit_seconds"])
    run("info", model)
    assert "Corn 26, Soil 26, Water 13" in capsys.readouterr().out


@pytest.fixture(scope="module")
def best(place, tmp_path_factory):
    """A model of the best preset, made for this one scene."""
    path = tmp_path_factory.mktemp("best") / "best.polyad"
    run("train", place / "bil.hdr", place / "labels.csv", "--preset", "best", "--out", path)
    return path


def test_the_report_tells_preset_goal_steps_and_the_whole_time_of_training(place, best, tmp_path):
    page = tmp_path / "page.html"
    run("evaluate", best, place / "bil.hdr", place / "truth.tif", "--report", page)
    text, model = page.read_text(), SceneModel.load(best)
    assert "best, goal this-scene" in text
    assert model.recipe.line in html.unescape(text)
    assert f"{model.training['seconds']:.2f} s" in text
    assert model.training["seconds"] > sum(model.estimator.history_.seconds)
    assert f"{HEIGHT} rows x {WIDTH} columns, {BANDS} bands" in text
    assert "honest" not in text
    assert "the same fields as the labels" in " ".join(text.split())


def test_a_warning_is_one_line_without_file_and_source(place, best, tmp_path):
    write_envi(tmp_path / "other.hdr", pixels() + 1, "bil")
    done = subprocess.run(
        [sys.executable, "-m", "polyad", "map", best, tmp_path / "other.hdr",
         "--out", tmp_path / "map.tif"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith("polyad: warning: this model was trained for the scene")
    assert "--goal other-scenes" in line


def test_labels_of_their_own_file_test_what_others_trained(place, tmp_path, capsys):
    west, east = truth(), truth()
    west[20:], east[:20] = 0, 0
    write_tiff(tmp_path / "train.tif", west, dtype="uint8")
    write_tiff(tmp_path / "test.tif", east, dtype="uint8")
    model = tmp_path / "m.polyad"
    run("train", place / "bil.hdr", tmp_path / "train.tif", "--out", model, *QUICK)
    capsys.readouterr()
    assert run("evaluate", model, place / "bil.hdr", tmp_path / "test.tif", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_train"], result["n_test"]) == (20 * WIDTH, 20 * WIDTH)
    assert result["n_test_no_overlap"] == 18 * WIDTH  # window 3: two rows reach over


def test_info_of_a_scene_and_of_a_model(place, tmp_path, capsys):
    run("info", place / "bil.hdr", "--json")
    scene = json.loads(capsys.readouterr().out)
    assert (scene["rows"], scene["columns"], scene["bands"]) == (HEIGHT, WIDTH, BANDS)
    assert (scene["crs"], scene["pixel_size"]) == ("EPSG:32633", [10.0, 10.0])
    assert scene["wavelength_nm"] == [450.0, 900.0]
    shutil.copy(place / "m.polyad", tmp_path / "model.bin")
    for name in (place / "m.polyad", tmp_path / "model.bin"):
        assert run("info", name, "--json") == 0
        model = json.loads(capsys.readouterr().out)
        assert (model["classes"], model["window"]) == (list(NAMES), 3)
    run("info", place / "m.polyad")
    assert "Corn, Soil, Water" in capsys.readouterr().out


def test_known_scenes_are_listed_and_need_no_network(capsys):
    assert run("scenes", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["scenes"]}
    assert rows["indian-pines"]["here"]
    assert run("scenes") == 0
    assert "610 rows x 340 columns, 103 bands" in capsys.readouterr().out
    assert run("fetch", "indian-pines") == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    ["demo", "train", "map", "evaluate", "info", "scenes", "fetch", "label", "reproduce"],
)
def test_every_command_explains_itself_with_an_example(capsys, command):
    assert run(command, "--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Example: polyad {command}" in told


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


# -- refusals ----------------------------------------------------------------------------------


@pytest.fixture
def bad(place, tmp_path):
    """Broken files, each by its name."""
    values = pixels()
    shutil.copy(place / "bil.hdr", tmp_path / "cut.hdr")
    (tmp_path / "cut.img").write_bytes((place / "bil.img").read_bytes()[:-100])
    write_envi(tmp_path / "narrow.hdr", values[..., :5], "bip")
    text = (place / "bil.hdr").read_text().replace("450.0", "2150.0")
    (tmp_path / "infrared.hdr").write_text(text)
    shutil.copy(place / "bil.img", tmp_path / "infrared.img")
    write_tiff(tmp_path / "small.tif", truth()[:30], dtype="uint8")
    write_tiff(tmp_path / "utm32.tif", truth(), crs="EPSG:32632", dtype="uint8")
    write_tiff(tmp_path / "empty.tif", truth() * 0, dtype="uint8")
    write_named(tmp_path / "other.tif", truth(), ("Lava", "Ice", "Sand"))
    lone = np.where(truth() == 3, 0, truth())
    lone[5, 5] = 3
    write_tiff(tmp_path / "lone.tif", lone, dtype="uint8")
    (tmp_path / "outside.csv").write_text("row,col,class\n100,3,Corn\n3,3,Soil\n")
    (tmp_path / "torn.polyad").write_bytes((place / "m.polyad").read_bytes()[:-9])
    (tmp_path / "a-file").write_text("not a folder")
    return tmp_path


TRAIN = ("train", "{place}/bil.hdr", "{place}/truth.tif", "--out", "{bad}/new.polyad")
MAP = ("map", "{place}/m.polyad", "{place}/bil.hdr", "--out", "{bad}/new.tif")
EVALUATE = ("evaluate", "{place}/m.polyad", "{place}/bil.hdr")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("info", "{bad}/nothing.hdr"), ("no such file",)),
        (("info", "indian-pine"), ("did you mean 'indian-pines'?",)),
        (("info", "{bad}/nothing.polyad"), ("cannot be read",)),
        (("info", "{bad}/torn.polyad"), ("damaged",)),
        (("info", "{bad}/cut.hdr"), ("truncated", "100 bytes are missing")),
        (("fetch", "salina"), ("did you mean 'salinas'?",)),
        (("fetch", "salinas", "--from", "{bad}/a-file"), ("is no file of salinas",)),
        ((TRAIN[0], "{bad}/cut.hdr", *TRAIN[2:]), ("truncated", "100 bytes are missing")),
        ((TRAIN[0], "pavia-univrsity", *TRAIN[2:]), ("did you mean 'pavia-university'?",)),
        ((*TRAIN[:2], "{bad}/none.csv", *TRAIN[3:]), ("no such file",)),
        ((*TRAIN[:2], "{bad}/small.tif", *TRAIN[3:]), ("40 rows", "30 rows", "resample")),
        ((*TRAIN[:2], "{bad}/utm32.tif", *TRAIN[3:]), ("32633", "32632", "reproject")),
        ((*TRAIN[:2], "{bad}/empty.tif", *TRAIN[3:]), ("no pixel is labeled",)),
        ((*TRAIN[:2], "{bad}/outside.csv", *TRAIN[3:]), ("outside",)),
        ((*TRAIN[:2], "{bad}/lone.tif", *TRAIN[3:], "--samples-per-class", "5"), ("1 labeled",)),
        ((*TRAIN, "--window", "4"), ("odd", "4")),
        ((*TRAIN, "--window", "101"), ("scene, 40 x 50 pixels, got 101", "up to 49")),
        ((*TRAIN, "--solver", "newton"), ("joint", "alternating", "newton")),
        ((*TRAIN, "--rank", "0"), ("rank", "0")),
        ((*TRAIN, "--epochs", "0"), ("epochs", "0")),
        ((*TRAIN, "--samples-per-class", "0"), ("at least 1", "0")),
        ((*TRAIN[:4], "{bad}/none/new.polyad"), ("no such folder",)),
        ((*TRAIN[:4], "{bad}/a-file/new.polyad"), ("a file of that name",)),
        ((*TRAIN[:4], "{bad}"), ("an existing folder",)),
        ((MAP[0], "{bad}/nothing.polyad", *MAP[2:]), ("cannot be read",)),
        ((MAP[0], "{bad}/torn.polyad", *MAP[2:]), ("damaged",)),
        ((MAP[0], "{bad}/a-file", *MAP[2:]), ("no model file",)),
        (
            (*MAP[:2], "{bad}/narrow.hdr", *MAP[3:]),
            ("8 bands (450 to 900 nm)", "has 5 (450 to 707 nm)", "gdal_translate"),
        ),
        (
            (*MAP[:2], "{bad}/infrared.hdr", *MAP[3:]),
            ("8 bands (450 to 900 nm)", "(514 to 2150 nm)"),
        ),
        ((*MAP, "--tile", "0"), ("tile", "0")),
        ((*MAP, "--probability-type", "int8", "--probabilities", "{bad}/p.tif"), ("'int8'",)),
        ((*MAP, "--probabilities", "{bad}/p.png"), (".tif", ".png")),
        ((*MAP[:4], "{bad}/none/map.tif"), ("no such folder",)),
        ((*MAP[:4], "{bad}/map.jpg"), (".tif", ".jpg")),
        ((*MAP[:4], "{bad}/a-file/map.png"), ("a file of that name",)),
        ((*EVALUATE, "{bad}/empty.tif"), ("no pixel is labeled",)),
        ((*EVALUATE, "{bad}/other.tif"), ("none of the 1", "1 Lava", "1 Corn")),
        ((*EVALUATE, "{place}/truth.tif", "--out", "{bad}/s.txt"), (".json", ".txt")),
        ((*EVALUATE, "{place}/truth.tif", "--report", "{bad}/none/r.html"), ("no such folder",)),
        (("demo", "--out", "{bad}/a-file"), ("a-file",)),
    ],
    ids=lambda v: " ".join(v).replace("{bad}/", "").replace("{place}/", ""),
)
def test_bad_input_gets_one_sentence_and_leaves_nothing(place, bad, capsys, arguments, words):
    before = {p: p.read_bytes() for p in bad.iterdir()}
    sentence = refused(capsys, *(a.format(place=place, bad=bad) for a in arguments))
    for word in words:
        assert word in sentence
    assert {p: p.read_bytes() for p in bad.iterdir()} == before


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(place, tmp_path, capsys):
    tmp_path.chmod(0o500)
    for command in (("train", place / "bil.hdr", place / "truth.tif"),
                    ("map", place / "m.polyad", place / "bil.hdr")):  # fmt: skip
        assert "may be written" in refused(capsys, *command, "--out", tmp_path / "new.tif")


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


# -- a killed run ------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="kill -9 is of Unix")
@pytest.mark.parametrize("existing", [False, True])
def test_a_killed_map_leaves_the_old_file_or_none(place, tmp_path, existing):
    large = np.lib.format.open_memmap(
        tmp_path / "large.npy", "w+", dtype=np.int16, shape=(60_000, 200, BANDS)
    )
    large.flush()  # of zeros, and sparse on the disk
    out = tmp_path / "map.tif"
    if existing:
        run("map", place / "m.polyad", place / "bil.hdr", "--out", out)
    names = ("map.tif", "map.tif.aux.xml", "map.qml")
    before = {n: (tmp_path / n).read_bytes() for n in names if (tmp_path / n).exists()}
    process = subprocess.Popen(
        [sys.executable, "-m", "polyad", "map", place / "m.polyad", tmp_path / "large.npy",
         "--out", out, "--tile", "64"],
    )  # fmt: skip
    begun = time.monotonic()
    while not any(p.stat().st_size > 2000 for p in tmp_path.glob(".map.tif.part-*")):
        assert process.poll() is None, "mapped too soon to be killed"
        assert time.monotonic() - begun < 60
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    after = {n: (tmp_path / n).read_bytes() for n in names if (tmp_path / n).exists()}
    assert after == before
    assert len(list(Path(tmp_path).glob("map*"))) == len(before)


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
