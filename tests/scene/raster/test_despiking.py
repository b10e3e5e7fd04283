"""Corrupt pixels are found by their roughness and replaced; whatever is real stays."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.scene.raster import despiking
from polyad.scene.raster.despiking import (
    HALO,
    LEAST_BANDS,
    despike,
    find_outliers,
    learn_noise,
    roughness,
)
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import extract_patches

HEIGHT, WIDTH, BANDS = 22, 30, 40


def find_outliers_slow(values, noise):
    """As `find_outliers`, pixel by pixel and band by band: the reference."""
    height, width, bands = values.shape
    few, signs = np.unique(np.linspace(0, bands - 1, 8).astype(int)), despiking._signs(bands)
    outliers = np.zeros((height, width), bool)
    for y, x in np.ndindex(height, width):
        spectrum = values[y, x].astype(np.float64)
        z = (roughness(spectrum) - noise.center) / noise.tail
        sums = [sum(z[b] * signs[b, k] for b in range(bands - 2)) for k in range(despiking.SUMS)]
        off = np.abs((np.array(sums) - noise.sum_center) / noise.sum_scale)
        alike = all(spectrum[b] == spectrum[few[0]] for b in few)
        outliers[y, x] = alike or not (off <= despiking.OUTLIER).all()
    return outliers


def despike_slow(values, nodata, noise):
    """As `despike`, pixel by pixel: the reference."""
    outliers = find_outliers_slow(values, noise)
    repaired, replaced = values.copy(), np.zeros(outliers.shape, bool)
    height, width, bands = values.shape
    for y, x in np.argwhere(outliers):
        spectrum = values[y, x].astype(np.float64)
        if not despiking.valid_pixels(values[y, x][None], nodata)[0]:
            continue
        near, far, corrupt = [], [], 0
        for dy, dx in despiking._AROUND:
            if not (0 <= y + dy < height and 0 <= x + dx < width):
                continue
            if not despiking.valid_pixels(values[y + dy, x + dx][None], nodata)[0]:
                continue
            if outliers[y + dy, x + dx]:
                corrupt += 1
                continue
            far.append(values[y + dy, x + dx].astype(np.float64))
            if max(abs(dy), abs(dx)) == 1:
                near.append(far[-1])
        if len(far) < 3 or len(far) <= corrupt:
            continue
        mean = np.mean(near if len(near) >= 3 else far, axis=0)
        z = np.abs(roughness(spectrum) - noise.center) / noise.scale
        if np.median(z) > despiking.ROUGH or (spectrum == spectrum[0]).all():
            bad = np.ones(bands, bool)
        else:
            bad = _beyond_steps_slow(spectrum - mean, noise)
        if bad.any():
            fixed = np.where(bad, mean, spectrum)
            repaired[y, x] = np.rint(fixed) if values.dtype.kind in "iu" else fixed
            replaced[y, x] = True
    return repaired, replaced


def _beyond_steps_slow(difference, noise):
    """As `_beyond_steps` of one pixel, stretch by stretch."""
    tail = np.pad(noise.tail, 1, mode="edge")
    steps = np.abs(np.diff(difference)) / np.maximum(tail[1:], tail[:-1])
    jumps = np.flatnonzero(steps > max(despiking.STEP, despiking.OWN_STEP * np.median(steps))) + 1
    stretches = np.split(np.arange(len(difference)), jumps)
    level = [abs(difference[s].mean()) for s in stretches]
    bad = np.zeros(len(difference), bool)
    for k in range(len(jumps)):
        bad[stretches[k if level[k] > level[k + 1] else k + 1]] = True
    for end in (stretches[0], stretches[-1]):
        if len(end) > len(difference) // despiking.END:
            bad[end] = False
    return bad


def make_cube(seed=0, dtype=np.float32):
    """Fields of smooth spectra with a little noise, in counts."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, BANDS)
    spectra = [2000 + 900 * np.sin(3 * x + k) + 300 * k * x for k in range(4)]
    fields = (np.arange(HEIGHT)[:, None] // 6 + np.arange(WIDTH) // 7) % 4
    cube = np.array(spectra)[fields] + rng.normal(0, 8, (HEIGHT, WIDTH, BANDS))
    return cube.astype(dtype)


@pytest.fixture
def cube():
    return make_cube()


@pytest.fixture
def noise(cube):
    return learn_noise(cube.reshape(-1, BANDS))


def broken(cube, seed=1):
    """A column of noise, a column with dead bands, and single pixels broken in each way."""
    rng = np.random.default_rng(seed)
    bad = cube.copy()
    bad[:, 4] = rng.uniform(500, 4000, (HEIGHT, BANDS))
    bad[:, 11, [3, 20, 21, 22, 30]] = 0
    singles = {(2, 8): 0, (9, 15): 65535, (15, 8): rng.uniform(-9000, 30000, BANDS), (19, 17): 777}
    for place, value in singles.items():
        bad[place] = value
    where = np.zeros((HEIGHT, WIDTH), bool)
    where[:, [4, 11]] = True
    where[tuple(np.array(list(singles)).T)] = True
    return bad, where


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_every_kind_of_corruption_is_found_and_nothing_else(dtype, cube, noise):
    bad, where = broken(make_cube(dtype=dtype))
    repaired, replaced = despike(bad, None, noise)
    np.testing.assert_array_equal(replaced, where)
    np.testing.assert_array_equal(repaired[~where], bad[~where])
    assert repaired.dtype == dtype
    middle = np.zeros_like(where)
    middle[:, 7:14] = True  # no field ends here: neighbors are alike
    assert np.abs(repaired[where & middle] - cube[where & middle]).mean() < 250


def test_a_bright_roof_and_a_dark_pool_of_one_pixel_stay(cube, noise):
    real = cube.copy()
    real[5, 5] = 3 * cube[5, 5]
    real[12, 12] = 0.05 * cube[12, 12] + 3
    real[16, 3] = cube[1, 1]  # of another class
    repaired, replaced = despike(real, None, noise)
    assert not replaced.any()
    assert repaired is real


def test_an_area_of_one_value_is_no_broken_pixel(cube, noise):
    cube[:8, :8] = 0
    replaced = despike(cube, None, noise)[1]
    assert replaced.sum() <= 3  # its corner, which has sound pixels on most sides


def test_pixels_without_data_stay_and_lend_nothing(cube, noise):
    bad = cube.copy()
    bad[:, :3] = -9
    bad[6, 3] = 0  # beside them
    bad[7, 12, 5] = np.nan
    repaired, replaced = despike(bad, -9, noise)
    assert (repaired[:, :3] == -9).all()
    assert np.isnan(repaired[7, 12, 5])
    assert replaced.nonzero() == (np.array([6]), np.array([3]))
    assert repaired[6, 3].min() > 500


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from([None, 0.0, 1000.0]))
def test_fast_and_slow_agree(seed, count, nodata):
    rng = np.random.default_rng(seed)
    cube = make_cube(seed, np.float64)
    noise = learn_noise(cube.reshape(-1, BANDS))
    for _ in range(count):
        y, x, kind = (int(rng.integers(n)) for n in (HEIGHT, WIDTH, 5))
        bands = slice(*np.sort(rng.integers(0, BANDS, 2)))
        if kind == 0:
            cube[y, x] = rng.choice([0.0, 1000.0, 65535.0])
        elif kind == 1:
            cube[y, x] = rng.uniform(0, 5000, BANDS)
        elif kind == 2:
            cube[y, x, bands] = 0
        elif kind == 3:
            cube[y, x] += rng.normal(0, 3000) * np.linspace(0, 1, BANDS)
        else:
            cube[:, x, bands] = rng.uniform(0, 5000)
    np.testing.assert_array_equal(find_outliers(cube, noise), find_outliers_slow(cube, noise))
    fast, slow = (do(cube, nodata, noise) for do in (despike, despike_slow))
    np.testing.assert_array_equal(fast[1], slow[1])
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-9)


def test_few_bands_or_spectra_tell_nothing():
    assert learn_noise(np.zeros((100, LEAST_BANDS - 1))) is None
    assert learn_noise(np.zeros((10, 50))) is None
    assert learn_noise(np.full((100, 50), 7.0)) is None


# -- how a scene is read ---------------------------------------------------------------------------


@pytest.fixture
def scene(cube, noise):
    bad, where = broken(cube)
    return Scene.of(xr.DataArray(bad, dims=("y", "x", "band"))).despiked(noise), where


def test_every_window_reads_what_the_whole_reads(scene):
    scene, _ = scene
    whole = scene.read(slice(None), slice(None))
    for rows in (slice(0, 3), slice(5, 9), slice(17, 22)):
        for cols in (slice(0, 5), slice(4, 5), slice(3, 20)):
            np.testing.assert_array_equal(scene.read(rows, cols), whole[rows, cols])
    patches = extract_patches(scene, [9, 0], [4, 11], window=3)
    np.testing.assert_array_equal(patches[0], whole[8:11, 3:6])
    assert HALO == 2


def test_replaced_pixels_are_counted_once(scene):
    scene, where = scene
    for _ in range(2):
        for start in range(0, HEIGHT, 5):
            scene.read(slice(max(start - 2, 0), start + 7), slice(None))
    repairs = scene.despiking
    assert repairs.count() == where.sum()
    assert repairs.count(slice(0, 5), slice(3, 12)) == where[:5, 3:12].sum()


def test_outside_of_the_mask_lends_nothing(scene):
    scene, _ = scene
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[:, :5] = True  # up to the column of noise
    pixels = scene.masked(inside).read(slice(None), slice(None))
    assert np.isnan(pixels[:, 5:]).all()
    assert (np.abs(np.diff(pixels[8:11, 3:5], axis=1)) < 1000).all()


def test_repairs_of_other_bands_are_not_done(scene):
    scene, _ = scene
    some = scene.select(np.arange(20))
    np.testing.assert_array_equal(some.read(slice(None), slice(None)), some.array.values)
    assert some.despiked(scene.despiking.noise) is some
