"""A scene model as ONNX maps tiles in onnxruntime as `map_scene` does."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import polyad
from polyad import RankRClassifier, map_scene
from polyad.errors import InputError
from polyad.scene import export_onnx
from polyad.scene.raster.classes import ClassInfo
from tests.models import bare_model

onnx = pytest.importorskip("onnx", reason="needs polyad[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

BANDS = 7


@pytest.fixture(scope="module")
def scene():
    rng = np.random.default_rng(0)
    values = rng.normal(500, 80, size=(21, 26, BANDS)).astype(np.float32)
    values[:, 13:] += 100 * np.arange(BANDS)
    return xr.DataArray(values, dims=("y", "x", "band"))


def model_of(scene, window, rank=1, shape=None, **settings):
    shape = (window, window, BANDS) if shape is None else shape
    rng = np.random.default_rng(1)
    X = rng.normal(500, 80, size=(60, *shape)).astype(np.float32)
    estimator = RankRClassifier(rank, 10, epochs=5, random_state=0, standardize=-1, **settings).fit(
        X, np.repeat([2, 3, 9], 20)
    )
    classes = tuple(ClassInfo(v, f"class {v}", "#112233") for v in (2, 3, 9))
    return bare_model(estimator, window, classes, BANDS, fill=tuple(np.full(BANDS, 480.0)))


def mapped_by_runtime(path, scene, halo):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    pads = ((halo, halo), (halo, halo), (0, 0))
    pixels = np.pad(scene.values, pads, mode="reflect").transpose(2, 0, 1)
    return session.run(["class_ids", "probabilities"], {"pixels": pixels})


def check_same(path, scene, model):
    ids, proba = map_scene(model, scene, probabilities=True)
    found, shares = mapped_by_runtime(path, scene, model.window // 2)
    np.testing.assert_array_equal(found, ids.values)
    np.testing.assert_allclose(shares.transpose(1, 2, 0), proba.values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("window", "settings"),
    [
        (1, {}),
        (3, {"rank": 2}),
        (5, {"hidden_bias": False}),
        (9, {"rank": 3, "activation": "relu"}),  # too wide for a correlation in the plane
        (1, {"shape": (BANDS,)}),
        (5, {"activation": "sigmoid"}),
    ],
)
def test_a_tile_is_mapped_as_map_scene_does(tmp_path, scene, window, settings):
    model = model_of(scene, window, **settings)
    export_onnx(model, tmp_path / "model.onnx", whole_scene=True)
    check_same(tmp_path / "model.onnx", scene, model)


def test_pixels_without_data_have_no_class_and_are_filled_for_their_neighbors(tmp_path, scene):
    model, holed = model_of(scene, 5, rank=2), scene.copy()
    holed.values[3, 4, 2] = np.nan
    holed.values[0, 0] = np.inf
    holed.values[20, 5:9, 0] = -np.inf
    export_onnx(model, tmp_path / "model.onnx", whole_scene=True)
    check_same(tmp_path / "model.onnx", holed, model)
    assert (map_scene(model, holed) == 0).sum() == 6


def test_windows_are_classified_as_the_estimator_does(tmp_path, scene):
    model = model_of(scene, 3, rank=2)
    export_onnx(model, tmp_path / "model.onnx")
    X = np.random.default_rng(2).normal(500, 80, size=(11, 3, 3, BANDS)).astype(np.float32)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    ids, proba = session.run(["class_ids", "probabilities"], {"windows": X})
    np.testing.assert_array_equal(ids, model.estimator.predict(X))
    np.testing.assert_allclose(proba, model.estimator.predict_proba(X), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_window_that_is_not_finite_has_no_class(tmp_path, scene, odd):
    model = model_of(scene, 3)
    export_onnx(model, tmp_path / "model.onnx")
    X = np.full((4, 3, 3, BANDS), 500, np.float32)
    X[1, 0, 2, 3] = odd
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    ids, proba = session.run(["class_ids", "probabilities"], {"windows": X})
    assert (
        (ids == 0).tolist() == np.isnan(proba).all(axis=1).tolist() == [False, True] + 2 * [False]
    )


def test_metadata_has_classes_with_their_colors_and_the_padding(tmp_path, scene):
    export_onnx(model_of(scene, 5), tmp_path / "model.onnx", whole_scene=True)
    told = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert told["padding"] == 2
    assert told["classes"][0] == [2, "class 2", "#112233"]


def test_a_model_of_plain_samples_has_no_whole_scene(tmp_path, scene):
    estimator = model_of(scene, 3).estimator
    with pytest.raises(InputError, match="wants a model that was trained on a scene"):
        export_onnx(estimator, tmp_path / "model.onnx", whole_scene=True)
    export_onnx(estimator, tmp_path / "model.onnx")
    assert runtime.InferenceSession(tmp_path / "model.onnx").get_inputs()[0].name == "X"


def test_another_kind_of_estimator_is_refused(tmp_path, scene):
    from sklearn.linear_model import LogisticRegression

    model = model_of(scene, 1)
    other = bare_model(LogisticRegression(), 1, model.classes, BANDS)
    with pytest.raises(InputError, match="this one has a LogisticRegression"):
        export_onnx(other, tmp_path / "model.onnx", whole_scene=True)


@pytest.mark.slow
def test_indian_pines_has_the_same_classes_in_onnxruntime(tmp_path):
    scene, labels = polyad.open_scene("indian-pines"), polyad.open_labels("indian-pines")
    model = polyad.train(scene, labels, samples_per_class=10, preset="fast", epochs=40)
    export_onnx(model, tmp_path / "model.onnx", whole_scene=True)
    found, _ = mapped_by_runtime(
        tmp_path / "model.onnx", scene.astype(np.float32), model.window // 2
    )
    # a few corrupt pixels, and what sees them, are repaired by map_scene and not by the graph
    assert (found != map_scene(model, scene).values).sum() <= 25
    unrepaired = map_scene(replace(model, soundness=None), scene)
    np.testing.assert_array_equal(found, unrepaired.values)
