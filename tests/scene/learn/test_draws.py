"""What samplers draw: at random inside a field or block, and fields as people see them."""

import numpy as np
import pytest
import xarray as xr

from polyad.scene.learn.noise import band_offset, pixel_noise
from polyad.scene.learn.sampling import OtherFields, blocks


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


def two_classes(first):
    """Return a raster of one class as given and another of two fields, apart from it."""
    labels = np.zeros((len(first), 40), int)
    labels[:, :20] = first
    labels[:4, 22:26] = labels[:4, 34:38] = 2
    return labels


def test_regions_that_touch_at_a_corner_are_one_field():
    first = np.zeros((12, 20), int)
    first[:4, :4] = first[4:8, 4:8] = 1  # one field, by its corner
    first[:4, 14:18] = 1
    for seed in range(6):
        labels = two_classes(first)
        split = OtherFields(5).split(labels, seed)
        cols = split.train[labels[tuple(split.train.T)] == 1][:, 1]
        tested = split.test[labels[tuple(split.test.T)] == 1][:, 1]
        assert (cols < 10).all() != (tested < 10).all()
        assert len(set(cols < 10)) == len(set(tested < 10)) == 1


def test_the_field_that_trains_and_its_pixels_are_drawn_at_random():
    first = np.zeros((12, 20), int)
    first[:, :8] = first[:, 12:] = 1
    sides, rows = set(), []
    for seed in range(8):
        labels = two_classes(first)
        train = OtherFields(6).split(labels, seed).train
        train = train[labels[tuple(train.T)] == 1]
        sides.add(bool(train[0, 1] < 10))
        rows.append(len(np.unique(train[:, 0])))
    assert sides == {False, True}
    assert min(rows) > 1  # the first six would lie in one row


@pytest.mark.parametrize("noise", [pixel_noise, band_offset])
def test_noise_scales_with_the_largest_value_that_is_data(noise):
    values = np.full((40, 40, 2), 10, np.uint16)
    values[..., 1] = 20
    values[0, 0] = 65535
    scene = xr.DataArray(values, dims=("y", "x", "band"), attrs={"_FillValue": np.uint16(65535)})
    plain = np.where(values == 65535, [10, 20], values)
    added = (noise(scene, random_state=0) - scene).values[1:]
    wanted = (noise(plain, random_state=0) - plain)[1:]
    np.testing.assert_allclose(added, wanted, atol=1e-5)


def test_noise_scales_with_the_largest_finite_value():
    cube = np.full((40, 40, 2), 10.0)
    cube[0, 0] = np.nan
    added = pixel_noise(cube, random_state=0)[1:] - 10
    assert added.std() == pytest.approx(2, rel=0.1)
