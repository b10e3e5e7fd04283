"""Our estimators in skl2onnx, so that a pipeline that holds one becomes one ONNX graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyad.errors import InputError
from polyad.estimators import onnx_export
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.onnx_export import Graph
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
        from skl2onnx import update_registered_converter as register
        from skl2onnx.common.utils_classifier import _finalize_converter_classes  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"converters are registered with {error.name}; install it with: pip install skl2onnx"
        ) from error
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
    options["raw_scores"] = [True, False]  # what a calibrator learns from
    for kind, shapes, build, more in (
        (RankRClassifier, _classifier_shapes, _build_classifier, {"options": options}),
        (RankRRegressor, _regressor_shapes, _build_regressor, {}),
        (ModeStandardScaler, _scaler_shapes, _build_scaler, {}),
    ):
        register(kind, f"Polyad{kind.__name__}", shapes, _converter(build), **more)


def _converter(build: Callable[..., None]) -> Callable[[Any, Any, Any], None]:
    """Return what skl2onnx calls: ``build`` appends a model to a graph, which is handed over."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

        if container.target_opset < LOWEST_OPSET:
            got = container.target_opset
            raise InputError(f"expected target_opset {LOWEST_OPSET} or higher, got {got}")
        graph = Graph(scope.get_unique_variable_name("polyad"))
        given, model = operator.inputs[0], operator.raw_operator
        x = given.full_name
        if not isinstance(given.type, FloatTensorType):
            x = graph.cast(x, "FLOAT")
        doubles = [o.full_name for o in operator.outputs if isinstance(o.type, DoubleTensorType)]
        names = [o.full_name for o in operator.outputs]
        singles = [f"{graph.prefix}{name}" if name in doubles else name for name in names]
        build(graph, x, model, *singles, scope)
        for name, single in zip(names, singles, strict=True):
            if name in doubles:
                graph.cast(single, "DOUBLE", name=name)
        container.initializers.extend(graph.constants)
        for node in graph.nodes:
            attributes = {a.name: graph.onnx.helper.get_attribute_value(a) for a in node.attribute}
            container.add_node(
                node.op_type,
                list(node.input),
                list(node.output),
                op_domain="",
                op_version=LOWEST_OPSET,
                name=scope.get_unique_operator_name(node.op_type),
                **attributes,
            )

    return convert


def _build_classifier(graph: Graph, x: str, model: Any, label: str, proba: str, scope: Any) -> None:
    classes = onnx_export.class_values(model.classes_)
    if model.multilabel_:
        raise InputError("skl2onnx has no multilabel classifiers; use the model's own to_onnx")
    if classes.dtype.kind not in "iU":
        raise InputError(
            f"skl2onnx has whole numbers and strings as classes, got {classes.dtype}; use the "
            "model's own to_onnx"
        )
    logits = onnx_export.add_network(graph, x, model)
    raw = scope.get_options(model, {"raw_scores": False})["raw_scores"]
    onnx_export.add_classes(graph, logits, classes, label, proba, raw)


def _build_regressor(graph: Graph, x: str, model: Any, y: str, _: object) -> None:
    onnx_export.add_values(graph, onnx_export.add_network(graph, x, model), model, y)


def _build_scaler(graph: Graph, x: str, scaler: Any, scaled: str, _: object) -> None:
    shape = [1] * len(scaler.sample_shape_)
    shape[scaler.mode] = -1
    centered = graph.add("Sub", x, scaler.mean_.reshape(shape))
    graph.add("Div", centered, scaler.scale_.reshape(shape), name=scaled)


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    classes = onnx_export.class_values(operator.raw_operator.classes_)
    label = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].type = label([None])
    operator.outputs[1].type = _numbers(operator)([None, len(classes)])


def _regressor_shapes(operator: Any) -> None:
    model = operator.raw_operator
    columns = [] if model._one_target else [len(model.target_mean_)]
    operator.outputs[0].type = _numbers(operator)([None, *columns])


def _scaler_shapes(operator: Any) -> None:
    operator.outputs[0].type = _numbers(operator)([None, *operator.raw_operator.sample_shape_])


def _numbers(operator: Any) -> Any:
    """Return the type of a graph's results: doubles if it is given such, else single precision."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    given = operator.inputs[0].type
    return DoubleTensorType if isinstance(given, DoubleTensorType) else FloatTensorType
