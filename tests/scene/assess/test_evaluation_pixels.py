"""Evaluation pixel by pixel: no pixel without data is tested, each has its own probabilities."""

import numpy as np
import pytest
import xarray as xr

from polyad.scene.assess.evaluation import held_out, map_pixels
from polyad.scene.learn.experts import Samples
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.scene import Scene
from polyad.scene.read.scenes import scene_from_array


@pytest.fixture(scope="module")
def land():
    """Return a scene of two classes with holes, labels that cover the holes too, and a model."""
    rng = np.random.default_rng(0)
    truth = np.repeat([1, 2], 10)[None].repeat(18, axis=0).astype(np.uint16)
    values = (10.0 * truth[..., None] + rng.normal(0, 6, size=(18, 20, 5))).astype(np.float32)
    values[4:7, 3:9] = -99
    classes = [ClassInfo(1, "Corn", "#112233"), ClassInfo(2, "Soil", "#445566")]
    labels = with_classes(xr.DataArray(truth, dims=("y", "x")), classes)
    scene = scene_from_array(values, nodata=-99)
    options = {"hidden": 4, "epochs": 20, "window": 3, "random_state": 0}
    return scene, labels, train(scene, labels, samples_per_class=10, **options)


def test_pixels_without_data_are_not_tested(land):
    scene, labels, model = land
    lost = (scene.values == -99).any(axis=2)
    split = held_out(model, scene, labels)
    assert not lost[tuple(split.test.T)].any()
    assert len(split.test) + len(split.train) == (~lost).sum()


def test_asked_pixels_get_the_classes_and_probabilities_of_the_map(land):
    scene, _, model = land
    ids, proba = map_scene(model, scene, probabilities=True)
    pixels = np.random.default_rng(1).permutation(np.argwhere(ids.values > 0))[:50]
    found_ids, found = map_pixels(model, scene, pixels)
    np.testing.assert_array_equal(found_ids, ids.values[tuple(pixels.T)])
    np.testing.assert_allclose(found, proba.values[tuple(pixels.T)], atol=1e-6)


def test_missing_pixels_are_filled_by_the_mean_of_those_with_data(land):
    scene, _, _ = land
    samples = Samples(Scene.of(scene), np.array([4, 10]), np.array([10, 2]), 9)
    patches = samples.take()
    windows = np.concatenate(
        [scene.values[0:9, 6:15], scene.values[6:15][:, [2, 1, 0, 1, 2, 3, 4, 5, 6]]]
    )
    kept = windows[(windows != -99).all(axis=2)]
    assert len(kept) < 162
    np.testing.assert_allclose(samples.fill, kept.mean(axis=0), rtol=1e-5)
    assert patches.min() > -99
