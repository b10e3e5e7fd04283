"""The model file: safetensors with a JSON header, read without running any code.

The file is an ordinary safetensors file. Its metadata holds two strings: ``polyad``, a JSON
header with everything that is not a tensor, and ``sha256``, a digest over header and tensors.
The header must keep its schema (`polyad.estimators.header`) before anything is built or read by it;
a model is then rebuilt from the header alone, and every tensor must fit the shape that follows.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import sklearn
import torch
from safetensors.torch import save as to_bytes
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from polyad.atomic import replacing
from polyad.core.network import RankRNet
from polyad.errors import InputError, ModelFileError, reason
from polyad.estimators.base import RankREstimator
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.header import FORMAT, parse_header
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.estimators.schema import Fault, shown
from polyad.estimators.stored_header import digest_of, opened_model
from polyad.fitting.epochs import History

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

KINDS: dict[str, type[RankREstimator]] = {
    "RankRClassifier": RankRClassifier,
    "RankRRegressor": RankRRegressor,
}

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
    >>> path = Path(tempfile.mkdtemp()) / "model.polyad"
    >>> save(model, path)
    >>> bool(np.array_equal(load(path).predict_proba(X), model.predict_proba(X)))
    True
    """
    names, scalers, model = _parts(model)
    check_is_fitted(model, "network_")
    tensors = {f"network.{k}": v.cpu().contiguous() for k, v in _state(model.network_).items()}
    tensors |= {name: torch.from_numpy(np.asarray(a)) for name, a in _arrays(model).items()}
    for k, scaler in enumerate(scalers):
        check_is_fitted(scaler)
        for part in ("mean", "scale"):
            array = getattr(scaler, f"{part}_")
            tensors[f"pipeline.{k}.{part}"] = torch.from_numpy(np.asarray(array))
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
        parse_header(header)  # a file that load would refuse is not written
    except Fault as fault:
        raise InputError(f"the model cannot be kept in a file: {fault}") from fault
    metadata = {"polyad": header, "sha256": _digest(header, tensors)}
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
            f"{os.fspath(path)} holds a {type(model).__name__}, wanted a {kind.__name__}; load it "
            "as what it is"
        )
    return model


def load_with_about(path: PathLike) -> tuple[Any, dict[str, Any]]:
    """Read a model and what was saved ``about`` it."""
    path = Path(path)
    header, tensors = _read(path)
    try:
        return _rebuild(header, tensors), header["about"]
    except Fault as fault:
        raise ModelFileError(f"{path} describes no valid model: {fault}; {fault.remedy}") from fault


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


def _header(model: RankREstimator, about: dict[str, Any]) -> dict[str, Any]:
    layer, output = model.network_.hidden, model.network_.output
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a RandomState has moved on; it cannot be written down
    parameters["device"] = str(parameters["device"])  # a torch.device has a name too
    if isinstance(parameters.get("class_weight"), dict):
        pairs = [[_plain(k), float(v)] for k, v in parameters["class_weight"].items()]
        parameters["class_weight"] = {"pairs": pairs}
    header = {
        "format": FORMAT,
        "kind": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in parameters.items()},
        "network": {
            "in_shape": list(layer.in_shape),
            "hidden": layer.out_features,
            "n_outputs": output.out_features,
            "rank": layer.rank,
            "activation": model.network_.activation,
            "hidden_bias": layer.bias is not None,
            "start": layer.start,
            "dtype": str(output.weight.dtype).removeprefix("torch."),
        },
        "scaler_mode": None if model.scaler_ is None else int(model.scaler_.mode),
        "history": {k: [float(v) for v in values] for k, values in vars(model.history_).items()},
        "feature_names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "about": about,
        "versions": {
            "polyad": version("polyad"),
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    if isinstance(model, RankRClassifier):
        kind = _class_type(model.classes_.dtype)
        values = [_plain(c) for c in model.classes_.tolist()]
        header["classes"] = {"dtype": "object" if kind.hasobject else kind.str, "values": values}
        if model.multilabel_:
            header["multilabel"] = True
    elif isinstance(model, RankRRegressor):
        header["one_target"] = model._one_target
    return header


def _arrays(model: RankREstimator) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    if model.scaler_ is not None:
        arrays |= {"scaler.mean": model.scaler_.mean_, "scaler.scale": model.scaler_.scale_}
    if isinstance(model, RankRRegressor):
        arrays |= {"target.mean": model.target_mean_, "target.scale": model.target_scale_}
    return arrays


def _state(network: RankRNet) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in network.state_dict().items()}


def _plain(value: Any) -> Any:
    """Turn numpy scalars into Python's own; refuse what JSON cannot hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | bool | None | list | dict):
        return value
    raise InputError(
        f"a model file holds numbers and strings only, got {value!r} of type "
        f"{type(value).__name__}; encode the labels as strings"
    )


def _class_type(kind: np.dtype[Any]) -> np.dtype[Any]:
    if kind.kind not in "biufUO":
        raise InputError(f"classes of type {kind} cannot be kept in a model file; use strings")
    return kind


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    return digest_of(header, {name: tensor.numpy() for name, tensor in tensors.items()})


# -- reading ----------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors of an undamaged file; nothing is read that has no place."""
    with opened_model(path, "pt") as (content, header, checked):
        wanted = _shapes(header)
        _check_names(wanted, set(content.keys()))
        tensors = {name: _tensor(content, name, *wanted[name]) for name in wanted}
        checked({name: tensor.numpy() for name, tensor in tensors.items()})
    return header, tensors


def _shapes(header: dict[str, Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type of every tensor that the header speaks of."""
    network = _empty_network(header["network"])
    kind = "F32" if header["network"]["dtype"] == "float32" else "F64"
    shapes = {f"network.{k}": (tuple(v.shape), kind) for k, v in network.state_dict().items()}
    if header["scaler_mode"] is not None:
        size = (header["network"]["in_shape"][header["scaler_mode"]],)
        shapes |= {f"scaler.{k}": (size, "F64") for k in ("mean", "scale")}
    for k, mode in enumerate(header.get("pipeline", {}).get("modes", ())):
        size = (header["network"]["in_shape"][mode],)
        shapes |= {f"pipeline.{k}.{part}": (size, "F64") for part in ("mean", "scale")}
    if header["kind"] == "RankRRegressor":
        size = (header["network"]["n_outputs"],)
        shapes |= {f"target.{k}": (size, "F64") for k in ("mean", "scale")}
    return shapes


def _check_names(wanted: Iterable[str], names: set[str]) -> None:
    lacking, spare = sorted(set(wanted) - names), sorted(names - set(wanted))
    if lacking:
        raise Fault(f"it lacks the tensor {lacking[0]!r}")
    if spare:
        raise Fault(f"it holds tensors that its header has no place for: {shown(spare)}")


def _tensor(content: Any, name: str, shape: tuple[int, ...], kind: str) -> Tensor:
    """Read one tensor into memory of its own, if it is what the header promises."""
    stored = content.get_slice(name)
    stored_shape, dtype = tuple(stored.get_shape()), stored.get_dtype()
    if stored_shape != shape or dtype != kind:
        raise Fault(
            f"tensor {name!r} should be {shape} of {kind} by the header, got "
            f"{shown(stored_shape)} of {dtype}"
        )
    tensor = content.get_tensor(name).clone()
    if not bool(torch.isfinite(tensor).all()):
        raise Fault(f"tensor {name!r} holds NaN or infinite values", "fit it again")
    if name.endswith(".scale") and bool((tensor <= 0).any()):
        raise Fault(f"tensor {name!r} holds scales that are not above 0")
    return tensor


def _rebuild(header: dict[str, Any], tensors: dict[str, Tensor]) -> RankREstimator | Pipeline:
    model = _rebuild_model(header, tensors)
    if "pipeline" not in header:
        return model
    from sklearn.pipeline import Pipeline  # only here, and slow to import

    modes = enumerate(header["pipeline"]["modes"])
    shape = model.sample_shape_
    steps = [_scaler(mode, shape, tensors, f"pipeline.{k}") for k, mode in modes]
    return Pipeline(list(zip(header["pipeline"]["names"], [*steps, model], strict=True)))


def _rebuild_model(header: dict[str, Any], tensors: dict[str, Tensor]) -> RankREstimator:
    parameters = header["parameters"]
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = {k: v for k, v in parameters["class_weight"]["pairs"]}  # noqa: C416
    model = KINDS[header["kind"]](**parameters)
    model.network_ = _empty_network(header["network"])
    own = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
    model.network_.load_state_dict(own, assign=True)
    model.sample_shape_ = tuple(header["network"]["in_shape"])
    model.n_features_in_ = model.sample_shape_[0]
    if header["feature_names"]:
        model.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    model.history_ = History(**header["history"])
    model.n_iter_ = len(model.history_)
    model.scaler_ = None
    if header["scaler_mode"] is not None:
        model.scaler_ = _scaler(header["scaler_mode"], model.sample_shape_, tensors)
    if isinstance(model, RankRClassifier):
        model.classes_ = _classes(header["classes"])
        model.multilabel_ = header.get("multilabel", False)
    elif isinstance(model, RankRRegressor):
        model._one_target = header["one_target"]
        model.target_mean_ = tensors["target.mean"].numpy()
        model.target_scale_ = tensors["target.scale"].numpy()
    return model


def _classes(classes: dict[str, Any]) -> Any:
    kind = _class_type(np.dtype(classes["dtype"]))
    try:
        # Strings are as wide as the longest of them, not as wide as the header claims
        values = np.asarray(classes["values"], dtype=str if kind.kind == "U" else kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise Fault(
            f"header.classes must be values of {kind}, got others ({reason(error)})"
        ) from error
    if len(set(values.tolist())) != len(values):
        raise Fault(f"header.classes must be distinct, got {shown(classes['values'])}")
    return values


def _empty_network(shape: dict[str, Any]) -> RankRNet:
    """Return the network without numbers: on the meta device no memory is taken."""
    shape = shape | {"dtype": getattr(torch, shape["dtype"])}
    return RankRNet(**shape, device="meta")


def _scaler(
    mode: int, shape: tuple[int, ...], tensors: dict[str, Tensor], name: str = "scaler"
) -> ModeStandardScaler:
    scaler = ModeStandardScaler(mode)
    scaler.mean_, scaler.scale_ = (tensors[f"{name}.{k}"].numpy() for k in ("mean", "scale"))
    scaler.sample_shape_, scaler.n_features_in_ = shape, shape[0]
    return scaler
