"""NetCDF and Zarr cubes with a time axis of length 1, as archives of single dates write them."""

import h5py
import numpy as np
import pytest
import xarray as xr
from affine import Affine
from numpy.testing import assert_array_equal

from polyad.errors import SceneError
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

CUBE = np.arange(5 * 4 * 3, dtype=np.int16).reshape(5, 4, 3)  # (rows, columns, bands)
COORDS = {
    "time": np.array(["2022-07-24"], "datetime64[ns]"),
    "wavelength": [450.0, 550.0, 650.0],
    "y": 4000000 - 10.0 * np.arange(5) - 5,
    "x": 500000 + 10.0 * np.arange(4) + 5,
}


def dated(dims=("time", "wavelength", "y", "x")):
    cube = xr.DataArray(CUBE, dims=("y", "x", "wavelength")).expand_dims("time").transpose(*dims)
    return cube.assign_coords(COORDS).to_dataset(name="reflectance")


def write(path, data):
    if path.suffix == ".nc":
        data.to_netcdf(path, engine="h5netcdf")
    else:
        pytest.importorskip("zarr")
        data.to_zarr(path, consolidated=False)
    return path


@pytest.mark.parametrize("name", ["s.nc", "s.zarr"])
@pytest.mark.parametrize(
    "dims", [("time", "wavelength", "y", "x"), ("y", "x", "wavelength", "time")]
)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_time_axis_of_length_1_is_dropped(tmp_path, name, dims):
    scene = open_scene(write(tmp_path / name, dated(dims)))
    assert scene.dims == ("y", "x", "band")
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(1, 3), band=[2, 0]).values, CUBE[1:3][..., [2, 0]])
    assert_array_equal(scene.wavelength, [450, 550, 650])
    assert scene.rio.transform() == Affine(10, 0, 500000, 0, -10, 4000000)


def test_time_axis_without_a_name_is_dropped_from_the_front(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["cube"] = CUBE[None]
    assert_array_equal(open_scene(tmp_path / "s.h5").values, CUBE)


def test_single_row_is_kept_where_the_time_axis_has_a_name(tmp_path):
    data = dated().isel(y=slice(0, 1))
    assert_array_equal(open_scene(write(tmp_path / "s.nc", data)).values, CUBE[:1])


def test_cube_of_several_dates_is_refused_with_its_shape(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["cube"] = np.stack([CUBE, CUBE])
    with pytest.raises(SceneError, match=r"needs three axes .* got shape \(2, 5, 4, 3\)"):
        open_scene(f"{tmp_path / 's.h5'}:cube")
