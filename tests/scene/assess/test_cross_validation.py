"""`cross_validate`: whole trainings on folds of the labels, for every preset; what it refuses."""

import numpy as np
import pytest
import xarray as xr

import polyad
from polyad.errors import InputError, SceneError
from polyad.scene import ClassInfo, SceneModel, with_classes, with_groups
from polyad.scene.assess import evaluation as module

QUICK = {"hidden": 6, "epochs": 30, "window": 3}
PRESETS = [("fast", "this-scene"), ("paper", "this-scene"), ("best", "this-scene"),
           ("best", "other-scenes")]  # fmt: skip


def made_scene(size=36, bands=6, seed=0):
    """Return a checkerboard of two classes whose every field has a light of its own, and labels."""
    rng = np.random.default_rng(seed)
    rows, cols = np.indices((size, size)) // 9
    truth = (rows + cols) % 2 + 1
    light = rng.normal(0, 1.5, (rows.max() + 1, cols.max() + 1, bands))
    spectra = np.array([np.zeros(bands), np.full(bands, 1.5)])[truth - 1] + light[rows, cols]
    scene = xr.DataArray(
        (spectra + rng.normal(0, 0.2, spectra.shape)).astype(np.float32), dims=("y", "x", "band")
    )
    values = np.where(rng.random(truth.shape) < 0.12, truth, 0).astype(np.uint16)
    labels = xr.DataArray(values, dims=("y", "x"))
    table = [ClassInfo(1, "corn", "#112233"), ClassInfo(2, "soil", "#445566")]
    return scene, with_classes(labels, table), rows * 4 + cols + 1


@pytest.mark.parametrize(("preset", "goal"), PRESETS)
def test_every_preset_is_tested_by_spatial_and_pixel_wise_folds(preset, goal):
    scene, labels, fields = made_scene()
    options = {"preset": preset, "goal": goal, "folds": 2} | QUICK
    if preset == "paper":
        options |= {"epochs": 5}
    found = polyad.cross_validate(scene, with_groups(labels, fields), **options)
    n = int((labels > 0).sum())
    assert (found.spatial.labels, found.pixelwise.labels) == (n, n)
    assert (found.spatial.by, found.spatial.groups, found.pixelwise.groups) == ("groups", 16, n)
    assert [c.name for c in found.spatial.classes] == ["corn", "soil"]
    assert found.method == "outer"


def test_fields_with_their_own_light_are_harder_when_they_are_held_out_whole():
    scene, labels, fields = made_scene()
    found = polyad.cross_validate(scene, with_groups(labels, fields), folds=4, **QUICK)
    assert found.spatial.overall < found.pixelwise.overall - 0.1
    assert "pixel by pixel" in str(found)


def test_labels_are_tested_by_models_that_never_saw_their_group(monkeypatch):
    scene, labels, fields = made_scene()
    seen = []

    def train_on(scene, labels, pixels, **options):
        seen.append(set(fields[tuple(pixels.T)].tolist()))
        return None

    def map_labels(model, scene, pixels):
        assert not seen[-1] & set(fields[tuple(pixels.T)].tolist())
        return labels.values[tuple(pixels.T)]

    monkeypatch.setattr(module, "train_on", train_on)
    monkeypatch.setattr(module, "map_labels", map_labels)
    given = with_groups(labels, fields)
    found = polyad.cross_validate(scene, given, pixelwise=False, folds=3)
    assert (len(seen), found.spatial.overall) == (3, 1.0)


def test_a_class_in_one_group_is_named_and_not_dropped():
    scene, labels, fields = made_scene()
    kept = (labels.values == 1) | (fields == 2)
    labels = labels.copy(data=np.where(kept, labels.values, 0))
    found = polyad.cross_validate(
        scene, with_groups(labels, fields), pixelwise=False, folds=2, **QUICK
    )
    assert found.not_tested["soil"] == int((labels == 2).sum())
    assert "not tested, since all labels lie together: soil" in str(found)
    assert found.needed == {"soil": 1}


def test_an_estimator_of_the_users_is_cloned_for_every_fold():
    from sklearn.neighbors import KNeighborsClassifier

    scene, labels, _ = made_scene()
    estimator = KNeighborsClassifier(1)
    found = polyad.cross_validate(scene, labels, estimator=estimator, window=1, folds=2)
    assert found.pixelwise.overall > 0.8
    assert not hasattr(estimator, "classes_")


def test_a_model_keeps_what_was_found_in_its_file(tmp_path):
    scene, labels, _ = made_scene()
    model = polyad.train(scene, labels, **QUICK)
    assert model.accuracy.method == "choice"
    found = polyad.cross_validate(scene, labels, folds=2, **QUICK)
    model.with_accuracy(found).save(tmp_path / "m.polyad")
    assert SceneModel.load(tmp_path / "m.polyad").accuracy == found


@pytest.mark.parametrize(
    ("options", "told"),
    [({"folds": 1}, "folds must be 2 or more, got 1"),
     ({"preset": "good"}, "preset must be one of")],
)  # fmt: skip
def test_options_that_are_none_are_refused(options, told):
    scene, labels, _ = made_scene()
    with pytest.raises(InputError, match=told):
        polyad.cross_validate(scene, labels, **options)


def test_labels_of_one_class_are_refused():
    scene, labels, _ = made_scene()
    alone = labels.copy(data=np.where(labels.values == 1, 1, 0).astype(np.uint16))
    with pytest.raises(SceneError, match="training pixels are of class 'corn'; label pixels of"):
        polyad.cross_validate(scene, alone)
