"""Tables of colors, in every form in which people have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from polyad.errors import InputError, PolyadWarning, SceneError
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.raster.labels import recolored
from polyad.scene.read.classes import read_colors, with_colors, with_legend

CLASSES = (ClassInfo(1, "corn", "#4477AA"), ClassInfo(2, "soy, old", "#EE7733"))

TEXTS = {
    "names": "corn,#ffdd00\n\"soy, old\",#005a32\n",
    "ids": "1,#ffdd00\n2,#005A32\n",
    "channels": 'corn, 255, 221, 0\n"soy, old", 0,90,50\n',
    "heading": 'name,color\nCorn,#ffdd00\n\n# a comment\n"soy, old",#005a32\n',
    "id and name": 'id,name,color\n1,corn,#ffdd00\n2,"soy, old",#005a32\n',
    "gdal": "nv 0 0 0 0\n0 0 0 0\n1 255 221 0 255\n2 0 90 50\n",
    "gdal, colons": "1:255:221:0\n2:0:90:50\n",
    "qgis": "# QGIS Generated Color Map Export File\nINTERPOLATION:EXACT\n"
    '1,255,221,0,255,corn\n2,0,90,50,255,"soy, old"\n',
    "byte order mark": "\ufeff1,#ffdd00\r\n2,#005a32\r\n",
}  # fmt: skip

RASTER_STYLE = """<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.16"><pipe><rasterrenderer type="paletted" band="1"><colorPalette>
<paletteEntry value="1" color="#ffdd00" label="{}" alpha="255"/>
<paletteEntry value="2" color="#005a32" label="{}" alpha="255"/>
</colorPalette></rasterrenderer></pipe></qgis>"""
VECTOR_STYLE = """<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.16"><renderer-v2 type="categorizedSymbol" attr="level_1"><categories>
<category value="corn" label="maize" symbol="0"/><category value="soy, old" symbol="1"/>
<category value="" label="" symbol="1"/></categories><symbols>
<symbol name="0"><layer><Option type="Map"><Option name="color" value="255,221,0,255"/></Option>
</layer></symbol><symbol name="1"><layer><prop k="color" v="0,90,50,255"/></layer></symbol>
</symbols></renderer-v2></qgis>"""


def check(path: Path) -> None:
    found = with_colors(CLASSES, path)
    assert [c.color for c in found] == ["#FFDD00", "#005A32"]


@pytest.mark.parametrize("kind", TEXTS)
def test_text_of_each_kind_is_read(tmp_path: Path, kind: str) -> None:
    (tmp_path / "colors.txt").write_text(TEXTS[kind], encoding="utf-8")
    check(tmp_path / "colors.txt")


@pytest.mark.parametrize("labels", [("corn", "soy, old"), ("1", "2"), ("", "2")])
def test_style_of_a_raster_is_read_by_label_or_value(
    tmp_path: Path, labels: tuple[str, str]
) -> None:
    (tmp_path / "style.qml").write_text(RASTER_STYLE.format(*labels))
    check(tmp_path / "style.qml")


def test_style_of_a_vector_layer_is_read_by_category(tmp_path: Path) -> None:
    (tmp_path / "style.qml").write_text(VECTOR_STYLE)
    check(tmp_path / "style.qml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "got none"),
        ("notes of a summer\n", "got none"),
        ("corn,#ffdd00\nsoy,green\n", r"line 2 is 'soy,green'"),
        ("corn,1,2\nsoy,1,2,300\n", "line 2"),
    ],
)
def test_file_without_colors_is_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(SceneError, match=said):
        read_colors(tmp_path / "c.csv")


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="no such file"):
        read_colors(tmp_path / "c.csv")


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE qgis [<!ENTITY a 'b'>]><qgis/>",
        "<!DOCTYPE qgis PUBLIC 'a' 'b'><!DOCTYPE x SYSTEM '/etc/passwd'><qgis/>",
    ],
)
def test_style_that_declares_entities_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.qml").write_text(text)
    with pytest.raises(SceneError, match="DOCTYPE"):
        read_colors(tmp_path / "s.qml")


def test_file_that_is_far_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "c.csv").open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(SceneError, match="it is another file"):
        read_colors(tmp_path / "c.csv")


def test_table_may_have_more_classes_and_says_so_once() -> None:
    with pytest.warns(PolyadWarning, match=r"'rye', but no such class; the classes are 1 corn"):
        found = with_colors(CLASSES, {"CORN": "#FFDD00", "rye": "#000000"})
    assert [c.color for c in found] == ["#FFDD00", "#EE7733"]


def test_table_of_other_classes_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no class is called 'rye'.*1 corn, 2 soy, old"):
        recolored(CLASSES, {"rye": "#000000"})


def test_color_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="expected one such as"):
        recolored(CLASSES, {"corn": "red"})


def test_labels_are_merged_before_they_are_colored() -> None:
    labels = with_classes(xr.DataArray(np.array([[0, 1, 2]]), dims=("y", "x")), CLASSES)
    found = with_legend(labels, "corn+2=crops", {"crops": "#112233"})
    assert class_table(found) == (ClassInfo(1, "crops", "#112233"),)
    assert found.values.tolist() == [[0, 1, 1]]
