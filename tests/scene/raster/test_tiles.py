"""The plan of tiles, and tiles read with their halo."""

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.scene.raster.windows import (
    BLOCK,
    LEAST_ROWS,
    TILE_BYTES,
    Tile,
    plan_tiles,
    read_block,
    tile_shape,
)

SIDE = st.integers(1, 40)
quick = settings(deadline=None, max_examples=50)


def scene_of(height, width, bands=2):
    values = np.arange(height * width * bands, dtype=np.float32).reshape(height, width, bands)
    return xr.DataArray(values, dims=("y", "x", "band"))


@quick
@given(shape=st.tuples(SIDE, SIDE), tile=st.tuples(SIDE, SIDE))
def test_tiles_cover_every_pixel_exactly_once(shape, tile):
    seen = np.zeros(shape, int)
    for part in plan_tiles(shape, tile):
        seen[part] += 1
        assert part.shape == seen[part].shape
        assert part.shape <= tile
    assert (seen == 1).all()


@quick
@given(
    shape=st.tuples(st.integers(1, 10**5), st.integers(1, 10**5)),
    pixel_bytes=st.integers(1, 2**22),
)
def test_a_tile_lies_in_the_scene_and_in_its_budget(shape, pixel_bytes):
    height, width = tile_shape(shape, pixel_bytes)
    assert 1 <= height <= shape[0]
    assert 1 <= width <= shape[1]
    assert height * width * pixel_bytes <= TILE_BYTES


@quick
@given(width=st.integers(1, 10**5), pixel_bytes=st.integers(1, 2**14))
def test_a_tile_takes_the_whole_width_wherever_that_leaves_enough_rows(width, pixel_bytes):
    height, across = tile_shape((10**5, width), pixel_bytes)
    if LEAST_ROWS * width * pixel_bytes <= TILE_BYTES:
        assert across == width
        assert height >= LEAST_ROWS
    else:
        assert across % BLOCK == 0 or across < BLOCK


def test_a_tile_of_the_users_side_is_square_and_cropped_to_the_scene():
    assert tile_shape((100, 50), 8, side=64) == (64, 50)


def reflected(values, part, halo):
    """The slow way: mirror the whole scene, as often as it takes, then cut the tile out."""
    for axis in (0, 1):
        length = values.shape[axis]
        around = np.arange(-halo, length + halo)
        while ((around < 0) | (around >= length)).any():
            around = np.where(around < 0, -around, around) if length > 1 else around * 0
            around = np.where(around >= length, 2 * (length - 1) - around, around)
        values = values.take(around, axis=axis)
    rows, cols = part
    return values[rows.start : rows.stop + 2 * halo, cols.start : cols.stop + 2 * halo]


@quick
@given(
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    tile=st.tuples(st.integers(1, 13), st.integers(1, 13)),
    halo=st.integers(0, 5),
)
def test_tile_with_halo_equals_a_cut_from_the_mirrored_scene(shape, tile, halo):
    scene = scene_of(*shape)
    for part in plan_tiles(shape, tile):
        wanted = reflected(scene.values, part, halo)
        whole = read_block(scene, part, halo).cut(slice(None), slice(None))
        np.testing.assert_array_equal(whole, wanted)


def test_cutting_a_block_makes_no_copy_inside_the_scene():
    block = read_block(scene_of(20, 20), Tile(slice(5, 10), slice(5, 10)), halo=2)
    assert np.shares_memory(block.cut(slice(0, 6), slice(2, 8)), block.values)
