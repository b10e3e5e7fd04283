from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from polyad.scene.assess.pages import Themed, record_run
from polyad.scene.assess.report import render_report, write_report
from polyad.scene.assess.scores import score
from polyad.scene.draw.charts import DARK, LIGHT
from polyad.scene.draw.figures import confusion_figure, reliability_figure
from polyad.scene.learn.training import train
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.read.scenes import scene_from_array

HOSTILE = "<script>alert('x')</script> & \"Corn\""
CLASSES = (ClassInfo(1, HOSTILE, "#4477AA"), ClassInfo(2, "Oats", "#EE7733"))
VOID = {"meta", "img", "br", "source"}


class Page(HTMLParser):
    """A reader that insists on closed elements and keeps what it meets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def make_report(**changes: Any) -> str:
    scores = score(
        [1, 1, 2, 2], [1, 2, 2, 2], classes=CLASSES, no_overlap=[True, False, False, True]
    ).to_dict()
    inputs: dict[str, Any] = {
        "title": "Indian Pines",
        "summary": f"Mapped from {HOSTILE}.",
        "scores": scores,
        "classes": CLASSES,
        "facts": {"window": "5 by 5 pixels", "name": HOSTILE},
        "pictures": {"Map": np.arange(60, dtype="uint8").reshape(4, 5, 3)},
        "figures": {"confusion": confusion_figure(scores["confusion_matrix"], ["a", "b"])},
        "record": record_run("polyad demo --out 'my folder' && echo <done>").to_dict(),
    }
    return render_report(**(inputs | changes))


def test_report_is_well_formed_html() -> None:
    page = Page(make_report())
    assert page.open == []
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert make_report().startswith("<!doctype html>")


def test_report_needs_nothing_from_outside() -> None:
    text = make_report()
    page = Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"}
    for _, attrs in page.tags:
        assert "href" not in attrs
        assert str(attrs.get("src", "data:image/png")).startswith("data:image/png")
    assert re.search(r"https?:|url\(|@import", text) is None


def test_browser_is_told_to_fetch_and_run_nothing() -> None:
    (policy,) = (a["content"] for _, a in Page(make_report()).tags if "http-equiv" in a)
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_all_text_is_escaped_and_comes_back_whole() -> None:
    page = Page(make_report())
    words = "".join(page.words)
    assert words.count(HOSTILE) >= 4  # summary, fact, legend, table
    assert "polyad demo --out 'my folder' && echo <done>" in words


def test_color_from_a_file_cannot_reach_the_network() -> None:
    hostile = (ClassInfo(1, "Corn", "red;background:url(http://example.org)"),)
    assert "example.org" not in make_report(classes=hostile)


def test_report_tells_the_scores() -> None:
    words = "".join(Page(make_report()).words).replace("\N{NO-BREAK SPACE}", " ")
    assert "Indian Pines: 75.0 % right" in words
    assert "overall accuracy without overlap" in words
    assert "the 2 pixels whose window shares no pixel" in words
    assert "0.500" in words  # kappa
    assert "Measured on 4 labeled pixels" in words


def test_confusion_cells_say_what_they_count() -> None:
    titles = [attrs.get("title") for tag, attrs in Page(make_report()).tags if tag == "td"]
    assert f"1 of 2 pixels of {HOSTILE} are called Oats" in titles


def test_pictures_come_back_pixel_by_pixel() -> None:
    sources = [attrs["src"] for tag, attrs in Page(make_report()).tags if tag == "img"]
    assert len(sources) == 2
    data = base64.b64decode(str(sources[0]).removeprefix("data:image/png;base64,"))
    picture = np.rint(255 * imread(io.BytesIO(data))[..., :3])
    np.testing.assert_array_equal(picture, np.arange(60).reshape(4, 5, 3))


def test_every_picture_has_words_for_those_who_cannot_see_it() -> None:
    words = [attrs["alt"] for tag, attrs in Page(make_report()).tags if tag == "img"]
    assert len(words) == 2
    assert all(words)


def test_charts_follow_the_theme_of_the_page() -> None:
    sure, right = np.array([0.2, 0.8, 0.9]), np.array([False, True, True])
    drawn = (reliability_figure(sure, right, theme=theme) for theme in (LIGHT, DARK))
    text = make_report(figures={"reliability": Themed(*drawn)})
    page = Page(text)
    assert page.open == []
    (source,) = (attrs for tag, attrs in page.tags if tag == "source")
    (light,) = (a["src"] for tag, a in page.tags if tag == "img" and a["alt"].startswith("Can its"))
    assert source["media"] == "screen and (prefers-color-scheme: dark)"
    assert "chart paper" not in text
    for data, theme in ((source["srcset"], DARK), (light, LIGHT)):
        png = imread(io.BytesIO(base64.b64decode(str(data).partition(",")[2])))
        assert png[0, 0, 3] == 0  # no paper: the page shows through
        solid = {to_hex(c) for c in np.unique(png[png[..., 3] == 1][:, :3], axis=0).tolist()}
        assert theme.ink.lower() in solid  # text that stands out from such a page


@pytest.mark.parametrize("missing", ["overall_accuracy", "kappa", "classes", "confusion_matrix"])
def test_score_that_is_missing_is_left_out(missing: str) -> None:
    scores = score([1, 2], [1, 2], classes=CLASSES).to_dict() | {missing: None}
    scores["classes"] = scores["classes"] or []
    text = make_report(scores=scores)
    assert Page(text).open == []
    assert "None" not in text
    assert "nan" not in "".join(Page(text).words)


def test_figures_of_any_name_are_shown_under_it() -> None:
    text = make_report(figures={"Loss during fitting": Figure()})
    assert "<h2>Loss during fitting</h2>" in text


def test_the_report_of_a_model_just_trained_says_what_its_own_score_left_out(tmp_path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 2, 3], 4)[None].repeat(12, axis=0)
    cube = scene_from_array(truth[..., None] + rng.normal(0, 0.1, (12, 12, 4)))
    ids = np.where((truth < 3) & (rng.random(truth.shape) < 0.5), truth, 0)
    ids[5, 10] = 3
    model = train(cube, xr.DataArray(ids, dims=("y", "x")), hidden=8)
    labels = xr.DataArray(truth, dims=("y", "x"))
    write_report(tmp_path / "page.html", model, cube, labels, title="Land", command="polyad")
    told = "1 label (class 3 1), as none of their class was left to train on"
    page = (tmp_path / "page.html").read_text()
    assert told in page
    assert "seconds" not in page  # of one machine on one day; they are in the .json
