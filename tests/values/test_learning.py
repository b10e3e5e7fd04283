"""A regression model: what it learns, what it refuses, and its file."""

import json

import numpy as np
import pytest
from plots import QUICK, measured, pixels, places, scene

import polyad
from polyad import RankRRegressor, SceneModel
from polyad.errors import InputError, ModelFileError, SceneError, SceneMismatch
from polyad.estimators.persistence import load_with_about, save
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene import train_regression
from polyad.scene.learn.networks import Member, joined, part_of
from polyad.scene.learn.whitening import NoiseWhitening


def test_values_are_learned_and_scored_on_places_held_out(model):
    fit = model.values
    assert [t.name for t in fit.targets] == ["cover", "mass"]
    assert all(score.r2 > 0.8 for score in fit.scores)
    assert all(low <= score.r2 <= high for score in fit.scores for low, high in
               [score.intervals["r2"]])  # fmt: skip
    assert model.classes == ()
    assert "cover: R2 0." in fit.score_lines[0]


def test_the_preset_best_weighs_both_views_and_says_so():
    model = train_regression(
        scene(), measured().isel(target=[0]), preset="best", bounds=(0, 1), **QUICK
    )
    assert model.recipe.line.startswith("regression on ")
    assert model.recipe.line.endswith("3 starts > clipped to 0 to 1")
    assert model.values.scores[0].r2 > 0.8


def test_joined_members_predict_their_weighted_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(5, 2, (50, 3, 3, 6)).astype(np.float32)
    Y = np.stack([X[:, 1, 1, 0], X.sum(axis=(1, 2, 3))], axis=1)
    view = NoiseWhitening(4).fit(rng.normal(5, 2, (20, 20, 6)))
    seen = view.transform(X[:, 1, 1])
    wide = RankRRegressor(2, 5, epochs=5, random_state=0).fit(X, Y)
    plain = RankRRegressor(2, 4, epochs=5, random_state=1).fit(X[:30, 1, 1], Y[:30])
    white = RankRRegressor(2, 3, epochs=5, random_state=2).fit(seen[20:], Y[20:])
    scaler = ModeStandardScaler(-1).fit(X[:, 1, 1])
    members = [Member(wide, None, 0.5, 0), Member(plain, None, 0.5, 0), Member(white, view, 1, 1)]
    both = joined(members, scaler, 3)
    mean = (wide.predict(X) + plain.predict(X[:, 1, 1])) / 2
    np.testing.assert_allclose(both.predict(X)[:, :2], mean, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(both.predict(X)[:, 2:], white.predict(seen), rtol=1e-4, atol=1e-3)
    alone = part_of(both, 2)
    assert alone.network_.hidden.out_features == 9
    np.testing.assert_allclose(alone.predict(X), both.predict(X)[:, :2], rtol=1e-5, atol=1e-5)


def test_deviations_are_right_on_average_for_values_held_out(model):
    rows, cols = places().T
    values, deviation = polyad.scene.map_values(model, scene(), uncertainty=True)
    missed = np.array([score.rmse**2 for score in model.values.scores])
    promised = (deviation.values[rows, cols] ** 2).mean(axis=0)
    np.testing.assert_allclose(promised, missed, rtol=1e-3)
    assert values.shape == deviation.shape


def test_a_saved_model_is_the_same_again(model, tmp_path):
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert again.values == model.values
    assert again.recipe == model.recipe
    a, b = (polyad.scene.map_values(m, scene()).values for m in (model, again))
    np.testing.assert_array_equal(a, b)


def forged(model, folder, change):
    """Save the model with its output changed; return the path."""
    model.save(folder / "m.polyad")
    estimator, about = load_with_about(folder / "m.polyad")
    change(about["scene"]["output"])
    save(estimator, folder / "lie.polyad", json.loads(json.dumps(about)))
    return folder / "lie.polyad"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folds": 2}, "output.targets must be those of the network"),
        ({"noise": [0.1]}, "output.noise must have 2 entries"),
        ({"noise": [-1, 0]}, "output.noise"),
        ({"targets": [["a", "", 1, 0], ["b", "", None, None]]}, "output.targets"),
        ({"targets": [["a", "", None, None]] * 2}, "different names"),
        ({"noise": [1e300, 0]}, "output.noise"),
        ({"targets": [["a", "", 1e300, None], ["b", "", None, None]]}, "output.targets"),
        ({"weights": [1.0] * 9}, "output.weights must have"),
        ({"kind": "classification"}, "output has a key"),
        ({"spare": 1}, "output has a key 'spare'"),
    ],
)
def test_a_model_file_that_lies_of_its_targets_is_refused(model, tmp_path, change, said):
    path = forged(model, tmp_path, lambda output: output.update(change))
    with pytest.raises(ModelFileError, match=said.replace(".", r"\.")):
        SceneModel.load(path)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"rmse": -5}, "rmse"),
        ({"mae": -1}, "mae"),
        ({"r2": 1.5}, "r2"),
        ({"intervals": {"r2": [1, -1]}}, "intervals.r2"),
        ({"intervals": {"rmse": [-1, 1]}}, "intervals.rmse"),
        ({"intervals": {"bias": [0.5]}}, "intervals.bias"),
        ({"intervals": {"luck": [0, 1]}}, "intervals"),
    ],
)
def test_scores_that_cannot_be_are_refused(model, tmp_path, change, key):
    path = forged(model, tmp_path, lambda output: output["scores"][0].update(change))
    with pytest.raises(ModelFileError, match=rf"scores\[0\]\.{key}.* must "):
        SceneModel.load(path)


@pytest.mark.parametrize("scale", [1e-25, 1e22])
def test_deviations_of_very_large_and_small_values_are_as_those_of_others(scale):
    plots = measured()
    small = train_regression(scene(), plots, window=1, **QUICK)
    large = train_regression(scene(), plots.copy(data=plots.values * scale), window=1, **QUICK)
    (_, wanted), (_, found) = (
        polyad.scene.map_values(m, scene(), uncertainty=True) for m in (small, large)
    )
    np.testing.assert_allclose(found.values / scale, wanted.values, rtol=0.05)


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (1e300, "'cover' cannot be learned in single precision: expected numbers from -1e"),
        (1e-310, "'cover' cannot be learned in single precision: expected numbers of which some"),
    ],
)
def test_values_that_single_precision_cannot_hold_are_refused(scale, said):
    plots = measured()
    with pytest.raises(SceneError, match=said):
        train_regression(scene(), plots.copy(data=plots.values.astype(float) * scale), **QUICK)


def test_too_few_values_say_how_many_are_wanted():
    with pytest.raises(SceneError, match="expected at least 10 pixels with a value, got 6"):
        train_regression(scene(), measured(6), **QUICK)


def test_values_that_are_all_the_same_are_refused():
    values = measured()
    flat = values.where(values.isnull(), 4.0).assign_coords(units=values["units"])
    with pytest.raises(SceneError, match="all 60 values of 'cover' are 4: there is nothing"):
        train_regression(scene(), flat, **QUICK)


def test_values_outside_the_bounds_are_counted():
    with pytest.raises(SceneError, match=r"60 of 60 values of 'mass' lie outside the bounds 0 to"):
        train_regression(scene(), measured(), bounds=(0, 1), **QUICK)


def test_infinity_is_no_value():
    values = measured().copy()
    values[0, 0, 0] = np.inf
    with pytest.raises(SceneError, match="values must be finite"):
        train_regression(scene(), values, **QUICK)


def test_values_on_pixels_without_data_are_counted():
    stored = pixels()
    rows, cols = places()[:7].T
    stored[rows, cols] = -9999
    model = train_regression(scene(stored), measured(), window=1, **QUICK)
    assert model.training.without_data == 7
    assert len(model.training.pixels) == 53


def test_pixels_that_lack_one_of_the_targets_are_counted():
    values = measured().copy()
    rows, cols = places()[:4].T
    values.values[rows, cols, 1] = np.nan
    model = train_regression(scene(), values, window=1, **QUICK)
    assert model.training.incomplete == 4


def test_values_of_another_grid_are_refused():
    with pytest.raises(SceneMismatch, match="values must cover the scene's 36 rows"):
        train_regression(scene(), measured().isel(y=slice(0, 20)), **QUICK)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "paper"}, "presets fast and best, got 'paper', which is for classes"),
        ({"preset": "good"}, "preset must be one of"),
        ({"bounds": (1, 0)}, "bounds must be two finite numbers, the smaller first"),
        ({"bounds": (0, 1e300)}, "bounds must be from -3.4e[+]38 to 3.4e[+]38.*got 0 and 1e[+]300"),
        ({"window": 4}, "window must be an odd"),
        ({"max_bytes": 1000}, "budget"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options, said):
    with pytest.raises((InputError, SceneError), match=said):
        train_regression(scene(), measured(), **options)
