"""Steps on the maps of a model, on probabilities made for the purpose."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from polyad.scene.learn.recipe import GuidedFilter, Propagation, PropagationSettings
from polyad.scene.learn.steps import guided_filter
from polyad.scene.map.tile_mapper import Shares, refined, smooth
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile, plan_tiles

RNG = np.random.default_rng(0)
CUBE = RNG.normal(100, 3, size=(30, 31, 4)).astype(np.float32)
SHARES = RNG.dirichlet(np.ones(3), size=(30, 31)).astype(np.float32)
PROJECTION = RNG.normal(size=(4, 2))
STEP = GuidedFilter(
    mean=(100.0,) * 4, projection=tuple(map(tuple, PROJECTION.tolist())), radius=2, ridge=0.1
)
PROPAGATION = Propagation(settings=PropagationSettings(), targets=(), weights=(1.0, 0.2))


def test_smoothing_is_the_guided_filter_by_the_projected_scene():
    wanted = guided_filter(SHARES, (CUBE - 100.0) @ PROJECTION, 2, 0.1)
    wanted = np.clip(wanted, 1e-6, 1)
    wanted /= wanted.sum(axis=2, keepdims=True)
    found = smooth(SHARES, CUBE, np.zeros((30, 31), bool), STEP)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_pixels_without_data_are_even_shares_at_the_mean_of_the_scene():
    blank = np.zeros((30, 31), bool)
    blank[10:13, 5:9] = True
    cube = np.where(blank[..., None], np.float32(100), CUBE)
    shares = np.where(blank[..., None], np.float32(1 / 3), SHARES)
    wanted = smooth(shares, cube, np.zeros((30, 31), bool), STEP)
    found = smooth(np.where(blank[..., None], np.nan, SHARES), CUBE, blank, STEP)
    np.testing.assert_allclose(found[~blank], wanted[~blank], atol=1e-6)


def test_what_a_pixel_without_data_holds_makes_no_difference():
    blank = np.zeros((30, 31), bool)
    blank[10:13, 5:9] = True
    first, second = CUBE.copy(), CUBE.copy()
    first[blank], second[blank] = np.nan, 1e9
    shares = np.where(blank[..., None], np.nan, SHARES)
    found = [smooth(shares, cube, blank, STEP) for cube in (first, second)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(np.isnan(found[0]).all(axis=2), blank)


def test_two_filters_in_a_row_read_the_halo_of_both():
    scene = Scene.of(xr.DataArray(CUBE, dims=("y", "x", "band")))
    steps = (STEP, STEP.model_copy(update={"radius": 3}))
    whole = Tile(slice(0, 30), slice(0, 31))
    wanted = refined(scene, steps, whole, lambda tile: SHARES[tile])
    for tile in plan_tiles((30, 31), (7, 6)):
        found = refined(scene, steps, tile, lambda tile: SHARES[tile])
        np.testing.assert_allclose(found, wanted[tile], atol=1e-6)


def shares_of(nodes, count):
    logs = np.log(RNG.dirichlet(np.ones(3), size=count)).astype(np.float32)
    return Shares(nodes, logs, (0.7, 0.4))


@pytest.mark.parametrize(
    ("count", "dtype"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (930, np.uint16)]
)
def test_the_shares_of_a_tile_are_cut_to_the_fewest_bytes_and_say_the_same(count, dtype):
    nodes = RNG.permutation(np.arange(30 * 31) % count).reshape(30, 31) * 7 - 1  # -1: no data
    whole, tile = shares_of(nodes.astype(np.int32), 7 * count), Tile(slice(0, 30), slice(0, 31))
    part = whole.cut(tile)
    assert part.nodes.dtype == dtype
    assert part.logs.shape == (count, 3)
    assert part.logs.dtype == np.float32
    np.testing.assert_array_equal(part.combined(SHARES), whole.at(tile).combined(SHARES))
    np.testing.assert_array_equal(whole.combined(SHARES), whole.at(tile).combined(SHARES))


def test_tiles_with_their_own_shares_are_mapped_as_with_the_whole_scene_s():
    whole = shares_of(RNG.integers(0, 40, (30, 31)).astype(np.int32), 40)
    blank = np.where(RNG.random((30, 31, 1)) < 0.1, np.nan, SHARES).astype(np.float32)
    wanted = whole.combined(blank)
    scene = Scene.of(xr.DataArray(CUBE, dims=("y", "x", "band")))
    for tile in plan_tiles((30, 31), (7, 6)):
        found = refined(scene, (), tile, lambda tile: blank[tile], whole.cut(tile))
        np.testing.assert_array_equal(found, wanted[tile])


def test_the_checksum_of_shares_tells_every_value_apart():
    whole = shares_of(RNG.integers(0, 40, (30, 31)).astype(np.int32), 40)
    nodes, logs = whole.nodes.copy(), whole.logs.copy()
    nodes[3, 4] += 1
    logs[3, 1] = np.nextafter(logs[3, 1], 0, dtype=np.float32)
    changed = [{"nodes": nodes}, {"logs": logs}, {"weights": (0.7, 0.5)}]
    found = {replace(whole, **change).checksum() for change in [{}, *changed]}
    assert len(found) == 4
    assert replace(whole, nodes=whole.nodes.copy()).checksum() == whole.checksum()
