"""`Scene` and `Labels`: normalized once, and everything known of them kept."""

import pickle

import numpy as np
import pytest
import xarray as xr

from polyad.scene import scene_from_array, with_groups
from polyad.scene.raster.despiking import learn_noise
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene


@pytest.fixture
def scene():
    values = np.random.default_rng(0).normal(100, 5, (20, 15, 24)).astype(np.int16)
    return Scene.of(scene_from_array(values, wavelength=400.0 + 10 * np.arange(24), nodata=-1))


def noise(scene):
    return learn_noise(scene.read(slice(None), slice(None)).reshape(-1, scene.shape[2]))


def test_a_scene_is_normalized_once(scene):
    assert Scene.of(scene) is scene
    turned = Scene.of(scene.array.transpose("band", "x", "y"))
    assert turned.array.dims == ("y", "x", "band")
    assert turned.fingerprint == scene.fingerprint


def test_a_pickled_scene_reads_the_same_pixels(scene):
    inside = np.zeros((20, 15), bool)
    inside[3:9, 4:12] = True
    masked = scene.masked(inside).despiked(noise(scene))
    again = pickle.loads(pickle.dumps(masked))
    window = slice(2, 7), slice(None)
    np.testing.assert_array_equal(again.read(*window), masked.read(*window))
    assert (again.fingerprint, again.nodata, again.bands.count) == (scene.fingerprint, -1, 24)
    np.testing.assert_array_equal(again.inside, inside)
    assert again.despiking is not None


def test_only_a_change_makes_another_scene(scene):
    known = noise(scene)
    despiked = scene.despiked(known)
    assert despiked.despiked(known) is despiked
    assert scene.despiked(None) is scene
    assert despiked.select([0, 1, 2]).despiking is None
    assert despiked.crop(slice(5, 9), slice(0, 3)).despiking.shape == (4, 3)
    assert scene.despiking is None  # and this one is as it was


def test_bands_tell_where_they_stand_in_their_file(scene):
    chosen = scene.select([5, 2])
    assert chosen.bands.wavelength.tolist() == [450.0, 420.0]
    assert chosen.shape == (20, 15, 2)
    np.testing.assert_array_equal(
        chosen.read(slice(0, 2), slice(0, 2)),
        scene.read(slice(0, 2), slice(0, 2))[..., [5, 2]],
    )


def test_labels_know_ids_classes_and_groups():
    raster = xr.DataArray([[1, 1, 2, 0]], dims=("y", "x")).assign_attrs(class_names=["oak", "rye"])
    labels = Labels.of(with_groups(raster, [[7, 7, 8, 0]]))
    assert Labels.of(labels) is labels
    assert labels.ids.tolist() == [[1, 1, 2, 0]]
    assert [c.name for c in labels.classes] == ["oak", "rye"]
    assert labels.groups.tolist() == [[7, 7, 8, 0]]
    assert labels.groups_at(np.array([[0, 0], [0, 2]])).ids.tolist() == [7, 8]
    assert not labels.numbered_by_name
