"""A lazy scene in, a lazy map out."""

import numpy as np
import pytest
import xarray as xr

from polyad.distributed import map_lazy
from polyad.errors import InputError, SceneMismatch
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.selection import mask_scene
from polyad.scene.read.scenes import open_scene
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def scene(scene_path):
    return open_scene(scene_path).isel(y=slice(0, 61), x=slice(60, 110)).load()


@pytest.mark.parametrize(
    "chunks",
    [
        {"y": 61, "x": 50, "band": 12},
        {"y": 20, "x": 17, "band": 12},
        {"y": 20, "x": 17, "band": 5},  # bands are put together
        {"y": 30, "x": 24, "band": 12},  # one row and two columns at the end: less than the halo
        {"y": 1, "x": 50, "band": 12},
    ],
)
def test_lazy_map_equals_the_map_of_the_whole_scene(scene, model, chunks):
    lazy = map_lazy(model, scene.chunk(chunks))
    assert lazy.chunks is not None
    xr.testing.assert_identical(lazy.compute(), map_scene(model, scene))


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 9)])
def test_scene_smaller_than_the_window_is_reflected_over_and_over(scene, model, size):
    small = scene.isel(y=slice(20, 20 + size[0]), x=slice(size[1]))
    xr.testing.assert_identical(map_lazy(model, small.chunk()).compute(), map_scene(model, small))


def test_lazy_probabilities_are_those_of_the_whole_scene(scene, model):
    lazy = map_lazy(model, scene.chunk(y=20, x=17), probabilities=True)
    wanted = map_scene(model, scene, probabilities=True)[1]
    assert lazy.dims == wanted.dims
    xr.testing.assert_allclose(lazy.compute(), wanted, rtol=0, atol=2e-6)


def test_nothing_is_read_before_the_map_is_computed(scene, model):
    import dask.array

    def read(block):
        raise RuntimeError("read")

    pixels = dask.array.map_blocks(read, scene.chunk(y=20, x=17).data, meta=np.empty((0, 0, 0)))
    lazy = map_lazy(model, scene.copy(data=pixels))
    with pytest.raises(RuntimeError, match="read"):
        lazy.compute()


def test_lazy_map_is_computed_by_a_cluster(scene, model, two_workers):
    lazy = map_lazy(model, scene.chunk(y=20, x=17))
    found = two_workers.compute(lazy.data).result(timeout=PATIENCE)
    np.testing.assert_array_equal(found, map_scene(model, scene).values)


def test_scene_in_memory_or_with_other_bands_is_refused(scene, model):
    with pytest.raises(InputError, match=r"scene\.chunk"):
        map_lazy(model, scene)
    with pytest.raises(SceneMismatch, match="wants 12 bands"):
        map_lazy(model, scene.isel(band=slice(5)).chunk())


def test_a_lazy_map_of_a_masked_scene_is_the_map_of_it(model, scene_path):
    scene = open_scene(scene_path)
    mask = np.zeros(scene.shape[:2], bool)
    mask[17:90, 30:75] = True
    masked = mask_scene(scene, mask)
    lazy = map_lazy(model, masked.chunk(y=40, x=40))
    np.testing.assert_array_equal(lazy.values, map_scene(model, masked).values)
    assert "inside" not in lazy.coords
