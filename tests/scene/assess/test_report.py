from __future__ import annotations

import base64
import io
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread

from polyad.scene.assess import report
from polyad.scene.assess.evaluation import class_evaluation
from polyad.scene.assess.pages import PageFigure, Themed, page_image, record_run, render
from polyad.scene.assess.report import About, report_page, write_report
from polyad.scene.draw.charts import DARK, LIGHT, reliability_chart
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.scenes import scene_from_array
from tests.pages import Page

HOSTILE = "<script>alert('x')</script> & \"Corn\""


def land(names: tuple[str, ...], noise: float = 0.1) -> tuple[xr.DataArray, xr.DataArray]:
    """A scene of upright stripes, one for each class, and their labels."""
    truth = np.repeat(np.arange(len(names)) + 1, 4)[None].repeat(12, axis=0)
    cube = truth[..., None] + np.random.default_rng(0).normal(0, noise, (*truth.shape, 4))
    table = [ClassInfo(k, name, "#4477AA") for k, name in enumerate(names, start=1)]
    labels = with_classes(xr.DataArray(truth.astype(np.uint16), dims=("y", "x")), table)
    return scene_from_array(cube), labels


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """All that `report_page` fills its template with, and the page, of classes of odd names."""
    cube, labels = land((HOSTILE, "Oats"), noise=2)
    model = train(cube, labels, samples_per_class=8, preset="fast", hidden=4, window=3)
    filled: dict[str, Any] = {}

    def fill(template: str, **values: Any) -> str:
        filled.update(values, template=template)
        return render(template, **values)

    about = About("Indian Pines", record_run("polyad demo && echo <done>"), {"name": HOSTILE})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "render", fill)
        found = class_evaluation(model, cube, labels, coverage=0.8)
        page = report_page(model, cube, map_scene(model, cube), found, about)
    return filled | {"page": page, "examination": found}


def again(content: dict[str, Any], **changes: Any) -> str:
    values = {k: v for k, v in content.items() if k not in ("page", "examination")}
    return render(**(values | changes))


def test_report_is_well_formed_and_needs_nothing_from_outside(content) -> None:
    page = Page(content["page"])
    assert page.open == []
    assert content["page"].startswith("<!doctype html>")
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"}
    for _, attrs in page.tags:
        assert "href" not in attrs
        assert str(attrs.get("src", "data:image/")).startswith("data:image/")
    assert re.search(r"https?:|url\(|@import", content["page"]) is None
    (policy,) = (a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_all_text_is_escaped_and_comes_back_whole(content) -> None:
    words = "".join(Page(content["page"]).words)
    assert words.count(HOSTILE) >= 4  # fact, legend, tables
    assert "polyad demo && echo <done>" in words


def forged(value: Any) -> Any:
    """Return a value in which every text is hostile; keys that templates name stay."""
    if isinstance(value, str):
        return '"><script>;background:url(http://example.org)'
    if isinstance(value, dict):
        return {key: forged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [forged(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value):
        return replace(value, **{f.name: forged(getattr(value, f.name)) for f in fields(value)})
    return value


def test_no_text_of_a_file_leaves_its_place_or_reaches_the_network(content) -> None:
    kept = {"template": content["template"], "facts": {"<script>": "<script>"}}
    hostile = {k: forged(v) for k, v in content.items() if k not in kept}
    text = again(hostile, **kept)
    assert "<script" not in text
    assert "&lt;script" in text
    assert not re.search(r'style="[^"]*example', text)


def test_report_tells_the_scores(content) -> None:
    words = "".join(Page(content["page"]).words).replace("\N{NO-BREAK SPACE}", " ")
    scores = content["examination"].scores
    assert f"Indian Pines: {100 * scores.overall_accuracy:.1f} % right" in words
    assert "overall accuracy without overlap" in words
    assert f"the {scores.n_test_no_overlap} pixels whose window shares no pixel" in words
    assert f"{scores.kappa:.3f}" in words
    assert f"Measured on {scores.n_test} labeled pixels" in words
    titles = [attrs.get("title") for tag, attrs in Page(content["page"]).tags if tag == "td"]
    wrong, support = scores.confusion[0, 1], scores.support[0]
    assert wrong > 0
    assert f"{wrong} of {support} pixels of {HOSTILE} are called Oats" in titles


def test_pictures_come_back_pixel_by_pixel_with_words_beside_them(content) -> None:
    images = [attrs for tag, attrs in Page(content["page"]).tags if tag == "img"]
    assert len(images) == 6  # scene, truth, map, errors, spectra, reliability
    assert all(attrs["alt"] for attrs in images)
    pixels = np.arange(60, dtype="uint8").reshape(4, 5, 3)
    data = base64.b64decode(page_image(pixels, "").light.removeprefix("data:image/png;base64,"))
    picture = np.rint(255 * imread(io.BytesIO(data))[..., :3])
    np.testing.assert_array_equal(picture, pixels)


def test_charts_follow_the_theme_of_the_page(content) -> None:
    sure, right = np.array([0.2, 0.8, 0.9]), np.array([False, True, True])
    drawn = Themed(*(reliability_chart(sure, right, theme=theme) for theme in (LIGHT, DARK)))
    text = again(content, figures=[PageFigure("Chart", "", page_image(drawn, "Chart"))])
    page = Page(text)
    assert page.open == []
    (source,) = (attrs for tag, attrs in page.tags if tag == "source")
    (light,) = (a["src"] for tag, a in page.tags if tag == "img" and a["alt"] == "Chart")
    assert source["media"] == "screen and (prefers-color-scheme: dark)"
    assert "chart paper" not in text
    for data, theme in ((source["srcset"], DARK), (light, LIGHT)):
        assert theme.ink.encode() in base64.b64decode(str(data).partition(",")[2])


@pytest.mark.parametrize("classes", [1, 2])
def test_scores_that_are_not_defined_are_left_out(tmp_path, classes: int) -> None:
    cube, labels = land(("Corn", "Oats"))
    model = train(cube, labels, samples_per_class=8, preset="paper", hidden=4, epochs=5)
    some = labels.copy(data=np.where(labels.values <= classes, labels.values, 0))
    write_report(tmp_path / "page.html", model, cube, some, title="Land")
    text = (tmp_path / "page.html").read_text()
    assert "None" not in text
    assert "nan" not in "".join(Page(text).words)


def test_the_report_of_a_model_just_trained_says_what_its_own_score_left_out(tmp_path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 2, 3], 4)[None].repeat(12, axis=0)
    cube = scene_from_array(truth[..., None] + rng.normal(0, 0.1, (12, 12, 4)))
    ids = np.where((truth < 3) & (rng.random(truth.shape) < 0.5), truth, 0)
    ids[5, 10] = 3
    model = train(cube, xr.DataArray(ids, dims=("y", "x")), hidden=8)
    labels = xr.DataArray(truth, dims=("y", "x"))
    write_report(tmp_path / "page.html", model, cube, labels, title="Land", record="polyad")
    told = "1 label (class 3 1), as none of their class was left to train on"
    page = (tmp_path / "page.html").read_text()
    assert told in page
    assert "seconds" not in page  # of one machine on one day; they are in the .json
