"""The page written by hand quotes what the records say, and the page made from them is theirs."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from polyad.experiments import paper, reproduce
from polyad.experiments.document import NOTES, make_document
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.report import render_page
from polyad.experiments.results import Results, Summary

RESULTS = Path(__file__).parents[2] / "docs/results"
PINES = "indian-pines"

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="no checkout: the records are missing")


@pytest.fixture(scope="module")
def results():
    return Results(RecordStore(RESULTS / "records").load())


@pytest.fixture(scope="module")
def page():
    return " ".join((RESULTS / NOTES).read_text().split())


def rounding():
    rows = map(json.loads, (RESULTS / "rounding.jsonl").read_text().splitlines())
    return {(r["seed"], r["change"], r["precision"]): 100 * r["oa"] for r in rows}


def quotes(results):
    """Return every sentence with numbers, its numbers computed again."""
    cnn = {
        epoch: "{:.0f} and {:.0f} %".format(*results.accuracies(PINES, "cnn", 10, epoch=epoch)[:2])
        for epoch in (50, 200, 500)
    }
    plain, noisy = (
        {epoch: paper.reported(PINES, "cnn", 10, noise, epoch) for epoch in (50, 500)}
        for noise in ("none", "band-offset")
    )
    ours = Summary.of(results.accuracies(PINES, "cnn", 10))
    yield f"{cnn[50]} after 50 epochs (paper: {plain[50].mean:.1f} without noise, "
    yield f"{noisy[50].mean:.1f} with its noise)"
    yield cnn[200].replace(" %", " % and still rising after 200")
    yield f"{cnn[500]} after 500 (paper: {plain[500].mean:.1f} ± {plain[500].deviation:.1f} and "
    yield f"{noisy[500].mean:.1f} ± {noisy[500].deviation:.1f})"
    yield f"({ours.mean:.1f} ± {ours.deviation:.1f} over {ours.runs} runs)"
    yield f"A deviation of {plain[500].deviation:.1f} we did not see"
    oa = rounding()
    columns = [(change, f"float{bits}") for bits, changes in (
        (32, ("as it is", "band offset", "last bits")), (64, ("as it is", "band offset"))
    ) for change in changes]  # fmt: skip
    seeds = sorted({seed for seed, _, _ in oa})
    for seed in seeds:
        yield " | ".join([f"| {seed}", *(f"{oa[seed, *column]:.2f}" for column in columns)]) + " |"
    moved = {
        column: [abs(oa[seed, *column] - oa[seed, "as it is", column[1]]) for seed in seeds]
        for column in columns
    }
    yield f"by {max(moved['band offset', 'float64']):.1f} points at most"
    for change in ("band offset", "last bits"):
        low, high = (f(moved[change, "float32"]) for f in (min, max))
        yield f"by {low:.1f} to {high:.1f}"


def test_every_number_of_the_remarks_is_that_of_the_records(page, results):
    sentences = list(quotes(results))
    assert [s for s in sentences if " ".join(s.split()) not in page] == []


def test_the_remarks_have_no_number_that_no_record_has(page, results):
    quoted = set(re.findall(r"\d+\.\d+", " ".join(quotes(results))))
    assert set(re.findall(r"\d+\.\d+", page)) == quoted


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
