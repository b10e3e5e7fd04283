"""What files do not say or say twice: nodata values, names spelled in two ways, shared names."""

import unicodedata

import numpy as np
import pytest
import xarray as xr

import polyad
from polyad.cli import main
from polyad.errors import InputError, PolyadWarning
from polyad.scene.draw.figures import map_figure, to_png
from polyad.scene.info import describe
from polyad.scene.raster.classes import ClassInfo, class_table, with_classes
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene
from tests.scene.read.small_scenes import plain_scene, text

SUSPICIOUS = r"-9999 in every band, far from all other values; .* with --nodata -9999"


@pytest.fixture
def scene(tmp_path):
    """A file of two kinds of land, of which a ninth was not measured and is not declared."""
    cube = np.random.default_rng(0).normal(0.3, 0.05, (60, 60, 8)).astype("f4")
    cube[:30] += np.linspace(0, 0.2, 8, dtype="f4")
    cube[:20, :20] = -9999
    np.save(tmp_path / "scene.npy", cube)
    return tmp_path / "scene.npy"


def labels(shape=(60, 60)):
    ids = np.zeros(shape, np.uint8)
    ids[0:28:3, ::3], ids[40::3, ::3] = 1, 2
    return xr.DataArray(ids, dims=("y", "x"))


def trained(cube):
    return polyad.train(cube, labels(), preset="fast", epochs=5, random_state=0)


def test_undeclared_nodata_is_told_in_training_and_mapping(scene):
    with pytest.warns(PolyadWarning, match=SUSPICIOUS):
        model = trained(open_scene(scene))
    with pytest.warns(PolyadWarning, match=SUSPICIOUS):
        polyad.map_scene(model, open_scene(scene))


@pytest.mark.filterwarnings("default::polyad.errors.PolyadWarning")
def test_a_command_tells_undeclared_nodata_once_and_takes_the_value(scene, tmp_path, capsys):
    np.save(tmp_path / "labels.npy", labels().values)
    command = ["train", str(scene), str(tmp_path / "labels.npy"), "--preset", "fast"]
    command += ["--epochs", "3", "--out", str(tmp_path / "m.polyad")]
    for words, times in ((command, 1), ([*command, "--nodata", "-9999"], 0)):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        assert capsys.readouterr().err.count("far from all other values") == times
    assert describe(str(scene), nodata=-9999)["nodata"] == -9999.0
    np.save(tmp_path / "bytes.npy", np.ones((4, 4, 3), np.uint8))
    with pytest.raises(InputError, match="no pixel of uint8 can have the nodata value -1"):
        describe(str(tmp_path / "bytes.npy"), nodata=-1)


def test_declared_nodata_is_not_mapped_and_the_model_keeps_it(scene, tmp_path):
    cube = open_scene(scene, nodata=-9999)
    model = trained(cube)
    assert model.training.without_data > 0
    wanted = polyad.map_scene(model, cube).values
    assert (wanted == 0).sum() == 400
    model.with_nodata(-9999).save(tmp_path / "m.polyad")
    loaded = polyad.SceneModel.load(tmp_path / "m.polyad")
    np.testing.assert_array_equal(polyad.map_scene(loaded, open_scene(scene)).values, wanted)


def test_a_nodata_value_that_no_pixel_can_have_is_refused(tmp_path):
    np.save(tmp_path / "scene.npy", np.ones((4, 4, 3), np.uint8))
    with pytest.raises(InputError, match="no pixel of uint8 can have the nodata value -9999"):
        open_scene(tmp_path / "scene.npy", nodata=-9999)


def test_two_spellings_of_a_name_are_one_class(tmp_path):
    spelled = [unicodedata.normalize(form, "Ölweide") for form in ("NFC", "NFD")]
    lines = [f"0,{k},{name}" for k, name in enumerate(spelled)]
    path = text(tmp_path / "a.csv", "\n".join(["row,col,class", *lines]))
    assert [tuple(c)[:2] for c in class_table(open_labels(path, plain_scene()))] == [
        (1, spelled[0])
    ]
    assert describe(str(path))["classes"] == {spelled[0]: 2}


def test_two_ids_of_one_name_are_counted_apart(tmp_path):
    path = text(tmp_path / "a.csv", "row,col,class,name\n0,0,1,Corn\n0,1,2,Corn\n0,2,2,Corn\n")
    assert describe(str(path))["classes"] == {"1 Corn": 1, "2 Corn": 2}
    cube = open_scene("indian-pines")[:60, :60]
    named = with_classes(labels(), [ClassInfo(1, "Corn", ""), ClassInfo(2, "Corn", "")])
    counts = polyad.train(cube, named, preset="fast", epochs=2, random_state=0).label_counts
    assert counts == {"1 Corn": 200, "2 Corn": 140}


def test_names_that_the_font_lacks_are_drawn_without_a_warning():
    named = with_classes(labels((90, 90)), [ClassInfo(1, "玉米", ""), ClassInfo(2, "草地", "")])
    assert to_png(map_figure(named)).startswith(b"\x89PNG")
