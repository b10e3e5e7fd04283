"""Spatial folds: what is held out together, how far apart, and which classes can be tested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.scene.learn.experts import FitContext, TrainSettings
from polyad.scene.learn.folds import (
    deal_groups,
    mean_distance,
    spatial_folds,
    testable,
)
from polyad.scene.raster.labels import LabelGroups

testable.__test__ = False  # a function of ours, not a test


def scattered(n=120, side=100, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, side, (n, 2)), np.arange(n) % classes


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(6, 60))
def test_labels_of_a_block_are_never_in_two_folds(seed, folds, n):
    pixels, targets = scattered(n, seed=seed)
    dealt = spatial_folds(pixels, targets, folds, seed)
    for group in np.unique(dealt.group):
        assert len(np.unique(dealt.fold[dealt.group == group])) == 1
    assert dealt.fold.min() >= 0
    assert dealt.fold.max() < folds


def test_each_fold_has_about_the_same_share_of_every_class():
    pixels, targets = scattered(600)
    dealt = spatial_folds(pixels, targets, 3, 0)
    for target in range(4):
        shares = np.bincount(dealt.fold[targets == target], minlength=3) / 150
        assert shares.min() > 0.2


def test_groups_of_classes_that_nobody_has_yet_go_to_the_emptier_fold():
    group = np.arange(9)
    assert np.bincount(deal_groups(group, group, 3)).tolist() == [3, 3, 3]


def test_blocks_are_as_large_as_the_labels_allow():
    pixels, targets = scattered(600, side=400)
    assert spatial_folds(pixels, targets).side == 64
    few = np.array([[0, 0], [1, 0], [9, 9], [10, 9], [0, 9], [1, 9], [9, 0], [10, 0]])
    assert spatial_folds(few, np.arange(8) % 2).side < 16


def test_blocks_leave_classes_of_one_field_in_two_folds():
    """All labels of a class in one field: blocks must cut it, or nothing could be tested."""
    rng = np.random.default_rng(0)
    pixels = np.concatenate([rng.integers(0, 12, (10, 2)) + 60 * k for k in range(4)])
    targets = np.repeat(np.arange(4), 10)
    dealt = spatial_folds(pixels, targets, 3, 0, distance=50.0)
    assert testable(dealt.fold, targets).mean() >= 0.9
    assert mean_distance(pixels, pixels, dealt.fold) < 20


@pytest.mark.parametrize("distance", [3.0, 8.0])
def test_held_out_labels_lie_about_as_far_from_others_as_the_map_does(distance):
    pixels, targets = scattered(400)
    dealt = spatial_folds(pixels, targets, 3, 0, distance)
    apart = mean_distance(pixels, pixels, dealt.fold)
    assert 0.5 * distance < apart < 2 * distance


def test_mean_distance_equals_pair_by_pair():
    points, labels = scattered(30, seed=1)[0], scattered(20, seed=2)[0]
    slow = [min(np.hypot(*(p - q)) for q in labels) for p in points]
    assert mean_distance(points, labels) == pytest.approx(np.mean(slow))
    fold = np.arange(20) % 3
    slow = [
        min(np.hypot(*(labels[i] - labels[j])) for j in range(20) if fold[i] != fold[j])
        for i in range(20)
    ]
    assert mean_distance(labels, labels, fold) == pytest.approx(np.mean(slow))


def test_polygons_are_never_split():
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 60, (20, 2))
    pixels = np.concatenate([corner + np.argwhere(np.ones((6, 6))) for corner in corners])
    ids, targets = np.repeat(np.arange(20), 36), np.repeat(np.arange(20) % 3, 36)
    dealt = spatial_folds(pixels, targets, 4, groups=LabelGroups(ids, "polygons"))
    assert all(len(np.unique(dealt.fold[ids == k])) == 1 for k in range(20))
    assert dealt.by == "polygons"


def test_groups_of_the_user_are_dealt_as_they_are():
    ids = np.array([5, 5, 9, 9, 7, 7])
    groups = LabelGroups(ids, "groups")
    dealt = spatial_folds(np.zeros((6, 2), int), np.arange(6) % 2, 3, groups=groups)
    assert (dealt.groups, dealt.by, dealt.side) == (3, "groups", 0)
    assert len(np.unique(dealt.fold)) == 3


def test_one_polygon_of_each_class_is_split_to_choose_by_and_marked():
    square = np.argwhere(np.ones((8, 8)))
    pixels = np.concatenate([square + np.array([0, 20 * k]) for k in range(3)])
    ids = np.repeat([1, 2, 3], 64)
    groups = LabelGroups(ids, "polygons")
    dealt = FitContext(None, {}, pixels, ids, TrainSettings(), groups).folds(None)
    assert dealt.split
    assert testable(dealt.fold, ids - 1).all()
    assert dealt.groups == 3
