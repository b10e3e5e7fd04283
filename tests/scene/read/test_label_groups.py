"""Groups of labels: by a field of any kind of file, by polygons, over several files; refusals."""

import json

import numpy as np
import pytest
import xarray as xr
from affine import Affine

from attacks import vectors
from polyad.errors import SceneError, SceneMismatch
from polyad.scene import merge_labels, open_labels, with_groups
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import describe


@pytest.fixture
def scene():
    cube = xr.DataArray(np.zeros((10, 12, 3), np.float32), dims=("y", "x", "band"))
    return describe(cube, crs="EPSG:32633", transform=Affine(10, 0, 5e5, 0, -10, 4e6))


def feature(kind, corners, **properties):
    places = [[5e5 + 10 * x, 4e6 - 10 * y] for x, y in corners]
    coordinates = {"Point": places[0], "LineString": places, "Polygon": [places]}[kind]
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def square(x, y, **properties):
    return feature(
        "Polygon", [(x, y), (x + 3, y), (x + 3, y + 3), (x, y + 3), (x, y)], **properties
    )


def write(path, *features):
    crs = {"type": "name", "properties": {"name": "EPSG:32633"}}
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    return path


def test_each_polygon_is_a_group_and_a_point_is_none(scene, tmp_path):
    path = write(
        tmp_path / "l.geojson",
        square(0, 0, **{"class": "corn"}),
        square(6, 0, **{"class": "corn"}),
        feature("Point", [(0.5, 8.5)], **{"class": "soil"}),
    )
    labels = open_labels(path, scene)
    assert labels["group"].attrs["by"] == "polygons"
    assert [len(np.unique(labels["group"].values[labels.values == k])) for k in (1, 2)] == [2, 1]
    assert labels["group"].values[8, 0] == 0
    found = Labels.of(labels).groups_at(np.argwhere(labels.values > 0))
    assert sorted(np.bincount(found.ids)[np.unique(found.ids)]) == [1, 9, 9]


def test_labels_of_points_alone_have_no_groups(scene, tmp_path):
    (tmp_path / "l.csv").write_text("row,col,class\n1,1,corn\n2,2,soil\n")
    assert "group" not in open_labels(tmp_path / "l.csv", scene).coords


@pytest.mark.parametrize("field", ["plot", "PLOT"])
def test_a_column_of_a_csv_groups_its_lines(scene, tmp_path, field):
    (tmp_path / "l.csv").write_text("row,col,class,Plot\n1,1,corn,a\n2,2,soil,b\n3,3,soil,a\n")
    groups = open_labels(tmp_path / "l.csv", scene, groups=field)["group"]
    assert groups.values[[1, 2, 3], [1, 2, 3]].tolist() == [1, 2, 1]
    assert (groups.attrs["by"], groups.attrs["names"]) == ("groups", ["a", "b"])


def test_a_property_of_features_groups_polygons(scene, tmp_path):
    day = [square(0, 0, what="corn", day=1), square(6, 0, what="corn", day=1)]
    path = write(tmp_path / "l.geojson", *day, square(0, 6, what="soil", day=2.0))
    labels = open_labels(path, scene, field="what", groups="day")
    assert np.unique(labels["group"].values[labels.values == 1]).tolist() == [1]
    assert labels["group"].attrs["names"] == ["1", "2"]


def test_a_field_of_a_geopackage_groups_its_features(tmp_path):
    pytest.importorskip("pyogrio")
    shapes = [vectors.polygon(vectors.box(x, 0.8, x + 2, 2.2)) for x in (0.8, 3.8)]
    fields = {"land": ["corn", "soil"], "plot": ["p", "q"]}
    path = vectors.write(tmp_path / "l.gpkg", shapes, fields)
    labels = open_labels(path, vectors.scene(), field="land", groups="Plot")
    assert labels["group"].attrs["names"] == ["p", "q"]


def test_groups_of_one_name_in_two_files_are_one_and_their_polygons_are_not(scene, tmp_path):
    one = write(tmp_path / "1.geojson", square(0, 0, **{"class": "corn"}, plot="x"))
    two = write(
        tmp_path / "2.geojson",
        square(6, 0, **{"class": "soil"}, plot="y"),
        square(6, 6, **{"class": "soil"}, plot="x"),
    )
    labels = open_labels([one, two], scene, groups="plot")
    places = [(1, 1), (1, 7), (7, 7)]
    assert [int(labels["group"].values[p]) for p in places] == [1, 2, 1]
    drawn = open_labels([one, two], scene)["group"].values
    assert len({int(drawn[p]) for p in places}) == 3


def test_groups_stay_with_labels_whose_classes_are_merged(scene, tmp_path):
    path = write(
        tmp_path / "l.geojson", square(0, 0, **{"class": "a"}), square(6, 0, **{"class": "b"})
    )
    assert "group" in merge_labels(open_labels(path, scene), "a+b=c").coords


@pytest.mark.parametrize(
    ("text", "field", "told"),
    [
        ("row,col,class,plot\n1,1,a,x\n2,2,b,y\n", "day", "there is no field 'day' to group"),
        ("row,col,class,plot\n1,1,a,x\n2,2,b,x\n", "plot", "all 2 labels are of one group"),
        (
            "row,col,class,plot\n1,1,a,x\n2,2,b,\n",
            "plot",
            "1 labels have no value in the group field 'plot'",
        ),
        ("row,col,class,plot\n1,1,a,x\n2,2,b,nan\n", "plot", "the first in line 3"),
    ],
)
def test_a_field_that_groups_nothing_is_refused(scene, tmp_path, text, field, told):
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(SceneError, match=told):
        open_labels(tmp_path / "l.csv", scene, groups=field)


def test_a_property_that_is_missing_is_refused_with_those_there_are(scene, tmp_path):
    path = write(tmp_path / "l.geojson", square(0, 0, **{"class": "a"}, plot="x"))
    with pytest.raises(SceneError, match="no field 'day' to group labels by; it has class, plot"):
        open_labels(path, scene, groups="day")


def test_a_raster_has_no_field_to_group_by(scene, tmp_path):
    np.save(tmp_path / "l.npy", np.ones((10, 12), np.uint8))
    with pytest.raises(SceneError, match="a raster has no field 'plot' to group labels by"):
        open_labels(tmp_path / "l.npy", scene, groups="plot")


@pytest.mark.parametrize(
    ("groups", "kind", "told"),
    [
        ([[1, 2]], SceneMismatch, "groups must cover the labels' 1 rows and 3 columns"),
        ([[1.0, np.nan, 2]], SceneError, "groups must be whole numbers"),
        ([[1, 0, 2]], SceneError, "1 of 3 labeled pixels have no group"),
        ([[4, 4, 4]], SceneError, "all 3 labels are of one group"),
    ],
)
def test_groups_that_are_none_are_refused(groups, kind, told):
    labels = xr.DataArray([[1, 1, 2]], dims=("y", "x"))
    with pytest.raises(kind, match=told):
        with_groups(labels, np.array(groups))
