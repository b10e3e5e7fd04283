"""Morphological profiles: their order, their invariances, and windows of order 4 cut from them."""

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError
from polyad.scene import extract_patches, morphological_profiles


def scene_of(values):
    return xr.DataArray(np.asarray(values, dtype=float), dims=("y", "x", "band"))


@pytest.fixture
def scene():
    return scene_of(np.random.default_rng(0).normal(size=(12, 15, 4)))


def test_opening_removes_what_the_disk_does_not_fit_into_and_keeps_the_outline_of_the_rest():
    image = np.zeros((20, 20))
    image[3, 3] = 1.0  # smaller than a disk of radius 1
    image[8:15, 8:15] = 1.0
    image[8, 15] = 1.0  # a corner of the large object, which an opening without reconstruction cuts
    profile = morphological_profiles(scene_of(image[..., None]), 1, (1,))[..., 0, :]
    closed, plain, opened = np.moveaxis(profile, -1, 0)
    if plain[10, 10] < plain[0, 0]:  # the sign of a component is free
        closed, plain, opened = -opened, -plain, -closed
    np.testing.assert_array_equal(closed, plain)
    assert opened[3, 3] == plain[0, 0]
    large = np.ones_like(image, dtype=bool)
    large[3, 3] = False
    np.testing.assert_array_equal(opened[large], plain[large])


def test_levels_fall_from_the_largest_closing_to_the_largest_opening(scene):
    profiles = morphological_profiles(scene, 3, (1, 2, 3))
    assert profiles.shape == (12, 15, 3, 7)
    assert (np.diff(profiles, axis=-1) <= 0).all()


def test_pixels_without_data_are_nan_and_leave_the_components_of_others_alone(scene):
    holed = scene.copy()
    holed[4:6, 4:6] = np.nan
    profiles = morphological_profiles(holed, 2, (1,))
    assert np.isnan(profiles[4:6, 4:6]).all()
    assert np.isfinite(profiles).all(axis=(2, 3)).sum() == 12 * 15 - 4


def test_windows_of_profiles_have_order_four(scene):
    profiles = morphological_profiles(scene, 2, (1, 2))
    windows = extract_patches(profiles, [0, 6], [0, 7], window=3)
    assert windows.shape == (2, 3, 3, 2, 5)
    np.testing.assert_array_equal(windows[1], profiles[5:8, 6:9])
    flat = extract_patches(profiles.reshape(12, 15, -1), [0, 6], [0, 7], window=3)
    np.testing.assert_array_equal(windows.reshape(flat.shape), flat)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, (1,)), "components must be 1 to 4, the number of bands, got 5"),
        ((2, ()), r"radii must be ascending and at least 1, got \(\)"),
        ((2, (2, 1)), r"radii must be ascending and at least 1, got \(2, 1\)"),
        ((2, (0, 1)), r"radii must be ascending and at least 1, got \(0, 1\)"),
    ],
)
def test_components_and_radii_that_make_no_profile_are_refused(scene, arguments, message):
    with pytest.raises(InputError, match=message):
        morphological_profiles(scene, *arguments)


def test_a_scene_without_data_is_refused(scene):
    with pytest.raises(InputError, match="expected at least 2 pixels with data, got 0"):
        morphological_profiles(scene * np.nan, 2, (1,))
