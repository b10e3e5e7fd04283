import io

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.app.tiles import SceneTiles, levels, map_tile, tile_slices
from polyad.app.tiles import uncertainty_tile as unsure_tile
from polyad.errors import InputError
from polyad.scene.draw.color import encode_rgb
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.read.scenes import scene_from_array


def decode(png):
    return np.rint(255 * matplotlib.image.imread(io.BytesIO(png), format="png")).astype(int)


def test_pictures_survive_the_round_trip_through_png():
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (7, 11, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode(encode_rgb(picture)), picture)
    clear = rng.integers(0, 256, (7, 11, 4), dtype=np.uint8)
    np.testing.assert_array_equal(decode(encode_rgb(clear)), clear)


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 3000))
def test_tiles_of_every_level_cover_the_scene_once(height, width):
    shape = (height, width)
    for level in range(levels(shape)):
        step = 2**level
        side = 256 * step
        rows = [tile_slices(shape, level, r, 0)[0] for r in range(-(-height // side))]
        covered = [y for span in rows for y in range(span.start, span.stop, span.step)]
        assert covered == list(range(0, height, step))
    assert max(height, width) <= 256 * 2 ** (levels(shape) - 1)


@pytest.mark.parametrize("place", [(-1, 0, 0), (9, 0, 0), (0, 5, 0), (0, 0, 5), (0, -1, 0)])
def test_a_tile_that_is_not_there_is_refused(place):
    with pytest.raises(InputError, match=r"there is no tile at|lies outside the scene"):
        tile_slices((300, 300), *place)


def test_a_scene_tile_is_stretched_between_percentiles_of_the_whole_scene():
    values = np.arange(100, dtype=np.float32).reshape(10, 10, 1) * np.ones(3, np.float32)
    image = decode(SceneTiles(scene_from_array(values)).tile(0, 0, 0, (0, 1, 2), (10, 90)))
    assert image[0, 0].tolist() == [0, 0, 0, 255]
    assert image[9, 9].tolist() == [255, 255, 255, 255]
    assert abs(image[4, 9, 0] - 127) <= 2  # the median is half way


def test_pixels_without_data_are_clear():
    values = np.ones((4, 4, 3), np.float32)
    values[1, 1, 0] = np.nan
    values[2, 2, 0] = -9
    scene = scene_from_array(values, nodata=-9)
    image = decode(SceneTiles(scene).tile(0, 0, 0, (0, 1, 2), (2, 98)))
    assert image[1, 1, 3] == image[2, 2, 3] == 0
    assert image[0, 0, 3] == 255


@pytest.mark.parametrize(
    ("bands", "percentiles"),
    [((0, 1, 8), (2, 98)), ((-1, 0, 0), (2, 98)), ((0, 1, 2), (98, 2)), ((0, 1, 2), (-1, 50)),
     ((0, 1, 2), (50, 50))],
)  # fmt: skip
def test_impossible_bands_and_percentiles_are_refused(scene, bands, percentiles):
    said = "percentiles rise" if bands == (0, 1, 2) else "bands lie between"
    with pytest.raises(InputError, match=said):
        SceneTiles(scene).tile(0, 0, 0, bands, percentiles)


def test_map_tiles_have_the_colors_of_the_classes_and_uncertainty_is_clear_where_unknown():
    ids = np.array([[0, 1], [2, 1]], np.uint8)
    classes = [ClassInfo(1, "a", "#112233"), ClassInfo(2, "b", "#445566")]
    image = decode(map_tile(ids, classes, 0, 0, 0))
    assert image[0, 0, 3] == 0
    assert image[0, 1].tolist() == [0x11, 0x22, 0x33, 255]
    unsure = decode(unsure_tile(np.array([[0, 1, 255]], np.uint8), 0, 0, 0))
    assert unsure[0, 0, 3] == 0
    assert unsure[0, 1, 3] < unsure[0, 2, 3]
