"""Folds dealt pixel by pixel are even in every class and drawn by the seed."""

import numpy as np

from benchmarks.folds import deal_folds


def test_folds_hold_out_every_class_evenly():
    targets = np.repeat([0, 1, 2], [9, 6, 3])
    fold = deal_folds(targets, 3, random_state=0)
    for target in range(3):
        counts = np.bincount(fold[targets == target], minlength=3)
        assert counts.max() == counts.min()


def test_folds_are_drawn_by_the_seed_and_not_dealt_in_order():
    targets = np.repeat([0, 1], 30)
    first, again, other = (deal_folds(targets, 3, seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    assert (first != np.tile(np.arange(3), 20)).any()
