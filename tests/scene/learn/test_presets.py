"""Presets from labels to maps: accuracy, files, tiles, other scenes, refusals."""

import warnings

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError, PolyadWarning, SceneError
from polyad.scene.assess.evaluation import cross_validate, evaluate
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_file, map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from tests.models import train_best

QUICK = {"hidden": 8, "epochs": 60, "window": 3, "random_state": 0}
GOALS = ("this-scene", "other-scenes")


def make_scene(height=36, width=45, bands=10, seed=0, noise=25.0):
    """Return a scene of six fields of three classes in heavy noise, and its labels."""
    rng = np.random.default_rng(seed)
    field = (np.arange(width) // 15)[None] + 3 * (np.arange(height) // 18)[:, None]
    label = np.array([1, 2, 3, 3, 1, 2])[field]
    spectra = np.random.default_rng(1).normal(1000, 15, size=(4, bands))
    values = spectra[label] + rng.normal(0, noise, size=(height, width, bands))
    scene = xr.DataArray(values.astype(np.float32), dims=("y", "x", "band"))
    table = [ClassInfo(k, f"class {k}", "#336699") for k in (1, 2, 3)]
    raster = xr.DataArray(label.astype(np.uint16), dims=("y", "x"), name="class")
    return scene, with_classes(raster, table)


@pytest.fixture(scope="module")
def models():
    scene, labels = make_scene()
    found = {
        goal: train(scene, labels, samples_per_class=8, preset="best", goal=goal, **QUICK)
        for goal in GOALS
    }
    for name, goal in (("fast", GOALS[0]), ("fast elsewhere", GOALS[1])):
        options = {"samples_per_class": 8, "preset": "fast", "goal": goal} | QUICK
        found[name] = train(scene, labels, **options)
    return found


def test_best_beats_fast_in_noise(models):
    scene, labels = make_scene()
    score = {name: evaluate(m, scene, labels).overall_accuracy for name, m in models.items()}
    assert score["this-scene"] > score["fast"] + 0.02
    assert score["other-scenes"] > score["fast"] + 0.02


@pytest.mark.parametrize("goal", GOALS)
def test_a_model_read_back_makes_the_same_map(models, goal, tmp_path):
    scene, _ = make_scene()
    models[goal].save(tmp_path / "model.polyad")
    again = SceneModel.load(tmp_path / "model.polyad")
    assert again.recipe == models[goal].recipe
    first, second = (map_scene(m, scene, probabilities=True)[1] for m in (models[goal], again))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("goal", GOALS)
def test_a_map_in_tiles_is_the_map_in_one_piece(models, goal, tmp_path):
    scene, _ = make_scene()
    ids, whole = map_scene(models[goal], scene, probabilities=True)
    tiled_ids, tiled = map_scene(models[goal], scene, probabilities=True, tile=13)
    np.testing.assert_allclose(whole, tiled, atol=1e-5)
    assert (ids == tiled_ids).mean() > 0.999
    map_file(models[goal], scene, tmp_path / "map.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "map.npy"), ids)


@pytest.mark.parametrize("goal", GOALS)
def test_probabilities_add_up_to_one_and_rank_as_the_map(models, goal):
    scene, _ = make_scene()
    ids, proba = map_scene(models[goal], scene, probabilities=True)
    np.testing.assert_allclose(proba.sum("class"), 1, atol=1e-5)
    np.testing.assert_array_equal(proba.values.argmax(axis=-1) + 1, ids)


def test_the_other_scenes_network_is_an_ordinary_rank_r_network_on_bands(models):
    estimator = models["other-scenes"].estimator
    assert estimator.sample_shape_ == (3, 3, 10)
    assert estimator.network_.hidden.out_features == 3 * 8


def test_a_this_scene_model_warns_on_another_scene_and_works_without_its_labels(models):
    other, labels = make_scene(seed=5)
    with pytest.warns(UserWarning, match="used on another one"):
        score = evaluate(models["this-scene"], other, labels).overall_accuracy
    assert score > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(models["other-scenes"], other, labels).overall_accuracy > score


@pytest.mark.parametrize("goal", GOALS)
def test_pixels_without_data_stay_without_class_and_spoil_no_other(goal):
    scene, labels = make_scene()
    holes = scene.copy()
    holes[5:9, 4:10] = np.nan
    holes = holes.rio.write_nodata(np.nan)
    model = train(holes, labels, samples_per_class=8, preset="best", goal=goal, **QUICK)
    ids, proba = map_scene(model, holes, probabilities=True)
    assert (ids[5:9, 4:10] == 0).all()
    assert np.isnan(proba[5:9, 4:10]).all()
    assert int((ids == 0).sum()) == 24
    assert evaluate(model, holes, labels).overall_accuracy > 0.8


@pytest.mark.parametrize("goal", GOALS)
def test_the_score_is_that_of_the_same_folds_whatever_the_preset(models, goal):
    """Blocks of 2 pixels lie as far apart as the map from the labels; without that they are 8."""
    fast, best = (models[name] for name in ("fast" if goal == GOALS[0] else "fast elsewhere", goal))
    found = [model.accuracy.spatial for model in (fast, best)]
    assert [(f.side, f.groups, f.labels) for f in found] == [
        {"this-scene": (2, 24, 24), "other-scenes": (8, 19, 24)}[goal]
    ] * 2


def test_the_folds_of_the_score_change_nothing_else(models):
    here, elsewhere = models["fast"], models["fast elsewhere"]
    assert here.training.held_out == elsewhere.training.held_out
    assert (here.training.choice.experts, here.training.choice.weights) == (
        elsewhere.training.choice.experts,
        elsewhere.training.choice.weights,
    )
    first, second = (map_scene(m, make_scene()[0], probabilities=True) for m in (here, elsewhere))
    np.testing.assert_array_equal(first[1], second[1])


def test_best_is_scored_by_the_folds_of_all_presets_where_it_knows_the_scene_better(monkeypatch):
    """Of a large scene every preset has a sample of places, and best all of them."""
    scene, labels = make_scene()
    options = {"samples_per_class": 8, "preset": "best"} | QUICK
    monkeypatch.setattr("polyad.scene.learn.training._distance", lambda *_: 8.0)
    chosen = train(scene, labels, score=False, **options)
    model = train(scene, labels, **options)
    assert (chosen.accuracy.spatial.side, model.accuracy.spatial.side) == (8, 2)
    assert "propagated" in model.recipe.line
    assert model.recipe == chosen.recipe
    np.testing.assert_array_equal(map_scene(model, scene), map_scene(chosen, scene))


def test_the_paper_preset_is_the_papers_solver_and_takes_overrides():
    scene, labels = make_scene()
    model = train(scene, labels, samples_per_class=4, preset="paper", epochs=2, window=3)
    assert model.estimator.solver == "alternating"
    assert model.estimator.start == "xavier"
    assert model.estimator.epochs == 2
    assert "alternating" in model.recipe.line
    assert map_scene(model, scene).shape == labels.shape


def test_classes_with_one_or_two_labels_are_learned():
    scene, labels = make_scene()
    sparse = labels.copy(data=np.zeros_like(labels.values))
    for row, col in ((3, 3), (4, 20), (5, 40), (30, 40)):
        sparse.values[row, col] = labels.values[row, col]
    model = train(scene, sparse, preset="best", **QUICK)
    assert evaluate(model, scene, labels).n_test == labels.size - 4


def test_one_label_per_class_leaves_the_prior_choice_and_says_so():
    scene, labels = make_scene()
    sparse = labels.copy(data=np.zeros_like(labels.values))
    for row, col in ((3, 3), (4, 20), (5, 40)):
        sparse.values[row, col] = labels.values[row, col]
    model = train(scene, sparse, preset="best", hidden=8, epochs=60)
    assert "whitened spectra, 5 x 5 windows" in model.recipe.line
    assert "propagated" in model.recipe.line
    assert model.training.choice.overall is None
    assert "not known" in model.score_line


def mixed_scene(seed=0):
    """Return a scene whose pixels have no neighbors of their class but by chance."""
    rng = np.random.default_rng(seed)
    label = rng.integers(1, 4, (40, 40))
    spectra = np.random.default_rng(1).normal(1000, 60, size=(4, 10))
    values = spectra[label] + rng.normal(0, 40, size=(40, 40, 10))
    scene = xr.DataArray(values.astype(np.float32), dims=("y", "x", "band"))
    return scene, xr.DataArray(label.astype(np.uint8), dims=("y", "x"))


@pytest.mark.parametrize("goal", GOALS)
def test_mixed_pixels_get_single_spectra_and_nothing_smoothed(goal):
    """Windows, propagation and smoothing win in fields; here each of them would cost."""
    scene, labels = mixed_scene()
    model = train(scene, labels, samples_per_class=40, preset="best", goal=goal, hidden=20)
    assert "windows" not in model.recipe.line
    assert model.recipe.steps == ()
    score = evaluate(model, scene, labels).overall_accuracy
    fixed = train(scene, labels, samples_per_class=40, preset="best", goal=goal, window=5)
    assert score > evaluate(fixed, scene, labels).overall_accuracy + 0.03
    assert abs(score - model.training.choice.overall) < 0.1


def test_labels_in_one_corner_are_not_propagated_over_the_whole_scene():
    scene, labels = make_scene(noise=8.0)
    wide = xr.concat([scene] * 4, "y")
    corner = np.zeros(wide.shape[:2], labels.dtype)
    corner[:6:2, ::4] = labels.values[:6:2, ::4]
    model = train(wide, xr.DataArray(corner, dims=("y", "x")), preset="best", **QUICK)
    assert model.recipe.propagation is None


def test_the_average_objective_finds_more_of_a_rare_class():
    scene, labels = mixed_scene()
    noisy = scene + np.random.default_rng(5).normal(0, 60, scene.shape).astype(np.float32)
    kept = np.where((labels.values != 3) | (np.random.default_rng(2).random((40, 40)) < 0.1), 1, 0)
    some = labels.copy(data=np.where(np.random.default_rng(3).random((40, 40)) < 0.4, kept, 0)
                       * labels.values)  # fmt: skip
    found = {}
    for objective in ("overall", "average"):
        model = train(noisy, some.astype(np.uint8), objective=objective, hidden=20)
        found[objective] = float((map_scene(model, noisy).values == 3)[labels.values == 3].mean())
    assert found["average"] > found["overall"] + 0.1


@pytest.mark.parametrize("goal", GOALS)
def test_fields_without_noise_and_scenes_of_one_row_are_learned(goal):
    """Noise of rank zero cannot be inverted without a floor."""
    label = np.repeat([1, 2, 3], 20)[None].repeat(30, axis=0)
    spectra = np.random.default_rng(0).normal(1000, 50, size=(4, 30))
    for rows in (30, 1):
        scene = xr.DataArray(spectra[label[:rows]].astype(np.float32), dims=("y", "x", "band"))
        labels = xr.DataArray(label[:rows].astype(np.uint8), dims=("y", "x"))
        model = train(scene, labels, samples_per_class=9, preset="best", goal=goal, **QUICK)
        assert evaluate(model, scene, labels).overall_accuracy > 0.9


def test_a_constant_scene_is_refused_by_the_fast_preset_too():
    scene = xr.DataArray(np.full((12, 12, 5), 5.0, np.float32), dims=("y", "x", "band"))
    labels = xr.DataArray((np.arange(144).reshape(12, 12) % 3).astype(np.uint8), dims=("y", "x"))
    with pytest.raises(SceneError, match="have the same spectrum"):
        train(scene, labels)


def test_refusals(models):
    scene, labels = make_scene()
    with pytest.raises(InputError, match="preset must be one of"):
        train(scene, labels, preset="finest")
    with pytest.raises(InputError, match="goal must be one of"):
        train(scene, labels, preset="best", goal="everything")
    with pytest.raises(InputError, match="not both"):
        train(scene, labels, preset="best", estimator=models["fast"].estimator)
    with pytest.raises(SceneError, match="whole scene in memory"):
        train(scene, labels, preset="best", max_bytes=10_000, **HASTY)
    with pytest.raises(SceneError, match=r"\(in Python, max_bytes\), or train with --preset fast$"):
        train(scene, labels, preset="best", goal="other-scenes", max_bytes=10_000, **HASTY)
    with pytest.raises(SceneError, match="1 labeled pixels of each class do not fit"):
        train(scene, labels, preset="fast", max_bytes=100)


HASTY = {"hidden": 2, "epochs": 2, "window": 1, "samples_per_class": 4}


@pytest.mark.parametrize("goal", GOALS)
def test_the_default_preset_is_best_for_either_goal(goal):
    recipe = train(*make_scene(), goal=goal, **HASTY).recipe
    assert (recipe.preset, recipe.goal) == ("best", goal)


@pytest.mark.parametrize("goal", GOALS)
def test_the_default_preset_is_fast_where_best_does_not_fit_and_one_line_says_so(goal):
    said = r"^the preset fast is used instead of best, .* 10,000 may be used; .* raise --max-bytes"
    with pytest.warns(PolyadWarning, match=said) as told:
        recipe = train(*make_scene(), goal=goal, max_bytes=10_000, **HASTY).recipe
    assert (recipe.preset, recipe.goal) == ("fast", goal)
    assert len(told) == 1


def test_of_more_labels_than_fit_in_memory_a_part_of_each_class_is_learned():
    options = HASTY | {"samples_per_class": None, "preset": "fast"}
    with pytest.warns(PolyadWarning, match="of 1,620 labeled pixels are learned, drawn at random"):
        model = train(*make_scene(), max_bytes=40_000, **options)
    assert model.training.counts == (166, 166, 166)


def test_the_default_preset_is_fast_for_a_scene_of_a_few_pixels():
    few = {"y": slice(17, 19), "x": slice(14, 17)}
    scene, labels = (part.isel(few) for part in make_scene())
    with pytest.warns(PolyadWarning, match="label propagation wants more pixels"):
        model = train(scene, labels, hidden=2, epochs=2, window=1)
    assert model.recipe.preset == "fast"


def test_cross_validation_has_the_same_default_preset_and_warns_once():
    scene, labels = make_scene()
    few = labels.where(np.arange(labels.size).reshape(labels.shape) % 40 == 0, 0)
    few.attrs = labels.attrs
    options = {"hidden": 2, "epochs": 2, "window": 1, "folds": 2, "pixelwise": False}
    with pytest.warns(PolyadWarning, match="preset fast is used") as told:
        cross_validate(scene, few, max_bytes=10_000, **options)
    assert len(told) == 1


def test_the_noise_of_a_large_scene_is_learned_by_strips(monkeypatch):
    import polyad.scene.learn.scene_statistics as module

    scene, labels = make_scene()
    monkeypatch.setattr(module, "SAMPLE_PIXELS", 800)
    pixels = np.argwhere(labels.values > 0)[::60]
    model = train_best(scene, labels, pixels, goal="other-scenes", **QUICK)
    assert evaluate(model, scene, labels).overall_accuracy > 0.8
