"""The model file: safetensors with a JSON header, read without running any code.

The file is an ordinary safetensors file. Its metadata holds two strings: ``polyad``, a JSON
header with everything that is not a tensor, and ``sha256``, a digest over header and tensors.
A model is rebuilt from the header alone; every tensor must then fit the shape that follows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from polyad.atomic import replacing
from polyad.core.network import RankRNet
from polyad.errors import InputError, ModelFileError, PolyadError
from polyad.estimators.base import RankREstimator
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.model_file import check_model_file
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.fitting.epochs import History

FORMAT = 1
KINDS: dict[str, type[RankREstimator]] = {
    "RankRClassifier": RankRClassifier,
    "RankRRegressor": RankRRegressor,
}

PathLike = str | os.PathLike[str]


def save(model: RankREstimator, path: PathLike, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file, whole or not at all.

    Parameters
    ----------
    model : RankRClassifier or RankRRegressor
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
    if type(model).__name__ not in KINDS:
        raise InputError(
            f"save wants one of {', '.join(KINDS)}, got {type(model).__name__}; "
            "other estimators are kept with joblib"
        )
    check_is_fitted(model, "network_")
    tensors = {f"network.{k}": v.cpu().contiguous() for k, v in _state(model.network_).items()}
    tensors |= {name: torch.from_numpy(np.asarray(a)) for name, a in _arrays(model).items()}
    described = _header(model, dict(about or {}))
    try:
        header = json.dumps(described, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"about must hold what JSON can: numbers, strings, lists, mappings ({error})"
        ) from error
    metadata = {"polyad": header, "sha256": _digest(header, tensors)}
    with replacing(path) as part:
        part.write_bytes(to_bytes(tensors, metadata))


def load(path: PathLike) -> Any:
    """Read a model back; it predicts bit for bit as the one that was saved.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    RankRClassifier or RankRRegressor

    Raises
    ------
    ModelFileError
        The file is missing, damaged, dishonest, too new, or no model file at all.
    """
    return load_with_about(path)[0]


def load_with_about(path: PathLike) -> tuple[Any, dict[str, Any]]:
    """Read a model and what was saved ``about`` it."""
    path = Path(path)
    header, tensors = _read(path)
    try:
        return _rebuild(path, header, tensors), dict(header["about"])
    except PolyadError as error:
        raise ModelFileError(f"{path} describes no valid model: {error}") from error
    except Exception as error:  # a header is written by anybody: whatever it breaks is its fault
        raise ModelFileError(
            f"{path} has a header that does not describe a model ({error!r}); get the file again"
        ) from error


# -- writing ----------------------------------------------------------------------------------


def _header(model: RankREstimator, about: dict[str, Any]) -> dict[str, Any]:
    layer, output = model.network_.hidden, model.network_.output
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a RandomState has moved on; it cannot be written down
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
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


# -- reading ----------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors of an undamaged file."""
    check_model_file(path)
    try:
        with safe_open(path, framework="pt") as content:
            metadata = content.metadata() or {}
            if "polyad" not in metadata:
                raise ModelFileError(f"{path} is a safetensors file, but not one that polyad wrote")
            tensors = {name: _tensor(content, name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(
            f"{path} is truncated, damaged or no model file ({error}); get the file again"
        ) from error
    if metadata.get("sha256") != _digest(metadata["polyad"], tensors):
        raise ModelFileError(
            f"{path} is damaged: header and weights do not match their checksum; get it again"
        )
    try:
        header = json.loads(metadata["polyad"])
        newest = int(header["format"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} has a header that is not JSON of ours") from error
    if newest > FORMAT:
        raise ModelFileError(
            f"{path} has model format {newest}, this polyad reads up to {FORMAT}; upgrade polyad"
        )
    return header, tensors


def _tensor(content: Any, name: str) -> Tensor:
    """Read one tensor into memory of its own; polyad writes two types only."""
    kind = content.get_slice(name).get_dtype()
    if kind not in ("F32", "F64"):
        raise ValueError(f"tensor {name!r} is of type {kind}, wanted F32 or F64")
    return content.get_tensor(name).clone()


def _rebuild(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> RankREstimator:
    if header["kind"] not in KINDS:
        raise ModelFileError(f"{path} holds a {header['kind']!r}; known are {', '.join(KINDS)}")
    parameters = header["parameters"]
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = {k: v for k, v in parameters["class_weight"]["pairs"]}  # noqa: C416
    model = KINDS[header["kind"]](**parameters)
    model.network_ = _network(path, header["network"], tensors)
    model.sample_shape_ = tuple(header["network"]["in_shape"])
    model.n_features_in_ = model.sample_shape_[0]
    if header["feature_names"]:
        model.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    model.history_ = History(**header["history"])
    model.n_iter_ = len(model.history_)
    model.scaler_ = _scaler(path, header["scaler_mode"], model.sample_shape_, tensors)
    n_outputs = header["network"]["n_outputs"]
    if isinstance(model, RankRClassifier):
        model.classes_ = _classes(header["classes"])
        if len(model.classes_) != n_outputs:
            raise ModelFileError(
                f"{path} names {len(model.classes_)} classes for {n_outputs} outputs"
            )
    elif isinstance(model, RankRRegressor):
        model._one_target = header["one_target"]
        model.target_mean_ = _finite(path, tensors, "target.mean", (n_outputs,)).numpy()
        model.target_scale_ = _positive(path, tensors, "target.scale", (n_outputs,))
    if tensors:
        raise ModelFileError(f"{path} holds tensors that its header has no place for: {[*tensors]}")
    return model


def _classes(classes: dict[str, Any]) -> Any:
    kind = _class_type(np.dtype(classes["dtype"]))
    # Strings are as wide as the longest of them, not as wide as the header claims
    values = np.asarray(classes["values"], dtype=str if kind.kind == "U" else kind)
    if values.ndim != 1 or len(set(values.tolist())) != len(values):
        raise ValueError("classes are not distinct single values")
    return values


def _network(path: Path, shape: dict[str, Any], tensors: dict[str, Tensor]) -> RankRNet:
    dtype = {"float32": torch.float32, "float64": torch.float64}[shape.pop("dtype")]
    # On the meta device no memory is taken, whatever sizes the header claims
    network = RankRNet(**shape, dtype=dtype, device="meta")
    state = {
        name: _finite(path, tensors, f"network.{name}", tuple(wanted.shape), dtype)
        for name, wanted in network.state_dict().items()
    }
    network.load_state_dict(state, assign=True)
    return network


def _scaler(
    path: Path, mode: int | None, shape: tuple[int, ...], tensors: dict[str, Tensor]
) -> ModeStandardScaler | None:
    if mode is None:
        return None
    scaler = ModeStandardScaler(mode)
    size = (shape[mode],)
    scaler.mean_ = _finite(path, tensors, "scaler.mean", size).numpy()
    scaler.scale_ = _positive(path, tensors, "scaler.scale", size)
    scaler.sample_shape_, scaler.n_features_in_ = shape, shape[0]
    return scaler


def _finite(
    path: Path,
    tensors: dict[str, Tensor],
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Take the named tensor out of ``tensors`` if it is what the header promises."""
    if name not in tensors:
        raise ModelFileError(f"{path} lacks the tensor {name!r}; get the file again")
    tensor = tensors.pop(name)
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ModelFileError(
            f"{path}: tensor {name!r} should be {shape} of {dtype} by the header, "
            f"got {tuple(tensor.shape)} of {tensor.dtype}"
        )
    if not bool(torch.isfinite(tensor).all()):
        raise ModelFileError(f"{path}: tensor {name!r} holds NaN or infinite values; fit again")
    return tensor


def _positive(path: Path, tensors: dict[str, Tensor], name: str, shape: tuple[int, ...]) -> Any:
    values = _finite(path, tensors, name, shape).numpy()
    if (values <= 0).any():
        raise ModelFileError(f"{path}: tensor {name!r} holds scales that are not above 0")
    return values
