"""Experts: how folds weigh them, what they become, and what is said of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from polyad import RankRClassifier
from polyad.scene.learn.accuracy import NOT_TESTED, HeldOutLabels
from polyad.scene.learn.experts import (
    choose,
    draw_labels,
    even_out,
    expert_weights,
    smoothing_radius,
)
from polyad.scene.learn.folds import SpatialFolds
from polyad.scene.learn.networks import fold_whitening, merge, on_windows
from polyad.scene.learn.recipe import EXPERTS, PRIOR, Expert
from polyad.scene.learn.whitening import NoiseWhitening


def told(targets, right, rng, classes=3):
    """Return log-probabilities of an expert that is right that often."""
    said = np.where(rng.random(len(targets)) < right, targets, (targets + 1) % classes)
    return log_softmax(3.0 * np.eye(classes)[said] + 0.1 * rng.normal(size=(len(said), 3)), axis=1)


def folds_of(n):
    return SpatialFolds(np.arange(n) // 2 % 3, np.arange(n) // 2, 8)


def test_a_gap_that_folds_can_see_decides():
    rng = np.random.default_rng(0)
    targets = np.arange(60) % 3
    held = [told(targets, share, rng) for share in (0.9, 0.5)]
    choice, mixed = choose(EXPERTS[:2], held, targets, folds_of(60))
    assert choice.experts == EXPERTS[:1]
    assert choice.overall == pytest.approx((mixed.argmax(axis=1) == targets).mean())


def test_experts_that_folds_cannot_tell_apart_share_the_weight():
    rng = np.random.default_rng(0)
    targets = np.arange(60) % 3
    held = [told(targets, 0.8, rng) for _ in range(2)]
    choice, _ = choose(EXPERTS[:2], held, targets, folds_of(60))
    assert len(choice.experts) == 2
    assert sum(choice.weights) == pytest.approx(1)


def test_labels_of_one_group_count_as_one():
    """Four copies of every label tell no more than one."""
    rng = np.random.default_rng(0)
    losses = rng.random((2, 20))
    alone = expert_weights(losses, np.arange(20), np.ones(20))
    copied = expert_weights(losses.repeat(4, axis=1), np.arange(20).repeat(4), np.ones(80))
    assert_allclose(alone, copied)


def test_nothing_to_test_leaves_the_prior():
    held = [np.zeros((3, 3))] * len(EXPERTS)
    folds = SpatialFolds(np.arange(3), np.arange(3), 1)
    choice, _ = choose(EXPERTS, held, np.arange(3), folds)
    assert choice.experts == (PRIOR,)
    assert choice.overall is None


def test_a_balanced_choice_counts_every_class_alike():
    """One expert knows the common class, the other the rare ones."""
    rng = np.random.default_rng(0)
    targets = np.where(np.arange(300) % 10 == 0, 1 + np.arange(300) // 10 % 2, 0)
    common = np.where(targets == 0, 0, 0)
    rare = np.where(targets == 0, rng.integers(0, 2, 300), targets)
    held = [log_softmax(4.0 * np.eye(3)[said], axis=1) for said in (common, rare)]
    plain, _ = choose(EXPERTS[:2], held, targets, folds_of(300))
    even, _ = choose(EXPERTS[:2], held, targets, folds_of(300), balanced=True)
    assert plain.experts[np.argmax(plain.weights)] == EXPERTS[0]
    assert even.experts[np.argmax(even.weights)] == EXPERTS[1]


def test_the_decay_falls_with_the_number_of_labels_within_bounds():
    expert = Expert("plain", 1, 600)
    assert [expert.decay(n) for n in (10, 600, 10**6)] == [10.0, 1.0, 0.1]
    assert [Expert("plain", window, 600).decay(10) for window in (1, 3, 5, 7)] == [10, 3, 1, 1]


def test_labels_of_a_class_that_was_held_out_whole_are_not_tested():
    targets, fold = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 0, 1, 2, 2, 2])
    labels = HeldOutLabels.of(np.eye(3)[targets], targets, SpatialFolds(fold, np.arange(7), 1))
    assert (labels.predicted == NOT_TESTED).tolist() == [False] * 4 + [True] * 3
    assert labels.overall == 1


@pytest.mark.parametrize("window", [1, 3, 5])
def test_a_network_on_small_windows_answers_the_same_on_larger_ones(window):
    rng = np.random.default_rng(0)
    cube = 1000 + 50 * rng.normal(size=(20, 20, 6))
    view = NoiseWhitening(4).fit(cube)
    wide = np.stack([cube[3:8, x : x + 5] for x in range(15)])
    margin = (5 - window) // 2
    small = wide[:, margin : 5 - margin, margin : 5 - margin]
    X = view.transform(small)
    X = X[:, 0, 0] if window == 1 else X
    model = RankRClassifier(rank=2, hidden=5, standardize=None, random_state=0)
    model.fit(X, np.arange(15) % 3)
    grown = on_windows(fold_whitening(model, view), 5)
    assert grown.sample_shape_ == (5, 5, 6)
    assert_allclose(grown.predict_proba(wide), model.predict_proba(X), atol=1e-4)


def test_experts_of_different_windows_and_views_are_one_network():
    rng = np.random.default_rng(0)
    cube = 1000 + 50 * rng.normal(size=(20, 20, 6))
    whitening = NoiseWhitening(4).fit(cube)
    wide = np.stack([cube[3:6, x : x + 3] for x in range(15)])
    y, parts = np.arange(15) % 3, []
    for view, X in (
        (whitening.principal(), whitening.principal().transform(wide[:, 1, 1])),
        (whitening, whitening.transform(wide)),
    ):
        model = RankRClassifier(hidden=5, standardize=None, random_state=0).fit(X, y)
        parts.append((on_windows(fold_whitening(model, view), 3), model.predict_log_proba(X)))
    merged = merge([network for network, _ in parts], [0.3, 0.7])
    wanted = log_softmax(0.3 * parts[0][1] + 0.7 * parts[1][1], axis=1)
    assert_allclose(merged.predict_log_proba(wide), wanted, atol=1e-3)


def test_even_logits_know_no_share_of_the_classes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.repeat([1, 2], [190, 10])
    model = RankRClassifier(hidden=4, random_state=0).fit(X, y)
    before = model.predict_log_proba(X)
    even_out(model, y)
    gained = model.predict_log_proba(X) - before
    assert_allclose(gained[:, 1] - gained[:, 0], np.log(190 / 10), rtol=1e-4)


def test_folds_of_very_many_labels_are_a_part_of_them_with_every_class():
    targets = np.concatenate([np.zeros(20_000, int), np.ones(40, int)])
    some = draw_labels(targets, 0)
    assert len(some) < 700
    assert (targets[some] == 1).sum() == 30


def test_smoothing_follows_how_often_neighboring_labels_agree():
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2)
    fields, mixed = grid[:, 0] // 6, (grid[:, 0] + grid[:, 1]) % 2
    assert smoothing_radius(grid, fields, 0.6) == 5
    assert smoothing_radius(grid, fields, 0.8) == 2  # near the border of two fields
    assert smoothing_radius(grid, mixed, 0.8) == 0
    assert smoothing_radius(grid[:3], mixed[:3], 0.8) == 5  # too few pairs to tell
    assert smoothing_radius(grid, mixed, None) == 5
