"""Prediction sets: what the quantile promises, what a model keeps, and what is refused."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.errors import InputError, PolyadWarning
from polyad.scene import prediction_sets
from polyad.scene.learn.accuracy import (
    HeldOutScores,
    held_out_scores,
    labels_wanted,
    least_probability,
)
from polyad.scene.learn.folds import SpatialFolds
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import LabelDistance, map_file, map_scene, set_rule
from polyad.scene.map.tile_mapper import Mapper, scene_tiles

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95])


@given(st.integers(2, 60), LEVELS, st.data())
@settings(max_examples=100, deadline=None)
def test_whichever_of_exchangeable_scores_is_the_new_one_enough_sets_hold_it(n, level, data):
    """Leave each of n + 1 scores out in turn: that is its chance to be the new one."""
    if n < labels_wanted(level):
        return
    shares = st.integers(0, 20).map(lambda k: k / 20)  # with ties
    scores = np.array(data.draw(st.lists(shares, min_size=n + 1, max_size=n + 1)))
    held = [scores[k] >= least_probability(np.delete(scores, k), level) for k in range(n + 1)]
    assert np.mean(held) >= level - 1e-9


@given(st.integers(1, 200), LEVELS)
@settings(max_examples=50, deadline=None)
def test_distinct_scores_are_held_no_more_often_than_one_in_n_above_the_level(n, level):
    if n < labels_wanted(level):
        with pytest.raises(InputError, match=f"want {labels_wanted(level)} labels"):
            least_probability(np.linspace(0, 1, n), level)
        return
    scores = np.linspace(0, 1, n + 1)
    held = [scores[k] >= least_probability(np.delete(scores, k), level) for k in range(n + 1)]
    assert level - 1e-9 <= np.mean(held) <= level + 1 / (n + 1) + 1e-9


@pytest.mark.parametrize(("level", "wanted"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19)])
def test_so_many_labels_are_enough_and_one_less_is_not(level, wanted):
    assert labels_wanted(level) == wanted
    least_probability(np.linspace(0, 1, wanted), level)
    with pytest.raises(InputError, match="ask for less coverage"):
        least_probability(np.linspace(0, 1, wanted - 1), level)


@pytest.mark.parametrize("level", [0, 1, -0.1, 90, float("nan")])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(InputError, match="between 0 and 1"):
        least_probability(np.linspace(0, 1, 50), level)


def test_labels_of_a_class_that_no_other_fold_has_are_left_out():
    targets, fold = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    logits = np.log([[0.5, 0.3, 0.2]] * 5)
    pixels = np.array([[0, 0], [0, 3], [9, 0], [9, 3], [0, 0]])
    scores = held_out_scores(logits, targets, pixels, SpatialFolds(fold, fold, 8))
    assert scores.targets == (0, 0, 1, 1)
    assert scores.distance == 3
    np.testing.assert_allclose(scores.probabilities, [0.5, 0.5, 0.3, 0.3])
    alone = SpatialFolds(np.array([0, 0, 1]), np.array([0, 0, 1]), 8)
    assert held_out_scores(logits[:3], np.array([0, 0, 1]), pixels[:3], alone) is None


@pytest.fixture(scope="module")
def land():
    """A scene of three kinds of field, its labels and its truth."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:40, :40]
    truth = ((y // 8 + x // 8) % 3 + 1).astype(np.uint8)
    cube = rng.normal(0, 1, (4, 12))[truth] + rng.normal(0, 1.5, (40, 40, 12))
    labels = np.where(rng.random((40, 40)) < 0.06, truth, 0)
    scene = xr.DataArray(cube.astype(np.float32), dims=("y", "x", "band"))
    return scene, xr.DataArray(labels, dims=("y", "x")), truth


PRESETS = {
    "fast": {"preset": "fast"},
    "average": {"preset": "fast", "objective": "average"},
    "best": {"preset": "best"},
    "best, average": {"preset": "best", "objective": "average"},
    "other-scenes": {"preset": "best", "goal": "other-scenes"},
}


@pytest.fixture(scope="module")
def models(land):
    scene, labels, _ = land
    return {
        name: train(scene, labels, window=3, hidden=6, **given) for name, given in PRESETS.items()
    }


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_with_folds_keeps_scores_and_a_file_gives_them_back(name, models, tmp_path):
    model = models[name]
    assert len(model.training.held_out.probabilities) == model.accuracy.spatial.labels
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert again.training.held_out == model.training.held_out
    assert set_rule(again, 0.9) == set_rule(model, 0.9)


@pytest.mark.parametrize("name", PRESETS)
def test_about_as_many_sets_hold_the_truth_as_promised(name, models, land):
    scene, labels, truth = land
    _, proba = map_scene(models[name], scene, probabilities=True)
    own = truth[..., None] - 1
    others = labels.values == 0
    for level in (0.6, 0.8, 0.9):
        sets = prediction_sets(models[name], proba, level)
        assert sets.dims == ("y", "x", "class")
        assert sets.values.any(axis=2).all()
        held = np.take_along_axis(sets.values, own, axis=2)[..., 0][others]
        assert held.mean() > level - 0.1


def test_a_merged_class_is_in_every_set_that_holds_a_part_of_it(models, land):
    model = models["fast"]
    merged = model.merged("class 1+class 3=both")
    _, proba = map_scene(model, land[0], probabilities=True)
    _, summed = map_scene(merged, land[0], probabilities=True)
    apart, together = (prediction_sets(m, p) for m, p in ((model, proba), (merged, summed)))
    assert together.sizes["class"] == 2
    parts = apart.values[..., [0, 2]].any(axis=2)
    assert (together.sel({"class": "both"}).values >= parts).all()


def test_what_cannot_promise_anything_is_refused_in_a_sentence(models, land):
    scene, labels, _ = land
    paper = train(scene, labels, window=3, hidden=6, preset="paper", epochs=2)
    with pytest.raises(InputError, match="preset fast or best"):
        set_rule(paper, 0.9)
    with pytest.raises(InputError, match="want 999 labels"):
        set_rule(models["fast"], 0.999)
    with pytest.raises(InputError, match="--goal other-scenes"):
        set_rule(models["best"], 0.9, scene[::-1])
    set_rule(models["fast"], 0.9, scene[::-1])
    with pytest.raises(InputError, match="3 classes, the probabilities 2"):
        prediction_sets(models["fast"], xr.DataArray(np.ones((2, 2, 2)), dims=("y", "x", "class")))


def test_sets_far_from_every_label_come_with_a_warning(models, land, tmp_path):
    scene, _, _ = land
    model, out = models["fast"], tmp_path / "map.tif"
    map_file(model, scene, out, coverage=0.9)  # labels lie all over the scene: no warning
    near = model.with_training(
        held_out=model.training.held_out.model_copy(update={"distance": 0.5})
    )
    with pytest.warns(PolyadWarning, match=r"\d+ pixels from the next label on average"):
        map_file(near, scene, out, coverage=0.9)
    with pytest.warns(PolyadWarning, match="lie in another scene"):
        map_file(model, scene[::-1], out, coverage=0.9)


@pytest.mark.parametrize(("asked", "taken"), [(20_000, 40 * 40), (180, 20 * 20)])
def test_the_distance_to_the_labels_does_not_depend_on_the_tiles(
    asked, taken, models, land, monkeypatch
):
    monkeypatch.setattr("polyad.scene.map.mapping.ASKED", asked)
    scene, _, _ = land
    found = []
    for side in (7, 40):
        distance = LabelDistance(models["fast"], models["fast"].view(scene))
        for tile, class_ids, _ in Mapper(models["fast"], scene).run(scene_tiles(scene, side)):
            distance.add(tile, class_ids)
        found.append((distance.count, round(distance.sum, 6)))
    assert found[0] == found[1]
    assert found[0][0] == taken


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (((0.5, 1.5), (0, 1)), "less than or equal to 1, got 1.5"),
        (((0.5, 0.5), (0,)), "targets must have 2 entries"),
        (((0.5,), (3,)), "must be below 3"),
    ],
)
def test_scores_that_cannot_be_are_not_kept(scores, said, models, tmp_path):
    probabilities, targets = scores
    held_out = HeldOutScores.model_construct(
        probabilities=probabilities, targets=targets, distance=4.0
    )
    with pytest.raises(InputError, match=said):
        models["fast"].with_training(held_out=held_out).save(tmp_path / "m.polyad")
    assert not list(tmp_path.iterdir())
