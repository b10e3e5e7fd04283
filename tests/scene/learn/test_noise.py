import numpy as np
import pytest
import rioxarray  # noqa: F401
import xarray as xr

from polyad.errors import InputError
from polyad.scene.learn.noise import band_offset, pixel_noise


@pytest.fixture
def cube():
    rng = np.random.default_rng(7)
    return rng.uniform(100, 1000, size=(80, 90, 5)) * np.array([1, 2, 3, 4, 5])


def standardized(cube):
    return (cube - cube.mean(axis=(0, 1))) / cube.std(axis=(0, 1))


def test_pixel_noise_deviates_by_a_fifth_of_each_bands_maximum(cube):
    noise = pixel_noise(cube, random_state=0) - cube
    np.testing.assert_allclose(noise.std(axis=(0, 1)), 0.2 * cube.max(axis=(0, 1)), rtol=0.05)
    np.testing.assert_allclose(noise.mean(axis=(0, 1)) / cube.max(axis=(0, 1)), 0, atol=0.01)


def test_pixel_noise_of_neighbors_is_uncorrelated(cube):
    noise = pixel_noise(cube, random_state=0) - cube
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.04


def test_band_offset_is_removed_by_standardizing_each_band(cube):
    noisy = band_offset(cube, random_state=0).astype(np.float64)
    assert np.abs(noisy - cube).max() > 10
    np.testing.assert_allclose(standardized(noisy), standardized(cube), atol=1e-4)


@pytest.mark.parametrize("noise", [pixel_noise, band_offset])
def test_same_seed_same_noise_and_the_input_is_left_alone(noise, cube):
    before = cube.copy()
    first, again = noise(cube, random_state=3), noise(cube, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(cube, before)
    assert first.dtype == np.float32
    assert (noise(cube, random_state=4) != first).any()


@pytest.mark.parametrize("noise", [pixel_noise, band_offset])
def test_pixels_without_data_and_the_georeference_stay(noise):
    values = np.full((6, 5, 2), 10, dtype=np.int16)
    values[1, 2] = -9999
    scene = xr.DataArray(values, dims=("y", "x", "band"), attrs={"_FillValue": np.int16(-9999)})
    scene = scene.assign_coords(y=np.arange(6.0), x=np.arange(5.0)).rio.write_crs("EPSG:32632")
    noisy = noise(scene, random_state=0)
    assert (noisy.values[1, 2] == -9999).all()
    assert (noisy.values[0] != 10).all()
    assert noisy.rio.crs == scene.rio.crs
    assert noisy.rio.nodata == -9999
    assert np.isfinite(noisy.values).all()


def test_nan_pixels_do_not_spoil_the_scale():
    cube = np.ones((4, 4, 2))
    cube[0, 0] = np.nan
    noisy = pixel_noise(cube, random_state=0)
    assert np.isnan(noisy[0, 0]).all()
    assert np.isfinite(noisy[1:]).all()


def test_bad_input_gets_one_clear_sentence(cube):
    with pytest.raises(InputError, match=r"noise level must be a number >= 0 .* got -1"):
        pixel_noise(cube, -1, random_state=0)
    with pytest.raises(InputError, match=r"wants a scene \(height, width, bands\), got shape"):
        band_offset(cube[0], random_state=0)
