"""Warm starts: a fit that goes on from the network of the fit before."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyad.errors import InputError


def can_resume(model: Any) -> bool:
    """Whether the next fit starts from the network that the model has."""
    return bool(model.warm_start) and hasattr(model, "network_")


def check_same_task(model: Any, shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless the fitted network can go on with samples of ``shape``."""
    layer = model.network_.hidden
    now = {
        "sample shape": tuple(shape),
        "rank": model.rank,
        "hidden": model.hidden,
        "activation": model.activation,
        "hidden_bias": model.hidden_bias,
    }
    before = {
        "sample shape": tuple(layer.in_shape),
        "rank": layer.rank,
        "hidden": layer.out_features,
        "activation": model.network_.activation,
        "hidden_bias": layer.bias is not None,
    }
    for name, value in before.items():
        if now[name] not in (value, "auto"):
            raise InputError(
                f"a warm start goes on with the same {name}, {value}, got {now[name]}; fit with "
                "warm_start=False"
            )


def coordinates_of(model: Any) -> dict[str, Any]:
    """Return the settings that say in which coordinates a fitted model's network works."""
    before = getattr(model, "settings_", None)
    if before is not None:
        return {name: before[name] for name in ("standardize", "whiten")}
    return {"standardize": None if model.scaler_ is None else model.scaler_.mode, "whiten": 0.0}


def check_same_classes(fitted: Any, classes: Any) -> None:
    """Raise `InputError` unless no class is new; those that are missing keep their output."""
    new = np.setdiff1d(classes, fitted)
    if len(new):
        raise InputError(
            f"a warm start goes on with the classes {fitted!r}, got {new!r} too; fit with "
            "warm_start=False"
        )
