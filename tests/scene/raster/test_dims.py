"""Scenes and labels are put in order by the names of their dimensions, or refused."""

import pickle
import re

import numpy as np
import pytest
import xarray as xr
from affine import Affine

from polyad.errors import InputError
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.scene import WindowedArray, as_labels, as_scene
from polyad.scene.read.scenes import open_scene, scene_from_array

N = 18  # rows, columns and bands alike: no axis can be told from another by its length
DEGREES = Affine(0.01, 0, 10.0, 0, -0.01, 50.0)
CLASSES = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]


def cubic_scene():
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


def cubic_labels():
    ids = np.zeros((N, N), np.uint16)
    ids[1:8, 2:7], ids[10:16, 1:5] = 1, 2
    ids[2:5, 12:16], ids[13:17, 9:17] = 1, 2
    return xr.DataArray(ids, dims=("y", "x"))


SCENES = {
    "rioxarray": lambda scene: scene.transpose("band", "y", "x"),
    "archive": lambda scene: (
        scene.swap_dims(band="wavelength")
        .rename(y="latitude", x="longitude")
        .expand_dims(time=1)
        .transpose("time", "wavelength", "latitude", "longitude")
    ),
}


@pytest.fixture(scope="module")
def model():
    return train(cubic_scene(), cubic_labels(), preset="fast", window=1, epochs=3)


def test_what_is_in_order_is_returned_itself():
    scene, labels = cubic_scene(), cubic_labels()
    assert as_scene(scene) is scene
    assert as_labels(labels) is labels


@pytest.mark.parametrize("form", SCENES)
def test_coordinates_georeference_and_nodata_are_kept(form):
    scene = cubic_scene()
    found = as_scene(SCENES[form](scene))
    xr.testing.assert_equal(found, scene)
    assert georeference(found) == georeference(scene)
    assert found.rio.nodata == -9999
    assert found["wavelength"].attrs["units"] == "nm"


@pytest.mark.parametrize("dims", ["band x y", "wavelength lon lat", "bands Sample line"])
def test_usual_names_of_dimensions_are_known(dims):
    scene = xr.DataArray(np.arange(24).reshape(2, 3, 4), dims=dims.split())
    found = as_scene(scene)
    assert found.dims == ("y", "x", "band")
    np.testing.assert_array_equal(found.values, scene.values.transpose(2, 1, 0))


def test_latitudes_and_longitudes_are_degrees():
    place = {"lat": [50.0, 49.0], "lon": [8.0, 9.0, 10.0]}
    scene = xr.DataArray(np.zeros((4, 2, 3)), dims=("band", "lat", "lon"), coords=place)
    crs, transform = georeference(as_scene(scene))
    assert crs.to_epsg() == 4326
    assert transform == Affine(1.0, 0, 7.5, 0, -1.0, 50.5)


@pytest.mark.parametrize(
    ("name", "values", "attrs"),
    [
        ("wavelength", [0.45, 0.55, 0.65], {"units": "um"}),
        ("wavelength", [0.45, 0.55, 0.65], {}),  # as open_scene guesses it
        ("wl", [450, 550, 650], {}),
        ("Wavelength", [450.0, 550.0, 650.0], {"units": "nanometers"}),
    ],
)
def test_wavelengths_of_the_band_dimension_become_nanometers(name, values, attrs):
    scene = xr.DataArray(np.zeros((3, 2, 2)), dims=(name, "y", "x"), coords={name: values})
    scene[name].attrs.update(attrs)
    found = as_scene(scene)
    assert found["wavelength"].dims == ("band",)
    assert found["wavelength"].values.tolist() == [450.0, 550.0, 650.0]
    assert set(found.coords) == {"wavelength"}


def test_wavelength_dimension_that_merely_counts_gives_no_wavelengths():
    scene = xr.DataArray(np.zeros((3, 2, 2)), dims=("wavelength", "y", "x"))
    assert "wavelength" not in as_scene(scene.assign_coords(wavelength=range(3))).coords


def test_grid_mapping_of_another_name_reaches_the_map(model):
    scene = cubic_scene().rename(spatial_ref="crs").rio.write_grid_mapping("crs")
    assert map_scene(model, scene).rio.crs.to_epsg() == 4326


@pytest.mark.filterwarnings("ignore:It is recommended to use:FutureWarning")
def test_reference_system_and_nodata_that_only_the_accessor_knows_are_kept():
    scene = xr.DataArray(np.zeros((2, 3, 4)), dims=("band", "y", "x"))
    scene.rio.set_crs("EPSG:32633", inplace=True)
    scene.rio.set_nodata(-1, inplace=True)
    assert as_scene(scene).rio.crs.to_epsg() == 32633
    assert as_scene(scene).rio.nodata == -1


class CountingSource:
    """A lazy array in rioxarray's order that knows how many values were read of it."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.path, self.read_values = "counting", 0

    def read(self, first, second, third):
        window = self.values[first, second][..., third]
        self.read_values += window.size
        return window


def lazy_in_rioxarrays_order(values):
    source = CountingSource(values)
    lazy = xr.core.indexing.LazilyIndexedArray(WindowedArray(source))
    return source, xr.DataArray(xr.Variable(("band", "y", "x"), lazy))


def test_lazy_scene_stays_lazy_and_is_read_by_windows():
    values = np.arange(6 * 40 * 50).reshape(6, 40, 50)
    source, scene = lazy_in_rioxarrays_order(values)
    found = as_scene(scene)
    part = found.isel(y=slice(10, 14), x=slice(5, 8))
    assert source.read_values == 0
    np.testing.assert_array_equal(part.values, np.moveaxis(values, 0, -1)[10:14, 5:8])
    assert source.read_values == 6 * 4 * 3
    three = found.isel(y=[1, 30], x=slice(None, None, 7), band=[4, 0])
    np.testing.assert_array_equal(
        three.values, np.moveaxis(values, 0, -1)[[1, 30]][:, ::7][..., [4, 0]]
    )


def test_lazy_scene_in_another_order_can_be_sent_to_a_worker(tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 5, 3))
    np.save(tmp_path / "scene.npy", values)
    scene = as_scene(open_scene(tmp_path / "scene.npy").transpose("band", "y", "x"))
    again = pickle.loads(pickle.dumps(scene))
    assert not again.variable._in_memory
    np.testing.assert_array_equal(again.values, values)


def cube(*dims, size=2):
    return xr.DataArray(np.zeros((size,) * len(dims)), dims=dims)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        (np.zeros((4, 5, 3)), "got ndarray of shape (4, 5, 3); open a file"),
        (None, "got NoneType; open a file with open_scene(path), make a scene"),
        ("scene.hdr", "got the path 'scene.hdr'; open a file with open_scene(path)"),
        (cube("dim_0", "dim_1", "dim_2"), "name them with .rename(...)"),
        (cube("y", "x", "date"), "(y, x, date) of lengths (2, 2, 2); name them"),
        (cube("y", "x"), "add a missing one with .expand_dims(...)"),
        (cube("time", "band", "y", "x"), "take one place of others with .isel(...)"),
        (cube("band", "channel", "y", "x"), "(band, channel, y, x) of lengths (2, 2, 2, 2)"),
        (xr.Dataset({"red": cube("y", "x")}), "got Dataset with red (y, x)"),
    ],
)
def test_what_is_no_scene_is_refused_with_a_remedy(scene, message, model):
    for call in (as_scene, lambda s: map_scene(model, s)):
        with pytest.raises(InputError, match=f"^expected a scene .*{re.escape(message)}"):
            call(scene)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((4, 5), int), "name the axes of an array with xarray.DataArray("),
        ("labels.tif", "open a file with open_labels(path)"),
        (cube("band", "y", "x", size=3), "take one place of others with .isel(...)"),
        (xr.Dataset({"band": 3}), "got Dataset with band (); "),
    ],
)
def test_what_is_no_label_raster_is_refused_with_a_remedy(labels, message):
    with pytest.raises(InputError, match=f"^expected a label raster .*{re.escape(message)}"):
        train(cubic_scene(), labels)


def test_dataset_whose_grid_mapping_is_a_variable_keeps_its_place():
    scene = cubic_scene().rio.write_grid_mapping("spatial_ref").transpose("band", "y", "x")
    plain = scene.to_dataset(name="rfl").reset_coords("spatial_ref")
    assert as_scene(plain).rio.crs.to_epsg() == 4326
