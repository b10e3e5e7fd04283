"""Models to files and back: `save` and `load`, around `polyad.estimators.file_format`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import sklearn
import torch
from safetensors.numpy import save as to_bytes
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from polyad.atomic import replacing
from polyad.codec import Fault
from polyad.core.network import RankRNet, network_sizes
from polyad.errors import InputError, ModelFileError, reason
from polyad.estimators import file_format
from polyad.estimators.base import RankREstimator
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.parameters import Array
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.fitting.epochs import History

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

KINDS = {"RankRClassifier": RankRClassifier, "RankRRegressor": RankRRegressor}

PathLike = str | os.PathLike[str]
Kind = TypeVar("Kind")


def save(model: BaseEstimator, path: PathLike, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file, whole or not at all.

    Parameters
    ----------
    model : RankRClassifier, RankRRegressor or Pipeline
        A pipeline may have `ModeStandardScaler` before one of these.
    path : path-like
        By custom it ends in ``.polyad``.
    about : mapping, optional
        Anything JSON can hold that should travel with the model.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from polyad import RankRClassifier
    >>> X = np.random.default_rng(0).normal(size=(20, 3, 4)); y = np.arange(20) % 2
    >>> model = RankRClassifier(hidden=5, random_state=0).fit(X, y)
    >>> path = tempfile.mkdtemp() + "/model.polyad"
    >>> save(model, path)
    >>> bool(np.array_equal(load(path).predict_proba(X), model.predict_proba(X)))
    True
    """
    names, scalers, model = _parts(model)
    check_is_fitted(model, "network_")
    network = model.network_.state_dict()
    tensors = {f"network.{k}": v.detach().cpu().contiguous().numpy() for k, v in network.items()}
    tensors |= _mean_and_scale("scaler", model.scaler_)
    for k, scaler in enumerate(scalers):
        check_is_fitted(scaler)
        tensors |= _mean_and_scale(f"pipeline.{k}", scaler)
    if isinstance(model, RankRRegressor):
        tensors |= {"target.mean": model.target_mean_, "target.scale": model.target_scale_}
    described = _header(model, dict(about or {}))
    if names:
        described["pipeline"] = {"names": names, "modes": [int(s.mode) for s in scalers]}
    try:
        header = json.dumps(described, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"about must hold what JSON can: numbers, strings, lists, mappings ({reason(error)})"
        ) from error
    try:
        file_format.parse_header(header)  # a file that load would refuse is not written
    except Fault as fault:
        raise InputError(f"the model cannot be kept in a file: {fault}") from fault
    metadata = {"polyad": header, "sha256": file_format.digest_of(header, tensors)}
    with replacing(path) as temporary:
        temporary.write_bytes(to_bytes(tensors, metadata))


@overload
def load(path: PathLike) -> RankRClassifier | RankRRegressor | Pipeline: ...


@overload
def load(path: PathLike, kind: type[Kind]) -> Kind: ...


def load(path: PathLike, kind: type[Any] | None = None) -> Any:
    """Read a model back; it predicts bit for bit as the one that was saved.

    Parameters
    ----------
    path : path-like
    kind : type, optional
        What the file must hold: `RankRClassifier`, `RankRRegressor` or a pipeline. A checker of
        types then knows it too.

    Returns
    -------
    RankRClassifier, RankRRegressor or Pipeline

    Raises
    ------
    ModelFileError
        The file is missing, damaged, inconsistent, too new, of another kind, or no model file at
        all.
    """
    model = load_with_about(path)[0]
    if kind is not None and not isinstance(model, kind):
        raise ModelFileError(
            f"{os.fspath(path)} holds a {type(model).__name__}, expected a {kind.__name__}; load "
            "it as what it is"
        )
    return model


def load_with_about(path: PathLike) -> tuple[Any, dict[str, Any]]:
    """Read a model and what was saved ``about`` it."""
    header, tensors = file_format.read_model(path)
    with file_format.invalid_as_error(path):
        return _rebuild(header, tensors), header.about


# -- writing ----------------------------------------------------------------------------------


def _parts(model: Any) -> tuple[list[str], list[ModeStandardScaler], RankREstimator]:
    """Return the names of a pipeline's steps, its scalers, and the model; of a model itself."""
    names, scalers, last = [], [], model
    if type(model).__name__ == "Pipeline":
        steps = [(name, step) for name, step in model.steps if step not in (None, "passthrough")]
        names, (*scalers, last) = [name for name, _ in steps], [step for _, step in steps]
    if type(last).__name__ not in KINDS or not all(type(s) is ModeStandardScaler for s in scalers):
        got = " > ".join(type(s).__name__ for s in (*scalers, last))
        raise InputError(
            f"save wants one of {', '.join(KINDS)}, also behind a ModeStandardScaler in a "
            f"Pipeline, got {got}; the model of a scene has its own save method, and other "
            "estimators are kept with joblib or skops"
        )
    return names, scalers, last


def _mean_and_scale(name: str, scaler: ModeStandardScaler | None) -> dict[str, Array]:
    if scaler is None:
        return {}
    return {f"{name}.mean": np.asarray(scaler.mean_), f"{name}.scale": np.asarray(scaler.scale_)}


def _header(model: RankREstimator, about: dict[str, Any]) -> dict[str, Any]:
    network = network_sizes(model.network_)
    del network["output_bias"]  # always there
    dtype = {"dtype": str(model.network_.output.weight.dtype).removeprefix("torch.")}
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a RandomState has moved on; it cannot be written down
    parameters["device"] = str(parameters["device"])  # a torch.device has a name too
    if isinstance(parameters.get("class_weight"), dict):
        weights = parameters["class_weight"].items()
        parameters["class_weight"] = [[_plain(k), float(v)] for k, v in weights]
    header = {
        "format": file_format.FORMAT,
        "kind": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in parameters.items()},
        "network": network | dtype,
        "scaler_mode": None if model.scaler_ is None else int(model.scaler_.mode),
        "history": {k: [float(v) for v in values] for k, values in vars(model.history_).items()},
        "feature_names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "pipeline": None,
        "about": about,
        "versions": {
            "polyad": version("polyad"),
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    if isinstance(model, RankRClassifier):
        kind = model.classes_.dtype
        if kind.kind not in "biufUO":
            raise InputError(f"classes of type {kind} cannot be kept in a model file; use strings")
        values = [_plain(c) for c in model.classes_.tolist()]
        header["classes"] = {"dtype": "object" if kind.hasobject else kind.str, "values": values}
        header["multilabel"] = model.multilabel_
    elif isinstance(model, RankRRegressor):
        header["one_target"] = model._one_target
    return header


def _plain(value: Any) -> Any:
    """Turn numpy scalars into Python's own; refuse what JSON cannot hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | bool | None | list | dict):
        return value
    raise InputError(
        f"a model file holds numbers and strings only, got {value!r} of type "
        f"{type(value).__name__}; encode the labels as strings"
    )


# -- reading ----------------------------------------------------------------------------------


def _rebuild(header: file_format.Header, tensors: dict[str, Array]) -> RankREstimator | Pipeline:
    shape = header.network.in_shape

    def scaler(mode: int, name: str) -> ModeStandardScaler:
        made = ModeStandardScaler(mode)
        made.mean_, made.scale_ = tensors[f"{name}.mean"], tensors[f"{name}.scale"]
        made.sample_shape_, made.n_features_in_ = shape, shape[0]
        return made

    model: RankRClassifier | RankRRegressor
    if isinstance(header, file_format.ClassifierHeader):
        parameters = header.parameters.model_dump()
        if isinstance(parameters["class_weight"], tuple):
            parameters["class_weight"] = dict(parameters["class_weight"])
        model = RankRClassifier(**parameters)
        model.classes_, model.multilabel_ = header.classes.array(), header.multilabel
    elif isinstance(header, file_format.RegressorHeader):
        model = RankRRegressor(**header.parameters.model_dump())
        model._one_target = header.one_target
        model.target_mean_, model.target_scale_ = tensors["target.mean"], tensors["target.scale"]
    sizes = header.network.model_dump() | {"dtype": getattr(torch, header.network.dtype)}
    model.network_ = RankRNet(**sizes, device="meta")  # without numbers: no memory is taken
    weights = {
        name: torch.from_numpy(tensors[f"network.{name}"]) for name in model.network_.state_dict()
    }
    model.network_.load_state_dict(weights, assign=True)
    model.sample_shape_, model.n_features_in_ = shape, shape[0]
    if header.feature_names:
        model.feature_names_in_ = np.asarray(header.feature_names, dtype=object)
    model.history_ = History(**{name: list(values) for name, values in header.history})
    model.n_iter_ = len(model.history_)
    mode = header.scaler_mode
    model.scaler_ = None if mode is None else scaler(mode, "scaler")
    if header.pipeline is None:
        return model
    from sklearn.pipeline import Pipeline  # only here, and slow to import

    steps = [scaler(mode, f"pipeline.{k}") for k, mode in enumerate(header.pipeline.modes)]
    return Pipeline(list(zip(header.pipeline.names, [*steps, model], strict=True)))
