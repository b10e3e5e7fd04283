"""The page on other places is what its records give."""

from pathlib import Path

import numpy as np

from benchmarks import other_places_page as bench

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_what_its_records_give():
    assert bench.page() == (ROOT / "docs/results/other-places.md").read_text()


def test_tiles_never_train_and_test_at_once():
    labels = np.random.default_rng(0).integers(0, 4, (64, 96))
    for train, test in bench.other_places.splits(labels, 10, seed=0):
        tiles = bench.other_places.tile_of(train), bench.other_places.tile_of(test)
        assert not set(tiles[0]) & set(tiles[1])
        assert np.bincount(labels[tuple(train.T)])[1:].tolist() == [10, 10, 10]
