"""The files of a sample being checked: what of them is kept, and what is refused at the start."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from affine import Affine

from polyad.app import launch
from polyad.app.checklist import CheckWorkspace
from polyad.errors import InputError, OutputError, PolyadError, SceneError
from polyad.scene.raster.scene import describe

PLACE = {"crs": "EPSG:32632", "transform": Affine(30.0, 0.0, 500000.0, 0.0, -30.0, 5200000.0)}
HEAD = ("id", "row", "col", "map_class", "map_name", "reference")
LINES = (
    ("1", "0", "0", "1", "A", ""),
    ("2", "1", "2", "2", "B", ""),
    ("3", "3", "1", "3", "C", ""),
)


@pytest.fixture(scope="module")
def scene():
    values = np.random.default_rng(0).uniform(size=(6, 5, 4)).astype(np.float32)
    return describe(xr.DataArray(values, dims=("y", "x", "band")), **PLACE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, lines=LINES, head=HEAD):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([head, *lines])
    return path


def rows(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def points(path, *records):
    """Write a GeoJSON of points in the scene, with a record of fields each."""
    shapes = [{"type": "Point", "coordinates": [9.0002 + k * 4e-4, 46.953]} for k in range(9)]
    features = [
        {"type": "Feature", "geometry": shape, "properties": record}
        for shape, record in zip(shapes, records, strict=False)
    ]
    Path(path).write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def refused(folder, words, scene, sample, kind=PolyadError, **options):
    """Whether a start is refused in these words, and leaves every file as it was."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(kind, match=words):
        CheckWorkspace(scene, sample, **options).close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# -- notes that are there --------------------------------------------------------------------------


NOTES = ("flooded in May", "", "x" * 700 + "\n\ty")


def noted(path):
    lines = [(*line, note) for line, note in zip(LINES, NOTES, strict=True)]
    return table(path, lines, (*HEAD, "note"))


@pytest.mark.parametrize("out", ["n.csv", "o.csv"])
def test_a_note_of_the_sample_stays_when_its_point_is_answered(scene, folder, out):
    for value in (1, 2):  # the second time from journal and file
        workspace = CheckWorkspace(scene, noted("n.csv") if value == 1 else "n.csv", out=out)
        for k in range(3):
            workspace.do({"point": k, "class": value})
        workspace.close()
        assert [row["note"] for row in rows(out)] == [*NOTES[:2], NOTES[2].strip()]
        assert {row["reference"] for row in rows(out)} == {"AB"[value - 1]}


def test_the_page_shows_a_note_of_the_sample_and_another_takes_its_place(scene, folder):
    workspace = CheckWorkspace(scene, noted("n.csv"))
    shown = {k: note for k, _, _, note in workspace.state()["answers"]}
    assert shown == {0: NOTES[0], 2: NOTES[2].strip()}
    workspace.do({"point": 0, "unsure": True, "note": NOTES[0]})
    workspace.do({"point": 2, "class": 1, "note": "other"})
    workspace.close()
    said = [row["note"] for row in rows("n-checked.csv")]
    assert said == [f"cannot tell: {NOTES[0]}", "", "other"]


def test_an_answer_taken_back_leaves_the_note_of_the_sample_and_no_other(scene, folder):
    for out in ("o.csv", "n.csv"):
        workspace = CheckWorkspace(scene, noted("n.csv"), out=out)
        workspace.do({"point": 0, "class": 1, "note": "mine"})
        workspace.do({"point": 1, "unsure": True, "note": "mine"})
        workspace.close()
        workspace = CheckWorkspace(scene, "n.csv", out=out)
        workspace.do({"point": 0, "class": 0, "note": ""})
        workspace.do({"point": 1, "class": 0, "note": ""})
        workspace.close()
        assert rows(out)[1]["note"] == ""
    assert rows("o.csv")[0]["note"] == NOTES[0]


# -- one file, one writer --------------------------------------------------------------------------


def test_a_second_checker_of_one_output_is_refused_until_the_first_ends(scene, folder):
    first = CheckWorkspace(scene, table("s.csv"), out="o.csv", journal="a.jsonl")
    refused(folder, "o.csv: it is in use, another polyad", scene, "s.csv", OutputError,
            out="o.csv", journal="b.jsonl")  # fmt: skip
    refused(folder, "is in use", scene, "s.csv", OutputError, out=folder / "o.csv")
    first.close()
    CheckWorkspace(scene, "s.csv", out="o.csv", journal="b.jsonl").close()
    assert sorted(p.name for p in folder.iterdir()) == ["a.jsonl", "b.jsonl", "o.csv", "s.csv"]


@pytest.mark.unix
def test_a_link_to_an_output_being_written_is_refused(scene, folder):
    first = CheckWorkspace(scene, table("s.csv"), out="o.csv")
    Path("link.csv").symlink_to("o.csv")
    refused(folder, "link.csv: it is in use", scene, "s.csv", OutputError, out="link.csv")
    first.close()


def test_an_output_that_is_its_own_journal_is_refused(scene, folder):
    table("s.csv")
    for journal in ("o.csv", folder / "o.csv"):
        refused(folder, "cannot write sample and journal to", scene, "s.csv", OutputError,
                out="o.csv", journal=journal)  # fmt: skip


# -- refused at the start --------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["note", "Note", "x", "row", " col", "Latitude"])
def test_a_field_that_is_something_else_is_refused(scene, folder, field):
    refused(folder, "name another with --field", scene, table("s.csv"), InputError, field=field)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("2", "Barley"), "expected one name of map_class 2, got 'Barley' and 'B'; correct it"),
        (("٢", "Barley"), "expected one name of map_class 2, got 'Barley' and 'B'"),
        (("9" * 5000, "A"), "line 2: expected a map_class up to 65535, got 9{40};"),
        (("65536", "A"), "expected a map_class up to 65535, got 65536"),
    ],
)
def test_classes_of_a_sample_that_contradict_each_other_are_refused(scene, folder, changed, words):
    lines = [("1", "0", "0", *changed, ""), *LINES[1:]]
    refused(folder, words, scene, table("s.csv", lines), SceneError)


def test_a_class_without_a_name_has_that_of_its_other_points(scene, folder):
    lines = [("1", "0", "0", "002", "", ""), ("9", "5", "4", "04", "", ""), *LINES[1:]]
    workspace = CheckWorkspace(scene, table("s.csv", lines))
    assert [c[:2] for c in workspace.classes] == [(2, "B"), (3, "C"), (4, "class 4")]
    workspace.close()


@pytest.mark.parametrize(
    ("record", "out", "words"),
    [
        ({"\ud800": "a"}, "o.csv", "its fields are refused .*surrogates not allowed"),
        ({"a": "\ud800"}, "o.geojson", "its fields are refused .*surrogates not allowed"),
        ({"a": 1e400}, "o.geojson", "its fields are refused .*not JSON compliant"),
        ({"Name": "a", "name": "b"}, "o.gpkg", "'name' has the name of the field 'Name'"),
        ({"x": 5}, "o.csv", "the field 'x' has the name of what places a point"),
    ],
)
def test_a_field_that_the_output_cannot_hold_leaves_no_journal(scene, folder, record, out, words):
    sample = points("s.geojson", record, {})
    refused(folder, words, scene, sample, OutputError, out=out, classes=["A"])


def test_a_start_that_cannot_write_leaves_no_journal(scene, folder, monkeypatch):
    def full(*_):
        raise OutputError("the disk is full")

    monkeypatch.setattr("polyad.app.checklist.write_points", full)
    refused(folder, "the disk is full", scene, table("s.csv"))


@pytest.mark.parametrize("port", [-1, 65536, 99999, 10**30])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match=f"expected a --port from 1 to 65535, or 0 .* got {port}"):
        launch.prepare("no-such-scene", port=port)
