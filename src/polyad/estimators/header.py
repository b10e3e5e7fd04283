"""The schema of a model file's header: every key, its type and its range.

The ranges are wider than any model that polyad fits in practice, and narrow enough that the work
and the memory of loading a model and of using it are bounded by the size of its file.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from polyad.core.plan import MAX_ORDER
from polyad.estimators.model_file import MODEL_BYTES
from polyad.estimators.schema import (
    ANYTHING,
    FLAG,
    NOTHING,
    Fault,
    ListOf,
    Plain,
    Record,
    Schema,
    check,
    either,
    number,
    numbers,
    one_of,
    shown,
    text,
    whole,
    whole_numbers,
)

# 1 had training pixels as lists, 2 no widths of bands, 3 no light of the scene, 4 no superpixels,
# 5 no values, accuracy, labels held out, pipelines or several labels for a sample, 6 no penalty
FORMAT = 7
# Names, not imported from where they are at home: a header is read without torch
ACTIVATIONS = ("tanh", "sigmoid", "relu", "identity")
HISTORY = ("loss", "score", "validation_loss", "validation_score", "seconds")
MOST = 2**31 - 1
UNITS = 2**20  # hidden units, or terms of one
OUTPUTS = 2**16
EPOCHS = 10**6
PIPELINE = 8  # steps
SPECTRUM = 2**20  # entries of one mode: bands
# What reading a header may cost: an empty list takes twenty times as much memory as its two signs
LISTS, COMMAS = 2**20, 2**22

_finite = number(-1.7e308, 1.7e308)
_rate = either(one_of("auto"), number(0, 1e6))
_class = either(
    Plain("a whole number", lambda v: isinstance(v, int) and -(2**63) <= v < 2**64),
    _finite,
    Plain("a text of at most 1,024 characters", lambda v: isinstance(v, str) and len(v) <= 1024),
)

_CLASS_WEIGHT = Plain(
    "null, balanced, or pairs of a class and a weight",
    lambda v: v in (None, "balanced") or (isinstance(v, dict) and _are_weights(v)),
)
_PARAMETERS = {
    "rank": either(one_of("auto"), whole(1, UNITS)),
    "hidden": whole(1, UNITS),
    "solver": one_of("joint", "alternating"),
    "activation": one_of("auto", *ACTIVATIONS),
    "start": one_of("data", "unit-variance", "xavier"),
    "hidden_bias": FLAG,
    "epochs": whole(1, EPOCHS),
    "learning_rate": _rate,
    "batch_size": either(one_of("auto"), NOTHING, whole(1, MOST)),
    "inner_steps": whole(1, EPOCHS),
    "weight_decay": _rate,
    "penalty": _rate,
    "standardize": either(one_of("auto"), NOTHING, whole(-MAX_ORDER, MAX_ORDER - 1)),
    "early_stopping": FLAG,
    "validation_fraction": number(0, 1),
    "patience": either(NOTHING, whole(1, MOST)),
    "tol": either(_finite, Plain("infinite", lambda v: v in (math.inf, -math.inf))),
    "device": text(64),
    "random_state": either(NOTHING, whole(0, 2**32 - 1)),
    "verbose": either(FLAG, whole(0, MOST)),
    "warm_start": FLAG,
}
_NETWORK = {
    "in_shape": whole_numbers(1, SPECTRUM, MAX_ORDER),
    "hidden": whole(1, UNITS),
    "n_outputs": whole(1, OUTPUTS),
    "rank": whole(1, UNITS),
    "activation": one_of(*ACTIVATIONS),
    "hidden_bias": FLAG,
    "start": one_of("unit-variance", "xavier"),
    "dtype": one_of("float32", "float64"),
}
_CLASS_TYPE = Plain(
    "numpy's name of a type of numbers or texts",
    lambda v: (
        isinstance(v, str)
        and re.fullmatch(r"object|[<>|=]?(b1|[iu][1248]|f[248]|U\d{1,10})", v, re.A) is not None
    ),
)
# Scalers before the estimator: the names of all steps, and the mode of each scaler
_PIPELINE = Record(
    {
        "names": ListOf(text(1024), PIPELINE, 1),
        "modes": whole_numbers(-MAX_ORDER, MAX_ORDER - 1, PIPELINE),
    }
)
_HEADER: dict[str, Schema] = {
    "format": whole(1, FORMAT),
    "kind": ANYTHING,  # decides which schema it is
    "network": Record(_NETWORK),
    "scaler_mode": either(NOTHING, whole(-MAX_ORDER, MAX_ORDER - 1)),
    # A score of constant targets is NaN
    "history": Record({name: numbers(-1.7e308, 1.7e308, EPOCHS, nan=True) for name in HISTORY}),
    "feature_names": ListOf(
        Plain("a text of at most 1,024 characters", lambda v: isinstance(v, str) and len(v) < 1025),
        SPECTRUM,
    ),
    "about": Plain("a mapping", lambda v: isinstance(v, dict)),
    "versions": Plain("a mapping", lambda v: isinstance(v, dict)),
}
_SCHEMAS = {
    "RankRClassifier": Record(
        {
            **_HEADER,
            "parameters": Record({}, {**_PARAMETERS, "class_weight": _CLASS_WEIGHT}),
            "classes": Record({"dtype": _CLASS_TYPE, "values": ListOf(_class, OUTPUTS, 1)}),
        },
        {"multilabel": FLAG, "pipeline": _PIPELINE},
    ),
    "RankRRegressor": Record(
        {**_HEADER, "parameters": Record({}, _PARAMETERS), "one_target": FLAG},
        {"pipeline": _PIPELINE},
    ),
}
KINDS = tuple(_SCHEMAS)


def parse_header(text: str) -> dict[str, Any]:
    """Return the header that a text holds; raise `Fault` unless it keeps the schema."""
    check_size(text)
    try:
        header: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Fault("its header is not JSON of ours") from error
    check_header(header)
    return header


def check_size(text: str) -> None:
    """Raise `Fault` if reading the text of a header would take far more memory than the text."""
    lists, commas = text.count("[") + text.count("{"), text.count(",")
    if lists > LISTS or commas > COMMAS:
        raise Fault(
            f"the header must hold at most {LISTS:,} lists and {COMMAS:,} commas, got {lists:,} "
            f"and {commas:,}"
        )


def check_format(header: Any) -> None:
    """Raise `Fault` unless the header is of a format that this version reads."""
    version = header.get("format") if isinstance(header, dict) else None
    if type(version) is not int:
        raise Fault("its header is not JSON of ours")
    if version > FORMAT:
        raise Fault(
            f"it has model format {version}, this polyad reads up to {FORMAT}; upgrade polyad"
        )


def check_header(header: Any) -> None:
    """Raise `Fault` unless the header describes a model whose parts agree."""
    check_format(header)
    check(one_of(*KINDS), header.get("kind"), "header.kind")
    check(_SCHEMAS[header["kind"]], header, "header")
    network, order = header["network"], len(header["network"]["in_shape"])
    if order < 1 or n_bytes(network) > MODEL_BYTES or math.prod(network["in_shape"]) > MOST:
        raise Fault(
            f"header.network must be of order 1 or more and of at most {MODEL_BYTES:,} bytes, got "
            f"{shown(network)}"
        )
    mode, names = header["scaler_mode"], header["feature_names"]
    if mode is not None and not -order <= mode < order:
        raise Fault(f"header.scaler_mode must be a mode of {order}, got {mode}")
    if names and len(names) != network["in_shape"][0]:
        raise Fault(
            f"header.feature_names must be {network['in_shape'][0]} for samples of "
            f"{tuple(network['in_shape'])}, got {len(names)}"
        )
    if "pipeline" in header:
        _check_pipeline(header["pipeline"], order)
    lengths = {k: len(v) for k, v in header["history"].items()}
    epochs = lengths["loss"]
    if any(n not in ((0, epochs) if "validation" in k else (epochs,)) for k, n in lengths.items()):
        raise Fault(f"header.history must have as many entries everywhere, got {shown(lengths)}")
    if "classes" in header and len(header["classes"]["values"]) != network["n_outputs"]:
        raise Fault(
            f"header.classes must be {network['n_outputs']}, one for each output, got "
            f"{len(header['classes']['values'])}"
        )


def _check_pipeline(pipeline: dict[str, Any], order: int) -> None:
    names, modes = pipeline["names"], pipeline["modes"]
    if len(names) != len(modes) + 1 or len(set(names)) < len(names):
        raise Fault(
            f"header.pipeline must have one name for each scaler and one for the model, all "
            f"different, got {shown(names)} for {len(modes)} scalers"
        )
    if any(not -order <= mode < order for mode in modes):
        raise Fault(f"header.pipeline.modes must be modes of {order}, got {shown(modes)}")


def n_bytes(network: dict[str, Any]) -> int:
    """Return how many bytes the weights of a header's network take."""
    terms = network["hidden"] * network["rank"]
    outputs = (network["hidden"] + 1) * (network["n_outputs"] + 1)
    return (terms * sum(network["in_shape"]) + outputs) * (
        4 if network["dtype"] == "float32" else 8
    )


def _are_weights(value: dict[str, Any]) -> bool:
    pairs = value.get("pairs")
    return (
        len(value) == 1
        and isinstance(pairs, list)
        and len(pairs) <= OUTPUTS
        and all(isinstance(p, list) and len(p) == 2 for p in pairs)
        and all(_class.holds(c) and number(0, 1e300).holds(w) for c, w in pairs)
    )
