"""Another light is told from other ground, said in one sentence, and folded into the model."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from polyad.errors import InputError, PolyadWarning
from polyad.scene.assess.evaluation import evaluate
from polyad.scene.learn.adaptation import (
    Shift,
    adapt_model,
    band_shift,
    common_shift,
    compare,
    drawn_shift,
    fold_shift,
    nearest_distance,
)
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.scene import SAMPLE, Scene, sample_pixels
from polyad.scene.raster.selection import mask_scene
from tests.scene.learn.references import nearest_distance_slow

HEIGHT, WIDTH, BANDS = 40, 36, 24


def make_scene(seed=0):
    """Return a scene of fields with smooth spectra, and its classes."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, BANDS)
    spectra = np.array([1500 + 500 * np.sin(3 * x + k) + 250 * k * x for k in range(4)])
    y, across = np.mgrid[:HEIGHT, :WIDTH]
    truth = (y // 8 + across // 9) % 4
    cube = spectra[truth] * rng.uniform(0.95, 1.05, (HEIGHT, WIDTH, 1))
    cube = cube + rng.normal(0, 12, cube.shape)
    scene = xr.DataArray(cube.astype(np.float32), dims=("y", "x", "band"))
    return scene, xr.DataArray((truth + 1).astype(np.uint8), dims=("y", "x"))


def moved(scene, gain=1.0, offset=0.0):
    return scene.copy(data=(scene.values * gain + offset).astype(np.float32))


KINDS = {
    "fast": {"preset": "fast"},
    "other-scenes": {"preset": "best", "goal": "other-scenes"},
    "this-scene": {"preset": "best", "goal": "this-scene"},
}


@pytest.fixture(scope="module")
def scene():
    return make_scene()[0]


@pytest.fixture(scope="module")
def labels():
    return make_scene()[1]


@pytest.fixture(scope="module")
def models(scene, labels):
    return {
        name: train(scene, labels, window=3, hidden=12, samples_per_class=10, **options)
        for name, options in KINDS.items()
    }


BAND_GAINS = 1 + np.random.default_rng(5).uniform(-0.03, 0.03, BANDS)
LIGHTS = {
    "brighter": (1.3, 150.0),
    "darker": (0.7, -100.0),
    "each band": (BAND_GAINS, 0.0),
    "reflectance": (1e-4, 0.0),
    "all of it": (0.8 * BAND_GAINS, 90.0),
}


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapted_map_is_that_of_the_untouched_scene(kind, light, scene, models):
    model, other = models[kind], moved(scene, *LIGHTS[light])
    wanted = map_scene(model, scene).values
    got = map_scene(model, other, adapt=True).values
    assert (got == wanted).mean() > 0.98


@pytest.mark.parametrize("light", LIGHTS)
def test_another_light_is_said_in_one_sentence(light, scene, models):
    with pytest.warns(PolyadWarning, match="radiometric shift") as told:
        map_scene(models["fast"], moved(scene, *LIGHTS[light]))
    assert len(told) == 1
    sentence = str(told[0].message)
    assert "map with --adapt (in Python, adapt=True)" in sentence
    assert " % of them lie beyond the 1st and 99th percentile" in sentence
    if light == "brighter":
        assert "about 1.30 times the training scene's plus 150" in sentence
    if light == "reflectance":
        assert "about 1/10,000 of the training scene's, as reflectance is of counts" in sentence


def test_a_model_for_other_scenes_is_adapted_by_itself_and_says_so(scene, models):
    other = moved(scene, 1.3, 150)
    adapted = adapt_model(models["other-scenes"], other)
    assert adapted.adapted == (
        "adapted to the scene's light by one gain and one offset: its values are about 1.30 times "
        "the training scene's plus 150"
    )
    with pytest.warns(PolyadWarning, match="radiometric shift"):
        left = adapt_model(models["other-scenes"], other, adapt=False)
    assert left.adapted is None


@pytest.mark.parametrize("adapt", [None, True, False])
def test_the_training_scene_is_never_adapted_to(adapt, scene, models):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adapt_model(models["other-scenes"], scene, adapt) is models["other-scenes"]


def test_other_ground_in_the_same_light_is_left_alone(scene, labels):
    """One of the four classes is missing in the other half: quantiles differ, spectra do not."""
    left, right = {"x": slice(0, WIDTH // 2)}, {"x": slice(WIDTH // 2, WIDTH)}
    options = {"samples_per_class": 8, "hidden": 8, **KINDS["other-scenes"]}
    model = train(scene.isel(left), labels.isel(left), **options)
    rest = mask_scene(scene.isel(right), labels.isel(right).values != 1)
    found = compare(model.radiometry, Scene.of(rest).radiometry)
    assert not found.outside
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adapt_model(model, rest).adapted is None
    same = adapt_model(model, rest, adapt=True)
    assert "nothing was adapted" in same.adapted


@pytest.mark.filterwarnings("ignore:pixels of the scene have")
def test_a_few_corrupt_pixels_do_not_change_the_light(scene, models):
    other = moved(scene, 1.3, 150)
    rng = np.random.default_rng(0)
    other.values[rng.integers(0, HEIGHT, 30), rng.integers(0, WIDTH, 30)] = 60000
    shift = compare(models["fast"].radiometry, Scene.of(other).radiometry)
    assert shift.common[0] == pytest.approx(1.3, rel=0.05)
    assert shift.common[1] == pytest.approx(150, abs=60)


def test_one_picture_in_another_unit_keeps_its_training_pixels(scene, labels, models):
    other = moved(scene, 1e-4)
    adapted = adapt_model(models["this-scene"], other, adapt=True)
    assert adapted.learned_from(other)
    own, again = (
        evaluate(models["this-scene"], s, labels, adapt=True).overall_accuracy
        for s in (scene, other)
    )
    assert again == pytest.approx(own, abs=0.02)
    turned = other.isel(y=slice(None, None, -1))
    with pytest.warns(PolyadWarning, match="used on another one"):
        map_scene(models["this-scene"], turned, adapt=True)


def test_models_keep_their_light_in_files(scene, models, tmp_path):
    model = models["other-scenes"]
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    for name in ("training", "scene", "spectra"):
        kept, read = (getattr(m.radiometry, name) for m in (model, again))
        np.testing.assert_array_equal(kept, read)
    for name, value in vars(model.soundness).items():
        np.testing.assert_array_equal(getattr(again.soundness, name), value)
    assert again.training.replaced == 0
    other = moved(scene, 1.3, 150)
    np.testing.assert_array_equal(map_scene(model, other).values, map_scene(again, other).values)


def test_what_cannot_be_adapted_is_refused_in_one_sentence(scene, labels, models, tmp_path):
    bare = train(scene, labels, window=1, samples_per_class=5, estimator=GaussianNB())
    with pytest.raises(InputError, match=r"only a Rank-R model .* got GaussianNB; or map with"):
        map_scene(bare, moved(scene, 1.3), adapt=True)
    old = replace(models["fast"], radiometry=None)
    with pytest.raises(InputError, match="does not have; train it again"):
        map_scene(old, moved(scene, 1.3), adapt=True)
    adapted = adapt_model(models["fast"], moved(scene, 1.3), adapt=True)
    with pytest.raises(InputError, match="save it before it is adapted"):
        adapted.save(tmp_path / "m.polyad")


def test_a_bare_classifier_maps_another_light_without_adapting(scene, labels):
    bare = train(scene, labels, window=1, samples_per_class=5, estimator=GaussianNB())
    with pytest.warns(PolyadWarning, match="radiometric shift") as told:
        map_scene(bare, moved(scene, 1.3, 200))
    assert "--adapt" not in str(told[0].message)


# -- the arithmetic --------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("offset", [-400.0, 0.0, 350.0])
@pytest.mark.parametrize("kind", KINDS)
def test_folding_a_shift_is_shifting_the_scene(kind, offset, gain, models, scene):
    rng = np.random.default_rng(1)
    shift = Shift(gain * rng.uniform(0.9, 1.1, BANDS), np.full(BANDS, offset), "")
    model = replace(models[kind], soundness=None, radiometry=None)
    if kind == "this-scene":
        model = replace(model, recipe=None)
    folded = fold_shift(model, shift)
    holed = moved(scene)
    holed.values[3:6, 4:9] = np.nan  # filled with the folded mean
    wanted = map_scene(model, moved(holed, shift.gain, shift.offset), probabilities=True)[1]
    got = map_scene(folded, holed, probabilities=True)[1]
    np.testing.assert_allclose(got.values, wanted.values, atol=2e-3)


def test_quantiles_of_one_ground_give_the_exact_shift():
    rng = np.random.default_rng(0)
    known = np.sort(rng.normal(1000, 200, (7, 30)), axis=0)
    gain, offset = rng.uniform(0.7, 1.3, 30), rng.uniform(-90, 90, 30)
    new = (known - offset) / gain
    for found in (band_shift(known, new, 1.0), drawn_shift(known, new, *common_shift(known, new))):
        np.testing.assert_allclose(found[0], gain, rtol=1e-3)
        np.testing.assert_allclose(found[1], offset, atol=2)


def test_bands_whose_quantiles_do_not_fit_follow_the_others():
    rng = np.random.default_rng(0)
    known = np.linspace(0.7, 1.3, 7)[:, None] * rng.uniform(900, 1100, 30)
    new = known.copy()
    new[:, 4] = [300, 310, 320, 330, 1890, 1900, 1910]  # other ground in this band
    gain = drawn_shift(known, new, *common_shift(known, new))[0]
    assert abs(gain[4] - 1) < 0.1
    assert band_shift(known, new, 1.0)[0][4] < 0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_nearest_distance_agrees_with_its_reference(seed):
    rng = np.random.default_rng(seed)
    spectra, known = rng.normal(size=(9, 5)), rng.normal(size=(7, 5))
    assert nearest_distance(spectra, known) == pytest.approx(nearest_distance_slow(spectra, known))


# -- scenes that no light explains -----------------------------------------------------------------


def unlike_scenes(scene):
    """Return scenes by name that have nothing in common with ``scene`` but the number of bands."""
    rng = np.random.default_rng(0)
    shuffled = rng.permuted(scene.values.reshape(-1, BANDS), axis=0).reshape(scene.shape)
    values = {
        "random": rng.random(scene.shape),
        "random in the same range": rng.uniform(1000, 2500, scene.shape),
        "every band shuffled": shuffled,
        "bands in another order": scene.values[..., rng.permutation(BANDS)],
        "constant": np.full(scene.shape, 7.0),
    }
    return {name: scene.copy(data=cube.astype(np.float32)) for name, cube in values.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", unlike_scenes(make_scene()[0]))
def test_a_scene_that_no_light_explains_is_not_adapted_to_and_told_with_numbers(
    name, kind, scene, models
):
    other = unlike_scenes(scene)[name]
    told = r"near the training scene: (at best )?its spectra lie [\d.,]+ times as far .* at most 4"
    with pytest.warns(PolyadWarning, match=told) as warned:
        left = adapt_model(models[kind], other)
    assert "--adapt" not in str(warned[0].message)
    assert left.adapted is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = adapt_model(models[kind], other, adapt=True)
    assert asked.adapted == f"not adapted: {warned[0].message}"
    for model in (left, asked):
        assert model.estimator is models[kind].estimator
    if name == "constant":
        assert asked.adapted.startswith("not adapted: all pixels of the scene have one spectrum")


def test_a_known_spectrum_all_over_tells_no_gain(scene, models):
    flat = scene.copy(data=np.broadcast_to(scene.values[3, 4], scene.shape))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = adapt_model(models["fast"], flat, adapt=True)
        assert adapt_model(models["fast"], flat).adapted is None
    told = "not adapted: all pixels of the scene have one spectrum, which tells no gain"
    assert asked.adapted == told


def test_a_handful_of_pixels_tells_no_light(scene, models):
    holed = scene.copy(data=np.full(scene.shape, np.nan, np.float32))
    holed[0, :5] = scene.values[0, :5]
    asked = adapt_model(models["fast"], holed, adapt=True)
    told = "not adapted: expected at least 8 pixels with data, the scene has 5"
    assert asked.adapted == told
    assert asked.soundness is models["fast"].soundness
    assert adapt_model(models["fast"], holed) is models["fast"]


# -- the sample ------------------------------------------------------------------------------------


def test_a_sample_is_bounded_and_inside_the_mask():
    values = np.broadcast_to(np.float32(1), (700, 600, 3)).copy()
    values[:, 300:] = 2
    scene = xr.DataArray(values, dims=("y", "x", "band"))
    assert sample_pixels(Scene.of(scene))[0].shape == (SAMPLE, 3)
    inside = np.zeros((700, 600), bool)
    inside[100:200, 310:500] = True
    assert (sample_pixels(Scene.of(scene).masked(inside))[0] == 2).all()


@pytest.mark.filterwarnings("ignore:pixels of the scene have")
def test_training_and_mapping_a_corrupt_scene_is_as_good_as_a_clean_one(scene, labels):
    rng = np.random.default_rng(3)
    bad = moved(scene)
    bad.values[:, 7] = rng.uniform(500, 3000, (HEIGHT, BANDS))
    bad.values[rng.integers(0, HEIGHT, 5), rng.integers(0, WIDTH, 5)] = 65535
    for options in KINDS.values():
        scores = []
        for cube in (scene, bad):
            model = train(cube, labels, hidden=12, samples_per_class=10, **options)
            scores.append(evaluate(model, cube, labels).overall_accuracy)
        assert scores[1] > scores[0] - 0.03
        assert model.training.replaced > 0
