"""`--report`: the page and the JSON of every command tell the same, and nothing is fetched."""

import hashlib
import html
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from land import HEIGHT, QUICK, WIDTH, center, refused, run, truth, write_named
from polyad.scene.files.paths import is_ours
from polyad.scene.learn.model import SceneModel

VOID = {"meta", "img", "br", "source"}
NUMBER = re.compile(r"(?<![\w.#-])\d[\d,]*(?:\.\d+)?(?![\w-])")


class Page(HTMLParser):
    """The words of a page by the element they stand in; insists on closed elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.tags = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "dd", "h1"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "dd", "h1"} & set(self.open):
            self.cells[-1] += data


def leaves(content):
    if isinstance(content, dict | list):
        for item in content.values() if isinstance(content, dict) else content:
            yield from leaves(item)
    else:
        yield content


def spellings(content):
    """Return every way in which a page may write a number of its JSON."""
    known = set()
    for leaf in leaves(content):
        if isinstance(leaf, str):
            known |= set(NUMBER.findall(leaf))
        elif isinstance(leaf, int | float):
            known |= {f"{leaf:,}", f"{leaf}", f"{100 * leaf:.1f}", f"{leaf:.3f}", f"{leaf:.4f}"}
            known |= {f"{leaf:,.2f}"}
    return known


def check_page(text, content):
    page = Page(text)
    assert page.open == []
    shown = [number for cell in page.cells for number in NUMBER.findall(cell)]
    assert len(shown) > 10
    assert set(shown) <= spellings(content)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"}
    assert not re.search(r'(src|href|srcset)="(?!data:)', text)
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    assert content["record"]["command"] in html.unescape(text)
    for file in content["record"]["files"]:
        assert file["name"] in html.unescape(text)
        assert file["sha256"] in text
    return page


def check_files(content, folder):
    for file in content["record"]["files"]:
        there = (folder / file["name"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(there).hexdigest()
        assert file["bytes"] == len(there)


@pytest.fixture(scope="module")
def evaluated(place, tmp_path_factory):
    """Page and JSON of one evaluation, and the scores that it printed."""
    folder = tmp_path_factory.mktemp("evaluated")
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    files = {kind: folder / f"page.{kind}" for kind in ("html", "json")}
    scores = folder / "scores.json"
    reports = [word for path in files.values() for word in ("--report", path)]
    assert run(*words, "--out", scores, *reports) == 0
    content = json.loads(files["json"].read_text())
    return files["html"].read_text(), content, json.loads(scores.read_text()), files


def test_the_page_of_an_evaluation_has_no_number_that_its_json_lacks(place, evaluated):
    text, content, _, _ = evaluated
    check_page(text, content)
    check_files(content, place)
    names = [file["name"] for file in content["record"]["files"]]
    assert names == ["m.polyad", "bil.hdr", "bil.img", "truth.tif"]


def test_the_report_has_the_scores_and_totals_that_add_up(evaluated):
    _, content, scores, _ = evaluated
    told = dict(content["scores"])
    totals = told.pop("confusion_totals")
    assert {k: v for k, v in told.items() if not k.endswith("seconds")} == {
        k: v for k, v in scores.items() if not k.endswith("seconds")
    }
    counts = np.array(scores["confusion_matrix"])
    assert totals["reference"] == counts.sum(axis=1).tolist()
    assert totals["map"] == counts.sum(axis=0).tolist()
    assert totals["all"] == totals["right"] + totals["wrong"] == scores["n_test"]
    assert totals["right"] == round(scores["overall_accuracy"] * scores["n_test"])
    assert [row["support"] for row in told["classes"]] == totals["reference"]


def test_mapped_areas_are_all_pixels_in_hectares(evaluated):
    areas = evaluated[1]["areas"]
    assert areas["pixels"] == HEIGHT * WIDTH == sum(row["pixels"] for row in areas["classes"])
    assert areas["hectares"] == pytest.approx(HEIGHT * WIDTH * 0.01)  # pixels of 10 m
    assert sum(row["hectares"] for row in areas["classes"]) == pytest.approx(areas["hectares"])
    assert sum(row["share"] for row in areas["classes"]) == pytest.approx(1)


def test_training_points_are_drawn_once_for_each_training_pixel(place, evaluated):
    paths = [a["d"] for tag, a in Page(evaluated[0]).tags if tag == "path" and "stroke" in a]
    pixels = SceneModel.load(place / "m.polyad").training.pixels
    drawn = [tuple(map(float, p)) for d in paths for p in re.findall(r"M([\d.]+) ([\d.]+)h0", d)]
    assert sorted(drawn) == sorted(2 * [(col + 0.5, row + 0.5) for row, col in pixels])


def test_the_command_stands_there_as_it_was_typed_without_folders(evaluated, place):
    command = evaluated[1]["record"]["command"]
    assert command.startswith("polyad evaluate m.polyad bil.hdr truth.tif --out scores.json")
    assert str(place.parent) not in evaluated[0]
    assert str(place.parent) not in json.dumps(evaluated[1])


def test_both_kinds_are_known_as_reports_of_ours(evaluated):
    assert all(is_ours(path, "report") for path in evaluated[3].values())


def checked_points(path, folder):
    write_named(folder / "map.tif", truth(), ("Corn", "<b>Soil</b>", "Water"))
    rng = np.random.default_rng(0)
    lines = ["x,y,reference"]
    for _ in range(60):
        row, col = int(rng.integers(HEIGHT)), int(rng.integers(WIDTH))
        seen = truth()[row, col] if rng.random() < 0.8 else rng.integers(1, 4)
        lines.append(
            "{},{},".format(*center(row, col)) + ("Corn", "<b>Soil</b>", "Water")[seen - 1]
        )
    path.write_text("\n".join(lines))


def test_the_page_about_areas_has_no_number_that_its_json_lacks(tmp_path, capsys):
    checked_points(tmp_path / "points.csv", tmp_path)
    words = ("area", tmp_path / "map.tif", tmp_path / "points.csv", "--design", "random")
    page, told = tmp_path / "page.html", tmp_path / "page.json"
    capsys.readouterr()
    assert run(*words, "--json", "--report", page, "--report", told) == 0
    content, printed = json.loads(told.read_text()), json.loads(capsys.readouterr().out)
    assert content["areas"] == printed
    text = page.read_text()
    check_page(text, content)
    check_files(content, tmp_path)
    assert "<b>" not in text
    assert text.count("&lt;b&gt;Soil") >= 3


def test_a_report_replaces_neither_an_input_nor_another_output(place, tmp_path, capsys):
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    model = Path(shutil.copy(place / "m.polyad", place / "model.html"))
    given = ("evaluate", model, *words[2:], "--report", model, "--force")
    assert "it is the input" in refused(capsys, *given)
    both = ("--out", tmp_path / "a.json", "--report", tmp_path / "a.json")
    said = refused(capsys, *words, *both)
    assert "cannot write file of scores and report to" in said
    twice = ("--report", tmp_path / "a.html", "--report", tmp_path / "." / "a.html")
    assert "both reports" in refused(capsys, *words, *twice)
    (tmp_path / "notes.json").write_text('{"mine": 1}')
    assert "is no report of polyad" in refused(capsys, *words, "--report", tmp_path / "notes.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.json"]


def test_no_hash_leaves_them_out_and_says_so(place, tmp_path):
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    assert run(*words, "--no-hash", "--report", tmp_path / "page.json") == 0
    files = json.loads((tmp_path / "page.json").read_text())["record"]["files"]
    assert {file["sha256"] for file in files} == {None}
    assert {file["note"] for file in files} == {"not hashed: not asked for"}


def test_the_page_of_a_training_has_no_number_that_its_json_lacks(place, tmp_path, capsys):
    model, page, told = (tmp_path / name for name in ("m.polyad", "page.html", "page.json"))
    words = ("train", place / "bil.hdr", place / "labels.geojson", "--out", model, "--hidden", 10)
    capsys.readouterr()
    assert run(*words, "--seed", 7, "--json", "--report", page, "--report", told) == 0
    printed, content = json.loads(capsys.readouterr().out), json.loads(told.read_text())
    text = page.read_text()
    parsed = check_page(text, content)
    assert {row["name"]: row["labels"] for row in content["labels"]} == printed["labels"]
    assert content["n_train"] == printed["n_train"] == sum(printed["labels"].values())
    assert content["accuracy"]["overall_accuracy"] == printed["spatial_accuracy"]["overall"]
    assert content["facts"]["Seed"] == "7"
    assert content["model"]["steps"] == printed["steps"]
    paths = [a["d"] for tag, a in parsed.tags if tag == "path" and "stroke" in a]
    assert sum(d.count("M") for d in paths) == content["n_train"]
    digests = {file["name"]: file["sha256"] for file in content["record"]["files"]}
    assert digests["m.polyad"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert list(digests) == ["bil.hdr", "bil.img", "labels.geojson", "m.polyad"]


def test_a_training_on_merged_classes_is_reported_by_their_new_name(place, tmp_path):
    words = ("train", place / "bil.hdr", place / "labels.csv", "--out", tmp_path / "m.polyad")
    report = tmp_path / "page.json"
    assert run(*words, *QUICK, "--merge", "Corn+Soil=land", "--report", report) == 0
    content = json.loads(report.read_text())
    assert {row["name"] for row in content["labels"]} == {"land", "Water"}
    assert {row["name"] for row in content["spectra"]["classes"]} == {"land", "Water"}


def test_the_model_and_its_report_need_a_name_each(place, tmp_path, capsys):
    words = ("train", place / "bil.hdr", place / "labels.geojson")
    same = ("--out", tmp_path / "m.html", "--report", tmp_path / "m.html")
    assert "cannot write model and report to" in refused(capsys, *words, *same)
    assert list(tmp_path.iterdir()) == []


def test_a_cross_validated_training_shows_both_figures_on_its_page(place, tmp_path, capsys):
    words = ("train", place / "bil.hdr", place / "labels.csv", *QUICK, "--cross-validate")
    page, told = tmp_path / "page.html", tmp_path / "page.json"
    out = ("--out", tmp_path / "m.polyad", "--report", page, "--report", told)
    assert run(*words, *out) == 0
    folds = json.loads(told.read_text())["accuracy"]["folds"]
    cells = Page(page.read_text()).cells
    for kind in ("spatial", "pixelwise"):
        held = folds[kind]
        assert f"{held['kappa']:.3f}" in cells
        for name in ("overall_accuracy", "average_accuracy"):
            assert f"{100 * held[name]:.1f}\N{NO-BREAK SPACE}%" in cells
    text = html.unescape(" ".join(page.read_text().split()))
    assert folds["why"] in text
    assert "Wanted for" not in text
    check_page(page.read_text(), json.loads(told.read_text()))


def test_reports_are_named_on_lines_that_follow_each_other(place, tmp_path, capsys):
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif", "--no-hash")
    page, told = tmp_path / "page.html", tmp_path / "page.json"
    assert run(*words, "--report", page, "--report", told) == 0
    assert capsys.readouterr().out.endswith(f"\n\nreport: {page}\nreport: {told}\n")
