"""Points and polygons as labels: they fall on their pixels, and bad input is explained."""

import json
import sys

import numpy as np
import pytest
from affine import Affine
from rasterio.warp import transform as transform_points
from rasterio.warp import transform_geom

from polyad.errors import SceneError, SceneMismatch
from polyad.scene.raster.grid import move
from polyad.scene.read import rasterize
from polyad.scene.read.labels import open_labels
from tests.scene.read.small_scenes import IDS, NORTH_UP, UTM, names_of, plain_scene, scene, text

ROTATED = Affine(17.3, 10.0, 500_000.0, 10.0, -17.3, 5_000_000.0)
CURVE = {"type": "CircularString", "coordinates": [[0, 0], [1, 1], [2, 0]]}
FAR = {"type": "Point", "coordinates": [-100.0, 20.0]}
EMPTY = {"type": "Polygon", "coordinates": []}
KEYED = {"type": "Point", "coordinates": {"x": 1}}
HUGE = {"type": "Point", "coordinates": [1e308, -1e308]}
BROKEN = {"type": "Polygon", "coordinates": [[["a", 0], [1, 1]]]}


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


def test_polygons_label_the_pixels_whose_centers_they_hold(tmp_path):
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "row,col,class\n9,1,2",
            r"line 2: row 9, col .* lies outside the scene of 3 rows",
        ),
        (
            "x,y,class\n0,0,2",
            r"they reach from \(0, 0\) to \(0, 0\), the scene from",
        ),
        ("lon,lat,class\n1e9,4,2", "outside the scene"),
        ("0,1,2\n", r"expected the columns 'row,col,class', .* got '0,1,2'"),
        ("row,col\n0,1", "expected the columns"),
        ("row,col,class\n0,,2", "line 2: expected whole numbers for row and col, got '0' and ''"),
        (
            "row,col,class\n0.5,1,2",
            r"expected whole numbers for row and col, got '0.5' and '1'; name map coord",
        ),
        ("row,col,class\n0,1,", "line 2: no class"),
        (
            "row,col,class\n0,1,70000",
            "unknown class '70000'; expected class names or whole numbers from 1 to",
        ),
        ("row,col,class\n0,1,-1", "unknown class '-1'; expected class names or whole numbers"),
        (
            "row,col,class\n0,1,1\n0,1," + "9" * 5000,
            "line 3: unknown class '9{40}'; expected class names",
        ),
        ("row,col,class\n" + "9" * 5000 + ",1,1", "line 2: expected whole numbers for row and col"),
        ("row,col,class\n1e300,1,1", "line 2: row 1e\\+300, col 1 lies outside"),
        ("row,col,class\nnan,inf,1", "line 2: expected whole numbers"),
        (
            "x,y,class\nnan,inf,1",
            "they have no place on its map, the scene from",
        ),
        ("x,y,class\n1e308,-1e308,1", "all 1 labels lie outside the scene"),
        ("row,col,class\n0", "line 2: expected whole numbers for row and col, got '0' and ''"),
        ("row,col,class\n0,0," + "x" * 200_000, "line 2: not a CSV"),
        ("row,col,class\n0,1,2.5\n0,0,corn", "unknown class '2.5'"),
        ("row,col,class\n", "no label in the file"),
        ("row,col,class\n0,0,0\n", "no pixel is labeled"),
        ("", "the file is empty"),
    ],
)
def test_bad_csv_gets_one_clear_sentence(tmp_path, content, message):
    with pytest.raises(SceneError, match=message):
        open_labels(text(tmp_path / "a.csv", content), scene())


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


def test_a_line_of_a_csv_costs_two_calls(tmp_path):
    """A dictionary and a geometry for each line would be more."""

    def calls(rows):
        lines = [f"{k // 30},{k % 30},{k % 7 + 1}" for k in range(30 * rows)]
        path = text(tmp_path / f"{rows}.csv", "\n".join(["row,col,class", *lines]))
        given, made = plain_scene((rows, 30)), []
        sys.setprofile(lambda _, event, __: made.append(event) if event == "call" else None)
        try:
            open_labels(path, given)
        finally:
            sys.setprofile(None)
        return len(made)

    calls(1)  # imports
    fewer, more = calls(10), calls(20)
    assert more - fewer <= 2 * 300


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON file"),
        ("[" * 100_000, "not a JSON file"),
        ("[1]", "expected a GeoJSON FeatureCollection"),
        ('{"type": "FeatureCollection", "features": []}', "no label in the file"),
        (json.dumps(feature(FAR, label=1)), "all 1 labels lie outside the scene: they reach from"),
        (
            json.dumps(feature(CURVE, label=1)),
            "expected points, lines or polygons, got CircularStr",
        ),
        (json.dumps(feature(None, label=1)), "expected points, lines or polygons, got no geometry"),
        (json.dumps(feature(BROKEN, label=1)), "damaged coordinates of its Polygon"),
        (json.dumps(feature(EMPTY, label=1)), "damaged coordinates of its Polygon"),
        (json.dumps(feature(KEYED, label=1)), "damaged coordinates of its Point"),
        (json.dumps(feature(HUGE, label=1)), "all 1 labels lie outside the scene"),
        (json.dumps(feature(FAR)), "no class, expected one of class, label"),
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
    with pytest.raises(SceneError, match=r"need the scene's grid"):
        open_labels(path)
    with pytest.raises(SceneMismatch, match="the scene has no georeference; give labels as a CSV"):
        open_labels(path, plain_scene())
    with pytest.raises(SceneMismatch, match="the scene has no reference system"):
        open_labels(path, scene(crs=None))


def test_polygons_that_would_take_minutes_to_draw_are_refused(tmp_path, monkeypatch):
    ring = [move(NORTH_UP, *at) for at in ((0, 0), (4, 0), (4, 3), (0, 3), (0, 0))]
    shape = {"type": "Polygon", "coordinates": [ring]}
    crs = {"type": "name", "properties": {"name": UTM}}
    document = {"type": "Feature", "properties": {"class": 1}, "geometry": shape, "crs": crs}
    path = text(tmp_path / "a.geojson", json.dumps(document))
    assert (open_labels(path, scene()).values == 1).all()
    monkeypatch.setattr(rasterize, "MAX_WORK", 31)  # 5 corners; 3 rows, each with 4 pixels and them
    with pytest.raises(SceneError, match=r"feature 1: .* take too long to draw"):
        open_labels(path, scene())


def test_a_point_that_has_no_place_in_the_scene_is_found_by_halving(tmp_path, monkeypatch):
    calls = []

    def transform(source, target, xs, ys):
        calls.append(len(xs))
        return transform_points(source, target, xs, ys)

    monkeypatch.setattr(rasterize, "transform_points", transform)
    xs, ys = transform_points(UTM, "EPSG:4326", [500_010.0], [4_999_990.0])
    lines = [f"{xs[0]},{ys[0]},1"] * 1000 + ["9,1e40,1"] + [f"{xs[0]},{ys[0]},1"] * 1000
    path = text(tmp_path / "a.csv", "\n".join(["lon,lat,class", *lines]))
    told = "1 of 2,001 labels lie outside the scene and are left out"
    with pytest.warns(UserWarning, match=told):
        assert open_labels(path, scene()).values[0, 0] == 1
    assert len(calls) < 30
