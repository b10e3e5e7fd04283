"""Scenes and labels are put in order by the names of their dimensions, or refused."""

import pickle
import re

import numpy as np
import pytest
import rasterio
import rioxarray
import xarray as xr
from affine import Affine

from polyad.app.launch import prepare
from polyad.errors import InputError
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.scene import WindowedArray, as_labels, as_scene, describe
from polyad.scene.read.labels import open_labels
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
    raster = with_classes(xr.DataArray(ids, dims=("y", "x")), CLASSES)
    return describe(raster, crs="EPSG:4326", transform=DEGREES)


def archive(scene):
    """The scene as a climate archive keeps it: other names, another order, a time, a Dataset."""
    found = scene.swap_dims(band="wavelength").rename(y="latitude", x="longitude")
    found = found.expand_dims(time=1).transpose("time", "wavelength", "latitude", "longitude")
    return xr.Dataset({"reflectance": found, "quality": found.isel(wavelength=0)})


SCENES = {
    "rioxarray": lambda scene: scene.transpose("band", "y", "x"),
    "columns-first": lambda scene: scene.transpose("x", "y", "band"),
    "archive": archive,
}


@pytest.fixture(scope="module")
def model():
    return train(cubic_scene(), cubic_labels(), samples_per_class=10, window=3, epochs=30)


def test_scene_in_order_is_returned_itself():
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


@pytest.mark.parametrize("y", ["y", "lat", "latitude", "row", "rows", "line"])
@pytest.mark.parametrize("x", ["x", "lon", "longitude", "col", "column", "Sample"])
@pytest.mark.parametrize("band", ["band", "bands", "wavelength", "wavelengths", "spectral"])
def test_usual_names_of_dimensions_are_known(y, x, band):
    scene = xr.DataArray(np.arange(24).reshape(2, 3, 4), dims=(band, x, y))
    found = as_scene(scene)
    assert found.dims == ("y", "x", "band")
    np.testing.assert_array_equal(found.values, scene.values.transpose(2, 1, 0))


def test_rows_and_columns_beside_map_coordinates_keep_these():
    place = {"y": ("row", [9.0, 8.0]), "x": ("col", [1.0, 2.0, 3.0])}
    scene = xr.DataArray(np.zeros((2, 3, 4)), dims=("row", "col", "band"), coords=place)
    found = as_scene(scene)
    assert found["y"].values.tolist() == [9.0, 8.0]
    assert found["x"].values.tolist() == [1.0, 2.0, 3.0]


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


def test_wavelengths_in_micrometers_become_nanometers_in_an_ordered_scene_too():
    scene = scene_from_array(np.zeros((2, 2, 2)), wavelength=np.array([0.5, 1.0]))
    scene["wavelength"].attrs["units"] = "micrometers"
    assert as_scene(scene)["wavelength"].values.tolist() == [500.0, 1000.0]


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


def write_tif(path, values, **profile):
    bands, height, width = values.shape
    with rasterio.open(path, "w", driver="GTiff", count=bands, height=height, width=width,
                       dtype=values.dtype, crs="EPSG:32633",
                       transform=Affine(10, 0, 5e5, 0, -10, 4e6), **profile) as out:  # fmt: skip
        out.write(values)
    return path


def test_scene_and_labels_of_rioxarray_give_the_map_of_open_scene(tmp_path):
    values = np.moveaxis(np.nan_to_num(cubic_scene().values), -1, 0)
    scene_path = write_tif(tmp_path / "scene.tif", values, nodata=-9999)
    labels_path = write_tif(tmp_path / "labels.tif", cubic_labels().values[None], nodata=0)
    ours, labels = open_scene(scene_path), open_labels(labels_path)
    wanted = map_scene(train(ours, labels, window=3, epochs=2), ours)
    with (
        rioxarray.open_rasterio(scene_path) as scene,
        rioxarray.open_rasterio(labels_path) as marks,
    ):
        assert scene.dims == ("band", "y", "x")
        found = map_scene(train(scene, marks, window=3, epochs=2), scene, tile=5)
    np.testing.assert_array_equal(found.values, wanted.values)
    assert found.values[3, 5] == 0
    assert georeference(found) == georeference(wanted)


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
    ("scene", "sentence"),
    [
        (
            np.zeros((4, 5, 3)),
            "expected a scene as a DataArray with dims (y, x, band), got ndarray of shape "
            "(4, 5, 3), whose axes have no names; make one of it with scene_from_array(values), "
            "values as (rows, columns, bands)",
        ),
        (
            None,
            "expected a scene as a DataArray with dims (y, x, band), got NoneType, whose axes have "
            "no names; make one of it with scene_from_array(values), values as (rows, columns, "
            "bands)",
        ),
        (
            "scene.hdr",
            "expected a scene as a DataArray, got the path 'scene.hdr'; open it first with "
            "open_scene('scene.hdr')",
        ),
        (
            cube("dim_0", "dim_1", "dim_2"),
            "expected a scene with dims (y, x, band), got dims (dim_0, dim_1, dim_2), none of "
            "which can be y; rename it, as with .rename({'dim_0': 'y'})",
        ),
        (
            cube("y", "x", "date"),
            "expected a scene with dims (y, x, band), got dims (y, x, date), none of which can be "
            "band; rename it, as with .rename({'date': 'band'})",
        ),
        (
            cube("y", "x"),
            "expected a scene with dims (y, x, band), got dims (y, x), none of which can be band; "
            'if it has one band, add it with .expand_dims("band", -1)',
        ),
        (
            cube("time", "band", "y", "x"),
            "expected a scene with dims (y, x, band), got dims (time, band, y, x) with 2 entries "
            "along 'time'; choose one, as with .isel(time=0)",
        ),
        (
            cube("band", "channel", "y", "x"),
            "expected a scene with dims (y, x, band), got dims (band, channel, y, x), 2 of which "
            "can be band; choose along one of them, as with .isel(channel=0)",
        ),
        (
            cube("row", "x", "band").assign_coords(y=3.0),
            "dimension 'row' cannot be called 'y', which is a coordinate along (); remove that one "
            "with .drop_vars('y')",
        ),
        (
            xr.Dataset({"rfl": cube("band", "y", "x"), "rad": cube("y", "x", "band")}),
            "expected one scene, got a Dataset of 2: rfl, rad; pass one of them, as in "
            "dataset['rfl']",
        ),
        (
            xr.Dataset({"red": cube("y", "x"), "nir": cube("y", "x")}),
            "expected a Dataset with one variable of dims (y, x, band), got one with red (y, x), "
            'nir (y, x); stack bands with dataset.to_dataarray("band"), or pass a DataArray',
        ),
    ],
)  # fmt: skip
def test_what_is_no_scene_is_refused_in_one_sentence(scene, sentence, model):
    for call in (as_scene, lambda s: map_scene(model, s)):
        with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
            call(scene)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            np.zeros((4, 5), int),
            "expected a label raster as a DataArray with dims (y, x), got ndarray of shape "
            '(4, 5), whose axes have no names; make one of it with xarray.DataArray(values, '
            'dims=("y", "x"))',
        ),
        (
            "labels.tif",
            "expected a label raster as a DataArray, got the path 'labels.tif'; open it first with "
            "open_labels('labels.tif')",
        ),
        (
            cube("band", "y", "x", size=3),
            "expected a label raster with dims (y, x), got dims (band, y, x) with 3 entries along "
            "'band'; choose one, as with .isel(band=0)",
        ),
        (
            xr.Dataset({"band": 3}),
            "expected a Dataset with one variable of dims (y, x), got one with band (); rename its "
            "dims, or pass a DataArray",
        ),
    ],
)  # fmt: skip
def test_what_is_no_label_raster_is_refused_in_one_sentence(labels, sentence):
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        train(cubic_scene(), labels)


def test_dataset_whose_grid_mapping_is_a_variable_keeps_its_place():
    scene = cubic_scene().rio.write_grid_mapping("spatial_ref").transpose("band", "y", "x")
    plain = scene.to_dataset(name="rfl").reset_coords("spatial_ref")
    assert as_scene(plain).rio.crs.to_epsg() == 4326


def test_labeling_page_refuses_a_bare_array_before_it_makes_a_journal(tmp_path):
    with pytest.raises(InputError, match=r"scene_from_array\(values\)"):
        prepare(np.zeros((4, 5, 3)), journal=tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())
