"""Records and runs: nothing is lost between two writers, two accidents, or a map and its record."""

import threading
from contextlib import suppress

import numpy as np
import pytest

from polyad import durable
from polyad.experiments import runs
from polyad.experiments.records import BrokenRecordWarning, RecordStore
from polyad.experiments.runs import run_all, run_one
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import RunSettings
from polyad.scene.learn.sampling import no_overlap

TINY = "standin-tiny"


def test_lines_set_aside_earlier_stay_when_another_is_set_aside(tmp_path, record_of):
    store, record = RecordStore(tmp_path), record_of(60.0)
    path = tmp_path / f"{record.settings.cell}.jsonl"
    for line in ("first accident", "second accident"):
        store.append(record)
        path.write_text(path.read_text() + line + "\n")
        with pytest.warns(BrokenRecordWarning, match="no whole record"):
            store.load()
    aside = path.with_name(path.name + ".broken").read_text()
    assert aside == "first accident\nsecond accident\n"


def test_two_writers_of_one_cell_lose_no_record(tmp_path, record_of, monkeypatch):
    original, met = durable.replacing, threading.Barrier(2)

    def slow(path):  # both have read the old lines by now, unless one waits for the other
        with suppress(threading.BrokenBarrierError):
            met.wait(timeout=0.5)
        return original(path)

    monkeypatch.setattr(durable, "replacing", slow)
    store = RecordStore(tmp_path)
    writers = [
        threading.Thread(target=store.append, args=(record_of(60.0, seed=seed),)) for seed in (0, 1)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {r.settings.seed for r in store.load()} == {0, 1}


def test_a_run_whose_map_could_not_be_kept_has_no_record(tmp_path, record_of):
    class Full:
        def save(self, cell, class_map):
            raise OSError("disk full")

    store, record = RecordStore(tmp_path), record_of(60.0)
    with pytest.raises(OSError, match="disk full"):
        run_all(
            [record.settings], store, Full(), progress=False,
            spread=lambda _: iter([(record, np.ones((2, 2), np.uint16))]),
        )  # fmt: skip
    assert store.load() == []


def test_a_run_is_scored_on_its_test_pixels_alone_and_each_score_has_its_name(monkeypatch):
    asked, seen = RunSettings(TINY, "svm-spectrum", 5, noise="pixel", seed=1), {}
    original = runs.score

    def watched(true, predicted, no_overlap):
        seen.update(
            true=true, apart=no_overlap, got=original(true, predicted, None, None, no_overlap)
        )
        return seen["got"]

    monkeypatch.setattr(runs, "score", watched)
    record, _ = run_one(asked)
    labels = load_scene(TINY).labels
    split = asked.split(labels)
    np.testing.assert_array_equal(seen["true"], labels[tuple(split.test.T)])
    np.testing.assert_array_equal(seen["apart"], no_overlap(split, labels.shape, 5))
    got = seen["got"]
    assert record.final == {
        "oa": round(got.overall_accuracy, 6),
        "aa": round(got.average_accuracy, 6),
        "kappa": round(got.kappa, 6),
        "oa_no_overlap": round(got.overall_accuracy_no_overlap, 6),
    }
    assert len(set(record.final.values())) == 4


def test_a_long_run_keeps_its_scores_of_the_50th_epoch_and_of_the_last():
    record, _ = run_one(RunSettings(TINY, "rank-1", 2, epochs=52))
    assert set(record.scores) == {"50", "52"}
    assert record.accuracy_at(50) == pytest.approx(100 * record.scores["50"]["oa"], abs=0.01)
