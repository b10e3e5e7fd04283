import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from polyad.app.journal import journal_path
from polyad.app.labels import Session
from polyad.errors import InputError


@pytest.fixture
def holed(scene, tmp_path):
    """A session of a scene whose first five columns have no data in one band."""
    values = scene.values.copy()
    values[:, :5, 3] = np.nan
    session = Session(scene.copy(data=values), journal=tmp_path / "j")
    session.do({"do": "add", "name": "Water"})
    yield session
    session.close()


def test_a_pixel_without_data_is_not_labeled(holed):
    revision = holed.label_state.revision
    with pytest.raises(InputError, match=r"not labeled: pixel \[3, 4\] has no data"):
        holed.do({"do": "label", "class": 1, "pixels": [[3, 4]]})
    with pytest.raises(InputError, match="not labeled: all 2 pixels have no data"):
        holed.do({"do": "label", "class": 1, "pixels": [[3, 4], [3, 3]]})
    assert (holed.label_state.labels, holed.label_state.revision) == ({}, revision)


def test_a_stroke_labels_its_pixels_with_data_and_says_how_many_have_none(holed):
    answer = holed.do({"do": "label", "class": 1, "pixels": [[3, 3], [3, 4], [3, 5]]})
    assert (answer["labels"], answer["skipped"]) == ([[3, 5, 1]], 2)
    assert holed.do({"do": "label", "class": 0, "pixels": [[3, 4], [3, 5]]})["skipped"] == 0


def test_a_session_comes_back_as_it_was_with_undo_and_redo(scene, tmp_path):
    first = Session(scene, journal=tmp_path / "j")
    first.do({"do": "add", "name": "Water"})
    for k in range(4):
        first.do({"do": "label", "class": 1, "pixels": [[k, k]]})
    first.do({"do": "undo"})
    state = first.state()
    first.close()
    second = Session(scene, journal=tmp_path / "j")
    assert second.state() == state
    second.do({"do": "redo"})
    assert (3, 3) in second.label_state.labels
    second.close()


def test_listeners_hear_of_each_change_once_and_in_order(scene, tmp_path):
    session = Session(scene, journal=tmp_path / "j")
    heard = []
    session.listen(lambda _, answer: heard.append((answer["before"], answer["revision"])))
    session.do({"do": "add", "name": "Water"})
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})
    session.do({"do": "label", "class": 1, "pixels": [[0, 0]]})  # nothing new
    session.close()
    assert heard == [(0, 1), (1, 2)]


def test_a_label_file_is_loaded_once(scene, truth, tmp_path):
    session = Session(scene, journal=tmp_path / "j")
    some = truth.copy(data=np.where(np.arange(truth.size).reshape(truth.shape) % 97, 0, truth))
    session.load(some, "digest")
    assert len(session.label_state.labels) == int((some > 0).sum())
    session.do({"do": "undo"})
    session.close()
    session = Session(scene, journal=tmp_path / "j")
    session.load(some, "digest")
    assert session.label_state.labels == {}  # it was taken back on purpose
    session.close()


KILLED = """
import sys
from pathlib import Path
import numpy as np, xarray as xr
from polyad.app.labels import Session
scene = xr.DataArray(np.zeros((50, 50, 2), np.float32), dims=("y", "x", "band"))
session = Session(scene, journal=Path(sys.argv[1]))
session.do({"do": "add", "name": "Water"})
for k in range(2500):
    session.do({"do": "label", "class": 1, "pixels": [[k // 50, k % 50]]})
    print(k, flush=True)
"""


@pytest.mark.slow
def test_kill_9_loses_no_label_that_was_answered(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "j")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        answered = [int(process.stdout.readline()) for _ in range(40)]
        os.kill(process.pid, signal.SIGKILL)
        answered += [int(line) for line in process.stdout if line.endswith("\n")]
    blank = xr.DataArray(np.zeros((50, 50, 2), np.float32), dims=("y", "x", "band"))
    session = Session(blank, journal=tmp_path / "j")
    labels = set(session.label_state.labels)
    session.close()
    assert {(k // 50, k % 50) for k in answered} <= labels
    assert len(labels) <= len(answered) + 1  # at most the one in flight


def test_the_journal_lies_beside_the_scene_or_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYAD_DATA", str(tmp_path / "data"))
    (tmp_path / "s.tif").touch()
    assert journal_path(str(tmp_path / "s.tif"), "f") == tmp_path / "s.tif.labels.jsonl"
    (tmp_path / "s.mat").touch()
    assert journal_path(f"{tmp_path}/s.mat:/a b", "f").name == "s.mat.-a-b.labels.jsonl"
    assert journal_path("indian-pines", "f") == tmp_path / "data/labels/indian-pines.jsonl"
    assert journal_path(None, "f") == tmp_path / "data/labels/f.jsonl"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert journal_path(str(tmp_path / "s.tif"), "f").parent == tmp_path / "data/labels"
