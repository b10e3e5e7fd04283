"""Protocols: what each may test, and that no pixel both trains and tests."""

import numpy as np
import pytest
from scipy import ndimage

from polyad.errors import InputError
from polyad.scene.learn.sampling import (
    PROTOCOLS,
    Blocks,
    CompactPatch,
    NoOverlap,
    OtherFields,
    RandomPerClass,
    blocks,
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
    assert len(PROTOCOLS) == 7
    assert [p.name for p in (RandomPerClass(7), NoOverlap(7), OtherFields(7), Blocks(7))] == [
        "random-7", "no-overlap-7", "other-fields-7", "blocks-7",
    ]  # fmt: skip


def test_a_patch_is_the_pixels_of_a_class_nearest_to_one_of_them(labels):
    split = CompactPatch(9).split(labels, 0)
    for value in (1, 2, 3):
        patch = split.train[labels[tuple(split.train.T)] == value]
        assert len(patch) == 9
        assert (np.ptp(patch, axis=0) <= 8).all()


@pytest.mark.parametrize("protocol", [NoOverlap(10), Blocks(10), CompactPatch(10)])
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


def test_blocks_draw_their_n_pixels_at_random():
    labels = np.ones((20, 40), int)  # two blocks: one trains, one tests
    drawn = blocks(labels, 0.5, random_state=0, n=30).train
    in_order = np.argwhere(labels[:, :20])[:30]
    assert len(np.unique(drawn[:, 0])) > 10  # the first thirty would lie in two rows
    assert len(np.unique(in_order[:, 0])) == 2


def test_a_class_of_two_blocks_is_tested_however_large_the_share():
    labels = np.ones((20, 40), int)
    for seed in range(5):
        assert len(blocks(labels, 0.99, seed).test) > 100


@pytest.mark.filterwarnings("ignore:these classes train")
def test_a_class_that_rarer_ones_left_only_test_blocks_trains_all_the_same():
    labels = np.zeros((40, 80), int)
    labels[2:5, 2:5] = labels[2:5, 62:65] = 1  # the rarest class decides: left or right trains
    labels[8:18, 62:75] = 2  # and the right is all that this one has
    labels[22:35, 22:35] = labels[22:35, 42:55] = 3
    for seed in range(8):
        trained, tested = blocks(labels, 0.5, seed).classes_of(labels)
        assert set(trained) == {1, 2, 3}
        assert 3 in tested
