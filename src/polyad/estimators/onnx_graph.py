"""An ONNX graph put together as a list of operations, and written to a file.

Operations and their numbers are plain data here (`Graph`): `write_graph` makes a file of them, and
`polyad.estimators.converters` hands them to skl2onnx. All arithmetic is in single precision, the
one that every runtime has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polyad.atomic import replacing
from polyad.errors import InputError

Array = npt.NDArray[Any]

OPSET = 17
IR_VERSION = 8  # the lowest that goes with it: older runtimes read it too


class Node(NamedTuple):
    """One operation: what it is called, names in, name out, and its attributes."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


class Port(NamedTuple):
    """An input or output of a graph; names stand for sizes that may vary."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Graph:
    """Operations in order, and the numbers they need.

    Examples
    --------
    >>> graph = Graph()
    >>> graph.add("Tanh", graph.add("Add", "x", graph.constant(np.float32(1))), name="y")
    'y'
    >>> [node.op for node in graph.nodes]
    ['Add', 'Tanh']
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def constant(self, value: Any, exact: bool = False) -> str:
        """Keep numbers or strings; doubles become single precision, unless they are names."""
        array = np.asarray(value)
        if array.dtype == np.float64 and not exact:
            array = array.astype(np.float32)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Append an operation; return the name of its output."""
        output = f"{op}_{len(self.nodes)}" if name is None else name
        self.nodes.append(Node(op, inputs, output, attributes))
        return output

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Append a reshape; 0 keeps a size, -1 stands for what is left."""
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def total(self, x: str, axis: int) -> str:
        """Append a sum over one axis, which is dropped."""
        return self.add("ReduceSum", x, self.constant(np.array([axis])), keepdims=0)


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
    onnx = import_onnx()
    made = onnx.helper.make_graph(
        [
            onnx.helper.make_node(n.op, list(n.inputs), [n.output], **n.attributes)
            for n in graph.nodes
        ],
        "polyad",
        [_port(onnx, p) for p in inputs],
        [_port(onnx, p) for p in outputs],
        [_initializer(onnx, name, value) for name, value in graph.constants.items()],
    )
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="polyad",
        producer_version=version("polyad"),
    )
    onnx.helper.set_model_props(model, {k: json.dumps(v) for k, v in about.items()})
    onnx.checker.check_model(model, full_check=True)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def import_onnx() -> Any:
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


def _port(onnx: Any, port: Port) -> Any:
    kind = onnx.TensorProto.STRING
    if port.dtype != "string":
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
    return onnx.helper.make_tensor_value_info(port.name, kind, list(port.shape))


def _initializer(onnx: Any, name: str, value: Array) -> Any:
    if value.dtype.kind in "UO":
        texts = [str(v).encode() for v in value.ravel()]
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, value.shape, texts)
    return onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
