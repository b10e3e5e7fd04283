"""The model file: safetensors with a JSON header, read without torch and without running any code.

The file is an ordinary safetensors file. Its metadata holds two strings: ``polyad``, a JSON header
with everything that is not a tensor, and ``sha256``, a digest over header and tensors. The header
must be a `ClassifierHeader` or a `RegressorHeader` before anything is built or read by it; name,
shape and type of every tensor follow from it.

The ranges are wider than any model that polyad fits in practice, and narrow enough that the work
and the memory of loading a model and of using it are bounded by the size of its file.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from polyad.codec import Fault, Fixed, NaN, Record, Row, Text, parse_json, shown
from polyad.core.plan import MAX_ORDER
from polyad.errors import ModelFileError, reason
from polyad.safe_open import open_regular

if TYPE_CHECKING:  # a path is checked without numpy
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMAT = 8  # raised by every change of the header
HEADER_BYTES = 2**25  # enough for three million training pixels
MODEL_BYTES = 2**28  # of the network: 67 million weights in single precision
MOST = 2**31 - 1
OUTPUTS = 2**16
SPECTRUM = 2**20  # entries of one mode: bands
PIPELINE = 8  # steps

Shapes = dict[str, tuple[tuple[int, ...], str]]
Auto = Literal["auto"]
Solver = Literal["joint", "alternating"]
ActivationName = Literal["tanh", "sigmoid", "relu", "identity"]
StartName = Literal["data", "unit-variance", "xavier"]
Count = Annotated[int, Field(ge=1, le=MOST)]
Units = Annotated[int, Field(ge=1, le=2**20)]  # hidden units, or terms of one
Epochs = Annotated[int, Field(ge=1, le=10**6)]
Rate = Annotated[float, Field(ge=0, le=1e6)]
Mode = Annotated[int, Field(ge=-MAX_ORDER, lt=MAX_ORDER)]
Name = Annotated[str, Field(max_length=1024)]
Label = bool | Annotated[int, Field(ge=-(2**63), lt=2**64)] | float | Name
Weights = Row[Annotated[tuple[Label, Annotated[float, Field(ge=0)]], Fixed]]


class Parameters(Record):
    """The parameters of a regressor, in the types and ranges that `fit` and a file take."""

    rank: Auto | Units
    hidden: Units
    solver: Solver
    activation: Auto | ActivationName
    start: StartName
    hidden_bias: bool
    epochs: Epochs
    learning_rate: Auto | Annotated[float, Field(gt=0, le=1e6)]
    batch_size: Auto | Count | None
    inner_steps: Epochs
    weight_decay: Auto | Rate
    penalty: Auto | Rate
    standardize: Auto | Mode | None
    early_stopping: bool
    validation_fraction: Annotated[float, Field(gt=0, lt=1)]
    patience: Count | None
    tol: float
    device: Annotated[Text, Field(max_length=64)]
    random_state: Annotated[int, Field(ge=0, lt=2**32)] | None
    verbose: bool | Annotated[int, Field(ge=0, le=MOST)]
    warm_start: bool

    @model_validator(mode="after")
    def _check_penalty(self) -> Self:
        if self.solver != "joint" and self.penalty not in ("auto", 0):
            raise ValueError(
                f"penalty must be 'auto' or 0 with solver={self.solver!r}, got {self.penalty!r}; "
                "use weight_decay"
            )
        return self


class ClassifierParameters(Parameters):
    """The parameters of a classifier."""

    class_weight: Literal["balanced"] | Annotated[Weights, Field(max_length=OUTPUTS)] | None


class Network(Record):
    """Sizes and kinds of a `RankRNet`."""

    in_shape: Annotated[
        Row[Annotated[int, Field(ge=1, le=SPECTRUM)]], Field(min_length=1, max_length=MAX_ORDER)
    ]
    hidden: Units
    n_outputs: Annotated[int, Field(ge=1, le=OUTPUTS)]
    rank: Units
    activation: ActivationName
    hidden_bias: bool
    start: Literal["unit-variance", "xavier"]
    dtype: Literal["float32", "float64"]

    @model_validator(mode="after")
    def _check_size(self) -> Network:
        weights = self.hidden * self.rank * sum(self.in_shape)
        weights += (self.hidden + 1) * (self.n_outputs + 1)
        size = weights * (4 if self.dtype == "float32" else 8)
        if size > MODEL_BYTES or math.prod(self.in_shape) > MOST:
            raise ValueError(f"must be of at most {MODEL_BYTES:,} bytes, got {size:,}")
        return self


Values = Annotated[
    Row[float | NaN], Field(max_length=10**6)
]  # the score of constant targets is NaN


class Epochwise(Record):
    """A `History`."""

    loss: Values
    score: Values
    validation_loss: Values
    validation_score: Values
    seconds: Values

    @model_validator(mode="after")
    def _check_lengths(self) -> Epochwise:
        lengths = {name: len(values) for name, values in self}
        epochs = lengths["loss"]
        for name, n in lengths.items():
            if n not in ((0, epochs) if "validation" in name else (epochs,)):
                raise ValueError(f"{name} must have {epochs} entries as the loss, got {n}")
        return self


class Pipeline(Record):
    """Scalers before the estimator: the names of all steps, and the mode of each scaler."""

    names: Annotated[
        Row[Annotated[Text, Field(max_length=1024)]], Field(min_length=1, max_length=PIPELINE)
    ]
    modes: Annotated[Row[Mode], Field(max_length=PIPELINE)]

    @model_validator(mode="after")
    def _check_names(self) -> Pipeline:
        if len(self.names) != len(self.modes) + 1 or len(set(self.names)) < len(self.names):
            raise ValueError(
                "names must be one for each scaler and one for the model, all different, got "
                f"{shown(self.names)} for {len(self.modes)} scalers"
            )
        return self


class Classes(Record):
    """Classes in the order of the outputs, and numpy's name of their type."""

    dtype: Annotated[
        str, Field(pattern=r"^(object|[<>|=]?(b1|[iu][1248]|f[248]|U[0-9]{1,10}))$", max_length=16)
    ]
    values: Annotated[Row[Label], Field(min_length=1, max_length=OUTPUTS)]

    def array(self) -> Array:
        """Return them as the array that they were; raise `Fault` if they are of another type."""
        import numpy as np

        # Strings are as wide as the longest of them, not as wide as the header claims
        kind = np.dtype(str if "U" in self.dtype else self.dtype)
        try:
            values = np.asarray(self.values, dtype=kind)
        except (ValueError, TypeError, OverflowError) as error:
            raise Fault(
                f"header.classes must be values of {kind}, got others ({reason(error)})"
            ) from error
        if len(set(values.tolist())) != len(values):
            raise Fault(f"header.classes must be distinct, got {shown(self.values)}")
        return values


class Header(Record):
    """What the headers of both estimators say."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    network: Network
    scaler_mode: Mode | None
    history: Epochwise
    feature_names: Annotated[Row[Name], Field(max_length=SPECTRUM)]
    pipeline: Pipeline | None
    about: dict[str, object]
    versions: dict[str, object]

    @model_validator(mode="after")
    def _check_shapes(self) -> Header:
        shape, order = self.network.in_shape, len(self.network.in_shape)
        scalers = () if self.scaler_mode is None else (self.scaler_mode,)
        pipeline = self.pipeline.modes if self.pipeline else ()
        for key, modes in (("scaler_mode", scalers), ("pipeline.modes", pipeline)):
            if any(not -order <= mode < order for mode in modes):
                raise ValueError(f"{key} must be modes of {order}, got {shown(modes)}")
        if self.feature_names and len(self.feature_names) != shape[0]:
            raise ValueError(
                f"feature_names must be {shape[0]} for samples of {shape}, got "
                f"{len(self.feature_names)}"
            )
        return self

    def tensors(self) -> Shapes:
        """Return shape and type of every tensor that the file must have."""
        net, kind = self.network, "F32" if self.network.dtype == "float32" else "F64"
        found: Shapes = {
            f"network.hidden.factors.{d}": ((net.hidden, net.rank, size), kind)
            for d, size in enumerate(net.in_shape)
        }
        found |= {"network.hidden.bias": ((net.hidden,), kind)} if net.hidden_bias else {}
        found["network.output.weight"] = (net.n_outputs, net.hidden), kind
        found["network.output.bias"] = (net.n_outputs,), kind
        if self.scaler_mode is not None:
            found |= _mean_and_scale("scaler", net.in_shape[self.scaler_mode])
        for k, mode in enumerate(self.pipeline.modes if self.pipeline else ()):
            found |= _mean_and_scale(f"pipeline.{k}", net.in_shape[mode])
        return found


def _mean_and_scale(name: str, size: int) -> Shapes:
    return {f"{name}.{part}": ((size,), "F64") for part in ("mean", "scale")}


class ClassifierHeader(Header):
    """The header of a `RankRClassifier`."""

    kind: Literal["RankRClassifier"]
    parameters: ClassifierParameters
    classes: Classes
    multilabel: bool

    @model_validator(mode="after")
    def _check_classes(self) -> ClassifierHeader:
        if len(self.classes.values) != self.network.n_outputs:
            raise ValueError(
                f"classes must be {self.network.n_outputs}, one for each output, got "
                f"{len(self.classes.values)}"
            )
        return self


class RegressorHeader(Header):
    """The header of a `RankRRegressor`."""

    kind: Literal["RankRRegressor"]
    parameters: Parameters
    one_target: bool

    def tensors(self) -> Shapes:
        """Return shape and type of every tensor that the file must have."""
        return super().tensors() | _mean_and_scale("target", self.network.n_outputs)


HEADERS: dict[object, type[ClassifierHeader | RegressorHeader]] = {
    "RankRClassifier": ClassifierHeader,
    "RankRRegressor": RegressorHeader,
}


def parse_header(text: str) -> ClassifierHeader | RegressorHeader:
    """Return the header that a text holds; raise `Fault` if it holds none of this format."""
    data = parse_json(text, "header")
    number = data.get("format") if isinstance(data, dict) else None
    if not isinstance(data, dict) or type(number) is not int:
        raise Fault("header is not JSON of ours")
    if number > FORMAT:
        raise Fault(
            f"it has model format {number}, this polyad reads up to {FORMAT}", "upgrade polyad"
        )
    if number < FORMAT:
        raise Fault(f"it has model format {number}, this polyad reads {FORMAT}", "train it again")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in HEADERS:
        raise Fault(f"header.kind must be one of {', '.join(map(str, HEADERS))}, got {shown(kind)}")
    return HEADERS[kind].from_data(data, "header")


def read_model(
    path: str | os.PathLike[str],
) -> tuple[ClassifierHeader | RegressorHeader, dict[str, Array]]:
    """Return header and tensors of an undamaged file; nothing is read that has no place.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, too new, or no model file at all.
    """
    check_model_file(path)
    from safetensors import SafetensorError, safe_open

    try:
        with invalid_as_error(path), safe_open(path, framework="numpy") as content:
            metadata = content.metadata() or {}
            if "polyad" not in metadata:
                raise ModelFileError(f"{path} is a safetensors file, but not one that polyad wrote")
            header = parse_header(metadata["polyad"])
            tensors = _read_tensors(content, header)
    except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is truncated, damaged or no model file ({reason(error)}); get the file again"
        ) from error
    if metadata.get("sha256") != digest_of(metadata["polyad"], tensors):
        raise ModelFileError(
            f"{path} is damaged: header and weights do not match their checksum; get it again"
        )
    return header, tensors


@contextmanager
def invalid_as_error(path: str | os.PathLike[str]) -> Iterator[None]:
    """Tell a `Fault` in the block as a `ModelFileError` with the name of the file."""
    try:
        yield
    except Fault as fault:
        raise ModelFileError(
            f"{path} is not a valid polyad model: {fault}; {fault.remedy}"
        ) from fault


def _read_tensors(content: Any, header: Header) -> dict[str, Array]:
    import numpy as np

    wanted, names = header.tensors(), set(content.keys())
    if lacking := sorted(set(wanted) - names):
        raise Fault(f"it lacks the tensor {lacking[0]!r}")
    if spare := sorted(names - set(wanted)):
        raise Fault(f"it holds tensors that its header has no place for: {shown(spare)}")
    tensors: dict[str, Array] = {}
    for name, (shape, kind) in wanted.items():
        stored = content.get_slice(name)
        stored_shape, dtype = tuple(stored.get_shape()), stored.get_dtype()
        if stored_shape != shape or dtype != kind:
            raise Fault(
                f"tensor {name!r} should be {shape} of {kind} by the header, got "
                f"{shown(stored_shape)} of {dtype}"
            )
        tensors[name] = content.get_tensor(name).copy()  # into memory of its own
        if not np.isfinite(tensors[name]).all():
            raise Fault(f"tensor {name!r} holds NaN or infinite values", "fit it again")
        if name.endswith(".scale") and (tensors[name] <= 0).any():
            raise Fault(f"tensor {name!r} holds scales that are not above 0")
    return tensors


def digest_of(header: str, tensors: Mapping[str, Array]) -> str:
    """Return the SHA-256 of a header and of the tensors beside it."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} torch.{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_model_file(path: str | os.PathLike[str]) -> None:
    """Raise `ModelFileError` if the file is missing, no file, empty, a pickle or an archive."""
    path = Path(path)
    try:
        with open_regular(path, ModelFileError) as file:
            start = file.read(9)
            length = os.fstat(file.fileno()).st_size
    except OSError as error:
        remedy = "; check the path" if isinstance(error, FileNotFoundError) else ""
        raise ModelFileError(f"{path} cannot be read: {error.strerror}{remedy}") from error
    # A safetensors header opens after eight bytes of length, which may look like anything
    size, opens = int.from_bytes(start[:8], "little"), start[8:] == b"{"
    if not start:
        raise ModelFileError(f"{path} is empty (0 bytes); a model file holds a header and weights")
    if not opens and (start[:1] == b"\x80" or start[:2] == b"PK"):
        raise ModelFileError(
            f"{path} is a pickle or an archive, which polyad never opens since it could run code; "
            "save the model with polyad.save"
        )
    if size > HEADER_BYTES and not opens:
        raise ModelFileError(
            f"{path} is not a model file; name the model first, as in polyad map model.polyad "
            "scene.tif"
        )
    if size > HEADER_BYTES or length > size + 2 * MODEL_BYTES:
        raise ModelFileError(
            f"{path} is damaged or no model file: expected a header of at most {HEADER_BYTES:,} "
            f"bytes and weights of {MODEL_BYTES:,}, got {size:,} and {max(length - size, 0):,}; "
            "get the file again"
        )
