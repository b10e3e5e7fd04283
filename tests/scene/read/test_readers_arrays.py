"""MATLAB, NetCDF/HDF5, .npy and Zarr: axes, keys, wavelengths, georeference, lazy windows."""

import h5py
import numpy as np
import pytest
import rioxarray  # noqa: F401
import scipy.io
import xarray as xr
from affine import Affine
from numpy.testing import assert_allclose, assert_array_equal

from polyad.errors import BudgetExceeded, SceneError
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.raster.selection import valid_mask
from polyad.scene.read import scenes
from polyad.scene.read.scenes import open_scene, scene_from_array

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

CUBE = np.arange(5 * 4 * 3, dtype=np.int16).reshape(5, 4, 3)  # (rows, columns, bands)
GRID = Affine(30.0, 0.0, 600000.0, 0.0, -30.0, 5000000.0)


def georeferenced(cube=CUBE, nodata=None):
    return scene_from_array(
        cube,
        wavelength=np.array([450.0, 550.0, 650.0]),
        crs="EPSG:32632",
        transform=GRID,
        nodata=nodata,
    )


# MATLAB


@pytest.mark.parametrize("kind", ["u1", "i2", "u2", "i4", "f4", "f8"])
@pytest.mark.parametrize("compress", [True, False])
def test_matlab5_gives_the_only_cube(tmp_path, kind, compress):
    path = tmp_path / "s.mat"
    contents = {"cube": CUBE.astype(kind), "gt": CUBE[..., 0], "note": "text"}
    scipy.io.savemat(path, contents, do_compression=compress)
    scene = open_scene(path)
    assert scene.dims == ("y", "x", "band")
    assert scene.dtype == np.dtype(kind)
    assert_array_equal(scene.values, CUBE)


def test_matlab5_doubles_kept_in_small_integers_stay_small(tmp_path):
    # MATLAB writes whole doubles so: class double, stored as uint8. Here the class is changed.
    path = tmp_path / "s.mat"
    scipy.io.savemat(path, {"cube": CUBE.astype(np.uint8)})
    content = bytearray(path.read_bytes())
    assert content[144] == 9  # class of the first variable: uint8
    content[144] = 6  # double
    path.write_bytes(content)
    assert scipy.io.whosmat(path) == [("cube", (5, 4, 3), "double")]
    scene = open_scene(path)
    assert scene.dtype == np.uint8
    assert_array_equal(scene.values, CUBE)


def test_matlab5_passes_over_cells_structs_text_and_complex_arrays(tmp_path):
    path = tmp_path / "s.mat"
    others = {"c": np.array([[{"a": 1}]]), "s": {"f": 1.0}, "t": "text", "z": CUBE + 1j, "e": []}
    scipy.io.savemat(path, {**others, "cube": CUBE, "a_rather_long_name": 1.0})
    assert_array_equal(open_scene(path).values, CUBE)
    with pytest.raises(SceneError, match="'z' is a MATLAB cell, struct, text or complex array"):
        open_scene(f"{path}:z")


def test_writing_into_a_window_leaves_the_cached_pixels_alone(tmp_path):
    path = tmp_path / "s.mat"
    scipy.io.savemat(path, {"cube": CUBE})
    scene = open_scene(path)
    scene.isel(y=slice(0, 2)).values[:] = -1
    assert_array_equal(scene.values, CUBE)


def write_matlab73(path, **arrays):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            item = file.create_dataset(name, data=array.T)  # MATLAB stores columns first
            item.attrs["MATLAB_class"] = np.bytes_("int16")
        file.create_group("#refs#").create_dataset("a", data=np.zeros((2, 2, 2)))
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116))


def test_matlab73_axes_are_put_right(tmp_path):
    path = tmp_path / "s.mat"
    write_matlab73(path, cube=CUBE, gt=CUBE[..., 0])
    scene = open_scene(path)
    assert scene.shape == (5, 4, 3)
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(1, 4), x=[2], band=[2, 0]).values, CUBE[1:4, 2:3, ::-2])


@pytest.mark.parametrize("write", [write_matlab73, lambda p, **a: scipy.io.savemat(p, a)])
def test_with_several_cubes_the_key_is_asked_for(tmp_path, write):
    path = tmp_path / "two.mat"
    write(path, first=CUBE, second=CUBE + 1)
    with pytest.raises(SceneError, match=r"first \(5, 4, 3\), second \(5, 4, 3\)") as error:
        open_scene(path)
    assert "'two.mat:first'" in str(error.value)
    assert_array_equal(open_scene(f"{path}:second").values, CUBE + 1)
    with pytest.raises(SceneError, match=r"no array 'third'.*first, second"):
        open_scene(f"{path}:third")


def test_a_matlab_file_without_a_cube_says_so(tmp_path):
    path = tmp_path / "gt.mat"
    scipy.io.savemat(path, {"gt": CUBE[..., 0]})
    with pytest.raises(SceneError, match=r"expected one 3-D array .* found none"):
        open_scene(path)
    with pytest.raises(SceneError, match=r"three axes .* got shape \(5, 4\)"):
        open_scene(f"{path}:gt")


# NetCDF and HDF5


@pytest.mark.parametrize("order", [("y", "x", "band"), ("band", "y", "x")])
def test_netcdf_written_by_rioxarray_comes_back(tmp_path, order):
    path = tmp_path / "s.nc"
    scene = georeferenced(nodata=8).transpose(*order).rename("reflectance")
    scene.to_netcdf(path, engine="h5netcdf")
    again = open_scene(path)
    assert again.dims == ("y", "x", "band")
    assert_array_equal(again.values, CUBE)
    assert_array_equal(again.wavelength, [450, 550, 650])
    assert again.rio.crs.to_epsg() == 32632
    assert again.rio.transform() == GRID
    assert_array_equal(again.x, scene.x)
    assert again.rio.nodata == 8
    assert_array_equal(np.argwhere(~valid_mask(again)), [[0, 2]])


def test_netcdf_with_latitude_going_up_keeps_its_rows(tmp_path):
    path = tmp_path / "s.nc"
    coords = {"lat": 40 + 0.1 * np.arange(5), "lon": 10 + 0.1 * np.arange(4)}
    cube = xr.DataArray(CUBE, coords, ("lat", "lon", "bands"), name="r")
    cube.to_netcdf(path, engine="h5netcdf")
    scene = open_scene(path)
    assert_array_equal(scene.values, CUBE)
    assert scene.rio.crs.to_epsg() == 4326
    assert_allclose(scene.y, coords["lat"])
    assert_allclose(scene.rio.transform()[:6], (0.1, 0, 9.95, 0, 0.1, 39.95))


def test_packed_netcdf_is_unpacked_and_its_fill_becomes_nan(tmp_path):
    path = tmp_path / "s.nc"
    with h5py.File(path, "w") as file:
        item = file.create_dataset("r", data=CUBE)
        item.attrs.update(scale_factor=0.5, add_offset=1.0, _FillValue=np.int16(7))
    scene = open_scene(path)
    assert scene.dtype == np.float32
    wanted = CUBE * 0.5 + 1
    wanted[CUBE == 7] = np.nan
    assert_array_equal(scene.values, wanted)
    assert np.isnan(scene.rio.nodata)


def test_an_aviris_ng_style_group_finds_axes_wavelength_and_map(tmp_path):
    path = tmp_path / "ang_RFL_ORT.nc"
    with h5py.File(path, "w") as file:
        names = {"northing": 5000000 - 30.0 * np.arange(5), "easting": 600000 + 30.0 * np.arange(4)}
        for name, values in names.items():
            file.create_dataset(name, data=values).make_scale(name)
        tm = file.create_dataset("transverse_mercator", data=b"")
        tm.attrs["crs_wkt"] = np.bytes_(georeferenced().rio.crs.to_wkt())
        group = file.create_group("reflectance")
        wl = group.create_dataset("wavelength", data=np.array([0.45, 0.55, 0.65]))
        wl.attrs["units"] = "micrometers"
        wl.make_scale("wavelength")
        cube = group.create_dataset("reflectance", data=CUBE.transpose(2, 0, 1))
        for axis, scale in enumerate((wl, file["northing"], file["easting"])):
            cube.dims[axis].attach_scale(scale)
        cube.attrs["grid_mapping"] = "transverse_mercator"
    scene = open_scene(path)
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.wavelength, [450, 550, 650])
    assert scene.rio.crs.to_epsg() == 32632
    # Coordinates are pixel centers, so the corner lies half a pixel out.
    assert scene.rio.transform() == Affine(30, 0, 599985, 0, -30, 5000015)


def test_unnamed_axes_follow_the_length_of_the_wavelengths(tmp_path):
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file["cube"] = CUBE.transpose(2, 0, 1)
        file["wavelengths"] = np.array([450.0, 550.0, 650.0])
    assert_array_equal(open_scene(path).values, CUBE)
    assert_array_equal(open_scene(f"{path}:/cube").wavelength, [450, 550, 650])


def test_a_chunk_larger_than_the_budget_is_refused(tmp_path):
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("cube", data=CUBE, chunks=(5, 4, 3))
    with pytest.raises(BudgetExceeded, match="a chunk of '/cube' must be read at once"):
        open_scene(path, max_bytes=100)


# .npy


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<i2", ">i2", "<f8", "|b1"])
def test_npy_is_read_by_windows_in_either_order(tmp_path, order, kind):
    path = tmp_path / "s.npy"
    np.save(path, np.asarray(CUBE.astype(kind), order=order))
    scene = open_scene(path, max_bytes=1)  # nothing has to be read at once
    assert scene.dtype.isnative
    assert_array_equal(scene.values, CUBE.astype(kind))
    assert_array_equal(
        scene.isel(y=slice(1, 3), band=[2, 0]).values, CUBE.astype(kind)[1:3, :, ::-2]
    )


# Zarr


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_written_by_xarray_comes_back(tmp_path, version):
    zarr = pytest.importorskip("zarr")
    if version == 3 and int(zarr.__version__.split(".")[0]) < 3:
        pytest.skip("zarr 2 writes version 2 only")
    path = tmp_path / "s.zarr"
    scene = georeferenced(nodata=8).transpose("band", "y", "x").rename("cube")
    option = {"zarr_format": version} if version == 3 else {}
    scene.to_dataset().to_zarr(path, consolidated=False, **option)
    again = open_scene(path)
    assert_array_equal(again.values, CUBE)
    assert_array_equal(again.isel(y=slice(1, 3), x=[0, 3]).values, CUBE[1:3, [0, 3]])
    assert_array_equal(again.wavelength, [450, 550, 650])
    assert again.rio.crs.to_epsg() == 32632
    assert again.rio.transform() == GRID
    assert again.rio.nodata == 8


def test_zarr_that_is_one_array_is_a_scene(tmp_path):
    zarr = pytest.importorskip("zarr")
    store = zarr.open(
        str(tmp_path / "s.zarr"), mode="w", shape=CUBE.shape, chunks=(2, 2, 3), dtype="i2"
    )
    store[:] = CUBE
    assert_array_equal(open_scene(tmp_path / "s.zarr").values, CUBE)


# What they share


def test_a_known_scene_is_opened_by_name(monkeypatch):
    monkeypatch.setitem(KNOWN_SCENES, "toy", None)
    monkeypatch.setattr(scenes, "open_known", lambda name: georeferenced().assign_attrs(name=name))
    assert open_scene("toy").attrs["name"] == "toy"
    with pytest.raises(SceneError, match=r"no such file and no known scene.*toy"):
        open_scene("indian-pins")


def test_a_file_wins_over_a_known_name_and_may_hold_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a:b.npy", CUBE)
    assert_array_equal(open_scene("a:b.npy").values, CUBE)
