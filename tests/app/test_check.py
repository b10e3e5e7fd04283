"""A sample being checked: what is kept, what is written, what the page is told, what is refused."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial

import httpx
import numpy as np
import pytest
import xarray as xr
from affine import Affine

from polyad.app import prepare_check
from polyad.app.checklist import Answer, CheckWorkspace
from polyad.errors import InputError, OutputError, PolyadError, SceneError, SceneMismatch
from polyad.scene import draw_sample, estimate_areas, open_points
from polyad.scene.raster.classes import ClassInfo, ids_digest, with_classes
from polyad.scene.raster.scene import describe
from tests.waiting import PATIENCE

NAMES = ("Quartz", "Zinnia", "Xylem")  # in no other word of an answer


@pytest.fixture
def land(scene, truth):
    """A scene, and a map of it that is on its grid."""
    classes = [ClassInfo(k, name, "") for k, name in enumerate(NAMES, start=1)]
    ids = truth.values.copy()
    ids[::5] = np.roll(ids[::5], 7, axis=1)  # something must be wrong
    place = {"crs": "EPSG:32632", "transform": Affine(30.0, 0.0, 500000.0, 0.0, -30.0, 5200000.0)}
    return scene, with_classes(describe(xr.DataArray(ids, dims=("y", "x")), **place), classes)


def drawn(land, path, size=12, **options):
    draw_sample(land[1], size, random_state=1).save(path, **options)
    return path


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, table, head):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(head))
        writer.writeheader()
        writer.writerows(table)


def opened(land, sample, **options):
    options.setdefault("class_map", land[1])
    return CheckWorkspace(land[0], sample, options.pop("class_map"), **options)


def answered(workspace, truth):
    """Answer as somebody who knows."""
    for k, (row, col) in enumerate(workspace.sample.pixels.tolist()):
        workspace.do({"point": k, "class": int(truth.values[row, col])})


@pytest.mark.parametrize("ending", ["csv", "geojson", "gpkg"])
def test_a_checked_sample_is_of_the_same_kind_and_gives_areas(land, truth, tmp_path, ending):
    sample = drawn(land, tmp_path / f"s.{ending}")
    before = sample.read_bytes()
    workspace = opened(land, sample)
    answered(workspace, truth)
    workspace.close()
    assert sample.read_bytes() == before
    points = open_points(tmp_path / f"s-checked.{ending}", land[1])
    seen = truth.values[tuple(points.pixels.T)]
    np.testing.assert_array_equal(points.reference, seen)
    assert points.strata is not None  # every field of the sample is kept
    assert estimate_areas(land[1], points).points == 12


def test_answers_survive_a_start_anew_and_the_file_is_resumed(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv")
    first = opened(land, sample)
    first.do({"point": 3, "class": 2, "note": "a  road"})
    first.do({"point": 5, "unsure": True, "note": "clouds"})
    first.do({"point": 6, "class": 1})
    first.do({"point": 6, "class": 0})
    first.close()
    again = opened(land, sample)
    assert again.answers[3] == Answer(2, False, "a road")
    assert again.answers[5] == Answer(0, True, "clouds")
    assert (again.done, again.unsure) == (2, 1)
    again.close()
    (tmp_path / "s-checked.csv.checks.jsonl").unlink()  # without its journal, from the file
    third = opened(land, sample)
    assert third.answers == again.answers
    third.close()
    table = rows(tmp_path / "s-checked.csv")
    assert [table[3]["reference"], table[3]["note"]] == ["Zinnia", "a road"]
    assert [table[5]["reference"], table[5]["note"]] == ["", "cannot tell: clouds"]


def test_what_was_edited_in_the_file_since_is_taken_and_nothing_is_lost(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv")
    first = opened(land, sample)
    first.do({"point": 0, "class": 1})
    first.do({"point": 1, "class": 2})
    first.close()
    table = rows(tmp_path / "s-checked.csv")
    table[1]["reference"], table[2]["reference"], table[0]["reference"] = "Xylem", "3", ""
    write_rows(tmp_path / "s-checked.csv", table, table[0])
    again = opened(land, sample)
    assert [a.value for a in again.answers[:3]] == [1, 3, 3]
    again.close()


def test_a_file_older_than_the_journal_does_not_take_answers_back(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv")
    first = opened(land, sample)
    first.do({"point": 0, "class": 1})
    first.close()
    old = (tmp_path / "s-checked.csv").read_bytes()
    second = opened(land, sample)
    second.do({"point": 0, "class": 2})
    second.journal.close()  # as a kill leaves it: in the journal, not yet in the file
    second._lock.close()
    (tmp_path / "s-checked.csv").write_bytes(old)
    os.utime(tmp_path / "s-checked.csv", (1, 1))
    third = opened(land, sample)
    assert third.answers[0].value == 2
    third.close()


KILLED = """
import json, sys
from pathlib import Path
import numpy as np, xarray as xr
from polyad.app.checklist import CheckWorkspace
scene = xr.DataArray(np.ones((30, 40, 2), np.float32), dims=("y", "x", "band"))
sample, out = map(Path, sys.argv[1:])
checklist = CheckWorkspace(scene, sample, classes=["a", "b", "c"], out=out)
print(json.dumps([a.value for a in checklist.answers]), flush=True)
checklist.start()
for k in range(200):
    checklist.do({"point": k, "class": 1 + k % 3})
    print(k, flush=True)
"""


@pytest.mark.slow
@pytest.mark.unix
def test_a_kill_loses_no_answer_that_was_confirmed(tmp_path):
    table = "\n".join(f"{k // 40},{k % 40}," for k in range(200))
    (tmp_path / "s.csv").write_text(f"row,col,reference\n{table}\n")
    command = [sys.executable, "-c", KILLED, tmp_path / "s.csv", tmp_path / "o.csv"]

    def until(line):
        """Return what was printed until it was killed at a line."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for told in process.stdout:
                lines.append(told.strip())
                if lines[-1] == line:
                    os.kill(process.pid, signal.SIGKILL)
        return lines

    last = int(until("60")[-1])
    assert last >= 60
    found = json.loads(until("0")[0])  # started again, and killed at its first answer
    assert found[: last + 1] == [1 + k % 3 for k in range(last + 1)]
    assert sum(bool(row["reference"]) for row in rows(tmp_path / "o.csv")) > last


def test_the_file_is_written_soon_after_an_answer(land, tmp_path, kit):
    workspace = opened(land, drawn(land, tmp_path / "s.csv"))
    workspace.start()
    workspace.do({"point": 0, "class": 1})
    kit.wait_for(lambda: rows(tmp_path / "s-checked.csv")[0]["reference"] == "Quartz")
    workspace.close()


def test_a_file_that_cannot_be_written_is_told_and_the_answers_are_kept(
    land, tmp_path, monkeypatch, kit
):
    workspace = opened(land, drawn(land, tmp_path / "s.csv"))
    heard = []

    def full(*_):
        raise OutputError("cannot write: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("polyad.app.checklist.write_points", full)
        patch.setattr(workspace.events, "publish", lambda *news: heard.append(news))
        workspace.start()
        workspace.do({"point": 0, "class": 1})
        kit.wait_for(lambda: [about for kind, about in heard if kind == "problem"])
    assert "the disk is full; the answers are safe in s-checked.csv.checks.jsonl" in str(heard)
    workspace.close()
    assert rows(tmp_path / "s-checked.csv")[0]["reference"] == "Quartz"


# -- blind -----------------------------------------------------------------------------------------


get, post = partial(httpx.get, timeout=PATIENCE), partial(httpx.post, timeout=PATIENCE)


@pytest.fixture
def blind_page(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv")  # its fields tell the class of the map
    served = prepare_check(*land[:1], sample, land[1], blind=True).start()
    yield served
    served.stop()


def test_a_blind_page_is_told_nothing_that_depends_on_the_map(land, blind_page, tmp_path):
    """The same answers, byte by byte, whatever the map says of the points."""
    other = tmp_path / "other"
    other.mkdir()
    turned = land[1].copy(data=np.where(land[1] > 0, land[1] % 3 + 1, 0).astype(np.uint16))
    table = rows(tmp_path / "s.csv")
    for row in table:
        value = int(row["map_class"]) % 3 + 1
        row |= {"map_class": value, "map_name": NAMES[value - 1]}
        row |= {"stratum": value, "stratum_name": NAMES[value - 1]}
        row["drawn_from"] = f"map=map#{ids_digest(turned)}"
    write_rows(other / "s.csv", table, table[0])
    second = prepare_check(land[0], other / "s.csv", turned, blind=True).start()
    try:
        for path in ("api/state", "api/spectrum?row=3&col=4", "api/scene/0/0/0?r=5&g=3&b=1", "",
                     "api/map/0/0/0", "api/class?row=3&col=4", "api/means", "api/labels/csv",
                     "api/files/map.tif", "api/uncertainty/0/0/0"):  # fmt: skip
            one, two = (get(page.url + path) for page in (blind_page, second))
            assert (one.status_code, one.content) == (two.status_code, two.content), path
        body = {"do": "answer", "point": 2, "class": 1}
        one, two = (post(p.url + "api/do", json=body) for p in (blind_page, second))
        assert one.content == two.content
    finally:
        second.stop()


def test_a_page_that_is_not_blind_shows_the_map_and_its_class(land, tmp_path):
    served = prepare_check(
        land[0], drawn(land, tmp_path / "s.csv", blind=True), land[1], blind=False
    ).start()
    try:
        state = get(served.url + "api/state").json()
        wanted = [int(land[1].values[row, col]) for row, col in state["points"]]
        assert state["mapped"] == wanted
        assert get(served.url + "api/map/0/0/0").content.startswith(b"\x89PNG")
    finally:
        served.stop()


def test_without_a_map_its_class_comes_from_the_file(land, tmp_path):
    workspace = opened(land, drawn(land, tmp_path / "s.csv"), class_map=None, blind=False)
    assert [c.name for c in workspace.classes] == list(NAMES)
    assert workspace.mapped == [int(r["map_class"]) for r in rows(tmp_path / "s.csv")]
    assert workspace.map_ids is None
    workspace.close()


def test_classes_of_a_blind_file_can_be_named(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv", blind=True)
    with pytest.raises(InputError, match="does not say which classes there are; name the map"):
        opened(land, sample, class_map=None)
    workspace = opened(land, sample, class_map=None, classes=["Xylem", " Quartz "])
    workspace.do({"point": 0, "class": 2})
    workspace.close()
    assert rows(tmp_path / "s-checked.csv")[0]["reference"] == "Quartz"


# -- requests --------------------------------------------------------------------------------------


BAD = [
    {"do": "answer", "point": 12, "class": 1},
    {"do": "answer", "point": -1, "class": 1},
    {"do": "answer", "point": "1", "class": 1},
    {"do": "answer", "point": True, "class": 1},
    {"do": "answer", "point": 1, "class": 9},
    {"do": "answer", "point": 1, "class": "1"},
    {"do": "answer", "point": 1, "class": 1, "unsure": True},
    {"do": "answer", "point": 1, "unsure": 1},
    {"do": "answer", "point": 1, "note": 5},
    {"do": "answer", "point": 1, "note": "x" * 501},
    {"do": "answer", "point": 1, "note": "a\u0000b"},
    {"do": "take", "answers": []},
    {"do": "label", "class": 1, "pixels": [[1, 1]]},
    {},
]


def test_requests_that_make_no_sense_are_refused_and_change_nothing(blind_page):
    with httpx.Client(base_url=blind_page.url, timeout=PATIENCE) as client:
        before = client.get("api/state").json()
        for body in BAD:
            answer = client.post("api/do", json=body)
            assert answer.status_code == 422, body
            assert answer.json()["error"]
        assert client.post("api/do", content=b"[", headers={"content-type": "text/plain"}
                           ).status_code == 415  # fmt: skip
        for path in ("api/spectrum?row=99&col=1", "api/scene/9/0/0?r=1&g=1&b=1", "api/spectrum"):
            assert client.get(path).status_code == 422
        assert client.get("static/../check.py").status_code in (403, 404)
        assert client.get("api/state").json() == before
    wrong = blind_page.url.replace(blind_page.url.split("/")[3], "guess")
    assert get(wrong + "api/state").status_code == 403
    evil = get(blind_page.url + "api/state", headers={"origin": "http://evil.example"})
    assert evil.status_code == 403


def test_another_tab_hears_of_an_answer(blind_page):
    with httpx.stream("GET", blind_page.url + "api/events", timeout=PATIENCE) as stream:
        lines = stream.iter_lines()
        next(lines)
        post(blind_page.url + "api/do", json={"do": "answer", "point": 4, "class": 3})
        heard = next(line for line in lines if "answers" in line)
    assert json.loads(heard.removeprefix("data: "))["answers"] == [[4, 3, False, ""]]


# -- refused at the start, with nothing written ----------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda table: [*table, table[2]], "lie in one pixel"),
        (
            lambda table: [table[0] | {"row": "900", "x": "0"}, *table[1:]],
            "1 of 12 points lie off the map",
        ),
        (
            lambda table: [table[0] | {"reference": "Maize"}, *table[1:]],
            "'Maize' is none of the classes to choose from",
        ),
        (
            lambda table: [row | {"x": float(row["x"]) + 300} for row in table],
            "of a map on another grid",
        ),
        (lambda table: [], "expected the points of a sample, the file has none"),
    ],
)
def test_a_sample_that_cannot_be_checked_is_refused_in_one_sentence(land, tmp_path, edit, words):
    table = rows(drawn(land, tmp_path / "drawn.csv"))
    write_rows(tmp_path / "s.csv", edit(table), table[0])
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(PolyadError, match=words):
        opened(land, tmp_path / "s.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 99, b"SQLite format 3\0" + b"x" * 500, b"{", b"["]
)
@pytest.mark.parametrize("ending", ["csv", "geojson", "gpkg"])
def test_a_hostile_sample_is_refused_with_nothing_written(land, tmp_path, ending, content):
    (tmp_path / f"s.{ending}").write_bytes(content)
    with pytest.raises(SceneError, match=f"s.{ending}"):
        opened(land, tmp_path / f"s.{ending}")
    assert [p.name for p in tmp_path.iterdir()] == [f"s.{ending}"]


def test_a_sample_of_another_map_is_refused_with_both_named(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv", source="old/map.tif", blind=True)
    other = land[1].copy(data=np.where(land[1] > 0, land[1] % 3 + 1, 0).astype(np.uint16))
    own, given = ids_digest(land[1]), ids_digest(other)
    words = rf"s.csv: the sample was drawn from map.tif \({own}\), got another map \({given}\)"
    with pytest.raises(SceneMismatch, match=words):
        opened(land, sample, class_map=other)
    assert not (tmp_path / "s-checked.csv").exists()


def test_an_output_that_is_something_else_is_left_as_it_is(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv")
    (tmp_path / "mine.csv").write_text("my,notes\n1,2\n")
    with pytest.raises(SceneError, match="cannot be resumed"):
        opened(land, sample, out=tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == "my,notes\n1,2\n"
    other = tmp_path / "other.csv"
    draw_sample(land[1], 20, random_state=9).save(other)
    with pytest.raises(SceneMismatch, match="holds 20 points, and not those of"):
        opened(land, sample, out=other)
    with pytest.raises(OutputError, match="expected a name ending in"):
        opened(land, sample, out=tmp_path / "o.shp")
    assert not list(tmp_path.glob("*.jsonl"))


def test_the_sample_itself_is_written_to_only_where_it_is_named(land, tmp_path):
    sample = drawn(land, tmp_path / "s.gpkg")
    workspace = opened(land, sample, out=sample)
    workspace.do({"point": 0, "class": 1})
    workspace.close()
    with sqlite3.connect(sample) as database:
        assert database.execute("SELECT count(reference) FROM sample").fetchone() == (1,)
    database.close()
    again = opened(land, sample, out=sample)
    assert again.done == 1
    again.close()


def test_the_journal_of_another_sample_or_of_labels_is_refused(land, tmp_path):
    opened(land, drawn(land, tmp_path / "a.csv"), journal=tmp_path / "j").close()
    other = tmp_path / "b.csv"
    draw_sample(land[1], 20, random_state=9).save(other)
    with pytest.raises(SceneMismatch, match="is the journal of another sample"):
        opened(land, other, journal=tmp_path / "j")


def test_a_journal_of_classes_that_are_gone_is_refused_and_left(land, tmp_path):
    sample = drawn(land, tmp_path / "s.csv", blind=True)
    first = opened(land, sample)
    first.do({"point": 0, "class": 1})
    first.close()
    (tmp_path / "s-checked.csv").unlink()
    before = (tmp_path / "s-checked.csv.checks.jsonl").read_bytes()
    with pytest.raises(SceneError, match="no class is called 'Quartz'"):
        opened(land, sample, class_map=None, classes=["Corn", "Soil"])
    assert (tmp_path / "s-checked.csv.checks.jsonl").read_bytes() == before
