"""Labels of every kind: what was written comes back, and bad input is explained."""

import csv
import json
import time

import h5py
import numpy as np
import pytest
import rasterio
import scipy.io
import xarray as xr
from affine import Affine
from rasterio.warp import transform as transform_points
from rasterio.warp import transform_geom

from polyad.atomic import replacing_together
from polyad.errors import BudgetExceeded, SceneError, SceneMismatch
from polyad.scene import label_vectors, marks
from polyad.scene.classes import ClassInfo, class_table, with_classes
from polyad.scene.envi_map import add_envi_map
from polyad.scene.geotiff_map import MapWriter
from polyad.scene.grid import grid_of, move
from polyad.scene.label_rasters import read_label_raster
from polyad.scene.labels import check_labels, drop_nodata, open_labels
from polyad.scene.readers import scene_from_array

UTM = "EPSG:32632"
NORTH_UP = Affine(20.0, 0.0, 500_000.0, 0.0, -20.0, 5_000_000.0)
ROTATED = Affine(17.3, 10.0, 500_000.0, 10.0, -17.3, 5_000_000.0)
CLASSES = [ClassInfo(1, "Corn", "#FFDD00"), ClassInfo(3, "Öats, wild", "#112233")]
IDS = np.array([[0, 1, 1, 3], [0, 0, 3, 3], [1, 0, 0, 0]], dtype=np.uint8)


def scene(transform=NORTH_UP, crs=UTM, shape=(3, 4)):
    return scene_from_array(np.ones((*shape, 2)), crs=crs, transform=transform)


def plain_scene(shape=(3, 4)):
    return scene_from_array(np.ones((*shape, 2)))


def write_tiff(path, values=IDS, crs=UTM, transform=NORTH_UP, **profile):
    height, width = values.shape[-2:]
    bands = values.reshape(-1, height, width)
    size = {"height": height, "width": width, "count": len(bands), "dtype": values.dtype.name}
    with rasterio.open(
        path, "w", driver="GTiff", crs=crs, transform=transform, **size, **profile
    ) as dataset:
        dataset.write(bands)
    return path


def text(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def names_of(labels):
    return {info.value: info.name for info in class_table(labels)}


# --- rasters ---------------------------------------------------------------------------------


def test_geotiff_class_map_comes_back_with_names_colours_and_georeference(tmp_path):
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


def test_geotiff_names_and_colours_are_read_from_an_attribute_table(tmp_path):
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


def test_palette_colours_are_kept_and_nodata_is_unlabelled(tmp_path):
    values = np.where(IDS == 0, 255, IDS).astype(np.uint8)
    write_tiff(tmp_path / "m.tif", values, nodata=255)
    with rasterio.open(tmp_path / "m.tif", "r+") as dataset:
        dataset.write_colormap(1, {1: (255, 221, 0, 255), 3: (17, 34, 51, 255)})
    labels = open_labels(tmp_path / "m.tif")
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.attrs["class_colors"] == ["#FFDD00", "#112233"]


def test_envi_classification_comes_back_with_names_and_colours(tmp_path):
    with replacing_together() as outputs:
        add_envi_map(outputs, tmp_path / "m.hdr", (3, 4), CLASSES, [IDS], transform=NORTH_UP)
    for name in ("m.hdr", "m.img"):
        labels = open_labels(tmp_path / name, scene(crs=None))
        np.testing.assert_array_equal(labels.values, IDS)
        # An ENVI list cannot hold a comma: its writer puts a semicolon.
        assert names_of(labels) == {1: "Corn", 3: "Öats; wild"}
        assert labels.attrs["class_colors"] == ["#FFDD00", "#112233"]
        assert grid_of(labels).transform == NORTH_UP


def test_png_palette_and_grey_give_the_ids(tmp_path):
    image = pytest.importorskip("PIL.Image")
    grey = image.fromarray(IDS)
    grey.save(tmp_path / "grey.png")
    colored = image.new("P", IDS.shape[::-1])
    colored.putdata(IDS.ravel().tolist())
    colored.putpalette([0, 0, 0, 255, 221, 0, 9, 9, 9, 17, 34, 51])
    colored.save(tmp_path / "palette.png")
    np.testing.assert_array_equal(open_labels(tmp_path / "grey.png").values, IDS)
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


# --- points and polygons ---------------------------------------------------------------------


def test_csv_of_rows_and_columns(tmp_path):
    lines = ["row,col,class"] + [f"{r},{c},{IDS[r, c]}" for r, c in np.argwhere(IDS)]
    labels = open_labels(text(tmp_path / "a.csv", "\n".join(lines)), scene())
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.rio.crs == UTM


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED])
def test_csv_of_map_coordinates_falls_into_the_pixel_it_names(tmp_path, transform):
    lines = ["x;y;class;name"]
    for r, c in np.argwhere(IDS):
        x, y = _at(transform, c + 0.9, r + 0.1)
        lines.append(f"{x};{y};{IDS[r, c]};{'Corn' if IDS[r, c] == 1 else 'Oats'}")
    labels = open_labels(text(tmp_path / "a.csv", "\n".join(lines)), scene(transform))
    np.testing.assert_array_equal(labels.values, IDS)
    assert names_of(labels) == {1: "Corn", 3: "Oats"}


def test_csv_of_longitude_and_latitude_is_reprojected(tmp_path):
    lines = ["lon,lat,class"]
    for r, c in np.argwhere(IDS):
        x, y = _at(NORTH_UP, c + 0.5, r + 0.5)
        (lon,), (lat,) = transform_points(UTM, "EPSG:4326", [x], [y])
        lines.append(f"{lon},{lat},{IDS[r, c]}")
    labels = open_labels(text(tmp_path / "a.csv", "\n".join(lines)), scene())
    np.testing.assert_array_equal(labels.values, IDS)


def test_x_and_y_are_columns_and_rows_of_a_scene_without_georeference(tmp_path):
    labels = open_labels(text(tmp_path / "a.csv", "x,y,class\n3,1,2\n"), plain_scene())
    assert labels.values[1, 3] == 2
    assert labels.values.sum() == 2


def test_class_names_are_numbered_alphabetically(tmp_path):
    path = text(tmp_path / "a.csv", "row,col,class\n0,0,oats\n0,1,corn\n\n1,1,oats\n")
    labels = open_labels(path, scene())
    assert names_of(labels) == {1: "corn", 2: "oats"}
    assert labels.values[:2, :2].tolist() == [[2, 1], [0, 2]]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("lon,lat", "lon,lat"),
        ("Longitude,Latitude", "lon,lat"),
        ("LONG,LAT", "lon,lat"),
        ("Easting,Northing", "x,y"),
        ("column,row", "col,row"),
    ],
)
def test_columns_may_be_called_by_their_long_names(tmp_path, given, wanted):
    x, y = _at(NORTH_UP, 2.5, 1.5)
    if wanted == "lon,lat":
        (x,), (y,) = transform_points(UTM, "EPSG:4326", [x], [y])
    if wanted == "col,row":
        x, y = 2, 1
    path = text(tmp_path / "a.csv", f"{given},class\n{x!r},{y!r},3\n")
    labels = open_labels(path, scene())
    assert np.argwhere(labels.values).tolist() == [[1, 2]]


def geojson(path, features, crs=None):
    document = {"type": "FeatureCollection", "features": features}
    if crs:
        document["crs"] = {"type": "name", "properties": {"name": crs}}
    return text(path, json.dumps(document))


def feature(geometry, **properties):
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def box(left, top, right, bottom, transform=NORTH_UP):
    """A rectangle given in columns and rows, as a polygon on the map."""
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    return {"type": "Polygon", "coordinates": [[_at(transform, *c) for c in corners]]}


def _at(t, col, row):
    return t.a * col + t.b * row + t.c, t.d * col + t.e * row + t.f


@pytest.mark.parametrize(
    ("member", "crs"),
    [
        (None, "EPSG:4326"),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326"),
        ("urn:ogc:def:crs:EPSG::32633", "EPSG:32633"),
        ("EPSG:3857", "EPSG:3857"),
    ],
)
@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED])
def test_geojson_in_any_reference_system_falls_on_the_same_pixels(tmp_path, member, crs, transform):
    point = {"type": "Point", "coordinates": _at(transform, 3.5, 0.5)}
    many = {"type": "MultiPoint", "coordinates": [_at(transform, c + 0.5, 1.5) for c in (2, 3)]}
    shapes = [(box(0.8, 0.2, 2.9, 0.8, transform), 1), (point, 3), (many, 3)]
    shapes.append((box(0.1, 2.1, 0.9, 2.9, transform), 1))
    features = [
        feature(transform_geom(UTM, crs, shape), label=value, color="#ABCDEF")
        for shape, value in shapes
    ]
    labels = open_labels(geojson(tmp_path / "a.geojson", features, member), scene(transform))
    np.testing.assert_array_equal(labels.values, IDS)
    assert labels.attrs["class_colors"] == ["#ABCDEF", "#ABCDEF"]


def test_polygons_label_the_pixels_whose_centres_they_hold(tmp_path):
    hole = [list(reversed(box(1.1, 1.1, 1.9, 1.9)["coordinates"][0]))]
    shape = box(0, 0, 3, 3)
    shape["coordinates"] += hole
    path = geojson(tmp_path / "a.json", [feature(shape, **{"class": "Corn"})], UTM)
    labels = open_labels(path, scene())
    assert labels.values.tolist() == [[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0]]
    assert names_of(labels) == {1: "Corn"}


def test_a_polygon_smaller_than_a_pixel_labels_the_pixel_it_lies_in(tmp_path):
    path = geojson(tmp_path / "a.json", [feature(box(2.1, 1.1, 2.2, 1.2), id=4)], UTM)
    labels = open_labels(path, scene())
    assert np.argwhere(labels.values == 4).tolist() == [[1, 2]]


@pytest.mark.parametrize("far", [1e3, 1e9, -1e9, 1e300, -1e300])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_sliver_to_a_far_corner_labels_the_pixels_it_touches_without_a_walk(tmp_path, far, axis):
    ring = [[1.1, 1.1], [1.2, 1.2], [1.15, far], [1.1, 1.1]]
    ring = [corner[::-1] for corner in ring] if axis == 0 else ring
    document = feature({"type": "Polygon", "coordinates": [ring]}, label=1)
    document |= {"crs": {"properties": {"name": UTM}}}
    path = text(tmp_path / "a.json", json.dumps(document))
    labels = open_labels(path, scene(Affine.identity(), shape=(4, 4)))
    wanted = np.zeros((4, 4), int)
    wanted[1:, 1] = 1 if far > 0 else 0
    wanted[:2, 1] = 1 if far < 0 else wanted[:2, 1]
    np.testing.assert_array_equal(labels.values, wanted.T if axis == 0 else wanted)


def test_a_polygon_beyond_the_scene_labels_what_it_covers_of_it(tmp_path):
    outer = [[-1e6, -2e6], [1e6, -2e6], [1e6, 2.0], [-1e6, 2.0], [-1e6, -2e6]]
    hole = [[2.0, -9.0], [3.0, -9.0], [3.0, 9.0], [2.0, 9.0], [2.0, -9.0]]
    document = feature({"type": "Polygon", "coordinates": [outer, hole]}, label=1)
    document |= {"crs": {"properties": {"name": UTM}}}
    path = text(tmp_path / "a.json", json.dumps(document))
    labels = open_labels(path, scene(Affine.identity(), shape=(4, 4)))
    np.testing.assert_array_equal(labels.values[:2], [[1, 1, 0, 1]] * 2)
    assert not labels.values[2:, [0, 1, 3]].any()


def test_a_later_label_wins_over_an_earlier_one_with_a_warning(tmp_path):
    path = text(tmp_path / "a.csv", "row,col,class\n0,0,1\n0,0,2\n0,0,2\n")
    with pytest.warns(UserWarning, match="1 labels fall on pixels .* the first in line 3"):
        assert open_labels(path, scene()).values[0, 0] == 2


# --- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "row,col,class\n9,1,2",
            r"line 2: label '2' lies outside the scene of 3 rows .* row 9, col",
        ),
        ("x,y,class\n0,0,2", "line 2: label '2' lies outside the scene"),
        ("lon,lat,class\n1e9,4,2", "outside the scene"),
        ("0,1,2\n", r"first line must name the columns, wanted 'row,col,class', .* got '0,1,2'"),
        ("row,col\n0,1", "must name the columns"),
        ("row,col,class\n0,,2", "line 2: wanted numbers for row and col, got '0' and ''"),
        ("row,col,class\n0.5,1,2", r"whole numbers counted from 0, got 0.5 and 1; name map coord"),
        ("row,col,class\n0,1,", "line 2: no class"),
        (
            "row,col,class\n0,1,70000",
            "unknown class '70000'; wanted one of whole numbers from 1 to",
        ),
        ("row,col,class\n0,1,-1", "unknown class '-1'; wanted one of whole numbers"),
        ("row,col,class\n0,1,1\n0,1," + "9" * 5000, "line 3: unknown class '9{40}'; wanted one"),
        ("row,col,class\n" + "9" * 5000 + ",1,1", "line 2: row and col are whole numbers"),
        ("row,col,class\n1e300,1,1", "line 2: label '1' lies outside"),
        ("row,col,class\nnan,inf,1", "line 2: row and col are whole numbers"),
        ("x,y,class\nnan,inf,1", "line 2: label '1' lies outside"),
        ("x,y,class\n1e308,-1e308,1", "line 2: label '1' lies outside"),
        ("row,col,class\n0", "line 2: wanted numbers for row and col, got '0' and ''"),
        ("row,col,class\n0,0," + "x" * 200_000, "line 2: not a CSV"),
        ("row,col,class\n0,1,2.5\n0,0,corn", "unknown class '2.5'"),
        ("row,col,class\n", "no label in the file"),
        ("row,col,class\n0,0,0\n", "no pixel is labelled"),
        ("", "the file is empty"),
    ],
)
def test_bad_csv_gets_one_clear_sentence(tmp_path, content, message):
    with pytest.raises(SceneError, match=message):
        open_labels(text(tmp_path / "a.csv", content), scene())


LINE = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
FAR = {"type": "Point", "coordinates": [-100.0, 20.0]}
EMPTY = {"type": "Polygon", "coordinates": []}
KEYED = {"type": "Point", "coordinates": {"x": 1}}
HUGE = {"type": "Point", "coordinates": [1e308, -1e308]}
BROKEN = {"type": "Polygon", "coordinates": [[["a", 0], [1, 1]]]}


def test_many_points_are_drawn_as_one_by_one_in_the_order_of_the_file(tmp_path):
    rng = np.random.default_rng(0)
    marked = rng.integers([0, 0, 1], [12, 9, 5], (300, 3)).tolist()
    wanted, clashes = np.zeros((12, 9), int), []
    for line, (row, col, value) in enumerate(marked, start=2):  # the plain way
        if wanted[row, col] not in (0, value):
            clashes.append(line)
        wanted[row, col] = value
    path = text(
        tmp_path / "a.csv", "row,col,class\n" + "".join(f"{r},{c},{v}\n" for r, c, v in marked)
    )
    with pytest.warns(
        UserWarning, match=f"{len(clashes)} labels .* the first in line {clashes[0]};"
    ):
        labels = open_labels(path, plain_scene((12, 9)))
    np.testing.assert_array_equal(labels.values, wanted)


def test_a_csv_takes_few_times_as_long_as_splitting_its_lines(tmp_path):
    lines = [f"{k // 300},{k % 300},{k % 7 + 1}" for k in range(90_000)]
    path = text(tmp_path / "a.csv", "\n".join(["row,col,class", *lines]))
    given = plain_scene((300, 300))

    def seconds(work):
        begun = time.process_time()
        work()
        return time.process_time() - begun

    def split():
        with path.open(newline="") as file:
            return [[cell.strip() for cell in row] for row in csv.reader(file)]

    plain = min(seconds(split) for _ in range(3))
    read = min(seconds(lambda: open_labels(path, given)) for _ in range(3))
    assert read < 8 * plain  # a dictionary and a geometry for each line take twice as long


def test_points_and_polygons_are_drawn_in_the_order_of_the_file(tmp_path):
    field = {"type": "Polygon", "coordinates": [[[0, 0], [0, 3], [4, 3], [4, 0], [0, 0]]]}
    spot = {"type": "Point", "coordinates": [1.5, 1.5]}
    marks = [feature(spot, label=1), feature(field, label=2), feature(spot, label=3)]
    document = {"type": "FeatureCollection", "features": marks,
                "crs": {"properties": {"name": UTM}}}  # fmt: skip
    path = text(tmp_path / "a.json", json.dumps(document))
    with pytest.warns(UserWarning, match="2 labels .* the first in feature 2"):
        labels = open_labels(path, scene(Affine.identity()))
    wanted = np.full((3, 4), 2)
    wanted[1, 1] = 3
    np.testing.assert_array_equal(labels.values, wanted)


def test_a_point_without_a_place_in_the_scenes_projection_is_found_among_many(tmp_path):
    x, y = transform_points(UTM, "EPSG:4326", [500_010.0], [4_999_990.0])
    lines = [f"{x[0]},{y[0]},1"] * 40
    lines[17] = "1e9,4,1"
    path = text(tmp_path / "a.csv", "\n".join(["lon,lat,class", *lines]))
    with pytest.raises(SceneMismatch, match="line 19: label '1' lies outside"):
        open_labels(path, scene())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON file"),
        ("[" * 100_000, "not a JSON file"),
        ("[1]", "wanted a GeoJSON FeatureCollection"),
        ('{"type": "FeatureCollection", "features": []}', "no label in the file"),
        (json.dumps(feature(FAR, label=1)), "feature 1: label '1' lies outside the scene"),
        (json.dumps(feature(LINE, label=1)), "wanted points or polygons, got LineString; buffer"),
        (json.dumps(feature(None, label=1)), "wanted points or polygons, got no geometry"),
        (json.dumps(feature(BROKEN, label=1)), "damaged coordinates of its Polygon"),
        (json.dumps(feature(EMPTY, label=1)), "damaged coordinates of its Polygon"),
        (json.dumps(feature(KEYED, label=1)), "damaged coordinates of its Point"),
        (json.dumps(feature(HUGE, label=1)), "feature 1: label '1' lies outside the scene"),
        (json.dumps(feature(FAR, colour=1)), "no class, wanted a value for one of class, label"),
        (
            json.dumps(feature(FAR, label=1) | {"crs": {"properties": {"name": "EPSG:0"}}}),
            "reference system 'EPSG:0' is not known",
        ),
    ],
)
def test_bad_geojson_gets_one_clear_sentence(tmp_path, content, message):
    with pytest.raises(SceneError, match=message):
        open_labels(text(tmp_path / "a.geojson", content), scene())


def test_points_and_polygons_need_a_scene_with_a_place(tmp_path):
    path = geojson(tmp_path / "a.json", [feature(FAR, label=1)])
    with pytest.raises(SceneError, match=r"drawn onto a scene's grid; pass the scene"):
        open_labels(path)
    with pytest.raises(SceneMismatch, match="the scene has no georeference; give labels as a CSV"):
        open_labels(path, plain_scene())
    with pytest.raises(SceneMismatch, match="the scene does not say its reference system"):
        open_labels(path, scene(crs=None))


def test_labels_of_another_size_are_refused_before_they_are_read(tmp_path):
    np.save(tmp_path / "a.npy", IDS.T)
    with pytest.raises(SceneMismatch, match="scene's 3 rows and 4 columns, got 4 rows and 3 colu"):
        open_labels(tmp_path / "a.npy", scene())


def test_labels_in_another_reference_system_are_refused(tmp_path):
    write_tiff(tmp_path / "a.tif", crs="EPSG:32633")
    with pytest.raises(SceneMismatch, match="reference system EPSG:32632, got EPSG:32633; reproj"):
        open_labels(tmp_path / "a.tif", scene())


def test_labels_half_a_pixel_off_are_refused(tmp_path):
    shifted = Affine(20.0, 0.0, 500_010.0, 0.0, -20.0, 5_000_000.0)
    write_tiff(tmp_path / "a.tif", transform=shifted)
    with pytest.raises(
        SceneMismatch, match=r"\(500000, 5000000\), got one at \(500010, .* 0.5 pix"
    ):
        open_labels(tmp_path / "a.tif", scene())


def test_labels_without_a_labelled_pixel_are_refused():
    with pytest.raises(SceneError, match="no pixel is labelled"):
        check_labels(scene(), xr.DataArray(IDS * 0, dims=("y", "x")))


def test_labels_without_georeference_fit_a_scene_with_one():
    check_labels(scene(), xr.DataArray(IDS, dims=("y", "x")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[1.5, 0]]), "got 1.5 at row 0, col 0; is this the image"),
        (np.array([[0, -1]]), "got -1 at row 0, col 1"),
        (np.array([[70000]]), "got 70000"),
        (np.zeros((2, 2, 2)), r"a 2-D raster of class ids, got shape \(2, 2, 2\)"),
        (np.array([["a"]]), "of <U1"),
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
    with pytest.raises(SceneError, match=r"labels of kind '.docx' are not read"):
        open_labels(text(tmp_path / "a.docx", "x"))
    with pytest.raises(SceneError, match="no such file"):
        open_labels(tmp_path / "nowhere.tif")
    with pytest.raises(SceneError, match=r"has one raster and no key, got ':gt'"):
        open_labels(f"{tmp_path / 'rgb.tif'}:gt")


def test_hostile_files_are_refused(tmp_path):
    np.save(tmp_path / "pickle.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(SceneError, match="truncated or holds Python objects"):
        open_labels(tmp_path / "pickle.npy")
    header = np.lib.format.header_data_from_array_1_0(np.zeros((1, 1), dtype=np.uint8))
    with (tmp_path / "lying.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, {**header, "shape": (2**21, 2**22)})
    with pytest.raises(SceneError, match="wanted a plain NumPy array"):
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
    with pytest.raises(SceneError, match="wanted a GTiff raster"):
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
    with pytest.raises(SceneError, match="cannot be listed"):
        open_labels(tmp_path / "b.mat")
    write_tiff(tmp_path / "a.tif", np.ones((500, 500), dtype=np.uint8))
    data = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(data[: len(data) // 2])
    with pytest.raises(SceneError, match="truncated"):
        open_labels(tmp_path / "a.tif")
    write_tiff(tmp_path / "b.tif")
    text(tmp_path / "b.tif.aux.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><PAMDataset/>")
    with pytest.raises(SceneError, match="metadata in plain XML, got a DOCTYPE"):
        open_labels(tmp_path / "b.tif")


def test_a_nearly_empty_compressed_raster_is_no_bomb(tmp_path):
    values = np.zeros((6000, 6000), dtype=np.uint8)
    values[10, 20] = 5
    write_tiff(tmp_path / "a.tif", values, compress="deflate", tiled=True)
    assert (tmp_path / "a.tif").stat().st_size * 200 < values.nbytes
    assert open_labels(tmp_path / "a.tif").values[10, 20] == 5
    with pytest.raises(BudgetExceeded, match="the budget is"):
        read_label_raster(tmp_path / "a.tif", budget=1_000_000)


def test_polygons_that_would_take_minutes_to_draw_are_refused(tmp_path, monkeypatch):
    ring = [move(NORTH_UP, *at) for at in ((0, 0), (4, 0), (4, 3), (0, 3), (0, 0))]
    shape = {"type": "Polygon", "coordinates": [ring]}
    crs = {"type": "name", "properties": {"name": UTM}}
    document = {"type": "Feature", "properties": {"class": 1}, "geometry": shape, "crs": crs}
    path = text(tmp_path / "a.geojson", json.dumps(document))
    assert (open_labels(path, scene()).values == 1).all()
    monkeypatch.setattr(marks, "MAX_WORK", 31)  # 5 corners; 3 rows, each with 4 pixels and them
    with pytest.raises(SceneError, match=r"feature 1: its polygon .* take too long to draw"):
        open_labels(path, scene())


def test_a_point_that_has_no_place_in_the_scene_is_found_by_halving(tmp_path, monkeypatch):
    calls = []

    def transform(source, target, xs, ys):
        calls.append(len(xs))
        return transform_points(source, target, xs, ys)

    monkeypatch.setattr(label_vectors, "transform_points", transform)
    xs, ys = transform_points(UTM, "EPSG:4326", [500_010.0], [4_999_990.0])
    lines = [f"{xs[0]},{ys[0]},1"] * 1000 + ["9,1e40,1"] + [f"{xs[0]},{ys[0]},1"] * 1000
    path = text(tmp_path / "a.csv", "\n".join(["lon,lat,class", *lines]))
    with pytest.raises(SceneMismatch, match="line 1002: label '1' lies outside"):
        open_labels(path, scene())
    assert len(calls) < 30


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
