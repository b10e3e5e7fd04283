"""Names and colors out of files, which strangers may have chosen, in every output."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from polyad import RankRClassifier
from polyad.errors import ModelFileError
from polyad.estimators.persistence import load_with_about, save
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.read.labels import open_labels
from polyad.scene.write.writers import write_map, write_probabilities
from tests.models import bare_model

ALL_CONTROLS = "".join(map(chr, [*range(32), *range(127, 160), 0x2028, 0x202E, 0xD800, 0xFFFF]))
NAMES = ["Corn\0", f"Oats{ALL_CONTROLS}", "\x1b]0;title\x07Rye", "\0", '<b a="1">&amp;', "Åker à"]
FORGED = ["red", "#12", "#GGGGGG", "#000000;}body{display:none", "", "#4477AA\n"]


def hostile_map() -> xr.DataArray:
    ids = np.arange(30, dtype=np.uint8).reshape(5, 6) % 7
    about = {"class_values": [1, 2, 3, 4, 5, 6], "class_names": NAMES, "class_colors": FORGED}
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


@pytest.mark.parametrize("ending", [".png", ".npy"])
def test_map_without_names_is_written_too(tmp_path: Path, ending: str) -> None:
    write_map(tmp_path / f"map{ending}", hostile_map())
    assert (tmp_path / f"map{ending}").stat().st_size > 0


def test_words_about_a_scene_with_a_nul_reach_its_netcdf_map(tmp_path: Path) -> None:
    write_map(tmp_path / "map.nc", hostile_map().assign_attrs(title="a\0b\ud800"))
    with xr.open_dataset(tmp_path / "map.nc", engine="h5netcdf") as found:
        assert found.attrs["title"] == "a b"


def test_probabilities_of_classes_with_hostile_names_are_written(tmp_path: Path) -> None:
    shares = xr.DataArray(np.full((5, 6, 6), 1 / 6, np.float32), dims=("y", "x", "class"))
    write_probabilities(tmp_path / "p.tif", shares.assign_coords({"class": NAMES}))
    assert (tmp_path / "p.tif").exists()


def test_class_stays_clean_on_its_way_to_a_worker() -> None:
    info = ClassInfo(3, "Corn\x1b", "no color")
    assert pickle.loads(pickle.dumps(info)) == info == ClassInfo(3, "Corn", "#117733")


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


def test_tags_of_a_tiff_keep_names_as_they_are(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", hostile_map())
    assert json.dumps("Corn")[1:-1].encode() in (tmp_path / "map.tif").read_bytes()
