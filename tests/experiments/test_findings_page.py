"""The page written by hand quotes what the records say, and the page made from them is theirs."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cnn_tuning, findings_page
from polyad.experiments import paper, reproduce
from polyad.experiments.against import load_turns, render_against
from polyad.experiments.document import NOTES, make_document
from polyad.experiments.models import MODELS
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.report import render_page
from polyad.experiments.results import Results

RESULTS = Path(__file__).parents[2] / "docs/results"
PINES = "indian-pines"

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="no checkout: the records are missing")


@pytest.fixture(scope="module")
def results():
    return Results(RecordStore(RESULTS / "records").load())


def test_every_number_of_the_remarks_is_computed_from_the_records():
    assert (RESULTS / NOTES).read_text() == findings_page.page()


def test_the_settings_of_the_tuned_cnn_are_those_that_the_folds_chose():
    rows = cnn_tuning.load()
    assert min(row["seed"] for row in rows) >= 100  # development seeds
    assert (RESULTS / "cnn-tuning.md").read_text() == cnn_tuning.page(rows)
    taken = cnn_tuning.chosen(rows)
    assert {k: MODELS["cnn-tuned"].settings[k] for k in taken._fields} == taken._asdict()


def test_theorem_1_and_its_corollaries_hold_in_the_records():
    rows = list(map(json.loads, (RESULTS / "approximation.jsonl").read_text().splitlines()))
    assert max(row["error"] for row in rows if row["what"] == "theorem 1") < 1e-12
    for what, size in (("rank", "rank"), ("samples", "samples")):
        errors = {}
        for row in rows:
            if row["what"] == what:
                errors.setdefault(row[size], []).append(row["error"])
        means = [np.mean(errors[k]) for k in sorted(errors)]
        assert means == sorted(means, reverse=True), what


def test_the_published_script_and_ours_came_to_the_same_weights():
    turns = load_turns(RESULTS / "against.jsonl")
    assert max(t.difference for t in turns if (t.precision, t.epoch) == ("float64", 1)) < 1e-11
    assert (RESULTS / "against.md").read_text() == render_against(
        turns, re.search("Made by `(.+?)`", (RESULTS / "against.md").read_text())[1]
    )


def test_a_deviation_such_as_the_papers_was_not_seen(results):
    seen = [np.std(results.accuracies(PINES, "cnn", n, noise), ddof=1)
            for n in (10, 50) for noise in ("none", "pixel", "band-offset")]  # fmt: skip
    assert max(seen) < 14.8 / 2


def test_every_committed_record_keeps_the_hash_of_its_settings(results):
    """Were it another, every run of the published tables would have to be done again."""
    assert len(results.all()) >= 680
    assert [r.key for r in results.all() if r.key != r.settings.key] == []
    assert {r.settings.protocol for r in results.all()} == {"random", "other-fields", "blocks"}
    assert all(r.stored == r.settings.to_stored() for r in results.all())


def test_the_committed_page_is_what_its_records_give(results):
    text = (RESULTS / "paper.md").read_text()
    command = re.search("Made by `(.+?)`", text)[1]
    missing = {scene: "not here" for scene in paper.SCENES if scene != PINES}
    document = make_document(
        results, paper.SCENES, missing, samples=paper.SAMPLES, present=[PINES],
        noises=("none", "pixel", "band-offset"), runs=paper.RUNS, notes=NOTES,
        maps=MapStore(RESULTS / "maps"),
    )  # fmt: skip
    assert text == render_page(document, command)


def test_a_page_links_to_remarks_only_where_there_are_some(tmp_path):
    options = {"runs": 0, "out": tmp_path, "progress": False}
    reproduce(["standin-tiny"], **options)
    assert NOTES not in (tmp_path / "paper.md").read_text()
    shutil.copy(RESULTS / NOTES, tmp_path)
    reproduce(["standin-tiny"], **options)
    assert f"[{NOTES}]({NOTES})" in (tmp_path / "paper.md").read_text()
    assert NOTES in (tmp_path / "report.html").read_text()
