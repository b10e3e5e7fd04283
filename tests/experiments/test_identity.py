"""What the data of a run were: known files, copies saved again, strangers, transposed cubes."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from polyad.cli import main
from polyad.experiments import NothingToRun, identity, reproduce, scenes
from polyad.experiments.identity import Identity, values_sum
from polyad.experiments.paper_names import scene_title
from polyad.experiments.records import Record, RecordStore
from polyad.experiments.scenes import load_scene, present_scenes
from polyad.experiments.standins import STANDINS, make_standin
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES

CUBE, LABELS = make_standin(STANDINS["standin-tiny"])
FAST = {"models": ["svm-spectrum"], "samples_per_class": [5], "noises": ["none"], "runs": 1}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a folder that holds a tiny "Botswana"; its sums are known."""
    home = tmp_path / "data"
    home.mkdir()
    monkeypatch.setenv("POLYAD_DATA", str(home))
    row = KNOWN_SCENES["botswana"]
    write(home, CUBE.round(), LABELS)
    files = [
        replace(file, sha256=hashlib.sha256((home / file.name).read_bytes()).hexdigest())
        for file in row.files
    ]
    tiny = replace(
        row, shape=CUBE.shape, class_names=("a", "b", "c"), cube=files[0], labels=files[1]
    )
    monkeypatch.setitem(KNOWN_SCENES, "botswana", tiny)
    monkeypatch.setitem(identity.LABEL_SUMS, "botswana", values_sum(LABELS))
    load_scene.cache_clear()
    yield home
    load_scene.cache_clear()


def write(home, cube, labels, **options):
    scipy.io.savemat(home / "Botswana.mat", {"Botswana": cube}, **options)
    scipy.io.savemat(home / "Botswana_gt.mat", {"Botswana_gt": labels}, **options)
    load_scene.cache_clear()


def test_the_sums_of_indian_pines_are_known():
    got = load_scene("indian-pines").identity
    assert got.verified
    assert (got.shape, got.low, got.high) == ((145, 145, 200), 955.0, 9604.0)
    assert got.cube == identity.CUBE_SUMS["indian-pines"]
    assert got.labels == identity.LABEL_SUMS["indian-pines"]


def test_a_known_file_is_known_and_its_record_says_so(data, tmp_path):
    reproduce(["botswana"], **FAST, out=tmp_path, progress=False)
    (record,) = RecordStore(tmp_path / "records").load()
    assert record.data.status == "the known files"
    assert record.data == load_scene("botswana").identity
    assert record.data.cube_file == KNOWN_SCENES["botswana"].cube.sha256
    assert Record.from_line(record.to_line()) == record
    assert "| Botswana | 1, at hand now | the known files |" in (tmp_path / "paper.md").read_text()


def test_the_same_values_saved_again_are_known_where_their_sum_is(data, monkeypatch):
    monkeypatch.setitem(identity.CUBE_SUMS, "botswana", values_sum(load_scene("botswana").cube))
    write(data, CUBE.round().astype(np.uint16), LABELS, do_compression=True)
    assert load_scene("botswana").identity.status == "the known values, in another file"


def test_random_numbers_of_the_right_shape_are_refused_and_accepted_under_another_name(
    data, tmp_path
):
    write(data, np.random.default_rng(0).random(CUBE.shape), LABELS)
    present, missing = present_scenes(["botswana"])
    assert present == []
    assert "SHA-256" in missing["botswana"]
    assert "Botswana.mat" in missing["botswana"]
    assert "--accept" in missing["botswana"]
    reproduce(["botswana"], **FAST, out=tmp_path, progress=False, accept=True)
    (record,) = RecordStore(tmp_path / "records").load()
    assert record.settings.scene.startswith("botswana@")
    assert "accepted by the user" in record.data.status
    page = (tmp_path / "paper.md").read_text()
    assert f"| {scene_title(record.settings.scene)} | 1, at hand now |" in page
    assert "| Botswana |" not in page
    assert "--accept" in page


def test_records_of_one_copy_are_not_taken_for_those_of_another(data):
    write(data, CUBE.round() + 1, LABELS)
    ((name,), _) = present_scenes(["botswana"], accept=True)
    assert load_scene(name).identity.mark == name.partition("@")[2]
    write(data, CUBE.round() + 2, LABELS)
    with pytest.raises(scenes.SceneError, match="files of botswana changed"):
        load_scene(name)


@pytest.mark.parametrize("accept", [False, True])
def test_a_transposed_cube_gets_a_sentence(data, accept):
    write(data, CUBE.transpose(2, 0, 1), LABELS)
    _, missing = present_scenes(["botswana"], accept)
    assert "is 12 x 40 x 32, but Botswana is 40 x 32 x 12" in missing["botswana"]
    assert "its axes are transposed" in missing["botswana"]
    write(data, CUBE[:30], LABELS)
    _, missing = present_scenes(["botswana"], accept)
    assert "is 30 x 32 x 12, but" in missing["botswana"]
    assert "its axes are" not in missing["botswana"]


def test_nothing_to_run_ends_with_code_3_and_names_both_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "empty"))
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--scene", "pavia-university", "--out", str(out)])
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "PaviaU.mat and PaviaU_gt.mat are missing" in said
    assert "polyad fetch pavia-university --from PaviaU.mat --from PaviaU_gt.mat" in said
    assert not out.exists()
    with pytest.raises(NothingToRun, match="nothing was run"):
        reproduce(["botswana"], out=out, progress=False)
    assert not out.exists()


def test_a_report_of_records_needs_no_files(data, tmp_path, monkeypatch):
    reproduce(["botswana"], **FAST, out=tmp_path, progress=False)
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "empty"))
    load_scene.cache_clear()
    done = reproduce(["botswana"], **(FAST | {"runs": 0}), out=tmp_path, progress=False)
    assert done.runs_there == 1
    assert "1 of 10" in (tmp_path / "paper.md").read_text()


def test_an_identity_survives_its_record():
    got = Identity("a", "b", None, None, (1, 2, 3), 0.5, 2.0, "made up for tests")
    assert Identity.from_stored(got.to_stored()) == got
