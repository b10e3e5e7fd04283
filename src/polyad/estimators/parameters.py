"""Parameters of the estimators: their types, their tables of defaults, and checks when fitted."""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from polyad.codec import Fault
from polyad.errors import InputError
from polyad.estimators import file_format
from polyad.estimators.file_format import ActivationName as ActivationName
from polyad.estimators.file_format import Auto as Auto
from polyad.estimators.file_format import Solver as Solver
from polyad.estimators.file_format import StartName as StartName

Array = npt.NDArray[Any]
Samples = npt.ArrayLike | Tensor
"""Arrays, tensors, nested sequences; arrays of the array API too, as far as types can tell."""

Device = str | torch.device

# What "auto" stands for where ``standardize`` is not "auto" too; then `polyad.estimators.defaults`
# has the rules. The joint settings are ours; the alternating ones are those of the paper's
# published code.
JOINT_DEFAULTS: dict[str, float] = {"learning_rate": 0.02, "weight_decay": 0.1}
ALTERNATING_DEFAULTS: dict[str, float] = {"learning_rate": 5e-4, "weight_decay": 0.0}
SOLVERS = {"joint": JOINT_DEFAULTS, "alternating": ALTERNATING_DEFAULTS}
PAPER_BATCH = 65
PAPER: dict[str, Any] = {
    "hidden": 75,
    "solver": "alternating",
    "activation": "tanh",
    "start": "xavier",
    "hidden_bias": False,
    "epochs": 50,
    "patience": None,
    "learning_rate": 5e-4,
    "batch_size": PAPER_BATCH,
    "inner_steps": 10,
    "weight_decay": 0.0,
    "penalty": 0.0,
    "standardize": -1,
}


def check_parameters(model: BaseEstimator) -> None:
    """Raise `InputError` unless the parameters of an estimator are what a model file may hold."""
    given = model.get_params(deep=False) | {"device": "auto", "random_state": None}
    values = {name: plain(given[name]) for name in file_format.Parameters.model_fields}
    try:
        file_format.Parameters.from_data(values, type(model).__name__)
    except Fault as fault:
        raise InputError(str(fault)) from None


def plain(value: Any) -> Any:
    """Turn numpy's scalars into Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def resolve_device(device: Device) -> torch.device:
    """Return the device that a name stands for, or raise `InputError`."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:  # torch asserts without CUDA
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used here ({reason}); try 'auto'") from error
