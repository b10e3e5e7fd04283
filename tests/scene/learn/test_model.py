"""`SceneModel`: its file, what it refuses to map, and how it knows its scene again."""

import numpy as np
import pytest
import xarray as xr

from polyad import RankRClassifier, save
from polyad.errors import InputError, ModelFileError, SceneMismatch
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import SceneRecord
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.raster.scene import Scene
from tests.models import bare_model

NM = np.linspace(400, 1000, 6)


@pytest.fixture(scope="module")
def scene():
    values = np.random.default_rng(0).normal(size=(12, 15, 6)).astype(np.float32)
    found = xr.DataArray(values, dims=("y", "x", "band"))
    return found.assign_coords(wavelength=("band", NM))


@pytest.fixture(scope="module")
def model(scene):
    labels = np.zeros((12, 15), np.uint16)
    labels[2, :6], labels[8, 3:9] = 3, 7
    marks = xr.DataArray(labels, dims=("y", "x")).assign_attrs(
        class_values=[3, 7], class_names=["Corn", "Ölweide"], class_colors=["#112233", "#445566"]
    )
    return train(scene, marks, window=3, hidden=6, epochs=5)


def rewritten(model, path, **changes):
    """Save ``model`` with a changed description of its scene; the checksum is right."""
    names = ("window", "output", "spectral", "training", "fill")
    about = SceneRecord(**{name: getattr(model, name) for name in names}).to_data()
    for name, change in changes.items():
        about[name] = about[name] | change if isinstance(change, dict) else change
    save(model.estimator, path, {"scene": about})
    return path


def test_a_saved_model_maps_as_before(model, scene, tmp_path):
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    here, there = (map_scene(m, scene, probabilities=True) for m in (model, again))
    for a, b in zip(here, there, strict=True):
        xr.testing.assert_identical(a, b)


def test_a_saved_model_keeps_its_description(model, tmp_path):
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert again.classes == (ClassInfo(3, "Corn", "#112233"), ClassInfo(7, "Ölweide", "#445566"))
    for name in ("window", "spectral", "training", "fill", "recipe"):
        assert getattr(again, name) == getattr(model, name), name


def test_other_classifiers_are_not_written_to_a_model_file(tmp_path, model):
    other = bare_model(object(), 1, model.classes, 6)
    with pytest.raises(InputError, match="save wants one of"):
        other.save(tmp_path / "m.polyad")
    assert list(tmp_path.iterdir()) == []


def test_a_scene_of_other_bands_is_refused_with_both_numbers(model, scene):
    with pytest.raises(
        SceneMismatch, match=r"wants 6 bands \(400 to 1000 nm\), scene has 4 \(400 to 760 nm\)"
    ):
        map_scene(model, scene.isel(band=slice(0, 4)))


def test_a_scene_of_other_wavelengths_is_refused(model, scene):
    with pytest.raises(SceneMismatch, match=r"at 400.0 nm, 120.0 nm wide, is 600.0 nm away"):
        model.view(scene.assign_coords(wavelength=("band", NM + 600)))


@pytest.mark.parametrize("shift", [0.0, 3.0, np.nan])
def test_wavelengths_that_nearly_agree_or_are_unknown_are_taken(model, scene, shift):
    for same in (
        scene.assign_coords(wavelength=("band", NM + shift)),
        scene.drop_vars("wavelength"),
    ):
        assert model.view(same).array is same


def test_a_model_knows_the_scene_it_learned_from(model, scene):
    assert model.learned_from(scene.copy())
    assert not model.learned_from(scene + 1)
    assert not model.learned_from(scene.isel(y=slice(0, 11)))


def test_fingerprint_is_that_of_the_values_in_any_type():
    values = np.random.default_rng(0).integers(0, 4000, (9, 8, 5))
    scenes = [xr.DataArray(values.astype(t), dims=("y", "x", "band")) for t in ("u2", "f4", "f8")]
    assert len({Scene.of(s).fingerprint for s in scenes}) == 1


def test_fingerprint_of_scenes_without_data_in_the_middle_differs():
    values = np.random.default_rng(0).normal(size=(2, 40, 40, 3))
    values[:, 15:25] = np.nan
    one, two = (xr.DataArray(v, dims=("y", "x", "band")) for v in values)
    assert Scene.of(one).fingerprint != Scene.of(two).fingerprint


def test_a_model_of_no_scene_is_refused_for_mapping(tmp_path):
    X = np.random.default_rng(0).normal(size=(10, 3, 3, 4))
    save(
        RankRClassifier(hidden=3, epochs=2, random_state=0).fit(X, np.arange(10) % 2),
        tmp_path / "m",
    )
    with pytest.raises(SceneMismatch, match="not trained on a scene"):
        SceneModel.load(tmp_path / "m")


@pytest.mark.parametrize(
    "changes",
    [
        {"window": 5},
        {"window": "wide"},
        {"spectral": {"count": 7, "wavelength": None}},
        {"output": {"classes": [[1, "Corn", "#112233"], [7, "Soil", "#445566"]]}},
        {"output": {"classes": [[3, "Corn", "#112233"]]}},
        {"output": {"classes": [[3, "Corn"]]}},
        {"output": {"classes": None}},
        {"output": {"kind": "regression"}},
        {"spectral": {"wavelength": [400.0]}},
        {"spectral": {"wavelength": ["red"] * 6}},
        {"fill": 3},
        {"training": {"packed_pixels": [[1, 2]]}},
        {"training": {"packed_pixels": "AAAA"}},
    ],
    ids=str,
)
def test_a_file_that_contradicts_itself_is_refused(model, tmp_path, changes):
    path = rewritten(model, tmp_path / "m.polyad", **changes)
    with pytest.raises(ModelFileError, match="train it again"):
        SceneModel.load(path)


@pytest.mark.parametrize("about", [{"scene": 3}, {"scene": {}}])
def test_a_file_that_says_nothing_of_its_scene_is_refused(model, tmp_path, about):
    save(model.estimator, tmp_path / "m", about)
    with pytest.raises(ModelFileError, match="does not describe its scene"):
        SceneModel.load(tmp_path / "m")


def test_a_cut_or_changed_file_is_refused(model, tmp_path):
    path = tmp_path / "m.polyad"
    model.save(path)
    content = path.read_bytes()
    assert b"Corn" in content
    for damaged in (b"", content[:100], content[:-20], content.replace(b"Corn", b"Rice")):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"empty|damaged"):
            SceneModel.load(path)
