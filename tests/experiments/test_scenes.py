"""What the data of a run were: known files, other files, made scenes."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from polyad.cli import main
from polyad.errors import InputError
from polyad.experiments import NothingToRun, Plan, reproduce
from polyad.experiments.records import RecordStore
from polyad.experiments.scenes import load_scene, make_standin, present_scenes
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES

CUBE, LABELS = make_standin()
PLAN = Plan(["botswana"], ["svm-spectrum"], [5], ["none"], runs=1)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a folder that holds a tiny "Botswana"; its sums are known."""
    home = tmp_path / "data"
    home.mkdir()
    monkeypatch.setenv("POLYAD_DATA", str(home))
    row = KNOWN_SCENES["botswana"]
    scipy.io.savemat(home / "Botswana.mat", {"Botswana": CUBE.round()})
    scipy.io.savemat(home / "Botswana_gt.mat", {"Botswana_gt": LABELS})
    files = [
        replace(file, sha256=hashlib.sha256((home / file.name).read_bytes()).hexdigest())
        for file in row.files
    ]
    tiny = replace(
        row, shape=CUBE.shape, class_names=("a", "b", "c"), cube=files[0], labels=files[1]
    )
    monkeypatch.setitem(KNOWN_SCENES, "botswana", tiny)
    load_scene.cache_clear()
    yield home
    load_scene.cache_clear()


def test_the_sums_of_indian_pines_are_those_of_the_records():
    got = load_scene("indian-pines").identity
    assert (got.shape, got.low, got.high) == ((145, 145, 200), 955.0, 9604.0)
    assert got.cube == "eefaf0b725049c1a1b24f2d9cff12f26ed8048155c638c00f2cd90d7ecb7bae5"
    assert got.labels == "6e3179e9765decc4fd31e07c436cc7962b88db676c4ac48494032273ce537d65"
    assert got.status == "the known values, in another file"


def test_a_known_file_is_known_and_its_record_and_report_say_so(data, tmp_path):
    reproduce(PLAN, out=tmp_path, progress=False)
    (record,) = RecordStore(tmp_path / "records").load()
    assert record.data == load_scene("botswana").identity
    assert record.data.status == "the known files"
    assert record.data.cube_file == KNOWN_SCENES["botswana"].cube.sha256
    line = f"- Botswana, 1 runs: SHA-256 of the values of the cube {record.data.cube[:16]}"
    assert line in (tmp_path / "paper.md").read_text()


def test_random_numbers_of_the_right_shape_are_refused(data):
    noise = np.random.default_rng(0).random(CUBE.shape)
    scipy.io.savemat(data / "Botswana.mat", {"Botswana": noise})
    present, missing = present_scenes(["botswana"])
    assert present == []
    assert f"{data / 'Botswana.mat'} has SHA-256 " in missing["botswana"]
    assert "polyad fetch botswana" in missing["botswana"]


def test_a_report_of_records_needs_no_files(data, tmp_path, monkeypatch):
    reproduce(PLAN, out=tmp_path, progress=False)
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "empty"))
    load_scene.cache_clear()
    done = reproduce(replace(PLAN, runs=0), out=tmp_path, progress=False)
    assert done.runs_there == 1
    assert "| SVM, spectrum | " in (tmp_path / "paper.md").read_text()


def test_nothing_to_run_ends_with_code_3_and_names_the_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "empty"))
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--scene", "pavia-university", "--out", str(out)])
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "PaviaU.mat is missing" in said
    assert "polyad fetch pavia-university --from PaviaU.mat" in said
    assert not out.exists()
    with pytest.raises(NothingToRun, match="nothing was run"):
        reproduce(PLAN, out=out, progress=False)
    assert not out.exists()


def test_an_unknown_scene_lists_the_known_ones():
    with pytest.raises(InputError, match=r"known are indian-pines, .*standin-tiny"):
        present_scenes(["mars"])
