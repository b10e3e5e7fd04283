"""Warm starts, several labels for a sample, other kinds of arrays, pipelines in files, skops."""

import pickle

import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

import polyad
from polyad import ModeStandardScaler, RankRClassifier, RankRRegressor
from polyad.errors import InputError
from polyad.estimators import mode_importance

QUICK = {"hidden": 8, "epochs": 20, "random_state": 0}


def made(n=80, seed=0):
    X = 5 + np.random.default_rng(seed).normal(size=(n, 3, 6))
    return X, (X[:, :, 4].sum(axis=1) > 15).astype(int) + (X[:, 0, 0] > 5.5)


X, Y = made()
LABELS = np.stack([X[:, 0, 0] > 5, X[:, 1, 3] > 5, X[:, :, 4].sum(axis=1) > 15], axis=1)


# -- warm starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"standardize": 0}, {"standardize": None}])
def test_a_warm_start_begins_where_the_last_fit_ended(settings):
    model = RankRClassifier(**QUICK, **settings, warm_start=True).fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(epochs=1, learning_rate=1e-7)
    assert_allclose(model.fit(X, Y).predict_proba(X), before, atol=1e-3)
    model.set_params(warm_start=False)
    assert np.abs(model.fit(X, Y).predict_proba(X) - before).max() > 0.05


@pytest.mark.parametrize(
    ("change", "words"),
    [({"rank": 2}, "same rank, 1, got 2"), ({"hidden": 9}, "same hidden, 8, got 9")],
)
def test_a_warm_start_of_another_network_is_refused(change, words):
    model = RankRClassifier(**QUICK, warm_start=True).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(InputError, match=words):
        model.set_params(**change).fit(X, Y)
    assert_array_equal(model.predict(X), before)


def test_a_warm_start_with_other_samples_or_new_classes_is_refused():
    model = RankRClassifier(**QUICK, warm_start=True).fit(X, Y)
    with pytest.raises(InputError, match="same sample shape"):
        model.fit(X[:, :2], Y)
    with pytest.raises(InputError, match="goes on with the classes"):
        model.fit(X, Y + 1)


# -- several labels ---------------------------------------------------------------------------


def test_labels_that_do_not_exclude_each_other_are_learned_by_themselves():
    model = RankRClassifier(hidden=20, random_state=0).fit(X, LABELS.astype(int))
    assert model.multilabel_
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict(X).shape == (80, 3)
    assert (model.predict(X) == LABELS).mean() > 0.9
    proba = model.predict_proba(X)
    assert_array_equal(proba > 0.5, model.predict(X) == 1)
    assert np.abs(proba.sum(axis=1) - 1).max() > 0.2  # they do not add up to one
    assert_allclose(np.log(proba), model.predict_log_proba(X), rtol=1e-6)
    assert 0 <= model.score(X, LABELS.astype(int)) <= 1


def test_labels_come_batch_by_batch_and_from_a_file(tmp_path):
    model = RankRClassifier(**QUICK)
    for _ in range(5):
        model.partial_fit(X, LABELS.astype(int))
    polyad.save(model, tmp_path / "m.polyad")
    again = polyad.load(tmp_path / "m.polyad")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.predict(X).shape == (80, 3)


def test_labels_are_written_as_onnx(tmp_path):
    pytest.importorskip("onnx", reason="needs polyad[onnx]")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    model = RankRClassifier(**QUICK).fit(X, LABELS.astype(int))
    model.to_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    label, proba = session.run(["label", "probabilities"], {"X": X.astype(np.float32)})
    assert_array_equal(label, model.predict(X))
    assert_allclose(proba, model.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    ("y", "settings", "words"),
    [
        (np.stack([Y, Y + 1], axis=1), {}, "0 and 1|not supported|Unknown label type"),
        (LABELS.astype(int), {"class_weight": "balanced"}, "use sample_weight"),
    ],
)
def test_what_columns_of_labels_cannot_be_is_refused(y, settings, words):
    with pytest.raises(ValueError, match=words):
        RankRClassifier(**QUICK, **settings).fit(X, y)


# -- other kinds of arrays --------------------------------------------------------------------


def test_predictions_of_a_tensor_are_tensors_where_dispatch_is_on(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which scikit-learn asks for
    model = RankRClassifier(**QUICK).fit(X, Y)
    wanted, samples = model.predict_proba(X), torch.from_numpy(X)
    assert isinstance(model.predict_proba(samples), np.ndarray)
    with sklearn.config_context(array_api_dispatch=True):
        found = model.predict_proba(samples)
        assert isinstance(found, torch.Tensor)
        assert isinstance(model.predict(samples), torch.Tensor)
        assert isinstance(ModeStandardScaler().fit(samples).transform(samples), torch.Tensor)
    assert_allclose(found.numpy(), wanted)


def test_arrays_of_the_array_api_are_taken_and_given_back(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    strict = pytest.importorskip("array_api_strict", reason="needs array-api-strict")
    samples = strict.asarray(X)
    model = RankRRegressor(**QUICK).fit(samples, strict.asarray(X[:, 0, 0]))
    with sklearn.config_context(array_api_dispatch=True):
        found = model.predict(samples)
    assert found.__array_namespace__() is samples.__array_namespace__()
    assert_allclose(np.asarray(found), model.predict(X))


# -- files ------------------------------------------------------------------------------------


def test_a_pipeline_of_scaler_and_model_is_kept_in_one_file(tmp_path):
    line = make_pipeline(ModeStandardScaler(0), ModeStandardScaler(), RankRClassifier(**QUICK))
    line.fit(X, Y)
    polyad.save(line, tmp_path / "line.polyad")
    again = polyad.load(tmp_path / "line.polyad")
    assert isinstance(again, Pipeline)
    assert list(again.named_steps) == list(line.named_steps)
    assert_array_equal(again.predict_proba(X), line.predict_proba(X))


def test_a_pipeline_with_another_step_is_refused(tmp_path):
    line = make_pipeline(ModeStandardScaler(), LogisticRegression())
    with pytest.raises(InputError, match="ModeStandardScaler > LogisticRegression"):
        polyad.save(line, tmp_path / "line.polyad")
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_holds_arrays_and_no_torch():
    assert b"torch" not in pickle.dumps(RankRClassifier(**QUICK).fit(X, Y))


def test_skops_keeps_and_loads_a_model(tmp_path):
    skops = pytest.importorskip("skops.io", reason="needs skops")
    model = RankRClassifier(**QUICK).fit(X, Y)
    skops.dump(model, tmp_path / "m.skops")
    asked = skops.get_untrusted_types(file=tmp_path / "m.skops")
    assert all(name.startswith("polyad.") for name in asked)
    again = skops.load(tmp_path / "m.skops", trusted=asked)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


# -- importance -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return RankRClassifier(hidden=20, random_state=0).fit(X, LABELS[:, 2])


def test_the_band_that_decides_matters_most(fitted):
    found = mode_importance(fitted, X, LABELS[:, 2], random_state=0)
    assert found.mean.shape == (6,)
    assert found.mean.argmax() == 4
    assert found.baseline == fitted.score(X, LABELS[:, 2])
    assert found.modes == (1,)


def test_two_modes_give_a_picture_of_both(fitted):
    found = mode_importance(fitted, X, LABELS[:, 2], (0, 1), n_repeats=2, random_state=0)
    assert found.mean.shape == (3, 6)
    assert (found.mean.argmax(axis=1) == 4).sum() >= 2


@pytest.mark.parametrize("modes", [-1, (0, 1)])
def test_importance_is_drawn(fitted, modes):
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    found = mode_importance(fitted, X, LABELS[:, 2], modes, n_repeats=1, random_state=0)
    axes = found.plot()
    assert axes.has_data()
    pyplot.close(axes.figure)
