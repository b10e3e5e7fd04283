"""Our estimators in skl2onnx, so that a pipeline that holds one becomes one ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.onnx_graph import Graph
from polyad.estimators.onnx_model import (
    add_classes,
    add_network,
    add_scores,
    add_values,
    class_values,
)
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler

LOWEST_OPSET = 13  # of ReduceSum with its axes as an input


def register_converters() -> None:
    """Tell skl2onnx how `RankRClassifier`, `RankRRegressor` and `ModeStandardScaler` are written.

    Called once, before ``skl2onnx.to_onnx(pipeline, X[:1])``. Graphs compute in single precision,
    whatever the type of ``X``.

    Raises
    ------
    InputError
        skl2onnx is not installed.
    """
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.utils_classifier import _finalize_converter_classes  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"converters are registered with {error.name}; install it with: pip install skl2onnx"
        ) from error
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
    options["raw_scores"] = [True, False]  # what a calibrator learns from
    update_registered_converter(
        RankRClassifier,
        "PolyadRankRClassifier",
        _classifier_shapes,
        _convert_classifier,
        options=options,
    )
    update_registered_converter(
        RankRRegressor, "PolyadRankRRegressor", _regressor_shapes, _convert_regressor
    )
    update_registered_converter(
        ModeStandardScaler, "PolyadModeStandardScaler", _scaler_shapes, _convert_scaler
    )


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    classes = class_values(operator.raw_operator.classes_)
    label = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].type = label([None])
    operator.outputs[1].type = _numbers(operator)([None, len(classes)])


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    model = operator.raw_operator
    classes = class_values(model.classes_)
    if model.multilabel_:
        raise InputError(
            "skl2onnx has no place for labels that do not exclude each other; write the model with "
            "its own to_onnx"
        )
    if classes.dtype.kind not in "iU":
        raise InputError(
            f"skl2onnx has whole numbers and strings as classes, got {classes.dtype}; write the "
            "model with its own to_onnx"
        )
    label, proba = (o.full_name for o in operator.outputs)
    graph, options = Graph(), scope.get_options(model, {"raw_scores": False})
    add = add_scores if options["raw_scores"] else add_classes
    add(graph, add_network(graph, "X", model), classes, label, proba)
    _hand_over(graph, scope, operator, container)


def _regressor_shapes(operator: Any) -> None:
    model = operator.raw_operator
    columns = [] if model._one_target else [len(model.target_mean_)]
    operator.outputs[0].type = _numbers(operator)([None, *columns])


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, Graph()
    add_values(graph, add_network(graph, "X", model), model, operator.outputs[0].full_name)
    _hand_over(graph, scope, operator, container)


def _scaler_shapes(operator: Any) -> None:
    operator.outputs[0].type = _numbers(operator)([None, *operator.raw_operator.sample_shape_])


def _convert_scaler(scope: Any, operator: Any, container: Any) -> None:
    scaler, graph = operator.raw_operator, Graph()
    shape = [1] * len(scaler.sample_shape_)
    shape[scaler.mode] = -1
    centered = graph.add("Sub", "X", graph.constant(scaler.mean_.reshape(shape)))
    scale = graph.constant(scaler.scale_.reshape(shape))
    graph.add("Div", centered, scale, name=operator.outputs[0].full_name)
    _hand_over(graph, scope, operator, container)


def _numbers(operator: Any) -> Any:
    """Return the type of a graph's results: doubles if it is given such, else single precision."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    given = operator.inputs[0].type
    return DoubleTensorType if isinstance(given, DoubleTensorType) else FloatTensorType


def _hand_over(graph: Graph, scope: Any, operator: Any, container: Any) -> None:
    """Give a graph's operations to skl2onnx, under names that are free there."""
    from onnx import TensorProto
    from onnx.helper import np_dtype_to_tensor_dtype
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    if container.target_opset < LOWEST_OPSET:
        raise InputError(
            f"our graphs want target_opset {LOWEST_OPSET} or higher, got {container.target_opset}"
        )

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> None:
        told = {"op_domain": "", "op_version": LOWEST_OPSET, **attributes}
        container.add_node(op, inputs, output, name=scope.get_unique_operator_name(op), **told)

    names = {"X": operator.inputs[0].full_name}
    if not isinstance(operator.inputs[0].type, FloatTensorType):
        given, names["X"] = names["X"], scope.get_unique_variable_name("single")
        add("Cast", [given], names["X"], to=TensorProto.FLOAT)
    names |= {o.full_name: o.full_name for o in operator.outputs}
    doubles = [o.full_name for o in operator.outputs if isinstance(o.type, DoubleTensorType)]
    names |= {name: scope.get_unique_variable_name(name) for name in doubles}
    for name, value in graph.constants.items():
        names[name] = scope.get_unique_variable_name(name)
        texts = value.dtype.kind in "UO"
        kind = TensorProto.STRING if texts else np_dtype_to_tensor_dtype(value.dtype)
        flat = [str(v).encode() for v in value.ravel()] if texts else np.ravel(value)
        container.add_initializer(names[name], kind, value.shape, flat)
    for node in graph.nodes:
        if node.output not in names:
            names[node.output] = scope.get_unique_variable_name(node.output)
        add(node.op, [names[i] for i in node.inputs], names[node.output], **node.attributes)
    for name in doubles:
        add("Cast", [names[name]], name, to=TensorProto.DOUBLE)
