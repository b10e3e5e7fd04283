"""Published splits: two rasters from the user's disk, on the command line and as a protocol."""

import json

import numpy as np
import pytest

from polyad.cli import main
from polyad.errors import InputError, SceneMismatch
from polyad.experiments.records import RecordStore
from polyad.experiments.scenes import load_scene
from polyad.scene import FixedSplit, RandomPerClass

TINY = "standin-tiny"


def rasters(seed=0):
    """Return a random split of the tiny scene as two rasters."""
    labels = load_scene(TINY).labels
    split = RandomPerClass(7).split(labels, seed)
    train, test = np.zeros_like(labels), np.zeros_like(labels)
    for raster, pixels in ((train, split.train), (test, split.test[::2])):
        raster[tuple(pixels.T)] = labels[tuple(pixels.T)]
    return train, test


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "train.npy", tmp_path / "test.npy"]
    for path, raster in zip(paths, rasters(), strict=True):
        np.save(path, raster)
    return [str(path) for path in paths]


def call(files, out, *more):
    asked = ["--scene", TINY, "--model", "svm-spectrum", "--noise", "none", "--runs", "2"]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *asked, "--train", files[0], "--test", files[1], "--out", str(out),
              "--json", *more])  # fmt: skip
    return end.value.code or 0


def test_a_published_split_is_run_on_its_pixels_and_has_a_table(files, tmp_path, capsys):
    assert call(files, tmp_path / "out") == 0
    assert json.loads(capsys.readouterr().out)["runs_done"] == 2
    train, test = rasters()
    records = RecordStore(tmp_path / "out/records").load()
    assert [(r.n_train, r.n_test) for r in records] == [((train > 0).sum(), (test > 0).sum())] * 2
    name = FixedSplit(train, test).name
    assert {r.settings.protocol for r in records} == {name}
    page = (tmp_path / "out/paper.md").read_text()
    assert "Splits made by others" in page
    assert f"SVM, spectrum, {name}, no noise | 21 and " in page
    assert f"--train {files[0]} --test {files[1]}" in page
    assert call(files, tmp_path / "out") == 0
    assert json.loads(capsys.readouterr().out)["runs_done"] == 0


def test_another_raster_is_another_split(files, tmp_path, capsys):
    call(files, tmp_path / "out")
    np.save(files[0], rasters(seed=1)[0])
    np.save(files[1], rasters(seed=1)[1])
    capsys.readouterr()
    call(files, tmp_path / "out")
    assert json.loads(capsys.readouterr().out)["runs_done"] == 2


def test_half_a_split_is_refused(files, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "--scene", TINY, "--train", files[0], "--out", str(tmp_path)])
    assert "give both" in capsys.readouterr().err


def test_the_split_is_that_of_the_rasters_whatever_the_seed():
    train, test = rasters()
    given = FixedSplit(train, test)
    first, second = (given.split(given.labels, seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.train, np.argwhere(train))
    np.testing.assert_array_equal(first.test, second.test)
    assert given.name != FixedSplit(*rasters(seed=1)).name


@pytest.mark.parametrize(
    ("train", "test", "kind", "words"),
    [
        ([[1, 2]], [[1, 0]], InputError, "1 pixels are in the training and in the test raster"),
        ([[1, 2]], [[0], [1]], SceneMismatch, "1 x 2, the test raster 2 x 1"),
        ([[1, 2, 0]], [[0, 0, 3]], InputError, "classes without a training pixel: 3"),
        ([[1, 2]], [[0, 0]], InputError, "test raster has no labeled pixel"),
    ],
)
def test_rasters_that_are_no_split_are_refused(train, test, kind, words):
    with pytest.raises(kind, match=words):
        FixedSplit(np.array(train), np.array(test))


def test_rasters_of_another_scene_are_refused():
    given = FixedSplit(np.array([[1, 2, 0, 0]]), np.array([[0, 0, 1, 2]]))
    with pytest.raises(SceneMismatch, match="rasters of the split are 1 x 4, the scene is 2 x 2"):
        given.split(np.ones((2, 2), int), seed=0)
