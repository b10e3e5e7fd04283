"""Large scenes on the page: learned in the background, mapped view first."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from polyad.app import prepare
from polyad.app import trainer as module
from polyad.app.maps import Drawing, MapVersion, View
from polyad.errors import InputError, SceneError
from polyad.scene.learn import recipe
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import Tile, plan_tiles
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    """Take scenes of more than a hundred pixels for large, superpixels included."""
    monkeypatch.setattr(module, "LARGE_PIXELS", 100)
    monkeypatch.setattr(module, "BEST_TILE", (8, 16))
    monkeypatch.setattr(recipe, "EXACT_PIXELS", 100)
    monkeypatch.setattr(module, "LEARNING_INTERVAL", 0.0)


@pytest.fixture
def gate(monkeypatch):
    """Hold scene statistics up until the event is set."""
    event, real = threading.Event(), module.scene_statistics

    def held(*given, check, progress, **options):
        progress("noise", 0.4)
        while not event.wait(0.01):
            check()
        return real(*given, check=check, progress=progress, **options)

    monkeypatch.setattr(module, "scene_statistics", held)
    yield event
    event.set()


@pytest.fixture
def work_best(make_work, kit):
    return lambda goal="this-scene": make_work(replace(kit.quick, preset="best", goal=goal))


def preset(trainer):
    recipe = getattr(trainer.newest_map.model, "recipe", None)
    return None if recipe is None else recipe.preset


def learned(news):
    return [about["share"] for kind, about in news if kind == "learning"]


def test_the_quick_map_comes_first_and_the_best_one_takes_over_by_itself(
    work_best, gate, scene, kit
):
    session, trainer, news = work_best()
    kit.label_some(session)
    kit.wait_for(lambda: preset(trainer) == "fast")
    assert trainer.newest_map.stage == "draft"  # not what was asked for
    kit.wait_for(lambda: trainer.learned == 0.4)
    gate.set()
    kit.wait_for(lambda: kit.finished(trainer))
    assert preset(trainer) == "best"
    assert learned(news)[:2] == [0.0, 0.4]
    assert learned(news)[-1] is None
    assert trainer.learned is None


def test_the_final_model_of_a_large_scene_is_the_one_that_train_gives(work_best, scene, kit):
    session, trainer, _ = work_best()
    kit.label_some(session)
    model = trainer.final_model()
    labels = session.snapshot().raster(scene)
    other = train(scene, labels, window=3, preset="best", **kit.quick.parameters)
    first, second = (m.estimator.network_.state_dict() for m in (model, other))
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert model.recipe == other.recipe
    np.testing.assert_array_equal(trainer.newest_map.ids, map_scene(other, scene).values)
    about = trainer.newest_map.about
    assert len(about["advice"]) > 0
    assert trainer.means["1"]["count"] == 5


def test_a_map_for_other_scenes_needs_no_components(work_best, scene, kit):
    session, trainer, _ = work_best("other-scenes")
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer) and preset(trainer) == "best")
    model = trainer.newest_map.model
    assert model.statistics.components is None
    wanted = map_scene(replace(model, radiometry=None), scene).values
    np.testing.assert_array_equal(trainer.newest_map.ids, wanted)


def test_stopping_ends_the_learning_at_once(work_best, gate, kit):
    _, trainer, news = work_best()
    kit.wait_for(lambda: trainer.learned == 0.4)
    [thread] = [each for each in threading.enumerate() if each.name == "polyad-learning"]
    trainer.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert None not in learned(news)  # it was not finished


def test_a_scene_that_cannot_be_learned_gets_the_fast_map_and_a_message(
    work_best, monkeypatch, kit
):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(module, "scene_statistics", full)
    session, trainer, news = work_best()
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer))
    assert preset(trainer) == "fast"
    (message,) = {about["message"] for kind, about in news if kind == "problem"}
    assert message == "no best map, the fast one instead: there is not enough memory"


def test_a_file_asked_for_too_early_says_how_far_the_scene_is_learned(work_best, gate, kit):
    session, trainer, _ = work_best()
    kit.label_some(session)
    kit.wait_for(lambda: preset(trainer) == "fast")
    with pytest.raises(SceneError, match=r"still being learned \(40%\); save again"):
        trainer.final_model(timeout=0.2)


def test_a_draft_shows_what_is_in_view_before_the_rest(work_best, monkeypatch, kit):
    session, trainer, news = work_best()
    kit.wait_for(lambda: None in learned(news))
    trainer.view = View(Tile(slice(20, 30), slice(0, 13)), 8.0)
    shown, real = [], trainer._show

    def show(new_map):
        shown.append((new_map.about["share"], new_map.stage, new_map.ids.copy()))
        real(new_map)

    monkeypatch.setattr(trainer, "_show", show)
    kit.label_some(session)
    kit.wait_for(lambda: kit.finished(trainer))
    share, stage, ids = shown[0]
    assert (share, stage) == (0.0, "draft")
    assert (ids[20:30, :13] > 0).all()
    assert np.count_nonzero(ids) == 130
    assert (shown[-1][2] > 0).all()


def test_tiles_in_view_are_taken_first_also_after_the_view_moved():
    tiles = plan_tiles((40, 40), (10, 10))
    drawing = Drawing(MapVersion.empty((40, 40)), tiles)
    corner = View(Tile(slice(30, 40), slice(0, 12)), 1.0)
    taken = drawing.take(corner, 2)
    assert all(corner.shows(tile) for tile in taken)
    other = View(Tile(slice(0, 5), slice(32, 40)), 1.0)
    assert drawing.take(other, 1) == [Tile(slice(0, 10), slice(30, 40))]
    assert drawing.share == 3 / 16
    assert len(drawing.take(other, 100)) == 13
    assert drawing.take(other, 1) == []


def test_a_view_far_larger_than_a_screen_is_drawn_as_blocks():
    drawing = Drawing(MapVersion.empty((5, 5)), [])
    proba = np.eye(9).reshape(3, 3, 9)
    drawing.put(Tile(slice(0, 5), slice(0, 5)), proba, np.arange(1, 10), stride=2)
    np.testing.assert_array_equal(drawing.ids[::2, ::2], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert drawing.ids[1, 3] == 2
    assert drawing.ids[4, 4] == 9


@pytest.mark.parametrize(
    ("pixels", "scale", "stride"), [(100, 4.0, 1), (1000, 1.0, 4), (1000, 0.2, 4), (100, 0.2, 4)]
)
def test_no_more_pixels_are_mapped_than_fit(pixels, scale, stride):
    view = View(Tile(slice(0, pixels), slice(0, pixels)), scale)
    assert view.stride(100_000) == stride


WRONG = [
    {},
    {"rows": [0, 10], "cols": [0, 10]},
    {"rows": [0, 10], "cols": [0, 10], "scale": 0},
    {"rows": [0, 10], "cols": [0, 10], "scale": "1"},
    {"rows": [0, 10], "cols": [0, 10], "scale": True},
    {"rows": [0, 31], "cols": [0, 10], "scale": 1},
    {"rows": [-1, 10], "cols": [0, 10], "scale": 1},
    {"rows": [10, 10], "cols": [0, 10], "scale": 1},
    {"rows": [0, 10], "cols": [0, 10, 20], "scale": 1},
    {"rows": [0, 10.5], "cols": [0, 10], "scale": 1},
    {"rows": {"0": 1}, "cols": [0, 10], "scale": 1},
    {"rows": [0, 1e30], "cols": [0, 10], "scale": 1},
]


@pytest.mark.parametrize("message", WRONG)
def test_a_view_that_is_no_rectangle_of_the_scene_is_refused_in_one_sentence(client, page, message):
    before = page.workspace.trainer.view
    answer = client.post("api/focus", json=message)
    assert answer.status_code == 422
    assert " must be " in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert page.workspace.trainer.view is before


def test_a_page_tells_what_it_shows(client, page):
    good = {"rows": [3, 30], "cols": [0, 40], "scale": 0.5}
    assert client.post("api/focus", json=good).status_code == 200
    view = page.workspace.trainer.view
    assert view == View(Tile(slice(3, 30), slice(0, 40)), 0.5)
    with pytest.raises(
        InputError, match="rows must be two whole numbers that rise between 0 and 30"
    ):
        View.from_message(good | {"rows": [3, 31]}, (30, 40))


def test_the_page_says_that_the_scene_is_being_learned(tab, gate, scene, tmp_path, kit):
    best = replace(kit.quick, preset="best")
    served = prepare(scene, journal=tmp_path / "j.jsonl", settings=best).start()
    try:
        kit.open_page(tab, served)
        shown = "document.getElementById('learning').innerText"
        kit.until(tab, f"{shown} === 'learning the scene, 40 %'")
        for name, col in (("Water", 3), ("Corn", 20)):
            kit.add_class(tab, name)
            for row in range(3, 27, 5):
                tab.mouse.click(*kit.place(tab, row, col))
        kit.label_count(tab, 10)
        kit.until(tab, "polyad.viewer.shownVersion > 0")
        assert tab.get_attribute("#status", "data-stage") == "draft"
        gate.set()
        tab.wait_for_selector('#status[data-stage="final"][data-revision="10"]')
        kit.until(tab, "document.getElementById('learning').hidden")
        assert "network on" in tab.text_content("#map-steps")
        wanted = tab.evaluate("polyad.viewer.view()")
        kit.wait_for(lambda: served.workspace.trainer.view.scale == wanted["scale"])
    finally:
        served.stop()
