"""`polyad map`: from real files to real files, and when it is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine

from land import BANDS, CORNER, HEIGHT, NAMES, QUICK, WIDTH, as_json, pixels, run, truth, write_envi
from polyad.errors import SceneError
from polyad.scene import draw_sample
from polyad.scene.files.paths import sample_of
from polyad.scene.learn.model import SceneModel
from tests.waiting import wait_until


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
    result = as_json(capsys, "map", model, place / scene, "--out", out, "--tile", 17)
    assert result["pixels"] == HEIGHT * WIDTH
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
    scores = as_json(capsys, "evaluate", model, place / scene, place / "truth.tif")
    assert scores["overall_accuracy"] > 0.9


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


def test_a_map_named_like_model_and_scene_is_replaced_by_the_next_one(place, tmp_path):
    for name in ("bil.hdr", "bil.img"):
        shutil.copy(place / name, tmp_path / name)
    shutil.copy(place / "m.polyad", tmp_path / "bil.polyad")
    for _ in range(2):
        command = ("map", tmp_path / "bil.polyad", tmp_path / "bil.hdr")
        assert run(*command, "--out", tmp_path / "bil.tif") == 0


@pytest.mark.parametrize("moment", ["polyad.map_file", "polyad.cli.program.make_app"])
def test_ctrl_c_ends_a_command_with_a_sentence(place, tmp_path, monkeypatch, capsys, moment):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, interrupt, raising=False)
    out = tmp_path / "map.tif"
    assert run("map", place / "m.polyad", place / "bil.hdr", "--out", out) == 130
    assert "polyad: interrupted; no partial files were left" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.unix
@pytest.mark.parametrize("kind", [RuntimeError, OSError, SceneError])
def test_ctrl_c_that_a_library_turns_into_an_error_is_an_interrupt(
    place, tmp_path, monkeypatch, capsys, kind
):
    def interrupted(*args, **kwargs):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise kind("callback failed") from None

    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("polyad.map_file", interrupted)
    command = ("map", place / "m.polyad", place / "bil.hdr", "--out", tmp_path / "map.tif")
    assert run(*command) == 130
    assert capsys.readouterr().err.endswith("no partial files were left, run it again\n")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_map_is_replaced_with_a_word_unless_a_sample_was_drawn_from_it(place, tmp_path, capsys):
    out, sample = tmp_path / "map.tif", tmp_path / "sample.csv"
    command = ("map", place / "m.polyad", place / "bsq.hdr", "--out", out)
    assert run(*command) == 0
    assert "earlier" not in capsys.readouterr().out
    assert run(*command) == 0
    assert f"map: {out} in place of the earlier one" in capsys.readouterr().out
    assert run("sample", out, "--size", 40, "--out", sample) == 0
    assert run(*command) == 2
    assert "sample.csv is a sample that was drawn from map.tif" in capsys.readouterr().err
    assert run(*command[:-1], tmp_path / "other.tif") == 0
    assert run(*command, "--force") == 0


@pytest.mark.parametrize("ending", [".csv", ".geojson", ".gpkg"])
def test_a_sample_of_any_kind_is_found_by_the_name_of_its_map(tmp_path, ending):
    if ending == ".gpkg":
        pytest.importorskip("pyogrio")
    ids = np.arange(1, 13, dtype=np.uint8).reshape(3, 4)
    places = {"y": [2.5, 1.5, 0.5], "x": np.arange(4) + 0.5}
    land = xr.DataArray(ids, dims=("y", "x"), coords=places)
    sample = draw_sample(land.rio.write_crs("EPSG:32633"), 12)
    sample.save(tmp_path / f"s{ending}", source="maps/a map.tif", blind=True)
    assert sample_of(tmp_path / "a map.tif") == tmp_path / f"s{ending}"
    assert sample_of(tmp_path / "map.tif") is None
    assert sample_of(tmp_path / "a map.tiff") is None


def test_an_ending_may_be_given_without_its_dot(place, tmp_path):
    command = ("map", place / "m.polyad", place / "bsq.hdr", "--out-dir", tmp_path)
    assert run(*command, "--ending", "npy") == 0
    assert (tmp_path / "bsq.npy").exists()


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


def test_a_warning_is_one_line_without_file_and_source(place, best, tmp_path):
    write_envi(tmp_path / "other.hdr", pixels() + 1, "bil")
    done = subprocess.run(
        [sys.executable, "-m", "polyad", "map", best, tmp_path / "other.hdr",
         "--out", tmp_path / "map.tif"], capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith("polyad: warning: this model was trained for the scene")
    assert "--goal other-scenes" in line


@pytest.mark.slow
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

    def half_written():
        assert process.poll() is None, "mapped too soon to be killed"
        return any(p.stat().st_size > 2000 for p in tmp_path.glob(".map.tif.part-*"))

    wait_until(half_written)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    after = {n: (tmp_path / n).read_bytes() for n in names if (tmp_path / n).exists()}
    assert after == before
    assert len(list(Path(tmp_path).glob("map*"))) == len(before)
