"""Checks of an estimator's parameters, made when it is fitted."""

from __future__ import annotations

from math import inf, isfinite, isnan
from numbers import Integral, Real
from typing import Any, TypeGuard

import torch

from polyad.errors import InputError
from polyad.estimators.kinds import Device

SOLVERS = ("joint", "alternating")
STARTS = ("data", "unit-variance", "xavier")


def check_parameters(model: Any, rate: float, decay: float) -> None:
    """Raise `InputError` for a parameter that cannot be used.

    Parameters
    ----------
    model : RankREstimator
    rate, decay : float
        Learning rate and weight decay with "auto" resolved; NaN where they are no numbers.
    """
    whole = ["hidden", "epochs", "inner_steps"]
    whole += ["rank"] if not is_auto(model.rank) else []
    whole += ["patience"] if model.patience is not None else []
    whole += ["batch_size"] if model.batch_size not in ("auto", None) else []
    for name in whole:
        value = getattr(model, name)
        if not is_whole(value) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    check_solver(model.solver)
    if model.start not in STARTS:
        raise InputError(f"start must be 'data', 'unit-variance' or 'xavier', got {model.start!r}")
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
    check_standardize(model.standardize)


def check_standardize(standardize: object) -> None:
    """Raise `InputError` unless it is a whole number, "auto" or None."""
    if not (is_whole(standardize) or is_auto(standardize) or standardize is None):
        raise InputError(
            "standardize must be 'auto', None or a mode of a sample, such as -1 for the last, got "
            f"{standardize!r}"
        )


def is_auto(value: object) -> bool:
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value == "auto"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_solver(solver: object) -> None:
    """Raise `InputError` unless there is such a solver."""
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")


def resolve_device(device: Device) -> torch.device:
    """Return the device that a name stands for, or raise `InputError`."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (
        RuntimeError,
        AssertionError,
        TypeError,
    ) as error:  # torch asserts where CUDA is not built in
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used here ({reason}); try 'auto'") from error
