"""Names of classes as people give them come through every kind of output, and back."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xarray as xr

from polyad.errors import OutputError
from polyad.scene.files.paths import check_kind
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.read.classes import read_colors
from polyad.scene.read.labels import open_labels
from polyad.scene.write.geotiff import open_quietly
from polyad.scene.write.tables import write_scores
from polyad.scene.write.writers import write_map, write_probabilities

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


def test_names_are_in_the_pam_file_alone(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", named_map())
    root = ET.fromstring((tmp_path / "map.tif.aux.xml").read_text(encoding="utf-8"))
    assert [c.text for c in root.iter("Category")] == ["Unclassified", *NAMES]


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


def test_gdal_and_other_programs_read_the_envi_header(tmp_path: Path) -> None:
    write_map(tmp_path / "map.hdr", named_map())
    with open_quietly(tmp_path / "map.img", "r") as dataset:
        np.testing.assert_array_equal(dataset.read(1), named_map().values)
        assert dataset.colormap(1)[2][:3] == (0, 2, 255)


def test_names_are_the_bands_of_the_probabilities(tmp_path: Path) -> None:
    shares = xr.DataArray(np.full((8, 8, 7), 1 / 7, np.float32), dims=("y", "x", "class"))
    write_probabilities(tmp_path / "p.tif", shares.assign_coords({"class": NAMES}))
    with open_quietly(tmp_path / "p.tif", "r") as dataset:
        assert list(dataset.descriptions) == NAMES


def test_names_are_in_the_table_of_scores(tmp_path: Path) -> None:
    rows = [{"name": n, "precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 3} for n in NAMES]
    write_scores(tmp_path / "s.csv", {"classes": rows})
    with (tmp_path / "s.csv").open(encoding="utf-8", newline="") as file:
        found = [row["class"] for row in csv.DictReader(file) if row["measure"] == "f1"]
    assert found == NAMES


def test_style_of_ours_is_replaced_and_one_that_qgis_saved_is_kept(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", named_map())
    check_kind(tmp_path / "map.tif", "map")
    (tmp_path / "map.qml").write_text("<qgis version='3.22.16'><pipe/></qgis>")
    with pytest.raises(OutputError, match=r"its style goes to map\.qml.*--force"):
        check_kind(tmp_path / "map.tif", "map")
    check_kind(tmp_path / "map.hdr", "map")  # has no style


def test_labels_of_another_program_keep_their_style_beside_probabilities(tmp_path: Path) -> None:
    (tmp_path / "p.qml").write_text("<qgis/>")
    check_kind(tmp_path / "p.tif", "file of probabilities")
