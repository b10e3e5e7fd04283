"""Records: whole or absent, never silently dropped."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from polyad.experiments.records import (
    BrokenRecordWarning,
    Record,
    RecordStore,
    fold,
    unfold,
)
from polyad.experiments.settings import RunSettings
from tests.waiting import wait_until


@pytest.fixture
def record():
    settings = RunSettings("standin-tiny", "rank-1", 5, epochs=3)
    return Record(
        settings,
        settings.key,
        ((1, 3, 1),),
        (5000, 6000, 6543),
        {"3": {"oa": 0.6543, "aa": 0.7, "kappa": 0.5, "oa_no_overlap": None}},
        n_train=15,
        n_test=100,
        n_test_no_overlap=0,
        parameters=42,
        seconds={"fit": 1.0, "evaluate": 0.5},
        versions={"polyad": "0"},
        stored=settings.to_stored(),
    )


def test_a_record_read_again_is_the_same(tmp_path, record):
    store = RecordStore(tmp_path)
    store.append(record)
    assert RecordStore(tmp_path).load() == [record]
    assert store.keys() == {record.settings.key}


def test_accuracies_come_back_in_percent(record):
    assert record.accuracy_at(2) == 60.0
    assert record.accuracy_at(4) is None
    assert record.accuracies()[-1] == pytest.approx(65.43)


def test_an_accuracy_that_has_scores_is_not_rounded(record):
    scores = {"3": record.scores["3"] | {"oa": 0.654349}}
    exact = replace(record, scores=scores)
    assert exact.accuracy_at(3) == exact.accuracies()[-1] == pytest.approx(65.4349, abs=1e-9)


def test_processor_and_threads_are_recorded_and_older_records_have_none(tmp_path, record):
    machine = {"processor": "Z80", "instructions": "8 bit", "threads": 1}
    store = RecordStore(tmp_path)
    store.append(replace(record, machine=machine))
    store.append(record)
    assert [r.machine for r in store.load()] == [machine, None]


def test_runs_of_one_cell_share_a_file_and_keep_their_order(tmp_path, record):
    store = RecordStore(tmp_path)
    second = replace(record.settings, seed=1)
    store.append(record)
    store.append(replace(record, settings=second, key=second.key, stored=second.to_stored()))
    assert [p.name for p in tmp_path.glob("*.jsonl")] == ["standin-tiny_rank-1_5_none.jsonl"]
    assert [r.settings.seed for r in store.load()] == [0, 1]


@pytest.mark.parametrize(
    "line",
    [
        '{"key": "abc", "settings": {"sce',
        "not json",
        "[1, 2]",
        '{"key": "abc"}',
        "\x00\x00\x00",
    ],
)
def test_a_broken_line_is_reported_with_its_number_and_set_aside(tmp_path, record, line):
    store = RecordStore(tmp_path)
    store.append(record)
    path = tmp_path / f"{record.settings.cell}.jsonl"
    path.write_text(path.read_text() + line + "\n" + record.to_line() + "\n")
    with pytest.warns(BrokenRecordWarning, match=r"line 2 .*set aside in .*\.broken"):
        assert len(store.load()) == 2
    assert path.with_name(path.name + ".broken").read_text() == line + "\n"
    assert len(path.read_text().splitlines()) == 2
    assert len(store.load()) == 2  # and now without a warning


def test_a_curve_that_misses_epochs_is_broken(record):
    row = json.loads(record.to_line())
    row["curve"].pop()
    with pytest.raises(ValueError, match="2 accuracies for 3 epochs"):
        Record.from_line(json.dumps(row))


def test_a_line_left_open_spoils_only_itself(tmp_path, record):
    store = RecordStore(tmp_path)
    path = tmp_path / f"{record.settings.cell}.jsonl"
    path.write_text('{"key": "torn')
    store.append(record)
    with pytest.warns(BrokenRecordWarning, match="line 1"):
        assert store.load() == [record]


@pytest.mark.parametrize(
    "epochs", [[], [1], [1, 2], [1, 2, 3, 10, 20, 30], [1, 2, 3, 5, 10, 15, 17], [7, 9, 50]]
)
def test_folded_epochs_unfold(epochs):
    assert unfold(fold(epochs)) == epochs


SCRIPT = """
import sys
from polyad.experiments.settings import plan_runs
from polyad.experiments.records import RecordStore
from polyad.experiments.runs import run_all
plan = plan_runs(["standin-tiny"], ["rank-1"], [5], ["none"], runs=400, epochs=2)
run_all(plan, RecordStore(sys.argv[1]), progress=False)
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
    from polyad.experiments.runs import run_all
    from polyad.experiments.settings import plan_runs

    store = RecordStore(tmp_path)
    before = store.load()  # a broken line would warn, and a warning is an error here
    assert len(before) >= 3
    plan = plan_runs(["standin-tiny"], ["rank-1"], [5], ["none"], len(before) + 2, epochs=2)
    assert run_all(plan, store, progress=False) == 2
    assert [r.settings.seed for r in store.load()] == list(range(len(before) + 2))
