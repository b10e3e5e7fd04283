"""`ModeStandardScaler`: zero mean and unit deviation along one mode."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.preprocessing import StandardScaler

from polyad import ModeStandardScaler
from polyad.errors import InputError

X = np.random.default_rng(0).normal(5, 3, size=(20, 3, 4, 6)) * np.arange(1, 7)


@pytest.mark.parametrize("mode", [-3, -2, -1, 0, 1, 2])
def test_every_index_of_the_mode_gets_mean_zero_and_deviation_one(mode):
    Z = ModeStandardScaler(mode).fit_transform(X)
    others = tuple(a for a in range(4) if a != 1 + mode % 3)
    assert_allclose(Z.mean(axis=others), 0, atol=1e-12)
    assert_allclose(Z.std(axis=others), 1)


def test_two_dimensional_input_is_that_of_scikit_learn():
    flat = X.reshape(20, -1)
    assert_allclose(
        ModeStandardScaler().fit_transform(flat), StandardScaler().fit_transform(flat), atol=1e-12
    )


def test_weights_count_as_repetitions():
    times = np.arange(20) % 3 + 1
    weighted = ModeStandardScaler().fit(X, sample_weight=times)
    repeated = ModeStandardScaler().fit(np.repeat(X, times, axis=0))
    assert_allclose(weighted.mean_, repeated.mean_)
    assert_allclose(weighted.scale_, repeated.scale_)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e7 / 3, -1e-30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_band_becomes_zero_and_nothing_else_does(value, dtype):
    Y = X.astype(dtype)
    Y[..., 2] = value
    Z = ModeStandardScaler().fit_transform(Y)
    assert_allclose(Z[..., 2], 0, atol=10 * np.finfo(dtype).eps * abs(value))
    assert_allclose(Z[..., 3].std(), 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (X.astype(np.float32), np.float32),
        (X, np.float64),
        (X.astype(np.float16), np.float32),
        (X.astype(np.uint16), np.float32),
        (X.astype(np.int64), np.float64),
        (torch.from_numpy(X), np.float64),
        (torch.from_numpy(X).to(torch.bfloat16), np.float32),
        (torch.from_numpy(X).requires_grad_(), np.float64),
        (X.tolist(), np.float64),
    ],
)
def test_every_kind_of_numbers_is_taken(given, got):
    Z = ModeStandardScaler().fit_transform(given)
    assert Z.dtype == got
    assert_allclose(Z.std(axis=(0, 1, 2)), 1, rtol=1e-3)


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4), (12, 6), (3, 4, 6, 1)])
def test_another_sample_shape_is_refused(method, shape):
    scaler = ModeStandardScaler().fit(X)
    with pytest.raises(InputError, match=r"fitted on samples of \(3, 4, 6\), got "):
        getattr(scaler, method)(np.zeros((2, *shape)))
    with pytest.raises(InputError, match="fitted on samples of"):
        getattr(scaler, method)(np.zeros((2, *shape)).tolist())


@pytest.mark.parametrize("mode", [3, -4])
def test_a_mode_that_is_not_there_is_refused(mode):
    with pytest.raises(InputError, match=rf"mode {mode} does not exist in samples of order 3"):
        ModeStandardScaler(mode).fit(X)


def test_bad_numbers_and_weights_are_refused():
    Y = X.copy()
    Y[3, 1, 1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ModeStandardScaler().fit(Y)
    with pytest.raises(ValueError, match="zero"):
        ModeStandardScaler().fit(X, sample_weight=np.zeros(20))
