"""`ModeStandardScaler`: zero mean and unit deviation along one mode of a stack of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import sklearn
import torch
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from polyad.errors import InputError
from polyad.estimators.parameters import Array, is_whole

LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e30  # on average: single precision holds its products
NUMERIC: dict[str, Any] = {"allow_nd": True, "dtype": [np.float64, np.float32]}


class ModeStandardScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Standardize each index of one mode over samples and all other modes.

    The default, the last mode, standardizes each spectral band of a stack of patches. On a 2-D X
    it is scikit-learn's ``StandardScaler``, which takes no input of higher order.

    Parameters
    ----------
    mode : int, default=-1
        Mode of a sample, counted from 0, or from the end when negative.

    Attributes
    ----------
    mean_, scale_ : ndarray, ``(I_mode,)``
        Constant entries have scale one.
    sample_shape_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 5, 5, 4))
    >>> Z = ModeStandardScaler().fit_transform(X)
    >>> np.allclose(Z.mean(axis=(0, 1, 2)), 0), np.allclose(Z.std(axis=(0, 1, 2)), 1)
    (True, True)
    """

    def __init__(self, mode: int = -1) -> None:
        self.mode = mode

    def fit(self, X: Array, y: object = None, sample_weight: Array | None = None) -> Self:  # noqa: ARG002
        """Learn mean and deviation.

        Parameters
        ----------
        X : array, ``(n, I_1, ..., I_D)``
        y : ignored
        sample_weight : array, ``(n,)``, optional
        """
        X = validate_data(self, as_samples(X), **NUMERIC)
        check_modes(X)
        self.sample_shape_ = X.shape[1:]
        weight = check_weight(sample_weight, X)
        axis = self._axis(X.ndim)
        others = tuple(a for a in range(1, X.ndim) if a != axis)
        # Mean over the other modes first, then over samples by weight; in double precision
        self.mean_ = np.average(X.mean(axis=others, dtype=np.float64), axis=0, weights=weight)
        centered = X - self._along(self.mean_, X)
        squares = np.square(centered, dtype=np.float64).mean(axis=others)
        deviation = np.sqrt(np.average(squares, axis=0, weights=weight))
        single = np.finfo(X.dtype)
        rounding = np.maximum(10 * single.eps * np.abs(self.mean_), single.tiny)
        self.scale_ = np.where(deviation > rounding, deviation, 1.0)
        return self

    def transform(self, X: Array) -> Array:
        """Return ``(X - mean) / scale``, of X's floating type."""
        given, X = X, self._check(X)
        return as_given((X - self._along(self.mean_, X)) / self._along(self.scale_, X), given)

    def inverse_transform(self, X: Array) -> Array:
        """Undo `transform`."""
        given, X = X, self._check(X)
        return as_given(X * self._along(self.scale_, X) + self._along(self.mean_, X), given)

    @property
    def get_feature_names_out(self) -> Callable[..., Array]:
        """Names of the features that `transform` gives, ``(I_1,)``, of a 2-D X.

        Tensors have no columns to name. scikit-learn then leaves them arrays where data frames
        are asked for, too: it takes what has no such method as it is.
        """
        shape = getattr(self, "sample_shape_", (1,))
        if len(shape) > 1:
            raise AttributeError(
                f"features have names in a 2-D X only, this {type(self).__name__} was fitted on "
                f"samples of {shape}"
            )
        return super().get_feature_names_out

    def _check(self, X: Any) -> Array:
        check_is_fitted(self)
        X = as_samples(X)
        check_sample_shape(X, self.sample_shape_)
        return validate_data(self, X, reset=False, **NUMERIC)

    def _axis(self, ndim: int) -> int:
        order = ndim - 1
        if not is_whole(self.mode):
            raise InputError(
                f"mode must be a whole number, such as -1 for the last mode, got {self.mode!r}"
            )
        if not -order <= self.mode < order:
            raise InputError(f"mode {self.mode} does not exist in samples of order {order}")
        return 1 + self.mode % order

    def _along(self, values: Array, X: Array) -> Array:
        shape = [1] * X.ndim
        shape[self._axis(X.ndim)] = -1
        return values.reshape(shape).astype(X.dtype, copy=False)


def fit_scaler(mode: int | str | None, X: Array, weight: Array) -> ModeStandardScaler | None:
    """Return the scaler of a mode, of all entries in common (``"common"``), or none.

    The common one has one mean and one deviation for all entries, kept along the last mode.
    """
    if mode is None:
        return None
    scaler = ModeStandardScaler(mode if isinstance(mode, int) else -1)
    scaler.fit(X, sample_weight=weight)
    if mode == "common":
        mean = scaler.mean_.mean()
        # entries of scale one may be constant: their squares come from the samples
        others = tuple(range(1, X.ndim))
        squares = np.square(X - X.dtype.type(mean), dtype=np.float64).mean(axis=others)
        deviation = np.sqrt(np.average(squares, weights=weight))
        scaler.mean_ = np.full_like(scaler.mean_, mean)
        scaler.scale_ = np.full_like(scaler.scale_, deviation if deviation > 0 else 1.0)
    return scaler


def as_samples(X: Any) -> Any:
    """Turn torch tensors and sequences into numpy arrays, and short numbers into single precision.

    Half precision and integers of up to two bytes fit into float32; longer integers are left to
    become float64.
    """
    X = as_numpy(X)
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "iubf" and X.dtype.itemsize <= 2:
        X = X.astype(np.float32)
    return X


def check_sample_shape(X: Any, fitted: tuple[int, ...]) -> None:
    """Raise `InputError` unless the samples of ``X`` have the shape fitted on.

    Where both are vectors, or X is no stack of samples at all, scikit-learn has its own words.
    """
    ndim = getattr(X, "ndim", 2)
    if ndim < 2 or (ndim == 2 and len(fitted) == 1) or tuple(X.shape[1:]) == tuple(fitted):
        return
    single = tuple(X.shape) == tuple(fitted)
    remedy = "pass one sample as X[None]" if single else "select or reorder modes to agree"
    raise InputError(f"fitted on samples of {tuple(fitted)}, got {tuple(X.shape[1:])}; {remedy}")


def check_modes(X: Array) -> None:
    """Raise `InputError` if a mode of the samples has no entries."""
    if 0 in X.shape[1:]:
        raise InputError(f"every mode of a sample needs at least one entry, got {X.shape[1:]}")


def check_weight(sample_weight: Array | None, X: Array) -> Array:
    """Return sample weights ``(n,)`` in double precision; none means ones."""
    weight = _check_sample_weight(as_numpy(sample_weight), X, dtype=np.float64)
    if weight.min() < 0 or not weight.any():
        raise InputError("sample_weight must not be negative and must not be all zero")
    check_mean(weight, "sample_weight")
    return weight


def check_mean(weight: Array, names: str) -> None:
    """Raise `InputError` if products of the weights would leave the range of numbers."""
    with np.errstate(over="ignore"):
        mean = weight.mean()
    if not LEAST_WEIGHT <= mean <= MOST_WEIGHT:
        raise InputError(
            f"{names} must have a mean between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, got "
            f"{mean:g}; divide all weights by the largest"
        )


# -- kinds of arrays -------------------------------------------------------------------------------


def as_given(values: Array, X: Any) -> Any:
    """Return predictions as the kind of array that ``X`` is, on its device.

    As everywhere in scikit-learn this is done under
    ``sklearn.config_context(array_api_dispatch=True)``; else predictions are numpy arrays. Strings
    have no other kind.
    """
    if not sklearn.get_config()["array_api_dispatch"] or isinstance(X, np.ndarray):
        return values
    if values.dtype.kind not in "biuf":
        return values
    if isinstance(X, Tensor):
        return torch.from_numpy(np.ascontiguousarray(values)).to(X.device)
    if not hasattr(X, "__array_namespace__"):
        return values
    space = X.__array_namespace__()
    return space.asarray(values, device=X.device)


def as_numpy(X: Any) -> Any:
    """Return a tensor or an array of the array API as a numpy array; anything else as it is."""
    if isinstance(X, Tensor):
        X = X.detach().cpu()
        return (X.float() if X.dtype == torch.bfloat16 else X).numpy()
    if isinstance(X, np.ndarray) or not hasattr(X, "__array_namespace__"):
        return X
    return np.from_dlpack(X) if hasattr(X, "__dlpack__") else np.asarray(X)
