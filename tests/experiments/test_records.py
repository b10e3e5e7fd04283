"""Records: read again as written, whole or set aside; nothing lost between two writers."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from polyad.experiments.records import BrokenRecordWarning, RecordStore, RunRecord, fold, unfold
from polyad.experiments.runs import run_all
from polyad.experiments.settings import Plan
from tests.waiting import wait_until

SCORES = {"3": {"oa": 0.654349, "aa": 0.7, "kappa": 0.5, "oa_no_overlap": None}}


@pytest.fixture
def record(record_of):
    return record_of(60, epochs=3, curve=(5000, 6000, 6543), scores=SCORES)


def test_records_read_again_are_the_same_in_one_file_and_in_their_order(tmp_path, record_of):
    machine = {"processor": "Z80", "instructions": "8 bit", "threads": 1}
    records = [record_of(60.0, machine=machine), record_of(70.0, seed=1)]
    for record in records:
        RecordStore(tmp_path).append(record)
    assert [p.name for p in tmp_path.glob("*.jsonl")] == ["standin-tiny_rank-1_5_none.jsonl"]
    assert RecordStore(tmp_path).load() == records
    assert [r.machine for r in records] == [machine, None]


def test_accuracies_are_percent_and_exact_where_there_are_scores(record):
    assert [record.value(epoch=epoch) for epoch in (1, 2, 4)] == [50.0, 60.0, None]
    assert record.value(epoch=3) == record.accuracies()[-1] == pytest.approx(65.4349, abs=1e-9)
    assert record.value("kappa") == 0.5
    assert record.value("oa_no_overlap") is None


def test_a_model_without_epochs_has_one_accuracy_whatever_the_epoch(record_of):
    run = record_of(62.5, "svm-spectrum", at=[])
    assert [run.value(epoch=epoch) for epoch in (1, 50, None)] == [62.5] * 3
    assert run.value("best") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"curve": [5000]}, "curve must have an accuracy for each of 3 epochs, got 1"),
        ({"scores": {}}, "scores must have the epoch 3"),
        ({"extra": 1}, "record has a key 'extra' that this format does not know"),
        ({"n_test": "many"}, "record.n_test must be a valid integer, got 'many'"),
        ({"settings": {"scene": "tiny", "luck": 7}}, "settings must be those of a run"),
    ],
)
def test_a_record_that_is_not_whole_says_what_is_wrong(record, change, words):
    row = json.loads(record.to_line())
    with pytest.raises(ValueError, match=words):
        RunRecord.from_json(json.dumps(row | change), "record")


@pytest.mark.parametrize(
    "line", ['{"key": "abc", "settings": {"sce', "not json", "[1, 2]", '{"key": "abc"}', "\x00\x00"]
)
def test_a_broken_line_is_reported_with_its_number_and_set_aside(tmp_path, record, line):
    store = RecordStore(tmp_path)
    path = tmp_path / f"{record.run.cell}.jsonl"
    aside = path.with_name(path.name + ".broken")
    for accident in (1, 2):
        store.append(record)
        path.write_text(path.read_text() + line + "\n" + record.to_line() + "\n")
        with pytest.warns(BrokenRecordWarning, match=rf"line {2 * accident} .*aside in .*\.broken"):
            assert store.load() == [record] * 2 * accident
        assert aside.read_text() == (line + "\n") * accident
        assert len(store.load()) == 2 * accident  # and now without a warning


@pytest.mark.parametrize(
    "epochs", [[], [1], [1, 2], [1, 2, 3, 10, 20, 30], [1, 2, 3, 5, 10, 15, 17], [7, 9, 50]]
)
def test_folded_epochs_unfold(epochs):
    assert unfold(fold(epochs)) == epochs


def test_a_run_whose_map_could_not_be_kept_has_no_record(tmp_path, record):
    class Full:
        def save(self, cell, class_map):
            raise OSError("disk full")

    store = RecordStore(tmp_path)
    with pytest.raises(OSError, match="disk full"):
        run_all(
            [record.run], store, Full(), progress=False,
            spread=lambda _: iter([(record, np.ones((2, 2), np.uint16))]),
        )  # fmt: skip
    assert store.load() == []


SCRIPT = """
import sys
from polyad.experiments.settings import Plan
from polyad.experiments.records import RecordStore
from polyad.experiments.runs import run_all
plan = Plan(["standin-tiny"], ["rank-1"], [5], ["none"], runs=400, epochs=2)
run_all(plan.settings(plan.scene), RecordStore(sys.argv[1]), progress=False)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9")
def test_killed_at_any_moment_every_record_is_whole_and_the_rest_is_done_later(tmp_path):
    path = tmp_path / "standin-tiny_rank-1_5_none.jsonl"
    running = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)])

    def begun():
        assert running.poll() is None
        return path.exists() and path.read_text().count("\n") >= 3

    wait_until(begun)
    running.send_signal(signal.SIGKILL)
    running.wait()
    store = RecordStore(tmp_path)
    before = store.load()  # a broken line would warn, and a warning is an error here
    assert len(before) >= 3
    plan = Plan(["standin-tiny"], ["rank-1"], [5], ["none"], len(before) + 2, epochs=2)
    assert run_all(plan.settings(plan.scene), store, progress=False) == 2
    assert [r.run.seed for r in store.load()] == list(range(len(before) + 2))
