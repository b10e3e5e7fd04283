"""Scenes of several files: VRT, one file for each band; and JPEG 2000."""

import pickle
import re

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from affine import Affine
from numpy.testing import assert_array_equal

from polyad.errors import SceneError
from polyad.scene.raster.bands import Bands
from polyad.scene.read.scenes import open_scene

# rioxarray still multiplies transforms the way that affine 3 is about to deprecate.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Use `@` matmul:PendingDeprecationWarning",
    "ignore::rasterio.errors.NotGeoreferencedWarning",
)

CUBE = np.arange(1, 8 * 6 * 3 + 1, dtype=np.uint16).reshape(8, 6, 3)  # (rows, columns, bands)
UTM = Affine(10, 0, 500000, 0, -10, 4000000)
PLACE = {"crs": "EPSG:32633", "transform": UTM}


def write_tiff(path, cube=CUBE, tags=(), **options):
    rows, cols, bands = cube.shape
    options = {"driver": "GTiff", **PLACE, **options}
    with rasterio.open(
        path, "w", width=cols, height=rows, count=bands, dtype=cube.dtype, **options
    ) as file:
        file.write(np.moveaxis(cube, -1, 0))
        for band, about in enumerate(tags, 1):
            file.update_tags(band, **about)
    return path


# VRT


def vrt(sources, *, bands=1, size=(6, 8), extra="", kind="UInt16", outer=""):
    cols, rows = size
    listed = "".join(
        f'<VRTRasterBand dataType="{kind}" band="{b}">{extra}{sources.replace("$b", str(b))}'
        "</VRTRasterBand>"
        for b in range(1, bands + 1)
    )
    return (
        f'<VRTDataset rasterXSize="{cols}" rasterYSize="{rows}"><SRS>EPSG:32633</SRS>'
        f"<GeoTransform> 500000, 10, 0, 4000000, 0, -10</GeoTransform>{outer}{listed}</VRTDataset>"
    )


def source(name="a.tif", *, band="$b", src=(0, 0, 6, 8), dst=(0, 0, 6, 8), extra="", tag="Simple"):
    rects = "".join(
        f'<{t} xOff="{x}" yOff="{y}" xSize="{w}" ySize="{h}"/>'
        for t, (x, y, w, h) in (("SrcRect", src), ("DstRect", dst))
    )
    return (
        f'<{tag}Source><SourceFilename relativeToVRT="1">{name}</SourceFilename>'
        f"<SourceBand>{band}</SourceBand>{rects}{extra}</{tag}Source>"
    )


def write_vrt(folder, text):
    path = folder / "scene.vrt"
    path.write_text(text)
    return path


def test_vrt_that_gdal_wrote_is_the_file_it_was_made_of(tmp_path):
    tags = [{"wavelength": str(nm), "wavelength_units": "nm"} for nm in (450, 550, 650)]
    write_tiff(tmp_path / "a.tif", tags=tags, nodata=7)
    with rasterio.open(tmp_path / "a.tif") as file:
        rasterio.shutil.copy(file, tmp_path / "scene.vrt", driver="VRT")
    text = (tmp_path / "scene.vrt").read_text()
    assert 'relativeToVRT="1">a.tif<' in text
    scene = open_scene(tmp_path / "scene.vrt")
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.wavelength, [450, 550, 650])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert scene.rio.nodata == 7


def test_vrt_of_separate_files_takes_the_wavelengths_of_these(tmp_path):
    """As gdalbuildvrt -separate writes it, without metadata of its own."""
    for b, nm in enumerate((450, 550, 650), 1):
        tags = [{"wavelength": str(nm), "fwhm": "9", "bbl": str(int(b != 2))}]
        write_tiff(tmp_path / f"b{b}.tif", CUBE[..., [b - 1]], tags)
    scene = open_scene(write_vrt(tmp_path, vrt(source("b$b.tif", band=1), bands=3)))
    assert_array_equal(scene.values, CUBE[..., [0, 2]])
    assert_array_equal(scene.wavelength, [450, 650])
    assert Bands.of(scene).note == "1 of 3: 2 (550 nm) flagged as bad"


def test_vrt_mosaic_puts_tiles_side_by_side_and_fills_gaps(tmp_path):
    write_tiff(tmp_path / "a.tif", CUBE[:4])
    write_tiff(tmp_path / "b.tif", CUBE[4:, :4])
    pieces = source("a.tif", src=(0, 0, 6, 4), dst=(0, 0, 6, 4)) + source(
        "b.tif", src=(1, 0, 3, 4), dst=(1, 4, 3, 4)
    )
    text = vrt(pieces, bands=3, extra="<NoDataValue>0</NoDataValue>")
    scene = open_scene(write_vrt(tmp_path, text))
    wanted = CUBE.copy()
    wanted[4:, 0] = wanted[4:, 4:] = 0
    assert_array_equal(scene.values, wanted)
    for rows, cols, bands in ((slice(3, 5), slice(0, 3), [2, 0]), (slice(5, 8), slice(4, 6), [1])):
        assert_array_equal(
            scene.isel(y=rows, x=cols, band=bands).values, wanted[rows, cols][..., bands]
        )


def test_vrt_source_nodata_lets_what_lies_below_through(tmp_path):
    write_tiff(tmp_path / "a.tif", np.full((8, 6, 1), 5, np.uint16))
    above = np.zeros((8, 6, 1), np.uint16)
    above[:2] = 9
    write_tiff(tmp_path / "b.tif", above)
    pieces = source("a.tif") + source("b.tif", extra="<NODATA>0</NODATA>", tag="Complex")
    scene = open_scene(write_vrt(tmp_path, vrt(pieces)))
    assert_array_equal(scene.values[:2], 9)
    assert_array_equal(scene.values[2:], 5)


def test_vrt_scene_can_be_sent_to_a_worker(tmp_path):
    write_tiff(tmp_path / "a.tif")
    scene = open_scene(write_vrt(tmp_path, vrt(source(), bands=3)))
    assert_array_equal(pickle.loads(pickle.dumps(scene)).values, CUBE)


OTHER = tuple(
    f'<SimpleSource><SourceFilename relativeToVRT="{r}">{name}</SourceFilename></SimpleSource>'
    for r, name in (
        ("0", "a.tif"), ("1", "../a.tif"), ("1", "/etc/passwd"), ("1", "sub/a.tif"),
        ("1", "/vsicurl/http://127.0.0.1/a.tif"), ("1", "http://127.0.0.1/a.tif"), ("1", ".."),
        ("1", "GTIFF_DIR:1:a.tif"), ("1", "..\\a.tif"), ("1", ""),
    )
)  # fmt: skip


@pytest.mark.parametrize("sources", OTHER)
def test_vrt_follows_no_name_but_that_of_a_file_beside_it(tmp_path, sources):
    write_tiff(tmp_path / "a.tif")
    with pytest.raises(SceneError, match="expected files beside the VRT by their names alone"):
        open_scene(write_vrt(tmp_path, vrt(sources)))


@pytest.mark.parametrize(("text", "named"), [
    (vrt(source(extra="<LUT>0:0</LUT>", tag="Complex")), "LUT"),
    (vrt(source(extra="<OpenOptions/>")), "OpenOptions"),
    (vrt(source().replace("SimpleSource", "KernelFilteredSource")), "KernelFilteredSource"),
    (vrt(source(), extra="<PixelFunctionType>p</PixelFunctionType>"), "PixelFunctionType"),
    (vrt(source(), outer="<GDALWarpOptions/>"), "GDALWarpOptions"),
    (vrt(source()).replace("<VRTDataset", '<VRTDataset subClass="VRTWarpedDataset"'), "VRTWarped"),
    (vrt(source()).replace("<VRTRasterBand", '<VRTRasterBand subClass="VRTRawRasterBand"'), "VRTR"),
    (vrt(source(), outer="<MaskBand/>"), "MaskBand"),
])  # fmt: skip
def test_vrt_that_does_more_than_put_files_together_is_refused(tmp_path, text, named):
    write_tiff(tmp_path / "a.tif")
    with pytest.raises(SceneError, match=f"only puts files together, it has '{named}"):
        open_scene(write_vrt(tmp_path, text))


@pytest.mark.parametrize(("text", "match"), [
    (vrt(source(band=4)), "cannot be read"),
    (vrt(source(), kind="CFloat32"), "expected integer or real values"),
    (vrt(source("none.tif")), "no such file"),
    (vrt(source("scene.vrt")), "expected a TIFF or JPEG 2000 file"),
    (vrt("", size=(4_000_000, 4_000_000)), "declares .* more than 200:1"),
    (vrt(source(), size=(9_000_000, 9_000_000)), "declares"),
])  # fmt: skip
def test_vrt_that_promises_what_its_files_do_not_hold_is_refused(tmp_path, text, match):
    write_tiff(tmp_path / "a.tif")
    with pytest.raises(SceneError, match=match):
        open_scene(write_vrt(tmp_path, text)).load()


def test_vrt_file_that_is_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    write_tiff(tmp_path / "out.tif")
    (tmp_path / "in" / "a.tif").symlink_to(tmp_path / "out.tif")
    with pytest.raises(SceneError, match="is a link that leads out of the folder"):
        open_scene(write_vrt(tmp_path / "in", vrt(source())))


# One file for each band


def test_folder_of_bands_is_one_scene_in_the_natural_order_of_names(tmp_path):
    for b, name in ((0, "s_B1.tif"), (1, "s_B2.tif"), (2, "s_B10.tif")):
        write_tiff(tmp_path / name, CUBE[..., [b]], nodata=np.iinfo("u2").max)
    (tmp_path / "notes.txt").write_text("not a band")
    scene = open_scene(tmp_path)
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(2, 5), x=[3, 1], band=[2, 0]).values,
                       CUBE[2:5][:, [3, 1]][..., [2, 0]])  # fmt: skip
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM
    assert scene.rio.nodata == 65535


def test_bands_are_ordered_by_wavelength_where_every_file_tells_one(tmp_path):
    for b, (name, nm) in enumerate((("c.tif", "450"), ("a.tif", "550"), ("b.tif", "650"))):
        write_tiff(tmp_path / name, CUBE[..., [b]], [{"wavelength": nm}])
    scene = open_scene(tmp_path)
    assert_array_equal(scene.wavelength, [450, 550, 650])
    assert_array_equal(scene.values, CUBE)


def test_list_of_files_is_one_scene_in_the_order_given(tmp_path):
    files = [write_tiff(tmp_path / f"{n}.tif", CUBE[..., [b]]) for b, n in enumerate("cab")]
    assert_array_equal(open_scene(files).values, CUBE)
    assert_array_equal(open_scene([str(f) for f in reversed(files)]).values, CUBE[..., ::-1])


@pytest.mark.parametrize(("options", "what"), [
    ({"cube": CUBE[:4, :, :1]}, "size"), ({"cube": CUBE[..., :1].astype("f4")}, "type"),
    ({"crs": "EPSG:32632"}, "reference system"), ({"transform": UTM * Affine.scale(2)}, "place"),
    ({"nodata": 3}, "nodata value"),
])  # fmt: skip
def test_bands_on_different_grids_are_refused(tmp_path, options, what):
    write_tiff(tmp_path / "b1.tif", CUBE[..., :1])
    write_tiff(tmp_path / "b2.tif", **{"cube": CUBE[..., 1:2], **options})
    with pytest.raises(SceneError, match=f"expected one {what}.* in all files of the scene"):
        open_scene(tmp_path)


def test_folder_with_a_file_of_several_bands_names_it(tmp_path):
    write_tiff(tmp_path / "b1.tif", CUBE[..., :1])
    write_tiff(tmp_path / "rgb.tif")
    with pytest.raises(SceneError, match=r"rgb.tif: expected files of one band each, got 3 bands"):
        open_scene(tmp_path)


# JPEG 2000


def write_jp2(path, cube=CUBE, **options):
    lossless = {"QUALITY": "100", "REVERSIBLE": "YES"}
    return write_tiff(path, cube, driver="JP2OpenJPEG", **lossless, **options)


def test_jpeg2000_is_read_with_its_place(tmp_path):
    scene = open_scene(write_jp2(tmp_path / "s.jp2"))
    assert_array_equal(scene.values, CUBE)
    assert_array_equal(scene.isel(y=slice(2, 5), band=[1]).values, CUBE[2:5][..., [1]])
    assert scene.rio.crs.to_epsg() == 32633
    assert scene.rio.transform() == UTM


def test_jpeg2000_whose_gml_names_an_address_is_refused(tmp_path):
    path = write_jp2(tmp_path / "s.jp2")
    content = path.read_bytes()
    name = re.search(rb'srsName="urn:ogc:def:crs:EPSG::32633"', content)[0]
    evil = b'srsName="http://127.0.0.1:1/x"'
    path.write_bytes(content.replace(name, evil + b" " * (len(name) - len(evil))))
    with pytest.raises(SceneError, match=r"its metadata name 'http://127.0.0.1:1/x'"):
        open_scene(path)


@pytest.mark.parametrize("keep", [20, 60, 120, 300])
def test_jpeg2000_cut_short_is_refused(tmp_path, keep):
    path = write_jp2(tmp_path / "s.jp2")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(SceneError, match=r"damaged|header|GDAL cannot read"):
        open_scene(path).load()
