"""Corrupt pixels are found while a scene is mapped, and mapped as those that are read repaired."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from polyad import RankRClassifier
from polyad.core.network import RankRNet
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.learn.radiometry import replaced_pixels
from polyad.scene.map.classifier import as_scene_model
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.despiking import find_outliers, learn_noise
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile, read_block

HEIGHT, WIDTH, BANDS = 41, 37, 40


@pytest.fixture(scope="module")
def cube():
    """Smooth spectra with a little noise, in counts."""
    rng = np.random.default_rng(0)
    fields = (np.arange(HEIGHT)[:, None] // 6 + np.arange(WIDTH) // 7) % 4
    x = np.linspace(0, 1, BANDS)
    spectra = np.array([2000 + 900 * np.sin(3 * x + k) for k in range(4)])
    return spectra[fields] + rng.normal(0, 8, (HEIGHT, WIDTH, BANDS))


@pytest.fixture(scope="module")
def soundness(cube):
    return learn_noise(cube.reshape(-1, BANDS))


def broken(cube, dtype):
    """Pixels broken at corners, edges, next to each other and inside, in each way."""
    rng = np.random.default_rng(1)
    bad = cube.copy()
    bad[:, 11] = rng.uniform(500, 4000, (HEIGHT, BANDS))
    for place in [(0, 0), (0, 5), (1, 1), (9, 36), (20, 20), (20, 21), (40, 0), (40, 36)]:
        bad[place] = rng.uniform(0, 60_000, BANDS)
    bad[30, 30] = 777
    bad[33, 4, 20:23] = 0
    return xr.DataArray(bad.astype(dtype), dims=("y", "x", "band"))


def classifier(cube, window, seed=0):
    model = RankRClassifier(2, 7)
    generator = torch.Generator().manual_seed(seed)
    shape = (window, window, BANDS)
    model.network_ = RankRNet(shape, 7, 3, 2, generator=generator)
    model.classes_, model.sample_shape_ = np.array([1, 2, 3]), shape
    model.n_features_in_ = window
    model.scaler_ = ModeStandardScaler(-1)
    spectra = cube.reshape(-1, BANDS)
    model.scaler_.mean_, model.scaler_.scale_ = spectra.mean(axis=0), spectra.std(axis=0)
    model.scaler_.sample_shape_, model.scaler_.n_features_in_ = shape, window
    return model


@pytest.mark.parametrize("side", [9, 1000])
@pytest.mark.parametrize("tile", [None, 13])
@pytest.mark.parametrize("dtype", ["f4", "u2", "f8"])
def test_a_map_is_that_of_the_repaired_scene(cube, soundness, dtype, tile, side, monkeypatch):
    monkeypatch.setattr("polyad.scene.map.classifier.piece_side", lambda model: side)
    scene = broken(cube, dtype)
    model = replace(as_scene_model(classifier(cube, 5), scene), soundness=soundness)
    reading = Scene.of(scene).despiked(soundness)
    repaired = scene.copy(data=reading.read(slice(None), slice(None)))
    assert 50 < replaced_pixels(reading) < 60
    wanted = map_scene(replace(model, soundness=None), repaired, probabilities=True, tile=tile)
    viewed = model.view(scene)
    found = map_scene(model, viewed, probabilities=True, tile=tile)
    np.testing.assert_allclose(found[1].values, wanted[1].values, atol=2e-5)
    assert (found[0].values != wanted[0].values).mean() < 0.002
    assert replaced_pixels(viewed) == replaced_pixels(reading)


def test_missing_pixels_among_corrupt_ones_stay_missing(cube, soundness):
    scene = broken(cube, "f4")
    scene.values[18:20, 19:23] = np.nan
    model = replace(as_scene_model(classifier(cube, 3), scene), soundness=soundness)
    ids = map_scene(model, scene).values
    np.testing.assert_array_equal(ids == 0, np.isnan(scene.values).any(axis=-1))


@pytest.mark.parametrize("rows", [slice(0, 12), slice(5, 9), slice(3, 19)])
@pytest.mark.parametrize("cols", [slice(0, 17), slice(2, 3), slice(8, 16)])
@pytest.mark.parametrize("corner", [(0, 0), (26, 21), (13, 8)])
def test_replacements_of_a_cut_are_what_reading_it_repaired_gives(
    cube, soundness, corner, rows, cols
):
    scene = Scene.of(broken(cube, "u2")).despiked(soundness)
    tile = Tile(slice(corner[0], corner[0] + 15), slice(corner[1], corner[1] + 16))
    block = read_block(scene, tile, halo=2)
    stored = block.cut(rows, cols).copy()
    i, j, spectra = block.replacements(rows, cols, find_outliers(stored, soundness))
    stored[i, j] = spectra
    np.testing.assert_array_equal(stored, block.repaired(rows, cols))
    whole = scene.read(slice(None), slice(None))
    y, x = (
        index + start
        for index, start in zip((block.rows[rows], block.cols[cols]), block.origin, strict=True)
    )
    np.testing.assert_array_equal(stored, whole[np.ix_(y, x)])
