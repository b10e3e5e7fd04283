"""Protocols: what each may test, and that no pixel both trains and tests."""

import numpy as np
import pytest
from scipy import ndimage

from polyad.errors import InputError
from polyad.scene.learn.sampling import (
    PROTOCOLS,
    Blocks,
    NoOverlap,
    OtherFields,
    RandomPerClass,
    no_overlap,
)


@pytest.fixture(scope="module")
def labels():
    """Return a chequerboard of 24 fields of three classes, a lane between them."""
    raster = np.zeros((60, 80), int)
    for k, (y, x) in enumerate((y, x) for y in range(0, 60, 15) for x in range(0, 80, 14)):
        raster[y : y + 13, x : x + 12] = k % 3 + 1
    return raster


def together(pixels):
    return {tuple(p) for p in pixels.tolist()}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_pixel_is_taught_and_asked_and_the_seed_decides(labels, name):
    first, again, other = (PROTOCOLS[name].split(labels, seed) for seed in (0, 0, 1))
    assert not together(first.train) & together(first.test)
    assert np.array_equal(first.train, again.train)
    assert not np.array_equal(first.train, other.train)
    assert (labels[tuple(first.test.T)] > 0).all()


def test_names_are_unique_and_tell_the_settings():
    assert len(PROTOCOLS) == 6
    assert [p.name for p in (RandomPerClass(7), NoOverlap(7), OtherFields(7), Blocks(7))] == [
        "random-7", "no-overlap-7", "other-fields-7", "blocks-7",
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", [NoOverlap(10), Blocks(10)])
def test_no_asked_window_touches_a_taught_one(labels, protocol):
    split = protocol.split(labels, 0)
    assert no_overlap(split, labels.shape, 5).all()


def test_other_fields_train_in_one_field_and_test_in_the_others(labels):
    split = OtherFields(10).split(labels, 3)
    for value in (1, 2, 3):
        field, _ = ndimage.label(labels == value, np.ones((3, 3)))
        train_fields = field[tuple(split.train.T)][labels[tuple(split.train.T)] == value]
        test_fields = field[tuple(split.test.T)][labels[tuple(split.test.T)] == value]
        assert len(train_fields) == 10
        assert len(set(train_fields)) == 1
        assert not set(train_fields) & set(test_fields)


def test_other_fields_leave_out_classes_with_one_field(labels):
    lonely = labels.copy()
    lonely[lonely == 3] = 0
    lonely[20:24, 5:9] = 3
    split = OtherFields(10).split(lonely, 0)
    assert set(lonely[tuple(split.train.T)]) == {1, 2}
    with pytest.raises(InputError, match="several fields"):
        OtherFields(10).split(np.where(lonely == 3, 3, 0), 0)
