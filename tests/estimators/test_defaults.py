"""What "auto" stands for, and how good a default fit is beside plain models."""

from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyad import RankRClassifier, RankRRegressor, load, save
from polyad.estimators.defaults import (
    WINDOWS,
    candidates,
    choose_structure,
    epochs_for,
    learning_rate_for,
    ridge_penalty,
)
from polyad.fitting.linear import RidgeFit
from polyad.fitting.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4, 6))
Y = np.arange(40) % 2


@pytest.mark.parametrize(
    ("shape", "modes"),
    [
        ((5, 5, 200), {-1}),  # windows
        ((1, 1, 30), {-1}),
        ((3, 3, 20, 2), {-1}),
        ((6, 1, 11), {-1, 0, "common"}),  # every mode that has entries
        ((7,), None),
        ((8, 8), None),
    ],
)
def test_modes_that_may_be_standardized_and_the_plainest_first(shape, modes):
    found = candidates(shape)
    assert modes in (None, {c.standardize for c in found})
    assert (found[0].standardize, found[0].whiten) == (-1, 0.0)


def test_many_samples_take_a_longer_and_slower_schedule():
    assert epochs_for(1_024, None, 200) == 200
    assert epochs_for(20_000, 256, 200) == epochs_for(5_000, 256, 200) == 30
    assert learning_rate_for(10) > learning_rate_for(100) > learning_rate_for(1000)
    assert learning_rate_for(30 * 79) < learning_rate_for(600) / 3
    assert learning_rate_for(10**6) == learning_rate_for(10**5) > 0


def one_direction(strength: float, length: float = 1.0, variance: float = 30.0) -> RidgeFit:
    """Return a ridge regression on samples that vary along one direction."""
    shrunk = length * variance / (variance + strength)
    return RidgeFit(0.5, strength, shrunk, length, torch.zeros(1))


@given(
    order=st.integers(1, 6),
    strengths=st.lists(st.floats(1e-6, 1e8), min_size=2, max_size=2),
    length=st.floats(1e-3, 1e3),
    variance=st.floats(1e-2, 1e4),
)
def test_penalty_grows_with_the_strength_of_the_ridge(order, strengths, length, variance):
    weak, strong = sorted(strengths)
    penalties = [ridge_penalty(one_direction(s, length, variance), order) for s in (weak, strong)]
    assert penalties[0] <= penalties[1] * (1 + 1e-9)


GRID = [  # shape, samples, signal to noise in variance, whether the signal has CP rank one
    ((6, 8), 100, 0.0, False),
    ((2, 24), 100, 0.0, False),
    ((4, 5, 6), 100, 0.0, False),
    ((6, 8), 100, 1.0, False),
    ((4, 5, 6), 300, 1.0, False),
    pytest.param((12,), 40, 0.0, False, marks=pytest.mark.slow),
    pytest.param((40,), 100, 1.0, False, marks=pytest.mark.slow),
    pytest.param((2, 24), 40, 1.0, False, marks=pytest.mark.slow),
    pytest.param((6, 8), 300, 0.25, True, marks=pytest.mark.slow),
    pytest.param((4, 5, 6), 100, 4.0, False, marks=pytest.mark.slow),
    pytest.param((4, 5, 6), 100, 1.0, True, marks=pytest.mark.slow),
    pytest.param((3, 3, 3, 4), 40, 4.0, False, marks=pytest.mark.slow),
    pytest.param((3, 3, 3, 4), 300, 4.0, False, marks=pytest.mark.slow),
    pytest.param((3, 3, 3, 4), 100, 0.0, False, marks=pytest.mark.slow),
]


@pytest.mark.every_case
@pytest.mark.parametrize(("shape", "n", "snr", "cp"), GRID)
def test_default_regressor_is_near_ridge_at_least_and_predicts_no_noise(shape, n, snr, cp):
    ours, ridge = [], []
    for seed in range(200, 204):
        rng = np.random.default_rng((seed, n))
        samples = rng.normal(size=(n + 1000, *shape))
        weight = rng.normal(size=shape)
        if cp:
            weight = reduce(np.multiply.outer, [rng.normal(size=size) for size in shape])
        flat = samples.reshape(len(samples), -1)
        signal = flat @ weight.ravel()
        y = snr**0.5 * signal / signal.std() + rng.normal(size=len(signal))
        ours.append(
            RankRRegressor(random_state=seed).fit(samples[:n], y[:n]).score(samples[n:], y[n:])
        )
        linear = RidgeCV(np.logspace(-3, 5, 17)).fit(flat[:n], y[:n])
        ridge.append(linear.score(flat[n:], y[n:]))
    assert np.mean(ours) > np.mean(ridge) - 0.05
    assert snr or np.mean(ours) > -0.1


def test_settings_say_what_auto_became():
    settings = RankRClassifier(hidden=5, random_state=0).fit(X, Y).settings_
    assert settings["schedule"] == "cosine"
    assert settings["penalty"] == 1.0
    assert settings["activation"] == "relu"
    assert settings["weight_decay"] == 0.0


def test_a_given_mode_keeps_the_settings_for_windows():
    settings = RankRClassifier(**WINDOWS, hidden=5, random_state=0).fit(X, Y).settings_
    assert settings == {
        "rank": 1,
        "linear": 0.0,
        "activation": "tanh",
        "standardize": -1,
        "whiten": 0.0,
        "learning_rate": 0.02,
        "schedule": "head start",
        "weight_decay": 0.1,
        "penalty": 0.0,
        "batch_size": None,
        "epochs": 200,
    }


def test_given_rate_and_decay_are_taken_as_they_are():
    model = RankRClassifier(hidden=5, learning_rate=0.01, weight_decay=2.0, random_state=0)
    settings = model.fit(X, Y).settings_
    assert (settings["learning_rate"], settings["schedule"]) == (0.01, "constant")
    assert (settings["weight_decay"], settings["penalty"]) == (2.0, 0.0)


def test_a_mode_whose_entries_have_scales_of_their_own_is_found():
    # the class is in a small entry of mode 0; a last mode standardized leaves it small
    rng = np.random.default_rng(1)
    y = np.arange(80) % 2
    samples = rng.normal(size=(80, 3, 7))
    samples[:, 0] += (2 * y - 1)[:, None]
    samples *= np.array([0.01, 1.0, 1.0])[:, None]
    model = RankRClassifier(hidden=10, random_state=0).fit(samples, y)
    assert model.settings_["standardize"] == 0
    assert model.score(samples, y) > 0.95


def test_whole_weights_count_as_copies():
    weight = np.arange(40) % 3
    repeated = np.repeat(np.arange(40), weight)
    one = RankRClassifier(hidden=5, random_state=0).fit(X, Y, sample_weight=weight)
    other = RankRClassifier(hidden=5, random_state=0).fit(X[repeated], Y[repeated])
    assert one.settings_ == other.settings_


def test_one_scale_for_all_entries_survives_a_file(tmp_path):
    rng = np.random.default_rng(2)
    y = np.arange(90) % 3
    pattern = rng.normal(size=(3, 4, 8)) * np.array([3.0, 1.0, 0.1, 0.1])[:, None]
    samples = pattern[y] * np.linspace(3, 0.1, 8) + rng.normal(size=(90, 4, 8))
    model = RankRClassifier(hidden=5, random_state=0).fit(samples, y)
    save(model, tmp_path / "model.polyad")
    again = load(tmp_path / "model.polyad")
    assert again.standardize == "auto"
    np.testing.assert_array_equal(again.predict_proba(samples), model.predict_proba(samples))
    again.partial_fit(samples, y)


def test_default_is_as_good_as_logistic_regression_on_ten_digits_of_each_class():
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    ours, logistic = [], []
    for seed in (100, 101, 102):
        order = np.random.default_rng(seed).permutation(len(y))
        train = np.concatenate([order[y[order] == c][:10] for c in range(10)])
        test = np.setdiff1d(order, train)
        model = RankRClassifier(random_state=seed).fit(images[train], y[train])
        ours.append(model.score(images[test], y[test]))
        flat = images.reshape(len(y), -1)
        plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(flat[train], y[train])
        logistic.append(plain.score(flat[test], y[test]))
    assert np.mean(ours) > np.mean(logistic) - 0.01


def test_default_regressor_learns_what_lines_do_not():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 4))
    y = x[:, 0] ** 2
    model = RankRRegressor(random_state=0).fit(x[:300], y[:300])
    assert model.score(x[300:], y[300:]) > 0.7


# -- rank, linear share, penalty --------------------------------------------------------------


def made_classes(rank: int, seed: int, n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Return 6 x 8 tables of three classes, whose scores are products with matrices of a rank."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(n, 6, 8))
    weight = np.einsum("cir,crj->cij", rng.normal(size=(3, 6, rank)), rng.normal(size=(3, rank, 8)))
    scores = np.abs(np.einsum("nij,cij->nc", samples, weight)) / rank**0.5
    return samples, scores.argmax(axis=1)


def test_a_higher_rank_is_chosen_where_the_classes_need_it():
    high = RankRClassifier(random_state=0).fit(*made_classes(4, seed=0))
    low = RankRClassifier(random_state=0).fit(*made_classes(1, seed=0))
    assert (low.settings_["rank"], high.settings_["rank"]) == (1, 4)
    assert high.network_.hidden.rank == 4


def held_out(outputs, loss="log"):
    target = torch.eye(2)[torch.arange(60) % 2]
    return Problem(torch.zeros(60, 1), target, torch.ones(60), loss), torch.stack(
        [outputs * (2 * column - 1) for column in target.T], dim=1
    )


def test_the_better_of_network_and_linear_model_gets_the_whole_share():
    problem, right = held_out(torch.full((60,), 5.0))
    assert choose_structure(problem, {1: right}, -right).linear == 0.0
    assert choose_structure(problem, {1: -right}, right).linear == 1.0


def test_a_higher_rank_needs_evidence():
    problem, right = held_out(torch.full((60,), 5.0))
    other = right.clone()
    other[0] = -other[0]  # one sample of sixty
    assert choose_structure(problem, {1: other, 4: right}, other).rank == 1
    assert choose_structure(problem, {1: -right, 4: right}, -right).rank == 4


def test_a_linear_part_is_part_of_the_network_and_survives_a_file(tmp_path):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(150, 4, 5))
    y = samples.reshape(150, -1) @ rng.normal(size=20) + rng.normal(size=150)
    model = RankRRegressor(random_state=0).fit(samples, y)
    assert model.settings_["linear"] > 0
    assert model.network_.hidden.out_features > model.hidden
    save(model, tmp_path / "model.polyad")
    again = load(tmp_path / "model.polyad")
    np.testing.assert_array_equal(again.predict(samples), model.predict(samples))
    assert (again.rank, again.activation, again.penalty) == ("auto", "auto", "auto")
