"""Numbers measured at places become an array on the scene's grid."""

import importlib.util
import re
import struct

import numpy as np
import pytest
from plots import GRID, HEIGHT, WIDTH, cover, places, scene, write_plots

from polyad.errors import PolyadWarning, SceneError
from polyad.scene import open_values


def written(path, *lines, head="row,col,cover"):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", ["plots.csv", "plots.geojson"])
def test_points_of_every_kind_give_the_numbers_at_their_pixels(place, name):
    values = open_values(place / name, scene(), field="cover", units="share")
    rows, cols = places().T
    assert values.dims == ("y", "x", "target")
    assert values["target"].values.tolist() == ["cover"]
    assert values["units"].values.tolist() == ["share"]
    assert np.isfinite(values.values).sum() == len(rows)
    np.testing.assert_allclose(values.values[rows, cols, 0], cover()[rows, cols], atol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("pyogrio") is None, reason="needs polyad[vector]")
def test_a_geopackage_of_more_than_a_thousand_different_numbers_is_read(tmp_path):
    pyogrio = pytest.importorskip("pyogrio")
    rows, cols = np.indices((HEIGHT, WIDTH)).reshape(2, -1)
    x, y = GRID * (cols + 0.5, rows + 0.5)
    shapes = [struct.pack("<BIdd", 1, 1, a, b) for a, b in zip(x, y, strict=True)]
    numbers = np.arange(len(rows)) / 7
    pyogrio.raw.write(
        tmp_path / "plots.gpkg", np.array(shapes, object), [numbers, np.array(["a"] * len(rows))],
        ["mass", "crop"], geometry_type="Point", crs="EPSG:32633", driver="GPKG", layer="plots",
    )  # fmt: skip
    values = open_values(tmp_path / "plots.gpkg", scene(), field="Mass")
    np.testing.assert_allclose(values.values.ravel(), numbers, rtol=1e-6)
    with pytest.raises(SceneError, match="expected a number for 'crop', got 'a'"):
        open_values(tmp_path / "plots.gpkg", scene(), field="crop")


def test_several_fields_are_several_targets_also_with_commas(place):
    values = open_values(place / "plots.csv", scene(), field=["cover,mass"], units=["", "t/ha"])
    assert values["target"].values.tolist() == ["cover", "mass"]
    assert values["units"].values.tolist() == ["", "t/ha"]


def test_of_several_numbers_in_one_pixel_the_mean_is_taken_and_said(tmp_path):
    path = written(tmp_path / "p.csv", "3,4,0.2", "3,4,0.6", "5,5,1")
    with pytest.warns(PolyadWarning, match="1 pixels hold several values that differ; their mean"):
        values = open_values(path, scene(), field="cover")
    assert values.values[3, 4, 0] == pytest.approx(0.4)


def test_a_polygon_measures_the_pixels_whose_centers_it_holds(tmp_path):
    x, y = GRID * (4, 6)
    ring = [[x, y], [x + 30, y], [x + 30, y - 20], [x, y - 20], [x, y]]
    path = tmp_path / "plot.geojson"
    path.write_text(
        '{"type":"FeatureCollection","crs":{"type":"name","properties":{"name":"EPSG:32633"}},'
        '"features":[{"type":"Feature","properties":{"cover":0.5},"geometry":{"type":"Polygon",'
        f'"coordinates":[{ring}]}}}}]}}'
    )
    values = open_values(path, scene(), field="cover").values[..., 0]
    assert np.argwhere(values == 0.5).tolist() == [[r, c] for r in (6, 7) for c in (4, 5, 6)]


def test_places_off_the_scene_and_empty_cells_are_counted_and_left_out(tmp_path):
    write_plots(tmp_path / "p.csv", n=12, extra=["0,0,0.5,3,corn", "500005,3999995,,,corn"])
    with pytest.warns(PolyadWarning) as told:
        values = open_values(tmp_path / "p.csv", scene(), field="cover")
    said = " ".join(str(w.message) for w in told)
    assert "skipped 1 of 14 features without a number in cover" in said
    assert "1 of 13 values lie outside the scene and are left out" in said
    assert np.isfinite(values.values).sum() == 12


def test_a_raster_on_the_scenes_grid_has_a_target_for_each_band(tmp_path):
    from polyad.scene import MapWriter
    from polyad.scene.raster.classes import Target

    numbers = np.arange(HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH, 1)
    numbers[0, 0] = np.nan
    with MapWriter(
        tmp_path / "v.tif", (HEIGHT, WIDTH), [Target("cover")], crs="EPSG:32633", transform=GRID
    ) as out:
        out.write((slice(None), slice(None)), numbers[..., 0], numbers)
    values = open_values(tmp_path / "v.tif", scene(), field="cover")
    np.testing.assert_array_equal(values.values, numbers)


@pytest.mark.parametrize(
    ("lines", "head", "field", "said"),
    [
        (["1,2,abc"], "row,col,cover", "cover", "line 2: expected a number for 'cover', got 'abc'"),
        (["1,2,inf"], "row,col,cover", "cover", "line 2: expected a finite number for 'cover'"),
        (["1,2,"], "row,col,cover", "cover", "no feature has a number in cover"),
        (["1,2,3"], "row,col,mass", "cover", "'row,col,cover', 'x,y,cover'"),
        (["1,2,3"], "row,col,cover", None, "expected the field that holds the values"),
        (["1,2,3"], "row,col,cover", ["cover", "Cover"], "got cover, Cover; name each once"),
        (["1,2,3"], "row,col,cover", "cover,cover", "got cover, cover; name each once"),
        (
            ["1,2,1e308", "1,2,1e308"],
            "row,col,cover",
            "cover",
            "'cover' cannot be kept in single precision: expected numbers from -1e+30 to 1e+30",
        ),
        (
            ["1,2,0", "1,3,-5e-311"],
            "row,col,cover",
            "cover",
            "expected numbers of which some reach 1e-30, got none beyond -5e-311; give them in",
        ),
    ],
)
def test_what_is_no_number_is_refused_in_one_sentence(tmp_path, lines, head, field, said):
    path = written(tmp_path / "p.csv", *lines, head=head)
    with pytest.raises(SceneError, match=re.escape(said)) as error:
        open_values(path, scene(), field=field)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["plots.csv", "plots.geojson", "plots.gpkg"])
def test_without_a_field_the_fields_of_numbers_are_listed(place, tmp_path, name):
    path = place / name
    if name == "plots.gpkg":
        pyogrio, path = pytest.importorskip("pyogrio"), tmp_path / name
        shape = struct.pack("<BIdd", 1, 1, *(GRID * (3.5, 3.5)))
        pyogrio.raw.write(
            path, np.array([shape, None], object)[:1],
            [np.array([0.5]), np.array([3.0]), np.array(["corn"])], ["cover", "mass", "crop"],
            geometry_type="Point", crs="EPSG:32633", driver="GPKG", layer="plots",
        )  # fmt: skip
    with pytest.raises(SceneError, match=r"name it with --field .*[:,] cover \(") as told:
        open_values(path, scene())
    assert "crop" not in str(told.value)
