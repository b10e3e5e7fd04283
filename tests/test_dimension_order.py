"""The public functions give one result, in whatever order the dimensions of a scene come."""

import numpy as np
import pytest
import xarray as xr
from affine import Affine

import polyad
from polyad.scene import map_values, scene_from_array, train_regression
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.scene import describe

N = 18  # rows, columns and bands alike: no axis can be told from another by its length
DEGREES = Affine(0.01, 0, 10.0, 0, -0.01, 50.0)
CLASSES = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]
QUICK = {"preset": "fast", "window": 3, "hidden": 6, "epochs": 20}


@pytest.fixture(scope="module")
def scene():
    """A scene as `open_scene` gives it, with one pixel of nodata."""
    values = np.random.default_rng(0).normal(5, 1, (N, N, N))
    values += 2 * np.sin(np.arange(N)) * (np.arange(N) >= N // 2)[:, None, None]
    values[3, 5] = -9999
    return scene_from_array(
        values.astype(np.float32),
        wavelength=450.0 + 25.0 * np.arange(N),
        crs="EPSG:4326",
        transform=DEGREES,
        nodata=-9999,
    ).rename("reflectance")


@pytest.fixture(scope="module")
def labels():
    ids = np.zeros((N, N), np.uint16)
    ids[1:8, 2:5], ids[10:16, 1:5] = 1, 2
    ids[2:5, 12:16], ids[13:17, 9:17] = 1, 2
    raster = with_classes(xr.DataArray(ids, dims=("y", "x")), CLASSES)
    return describe(raster, crs="EPSG:4326", transform=DEGREES)


@pytest.fixture(scope="module")
def archive(scene):
    """The scene as a climate archive keeps it: other names, another order, a time, a Dataset."""
    found = scene.swap_dims(band="wavelength").rename(y="latitude", x="longitude")
    found = found.expand_dims(time=1).transpose("time", "wavelength", "latitude", "longitude")
    return xr.Dataset({"reflectance": found, "quality": found.isel(wavelength=0)})


@pytest.fixture(scope="module")
def turned(labels):
    return labels.expand_dims("band").transpose("band", "x", "y")


@pytest.fixture(scope="module")
def model(scene, labels):
    return polyad.train(scene, labels, samples_per_class=20, **QUICK)


def test_training(model, scene, archive, turned):
    again = polyad.train(archive, turned, samples_per_class=20, **QUICK)
    np.testing.assert_array_equal(
        polyad.map_scene(again, scene).values, polyad.map_scene(model, scene).values
    )
    np.testing.assert_array_equal(again.training.pixels, model.training.pixels)


def test_maps_in_memory_and_in_files(model, scene, archive, tmp_path):
    straight = polyad.map_scene(model, scene)
    assert polyad.map_scene(model, archive).identical(straight)
    for name, given in (("a.tif", scene), ("b.tif", archive)):
        polyad.map_file(model, given, tmp_path / name)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_evaluation(model, scene, labels, archive, turned):
    straight = polyad.evaluate(model, scene, labels)
    assert str(polyad.evaluate(model, archive, turned)) == str(straight)


def test_cross_validation(scene, labels, archive, turned):
    straight, other = (
        polyad.cross_validate(cube, ids, **QUICK)
        for cube, ids in ((scene, labels), (archive, turned))
    )
    assert other.to_dict() == straight.to_dict()


def test_choosing_bands(scene, archive):
    bands = polyad.select_bands(scene, drop_nm="500-600")
    assert polyad.select_bands(archive, drop_nm="500-600").identical(bands)


def test_regression(scene, archive):
    values = scene.mean("band").where(np.indices((N, N)).sum(axis=0) % 5 == 0)
    values = values.where(values > 0).drop_vars("spatial_ref", errors="ignore")
    straight, other = (
        train_regression(cube, raster, window=1, epochs=2)
        for cube, raster in ((scene, values), (archive, values.T))
    )
    np.testing.assert_array_equal(
        map_values(straight, scene).values, map_values(other, archive).values
    )
