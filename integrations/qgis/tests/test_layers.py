"""What the plugin does with QGIS's layers: label layers as they are shown, maps in their style."""

import pytest
from PIL import Image


@pytest.fixture(scope="module")
def label_layers(qgis, campaign):
    scene, points = campaign / "scene.img", campaign / "points.gpkg"
    return qgis.script("label_layers", scene=scene, points=points)


def test_layer_that_is_as_its_file_is_given_as_that_file(label_layers, campaign):
    words = label_layers["plain"]["words"]
    assert words[-1] == str(campaign / "points.gpkg")
    assert words[words.index("--field") + 1] == "class"


@pytest.mark.parametrize("kind", ["edited", "filtered", "selected", "computed", "memory"])
def test_layer_that_is_not_as_its_file_is_saved_first(label_layers, campaign, kind):
    path = label_layers[kind]["words"][-1]
    assert path.endswith(".gpkg")
    assert path != str(campaign / "points.gpkg")


def test_what_is_saved_is_what_is_shown(label_layers):
    all_values = label_layers["plain"]["values"]
    assert label_layers["memory"]["values"] == all_values
    assert "Changed" in label_layers["edited"]["values"]
    assert set(label_layers["filtered"]["values"]) == {"Water"}
    assert set(label_layers["selected"]["values"]) == {"Soil"}
    assert "loud" in label_layers["computed"]["fields"]


def test_layer_of_a_geopackage_goes_by_its_name(label_layers, campaign):
    words = label_layers["named"]["words"]
    assert words[-1] == str(campaign / "points.gpkg")
    assert words[words.index("--layer") + 1] == "points"


def test_map_is_drawn_in_the_colors_of_its_classes(qgis, area, model, tmp_path):
    scene, _ = area
    png = tmp_path / "map.png"
    result = qgis.script("render_map", model=model, scene=scene, map=tmp_path / "map.tif", png=png)
    assert (result["done"], result["valid"], result["renderer"]) == (True, True, "paletted")
    colors = {color for _, _, color in result["classes"]}
    drawn = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in colors_of(png)}
    assert drawn <= colors | {"#ffffff"}  # paper, where there is no data
    assert len(drawn - {"#ffffff"}) > 1
    assert result["percents"][-1] == 100
    # By the style beside the map; QGIS would list all 256 colors of the palette
    assert len(result["classes"]) <= 16


def colors_of(png):
    with Image.open(png) as image:
        return image.convert("RGB").getcolors(1 << 20)


def test_style_beside_the_map_is_loaded_with_it(qgis, campaign, tmp_path):
    styled = tmp_path / "styled.tif"
    model = tmp_path / "m.polyad"
    scene = {"SCENE": campaign / "scene.img"}
    qgis.run("train", **scene, LABEL_RASTER=campaign / "truth.tif", OUTPUT=model)
    qgis.run("map", MODEL=model, **scene, OUTPUT=tmp_path / "map.tif")
    styled.write_bytes((tmp_path / "map.tif").read_bytes())
    result = qgis.script("style", map=styled)
    assert result["after"] == ["from the style"]
    assert result["before"] != result["after"]


def test_program_in_the_options_of_qgis_is_the_one_that_is_called(qgis, campaign, model, tmp_path):
    program = tmp_path / "polyad elsewhere"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    result = qgis.script("setting", model=model, scene=campaign / "scene.img", program=program)
    assert result == {"prepared": True, "program": str(program), "settings": ["POLYAD_COMMAND"]}


def test_canceled_map_says_what_it_left(qgis, area, model, tmp_path):
    """Cancel and the end of the command may cross: what is said must be so either way."""
    scene, _ = area
    out = tmp_path / "map.tif"
    result = qgis.script("cancel", model=model, scene=scene, map=out)
    if result["error"]:
        assert "canceled; no partial files were left" in result["error"]
        assert list(tmp_path.iterdir()) == []
    else:
        assert "polyad had finished before it could be canceled" in result["said"]
        assert out.exists()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo ready; exec sleep 600", "canceled; no partial files were left"),
        ("trap '' INT; echo ready; echo 'polyad: disk full' >&2; exit 2", "disk full"),
    ],
)
def test_end_of_a_canceled_command_is_told(qgis, area, model, tmp_path, monkeypatch, script, error):
    program = tmp_path / "polyad"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setitem(qgis.environment, "POLYAD_COMMAND", str(program))
    out = tmp_path / "map.tif"
    out.write_text("of an earlier run")
    result = qgis.script("cancel", model=model, scene=area[0], map=out)
    assert error in result["error"]
    assert out.read_text() == "of an earlier run"


def test_train_learns_from_a_geopackage(qgis, campaign, tmp_path):
    model = tmp_path / "m.polyad"
    scene, points = campaign / "scene.img", campaign / "points.gpkg"
    qgis.run("train", SCENE=scene, LABELS=points, FIELD="class", OUTPUT=model)
    results = qgis.run("evaluate", MODEL=model, SCENE=scene, LABEL_RASTER=campaign / "truth.tif")
    assert results["OVERALL_ACCURACY"] > 0.9
