"""EMIT and PRISMA: tiny files in the layout of the real products."""

import h5py
import numpy as np
import pytest
from affine import Affine
from numpy.testing import assert_allclose, assert_array_equal
from rasterio.crs import CRS

from polyad.errors import SceneError
from polyad.scene.raster.bands import Bands
from polyad.scene.raster.selection import valid_mask
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

# EMIT

SWATH = np.arange(4 * 3 * 5, dtype=np.float32).reshape(4, 3, 5)  # (downtrack, crosstrack, bands)
GLT_X = np.array([[0, 1, 2], [1, 2, 3], [3, -3, 0], [0, 1, 0]], np.int32)
GLT_Y = np.array([[0, 1, 1], [2, 2, 2], [3, 3, 0], [0, 4, 0]], np.int32)


def write_emit(path, glt_x=GLT_X, flags=(1, 0, 1, 1, 0)):
    with h5py.File(path, "w") as file:
        file.attrs["geotransform"] = [10.0, 0.0005, 0.0, 45.0, 0.0, -0.0005]
        file.attrs["spatial_ref"] = CRS.from_epsg(4326).to_wkt()
        cube = file.create_dataset("reflectance", data=SWATH, chunks=(2, 3, 5), compression="gzip")
        cube.attrs["_FillValue"] = np.float32([-9999])
        location = file.create_group("location")
        for name, table in (("glt_x", glt_x), ("glt_y", GLT_Y)):
            location.create_dataset(name, data=table, chunks=table.shape, compression="gzip")
        for name in ("lat", "lon", "elev"):
            location[name] = np.zeros((4, 3))
        bands = file.create_group("sensor_band_parameters")
        bands["wavelengths"] = np.float32([381, 388.5, 396, 403.5, 411])
        bands["fwhm"] = np.float32([8.4] * 5)
        bands["good_wavelengths"] = np.array(flags, np.uint8)
    return path


def orthorectified():
    """Pixel by pixel, the slow way."""
    out = np.full((*GLT_X.shape, 5), -9999, np.float32)
    for i, j in np.ndindex(GLT_X.shape):
        if GLT_X[i, j] and GLT_Y[i, j]:
            out[i, j] = SWATH[abs(GLT_Y[i, j]) - 1, abs(GLT_X[i, j]) - 1]
    return out[..., [0, 2, 3]]


def test_emit_is_put_on_the_map_without_its_bad_bands(tmp_path):
    scene = open_scene(write_emit(tmp_path / "EMIT_L2A_RFL_001.nc"))
    assert scene.shape == (4, 3, 3)
    assert_array_equal(scene.values, orthorectified())
    assert_array_equal(scene.wavelength, [381, 396, 403.5])
    assert scene.rio.nodata == -9999
    assert_array_equal(valid_mask(scene), GLT_X != 0)


def test_emit_starts_at_the_outer_corner(tmp_path):
    scene = open_scene(write_emit(tmp_path / "e.nc"))
    assert scene.rio.crs.to_epsg() == 4326
    assert_allclose(scene.rio.transform()[:6], (0.0005, 0, 10, 0, -0.0005, 45))
    assert_allclose(scene.x[0], 10.00025)
    assert_allclose(scene.y[0], 44.99975)


def test_emit_lookup_table_that_points_outside_is_refused(tmp_path):
    scene = open_scene(write_emit(tmp_path / "e.nc", glt_x=GLT_X + 100))
    with pytest.raises(
        SceneError, match=r"the lookup table points to .* the swath has 4 lines of 3"
    ):
        scene.load()


def write_emit_radiance(path):
    """Level 1B: radiance, no flags of bands, and an array of the flat field beside it."""
    write_emit(path)
    with h5py.File(path, "r+") as file:
        file.move("reflectance", "radiance")
        file["radiance"].attrs["units"] = np.bytes_("uW/cm^2/SR/nm")
        del file["sensor_band_parameters/good_wavelengths"]
        file["flat_field_update"] = np.ones((3, 5), np.float32)
        file["build_dmrpp_metadata/version"] = 1
    return path


def test_emit_radiance_has_all_bands_on_the_same_map(tmp_path):
    scene = open_scene(write_emit_radiance(tmp_path / "EMIT_L1B_RAD_001.nc"))
    assert scene.shape == (4, 3, 5)
    assert_array_equal(scene.values[..., [0, 2, 3]], orthorectified())
    assert_array_equal(scene.fwhm, np.float32([8.4] * 5).astype(float).round(6))
    assert scene.rio.crs.to_epsg() == 4326


def test_emit_flags_as_the_product_stores_them_are_read(tmp_path):
    """Flags come as float with NaN, as bytes, or as 65535, which stands for no answer."""
    for flags in (np.float32([1, np.nan, 1, 1, 0]), np.uint16([1, 65535, 1, 1, 0])):
        path = write_emit(tmp_path / "e.nc")
        with h5py.File(path, "r+") as file:
            del file["sensor_band_parameters/good_wavelengths"]
            file["sensor_band_parameters/good_wavelengths"] = flags
        scene = open_scene(path)
        assert_array_equal(scene.wavelength, [381, 396, 403.5])
        assert Bands.of(scene).note == ("2 of 5: 2 (388 nm), 5 (411 nm) flagged as bad")


# PRISMA: falling wavelengths, slots without a band at one end, detectors that overlap

VNIR_NM = np.float32([0, 0, 972.65, 962.28, 951.38, 402.45])
SWIR_NM = np.float32([2496.88, 1047.42, 956.92, 943.36, 0, 0])
VNIR_FLAGS, SWIR_FLAGS = np.uint8([0, 0, 1, 1, 1, 1]), np.uint8([0, 1, 1, 1, 0, 0])
JOINED_NM = np.float32([402.45, 943.36, 951.38, 956.92, 962.28, 972.65, 1047.42])
RNG_ROWS, RNG_COLS = 4, 5


def prisma_cubes():
    rng = np.random.default_rng(3)
    vnir, swir = rng.integers(1, 65535, (2, RNG_ROWS, 6, RNG_COLS)).astype(np.uint16)
    vnir[:, VNIR_NM == 0] = swir[:, SWIR_NM == 0] = 0
    for cube in (vnir, swir):
        cube[0, :, 0] = 0  # outside the strip: zero in every band
    vnir[2, :, 2] = 0  # a pixel that is dark in one detector only
    return vnir, swir


def write_prisma(path):
    vnir, swir = prisma_cubes()
    with h5py.File(path, "w") as file:
        for swath in ("PRS_L2D_HCO", "PRS_L2D_PCO"):
            for fields in ("Data Fields", "Geolocation Fields"):
                file.create_group(f"HDFEOS/SWATHS/{swath}/{fields}")
        fields = file["HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields"]
        for name, cube in (("VNIR", vnir), ("SWIR", swir)):
            fields[f"{name}_Cube"] = cube
            # 2 stands for a value below 0 after the atmospheric correction
            fields[f"{name}_PIXEL_L2_ERR_MATRIX"] = np.full(cube.shape, 2, np.uint8)
        file["HDFEOS/SWATHS/PRS_L2D_PCO/Data Fields/Cube"] = np.ones((24, 30), np.uint16)
        for name in ("Latitude", "Longitude"):
            file[f"HDFEOS/SWATHS/PRS_L2D_HCO/Geolocation Fields/{name}"] = np.zeros((4, 5))
        file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_("GROUP=SwathStructure".ljust(32000))
        file.attrs.update(
            Product_ID=np.bytes_("PRS_L2D_STD"),
            List_Cw_Vnir=VNIR_NM,
            List_Cw_Swir=SWIR_NM,
            List_Cw_Vnir_Flags=VNIR_FLAGS,
            List_Cw_Swir_Flags=SWIR_FLAGS,
            List_Fwhm_Vnir=np.float32([0, 0, 13, 12, 11, 15]),
            List_Fwhm_Swir=np.float32([9, 10, 9.5, 8, 0, 0]),
            L2ScaleVnirMin=np.float32(0.0),
            L2ScaleVnirMax=np.float32(1.5),
            L2ScaleSwirMin=np.float32(0.1),
            L2ScaleSwirMax=np.float32(0.9),
            Epsg_Code=np.uint32(32632),
            Product_ULcorner_easting=np.float32(352755),
            Product_ULcorner_northing=np.float32(5987235),
            Product_LRcorner_easting=np.float32(352755 + 30 * (RNG_COLS - 1)),
            Product_LRcorner_northing=np.float32(5987235 - 30 * (RNG_ROWS - 1)),
        )
    return path


def test_prisma_is_scaled_joined_and_ordered_by_wavelength(tmp_path):
    """In the overlap the bands of the two detectors alternate."""
    scene = open_scene(write_prisma(tmp_path / "PRS_L2D_STD.he5"))
    vnir, swir = prisma_cubes()
    assert scene.shape == (4, 5, 7)
    assert_allclose(scene.wavelength, JOINED_NM, rtol=1e-6)
    assert_array_equal(scene.fwhm, [15, 8, 11, 9.5, 12, 13, 10])
    low = {"v": 0.0, "s": 0.1}
    step = {"v": 1.5 / 65535, "s": 0.8 / 65535}
    cubes = {"v": vnir, "s": swir}
    wanted = np.stack(
        [
            low[d] + step[d] * cubes[d][:, slot].astype(float)
            for d, slot in (("v", 5), ("s", 3), ("v", 4), ("s", 2), ("v", 3), ("v", 2), ("s", 1))
        ],
        axis=-1,
    )
    wanted[0, 0] = np.nan
    assert_allclose(scene.values, wanted, rtol=1e-5)
    assert scene.dtype == np.float32


def test_prisma_leaves_out_a_band_that_the_product_flags(tmp_path):
    line = Bands.of(open_scene(write_prisma(tmp_path / "p.he5"))).note
    assert line == "1 of 8: 8 (2497 nm) flagged as bad"


def test_prisma_of_an_early_processor_has_no_flags(tmp_path):
    path = write_prisma(tmp_path / "p.he5")
    with h5py.File(path, "r+") as file:
        del file.attrs["List_Cw_Vnir_Flags"], file.attrs["List_Cw_Swir_Flags"]
    assert open_scene(path).sizes["band"] == 8


def test_prisma_padding_is_nodata_and_a_dark_pixel_is_not(tmp_path):
    scene = open_scene(write_prisma(tmp_path / "p.he5"))
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])
    one_band = scene.isel(band=[0])  # here the dark pixel is zero in all chosen bands
    assert one_band[2, 2, 0] == 0
    assert np.isnan(one_band[0, 0, 0])


def test_prisma_pixels_have_30_meters_and_no_half_pixel_shift(tmp_path):
    scene = open_scene(write_prisma(tmp_path / "p.he5"))
    assert scene.rio.crs.to_epsg() == 32632
    wanted = Affine(30, 0, 352755 - 15, 0, -30, 5987235 + 15)
    assert scene.rio.transform() == wanted


def test_prisma_without_its_scale_says_which_attribute_is_missing(tmp_path):
    path = write_prisma(tmp_path / "p.he5")
    with h5py.File(path, "r+") as file:
        del file.attrs["L2ScaleSwirMax"]
    with pytest.raises(SceneError, match="'L2ScaleSwirMax' of PRISMA L2D, got none"):
        open_scene(path)
