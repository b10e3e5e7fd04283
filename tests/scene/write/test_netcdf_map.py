"""A class map as NetCDF keeps to CF 1.8, and we and GDAL read back what was written."""

import re
import warnings

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.scene import describe
from polyad.scene.read.labels import open_labels
from polyad.scene.write.cf import flag_meanings
from polyad.scene.write.writers import write_map

CLASSES = (
    ClassInfo(1, "Corn, no till", "#4477AA"),
    ClassInfo(2, "Soy & <clover>", "#EE7733"),
    ClassInfo(4, "Forêt mêlée, große", "#117733"),
    ClassInfo(5, "Soy (clover)", "#CC3311"),
)
UTM = ("EPSG:32616", Affine(20.0, 0, 500_000.0, 0, -20.0, 4_470_000.0))
DEGREES = ("EPSG:4326", Affine(0.001, 0, -87.0, 0, -0.001, 40.5))
FEET = ("EPSG:2263", Affine(20.0, 0, 900_000.0, 0, -20.0, 200_000.0))
METERS = (None, UTM[1])
NOWHERE = (None, None)
ROTATED = ("EPSG:32616", Affine(18.0, 7.0, 500_000.0, 7.0, -18.0, 4_470_000.0))
PLACES = {"utm": UTM, "degrees": DEGREES, "feet": FEET, "no-crs": METERS, "nowhere": NOWHERE}


def make_map(place=UTM, classes=CLASSES, shape=(20, 30)):
    ids = np.random.default_rng(0).choice([0, *(c.value for c in classes)], shape)
    raster = with_classes(xr.DataArray(ids.astype(np.uint16), dims=("y", "x")), classes)
    return describe(raster, crs=place[0], transform=place[1]).assign_attrs(_FillValue=0)


def written(path, class_map):
    write_map(path, class_map)
    with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as stored:
        return stored.load()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_ids_are_signed_with_zero_as_fill_value_and_title_and_origin_are_told(tmp_path, place):
    class_map = make_map(place).assign_attrs(title="Felder um Ulm")
    stored = written(tmp_path / "map.nc", class_map)
    assert (stored.attrs["Conventions"], stored.attrs["title"]) == ("CF-1.8", "Felder um Ulm")
    assert all(stored.attrs[name] for name in ("history", "source"))
    ids = stored["class_map"]
    assert ids.dtype == ids.attrs["_FillValue"].dtype == np.int16
    assert ids.attrs["_FillValue"] == 0
    np.testing.assert_array_equal(ids.values, class_map.values)


def test_ids_above_32767_take_four_bytes(tmp_path):
    classes = (ClassInfo(1, "a", "#4477AA"), ClassInfo(40_000, "b", "#EE7733"))
    class_map = make_map(classes=classes)
    ids = written(tmp_path / "map.nc", class_map)["class_map"]
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids.values, class_map.values)


def test_flags_are_words_of_the_signs_cf_allows(tmp_path):
    ids = written(tmp_path / "map.nc", make_map())["class_map"]
    assert ids.attrs["flag_values"].tolist() == [1, 2, 4, 5]
    assert ids.attrs["flag_values"].dtype == ids.dtype
    words = ids.attrs["flag_meanings"].split(" ")
    assert words == ["Corn_no_till", "Soy_clover", "Foret_melee_grosse", "Soy_clover_5"]
    names = ["森林", "a b", "a_b", "a, b", "  ", "class 1"]
    words = flag_meanings([ClassInfo(k, n, "") for k, n in enumerate(names, start=1)])
    assert len(set(words)) == len(words)
    assert all(re.fullmatch(r"[0-9A-Za-z_.+@-]+", word) for word in words)


@pytest.mark.parametrize(
    ("place", "names", "units"),
    [
        (UTM, "projection_{}_coordinate", ("m", "m")),
        (FEET, "projection_{}_coordinate", ("US_survey_foot", "US_survey_foot")),
        (METERS, "projection_{}_coordinate", ("m", "m")),
        (DEGREES, None, ("degrees_east", "degrees_north")),
    ],
    ids=["utm", "feet", "no-crs", "degrees"],
)
def test_coordinates_have_standard_names_units_and_no_fill_value(tmp_path, place, names, units):
    stored = written(tmp_path / "map.nc", make_map(place))
    for dim, unit, degrees in zip("xy", units, ("longitude", "latitude"), strict=True):
        attrs = stored[dim].attrs
        assert attrs["standard_name"] == (degrees if names is None else names.format(dim))
        assert attrs["units"] == unit
        assert attrs["axis"] == dim.upper()
        assert "_FillValue" not in attrs
    step = place[1].a
    np.testing.assert_allclose(stored["x"].values[:2], place[1].c + np.array([0.5, 1.5]) * step)


@pytest.mark.parametrize(
    ("place", "name"), [(UTM, "transverse_mercator"), (DEGREES, "latitude_longitude")]
)
def test_grid_mapping_is_named_and_described(tmp_path, place, name):
    stored = written(tmp_path / "map.nc", make_map(place))
    assert stored["class_map"].attrs["grid_mapping"] == "spatial_ref"
    assert "coordinates" not in stored["class_map"].attrs
    mapping = stored["spatial_ref"]
    assert mapping.dtype == np.int32
    assert mapping.attrs["grid_mapping_name"] == name
    assert mapping.attrs["semi_major_axis"] == 6378137.0
    assert CRS.from_wkt(mapping.attrs["crs_wkt"]) == CRS.from_user_input(place[0])


@pytest.mark.parametrize("place", [UTM, DEGREES, FEET, METERS, ROTATED])
def test_gdal_finds_ids_nodata_and_place(tmp_path, place):
    with rasterio.Env() as env:
        if "netCDF" not in env.drivers():
            pytest.skip("this GDAL reads no NetCDF")
    class_map = make_map(place)
    write_map(tmp_path / "map.nc", class_map)
    with rasterio.open(f"netcdf:{tmp_path / 'map.nc'}:class_map") as seen:
        assert seen.nodata == 0
        assert seen.crs == (None if place[0] is None else CRS.from_user_input(place[0]))
        assert seen.transform.almost_equals(place[1], precision=1e-9)
        np.testing.assert_array_equal(seen.read(1), class_map.values)


@pytest.mark.parametrize("place", [*PLACES.values(), ROTATED], ids=[*PLACES, "rotated"])
def test_labels_read_from_it_are_the_map(tmp_path, place):
    class_map = make_map(place)
    write_map(tmp_path / "map.nc", class_map)
    labels = open_labels(tmp_path / "map.nc")
    np.testing.assert_array_equal(labels.values, class_map.values)
    assert class_table(labels) == CLASSES
    assert labels.rio.crs == class_map.rio.crs
    if place not in (METERS, NOWHERE):
        assert georeference(labels)[1].almost_equals(place[1], precision=1e-9)


def test_positions_of_a_swath_are_kept_and_do_not_hide_the_map(tmp_path):
    class_map = make_map(NOWHERE)
    lat, lon = np.meshgrid(np.linspace(40, 41, 20), np.linspace(-87, -86, 30), indexing="ij")
    class_map = class_map.assign_coords(lat=(("y", "x"), lat), lon=(("y", "x"), lon))
    stored = written(tmp_path / "map.nc", class_map)
    np.testing.assert_array_equal(stored["lat"].values, lat)
    assert stored["lon"].attrs["units"] == "degrees_east"
    assert set(stored["class_map"].attrs["coordinates"].split()) == {"lat", "lon"}
    np.testing.assert_array_equal(open_labels(tmp_path / "map.nc").values, class_map.values)


def test_attributes_of_the_raster_it_came_from_do_not_change_its_ids(tmp_path):
    class_map = make_map().assign_attrs(scale_factor=2.0, add_offset=1.0, units="reflectance")
    assert not {"scale_factor", "add_offset", "units"} & set(
        written(tmp_path / "map.nc", class_map)["class_map"].attrs
    )


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_compliance_checker_has_nothing_to_say(tmp_path, place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = pytest.importorskip(
            "compliance_checker.runner", reason="compliance-checker is not installed"
        )
        write_map(tmp_path / "map.nc", make_map(place))
        runner.CheckSuite.load_all_available_checkers()
        _, failed = runner.ComplianceChecker.run_checker(
            str(tmp_path / "map.nc"), ["cf:1.8"], verbose=0, criteria="strict",
            output_filename=str(tmp_path / "report.txt"), output_format="text",
        )  # fmt: skip
    report = (tmp_path / "report.txt").read_text()
    assert not failed
    assert "All tests passed!" in report, report
