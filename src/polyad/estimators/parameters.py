"""Parameters of the estimators: their types, their tables of defaults, and checks when fitted."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

import numpy.typing as npt
import torch
from torch import Tensor

from polyad.errors import InputError

Array = npt.NDArray[Any]
Samples = npt.ArrayLike | Tensor
"""Arrays, tensors, nested sequences; arrays of the array API too, as far as types can tell."""

Auto = Literal["auto"]
Device = str | torch.device
Solver = Literal["joint", "alternating"]
ActivationName = Literal["tanh", "sigmoid", "relu", "identity"]
StartName = Literal["data", "unit-variance", "xavier"]

# What "auto" stands for where ``standardize`` is not "auto" too; then `polyad.estimators.defaults`
# has the rules. The joint settings are ours; the alternating ones are those of the paper's
# published code.
JOINT_DEFAULTS: dict[str, float] = {"learning_rate": 0.02, "weight_decay": 0.1}
ALTERNATING_DEFAULTS: dict[str, float] = {"learning_rate": 5e-4, "weight_decay": 0.0}
SOLVERS = {"joint": JOINT_DEFAULTS, "alternating": ALTERNATING_DEFAULTS}
STARTS = ("data", "unit-variance", "xavier")
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


def check_parameters(model: Any) -> None:
    """Raise `InputError` for a parameter of a `RankREstimator` that cannot be used."""
    if model.solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {model.solver!r}")
    whole = ["hidden", "epochs", "inner_steps"]
    whole += ["rank"] if not is_auto(model.rank) else []
    whole += ["patience"] if model.patience is not None else []
    whole += ["batch_size"] if model.batch_size not in ("auto", None) else []
    for name in whole:
        value = getattr(model, name)
        if not is_whole(value) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if model.start not in STARTS:
        raise InputError(f"start must be 'data', 'unit-variance' or 'xavier', got {model.start!r}")
    rate, decay = rate_of(model, "learning_rate"), rate_of(model, "weight_decay")
    if not (rate > 0 and decay >= 0 and isfinite(rate + decay)):
        raise InputError(
            "learning_rate must be a number above 0 and weight_decay one not below 0, "
            f"got {model.learning_rate!r} and {model.weight_decay!r}"
        )
    penalty = 0.0 if is_auto(model.penalty) else model.penalty
    if not (isinstance(penalty, Real) and 0 <= float(penalty) < inf):
        raise InputError(f"penalty must be 'auto' or a number of at least 0, got {penalty!r}")
    if penalty and model.solver != "joint":
        raise InputError(f"penalty needs solver='joint', got {model.solver!r}; use weight_decay")
    if not isinstance(model.tol, Real) or isnan(model.tol):
        raise InputError(f"tol must be a number such as 1e-4, got {model.tol!r}")
    held = model.validation_fraction
    if model.early_stopping and not (isinstance(held, Real) and 0 < float(held) < 1):
        raise InputError(f"validation_fraction must lie between 0 and 1, got {held!r}")
    mode = model.standardize
    if not (is_whole(mode) or is_auto(mode) or mode is None):
        raise InputError(
            "standardize must be 'auto', None or a mode of a sample, such as -1 for the last, got "
            f"{mode!r}"
        )


def rate_of(model: Any, name: str) -> float:
    """Return learning rate or weight decay, that of the solver for "auto"; NaN if it is none."""
    value = getattr(model, name)
    if is_auto(value):
        return SOLVERS[model.solver][name]
    return float(value) if isinstance(value, Real) else nan


def is_auto(value: object) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value == "auto"


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
