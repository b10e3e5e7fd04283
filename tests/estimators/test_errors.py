"""Bad input gets a clear error, and a fitted model survives it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polyad import RankRClassifier, RankRRegressor
from polyad.errors import Diverged, InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5, 5, 20))
Y = np.arange(12) % 3
QUICK = {"hidden": 4, "epochs": 2, "random_state": 0}
BOTH = pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])


@pytest.fixture
def fitted():
    return RankRClassifier(**QUICK).fit(X, Y)


@BOTH
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_numbers_that_are_not_finite_are_named(kind, bad, word):
    spoiled = X.copy()
    spoiled[3, 1, 2, 4] = bad
    with pytest.raises(ValueError, match=word):
        kind(**QUICK).fit(spoiled, Y)
    model = kind(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=word):
        model.predict(spoiled)


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_refused(kind, bad):
    y = Y.astype(float)
    y[2] = bad
    with pytest.raises(ValueError, match=r"Input y contains|Unknown label"):
        kind(**QUICK).fit(X, y)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("shape", [(2, 500), (2, 5, 100), (2, 5, 20, 5), (2, 5, 5, 20, 1)])
def test_another_order_or_shape_than_fitted_on(method, shape, fitted):
    with pytest.raises(InputError, match=r"fitted on samples of \(5, 5, 20\), got "):
        getattr(fitted, method)(np.zeros(shape))


def test_a_single_sample_without_its_first_axis_is_told_how(fitted):
    with pytest.raises(InputError, match=r"got \(5, 20\); pass one sample as X\[None\]"):
        fitted.predict(X[0])
    assert fitted.predict(X[0][None]).shape == (1,)


@BOTH
@pytest.mark.parametrize("shape", [(12, 5, 0, 20), (12, 0, 5, 20), (12, 5, 5, 0)])
def test_a_mode_without_entries(kind, shape):
    with pytest.raises(ValueError, match=r"at least one entry, got|0 feature\(s\)"):
        kind(**QUICK).fit(np.zeros(shape), Y)


@BOTH
def test_too_many_modes(kind):
    with pytest.raises(InputError, match="8"):
        kind(**QUICK).fit(np.zeros((12, *[1] * 9)), Y)


@BOTH
@pytest.mark.parametrize(
    "name", ["rank", "hidden", "epochs", "inner_steps", "patience", "batch_size"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, np.nan])
def test_counts_below_one_or_not_whole(kind, name, value):
    with pytest.raises(InputError, match=f"{name} must be .*(equal to 1|a valid integer), got "):
        kind(**(QUICK | {name: value})).fit(X, Y)


@pytest.mark.every_case
@BOTH
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": "newton"}, "solver must be 'joint' or 'alternating', got 'newton'"),
        ({"start": "zeros"}, "start must be 'data', 'unit-variance' or 'xavier', got 'zeros'"),
        ({"activation": "gelu"}, "activation must be .*'tanh', .*, got 'gelu'"),
        ({"learning_rate": 0}, "learning_rate must be 'auto' or greater than 0, got 0"),
        ({"learning_rate": np.nan}, "learning_rate must be .* a finite number, got nan"),
        ({"learning_rate": "fast"}, "learning_rate must be .* a valid number, got 'fast'"),
        ({"weight_decay": -0.1}, "weight_decay must be .* greater than or equal to 0, got -0.1"),
        ({"standardize": 3}, "mode 3 does not exist in samples of order 3"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here"),
        ({"tol": None}, "tol must be a (valid|finite) number, got "),
        ({"validation_fraction": 1}, "validation_fraction must be .*, got "),
        ({"penalty": np.nan}, "penalty must be 'auto' or (a|greater)"),
        ({"penalty": 1.0, "solver": "alternating"}, "penalty must be 'auto' or 0 with"),
        *(
            ({"standardize": value}, r"standardize must be 'auto' or a valid integer, got ")
            for value in ("last", 1.0, (0, 1), True, np.array([0, 1]))
        ),
    ],
)
def test_settings_that_cannot_be(kind, settings, words):
    with pytest.raises(InputError, match=words):
        kind(**(QUICK | settings)).fit(X, Y)


@pytest.mark.parametrize("weight", [np.zeros(12), np.full(12, -1.0)])
def test_weights_that_say_nothing(weight):
    with pytest.raises(ValueError, match="zero"):
        RankRClassifier(**QUICK).fit(X, Y, sample_weight=weight)


def test_class_weights_that_leave_nothing():
    with pytest.raises(InputError, match="leave no sample any weight"):
        RankRClassifier(**QUICK, class_weight={0: 0, 1: 0, 2: 0}).fit(X, Y)


def test_partial_fit_wants_its_classes():
    with pytest.raises(InputError, match="classes must be passed on the first call"):
        RankRClassifier(**QUICK).partial_fit(X, Y)
    model = RankRClassifier(**QUICK).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(InputError, match="classes must stay"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(InputError, match=r"y has classes array\(\[9\]\) that were not among"):
        model.partial_fit(X, np.where(Y == 2, 9, Y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_says_what_to_try():
    model = RankRRegressor(hidden=4, activation="identity", learning_rate=1e6, random_state=0)
    with pytest.raises(Diverged, match="try a smaller learning_rate, standardized input"):
        model.fit(X.astype(np.float32), Y)


@pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])
def test_a_failed_fit_loses_no_model(kind):
    model = kind(**QUICK).fit(X, Y)
    before = model.predict(X)
    spoiled = np.where(X > 2, np.nan, X)
    for bad in (lambda: model.fit(spoiled, Y), lambda: model.partial_fit(spoiled, Y)):
        with pytest.raises(ValueError, match="NaN"):
            bad()
        assert_array_equal(model.predict(X), before)

    def interrupt(epoch, network):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :, :, :3], (Y + 5) % 2, on_epoch=interrupt)
    assert_array_equal(model.predict(X), before)
    assert model.sample_shape_ == (5, 5, 20)
