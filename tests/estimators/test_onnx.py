"""A fitted model written as ONNX gives the model's own answers in onnxruntime, for any batch."""

import json
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from polyad import ModeStandardScaler, RankRClassifier, RankRRegressor
from polyad.errors import InputError, OutputError
from polyad.estimators import register_converters

onnx = pytest.importorskip("onnx", reason="needs polyad[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

SHAPES = [(7,), (4, 6), (5, 5, 9), (2, 3, 4, 2)]
QUICK = {"hidden": 6, "epochs": 5, "random_state": 0}


def samples(shape, n=40, kind=np.float32):
    rng = np.random.default_rng(0)
    return (100 + 10 * rng.normal(size=(n, *shape))).astype(kind)


def run(path, X):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(
        zip(
            [o.name for o in session.get_outputs()],
            session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)}),
            strict=True,
        )
    )


@pytest.fixture(scope="module")
def fitted():
    X = samples((5, 5, 9))
    return RankRClassifier(rank=2, **QUICK).fit(X, np.where(X[:, 2, 2, 0] > 100, "crop", "soil"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 3])
def test_classes_and_probabilities_of_any_order_and_batch(tmp_path, shape, rank):
    X = samples(shape)
    model = RankRClassifier(rank=rank, **QUICK).fit(X, np.arange(len(X)) % 3 + 5)
    model.to_onnx(tmp_path / "model.onnx")
    for n in (1, 3, len(X)):
        found = run(tmp_path / "model.onnx", X[:n])
        np.testing.assert_allclose(
            found["probabilities"], model.predict_proba(X[:n]), rtol=1e-3, atol=1e-5
        )
        np.testing.assert_array_equal(found["label"], model.predict(X[:n]))


@pytest.mark.parametrize(
    "groups", [((2,), (0, 1)), ((0, 1), (2,)), ((2,), (1,), (0,)), ((0, 1, 2),)]
)
def test_every_order_of_contraction_gives_the_same(tmp_path, monkeypatch, fitted, groups):
    import polyad.estimators.onnx_export as written

    class Planned:
        def __init__(self):
            self.groups = groups

    monkeypatch.setattr(written, "plan_inner", lambda *_: Planned())
    fitted.to_onnx(tmp_path / "model.onnx")
    X = samples((5, 5, 9))
    found = run(tmp_path / "model.onnx", X)["probabilities"]
    np.testing.assert_allclose(found, fitted.predict_proba(X), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu", "identity"])
@pytest.mark.parametrize("settings", [{"standardize": 0}, {"standardize": None}, {}])
def test_every_activation_and_standardization(tmp_path, activation, settings):
    X = samples((4, 6))
    model = RankRClassifier(activation=activation, **QUICK, **settings).fit(X, np.arange(40) % 2)
    model.to_onnx(tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", X)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "classes",
    [
        ["soil", "öl"],
        [False, True],
        ["0.5", "1.5"],
        [3, 200],
        [20240001.0, 20240002.0],
        np.array([1, 2**63 + 1], np.uint64),
    ],
)
def test_classes_come_out_as_they_went_in_to_the_last_digit(tmp_path, classes):
    X = samples((4, 6))
    model = RankRClassifier(**QUICK).fit(X, np.array(classes)[(X[:, 0, 0] > 100).astype(int)])
    model.to_onnx(tmp_path / "model.onnx")
    np.testing.assert_array_equal(run(tmp_path / "model.onnx", X)["label"], model.predict(X))


def test_metadata_names_classes_and_sample_shape(tmp_path, fitted):
    fitted.to_onnx(tmp_path / "model.onnx")
    told = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert told["classes"] == ["crop", "soil"]
    assert told["sample_shape"] == [5, 5, 9]


@pytest.mark.parametrize("targets", [1, 2])
def test_a_regressor_predicts_on_the_targets_scale(tmp_path, targets):
    X = samples((4, 6))
    y = 1000 + X[:, 0, :targets].astype(np.float64)
    model = RankRRegressor(**QUICK).fit(X, y[:, 0] if targets == 1 else y)
    model.to_onnx(tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", X)["y"]
    assert found.shape == model.predict(X).shape
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-4)


def test_what_is_not_fitted_is_not_written(tmp_path, fitted):
    with pytest.raises(NotFittedError):
        clone(fitted).to_onnx(tmp_path / "model.onnx")
    with pytest.raises(OutputError, match="nowhere"):
        fitted.to_onnx(tmp_path / "nowhere" / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_onnx_or_skl2onnx_a_sentence_says_what_to_install(tmp_path, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"needs the package onnx; .* 'polyad\[onnx\]'"):
        fitted.to_onnx(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(InputError, match="pip install skl2onnx"):
        register_converters()


def test_a_pipeline_becomes_one_graph_by_skl2onnx(tmp_path, fitted):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    register_converters()
    X = samples((5, 5, 9))
    y = fitted.predict(X)
    line = make_pipeline(ModeStandardScaler(), clone(fitted)).fit(X, y)
    options = {id(line): {"zipmap": False}}
    written = skl2onnx.to_onnx(line, X[:1], options=options, target_opset=17)
    (tmp_path / "line.onnx").write_bytes(written.SerializeToString())
    for n in (1, 40):
        found = run(tmp_path / "line.onnx", X[:n])
        np.testing.assert_array_equal(found["label"], line.predict(X[:n]))
        np.testing.assert_allclose(
            found["probabilities"], line.predict_proba(X[:n]), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_calibrated_classifier_goes_through_skl2onnx(tmp_path, count, kind):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    register_converters()
    X = samples((6,), n=90, kind=kind)
    y = np.digitize(X[:, 0], np.linspace(95, 105, count - 1))
    model = CalibratedClassifierCV(RankRClassifier(**QUICK), cv=2).fit(X, y)
    options = {id(model): {"zipmap": False}}
    written = skl2onnx.to_onnx(model, X[:1], options=options, target_opset=17)
    session = runtime.InferenceSession(written.SerializeToString())
    label, proba = session.run(None, {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-4)


def test_an_old_opset_is_refused(fitted):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    register_converters()
    with pytest.raises(InputError, match="target_opset 13 or higher, got 12"):
        skl2onnx.to_onnx(fitted, samples((5, 5, 9))[:1], target_opset=12)


def test_a_regressor_goes_through_skl2onnx(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    register_converters()
    X = samples((4, 6))
    model = RankRRegressor(**QUICK).fit(X, X[:, 0, 0])
    written = skl2onnx.to_onnx(model, X[:1], target_opset=17)
    (tmp_path / "model.onnx").write_bytes(written.SerializeToString())
    (found,) = run(tmp_path / "model.onnx", X).values()
    np.testing.assert_allclose(found.ravel(), model.predict(X), rtol=1e-4)
