"""ENVI and GeoTIFF: values, axes, wavelengths, georeference, nodata and lazy windows."""

import pickle

import numpy as np
import pytest
import rasterio
from affine import Affine
from numpy.testing import assert_allclose, assert_array_equal

from polyad.errors import SceneError
from polyad.scene.raster.selection import valid_mask
from polyad.scene.read.formats import envi, raw
from polyad.scene.read.formats.opening import open_raster
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")

CUBE = np.arange(5 * 4 * 3, dtype=np.uint16).reshape(5, 4, 3)  # (rows, columns, bands)
UTM = Affine(10.0, 0.0, 500000.0, 0.0, -10.0, 4000000.0)
ORDERS = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
TYPES = {"u1": 1, "i2": 2, "i4": 3, "f4": 4, "f8": 5, "u2": 12, "u4": 13, "i8": 14, "u8": 15}


def write_envi(folder, cube, *, interleave="bsq", big=False, offset=0, extra="", data="s.img"):
    order = ">" if big else "<"
    raw = np.ascontiguousarray(cube.transpose(ORDERS[interleave])).astype(
        cube.dtype.newbyteorder(order)
    )
    (folder / data).write_bytes(b"\0" * offset + raw.tobytes())
    header = folder / "s.hdr"
    rows, cols, bands = cube.shape
    header.write_text(
        f"ENVI\ndescription = {{made = for a test}}\nsamples = {cols}\nlines   = {rows}\n"
        f"bands = {bands}\nheader offset = {offset}\ndata type = {TYPES[cube.dtype.str[1:]]}\n"
        f"interleave = {interleave}\nbyte order = {int(big)}\n{extra}\n"
    )
    return header


MAP = "map info = {UTM, 1, 1, 500000, 4000000, 10, 10, 33, North, WGS-84, units=Meters}\n"
BANDS = (
    "wavelength units = Micrometers\nwavelength = {\n 0.45, 0.55,\n 0.65}\nfwhm = {.01,.01,.02}\n"
)


@pytest.mark.parametrize("interleave", ORDERS)
@pytest.mark.parametrize("big", [False, True])
def test_envi_gives_rows_columns_bands_from_every_interleave(tmp_path, interleave, big):
    scene = open_scene(write_envi(tmp_path, CUBE, interleave=interleave, big=big, offset=13))
    assert scene.dims == ("y", "x", "band")
    assert scene.dtype.isnative
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(1, 3), x=slice(2, 4)).values, CUBE[1:3, 2:4])


@pytest.mark.parametrize("kind", TYPES)
def test_envi_reads_every_real_type(tmp_path, kind):
    cube = CUBE.astype(kind)
    assert_array_equal(open_scene(write_envi(tmp_path, cube)).values, cube)


def test_envi_carries_wavelength_crs_transform_and_nodata(tmp_path):
    scene = open_scene(write_envi(tmp_path, CUBE, extra=MAP + BANDS + "data ignore value = 7"))
    assert_array_equal(scene.wavelength, [450, 550, 650])
    assert_array_equal(scene.fwhm, [10, 10, 20])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert_array_equal(scene.x, [500005, 500015, 500025, 500035])  # pixel centers
    assert scene.y[0] == 3999995
    assert scene.rio.nodata == 7
    assert_array_equal(np.argwhere(~valid_mask(scene)), [[0, 2]])  # 7 is the second band of (0, 2)


def test_envi_tie_point_at_a_pixel_center_is_moved_to_the_corner(tmp_path):
    center = MAP.replace("1, 1,", "1.5, 1.5,")  # ENVI counts the first pixel from 1.0 to 2.0
    scene = open_scene(write_envi(tmp_path, CUBE, extra=center))
    assert (scene.rio.transform().c, scene.rio.transform().f) == (499995, 4000005)


def test_envi_leaves_out_bad_bands(tmp_path):
    scene = open_scene(write_envi(tmp_path, CUBE, extra=BANDS + "bbl = {1, 0, 1}"))
    assert_array_equal(scene.values, CUBE[..., [0, 2]])
    assert_array_equal(scene.wavelength, [450, 650])
    assert_array_equal(scene.isel(band=1, y=0).values, CUBE[0, :, 2])


@pytest.mark.parametrize("data", ["s.img", "s", "s.dat", "s.bsq", "s.BIL"])
def test_envi_opens_by_header_and_by_data_file(tmp_path, data):
    header = write_envi(tmp_path, CUBE, data=data)
    for path in (header, tmp_path / data):
        assert_array_equal(open_scene(path).values, CUBE)


def test_a_window_reads_no_more_than_its_pixels(tmp_path, monkeypatch):
    windows = []
    read = envi.EnviSource.read

    def counted(self, rows, cols, bands):
        windows.append((rows, cols, sorted(bands.tolist())))
        return read(self, rows, cols, bands)

    monkeypatch.setattr(envi.EnviSource, "read", counted)
    scene = open_scene(write_envi(tmp_path, CUBE, extra=MAP))
    tile = scene.isel(y=slice(1, 3)).isel(x=slice(0, 2), band=[2, 0])
    assert windows == []  # opening and slicing read nothing
    assert_array_equal(tile.values, CUBE[1:3, :2][..., [2, 0]])
    assert windows == [(slice(1, 3), slice(0, 2), [0, 2])]
    windows.clear()
    assert_array_equal(scene.isel(y=[4, 0], x=[3, 1]).values, CUBE[np.ix_([4, 0], [3, 1])])
    assert [w[0] for w in windows] == [slice(0, 1), slice(4, 5)]  # not the rows between


def test_an_opened_scene_can_be_sent_to_another_process(tmp_path):
    scene = open_scene(write_envi(tmp_path, CUBE, extra=MAP))
    again = pickle.loads(pickle.dumps(scene))
    assert_array_equal(again.isel(y=slice(0, 2)).values, CUBE[:2])


def write_tiff(path, cube, tags=(), **profile):
    rows, cols, bands = cube.shape
    profile = {"crs": "EPSG:32633", "transform": UTM, **profile}
    with rasterio.open(
        path, "w", driver="GTiff", width=cols, height=rows, count=bands, dtype=cube.dtype, **profile
    ) as file:
        file.write(np.moveaxis(cube, -1, 0))
        for band, fields in enumerate(tags, start=1):
            file.update_tags(band, **fields)
    return path


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("compress", ["none", "deflate"])
def test_geotiff_carries_values_crs_transform_and_nodata(tmp_path, interleave, compress):
    path = write_tiff(tmp_path / "s.tif", CUBE, nodata=8, interleave=interleave, compress=compress)
    scene = open_scene(path)
    assert scene.dims == ("y", "x", "band")
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(2, 5), x=slice(1, 2)).values, CUBE[2:5, 1:2])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert scene.rio.nodata == 8
    assert scene.isel(y=slice(2, 5)).rio.transform().f == UTM.f - 20  # a tile knows its place


def test_geotiff_pixel_is_point_is_moved_by_half_a_pixel(tmp_path):
    path = write_tiff(tmp_path / "s.tif", CUBE)
    with rasterio.open(path, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
    with rasterio.open(path) as file:
        wanted = file.transform
    scene = open_scene(path)
    assert scene.rio.transform() == wanted == UTM
    assert scene.x[0] == 500005


@pytest.mark.parametrize(
    "tags",
    [
        [{"wavelength": v, "wavelength_units": "Micrometers"} for v in ("0.45", "0.55", "0.65")],
        [{"wavelength": v} for v in ("450.0", "550.0", "650.0")],
        [{"WAVELENGTH": v, "WAVELENGTH_UNITS": "nm"} for v in ("450", "550", "650")],
    ],
)
def test_geotiff_wavelengths_come_from_band_tags(tmp_path, tags):
    scene = open_scene(write_tiff(tmp_path / "s.tif", CUBE, tags))
    assert_allclose(scene.wavelength, [450, 550, 650])


def test_geotiff_without_georeference_opens_quietly(tmp_path):
    path = tmp_path / "s.tif"
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        write_tiff(path, CUBE, crs=None, transform=None)
    scene = open_scene(path)
    assert scene.rio.crs is None
    assert "x" not in scene.coords
    assert_array_equal(scene.values, CUBE)


def test_a_rotated_geotiff_keeps_its_transform(tmp_path):
    turned = Affine(9.0, 3.0, 500000.0, 3.0, -9.0, 4000000.0)
    scene = open_scene(write_tiff(tmp_path / "s.tif", CUBE, transform=turned))
    assert "x" not in scene.coords
    assert_allclose(scene.rio.transform(), turned)


def test_nodata_that_the_type_cannot_hold_marks_no_pixel(tmp_path):
    scene = open_scene(write_envi(tmp_path, CUBE, extra="data ignore value = -9999"))
    assert scene.rio.nodata is None
    assert valid_mask(scene).all()


def test_a_scene_larger_than_the_budget_opens_and_is_read_by_windows(tmp_path):
    path = tmp_path / "big.img"
    shape = (4096, 2048, 128)  # 2 GiB of uint16, a hole on disk but for one pixel
    with path.open("wb") as file:
        file.truncate(2 * int(np.prod(shape)))
        file.seek(2 * ((4000 * 2048 + 2000) * 128 + 5))
        file.write(np.uint16(77).tobytes())
    path.with_suffix(".hdr").write_text(
        "ENVI\nsamples = 2048\nlines = 4096\nbands = 128\ndata type = 12\ninterleave = bip\n"
    )
    scene = open_scene(path, max_bytes=2**20)
    assert scene.shape == shape
    tile = scene.isel(y=slice(3999, 4003), x=slice(1999, 2003)).values
    assert tile[1, 1, 5] == 77
    assert tile.sum() == 77


def test_a_pixel_interleaved_tiff_whose_block_exceeds_the_budget_is_refused(tmp_path):
    path = write_tiff(tmp_path / "s.tif", CUBE, interleave="pixel")
    with pytest.raises(SceneError, match=r"a block of the TIFF must be read at once.*max_bytes"):
        open_scene(path, max_bytes=10)


def test_a_geotiff_is_opened_by_the_tiff_driver_alone(tmp_path):
    with (
        pytest.raises(SceneError, match="expected a GTiff raster"),
        open_raster(write_envi(tmp_path, CUBE).with_suffix(".img"), "GTiff"),
    ):
        pass


def test_every_box_of_a_raw_file_equals_numpy(tmp_path):
    array = np.arange(3 * 7 * 40, dtype=">i4").reshape(3, 7, 40)
    path = tmp_path / "raw"
    path.write_bytes(b"head" + array.tobytes())
    rng = np.random.default_rng(0)
    for _ in range(200):  # narrow boxes are read piece by piece, wide ones row by row
        edges = [np.sort(rng.choice(n + 1, 2, replace=False)) for n in array.shape]
        box = tuple(slice(int(a), int(b)) for a, b in edges)
        assert_array_equal(raw.read_box(path, 4, array.shape, array.dtype, box), array[box])


def test_a_file_cut_after_opening_is_reported_with_its_rows(tmp_path):
    scene = open_scene(write_envi(tmp_path, CUBE))
    (tmp_path / "s.img").write_bytes(CUBE.tobytes()[:20])
    with pytest.raises(SceneError, match=r"rows 3 to 4 cannot be read \(the file ends .* changed"):
        scene.isel(y=slice(3, 5)).load()


# What lies beside a raster


def bare_tiff(path):
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        return write_tiff(path, CUBE, crs=None, transform=None)


def test_a_world_file_places_a_tiff_as_gdal_would(tmp_path):
    path = bare_tiff(tmp_path / "s.tif")
    (tmp_path / "s.tfw").write_text("10\n1.5\n-2\n-10\n500005\n3999995\n")
    with rasterio.open(path) as reference:
        expected = reference.transform
    assert open_scene(path).rio.transform().almost_equals(expected)


def test_an_aux_xml_places_a_tiff_and_names_its_bands(tmp_path):
    path = bare_tiff(tmp_path / "s.tif")
    bands = "".join(
        f"<PAMRasterBand band='{k}'><Metadata><MDI key='wavelength'>{nm}</MDI></Metadata>"
        "</PAMRasterBand>"
        for k, nm in enumerate((450, 550, 650), start=1)
    )
    srs = rasterio.CRS.from_epsg(32633).to_wkt()
    place = "<GeoTransform>5e5, 10, 0, 4e6, 0, -10</GeoTransform>"
    (tmp_path / "s.tif.aux.xml").write_text(
        f"<PAMDataset><SRS>{srs}</SRS>{place}{bands}</PAMDataset>"
    )
    scene = open_scene(path)
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert_array_equal(scene["wavelength"].values, [450, 550, 650])


def test_a_scene_and_its_companion_may_be_links_into_one_folder(tmp_path):
    real, work = tmp_path / "real", tmp_path / "work"
    real.mkdir()
    work.mkdir()
    write_envi(real, CUBE)
    for name in ("s.hdr", "s.img"):
        (work / name).symlink_to(real / name)
    assert_array_equal(open_scene(work / "s.hdr").values, CUBE)
    assert_array_equal(open_scene(work / "s.img").values, CUBE)
