"""The schema of what a model file says of the numbers that its network predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyad.estimators.header import MOST
from polyad.estimators.schema import (
    NOTHING,
    Fault,
    ListOf,
    Plain,
    Record,
    check,
    either,
    number,
    numbers,
    text,
    whole,
)
from polyad.scene.files.option_values import MAX_WINDOW, SINGLE
from polyad.scene.learn.steps.experts import VIEWS
from polyad.scene.raster.targets import MOST_TARGETS

MOST_FOLDS = 32
NAME = 256  # characters
LARGE = 1e300
NOISE = 1e76  # its root is a number in single precision, also beside the spread of folds

EXPERT = Plain(
    "[view, window, strength]",
    lambda v: (
        isinstance(v, list)
        and len(v) == 3
        and v[0] in VIEWS
        and whole(1, MAX_WINDOW).holds(v[1])
        and number(0, 1e9).holds(v[2])
    ),
)
_bound = either(NOTHING, number(-SINGLE, SINGLE))
_TARGET = Plain(
    f"[name of at most {NAME} characters, units, lower bound or null, upper bound or null]",
    lambda v: isinstance(v, list) and len(v) == 4 and _is_target(*v),
)
_RANGES = {"r2": (-LARGE, 1), "rmse": (0, LARGE), "mae": (0, LARGE), "bias": (-LARGE, LARGE)}


def _interval(least: float, most: float) -> Plain:
    """Want nothing, or two numbers of a range that ascend."""
    ends = numbers(least, most, 2)
    return Plain(
        f"null or two numbers from {least:g} to {most:g}, which ascend",
        lambda v: v is None or (ends.holds(v) and len(v) == 2 and v[0] <= v[1]),
    )


_SCORE = Record(
    {
        "target": text(NAME),
        "units": Plain("a text", lambda v: v == "" or text(NAME).holds(v)),
        "n": whole(0, MOST),
        "groups": whole(0, MOST),
        **{m: either(NOTHING, number(*ends)) for m, ends in _RANGES.items()},
        **{f"{m}_ci95": _interval(*ends) for m, ends in _RANGES.items()},
    }
)
_VALUES = Record(
    {
        "targets": ListOf(_TARGET, MOST_TARGETS, 1),
        "folds": whole(0, MOST_FOLDS),
        "noise": numbers(0, NOISE, MOST_TARGETS),
        "experts": ListOf(EXPERT, 64, 1),
        "weights": numbers(0, 1, 64),
        "scores": ListOf(_SCORE, MOST_TARGETS),
        "side": whole(0, MOST),
        "points": whole(0, MOST),
    }
)


def check_values_header(scene: Mapping[str, Any]) -> None:
    """Raise `Fault` unless the description of the targets keeps the schema and is consistent."""
    check(_VALUES, scene["values"], "scene.values")
    values = scene["values"]
    targets = len(values["targets"])
    wanted = {"noise": targets, "weights": len(values["experts"])}
    wanted |= {"scores": targets} if values["scores"] else {}
    for key, count in wanted.items():
        if len(values[key]) != count:
            raise Fault(f"scene.values.{key} must have {count} entries, got {len(values[key])}")
    names = [row[0] for row in values["targets"]]
    if len(set(names)) < len(names):
        raise Fault("scene.values.targets must have different names")
    if scene["classes"]:
        raise Fault("scene.classes must be empty where scene.values is given")
    if scene.get("recipe") is not None and scene["recipe"].get("steps"):
        raise Fault("scene.recipe.steps must be empty where scene.values is given")


def check_values_network(values: Mapping[str, Any], estimator: Any) -> None:
    """Raise `Fault` unless the network gives the targets of the description."""
    wanted = len(values["targets"]) * (1 + values["folds"])
    from polyad.estimators.regressor import RankRRegressor  # here: a header needs no torch

    if not isinstance(estimator, RankRRegressor):
        raise Fault(f"scene.values must be of a RankRRegressor, got a {type(estimator).__name__}")
    got = estimator.network_.output.out_features
    if got != wanted:
        raise Fault(f"scene.values must be of the network's outputs, {got}, got {wanted}")


def _is_target(name: Any, units: Any, low: Any, high: Any) -> bool:
    return (
        text(NAME).holds(name)
        and (units == "" or text(NAME).holds(units))
        and _bound.holds(low)
        and _bound.holds(high)
        and (low is None or high is None or low < high)
    )
