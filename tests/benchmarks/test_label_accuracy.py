"""Labels are drawn as the page on accuracy from labels says."""

import numpy as np
import pytest

from benchmarks.label_accuracy import CLUMPS, DRAWN, PER_CLASS, without_labels
from polyad import open_labels


@pytest.mark.parametrize("way", DRAWN)
def test_labels_are_ten_of_each_class_at_most(way):
    labels = open_labels("indian-pines")
    pixels, groups = DRAWN[way](labels, 0)
    assert np.bincount(labels.values[tuple(pixels.T)])[1:].max() == PER_CLASS
    if groups is not None:
        numbers = groups[tuple(pixels.T)]
        assert len(np.unique(numbers)) == 16 * CLUMPS
        for k in np.unique(numbers):
            assert np.ptp(pixels[numbers == k], axis=0).max() <= 6


def test_blocks_without_labels_have_none():
    far = without_labels(np.array([[0, 0], [17, 3]]), (40, 40))
    assert not far[:16, :16].any()
    assert not far[16:32, :16].any()
    assert far[:, 16:].all()
