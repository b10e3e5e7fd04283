"""Fitted estimators as ONNX: standardization, network, probabilities and classes in one graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from polyad.core.contract import dense_weight, khatri_rao
from polyad.core.plan import TRACED_BATCH, Groups, plan_inner
from polyad.errors import InputError
from polyad.estimators.onnx_graph import Graph, Port, import_onnx, write_graph

if TYPE_CHECKING:
    from polyad.estimators.base import RankREstimator

Array = npt.NDArray[Any]

ACTIVATION_OPS = {"tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "identity": "Identity"}


def write_classifier(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted `RankRClassifier`; see its ``to_onnx``."""
    check_is_fitted(model, "network_")
    classes = class_values(model.classes_)
    graph = Graph()
    logits = add_network(graph, "X", model)
    kind = "string" if classes.dtype.kind == "U" else str(classes.dtype)
    shape: tuple[int | str, ...] = ("n",)
    if model.multilabel_:
        graph.add("Sigmoid", logits, name="probabilities")
        over = graph.add("Greater", logits, graph.constant(np.float32(0)))
        graph.add("Cast", over, name="label", to=import_onnx().TensorProto.INT64)
        kind, shape = "int64", ("n", len(classes))
    else:
        add_classes(graph, logits, classes, "label", "probabilities")
    outputs = [
        Port("label", kind, shape),
        Port("probabilities", "float32", ("n", len(classes))),
    ]
    about = {"kind": type(model).__name__, "classes": classes.tolist()}
    write_graph(graph, path, [_samples(model)], outputs, about | _about(model))


def write_regressor(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted `RankRRegressor`; see its ``to_onnx``."""
    check_is_fitted(model, "network_")
    graph = Graph()
    add_values(graph, add_network(graph, "X", model), model, "y")
    shape: tuple[int | str, ...] = ("n",) if model._one_target else ("n", len(model.target_mean_))
    about = {"kind": type(model).__name__} | _about(model)
    write_graph(graph, path, [_samples(model)], [Port("y", "float32", shape)], about)


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


def add_classes(graph: Graph, logits: str, classes: Array, label: str, proba: str) -> None:
    """Append probabilities ``(n, C)`` and the most probable class ``(n,)``."""
    graph.add("Softmax", logits, name=proba, axis=1)
    add_labels(graph, logits, classes, label)


def add_scores(graph: Graph, logits: str, classes: Array, label: str, scores: str) -> None:
    """Append what ``decision_function`` gives and the most probable class.

    Of two classes, the second column is that function, and the first its negative.
    """
    if len(classes) == 2:
        signs = graph.constant(np.array([[1, -1], [-1, 1]], np.float32))
        graph.add("MatMul", logits, signs, name=scores)
    else:
        graph.add("Identity", logits, name=scores)
    add_labels(graph, logits, classes, label)


def add_labels(graph: Graph, logits: str, classes: Array, label: str) -> None:
    """Append the most probable class ``(n,)``."""
    best = graph.add("ArgMax", logits, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(classes, exact=True), best, name=label, axis=0)


def add_values(graph: Graph, outputs: str, model: Any, name: str) -> None:
    """Append what brings standardized outputs back to the targets' scale."""
    scaled = graph.add("Mul", outputs, graph.constant(model.target_scale_))
    if not model._one_target:
        graph.add("Add", scaled, graph.constant(model.target_mean_), name=name)
        return
    column = graph.add("Add", scaled, graph.constant(model.target_mean_))
    graph.add("Reshape", column, graph.constant(np.array([-1])), name=name)


def add_network(graph: Graph, x: str, model: RankREstimator) -> str:
    """Append standardization and network: ``(n, I_1, ..., I_D)`` to outputs ``(n, C)``.

    The mean is subtracted from the samples; what they are divided by goes into the factors, in
    double precision.
    """
    network = model.network_
    factors = [f.detach().cpu().double() for f in network.hidden.factors]
    if model.scaler_ is not None:
        shape = [1] * len(factors)
        shape[model.scaler_.mode] = -1
        x = graph.add("Sub", x, graph.constant(model.scaler_.mean_.reshape(shape)))
        mode = model.scaler_.mode % len(factors)
        factors[mode] = factors[mode] / torch.from_numpy(model.scaler_.scale_)
    hidden, rank, _ = factors[0].shape
    plan = plan_inner(network.hidden.in_shape, hidden, rank, TRACED_BATCH)
    z = _add_inner(graph, x, factors, plan.groups)
    if network.hidden.bias is not None:
        z = graph.add("Add", z, graph.constant(numbers(network.hidden.bias)))
    u = graph.add(ACTIVATION_OPS[network.activation], z)
    weights = [graph.constant(numbers(network.output.weight))]
    if network.output.bias is not None:
        weights.append(graph.constant(numbers(network.output.bias)))
    return graph.add("Gemm", u, *weights, transB=1)


def _add_inner(graph: Graph, x: str, factors: Sequence[torch.Tensor], groups: Groups) -> str:
    """Append the inner products in the order of a plan, as `polyad.core.contract.cp_inner`."""
    sizes, (hidden, rank, _) = [f.shape[-1] for f in factors], factors[0].shape
    if len(groups) == 1:
        flat = graph.add("Flatten", x, axis=1)
        return graph.add("MatMul", flat, graph.constant(dense_weight(factors).T.numpy()))
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
            x = graph.add("MatMul", x, graph.constant(weight.numpy()))  # (n, *open, Q * R)
        else:
            x = graph.reshape(x, [-1, *open_sizes, *weight.shape])
            x = graph.add("Mul", x, graph.constant(weight.numpy()))
            x = graph.total(x, 1 + len(kept))
        order = kept
    return graph.total(graph.reshape(x, [-1, hidden, rank]), 2) if rank > 1 else x


def numbers(tensor: torch.Tensor) -> Array:
    """Return a tensor's numbers as an array."""
    return tensor.detach().cpu().numpy()


def _samples(model: RankREstimator) -> Port:
    return Port("X", "float32", ("n", *model.sample_shape_))


def _about(model: RankREstimator) -> dict[str, Any]:
    return {"sample_shape": list(model.sample_shape_), "rank": model.network_.hidden.rank}
