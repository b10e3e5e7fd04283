"""The two noises of the paper: their scale, and what standardizing leaves of them."""

import numpy as np
import pytest

from polyad.experiments.runs import noisy
from polyad.experiments.settings import RunSettings


@pytest.fixture
def cube():
    rng = np.random.default_rng(7)
    values = rng.uniform(100, 1000, size=(80, 90, 5)) * np.array([1, 2, 3, 4, 5])
    return values.astype(np.float32)


def added(cube, noise, seed=0):
    """Return the noise that a run adds to a scene."""
    return noisy(cube, RunSettings("indian-pines", "rank-1", 10, noise=noise, seed=seed)) - cube


def standardized(cube):
    return (cube - cube.mean(axis=(0, 1))) / cube.std(axis=(0, 1))


def test_pixel_noise_deviates_by_a_fifth_of_each_bands_maximum(cube):
    noise = added(cube, "pixel")
    np.testing.assert_allclose(noise.std(axis=(0, 1)), 0.2 * cube.max(axis=(0, 1)), rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=(0, 1)) / cube.max(axis=(0, 1)), 0, atol=0.01)


def test_pixel_noise_of_neighbors_is_uncorrelated(cube):
    noise = added(cube, "pixel")
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.04


def test_band_offset_is_removed_by_standardizing_each_band(cube):
    offset = added(cube, "band-offset")
    assert np.abs(offset).max() > 10
    wide = cube.astype(np.float64)
    np.testing.assert_allclose(standardized(wide + offset), standardized(wide), atol=1e-4)


@pytest.mark.parametrize("noise", ["pixel", "band-offset"])
def test_same_seed_same_noise_and_the_input_is_left_alone(noise, cube):
    before = cube.copy()
    np.testing.assert_array_equal(added(cube, noise, 3), added(cube, noise, 3))
    np.testing.assert_array_equal(cube, before)
    assert (added(cube, noise, 4) != added(cube, noise, 3)).any()
