"""Labels from GeoPackage, Shapefile, FlatGeobuf and KML: on their pixels, with their classes."""

import importlib.util
import shutil
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest
from rasterio.warp import transform as transform_points

from attacks.vectors import ENDINGS, at, box, line, multi, point, polygon, scene, write
from polyad.errors import BudgetExceeded, SceneError, SceneMismatch
from polyad.scene.raster.classes import class_table
from polyad.scene.read.formats.kinds import vector_kind
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

pytest.importorskip("pyogrio", reason="vector files are read with polyad[vector]")

POINTS = [point(*at(0.5, 0.5)), point(*at(3.5, 1.5)), point(*at(7.5, 5.5)), point(*at(1.5, 2.5))]
CLASSES = ["tree", "water", "tree", "soil"]
IDS = {"soil": 1, "tree": 2, "water": 3}


def drawn(labels):
    """Return {(row, col): name} of labeled pixels."""
    names = {c.value: c.name for c in class_table(labels)}
    return {
        (int(r), int(c)): names[int(labels.values[r, c])] for r, c in np.argwhere(labels.values)
    }


WANTED = {(0, 0): "tree", (1, 3): "water", (5, 7): "tree", (2, 1): "soil"}


def in_wgs84(shapes):
    xy = np.array([np.frombuffer(s[5:], "<f8") for s in shapes])
    lon, lat = transform_points("EPSG:32633", "EPSG:4326", xy[:, 0], xy[:, 1])
    return [point(*p) for p in zip(lon, lat, strict=True)]


@pytest.mark.parametrize("driver", ENDINGS)
def test_points_of_every_kind_of_file_fall_on_their_pixels(tmp_path, driver):
    path = tmp_path / f"labels.{ENDINGS[driver]}"
    crs = "EPSG:4326" if driver == "LIBKML" else "EPSG:32633"
    shapes = in_wgs84(POINTS) if driver == "LIBKML" else POINTS
    fields = {"land": CLASSES, "count": [1, 2, 3, 4]}
    write(path, shapes, fields, driver=driver, crs=crs, geometry_type="Point")
    labels = open_labels(path, scene(), field="land")
    assert drawn(labels) == WANTED
    assert {c.name: c.value for c in class_table(labels)} == IDS  # in alphabetical order


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32633", "EPSG:3857"])
def test_a_layer_in_any_reference_system_falls_on_the_same_pixels(tmp_path, crs):
    xy = np.array([np.frombuffer(s[5:], "<f8") for s in POINTS])
    moved = transform_points("EPSG:32633", crs, xy[:, 0], xy[:, 1])
    shapes = [point(*p) for p in zip(*moved, strict=True)]
    path = write(tmp_path / "a.gpkg", shapes, {"land": CLASSES}, crs=crs)
    assert drawn(open_labels(path, scene())) == WANTED


def test_polygons_lines_and_collections_in_one_layer(tmp_path):
    hole = box(1.1, 1.1, 1.9, 1.9)[::-1]
    shapes = [
        polygon(box(0, 0, 3, 3), hole),
        multi(6, polygon(box(4, 0, 5, 1)), polygon(box(6, 0, 7, 1))),
        line(at(0.5, 4.5), at(3.5, 4.5)),
        multi(5, line(at(5.5, 3.2), at(5.5, 4.8))),
        multi(7, point(*at(7.5, 5.5)), polygon(box(6, 5, 7, 6))),
        multi(4, point(*at(0.5, 5.5)), point(*at(1.5, 5.5))),
    ]
    path = write(tmp_path / "a.gpkg", shapes, {"land": list("aabbcc")})
    labels = open_labels(path, scene())
    wanted = [
        "aaa.a.a.",
        "a.a.....",
        "aaa.....",
        ".....b..",
        "bbbb.b..",
        "cc....cc",
    ]
    names = {0: ".", **{c.value: c.name for c in class_table(labels)}}
    assert ["".join(names[int(v)] for v in row) for row in labels.values] == wanted


def test_all_touched_takes_every_pixel_that_a_shape_touches(tmp_path):
    path = write(tmp_path / "a.gpkg", [polygon(box(0.8, 0.8, 3.2, 2.2))] * 2, {"land": [7, 7]})
    assert np.count_nonzero(open_labels(path, scene()).values) == 2  # the centers within
    assert np.count_nonzero(open_labels(path, scene(), all_touched=True).values) == 12


def test_a_line_beyond_the_scene_labels_what_it_crosses(tmp_path):
    far = [line(at(-1e6, 2.5), at(1e6, 2.5)), line(at(2.5, -9), at(2.5, 0.4))]
    labels = open_labels(write(tmp_path / "a.gpkg", far, {"land": [1, 1]}), scene())
    assert np.argwhere(labels.values).tolist() == [[0, 2], *([2, c] for c in range(8))]


def test_the_only_field_that_repeats_is_taken_and_of_several_one_is_asked_for(tmp_path):
    fields = {"id": [1, 2, 3, 4], "land": CLASSES, "height": [1.5, 1.5, 2.0, 2.0]}
    assert drawn(open_labels(write(tmp_path / "b.gpkg", POINTS, fields), scene())) == WANTED
    fields = {"level_1": ["a", "a", "b", "b"], "level_2": CLASSES, "who": [5, 5, 5, 5]}
    path = write(tmp_path / "a.gpkg", POINTS, fields)
    message = r"ambiguous, got level_1 \(2 values\), level_2 \(3 values\), who \(1 value\)"
    with pytest.raises(SceneError, match=message):
        open_labels(path, scene())
    assert drawn(open_labels(path, scene(), field="LEVEL_2")) == WANTED  # capitals do not matter


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"field": "x'; DROP TABLE a; --"}, r"no field \"x'; DROP TABLE a; --\"; it has land \(3"),
        ({"layer": 'a" UNION SELECT 1 --'}, "there is no layer 'a\" UNION SELECT 1 --'; name one"),
        ({"field": "geom"}, "there is no field 'geom'"),
    ],
)
def test_names_that_are_no_names_are_names(tmp_path, given, message):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    before = path.read_bytes()
    with pytest.raises(SceneError, match=message):
        open_labels(path, scene(), **given)
    assert path.read_bytes() == before


def test_odd_names_of_layers_and_fields_are_read(tmp_path):
    odd = 'it\'s "land"; -- ü'
    path = write(tmp_path / "a.gpkg", POINTS, {odd: CLASSES}, layer=odd)
    assert drawn(open_labels(path, scene(), layer=odd, field=odd)) == WANTED


def test_a_field_of_thousands_of_values_is_refused_with_their_number(tmp_path):
    n = 5000
    shapes = [point(*at(k % 8 + 0.5, k % 6 + 0.5)) for k in range(2 * n)]
    path = write(tmp_path / "a.fgb", shapes, {"parcel": [k % n for k in range(2 * n)]},
                 driver="FlatGeobuf", geometry_type="Point")  # fmt: skip
    with pytest.raises(
        SceneError, match=r"field 'parcel' has 5,000 values, expected at most 1,000"
    ):
        open_labels(path, scene(), field="parcel")
    with pytest.raises(SceneError, match=r"ambiguous, got parcel \(5,000 values\)"):
        open_labels(path, scene())


def test_features_without_a_class_or_a_geometry_are_skipped_and_counted(tmp_path):
    shapes = [*POINTS, None, point(*at(4.5, 4.5)), point(*at(4.5, 4.5))]
    path = write(tmp_path / "a.gpkg", shapes, {"land": [*CLASSES, "soil", None, " "]})
    with pytest.warns(UserWarning, match="skipped 2 features without a value in 'land' and 1 feat"):
        assert drawn(open_labels(path, scene())) == WANTED


def test_whole_numbers_and_doubles_are_class_ids(tmp_path):
    for values in ([4, 9, 4, 2], [4.0, 9.0, 4.0, 2.0]):
        name = f"{type(values[0]).__name__}.shp"
        path = write(tmp_path / name, POINTS, {"id": values}, driver="ESRI Shapefile")
        labels = open_labels(path, scene(), field="id")
        assert sorted(set(labels.values.flat)) == [0, 2, 4, 9]


def test_labels_outside_are_left_out_and_counted(tmp_path):
    shapes = [*POINTS, point(*at(-3, 2)), polygon(box(20, 20, 30, 30)), line(at(9, 9), at(12, 9))]
    path = write(tmp_path / "a.gpkg", shapes, {"land": [*CLASSES, "soil", "tree", "tree"]})
    with pytest.warns(UserWarning, match="3 of 7 labels lie outside the scene and are left out"):
        assert drawn(open_labels(path, scene())) == WANTED


def test_labels_all_outside_are_refused_with_both_extents_in_one_system(tmp_path):
    path = write(
        tmp_path / "a.gpkg", [point(15.0, 51.0)] * 2, {"land": list("aa")}, crs="EPSG:4326"
    )
    message = (
        r"all 2 labels lie outside the scene: they reach from \(500000, 5649824.\d+\) to .*, the "
        r"scene from \(365000, 5808820\) to \(365240, 5809000\), both in EPSG:32633"
    )
    with pytest.raises(SceneMismatch, match=message):
        open_labels(path, scene())


def test_a_layer_without_a_reference_system_is_taken_only_where_it_lies_in_the_scene(tmp_path):
    about = {"driver": "ESRI Shapefile", "crs": None}
    path = write(tmp_path / "a.shp", POINTS, {"land": CLASSES}, **about)
    with pytest.warns(UserWarning, match="layer 'a' has no reference system.*EPSG:32633 is taken"):
        assert drawn(open_labels(path, scene())) == WANTED
    path = write(tmp_path / "b.shp", in_wgs84(POINTS), {"land": CLASSES}, **about)
    with pytest.raises(SceneMismatch, match=r"no reference system, and its coordinates do not lie"):
        open_labels(path, scene())


def test_one_of_several_layers_is_asked_for_with_the_list(tmp_path):
    path = tmp_path / "a.gpkg"
    write(path, POINTS, {"land": CLASSES}, layer="trees")
    write(path, POINTS[:2], {"land": ["b", "b"]}, layer="fields")
    with pytest.raises(SceneError, match=r"several layers; name one with .*: trees, fields"):
        open_labels(path, scene())
    assert drawn(open_labels(path, scene(), layer="trees")) == WANTED


@pytest.mark.parametrize("ending", [".dbf", ".shx"])
def test_a_shapefile_without_one_of_its_files_is_refused(tmp_path, ending):
    path = write(tmp_path / "a.shp", POINTS, {"land": CLASSES}, driver="ESRI Shapefile")
    path.with_suffix(ending).unlink()
    with pytest.raises(SceneError, match=rf"several files, {ending} of it is missing; copy a\.\*"):
        open_labels(path, scene())


def test_without_pyogrio_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SceneError, match=r"needs pyogrio; .* pip install 'polyad\[vector\]'"):
        open_labels(path, scene())


def test_the_content_decides_what_a_file_is(tmp_path):
    good = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    shutil.copy(good, tmp_path / "labels.dat")
    assert vector_kind(tmp_path / "labels.dat") == "GeoPackage"
    assert drawn(open_labels(tmp_path / "labels.dat", scene())) == WANTED
    shutil.copy(good, tmp_path / "b.fgb")
    with pytest.raises(SceneError, match="a FlatGeobuf by its ending, its content is a GeoPackage"):
        open_labels(tmp_path / "b.fgb", scene())


def test_a_layer_larger_than_the_budget_is_refused(tmp_path):
    shapes = [point(*at(0.5, 0.5))] * 3000
    path = write(tmp_path / "a.fgb", shapes, {"land": [1] * 3000}, driver="FlatGeobuf",
                 geometry_type="Point")  # fmt: skip
    with pytest.raises(BudgetExceeded, match="the budget is"):
        open_labels(path, scene(), max_bytes=800_000)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW extra AS SELECT * FROM a",
        "ALTER TABLE a ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(9))) VIRTUAL",
        "CREATE VIRTUAL TABLE words USING fts5(x)",
    ],
)
def test_a_geopackage_that_computes_is_refused(tmp_path, sql):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    with sqlite3.connect(path) as database:
        database.execute(sql)
    database.close()
    with pytest.raises(SceneError, match=r"is a view or computed, expected plain"):
        open_labels(path, scene())


def test_a_view_behind_ten_thousand_triggers_is_found(tmp_path):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    with sqlite3.connect(path) as database:
        for k in range(10_001):
            database.execute(f"CREATE TRIGGER t{k} INSERT ON a BEGIN SELECT 1; END")
        database.execute("CREATE VIEW extra AS SELECT * FROM a")
    database.close()
    with pytest.raises(SceneError, match="'extra' is a view or computed"):
        open_labels(path, scene())


def test_reading_leaves_nothing_beside_the_file_and_loses_no_edits_that_lie_there(tmp_path):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    open_labels(path, scene())
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    path.with_name("a.gpkg-wal").write_bytes(b"x")
    with pytest.raises(SceneError, match=r"last edits are still in a\.gpkg-wal"):
        open_labels(path, scene())


STYLE = """<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis><renderer-v2 attr="{field}" type="categorizedSymbol"><categories>
<category symbol="0" value="tree" label="Trees"/><category symbol="1" value="5" label="Lake"/>
</categories><symbols>
<symbol name="0"><layer><Option>
<Option name="color" value="10,200,30,255"/></Option></layer></symbol>
<symbol name="1"><layer><prop k="line_color" v="0,0,255,255"/></layer></symbol>
</symbols></renderer-v2></qgis>"""


def test_colors_come_from_the_style_beside_the_file(tmp_path):
    path = write(tmp_path / "a.fgb", POINTS, {"land": CLASSES}, driver="FlatGeobuf",
                 geometry_type="Point")  # fmt: skip
    path.with_suffix(".qml").write_text(STYLE.format(field="land"))
    colors = {c.name: c.color for c in class_table(open_labels(path, scene()))}
    assert colors["tree"] == "#0AC81E"
    path.with_suffix(".qml").write_text(STYLE.format(field="other"))
    colors = {c.name: c.color for c in class_table(open_labels(path, scene()))}
    assert colors["tree"] != "#0AC81E"  # a style of another field


def test_the_legend_of_a_style_names_class_numbers(tmp_path):
    path = write(tmp_path / "a.gpkg", POINTS[:2], {"land": [5, 5]})
    path.with_suffix(".qml").write_text(STYLE.format(field="land"))
    assert class_table(open_labels(path, scene())) == ((5, "Lake", "#0000FF"),)


def test_colors_come_from_the_style_in_a_geopackage(tmp_path):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE layer_styles (f_table_name, useAsDefault, styleQML)")
        database.execute(
            "INSERT INTO layer_styles VALUES ('a', 1, ?)", (STYLE.format(field="land"),)
        )
    database.close()
    colors = {c.name: c.color for c in class_table(open_labels(path, scene()))}
    assert colors["tree"] == "#0AC81E"


@pytest.mark.parametrize(
    "style",
    [
        "<qgis>",
        "<!DOCTYPE qgis [<!ENTITY a 'b'>]><qgis>&a;</qgis>",
        "<!DOCTYPE qgis SYSTEM 'file:///etc/passwd'><!DOCTYPE x SYSTEM 'y'><qgis/>",
    ],
)
def test_an_odd_style_colors_nothing_and_is_told(tmp_path, style):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    path.with_suffix(".qml").write_text(style)
    with pytest.warns(UserWarning, match="a style of QGIS.*default colors are used"):
        assert drawn(open_labels(path, scene())) == WANTED


def test_several_files_are_joined_by_name_or_without_names_by_id(tmp_path):
    first = write(tmp_path / "a.gpkg", POINTS[:2], {"land": ["tree", "tree"]})
    other = write(tmp_path / "b.gpkg", POINTS[2:], {"land": ["soil", "soil"]})
    labels = open_labels([first, other], scene())
    assert drawn(labels) == {(0, 0): "tree", (1, 3): "tree", (5, 7): "soil", (2, 1): "soil"}
    swapped = open_labels([other, first], scene())
    np.testing.assert_array_equal(labels.values, swapped.values)
    path = tmp_path / "a.csv"
    path.write_text("row,col,class\n0,0,5\n")
    other = write(tmp_path / "c.gpkg", POINTS[2:], {"land": [7, 5]})
    labels = open_labels([path, other], scene())
    assert (labels.values[0, 0], labels.values[5, 7], labels.values[2, 1]) == (5, 7, 5)


def test_of_two_files_the_later_label_of_a_pixel_wins_with_a_warning(tmp_path):
    first = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    other = write(tmp_path / "b.gpkg", POINTS[:2], {"land": ["soil", "water"]})
    with pytest.warns(UserWarning, match=r"b.gpkg: 1 pixels have another class in an earlier"):
        labels = open_labels([first, other], scene())
    assert drawn(labels) == WANTED | {(0, 0): "soil"}


def test_layers_and_fields_of_rasters_are_refused():
    with pytest.raises(SceneError, match="a raster has no layers, fields or shapes; leave out"):
        open_labels("indian-pines", field="class")


def test_a_scene_without_a_place_is_refused(tmp_path):
    path = write(tmp_path / "a.gpkg", POINTS, {"land": CLASSES})
    with pytest.raises(SceneMismatch, match="the scene has no georeference"):
        open_labels(path, scene(crs=None, place=None))
    with pytest.raises(SceneError, match="need the scene's grid"):
        open_labels(path)


@pytest.mark.parametrize("driver", ENDINGS)
def test_a_file_cut_short_gets_one_sentence(tmp_path, driver):
    path = tmp_path / f"labels.{ENDINGS[driver]}"
    crs = "EPSG:4326" if driver == "LIBKML" else "EPSG:32633"
    shapes = in_wgs84(POINTS) if driver == "LIBKML" else POINTS
    write(path, shapes, {"land": CLASSES}, driver=driver, crs=crs, geometry_type="Point")
    whole = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (len(whole) // 3, 2 * len(whole) // 3):
            path.write_bytes(whole[:size])
            with pytest.raises(SceneError, match="labels"):
                open_labels(path, scene())


POTSDAM = Path(__file__).parents[3].parent / "shared" / "data" / "enmap_potsdam"


@pytest.mark.skipif(not POTSDAM.is_dir(), reason="the EnMAP scene of Potsdam is not here")
def test_points_from_qgis_on_a_real_scene_have_their_classes_and_colors():
    cube = open_scene(POTSDAM / "potsdam_train.tif")
    path = POTSDAM / "landcover_potsdam_point.gpkg"
    with pytest.raises(SceneError, match=r"level_1 \(4 values\), level_2 \(5 values\)"):
        open_labels(path, cube)
    with pytest.warns(UserWarning, match="45 of 120 labels lie outside"):
        labels = open_labels(path, cube, field="level_2")
    assert [tuple(c)[1:] for c in class_table(labels)] == [
        ("impervious", "#E60000"), ("low vegetation", "#98E600"), ("soil", "#A87000"),
        ("tree", "#267300"), ("water", "#0064FF"),
    ]  # fmt: skip
    assert np.count_nonzero(labels.values) == 75
