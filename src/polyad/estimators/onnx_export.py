"""Fitted estimators as ONNX.

Standardization, network, probabilities and classes are one graph, in single precision, the one that
every runtime has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from polyad.atomic import replacing
from polyad.core.contract import dense_weight, khatri_rao
from polyad.core.plan import TRACED_BATCH, Groups, plan_inner
from polyad.errors import InputError
from polyad.estimators.parameters import Array

OPSET = 17
IR_VERSION = 8  # the lowest that goes with it: older runtimes read it too
ACTIVATION_OPS = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "identity": "Identity"}


# -- graphs -----------------------------------------------------------------------------------


class Port(NamedTuple):
    """An input or output of a graph; names stand for sizes that may vary."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Graph:
    """Operations in order, and the numbers they need; names begin with ``prefix``.

    Examples
    --------
    >>> graph = Graph()
    >>> graph.add("Tanh", graph.add("Add", "x", np.float32(1)), name="y")
    'y'
    >>> [node.op_type for node in graph.nodes]
    ['Add', 'Tanh']
    """

    def __init__(self, prefix: str = "") -> None:
        self.onnx = _import_onnx()
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, exact: bool = False) -> str:
        """Keep numbers or strings; doubles become single precision, unless they are names."""
        array, name = np.asarray(value), f"{self.prefix}constant_{len(self.constants)}"
        if array.dtype == np.float64 and not exact:
            array = array.astype(np.float32)
        if array.dtype.kind in "UO":
            kind, texts = self.onnx.TensorProto.STRING, [str(v).encode() for v in array.ravel()]
            self.constants.append(self.onnx.helper.make_tensor(name, kind, array.shape, texts))
        else:
            array = np.ascontiguousarray(array).reshape(array.shape)
            self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: Any, name: str | None = None, **attributes: Any) -> str:
        """Append an operation on names and constants; return the name of its output."""
        output = f"{self.prefix}{op}_{len(self.nodes)}" if name is None else name
        names = [v if isinstance(v, str) else self.constant(v) for v in inputs]
        self.nodes.append(self.onnx.helper.make_node(op, names, [output], **attributes))
        return output

    def cast(self, x: str, kind: str, name: str | None = None) -> str:
        """Append a change of type, to ``"FLOAT"``, ``"DOUBLE"`` or ``"INT64"``."""
        return self.add("Cast", x, name=name, to=getattr(self.onnx.TensorProto, kind))

    def reshape(self, x: str, shape: Sequence[int], name: str | None = None) -> str:
        """Append a reshape; 0 keeps a size, -1 stands for what is left."""
        return self.add("Reshape", x, np.array(shape, np.int64), name=name)

    def total(self, x: str, axis: int) -> str:
        """Append a sum over one axis, which is dropped."""
        return self.add("ReduceSum", x, np.array([axis]), keepdims=0)


def write_graph(
    graph: Graph,
    path: str | os.PathLike[str],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    about: Mapping[str, Any],
) -> None:
    """Write a graph to an ONNX file, whole or not at all.

    Parameters
    ----------
    graph : Graph
    path : path-like
    inputs, outputs : sequence of Port
    about : mapping
        Goes into the file's metadata, each value as JSON.
    """
    onnx = graph.onnx

    def described(port: Port) -> Any:
        kind = onnx.TensorProto.STRING
        if port.dtype != "string":
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
        return onnx.helper.make_tensor_value_info(port.name, kind, list(port.shape))

    ports = [[described(p) for p in side] for side in (inputs, outputs)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "polyad", *ports, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="polyad",
        producer_version=version("polyad"),
    )
    onnx.helper.set_model_props(model, {k: json.dumps(v) for k, v in about.items()})
    onnx.checker.check_model(model, full_check=True)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _import_onnx() -> Any:
    """Return the package onnx, or raise `InputError` with how to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError as error:
        raise InputError(
            f"writing ONNX needs the package {error.name}; install it with: pip install "
            "'polyad[onnx]'"
        ) from error
    return onnx


# -- estimators -------------------------------------------------------------------------------


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted `RankRClassifier` or `RankRRegressor`; see their ``to_onnx``."""
    check_is_fitted(model, "network_")
    graph = Graph()
    outputs = add_network(graph, "X", model)
    about: dict[str, Any] = {"kind": type(model).__name__}
    n: tuple[int | str, ...] = ("n",)
    if hasattr(model, "target_mean_"):
        add_values(graph, outputs, model, "y")
        ports = [Port("y", "float32", n if model._one_target else (*n, len(model.target_mean_)))]
    else:
        classes = class_values(model.classes_)
        about["classes"] = classes.tolist()
        kind = "string" if classes.dtype.kind == "U" else str(classes.dtype)
        label = Port("label", kind, n)
        if model.multilabel_:
            graph.add("Sigmoid", outputs, name="probabilities")
            graph.cast(graph.add("Greater", outputs, np.float32(0)), "INT64", name="label")
            label = Port("label", "int64", (*n, len(classes)))
        else:
            add_classes(graph, outputs, classes, "label", "probabilities")
        ports = [label, Port("probabilities", "float32", (*n, len(classes)))]
    about |= {"sample_shape": list(model.sample_shape_), "rank": model.network_.hidden.rank}
    write_graph(graph, path, [Port("X", "float32", (*n, *model.sample_shape_))], ports, about)


def class_values(classes: Array) -> Array:
    """Return classes as ONNX can hold them: whole numbers, true and false, floats or strings."""
    kinds = {"i": "int64", "u": "int64", "b": "bool", "f": "float64", "U": "str"}
    if classes.dtype.kind == "O" and all(isinstance(c, str) for c in classes):
        classes = classes.astype(str)
    if classes.dtype.kind not in kinds:
        raise InputError(
            f"classes of type {classes.dtype} have no place in an ONNX file; fit the model on "
            "numbers or strings"
        )
    if classes.dtype.kind == "u" and classes.max() > np.iinfo(np.int64).max:
        return classes.astype(np.uint64)
    return classes.astype(kinds[classes.dtype.kind])


def add_classes(
    graph: Graph, logits: str, classes: Array, label: str, proba: str, raw_scores: bool = False
) -> None:
    """Append probabilities ``(n, C)`` and the most probable class ``(n,)``.

    Raw scores are what ``decision_function`` gives. Of two classes, the second column is that
    function, and the first its negative.
    """
    if not raw_scores:
        graph.add("Softmax", logits, name=proba, axis=1)
    elif len(classes) == 2:
        graph.add("MatMul", logits, np.array([[1, -1], [-1, 1]], np.float32), name=proba)
    else:
        graph.add("Identity", logits, name=proba)
    best = graph.add("ArgMax", logits, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(classes, exact=True), best, name=label, axis=0)


def add_values(graph: Graph, outputs: str, model: Any, name: str) -> None:
    """Append what brings standardized outputs back to the targets' scale."""
    scaled = graph.add("Mul", outputs, model.target_scale_)
    y = graph.add("Add", scaled, model.target_mean_)
    graph.reshape(y, [-1] if model._one_target else [0, -1], name=name)


def add_network(graph: Graph, x: str, model: Any) -> str:
    """Append standardization and network: ``(n, I_1, ..., I_D)`` to outputs ``(n, C)``.

    The mean is subtracted from the samples; what they are divided by goes into the factors, in
    double precision.
    """
    network = model.network_
    factors = [f.detach().cpu().double() for f in network.hidden.factors]
    if model.scaler_ is not None:
        shape = [1] * len(factors)
        shape[model.scaler_.mode] = -1
        x = graph.add("Sub", x, model.scaler_.mean_.reshape(shape))
        mode = model.scaler_.mode % len(factors)
        factors[mode] = factors[mode] / torch.from_numpy(model.scaler_.scale_)
    hidden, rank, _ = factors[0].shape
    plan = plan_inner(network.hidden.in_shape, hidden, rank, TRACED_BATCH)
    z = _add_inner(graph, x, factors, plan.groups)
    if network.hidden.bias is not None:
        z = graph.add("Add", z, numbers(network.hidden.bias))
    u = graph.add(ACTIVATION_OPS[network.activation], z)
    weights = [numbers(w) for w in (network.output.weight, network.output.bias) if w is not None]
    return graph.add("Gemm", u, *weights, transB=1)


def _add_inner(graph: Graph, x: str, factors: Sequence[torch.Tensor], groups: Groups) -> str:
    """Append the inner products in the order of a plan, as `polyad.core.contract.cp_inner`."""
    sizes, (hidden, rank, _) = [f.shape[-1] for f in factors], factors[0].shape
    if len(groups) == 1:
        flat = graph.add("Flatten", x, axis=1)
        return graph.add("MatMul", flat, dense_weight(factors).T.numpy())
    order = list(range(len(factors)))
    for place, group in enumerate(groups):
        kept = [d for d in order if d not in group]
        weight = khatri_rao([factors[d] for d in group]).flatten(0, 1).T  # (group, Q * R)
        axes = [0, *(1 + order.index(d) for d in (*kept, *group))]
        axes += [len(axes)] if place else []  # the terms stay last
        if axes != list(range(len(axes))):
            x = graph.add("Transpose", x, perm=axes)
        open_sizes = [sizes[d] for d in kept]
        if place == 0:
            x = graph.reshape(x, [-1, *open_sizes, prod(sizes[d] for d in group)])
            x = graph.add("MatMul", x, weight.numpy())  # (n, *open, Q * R)
        else:
            x = graph.reshape(x, [-1, *open_sizes, *weight.shape])
            x = graph.add("Mul", x, weight.numpy())
            x = graph.total(x, 1 + len(kept))
        order = kept
    return graph.total(graph.reshape(x, [-1, hidden, rank]), 2) if rank > 1 else x


def numbers(tensor: torch.Tensor) -> Array:
    """Return a tensor's numbers as an array."""
    return tensor.detach().cpu().numpy()
