"""A masked scene: outside counts as no data wherever pixels are learned from or mapped."""

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine

from attacks.vectors import PLACE, at, box, line, point, polygon, write
from polyad import map_scene, train
from polyad.errors import InputError, SceneError, SceneMismatch
from polyad.scene import grid_of, mask_scene, open_mask, restrict_scene, valid_mask
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import bbox_mask
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.labels import drop_nodata
from polyad.scene.read.scenes import scene_from_array

UTM = "EPSG:32633"
SIDE = 24


def a_scene(dtype=np.float32, nodata=None, shape=(SIDE, SIDE), place=PLACE, crs=UTM):
    values = np.random.default_rng(0).normal(50, 5, (*shape, 4))
    values[:, shape[1] // 2 :] += 20.0
    return scene_from_array(values.astype(dtype), crs=crs, transform=place, nodata=nodata)


def labels_of(scene):
    ids = np.zeros(scene.shape[:2], np.uint16)
    ids[2:-2:3, 2:10:3], ids[2:-2:3, 14:-2:3] = 1, 2
    return xr.DataArray(ids, dims=("y", "x"))


def a_mask():
    mask = np.zeros((SIDE, SIDE), bool)
    mask[4:20, 3:21] = True
    mask[8:10, 6:9] = False  # a hole
    return mask


@pytest.mark.parametrize(
    ("dtype", "nodata", "wanted"),
    [
        (np.float32, None, np.float32),
        (np.float32, -9999, np.float32),
        (np.uint16, None, np.float32),
        (np.uint16, 0, np.uint16),
        (np.int32, None, np.float64),
        (np.uint8, -1, np.float32),  # a nodata value that no pixel can have
    ],
)
def test_outside_is_nodata_and_inside_is_as_it_was(dtype, nodata, wanted):
    scene, mask = a_scene(dtype, nodata), a_mask()
    masked = Scene.of(mask_scene(scene, mask))
    values = masked.read(slice(0, SIDE), slice(0, SIDE))
    assert values.dtype == wanted == masked.pixel_dtype
    np.testing.assert_array_equal(values[mask], scene.values[mask].astype(wanted))
    outside = values[~mask]
    assert np.isnan(outside).all() if nodata in (None, -1) else (outside == nodata).all()


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
def test_every_reader_of_pixels_sees_the_mask(dtype):
    scene, mask = mask_scene(a_scene(dtype), a_mask()), a_mask()
    np.testing.assert_array_equal(valid_mask(scene), mask)
    np.testing.assert_array_equal(valid_mask(scene.transpose("band", "y", "x")), mask)
    labels = xr.DataArray(np.ones((SIDE, SIDE), np.uint16), dims=("y", "x"))
    np.testing.assert_array_equal(drop_nodata(scene, labels).values, mask)
    rows, cols = np.nonzero(np.ones((SIDE, SIDE), bool))
    centers = extract_patches(scene, rows, cols, 3)[:, 1, 1]
    np.testing.assert_array_equal(np.isnan(centers).any(axis=1).reshape(SIDE, SIDE), ~mask)


def test_a_window_wholly_outside_is_not_read_and_of_others_the_part_inside():
    import dask.array

    read = []

    def block(values, block_info=None):
        if block_info:
            read.append(tuple(block_info[0]["chunk-location"][:2]))
        return values

    ones = dask.array.ones((SIDE, SIDE, 4), np.float32, chunks=(8, 8, 4))
    lazy = xr.DataArray(ones.map_blocks(block, dtype=np.float32), dims=("y", "x", "band"))
    mask = np.zeros((SIDE, SIDE), bool)
    mask[20:, :5] = True
    scene = mask_scene(lazy, mask)
    read.clear()
    assert np.isnan(Scene.of(scene).read(slice(0, 8), slice(None))).all()
    assert read == []
    assert np.isfinite(Scene.of(scene).read(slice(12, 24), slice(None))).sum() == 4 * 5 * 4
    assert read == [(2, 0)]


@pytest.mark.parametrize("preset", ["fast", "paper", "best"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
def test_training_and_mapping_stay_inside_and_see_nothing_of_what_lies_outside(preset, dtype):
    scene, mask = a_scene(dtype), a_mask()
    other = scene.copy(data=np.where(mask[..., None], scene.values, 7).astype(dtype))
    maps = []
    for given in (scene, other):
        masked = mask_scene(given, mask)
        model = train(masked, labels_of(scene), preset=preset, window=3, epochs=10)
        assert len(model.training.pixels) == np.count_nonzero(labels_of(scene).values[mask])
        assert mask[tuple(model.training.pixels.T)].all()
        class_map, proba = map_scene(model, masked, probabilities=True)
        maps.append(proba.values)
    np.testing.assert_array_equal(*maps)
    np.testing.assert_array_equal(class_map.values > 0, mask)
    np.testing.assert_array_equal(np.isfinite(proba.values).all(axis=-1), mask)
    assert "inside" not in class_map.coords


@pytest.mark.parametrize("goal", ["this-scene", "other-scenes"])
@pytest.mark.parametrize("preset", ["fast", "paper", "best"])
def test_far_enough_inside_the_map_is_that_of_the_whole_scene(preset, goal):
    if (preset, goal) == ("best", "this-scene"):
        pytest.skip("label propagation follows paths all over the scene")
    side = 60
    scene, mask = a_scene(shape=(side, side)), np.zeros((side, side), bool)
    mask[5:50, 4:55] = True
    model = train(scene, labels_of(scene), preset=preset, goal=goal, window=1, epochs=10)
    halo = sum(step.halo for step in (() if model.recipe is None else model.recipe.steps))
    wide = np.pad(mask, halo, mode="edge")  # the scene's own border is no border of the mask
    deep = mask.copy()
    for dy in range(2 * halo + 1):
        for dx in range(2 * halo + 1):
            deep &= wide[dy : dy + side, dx : dx + side]
    whole, part = (map_scene(model, s).values for s in (scene, mask_scene(scene, mask)))
    np.testing.assert_array_equal(part[deep], whole[deep])
    assert deep.sum() > 500


def test_labels_outside_the_mask_are_told():
    scene = a_scene()
    mask = np.zeros((SIDE, SIDE), bool)
    mask[0, 0] = True
    with pytest.raises(
        SceneError, match=r"no labeled pixel of .* inside the mask: .* check the mask"
    ):
        train(mask_scene(scene, mask), labels_of(scene))


def test_a_rectangle_holds_the_pixels_whose_centers_lie_in_it():
    scene = a_scene()
    (left, top), (right, bottom) = at(3, 4), at(21, 20)
    mask = bbox_mask(grid_of(scene), (left, bottom, right, top))
    wanted = np.zeros((SIDE, SIDE), bool)
    wanted[4:20, 3:21] = True
    np.testing.assert_array_equal(mask, wanted)
    shrunk = bbox_mask(grid_of(scene), (left + 14, bottom + 14, right - 14, top - 14))
    np.testing.assert_array_equal(shrunk, wanted)  # not yet past the centers


@pytest.mark.parametrize(
    ("bbox", "message"),
    [
        ((0, 0, 10, 10), r"it reaches from \(0, 0\) to \(10, 10\), the scene from \(365000, "),
        ((10, 0, 0, 10), "left < right and bottom < top, got 10 0 0 10"),
        ((0, 0, 10), "is left, bottom, right and top, got"),
        ((0, 0, float("nan"), 10), "is left, bottom, right and top, got"),
    ],
)
def test_a_bad_rectangle_gets_one_sentence(bbox, message):
    with pytest.raises((SceneMismatch, InputError), match=message):
        restrict_scene(a_scene(), bbox=bbox)


def test_a_scene_without_georeference_takes_no_rectangle_but_a_mask_of_its_size():
    scene = a_scene(place=None, crs=None)
    with pytest.raises(SceneMismatch, match="the scene has no georeference; give a mask"):
        restrict_scene(scene, bbox=(0, 0, 5, 5))
    assert int(mask_scene(scene, a_mask())["inside"].sum()) == a_mask().sum()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((SIDE, SIDE)), "no pixel of the scene lies inside the mask"),
        (np.ones((3, 4)), r"the scene's 24 rows and 24 columns, got shape \(3, 4\)"),
        (np.full((SIDE, SIDE), np.nan), "no pixel of the scene lies inside"),
    ],
)
def test_a_bad_mask_gets_one_sentence(mask, message):
    with pytest.raises(SceneMismatch, match=message):
        mask_scene(a_scene(), mask)


def test_a_mask_travels_in_few_bytes():
    whole = Scene.of(a_scene())
    scene = whole.masked(a_mask())
    assert len(scene.packed_mask) < 100
    np.testing.assert_array_equal(whole.unpack_mask(scene.packed_mask).inside, scene.inside)
    assert whole.packed_mask is None
    assert whole.unpack_mask(None) is whole


def write_raster(path, values, place=PLACE, crs=UTM, nodata=None):
    shape = {"height": values.shape[0], "width": values.shape[1], "count": 1}
    with rasterio.open(
        path, "w", "GTiff", dtype=values.dtype, crs=crs, transform=place, nodata=nodata, **shape
    ) as file:
        file.write(values, 1)
    return path


def test_a_raster_is_inside_where_it_is_not_zero_and_has_data(tmp_path):
    values = np.where(a_mask(), 7, 0).astype(np.uint8)
    values[0, 0] = 255
    mask = open_mask(write_raster(tmp_path / "mask.tif", values, nodata=255), a_scene())
    np.testing.assert_array_equal(mask.values, a_mask())


def test_a_raster_in_another_reference_system_is_reprojected(tmp_path):
    from rasterio.warp import calculate_default_transform, reproject

    fine = np.kron(a_mask(), np.ones((8, 8))).astype(np.uint8)
    place = PLACE * Affine.scale(1 / 8)
    left, top = at(0, 0)
    right, bottom = at(SIDE, SIDE)
    to, width, height = calculate_default_transform(
        UTM, "EPSG:4326", *fine.shape[::-1], left, bottom, right, top
    )
    turned = np.zeros((height, width), np.uint8)
    reproject(fine, turned, src_transform=place, src_crs=UTM, dst_transform=to, dst_crs="EPSG:4326")
    mask = open_mask(write_raster(tmp_path / "mask.tif", turned, to, "EPSG:4326"), a_scene())
    np.testing.assert_array_equal(mask.values, a_mask())


def test_a_raster_elsewhere_is_refused_with_both_extents(tmp_path):
    far = write_raster(tmp_path / "mask.tif", np.ones((3, 3), np.uint8), Affine(1, 0, 0, 0, -1, 3))
    with pytest.raises(SceneMismatch, match=r"they reach from \(0, 0\) to \(3, 3\), the scene"):
        open_mask(far, a_scene())


def test_polygons_hold_the_centers_of_the_pixels_inside(tmp_path):
    pytest.importorskip("pyogrio", reason="vector files are read with polyad[vector]")
    shapes = [polygon(box(3, 4, 21, 20), box(6, 8, 9, 10)[::-1]), point(*at(1, 1))]
    path = write(tmp_path / "mask.gpkg", shapes, {"name": ["a", "b"]})
    with pytest.warns(UserWarning, match="1 points and lines are no part of a mask"):
        mask = open_mask(path, a_scene())
    np.testing.assert_array_equal(mask.values, a_mask())


def test_a_layer_of_a_mask_is_named_after_a_colon(tmp_path):
    pytest.importorskip("pyogrio", reason="vector files are read with polyad[vector]")
    path = tmp_path / "mask.gpkg"
    write(path, [polygon(box(0, 0, 2, 2))], {"k": [1]}, layer="fields")
    write(path, [line(at(0, 0), at(2, 2))], {"k": [1]}, layer="roads")
    with pytest.raises(SceneError, match=r"name one as in 'mask.gpkg:LAYER': fields, roads"):
        open_mask(path, a_scene())
    assert open_mask(f"{path}:fields", a_scene()).values.sum() == 4
    with pytest.raises(SceneError, match="a mask is made of polygons, got none"):
        open_mask(f"{path}:roads", a_scene())


def test_graphs_of_another_mask_do_not_serve_a_map(tmp_path):
    from polyad.scene.learn.model import SceneModel

    scene = a_scene()
    mask = np.zeros((SIDE, SIDE), bool)
    mask[:, : SIDE // 2 + 4] = True
    model = train(mask_scene(scene, mask), labels_of(scene), preset="best", epochs=3)
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert (map_scene(model, scene).values == map_scene(again, scene).values).all()


def test_noise_is_learned_inside_a_mask_that_strips_of_the_scene_would_miss():
    import polyad.scene.learn.scene_statistics as module
    from polyad.scene.learn.scene_statistics import scene_statistics

    scene = a_scene()
    mask = np.zeros((SIDE, SIDE), bool)
    mask[3:12, 4:15] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAMPLE_PIXELS", 100)
        whitening = scene_statistics(mask_scene(scene, mask), "other-scenes").whitening
    inside = scene.values[mask].mean(axis=0)
    np.testing.assert_allclose(whitening.mean_, inside, rtol=0.05)
