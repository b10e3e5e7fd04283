"""`--report`: the page tells what the command prints as JSON, and nothing is fetched."""

import hashlib
import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from land import HEIGHT, QUICK, WIDTH, as_json, center, refused, run, truth, write_named
from polyad.scene.assess.report import mapped_areas
from polyad.scene.files.paths import is_ours
from polyad.scene.learn.model import SceneModel
from polyad.scene.read.labels import open_labels
from tests.pages import Page

SPACE = "\N{NO-BREAK SPACE}"


def check_page(path, command, files):
    """Check that a page is whole, fetches nothing, and names the command and its files."""
    text = path.read_text()
    page, words = Page(text), html.unescape(text)
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"}
    assert not re.search(r'(src|href|srcset)="(?!data:)', text)
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    assert command in words
    for file in files:
        assert file.name in words
        assert hashlib.sha256(file.read_bytes()).hexdigest() in text
    assert str(files[0].parent) not in text
    assert is_ours(path, "report")
    return page


def percents(*shares):
    return {f"{100 * share:.1f}{SPACE}%" for share in shares}


def points_drawn(page):
    paths = [a["d"] for tag, a in page.tags if tag == "path" and "stroke" in a]
    return [tuple(map(float, p)) for d in paths for p in re.findall(r"M([\d.]+) ([\d.]+)h0", d)]


def test_the_page_of_an_evaluation_has_the_scores_that_were_printed(place, tmp_path):
    files = [place / name for name in ("m.polyad", "bil.hdr", "bil.img", "truth.tif")]
    scores, report = tmp_path / "scores.json", tmp_path / "page.html"
    words = ("evaluate", files[0], files[1], files[3], "--out", scores, "--report", report)
    assert run(*words) == 0
    told = json.loads(scores.read_text())
    page = check_page(report, "polyad evaluate m.polyad bil.hdr truth.tif --out", files)
    cells = {cell.strip() for cell in page.cells}
    assert percents(told["overall_accuracy"], told["average_accuracy"]) <= cells
    assert f"{told['kappa']:.3f}" in cells
    for row in told["classes"]:
        assert {f"{100 * row['recall']:.1f}", f"{row['support']:,}"} <= cells
    pixels = SceneModel.load(place / "m.polyad").training_pixels((HEIGHT, WIDTH))
    assert sorted(points_drawn(page)) == sorted(2 * [(c + 0.5, r + 0.5) for r, c in pixels])


def test_mapped_areas_are_all_pixels_in_hectares(place):
    areas = mapped_areas(open_labels(place / "truth.tif"))
    sums = {k: sum(row[k] for row in areas["classes"]) for k in ("pixels", "hectares", "share")}
    assert areas["pixels"] == sums["pixels"] == HEIGHT * WIDTH - areas["without_class"]
    assert areas["hectares"] == pytest.approx(areas["pixels"] * 0.01)  # pixels of 10 m
    assert sums["hectares"] == pytest.approx(areas["hectares"])
    assert sums["share"] == pytest.approx(1)


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


def test_the_page_about_areas_has_the_figures_that_were_printed(tmp_path, capsys):
    files = [tmp_path / "map.tif", tmp_path / "points.csv"]
    checked_points(files[1], tmp_path)
    report = tmp_path / "page.html"
    printed = as_json(capsys, "area", *files, "--design", "random", "--report", report)
    page = check_page(report, "polyad area map.tif points.csv --design random", files)
    assert percents(printed["overall_accuracy"]) <= {cell.strip() for cell in page.cells}
    text = report.read_text()
    assert "<b>" not in text
    assert text.count("&lt;b&gt;Soil") >= 3


def test_a_report_replaces_neither_an_input_nor_another_output(place, tmp_path, capsys):
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    model = Path(shutil.copy(place / "m.polyad", place / "model.html"))
    given = ("evaluate", model, *words[2:], "--report", model, "--force")
    assert "it is the input" in refused(capsys, *given)
    (tmp_path / "notes.html").write_text("mine")
    assert "is no report of polyad" in refused(capsys, *words, "--report", tmp_path / "notes.html")
    said = refused(capsys, *words, "--report", tmp_path / "page.json")
    assert "expected a name ending in .html, .htm" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.html"]


def test_no_hash_leaves_them_out_and_the_report_is_named_at_the_end(place, tmp_path, capsys):
    words = ("evaluate", place / "m.polyad", place / "bil.hdr", place / "truth.tif")
    assert run(*words, "--no-hash", "--report", tmp_path / "page.html") == 0
    assert capsys.readouterr().out.endswith(f"\n\nreport: {tmp_path / 'page.html'}\n")
    text = (tmp_path / "page.html").read_text()
    assert text.count("not hashed: not asked for") == 4
    assert not re.search(r"\b[0-9a-f]{64}\b", text)


def test_the_page_of_a_training_has_the_figures_that_were_printed(place, tmp_path, capsys):
    model, report = tmp_path / "m.polyad", tmp_path / "page.html"
    words = ("train", place / "bil.hdr", place / "labels.geojson", "--out", model, "--hidden", 10)
    printed = as_json(capsys, *words, "--seed", 7, "--report", report)
    files = [*(place / name for name in ("bil.hdr", "bil.img", "labels.geojson")), model]
    page = check_page(report, "polyad train bil.hdr labels.geojson --out m.polyad", files)
    cells = {cell.strip() for cell in page.cells}
    assert percents(printed["cross_validation"]["spatial"]["overall_accuracy"]) <= cells
    assert {f"{count:,}" for count in printed["labels"].values()} <= cells
    assert {"7", printed["steps"]} <= cells  # the seed, among the facts
    assert len(points_drawn(page)) == printed["n_train"] == sum(printed["labels"].values())


def test_a_training_on_merged_classes_is_reported_by_their_new_name(place, tmp_path):
    words = ("train", place / "bil.hdr", place / "labels.csv", "--out", tmp_path / "m.polyad")
    report = tmp_path / "page.html"
    assert run(*words, *QUICK, "--merge", "Corn+Soil=land", "--report", report) == 0
    names = re.findall(
        r'<th scope="row"><span class="chip".*?</span>(.*?)</th>', report.read_text()
    )
    assert {re.sub(r"^\d+ |<small>.*", "", name) for name in names} == {"land", "Water"}


def test_the_model_and_its_report_need_a_name_each(place, tmp_path, capsys):
    words = ("train", place / "bil.hdr", place / "labels.geojson")
    same = ("--out", tmp_path / "m.html", "--report", tmp_path / "m.html")
    assert "cannot write model and report to" in refused(capsys, *words, *same)
    assert list(tmp_path.iterdir()) == []


def test_a_cross_validated_training_shows_both_figures_on_its_page(place, tmp_path):
    words = ("train", place / "bil.hdr", place / "labels.csv", *QUICK, "--cross-validate")
    model, page = tmp_path / "m.polyad", tmp_path / "page.html"
    assert run(*words, "--out", model, "--report", page) == 0
    found = SceneModel.load(model).accuracy
    cells = Page(page.read_text()).cells
    for held in (found.spatial, found.pixelwise):
        assert f"{held.kappa:.3f}" in cells
        assert percents(held.overall, held.average) <= set(cells)
    text = html.unescape(" ".join(page.read_text().split()))
    assert "Wanted for" not in text
