"""Tiles of the benchmark on other places."""

import numpy as np

from benchmarks import other_places


def test_tiles_never_train_and_test_at_once():
    labels = np.random.default_rng(0).integers(0, 4, (64, 96))
    for train, test in other_places.splits(labels, 10, seed=0):
        tiles = other_places.tile_of(train), other_places.tile_of(test)
        assert not set(tiles[0]) & set(tiles[1])
        assert np.bincount(labels[tuple(train.T)])[1:].tolist() == [10, 10, 10]
