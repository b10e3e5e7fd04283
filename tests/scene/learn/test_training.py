"""From labeled pixels to a model, and the two accuracies that an evaluation owes."""

import numpy as np
import pytest
import xarray as xr
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from polyad import RankRClassifier
from polyad.errors import InputError, PolyadWarning, SceneError, SceneMismatch
from polyad.scene.assess.evaluation import class_evaluation, evaluate, held_out
from polyad.scene.learn.sampling import Split, blocks, fraction, from_labels
from polyad.scene.learn.training import train, train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.read.scenes import scene_from_array

CLASSES = (
    ClassInfo(2, "Corn", "#112233"),
    ClassInfo(4, "Soil", "#445566"),
    ClassInfo(9, "Water", "#778899"),
)
QUICK = {"hidden": 12, "epochs": 40, "window": 3}


def as_labels(values):
    return with_classes(xr.DataArray(np.asarray(values, np.uint16), dims=("y", "x")), CLASSES)


@pytest.fixture(scope="module")
def land():
    """A scene of three fields whose spectra overlap, and its labels; a third is unlabeled."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.repeat(rng.choice([2, 4, 9], (6, 6)), 8, axis=0), 8, axis=1)
    means = {2: 100, 4: 112, 9: 124}
    offsets = np.vectorize(means.get)(truth)[..., None] + np.arange(10)
    scene = scene_from_array(np.rint(offsets + rng.normal(0, 12, (48, 48, 10))).astype(np.int16))
    return scene, as_labels(np.where(rng.random((48, 48)) < 0.67, truth, 0))


@pytest.fixture(scope="module")
def model(land):
    return train(*land, samples_per_class=20, **QUICK)


# -- training ----------------------------------------------------------------------------------


def test_a_model_knows_its_classes_window_and_pixels(land, model):
    assert model.classes == CLASSES
    assert (model.window, model.bands) == (3, 10)
    pixels = model.training.pixels
    drawn = land[1].values[tuple(pixels.T)]
    assert np.unique(drawn, return_counts=True)[1].tolist() == [20, 20, 20]


@pytest.mark.parametrize("preset", ["paper", "fast", "best"])
def test_a_window_wider_than_the_scene_is_refused_before_a_pixel_is_read(land, preset):
    scene, labels = (part.isel(y=slice(0, 12), x=slice(0, 9)) for part in land)
    unread = scene.copy(data=np.broadcast_to(np.float32(np.nan), scene.shape))
    told = "scene, 12 x 9 pixels, got 13; choose an odd number of pixels up to 11"
    pixels = np.argwhere(labels.values > 0)
    with pytest.raises(InputError, match=told):
        train(unread, labels, window=13, preset=preset)
    with pytest.raises(InputError, match=told):
        train_on(unread, labels, pixels, window=13, preset=preset)
    assert train(scene, labels, window=11, hidden=2, epochs=2).window == 11


def test_the_same_seed_gives_the_same_model_and_another_seed_another(land):
    maps = [
        map_scene(train(*land, samples_per_class=5, random_state=seed, **QUICK), land[0]).values
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(maps[0], maps[1])
    assert (maps[0] != maps[2]).any()


@pytest.mark.parametrize("per_class", [None, 10])
def test_pixels_at_the_border_can_be_dropped(land, per_class):
    scene, labels = land
    quick = {"hidden": 3, "epochs": 2, "window": 5}
    model = train(scene, labels, border="drop", samples_per_class=per_class, **quick)
    pixels = model.training.pixels
    assert pixels.min() >= 2
    assert pixels.max() < 46


def test_pixels_without_data_are_never_trained_on(land):
    scene, labels = land
    values = scene.values.astype(np.float32)
    lost = np.random.default_rng(1).random(labels.shape) < 0.3
    values[lost, 3] = np.nan
    model = train(scene_from_array(values), labels, samples_per_class=30, **QUICK)
    assert not lost[tuple(model.training.pixels.T)].any()
    assert np.isfinite(model.fill).all()


def test_windows_over_missing_pixels_are_filled_alike_in_training_and_mapping(land):
    scene, labels = land
    values = scene.values.astype(np.float32)
    values[::5, ::5] = -1.0
    holed = scene_from_array(values, nodata=-1.0)
    for options in ({"preset": "fast"}, {"preset": "fast", "standardize": None}):
        model = train(holed, labels, samples_per_class=30, **QUICK, **options)
        patched = values.copy()
        patched[::5, ::5] = model.fill
        wanted = map_scene(model, scene_from_array(patched), probabilities=True)[1].values
        found = map_scene(model, holed, probabilities=True)[1].values
        known = ~np.isnan(found)
        assert (~known).any(axis=-1).sum() == 100
        np.testing.assert_allclose(found[known], wanted[known], atol=1e-5)


def test_a_random_part_of_labels_above_the_budget_is_learned_about_as_well(land):
    scene, labels = land
    split = fraction(labels, 0.5, random_state=0)
    quick = {"hidden": 12, "window": 3, "random_state": 0, "preset": "fast"}
    whole = train_on(scene, labels, split.train, **quick)
    budget = 2 * len(split.train) * 9 * 10 * 4 // 3
    with pytest.warns(PolyadWarning, match="drawn at random from each class"):
        part = train_on(scene, labels, split.train, max_bytes=budget, **quick)
    assert len(part.training.pixels) == pytest.approx(len(split.train) / 3, abs=3)
    apart = [evaluate(m, scene, labels, split=split).overall_accuracy for m in (whole, part)]
    assert apart[0] > 0.8
    assert apart[1] > apart[0] - 0.05


def test_other_classifiers_of_spectra_are_trained_mapped_and_scored(land):
    scene, labels = land
    model = train(scene, labels, window=1, samples_per_class=30, estimator=GaussianNB())
    examined = class_evaluation(model, scene, labels)
    scores, result = examined.scores, examined.to_dict()
    assert scores.overall_accuracy > 0.6
    assert result["fit_seconds"] == model.training.seconds > 0
    assert model.estimator.n_features_in_ == 10


def test_another_classifier_of_patches_is_trained_and_mapped(land):
    scene, labels = land
    model = train(scene, labels, samples_per_class=9, estimator=RankRClassifier.paper(epochs=2))
    assert map_scene(model, scene).shape == labels.shape


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (lambda v: v * 0, {}, SceneError, "no pixel is labeled"),
        (lambda v: np.where(v == 4, 4, 0), {}, SceneError, "all .* of class 'Soil'; label"),
        (lambda v: v[:40], {}, SceneMismatch, "48 rows and 48 columns, got 40 rows"),
        (lambda v: v, {"window": 4}, InputError, "odd"),
        (lambda v: v, {"window": 0}, InputError, "odd"),
        (lambda v: v, {"solver": "newton"}, InputError, "'joint' or 'alternating'"),
        (lambda v: v, {"samples_per_class": 0}, InputError, "at least 1"),
        (lambda v: v, {"estimator": SVC(), "rank": 2}, InputError, "parameters rank belong"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_sentence(land, change, options, error, words):
    scene, labels = land
    with pytest.raises(error, match=words):
        train(scene, as_labels(change(labels.values)), **options)


def test_no_pixel_is_left_where_all_labels_lie_on_missing_data(land):
    scene, labels = land
    values = np.full(scene.shape, np.nan, np.float32)
    with pytest.raises(SceneError, match="no labeled pixel"):
        train(scene_from_array(values), labels)


# -- evaluation --------------------------------------------------------------------------------


def test_held_out_pixels_are_all_labeled_ones_but_those_trained_on(land, model):
    scene, labels = land
    split = held_out(model, scene, labels)
    assert {tuple(p) for p in split.train.tolist()} == {tuple(p) for p in model.training.pixels}
    everything = np.zeros(labels.shape, int)
    for pixels in (split.train, split.test):
        np.add.at(everything, tuple(pixels.T), 1)
    np.testing.assert_array_equal(everything, labels.values > 0)


def test_on_another_scene_every_labeled_pixel_tests(land, model):
    scene, labels = land
    split = held_out(model, scene + np.int16(1), labels)
    assert len(split.train) == 0
    assert len(split.test) == int((labels > 0).sum())


def test_no_pixel_is_left_to_test_on(land):
    scene, labels = land
    model = train(scene, labels, hidden=3, epochs=2, window=1)
    with pytest.raises(SceneError, match="every labeled pixel was used for training"):
        evaluate(model, scene, labels)


@pytest.mark.parametrize("sampler", ["blocks", "fraction", "from_labels"])
def test_every_sampler_gives_a_split_to_train_and_test_with(land, sampler):
    scene, labels = land
    left = labels.copy()
    left[:, 24:] = 0
    right = labels.copy()
    right[:, :24] = 0
    split = {
        "blocks": lambda: blocks(labels, 0.5, random_state=0, size=12, window=3),
        "fraction": lambda: fraction(labels, 0.1, random_state=0),
        "from_labels": lambda: from_labels(left, right),
    }[sampler]()
    model = train_on(scene, labels, split.train, **QUICK)
    scores = evaluate(model, scene, labels, split=split)
    assert scores.n_test == len(split.test)
    assert scores.overall_accuracy > 0.6
    if sampler == "blocks":
        assert scores.n_test_no_overlap == scores.n_test


def test_a_class_that_the_model_never_learned_is_named_and_left_out(land):
    scene, labels = land
    two = as_labels(np.where(labels.values == 9, 0, labels.values))
    model = train(scene, two, samples_per_class=9, **QUICK)
    scores = evaluate(model, scene, labels)
    lost = int((labels.values == 9).sum())
    assert scores.left_out == ((CLASSES[2], lost),)
    assert scores.n_test == int((labels.values > 0).sum()) - lost - 18
    assert f"Left out: {lost} pixels of classes the model does not know (9 Water: {lost})" in str(
        scores
    )
    with pytest.raises(SceneMismatch, match=f"none of the {lost} test pixels .* hold 9 Water"):
        evaluate(model, scene, as_labels(np.where(labels.values == 9, 9, 0)))


def test_a_split_of_a_few_pixels_reads_only_their_tiles(land, model, monkeypatch):
    scene, labels = land
    monkeypatch.setattr("polyad.scene.map.tile_mapper.IN_MEMORY_TILE", 1)
    monkeypatch.setattr("polyad.scene.raster.windows.TILE_BYTES", 48 * 32 * 20)  # strips of 32 rows
    read = []
    from polyad.scene.map import tile_mapper as mapper

    original = mapper.read_block
    monkeypatch.setattr(
        mapper, "read_block", lambda s, part, halo: read.append(part) or original(s, part, halo)
    )
    few = np.argwhere(labels.values[:20] > 0)[:7]
    evaluate(model, scene, labels, split=Split(np.empty((0, 2), np.intp), few))
    assert [part.rows for part in read] == [slice(0, 32)]
