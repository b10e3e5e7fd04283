"""Predictions in the kind of array that the samples came in, where scikit-learn is asked for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
import torch
from torch import Tensor

from polyad.estimators.kinds import Array


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
