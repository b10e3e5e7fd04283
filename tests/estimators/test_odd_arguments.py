"""Odd arguments get one sentence that says what was wanted; what can be taken is taken."""

import builtins

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import balanced_accuracy_score

import polyad
from polyad import ModeStandardScaler, RankRClassifier, RankRRegressor
from polyad.errors import InputError
from polyad.estimators import mode_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3, 4))
Y = (X[:, 0, 0] > 0).astype(int)
LABELS = (X[:, 0] > 0).astype(int)  # four columns
QUICK = {"hidden": 4, "epochs": 2, "random_state": 0}
BOTH = pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])


# -- parameters -------------------------------------------------------------------------------


@BOTH
def test_a_device_of_torch_is_kept_in_a_file_by_its_name(kind, tmp_path):
    model = kind(**QUICK, device=torch.device("cpu")).fit(X, Y)
    polyad.save(model, tmp_path / "m.polyad")
    loaded = polyad.load(tmp_path / "m.polyad", kind)
    assert loaded.device == "cpu"
    assert_array_equal(loaded.predict(X), model.predict(X))


# -- targets ----------------------------------------------------------------------------------


def test_classes_that_contradict_the_columns_of_y():
    with pytest.raises(InputError, match=r"one column for each of the labels .* got 4 columns"):
        RankRClassifier(**QUICK).partial_fit(X, LABELS, classes=range(5))
    with pytest.raises(InputError, match=r"which are labels 0 to 3"):
        RankRClassifier(**QUICK).partial_fit(X, LABELS, classes=list("abcd"))
    model = RankRClassifier(**QUICK).partial_fit(X, LABELS, classes=range(4))
    assert_array_equal(model.classes_, range(4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_whose_squares_overflow_are_refused(dtype):
    with pytest.raises(InputError, match="y must hold numbers whose squares are finite"):
        RankRRegressor(**QUICK).fit(X.astype(dtype), X[:, 0, 0] * 1e300)
    fine = RankRRegressor(**QUICK).fit(X.astype(dtype), X[:, 0, 0] * 1e140)
    assert np.isfinite(fine.predict(X)).all()


@BOTH
@pytest.mark.parametrize("sparse", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_a_sparse_y_is_taken_as_the_array_it_stands_for(kind, sparse):
    dense = kind(**QUICK).fit(X, LABELS).partial_fit(X, LABELS)
    model = kind(**QUICK).fit(X, sparse(LABELS)).partial_fit(X, sparse(LABELS))
    assert_allclose(model.predict(X), dense.predict(X), rtol=1e-12)


# -- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor, ModeStandardScaler])
@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_weights_at_the_ends_of_double_precision(kind, size):
    model = kind() if kind is ModeStandardScaler else kind(**QUICK)
    with pytest.raises(InputError, match=r"sample_weight must have a mean between .*; divide all"):
        model.fit(X, Y, sample_weight=np.full(40, size))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({0: -1, 1: 1}, r"class_weight must not be negative, got \{0: -1, 1: 1\}"),
        ({0: np.nan, 1: 1}, "class_weight times sample_weight must have a mean between"),
        ({0: 1e308, 1: 1}, "class_weight times sample_weight must have a mean between"),
    ],
)
def test_class_weights_that_cannot_be(weights, words):
    with pytest.raises(InputError, match=words):
        RankRClassifier(**QUICK, class_weight=weights).fit(X, Y)


# -- the scaler's output ----------------------------------------------------------------------


def test_data_frames_are_made_of_matrices_and_tensors_stay_arrays():
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(ModeStandardScaler().fit_transform(X), np.ndarray)
        frame = ModeStandardScaler().fit_transform(X[:, 0])
    assert isinstance(frame, pd.DataFrame)
    asked = ModeStandardScaler().set_output(transform="pandas")
    assert_allclose(asked.fit_transform(X), ModeStandardScaler().fit_transform(X))
    assert list(asked.fit_transform(pd.DataFrame(X[:, 0], columns=list("abcd")))) == list("abcd")


def test_features_have_names_in_matrices_only():
    names = ModeStandardScaler().fit(X[:, 0]).get_feature_names_out()
    assert list(names) == ["x0", "x1", "x2", "x3"]
    with pytest.raises(AttributeError, match=r"in a 2-D X only, .* fitted on samples of \(3, 4\)"):
        ModeStandardScaler().fit(X).get_feature_names_out()


# -- importance -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return RankRClassifier(hidden=4, epochs=20, random_state=0).fit(X, Y)


def test_importance_takes_scikit_learns_names_of_scorers(fitted):
    found = mode_importance(fitted, X, Y, scoring="balanced_accuracy", random_state=0)
    assert found.baseline == balanced_accuracy_score(Y, fitted.predict(X))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": 1.0}, r"mode must be one mode, or two .* of order 2, .* got 1.0"),
        ({"mode": None}, "mode must be one mode, or two .* got None"),
        ({"mode": "a"}, "mode must be one mode, or two .* got 'a'"),
        ({"mode": ()}, r"mode must be one mode, or two .* got \(\)"),
        ({"mode": (0, -2)}, r"mode must be one mode, or two .* got \(0, -2\)"),
        ({"mode": 2}, "mode must be one mode, or two .* got 2"),
        ({"mode": (0, 0)}, "mode must be one mode, or two"),
        ({"mode": (0, 1, 1)}, "mode must be one mode, or two"),
        ({"n_repeats": 0}, "n_repeats must be a whole number of at least 1, got 0"),
        ({"n_repeats": 1.5}, "n_repeats must be a whole number of at least 1, got 1.5"),
    ],
)
def test_importance_of_what_cannot_be(arguments, words, fitted):
    with pytest.raises(InputError, match=words):
        mode_importance(fitted, X, Y, **arguments)


def test_a_plot_without_matplotlib_names_the_extra(fitted, monkeypatch):
    found = mode_importance(fitted, X, Y, n_repeats=1)
    load = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ModuleNotFoundError, match=r"needs .* pip install 'polyad\[scene\]'"):
        found.plot()
