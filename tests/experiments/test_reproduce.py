"""``polyad reproduce``: from arguments to records, tables, figures, page and report."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyad.cli import main
from polyad.errors import InputError, SceneMismatch
from polyad.experiments import paper, reproduce
from polyad.experiments.records import RecordStore, RunRecord
from polyad.experiments.report import NOTES, Report
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import Plan
from polyad.experiments.statistics import Cell, Results
from polyad.experiments.tables import MISSING, expected_parameters
from polyad.scene import FixedSplit, RandomPerClass

TINY = "standin-tiny"
RESULTS = Path(__file__).parents[2] / "docs/results"
COMMITTED = RESULTS / "records/indian-pines_rank-1_10_none.jsonl"
PLAN = Plan([TINY, "botswana"], ["rank-1", "rank-2", "cnn", "svm-spectrum"], [5], runs=3, epochs=3)
published = pytest.mark.skipif(not RESULTS.exists(), reason="no checkout: the records are missing")


def call(*arguments):
    """Run the command line; return its exit code."""
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *map(str, arguments)])
    return end.value.code or 0


@pytest.fixture(autouse=True, scope="module")
def no_scenes(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("POLYAD_DATA", str(tmp_path_factory.mktemp("empty")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    done = reproduce(PLAN, out=folder, progress=False)
    assert done.runs_done == 36
    assert list(done.missing) == ["botswana"]
    return folder


def table(out, name):
    return list(csv.reader(io.StringIO((out / f"tables/{name}.csv").read_text())))


def test_everything_is_written_and_a_second_call_does_no_run(out):
    names = {p.name for p in out.rglob("*") if p.is_file()}
    assert {"paper.md", "table-2.csv", f"table-3-{TINY}.md"} <= names
    for figure in ("figure-1", "figure-2", "figure-3", "figure-4", "figure-5", f"errors-{TINY}"):
        assert {f"{figure}.svg", f"{figure}.png"} <= names
    assert {"table-1-none-5.csv", "table-4-pixel-5.csv", "table-4-band-offset-5.csv"} <= names
    before = (out / "paper.md").read_text()
    assert reproduce(PLAN, out=out, progress=False).runs_done == 0
    assert (out / "paper.md").read_text() == before


def test_the_page_names_the_missing_scene_and_fills_no_cell_of_it(out):
    page = (out / "paper.md").read_text()
    assert "polyad fetch botswana" in page
    assert str(Path.home()) not in page
    text = page.split("### Table 1")[1].split("###")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| Rank-1")]
    assert rows
    assert all("±" in row[2] and row[3].strip()[0] == MISSING for row in rows)


def test_means_in_the_csv_are_those_of_the_records(out):
    results = Results(RecordStore(out / "records").load())
    rows = table(out, "table-1-none-5")
    assert rows[0][1:4] == [f"{TINY}: mean", f"{TINY}: sd", f"{TINY}: runs"]
    for row, model in ((rows[1], "rank-1"), (rows[-1], "svm-spectrum")):
        values = results.values(Cell(TINY, model, 5))
        assert float(row[1]) == pytest.approx(np.mean(values), abs=1e-2)
        assert float(row[2]) == pytest.approx(np.std(values, ddof=1), abs=1e-2)
        assert row[3] == "3"


def test_other_protocols_have_their_own_table_and_leave_the_papers_alone(tmp_path):
    plan = Plan([TINY], ["rank-1", "svm-spectrum"], [5], ["none"], runs=3, epochs=3)
    reproduce(plan, out=tmp_path, progress=False)
    alone = table(tmp_path, "table-1-none-5")
    assert "Every protocol" not in (tmp_path / "paper.md").read_text()
    plan = replace(plan, protocol=["random", "blocks", "other-fields"])
    done = reproduce(plan, out=tmp_path, progress=False)
    assert done.runs_done == 12
    assert table(tmp_path, "table-1-none-5") == alone
    page = (tmp_path / "paper.md").read_text()
    assert "--protocol random --protocol blocks --protocol other-fields" in page
    results = Results(RecordStore(tmp_path / "records").load())
    row = next(r for r in table(tmp_path, f"protocols-{TINY}") if r[0].startswith("Rank-1"))
    for value, protocol in zip(row[13::6], ("other-fields", "blocks"), strict=True):
        values = results.values(Cell(TINY, "rank-1", 5, protocol=protocol))
        assert value == f"{np.mean(values):.4f}"


def test_a_report_alone_does_no_run_and_links_to_remarks_only_where_there_are_some(tmp_path):
    done = reproduce(Plan([TINY], runs=0), out=tmp_path, progress=False)
    assert done.runs_done == done.runs_there == 0
    assert "not run" in (tmp_path / "paper.md").read_text()
    assert NOTES not in (tmp_path / "paper.md").read_text()
    (tmp_path / NOTES).write_text("Mine.")
    reproduce(Plan([TINY], runs=0), out=tmp_path, progress=False)
    assert f"[{NOTES}]({NOTES})" in (tmp_path / "paper.md").read_text()


# --- the command ---------------------------------------------------------------------------------


def test_an_option_takes_several_values_in_a_row_or_one_by_one(tmp_path, capsys):
    asked = f"--scene={TINY} --model rank-1 rank-2 --samples-per-class 5 10 --noise none"
    asked += " --noise pixel --runs 1 --epochs 1 --jobs 1 --json"
    assert call(*asked.split(), "--out", tmp_path) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs_done"] == 2 * 2 * 2
    assert said["report"] == str(tmp_path / "paper.md")
    assert (tmp_path / "paper.md").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--model rank-9", "known are rank-1"),
        ("--noise-level 0.1 20", "must be above 0 and at most 1"),
        ("--scene mars", "known are indian-pines"),
        ("--jobs 0", "jobs must be at least 1, got 0"),
        ("--epochs 0", "epochs must be at least 1, got 0"),
        ("--runs 1 2", "unexpected extra argument"),
        ("--train half.npy", "given together with test"),
    ],
)
def test_what_cannot_be_run_ends_with_one_sentence_and_nothing_written(
    option, words, tmp_path, capsys
):
    assert call(*option.split(), "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


# --- published splits ----------------------------------------------------------------------------


def rasters(seed=0):
    """Return a random split of the tiny scene as two rasters."""
    labels = load_scene(TINY).labels
    split = RandomPerClass(7).split(labels, seed)
    train, test = np.zeros_like(labels), np.zeros_like(labels)
    for raster, pixels in ((train, split.train), (test, split.test[::2])):
        raster[tuple(pixels.T)] = labels[tuple(pixels.T)]
    return train, test


def test_a_published_split_is_run_on_its_pixels_and_another_raster_is_another_split(
    tmp_path, capsys
):
    paths = [tmp_path / "train.npy", tmp_path / "test.npy"]
    asked = ["--scene", TINY, "--model", "svm-spectrum", "--noise", "none", "--runs", "2"]
    asked += ["--train", paths[0], "--test", paths[1], "--out", tmp_path / "out", "--json"]
    for seed, done in ((0, 2), (0, 0), (1, 2)):
        for path, raster in zip(paths, rasters(seed), strict=True):
            np.save(path, raster)
        assert call(*asked) == 0
        assert json.loads(capsys.readouterr().out)["runs_done"] == done
    page = (tmp_path / "out/paper.md").read_text()
    assert f"--train {paths[0]} --test {paths[1]}" in page
    assert "Splits made by others" in page
    for seed in (0, 1):
        train, test = rasters(seed)
        name, sizes = FixedSplit(train, test).name, ((train > 0).sum(), (test > 0).sum())
        records = RecordStore(tmp_path / "out/records").load()
        found = [(r.n_train, r.n_test) for r in records if r.run.protocol == name]
        assert found == [sizes] * 2
        assert f"SVM, spectrum, {name}, no noise ({sizes[0]} and {sizes[1]} pixels) | " in page


@pytest.mark.parametrize(
    ("train", "test", "kind", "words"),
    [
        ([[1, 2]], [[1, 0]], InputError, "1 pixels are labeled for training and for test"),
        ([[1, 2]], [[0], [1]], SceneMismatch, r"\(1, 2\) pixels and test labels \(2, 1\)"),
        ([[1, 2, 0]], [[0, 0, 3]], SceneMismatch, "class 3, which has no training pixel"),
        ([[1, 2]], [[0, 0]], InputError, "test labels hold no labeled pixel"),
    ],
)
def test_rasters_that_are_no_split_are_refused(train, test, kind, words):
    with pytest.raises(kind, match=words):
        FixedSplit(np.array(train), np.array(test))


def test_rasters_of_another_scene_are_refused():
    given = FixedSplit(np.array([[1, 2, 0, 0]]), np.array([[0, 0, 1, 2]]))
    with pytest.raises(SceneMismatch, match="rasters of the split are 1 x 4, the scene is 2 x 2"):
        given.split(np.ones((2, 2), int), seed=0)


# --- the published records -----------------------------------------------------------------------


@published
def test_the_committed_page_is_what_its_records_give(monkeypatch):
    monkeypatch.chdir(RESULTS.parents[1])
    missing = {scene: "not here" for scene in paper.SCENES if scene != "indian-pines"}
    report = Report(Path("docs/results"), Plan(), missing)
    assert (RESULTS / "paper.md").read_text() == report.markdown()


@published
def test_every_committed_record_keeps_its_settings_hash_and_parameters():
    """Were the hash another, every run of the published tables would have to be done again."""
    records = RecordStore(RESULTS / "records").load()
    assert len(records) == 760
    assert [r.key for r in records if r.key != r.run.key] == []
    assert {r.run.protocol for r in records} == {"random", "other-fields", "blocks"}
    assert all(r.settings == r.run.to_stored() for r in records)
    for r in records:
        if r.run.model in paper.PAPER_MODELS and r.run.protocol == "random":
            assert r.parameters == expected_parameters(r.run.model, 200, 16)


@published
def test_a_cell_of_table_one_comes_out_again_from_its_command(tmp_path):
    """Rank-1, 10 samples per class, no noise, 50 epochs: all ten seeds."""
    command = "--scene indian-pines --model rank-1 --samples-per-class 10 --noise none --epochs 50"
    assert call(*command.split(), "--out", tmp_path) == 0
    records = [RunRecord.from_json(line, "record") for line in COMMITTED.read_text().splitlines()]
    again, first = (
        sorted(found, key=lambda r: r.run.seed)  # they come in as they finish
        for found in (RecordStore(tmp_path / "records").load(), records)
    )
    assert [r.run.seed for r in again] == [r.run.seed for r in first] == list(range(10))
    # in percent: another machine rounds otherwise, and epochs amplify it
    at = [epoch for epoch in again[0].curve_epochs if epoch <= 20] + [50]
    ours, theirs = (np.array([[r.value(epoch=e) for e in at] for r in p]) for p in (again, first))
    assert np.abs(ours - theirs)[:, :-1].max() < 0.5
    assert abs(ours[:, -1].mean() - theirs[:, -1].mean()) < 0.2
    assert [(r.n_train, r.n_test, r.parameters) for r in again] == [
        (r.n_train, r.n_test, 16950) for r in first
    ]
