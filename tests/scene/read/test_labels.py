"""Label rasters of every kind: what was written comes back, and bad input is explained."""

import h5py
import numpy as np
import pytest
import rasterio
import scipy.io
import xarray as xr
from affine import Affine

from polyad.errors import BudgetExceeded, SceneError, SceneMismatch
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.raster.grid import grid_of
from polyad.scene.read.label_rasters import read_label_raster
from polyad.scene.read.labels import check_labels, drop_nodata, open_labels
from polyad.scene.read.scenes import scene_from_array
from polyad.scene.write.writers import MapWriter
from tests.scene.read.small_scenes import IDS, NORTH_UP, UTM, names_of, plain_scene, scene, text

CLASSES = [ClassInfo(1, "Corn", "#FFDD00"), ClassInfo(3, "Öats, wild", "#112233")]


def write_tiff(path, values=IDS, crs=UTM, transform=NORTH_UP, **profile):
    height, width = values.shape[-2:]
    bands = values.reshape(-1, height, width)
    size = {"height": height, "width": width, "count": len(bands), "dtype": values.dtype.name}
    with rasterio.open(
        path, "w", driver="GTiff", crs=crs, transform=transform, **size, **profile
    ) as dataset:
        dataset.write(bands)
    return path


def test_geotiff_class_map_comes_back_with_names_colors_and_georeference(tmp_path):
    with MapWriter(tmp_path / "m.tif", (3, 4), CLASSES, crs=UTM, transform=NORTH_UP) as out:
        out.write((slice(0, 3), slice(0, 4)), IDS)
    labels = open_labels(tmp_path / "m.tif", scene())
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.dtype == np.uint16
    assert labels.dims == ("y", "x")
    assert list(class_table(labels)) == CLASSES
    assert labels.rio.crs == UTM
    assert grid_of(labels).transform == NORTH_UP


def test_geotiff_names_are_read_from_the_aux_xml_alone(tmp_path):
    write_tiff(tmp_path / "m.tif")
    text(
        tmp_path / "m.tif.aux.xml",
        "<PAMDataset><PAMRasterBand band='1'><CategoryNames><Category>none</Category>"
        "<Category>Corn</Category><Category/><Category>Oats</Category></CategoryNames>"
        "</PAMRasterBand></PAMDataset>",
    )
    assert names_of(open_labels(tmp_path / "m.tif")) == {1: "Corn", 3: "Oats"}


def test_geotiff_names_and_colors_are_read_from_an_attribute_table(tmp_path):
    write_tiff(tmp_path / "m.tif")
    fields = "".join(
        f"<FieldDefn index='{k}'><Name>n</Name><Type>0</Type><Usage>{u}</Usage></FieldDefn>"
        for k, u in enumerate([5, 2, 6, 7, 8])
    )
    row = "<Row index='0'><F>3</F><F>Oats</F><F>17</F><F>34</F><F>51</F></Row>"
    table = f"<GDALRasterAttributeTable>{fields}{row}</GDALRasterAttributeTable>"
    text(
        tmp_path / "m.tif.aux.xml",
        f"<PAMDataset><PAMRasterBand band='1'>{table}</PAMRasterBand></PAMDataset>",
    )
    assert class_table(open_labels(tmp_path / "m.tif"))[1] == ClassInfo(3, "Oats", "#112233")


def test_palette_colors_are_kept_and_nodata_is_unlabeled(tmp_path):
    values = np.where(IDS == 0, 255, IDS).astype(np.uint8)
    write_tiff(tmp_path / "m.tif", values, nodata=255)
    with rasterio.open(tmp_path / "m.tif", "r+") as dataset:
        dataset.write_colormap(1, {1: (255, 221, 0, 255), 3: (17, 34, 51, 255)})
    labels = open_labels(tmp_path / "m.tif")
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.attrs["class_colors"] == ["#FFDD00", "#112233"]


def test_envi_classification_comes_back_with_names_and_colors(tmp_path):
    with MapWriter(tmp_path / "m.hdr", (3, 4), CLASSES, transform=NORTH_UP) as out:
        out.write((slice(None), slice(None)), IDS)
    for name in ("m.hdr", "m.img"):
        labels = open_labels(tmp_path / name, scene(crs=None))
        np.testing.assert_array_equal(labels.values, IDS)
        # An ENVI list cannot hold a comma: names as they are stand in a line of our own.
        assert names_of(labels) == {1: "Corn", 3: "Öats, wild"}
        assert labels.attrs["class_colors"] == ["#FFDD00", "#112233"]
        assert grid_of(labels).transform == NORTH_UP


def test_png_palette_and_gray_give_the_ids(tmp_path):
    image = pytest.importorskip("PIL.Image")
    gray = image.fromarray(IDS)
    gray.save(tmp_path / "gray.png")
    colored = image.new("P", IDS.shape[::-1])
    colored.putdata(IDS.ravel().tolist())
    colored.putpalette([0, 0, 0, 255, 221, 0, 9, 9, 9, 17, 34, 51])
    colored.save(tmp_path / "palette.png")
    np.testing.assert_array_equal(open_labels(tmp_path / "gray.png").values, IDS)
    labels = open_labels(tmp_path / "palette.png", scene())
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.attrs["class_colors"] == ["#FFDD00", "#112233"]
    assert labels.rio.crs == UTM  # taken over from the scene


def test_matlab_labels_are_found_beside_the_cube_and_by_key(tmp_path):
    values = {"cube": np.zeros((3, 4, 5)), "gt": IDS.astype(float), "scale": 2.0}
    scipy.io.savemat(tmp_path / "a.mat", values)
    np.testing.assert_array_equal(open_labels(tmp_path / "a.mat").values, IDS)
    scipy.io.savemat(tmp_path / "b.mat", values | {"pca": np.ones((7, 7))})
    np.testing.assert_array_equal(open_labels(f"{tmp_path / 'b.mat'}:gt").values, IDS)
    np.testing.assert_array_equal(open_labels(tmp_path / "b.mat", plain_scene()).values, IDS)
    with pytest.raises(SceneError, match=r"found 2: gt \(3, 4\), pca \(7, 7\); .* 'b.mat:gt'"):
        open_labels(tmp_path / "b.mat")
    with pytest.raises(SceneError, match=r"no numeric array 'nope'; it holds cube \(3, 4, 5\), gt"):
        open_labels(f"{tmp_path / 'b.mat'}:nope")


def test_matlab_73_labels_have_their_axes_put_right(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["gt"] = np.ascontiguousarray(IDS.T)  # as MATLAB writes them
    for given in (None, plain_scene()):
        np.testing.assert_array_equal(open_labels(tmp_path / "a.mat", given).values, IDS)
    with pytest.raises(SceneMismatch, match="scene's 9 rows and 4 columns, got 3 rows and 4 colum"):
        open_labels(tmp_path / "a.mat", plain_scene((9, 4)))


def test_npy_and_hdf_labels_come_back(tmp_path):
    np.save(tmp_path / "a.npy", IDS.astype(np.int64))
    np.testing.assert_array_equal(open_labels(tmp_path / "a.npy").values, IDS)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["maps/gt"] = IDS
        file["maps/gt"].attrs.update(flag_values=[1, 3], flag_meanings="corn oats")
        file["maps/other"] = IDS
    labels = open_labels(f"{tmp_path / 'a.nc'}:/maps/gt")
    np.testing.assert_array_equal(labels.values, IDS)
    assert names_of(labels) == {1: "corn", 3: "oats"}


def test_netcdf_written_by_xarray_keeps_classes(tmp_path):
    raster = with_classes(xr.DataArray(IDS, dims=("y", "x"), name="gt"), CLASSES)
    raster.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert list(class_table(open_labels(f"{tmp_path / 'a.nc'}:gt"))) == CLASSES


def test_known_scene_gives_its_ground_truth():
    labels = open_labels("indian-pines")
    assert int((labels > 0).sum()) == 10249
    with pytest.raises(SceneMismatch, match="145 rows and 145 columns; cut or resample"):
        open_labels("indian-pines", plain_scene())


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"values": IDS.T}, "scene's 3 rows and 4 columns, got 4 rows and 3 colu"),
        ({"crs": "EPSG:32633"}, "reference system EPSG:32632, got EPSG:32633; reproj"),
        (
            {"transform": Affine(20.0, 0.0, 500_010.0, 0.0, -20.0, 5_000_000.0)},
            r"\(500000, 5000000\), got one at \(500010, .* 0.5 pix",
        ),
    ],
)
def test_labels_of_another_size_system_or_place_are_refused(tmp_path, about, message):
    write_tiff(tmp_path / "a.tif", **about)
    with pytest.raises(SceneMismatch, match=message):
        open_labels(tmp_path / "a.tif", scene())


def test_labels_need_a_labeled_pixel_and_no_georeference():
    with pytest.raises(SceneError, match="no pixel is labeled"):
        check_labels(scene(), xr.DataArray(IDS * 0, dims=("y", "x")))
    check_labels(scene(), xr.DataArray(IDS, dims=("y", "x")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[1.5, 0]]), "got 1.5 at row 0, col 0; is this the image"),
        (np.array([[0, -1]]), "got -1 at row 0, col 1"),
        (np.array([[70000]]), "got 70000"),
        (np.zeros((2, 2, 2)), r"a 2-D raster of class ids, got shape \(2, 2, 2\)"),
        (np.array([["a"]]), "of type <U1"),
    ],
)
def test_values_that_are_no_class_ids_are_named(tmp_path, values, message):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(SceneError, match=message):
        open_labels(tmp_path / "a.npy")


def test_rgb_and_other_kinds_are_refused(tmp_path):
    write_tiff(tmp_path / "rgb.tif", np.ones((3, 3, 4), dtype=np.uint8))
    with pytest.raises(SceneError, match=r"one band of class ids .* got 3 bands; if they are col"):
        open_labels(tmp_path / "rgb.tif")
    with pytest.raises(SceneError, match=r"unsupported format of labels '.docx'"):
        open_labels(text(tmp_path / "a.docx", "x"))
    with pytest.raises(SceneError, match="no such file"):
        open_labels(tmp_path / "nowhere.tif")
    with pytest.raises(SceneError, match=r"has one raster and no key, got ':gt'"):
        open_labels(f"{tmp_path / 'rgb.tif'}:gt")


def test_hostile_files_are_refused(tmp_path):
    np.save(tmp_path / "pickle.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(SceneError, match="holds pickled Python objects"):
        open_labels(tmp_path / "pickle.npy")
    header = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1), dtype=np.uint8))
    with (tmp_path / "lying.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, {**header, "shape": (2**21, 2**22)})
    with pytest.raises(SceneError, match=r"header declares 8\.0 TiB"):
        open_labels(tmp_path / "lying.npy")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["gt"] = h5py.ExternalLink("/etc/other.h5", "x")
    with pytest.raises(SceneError, match="external link"):
        open_labels(f"{tmp_path / 'link.h5'}:gt")
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        file.create_dataset("gt", (2**22, 2**22), "u1", chunks=(64, 64))
    with pytest.raises(BudgetExceeded, match="a label raster must be read at once and takes 96"):
        open_labels(tmp_path / "huge.h5")
    vrt = "<VRTDataset rasterXSize='1' rasterYSize='1'></VRTDataset>"
    with pytest.raises(SceneError, match="expected a GTiff raster"):
        open_labels(text(tmp_path / "disguise.tif", vrt))


def test_damaged_files_are_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"gt": np.ones((50, 50))}, do_compression=True)
    data = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(data[: len(data) - 20])
    with pytest.raises(SceneError, match="truncated"):
        open_labels(tmp_path / "a.mat")
    scipy.io.savemat(tmp_path / "b.mat", {"gt": np.ones((50, 50))})
    data = bytearray((tmp_path / "b.mat").read_bytes())
    data[128 + 8 + 16 + 16 + 8] = 200  # the type number of the values, on which scipy crashes
    (tmp_path / "b.mat").write_bytes(data)
    with pytest.raises(SceneError, match="damaged"):
        open_labels(tmp_path / "b.mat")
    write_tiff(tmp_path / "a.tif", np.ones((500, 500), dtype=np.uint8))
    data = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(data[: len(data) // 2])
    with pytest.raises(SceneError, match="truncated"):
        open_labels(tmp_path / "a.tif")
    write_tiff(tmp_path / "b.tif")
    text(tmp_path / "b.tif.aux.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><PAMDataset/>")
    with pytest.raises(SceneError, match=r"metadata, .* has a DOCTYPE"):
        open_labels(tmp_path / "b.tif")


def test_a_nearly_empty_compressed_raster_is_no_bomb(tmp_path):
    values = np.zeros((6000, 6000), dtype=np.uint8)
    values[10, 20] = 5
    write_tiff(tmp_path / "a.tif", values, compress="deflate", tiled=True)
    assert (tmp_path / "a.tif").stat().st_size * 200 < values.nbytes
    assert open_labels(tmp_path / "a.tif").values[10, 20] == 5
    with pytest.raises(BudgetExceeded, match="the budget is"):
        read_label_raster(tmp_path / "a.tif", budget=1_000_000)


@pytest.mark.parametrize("name", ["a.tif", "a.npy", "a.csv", "a.geojson"])
def test_labels_of_every_kind_obey_the_budget(tmp_path, name):
    write_tiff(tmp_path / "a.tif", np.ones((100, 200), np.uint8))
    np.save(tmp_path / "a.npy", np.ones((100, 200), np.uint8))
    text(tmp_path / "a.csv", "row,col,class\n" + "0,0,1\n" * 1000)
    text(tmp_path / "a.geojson", '{"type": "FeatureCollection"}' + " " * 1000)
    with pytest.raises(BudgetExceeded, match="the budget is 1000 B"):
        open_labels(tmp_path / name, scene(shape=(100, 200)), max_bytes=1000)


def test_labels_where_the_scene_has_no_data_are_dropped():
    values = np.ones((3, 4, 2), dtype=np.int16)
    values[0, 1, 1] = -9
    labels = with_classes(xr.DataArray(IDS, dims=("y", "x")), CLASSES)
    kept = drop_nodata(scene_from_array(values, nodata=-9), labels)
    assert kept.values[0, 1] == 0
    assert (kept.values != IDS).sum() == 1
    assert list(class_table(kept)) == CLASSES


@pytest.mark.parametrize("values", [[[1.0, np.nan]], [[1, -1]], [[1, 70000]], [[True, False]]])
def test_labels_that_are_no_class_ids_are_refused_in_one_sentence(values):
    scene = xr.DataArray(np.ones((1, 2, 3)), dims=("y", "x", "band"))
    with pytest.raises(SceneError, match="whole numbers from 0"):
        check_labels(scene, xr.DataArray(np.array(values), dims=("y", "x")))
