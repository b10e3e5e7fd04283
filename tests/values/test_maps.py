"""A map of a regression target is patch by patch, only faster; it keeps names, units and bounds."""

import numpy as np
import pytest
import rasterio
import xarray as xr
from plots import GRID, HEIGHT, QUICK, WIDTH, measured, pixels, scene, write_scene

import polyad
from polyad.errors import InputError, OutputError, PolyadWarning
from polyad.scene import extract_patches, map_values, train_regression


def patch_by_patch(model, cube):
    """The slow reference: the window of every pixel cut out and predicted on its own."""
    rows, cols = np.indices(cube.shape[:2]).reshape(2, -1)
    patches = extract_patches(cube, rows, cols, model.window)
    patches = patches[:, 0, 0] if model.window == 1 else patches
    outputs = model.estimator.predict(patches.astype(np.float32)).reshape(len(rows), -1)
    return model.values.decode(outputs, True).reshape(*cube.shape[:2], -1)


def test_mapping_equals_patch_by_patch(model):
    values, deviation = map_values(model, scene(), uncertainty=True)
    slow = patch_by_patch(model, scene())
    np.testing.assert_allclose(values, slow[..., :2], atol=1e-4)
    np.testing.assert_allclose(deviation, slow[..., 2:], atol=1e-4)
    np.testing.assert_allclose(map_values(model, scene()), values, atol=1e-4)


def test_tiles_change_nothing(model):
    whole, tiled = map_values(model, scene()), map_values(model, scene(), tile=16)
    np.testing.assert_allclose(whole, tiled, atol=1e-5)


def test_bounded_values_stay_within_their_bounds():
    model = train_regression(scene(), measured().isel(target=[0]), bounds=(0, 1), window=1, **QUICK)
    bright = scene(pixels() * np.int16(3))
    with pytest.warns(PolyadWarning, match="radiometric shift"):
        values = map_values(model, bright, adapt=False).values
    assert values.min() >= 0
    assert values.max() <= 1


def test_pixels_without_data_have_no_value(model):
    stored = pixels()
    stored[5:9, 3:20] = -9999
    values = map_values(model, scene(stored)).values
    assert np.isnan(values[5:9, 3:20]).all()
    assert np.isfinite(np.delete(values, slice(3, 11), axis=0)).all()


def test_a_geotiff_has_names_units_range_and_nodata(model, tmp_path):
    mapped = polyad.map_file(
        model, scene(), tmp_path / "m.tif", uncertainty=tmp_path / "sd.tif", adapt=False
    )
    values, deviation = map_values(model, scene(), uncertainty=True)
    assert mapped == HEIGHT * WIDTH
    with rasterio.open(tmp_path / "m.tif") as file:
        assert file.descriptions == ("cover", "mass")
        assert file.units[1] == "t/ha"
        assert np.isnan(file.nodata)
        assert file.crs.to_epsg() == 32633
        assert file.transform == GRID
        assert float(file.tags(2)["STATISTICS_MAXIMUM"]) == pytest.approx(values[..., 1].max())
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, -1), values)
    with rasterio.open(tmp_path / "sd.tif") as file:
        assert file.tags()["quantity"] == "standard deviation of the predicted value"
        np.testing.assert_array_equal(np.moveaxis(file.read(), 0, -1), deviation)


def test_other_kinds_hold_the_same_values(model, tmp_path):
    for ending in ("nc", "npy", "png"):
        polyad.map_file(model, scene(), tmp_path / f"m.{ending}")
    values = map_values(model, scene()).values
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), values)
    with xr.open_dataset(tmp_path / "m.nc", engine="h5netcdf") as stored:
        np.testing.assert_array_equal(stored["mass"], values[..., 1])
        assert stored["mass"].attrs["units"] == "t/ha"
        assert stored["mass"].attrs["grid_mapping"] == "spatial_ref"
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"out": "m.hdr"}, OutputError, "expected a name ending in .tif, .tiff, .png, .nc, .npy"),
        ({"probabilities": "p.tif"}, InputError, "values, which have no probabilities"),
        ({"coverage": 0.9}, InputError, "ask for --uncertainty instead of --coverage"),
        ({"merge": "a+b=c"}, InputError, "predicts values, expected one of classes; leave out"),
        ({"colors": {"a": "#112233"}}, InputError, "leave out --colors"),
    ],
)
def test_what_values_do_not_have_is_refused_and_nothing_written(
    model, tmp_path, options, kind, said
):
    out = tmp_path / options.pop("out", "m.tif")
    if "probabilities" in options:
        options["probabilities"] = tmp_path / "p.tif"
    with pytest.raises(kind, match=said):
        polyad.map_file(model, scene(), out, **options)
    assert not list(tmp_path.iterdir())


def test_ways_of_classes_refuse_values_and_the_other_way_round(model):
    with pytest.raises(InputError, match="predicts values, expected one of classes; map it with"):
        polyad.map_scene(model, scene())
    with pytest.raises(InputError, match="predicts values"):
        polyad.evaluate(model, scene(), measured())
    classes = (measured().isel(target=0, drop=True).fillna(-1) * 2 + 1).astype(int)
    fitted = polyad.train(scene(), classes.clip(0), window=1, preset="paper", epochs=1)
    with pytest.raises(InputError, match="predicts classes, expected one of values"):
        map_values(fitted, scene())


def test_a_brighter_scene_is_mapped_alike_once_adapted():
    train = measured().isel(target=[0])
    model = train_regression(scene(), train, window=1, goal="other-scenes", **QUICK)
    own = map_values(model, scene(), adapt=False).values
    bright = scene((pixels() * 1.3 + 150).astype(np.int16))
    adapted = map_values(model, bright).values
    with pytest.warns(PolyadWarning, match="radiometric shift"):
        left = map_values(model, bright, adapt=False).values
    assert np.abs(adapted - own).mean() < 0.3 * np.abs(left - own).mean()


def test_many_scenes_and_resumed_maps_have_the_same_bytes(model, tmp_path):
    from polyad.distributed import map_files

    write_scene(tmp_path / "scene.tif")
    cube = polyad.open_scene(tmp_path / "scene.tif")
    polyad.map_file(model, cube, tmp_path / "one.tif", uncertainty=tmp_path / "one-sd.tif", tile=16)
    done = map_files(
        model, tmp_path / "scene.tif", tmp_path / "two.tif", uncertainty=tmp_path / "two-sd.tif",
        tile=16,
    )  # fmt: skip
    assert done.mapped == HEIGHT * WIDTH
    assert (tmp_path / "one.tif").read_bytes() == (tmp_path / "two.tif").read_bytes()
    assert (tmp_path / "one-sd.tif").read_bytes() == (tmp_path / "two-sd.tif").read_bytes()
