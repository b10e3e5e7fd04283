"""The schema of a model file's description of its scene: every key, its type and its range.

The ranges of the steps' settings keep the work for each pixel within some thirty times that of the
settings polyad itself chooses.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.codec import Fault, shown
from polyad.estimators.model_file import MOST, OUTPUTS, SPECTRUM
from polyad.estimators.schema import (
    NOTHING,
    ListOf,
    Plain,
    Record,
    check,
    either,
    number,
    numbers,
    one_of,
    text,
    whole,
    whole_numbers,
)
from polyad.scene.files.option_values import GOALS, MAX_WINDOW, PRESETS, SINGLE
from polyad.scene.learn.accuracy import FOLDS_BY, MOST_CONFUSION
from polyad.scene.learn.recipe import VIEWS, Recipe
from polyad.scene.raster.classes import MOST_TARGETS
from polyad.scene.raster.despiking import SUMS
from polyad.scene.raster.scene import KEPT, SHARES

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


_count = whole(0, MOST)
_share = either(NOTHING, number(0, 1))
_interval_accuracy_header = Plain(
    "null or two numbers from -1 to 1, which ascend",
    lambda v: v is None or (numbers(-1, 1, 2).holds(v) and len(v) == 2 and v[0] <= v[1]),
)
_CLASS = Record(
    {
        "name": text(NAME),
        "labels": _count,
        "tested": _count,
        "groups": _count,
        "recall": _share,
        "recall_ci95": _interval_accuracy_header,
        "precision": _share,
    }
)
_row = whole_numbers(0, MOST, MOST_CONFUSION)
_matrix = Plain(
    f"null or a square of at most {MOST_CONFUSION} rows",
    lambda v: (
        v is None
        or (
            isinstance(v, list)
            and len(v) <= MOST_CONFUSION
            and all(_row.holds(row) and len(row) == len(v) for row in v)
        )
    ),
)
_HELD_OUT = Record(
    {
        "by": one_of(*FOLDS_BY),
        "side": _count,
        "folds": whole(1, MOST),
        "groups": _count,
        "labels": _count,
        "overall_accuracy": number(0, 1),
        "overall_accuracy_ci95": _interval_accuracy_header,
        "average_accuracy": number(0, 1),
        "average_accuracy_ci95": _interval_accuracy_header,
        "kappa": either(NOTHING, number(-1, 1)),
        "kappa_ci95": _interval_accuracy_header,
        "classes": ListOf(_CLASS, OUTPUTS, 1),
        "confusion_matrix": _matrix,
    }
)
_mapping = Plain("null or a mapping", lambda v: v is None or isinstance(v, dict))
_ACCURACY = Record(
    {
        "method": one_of("outer", "choice"),
        "spatial": _mapping,
        "pixelwise": _mapping,
        "needed": ListOf(Record({"name": text(NAME), "places": _count}), OUTPUTS),
    }
)


def check_accuracy(stored: Any, names: Sequence[str], key: str) -> None:
    """Raise `Fault` unless ``stored`` is an accuracy of a model of classes of these names."""
    check(_ACCURACY, stored, key)
    for way in ("spatial", "pixelwise"):
        if stored[way] is None:
            continue
        check(_HELD_OUT, stored[way], f"{key}.{way}")
        for name in ("classes", "confusion_matrix"):
            rows = stored[way][name]
            if rows is not None and len(rows) != len(names):
                raise Fault(f"{key}.{way}.{name} must have {len(names)} entries, got {len(rows)}")
        found = [row["name"] for row in stored[way]["classes"]]
        if found != list(names):
            raise Fault(f"{key}.{way}.classes must be named as in the model, got {shown(found)}")
    odd = [row["name"] for row in stored["needed"] if row["name"] not in names]
    if odd:
        raise Fault(f"{key}.needed must name classes of the model, got {shown(odd[0])}")


Array = npt.NDArray[Any]
PROJECTION = 2**27  # weights on spectra that a tile is multiplied by
WINDOWS = 2**26  # numbers that one pixel's window is projected to
FILTER_BYTES = 2**28  # that a guided filter may take round one pixel

_spectrum = numbers(-SINGLE, SINGLE, SPECTRUM)
_setting = number(1e-3, 1e6)
_CLASS_model_header = Plain(
    f"[id from 1 to 65535, name of at most {NAME} visible characters, color as #rrggbb]",
    lambda v: isinstance(v, list) and len(v) == 3 and _is_class(*v),
)
_PIXELS = Plain(
    "rows and columns of pixels",
    lambda v: isinstance(v, str) or (isinstance(v, list) and all(map(_is_pixel, v))),
)
_GRAPH = Plain(
    "[components from 1 to 32, contrast from 0.001 to 1e+06]",
    lambda v: (
        isinstance(v, list) and len(v) == 2 and number(1, 32).holds(v[0]) and _setting.holds(v[1])
    ),
)
_PROPAGATION = Record(
    {},
    {
        "components": whole(1, 64),
        "coarse": _setting,
        "scale": number(0, 1e9),
        "least": whole(0, 10**6),
        "graphs": ListOf(_GRAPH, 4, 1),
        "neighbours": whole(1, 40),
        "nearness": number(0, 1e3),
        "alpha": number(0, 1),
        "walk": whole(0, 500),
        "doubt": number(0, 1),
        "superpixel": whole(1, 4096),
    },
)
_STEPS: dict[str, Record] = {
    "guided": Record(
        {
            "step": one_of("guided"),
            "radius": whole(1, 32),
            "ridge": number(1e-9, 1e9),
            "mean": _spectrum,
            "projection": ListOf(numbers(-SINGLE, SINGLE, 8), SPECTRUM, 1),
        }
    ),
    "propagate": Record(
        {
            "step": one_of("propagate"),
            "settings": _PROPAGATION,
            "targets": whole_numbers(0, OUTPUTS, MOST),
            "weights": numbers(0, 1e6, 2),
        }
    ),
}
_STEP = Plain(
    f"a mapping whose step is one of {', '.join(_STEPS)}",
    lambda v: isinstance(v, dict) and isinstance(v.get("step"), str) and v["step"] in _STEPS,
)
_RECIPE = Record(
    {
        "preset": one_of(*PRESETS),
        "goal": one_of(*GOALS),
        "line": text(2000),
        "steps": ListOf(_STEP, len(_STEPS)),
    }
)
_CHOICE = Record(
    {
        "experts": ListOf(EXPERT, 64, 1),
        "weights": numbers(0, 1, 64),
        "overall": _share,
        "average": _share,
        "interval": either(NOTHING, numbers(0, 1, 2)),
        "side": whole(0, MOST),
        "groups": whole(0, MOST),
        "labels": whole(0, MOST),
    }
)
_TRAINING = Record(
    {},
    {
        "scene": text(64),
        "pixels": _PIXELS,
        "counts": whole_numbers(0, MOST, OUTPUTS),
        "seconds": number(0, 1e12),
        "without_data": whole(0, MOST),
        "incomplete": whole(0, MOST),
        "replaced": whole(0, MOST),
        "choice": _CHOICE,
        "accuracy": Plain("a mapping", lambda v: isinstance(v, dict)),
        "numbered_by_name": Plain("true or false", lambda v: isinstance(v, bool)),
    },
)
_LEFT_OUT = Record(
    {},
    {
        "kept": whole_numbers(1, SPECTRUM, SPECTRUM),
        "in_file": whole(1, SPECTRUM),
        "note": text(2000),
    },
)
_SCENE = Record(
    {
        "window": whole(1, MAX_WINDOW),
        "classes": ListOf(_CLASS_model_header, OUTPUTS),
        "bands": whole(1, SPECTRUM),
        "training": _TRAINING,
    },
    {
        # NaN where the scene did not say
        "wavelength": either(NOTHING, numbers(-1e12, 1e12, SPECTRUM, nan=True)),
        "fill": either(NOTHING, _spectrum),
        "recipe": Plain("null or a mapping", lambda v: v is None or isinstance(v, dict)),
        "fwhm": either(NOTHING, numbers(-1e12, 1e12, SPECTRUM, nan=True)),
        "left_out": _LEFT_OUT,
        "radiometry": Plain("null or a mapping", lambda v: v is None or isinstance(v, dict)),
        "soundness": Plain("null or a mapping", lambda v: v is None or isinstance(v, dict)),
        "values": Plain("a mapping", lambda v: isinstance(v, dict)),
        "held_out": Plain("null or a mapping", lambda v: v is None or isinstance(v, dict)),
    },
)
_HELD_OUT_model_header = Record(
    {
        "probabilities": numbers(0, 1, MOST),
        "targets": whole_numbers(0, OUTPUTS, MOST),
        "distance": number(0, MOST),
    }
)
_QUANTILES = ListOf(_spectrum, len(SHARES), len(SHARES))
_RADIOMETRY = Record(
    {
        "training": _QUANTILES,
        "scene": _QUANTILES,
        "spectra": Plain("a text", lambda v: isinstance(v, str) and v.isascii()),
    }
)
_scales = numbers(1e-30, SINGLE, SPECTRUM)
_SOUNDNESS = Record(
    {
        "center": _spectrum,
        "scale": _scales,
        "tail": _scales,
        "sum_center": numbers(-SINGLE, SINGLE, SUMS),
        "sum_scale": numbers(1e-30, SINGLE, SUMS),
    }
)


def check_classes(classes: Any) -> None:
    """Raise `Fault` unless a model file can hold the table of classes."""
    check(ListOf(_CLASS_model_header, OUTPUTS, 1), [list(c) for c in classes], "classes")


def check_scene_header(scene: Any) -> None:
    """Raise `Fault` unless the description of a scene keeps the schema and is consistent."""
    check(_SCENE, scene, "scene")
    if "values" in scene:
        check_values_header(scene)
    else:
        check(ListOf(_CLASS_model_header, OUTPUTS, 1), scene["classes"], "scene.classes")
    bands, classes = scene["bands"], scene["classes"]
    training = scene["training"]
    pixels = unpacked(training.get("pixels", []))
    for key in ("wavelength", "fill", "fwhm"):
        _check_length(scene.get(key), bands, f"scene.{key}")
    _check_length(scene.get("left_out", {}).get("kept"), bands, "scene.left_out.kept")
    _check_length(training.get("counts"), len(classes), "scene.training.counts")
    if "choice" in training:
        choice, key = training["choice"], "scene.training.choice"
        _check_length(choice["weights"], len(choice["experts"]), f"{key}.weights")
        _check_length(choice["interval"], 2, f"{key}.interval")
    if "accuracy" in training:
        names = [row[1] for row in classes]
        check_accuracy(training["accuracy"], names, "scene.training.accuracy")
    _check_light(scene, bands)
    if scene.get("held_out") is not None:
        _check_held_out(scene["held_out"], len(classes))
    if scene.get("recipe") is not None:
        check(_RECIPE, scene["recipe"], "scene.recipe")
        for place, step in enumerate(scene["recipe"]["steps"]):
            key = f"scene.recipe.steps[{place}]"
            check(_STEPS[step["step"]], step, key)
            _check_step(step, bands, len(classes), len(pixels), key)
        kinds = [step["step"] for step in scene["recipe"]["steps"]]
        if len(set(kinds)) < len(kinds):
            raise Fault(f"scene.recipe.steps must differ, got {shown(kinds)}")


def _check_held_out(held_out: dict[str, Any], classes: int) -> None:
    """Raise `Fault` unless every label that was held out has a probability and a class."""
    key = "scene.held_out"
    check(_HELD_OUT_model_header, held_out, key)
    _check_length(held_out["targets"], len(held_out["probabilities"]), f"{key}.targets")
    if max(held_out["targets"], default=0) >= classes:
        raise Fault(f"{key}.targets must be below {classes}, got {max(held_out['targets'])}")


def _check_light(scene: dict[str, Any], bands: int) -> None:
    """Raise `Fault` unless the numbers of the scene's light are there for every band."""
    light, soundness = scene.get("radiometry"), scene.get("soundness")
    if light is not None:
        check(_RADIOMETRY, light, "scene.radiometry")
        for key in ("training", "scene"):
            for row in light[key]:
                _check_length(row, bands, f"scene.radiometry.{key}")
            if any(a > b for pair in pairwise(light[key]) for a, b in zip(*pair, strict=True)):
                raise Fault(f"scene.radiometry.{key} must be quantiles, which ascend")
        if len(light["spectra"]) > 6 * KEPT * bands:
            raise Fault(f"scene.radiometry.spectra must be at most {KEPT}")
    if soundness is not None:
        check(_SOUNDNESS, soundness, "scene.soundness")
        for key in ("center", "scale", "tail"):
            _check_length(soundness[key], bands - 2, f"scene.soundness.{key}")
        for key in ("sum_center", "sum_scale"):
            _check_length(soundness[key], SUMS, f"scene.soundness.{key}")


def check_network(scene: Mapping[str, Any], estimator: Any) -> None:
    """Raise `Fault` unless the network takes the windows and gives the answers of ``scene``."""
    ids = [row[0] for row in scene["classes"]]
    own = getattr(estimator, "classes_", np.empty(0))
    if "values" in scene:
        check_values_network(scene["values"], estimator)
    elif own.dtype.kind not in "iu" or own.tolist() != ids:
        raise Fault(
            f"scene.classes must be those of the network, {shown(own.tolist())}, got {shown(ids)}"
        )
    window, shape = scene["window"], tuple(estimator.sample_shape_)
    if len(shape) == 1:
        shape = (1, 1, *shape)
    if shape[:2] != (window, window) or window % 2 == 0 or math.prod(shape[2:]) != scene["bands"]:
        raise Fault(
            f"scene.window and scene.bands must be those of the network, which takes {shape}, got "
            f"{window} and {scene['bands']}"
        )
    layer = estimator.network_.hidden
    if layer.out_features * layer.rank * scene["bands"] > PROJECTION:
        raise Fault(f"scene.bands must be fewer for {layer.out_features} x {layer.rank} terms")
    if layer.out_features * layer.rank * window**2 > WINDOWS:
        raise Fault(f"scene.window must be smaller for {layer.out_features} x {layer.rank} terms")
    mode = None if estimator.scaler_ is None else estimator.scaler_.mode % len(layer.in_shape)
    if mode is not None and mode < len(layer.in_shape) - len(shape[2:]):
        raise Fault(f"header.scaler_mode must be a mode of bands, got {mode} of {layer.in_shape}")


def working_bytes(classes: int, recipe: Recipe | None) -> int:
    """Return about how many bytes a pixel takes while its probabilities are computed."""
    steps = () if recipe is None else recipe.steps
    return 4 * classes + sum(guide_bytes(classes, s) for s in steps if s["step"] == "guided")


def guide_bytes(classes: int, step: Mapping[str, Any]) -> int:
    """Return about how many bytes a pixel takes in a guided filter: four copies in double."""
    return 32 * classes * (len(step["projection"][0]) + 1)


def packed(pixels: Any) -> str:
    """Return rows and columns, ``(n, 2)``, as a text that takes eleven characters a pixel.

    Examples
    --------
    >>> unpacked(packed([[0, 7], [300, 2]])).tolist()
    [[0, 7], [300, 2]]
    """
    return base64.b64encode(np.asarray(pixels, "<i4").reshape(-1, 2).tobytes()).decode()


def unpacked(pixels: Any) -> Array:
    """Return rows and columns, ``(n, 2)``; files of format 1 have them as lists."""
    if not isinstance(pixels, str):
        return np.asarray(pixels, np.int64).reshape(-1, 2)
    try:
        rows_cols = np.frombuffer(base64.b64decode(pixels, validate=True), "<i4").reshape(-1, 2)
    except (binascii.Error, ValueError) as error:
        raise Fault("scene.training.pixels must be pairs of 32-bit numbers in base64") from error
    if rows_cols.min(initial=0) < 0:
        raise Fault(f"scene.training.pixels must not be below 0, got {rows_cols.min()}")
    return rows_cols


def _check_step(step: dict[str, Any], bands: int, classes: int, pixels: int, key: str) -> None:
    """Raise `Fault` unless a step has numbers for every band, pixel and class."""
    if step["step"] == "guided":
        _check_length(step["mean"], bands, f"{key}.mean")
        _check_length(step["projection"], bands, f"{key}.projection")
        widths = {len(row) for row in step["projection"]}
        if len(widths) != 1 or widths == {0}:
            raise Fault(f"{key}.projection must have rows of one length, got {shown(widths)}")
        if guide_bytes(classes, step) * (4 * step["radius"] + 1) ** 2 > FILTER_BYTES:
            raise Fault(f"{key}.radius must be smaller for {classes} classes")
    else:
        _check_length(step["targets"], pixels, f"{key}.targets")
        _check_length(step["weights"], 2, f"{key}.weights")
        if max(step["targets"], default=0) >= classes:
            raise Fault(f"{key}.targets must be below {classes}, got {max(step['targets'])}")


def _check_length(values: list[Any] | None, wanted: int, key: str) -> None:
    if values is not None and len(values) != wanted:
        raise Fault(f"{key} must have {wanted} entries, got {len(values)}")


def _is_class(value: Any, name: Any, color: Any) -> bool:
    return (
        whole(1, 65535).holds(value)
        and text(NAME).holds(name)
        and isinstance(color, str)
        and re.fullmatch("#[0-9a-fA-F]{6}", color) is not None
    )


def _is_pixel(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(v) is int and 0 <= v <= MOST for v in value)
    )
