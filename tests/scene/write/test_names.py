"""Names of classes as people give them come through every kind of output, and back."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xarray as xr

from polyad import RankRClassifier
from polyad.errors import ModelFileError, OutputError
from polyad.estimators.persistence import load_with_about, save
from polyad.scene.files.paths import check_kind
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.read.classes import read_colors
from polyad.scene.read.labels import open_labels
from polyad.scene.write.writers import MapWriter, write_map
from tests.models import bare_model

NAMES = ["Corn, no till", 'the "old" forest', "Soy & <clover>", "Äcker, größer", "a+b=c"]
NAMES += ["{x}, 'y'", "森林"]
CLASSES = [ClassInfo(k, name, f"#00{k:02X}FF") for k, name in enumerate(NAMES, start=1)]


def named_map() -> xr.DataArray:
    ids = np.arange(64, dtype=np.uint8).reshape(8, 8) % 8
    return with_classes(xr.DataArray(ids, dims=("y", "x")), CLASSES)


@pytest.mark.parametrize("ending", [".tif", ".hdr", ".nc", ".zarr"])
def test_names_and_colors_of_a_map_are_read_back(tmp_path: Path, ending: str) -> None:
    write_map(tmp_path / f"map{ending}", named_map())
    assert class_table(open_labels(tmp_path / f"map{ending}")) == tuple(CLASSES)


def test_names_and_colors_are_in_the_style(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", named_map())
    root = ET.fromstring((tmp_path / "map.qml").read_text(encoding="utf-8"))
    renderer = root.find("pipe/rasterrenderer")
    assert renderer is not None
    assert (renderer.get("type"), renderer.get("band")) == ("paletted", "1")
    entries = renderer.findall("colorPalette/paletteEntry")
    found = [(e.get("value"), e.get("label"), e.get("color"), e.get("alpha")) for e in entries]
    assert found == [(str(c.value), c.name, c.color.lower(), "255") for c in CLASSES]
    assert read_colors(tmp_path / "map.qml") == {c.name: c.color for c in CLASSES}


def test_style_of_ours_is_replaced_and_one_that_qgis_saved_is_kept(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", named_map())
    check_kind(tmp_path / "map.tif", "map")
    (tmp_path / "map.qml").write_text("<qgis version='3.22.16'><pipe/></qgis>")
    with pytest.raises(OutputError, match=r"its style goes to map\.qml.*--force"):
        check_kind(tmp_path / "map.tif", "map")
    check_kind(tmp_path / "map.hdr", "map")  # has no style


# -- names and colors out of files, which strangers may have chosen -------------------------------

ALL_CONTROLS = "".join(map(chr, [*range(32), *range(127, 160), 0x2028, 0x202E, 0xD800, 0xFFFF]))
ODD_NAMES = ["Corn\0", f"Oats{ALL_CONTROLS}", "\x1b]0;title\x07Rye", "\0"]
ODD_NAMES += ['<b a="1">&amp;', "Åker à"]
FORGED = ["red", "#12", "#GGGGGG", "#000000;}body{display:none", "", "#4477AA\n"]


def hostile_map() -> xr.DataArray:
    ids = np.arange(30, dtype=np.uint8).reshape(5, 6) % 7
    about = {"class_values": [1, 2, 3, 4, 5, 6], "class_names": ODD_NAMES, "class_colors": FORGED}
    return xr.DataArray(ids, dims=("y", "x"), attrs=about)


@pytest.mark.parametrize("ending", [".tif", ".hdr", ".nc"])
def test_map_with_hostile_names_and_colors_is_read_back(tmp_path: Path, ending: str) -> None:
    given = hostile_map()
    write_map(tmp_path / f"map{ending}", given)
    scene = xr.DataArray(np.zeros((5, 6, 3), np.float32), dims=("y", "x", "band"))
    found = open_labels(str(tmp_path / f"map{ending}"), scene)
    assert np.array_equal(found, given)
    assert class_table(found) == class_table(given)
    assert found.attrs["class_names"][3:] == ["class 4", '<b a="1">&amp;', "Åker à"]


def test_probabilities_of_classes_with_hostile_names_are_written(tmp_path: Path) -> None:
    shares, path = np.full((5, 6, 6), 1 / 6, np.float32), tmp_path / "p.tif"
    with MapWriter(
        tmp_path / "m.tif", (5, 6), class_table(hostile_map()), probabilities=path
    ) as out:
        out.write((slice(None), slice(None)), hostile_map().values, shares)
    assert path.exists()


def test_model_of_classes_with_hostile_names_is_kept_and_a_forged_file_refused(
    tmp_path: Path,
) -> None:
    patches = np.random.default_rng(0).normal(size=(12, 3, 3, 4))
    network = RankRClassifier(hidden=2, random_state=0).fit(patches, np.arange(12) % 2 + 1)
    model = bare_model(network, 3, (ClassInfo(1, "a\0", "red"), ClassInfo(2, "\x1b", "#1")), 4)
    model.save(tmp_path / "m.polyad")
    found = SceneModel.load(tmp_path / "m.polyad").classes
    assert found == (ClassInfo(1, "a", "#4477AA"), ClassInfo(2, "class 2", "#EE7733"))
    _, about = load_with_about(tmp_path / "m.polyad")
    about["scene"]["output"]["classes"][0] = [1, "a\0", "red; } body {"]
    save(network, tmp_path / "forged.polyad", about)
    with pytest.raises(ModelFileError, match=r"classes\[0\]"):
        SceneModel.load(tmp_path / "forged.polyad")
