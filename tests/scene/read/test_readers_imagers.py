"""Tanager and AVIRIS: tiny files in the layout of the real products."""

import h5py
import numpy as np
import pytest
from affine import Affine
from numpy.testing import assert_allclose, assert_array_equal
from rasterio.crs import CRS

from polyad.errors import PolyadWarning, SceneError
from polyad.scene.raster.bands import Bands
from polyad.scene.raster.selection import valid_mask
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

# Tanager

STORED = np.random.default_rng(5).random((6, 4, 3)).astype(np.float32)  # (bands, rows, columns)
STORED[:, 0, 0] = -9999
TANAGER_NM = np.float32([376.4, 381.5, 1350.2, 1355.2, 2494.0, 2499.0])
GOOD = np.uint8([1, 1, 0, 0, 1, 1])
STRUCTURE = (
    "GROUP=SwathStructure\nEND_GROUP=SwathStructure\nGROUP=GridStructure\n\tGROUP=GRID_1\n"
    '\t\tGridName="HYP"\n\t\tBand=6\n\t\tXDim=3\n\t\tYDim=4\n'
    "\t\tUpperLeftPointMtrs=(548580.000000,4207350.000000)\n"
    "\t\tLowerRightMtrs=(548670.000000,4207230.000000)\n"
    "\t\tProjection=HE5_GCTP_UTM\n\t\tZoneCode={zone}\n\t\tSphereCode=12\n"
    "\t\tGridOrigin=HE5_HDFE_GD_UL\n\tEND_GROUP=GRID_1\nEND_GROUP=GridStructure\nEND\n"
)


def write_tanager(path, kind="GRIDS", cube="surface_reflectance", *, epsg=32610, zone=10):
    with h5py.File(path, "w") as file:
        fields = file.create_group(f"HDFEOS/{kind}/HYP/Data Fields")
        for name in (cube, f"{cube}_uncertainty"):
            fields.create_dataset(name, data=STORED, chunks=(6, 2, 3), compression="gzip")
        fields[cube].attrs.update(
            wavelengths=TANAGER_NM,
            wavelengths_units=np.bytes_("nm"),
            fwhm=np.float32([5.4] * 6),
            fwhm_units=np.bytes_("nm"),
            good_wavelengths=GOOD,
            _FillValue=np.float32(-9999),
            Unit=np.bytes_("Unitless"),
        )
        for name in ("beta_cloud_mask", "beta_cirrus_mask", "nodata_pixels"):
            fields[name] = np.zeros((4, 3), np.uint8)
        fields["sun_zenith"] = np.zeros((4, 3), np.float32)
        if kind == "SWATHS":
            for name in ("Latitude", "Longitude"):
                file[f"HDFEOS/SWATHS/HYP/Geolocation Fields/{name}"] = np.zeros((4, 3))
        else:
            text = STRUCTURE.format(zone=zone).ljust(32000, "\0")
            file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(text)
            file["HDFEOS/GRIDS/HYP"].attrs["strip_id"] = np.bytes_("20250123_185507_64_4001")
            if epsg is not None:
                file["HDFEOS/GRIDS/HYP"].attrs["epsg_code"] = np.int64(epsg)
    return path


def test_tanager_is_read_without_its_bad_bands(tmp_path):
    scene = open_scene(write_tanager(tmp_path / "20250123_ortho_sr_hdf5.h5"))
    assert_array_equal(scene.values, STORED.transpose(1, 2, 0)[..., GOOD == 1])
    assert_allclose(scene.wavelength, TANAGER_NM[GOOD == 1], rtol=1e-6)
    assert_allclose(scene.fwhm, [5.4] * 4, rtol=1e-6)
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])
    line = "2 of 6: 3-4 (1350-1355 nm) flagged as bad"
    assert Bands.of(scene).note == line


@pytest.mark.parametrize(("epsg", "zone", "wanted"), [
    (32610, 99, 32610), (None, 10, 32610), (None, -56, 32756),
])  # fmt: skip
def test_tanager_grid_starts_at_the_outer_corner_of_its_first_pixel(tmp_path, epsg, zone, wanted):
    scene = open_scene(write_tanager(tmp_path / "t.h5", epsg=epsg, zone=zone))
    assert scene.rio.crs.to_epsg() == wanted
    assert scene.rio.transform() == Affine(30, 0, 548580, 0, -30, 4207350)


@pytest.mark.parametrize("cube", ["toa_radiance", "surface_reflectance"])
def test_tanager_swath_stays_in_sensor_geometry(tmp_path, cube):
    scene = open_scene(write_tanager(tmp_path / "basic.h5", "SWATHS", cube))
    assert scene.shape == (4, 3, 4)
    assert scene.rio.crs is None


def test_tanager_with_too_few_flags_is_refused(tmp_path):
    path = write_tanager(tmp_path / "t.h5")
    with h5py.File(path, "r+") as file:
        cube = file["HDFEOS/GRIDS/HYP/Data Fields/surface_reflectance"]
        cube.attrs["good_wavelengths"] = GOOD[:5]
    with pytest.raises(SceneError, match=r"expected 6 numbers in 'good_wavelengths', got 5"):
        open_scene(path)


# AVIRIS-3 and AVIRIS-NG in NetCDF-4: the cube in a group, its place in the root.


def write_aviris_netcdf(path, name="reflectance"):
    with h5py.File(path, "w") as file:
        grid = file.create_dataset("transverse_mercator", data=np.bytes_(""))
        grid.attrs["grid_mapping_name"] = np.bytes_("transverse_mercator")
        grid.attrs["spatial_ref"] = grid.attrs["crs_wkt"] = CRS.from_epsg(32611).to_wkt()
        grid.attrs["GeoTransform"] = "400000.0 3.0 -0.0 3800000.0 -0.0 -3.0 "
        file["easting"] = 400001.5 + 3.0 * np.arange(3)
        file["northing"] = 3799998.5 - 3.0 * np.arange(4)
        group = file.create_group(name)
        group["wavelength"] = np.float32([376.4, 381.5, 1350.2, 1355.2, 2494.0, 2499.0])
        group["fwhm"] = np.float32([5.6] * 6)
        for variable in ("wavelength", "fwhm"):
            group[variable].attrs["units"] = np.bytes_("nanometers")
        cube = group.create_dataset(name, data=STORED, chunks=(6, 2, 3), compression="gzip")
        cube.attrs["_FillValue"] = np.float32([-9999])
        cube.attrs["grid_mapping"] = np.bytes_("transverse_mercator")
        for axis, scale in enumerate((group["wavelength"], file["northing"], file["easting"])):
            scale.make_scale()
            cube.dims[axis].attach_scale(scale)
    return path


@pytest.mark.parametrize("name", ["reflectance", "radiance"])
def test_aviris_netcdf_has_its_place_wavelengths_and_widths(tmp_path, name):
    scene = open_scene(write_aviris_netcdf(tmp_path / "AV320231008t163527_L2A_RFL_ORT.nc", name))
    assert_array_equal(scene.values, STORED.transpose(1, 2, 0))
    assert_allclose(scene.wavelength, TANAGER_NM, rtol=1e-6)
    assert_allclose(scene.fwhm, [5.6] * 6, rtol=1e-6)
    assert scene.rio.crs.to_epsg() == 32611
    assert scene.rio.transform() == Affine(3, 0, 400000, 0, -3, 3800000)
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])


# AVIRIS-NG and AVIRIS-3 in ENVI: BIL, no suffix, a grid along the flight line, 425 bands.


def write_aviris_envi(folder, name="ang20220224t210144_rfl_v2aa1_img"):
    bands, lines, samples = 425, 3, 4
    stored = np.arange(bands * lines * samples, dtype="<f4").reshape(lines, bands, samples)
    stored[0, :, 0] = -9999
    stored.tofile(folder / name)
    centers = np.linspace(376.86, 2500.12, bands)
    good = np.where((centers > 1340) & (centers < 1440), 0, 1)
    listed = {
        "wavelength": ", ".join(f"{nm:.6f}" for nm in centers),
        "fwhm": " ,\n ".join(f"{5.6:.6f}" for _ in centers),
        "smoothing factors": ", ".join("0.0" for _ in centers),
        "bbl": ",".join(f"{flag:.6f}" for flag in good),
    }
    (folder / f"{name}.hdr").write_text(
        f"ENVI\ndescription = {{\n  L2A Analytyc per-pixel surface retrieval }}\n"
        f"samples = {samples}\nlines   = {lines}\nbands   = {bands}\nheader offset = 0\n"
        "file type = ENVI Standard\ndata type = 4\ninterleave = bil\nsensor type = Unknown\n"
        "byte order = 0\nmap info = { UTM , 1.000 , 1.000 , 724522.127 , 4074620.759 , "
        "1.1000000000e+00 , 1.1000000000e+00 , 12 , North , WGS-84 , units=Meters , "
        "rotation=75.00000000 }\ncrosstrack scatter file = {unknown}\n"
        "wavelength units = Nanometers\ndata ignore value = -9999\n"
        + "".join(f"{key} = {{ {values} }}\n" for key, values in listed.items())
    )
    return folder / name, stored, good


def test_aviris_envi_of_425_bands_is_read_by_either_file(tmp_path):
    path, stored, good = write_aviris_envi(tmp_path)
    for named in (path, path.with_name(path.name + ".hdr")):
        scene = open_scene(named)
        assert scene.shape == (3, 4, good.sum())
        assert_array_equal(scene.values, stored.transpose(0, 2, 1)[..., good == 1])
        assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])


def test_aviris_grid_along_the_flight_line_keeps_its_rotation(tmp_path):
    """The tie point stays, a pixel keeps its area, and rows and columns stay at right angles."""
    transform = open_scene(write_aviris_envi(tmp_path)[0]).rio.transform()
    assert_allclose((transform.c, transform.f), (724522.127, 4074620.759))
    turn = np.deg2rad(75)
    assert_allclose(transform.a, 1.1 * np.cos(turn))
    assert_allclose(abs(transform.b), 1.1 * np.sin(turn))
    assert_allclose(abs(transform.a * transform.e - transform.b * transform.d), 1.1**2)


# HySpex in ENVI: whole numbers with a factor in the header, as the tools of its users write them.


def write_hyspex(folder, extra="reflectance scale factor = 10000.000000\n", dtype="<i2"):
    stored = np.arange(1, 3 * 2 * 4 + 1).reshape(3, 2, 4).astype(dtype)  # (lines, bands, samples)
    stored[0, :, 0] = -1
    stored.tofile(folder / "hyspex_vnir_1800_ref.hyspex")
    kind = {"<i2": 2, "<f4": 4}[dtype]
    header = folder / "hyspex_vnir_1800_ref.hdr"
    header.write_text(
        "ENVI\ndescription = {Hyspex, VNIR-1800, pixelsize x = 0.000325}\nsamples = 4\nlines = 3\n"
        f"bands = 2\nheader offset = 0\nfile type = ENVI Standard\ndata type = {kind}\n"
        "interleave = bil\nsensor type = Unknown\nbyte order = 0\ndefault bands = {2, 1, 1}\n"
        f"wavelength units = nm\nwavelength = {{\n407.2,\n410.4}}\ndata ignore value = -1\n{extra}"
    )
    return header, stored.transpose(0, 2, 1)


def test_hyspex_is_divided_by_its_reflectance_scale_factor(tmp_path):
    header, stored = write_hyspex(tmp_path)
    scene = open_scene(header)
    wanted = stored / 10000
    wanted[0, 0] = np.nan
    assert scene.dtype == np.float32
    assert_allclose(scene.values, wanted, rtol=1e-6)
    assert_allclose(scene.isel(x=[2], band=[1]).values, wanted[:, [2]][..., [1]], rtol=1e-6)
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 0]])
    assert scene.attrs["scaling"] == "divided by the header's reflectance scale factor 10000"


def test_envi_gains_and_offsets_decide_over_a_scale_factor(tmp_path):
    extra = "data gain values = {0.5, 0.25}\ndata offset values = {1, -1}\n"
    header, stored = write_hyspex(tmp_path, extra + "reflectance scale factor = 10000\n")
    scene = open_scene(header)
    assert_allclose(scene.values[1:], stored[1:] * [0.5, 0.25] + [1, -1], rtol=1e-6)
    assert "gain and offset" in scene.attrs["scaling"]


@pytest.mark.parametrize("extra", [
    "", "reflectance scale factor = 1\n", "reflectance scale factor = 0\n",
    "reflectance scale factor = none\n", "data gain values = {1.0, 1.0}\n",
    "data gain values = {0, 0}\n", "data gain values = {nan, 1}\n",
    "reflectance scale factor = 1e-320\n",
])  # fmt: skip
def test_envi_header_without_a_usable_scale_keeps_the_stored_values(tmp_path, extra):
    header, stored = write_hyspex(tmp_path, extra)
    scene = open_scene(header)
    assert scene.dtype == np.int16
    assert_array_equal(scene.values, stored)
    assert scene.rio.nodata == -1
    assert "scaling" not in scene.attrs


def test_envi_list_with_too_few_entries_is_not_used_and_told(tmp_path):
    header, stored = write_hyspex(tmp_path, "data gain values = {0.5}\n")
    with pytest.warns(PolyadWarning, match="'data gain values' has 1 entries for 2 bands"):
        scene = open_scene(header)
    assert_array_equal(scene.values, stored)
