"""A scene model as ONNX: of windows, or of whole tiles by the separable way.

The second graph does what `polyad.scene.map.separable` does: every pixel is projected onto the
spectral factors by one convolution of one pixel, and the spatial factors are correlated with the
result, each term with its own. A runtime without Python then maps a scene tile by tile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polyad.core.contract import khatri_rao
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.onnx_export import (
    ACTIVATION_OPS,
    Graph,
    Port,
    add_classes,
    add_network,
    numbers,
    write_graph,
)
from polyad.estimators.persistence import load_with_about
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.separable import LANES, PLANE_UP_TO, standardization

Array = npt.NDArray[Any]
PathLike = str | os.PathLike[str]

STEPS = {"propagate": "label propagation", "guided": "the guided filter"}


def export_onnx(
    model: Any, path: PathLike, *, whole_scene: bool = False, network_only: bool = False
) -> None:
    """Write a model as an ONNX file, for runtimes without Python.

    Parameters
    ----------
    model : SceneModel or estimator
    path : path-like
        By custom it ends in ``.onnx``. Needs the extra ``polyad[onnx]``.
    whole_scene : bool, default=False
        By default the graph takes samples, as the estimator does: windows
        ``(n, window, window, bands)``, in which id 0 stands for a window with a value that is not
        finite. A whole-scene graph takes a tile ``pixels``,
        ``(bands, h + 2p, w + 2p)`` with ``p = window // 2`` more pixels on each side, reflected
        where the scene ends, and gives ``class_ids``, ``(h, w)``, and ``probabilities``,
        ``(classes, h, w)``. A pixel with a value that is not finite has id 0 and probabilities NaN.
    network_only : bool, default=False
        Leave out what the model does to its maps after the network, instead of refusing.

    Raises
    ------
    InputError
        The model's maps take steps that no such graph has: label propagation, the guided filter.
    """
    if not isinstance(model, SceneModel):
        if whole_scene:
            raise InputError(
                "a whole-scene graph wants a model that was trained on a scene, got one of plain "
                "samples; leave out --whole-scene (in Python, whole_scene=True)"
            )
        if not hasattr(model, "to_onnx"):
            raise InputError(
                f"a {type(model).__name__} is exported by skl2onnx, after a call of "
                "polyad.estimators.register_converters(); or save the last step alone"
            )
        model.to_onnx(path)
        return
    model.check_classes("a regression model cannot be exported yet")
    steps = [] if model.recipe is None else [STEPS[step.step] for step in model.recipe.steps]
    if steps and not network_only:
        raise InputError(
            f"this model's maps take {' and '.join(steps)}, which an ONNX graph of one tile "
            "cannot; train with --preset fast, or export the network alone with --network-only "
            "(in Python, network_only=True)"
        )
    model = model.unmerged
    if not isinstance(model.estimator, RankRClassifier):
        raise InputError(
            f"a scene model is exported with its RankRClassifier, this one has a "
            f"{type(model.estimator).__name__}; export that with tools of its own"
        )
    (_write_tiles if whole_scene else _write_windows)(model, path)


def export_file(
    model: PathLike, path: PathLike, *, whole_scene: bool = False, network_only: bool = False
) -> dict[str, Any]:
    """Write the model of a ``.polyad`` file as ONNX; return what it takes and gives.

    Parameters
    ----------
    model : path-like
    path, whole_scene, network_only
        See `export_onnx`.
    """
    estimator, about = load_with_about(model)
    fitted = SceneModel.load(model) if "scene" in about else estimator
    export_onnx(fitted, path, whole_scene=whole_scene, network_only=network_only)
    shape: list[Any] = ["n", *estimator.sample_shape_]
    if whole_scene:
        shape = [fitted.bands, "height + 2p", "width + 2p"]
    return {
        "onnx": os.fspath(path),
        "input": shape,
        "p": fitted.window // 2 if whole_scene else None,
        "bytes": Path(path).stat().st_size,
    }


def _write_windows(model: SceneModel, path: PathLike) -> None:
    estimator, graph = model.estimator, Graph()
    ids = np.array([c.value for c in model.classes], np.int32)
    logits = add_network(graph, "windows", estimator)
    add_classes(graph, logits, ids, "best", "shares")
    nothing = graph.add("Mul", "windows", graph.constant(np.float32(0)))  # NaN if not finite
    values = graph.add("Flatten", nothing, axis=1)
    sums = graph.add("ReduceSum", values, graph.constant(np.array([1])), keepdims=1)  # (n, 1)
    lost = graph.add("IsNaN", sums)
    graph.add("Where", lost, graph.constant(np.float32(np.nan)), "shares", name="probabilities")
    blank = graph.add("Squeeze", lost, graph.constant(np.array([1])))
    graph.add("Where", blank, graph.constant(np.int32(0)), "best", name="class_ids")
    outputs = [
        Port("class_ids", "int32", ("n",)),
        Port("probabilities", "float32", ("n", len(ids))),
    ]
    inputs = [Port("windows", "float32", ("n", *estimator.sample_shape_))]
    write_graph(graph, path, inputs, outputs, _about(model))


def _write_tiles(model: SceneModel, path: PathLike) -> None:
    ids, graph = np.array([c.value for c in model.classes], np.int32), Graph()
    projected, blank = _add_projection(graph, model)
    z = _add_correlation(graph, projected, model)  # (1, Q, h, w)
    network = model.estimator.network_
    u = graph.add(ACTIVATION_OPS[network.activation], z)
    weights = [_padded(numbers(network.output.weight).T).T[:, :, None, None]]
    weights += [] if network.output.bias is None else [numbers(network.output.bias)]
    logits = graph.add("Conv", u, *(graph.constant(w) for w in weights))  # (1, C, h, w)
    shares = graph.add("Softmax", logits, axis=1)
    classes = graph.add("Squeeze", shares, graph.constant(np.array([0])))  # (C, h, w)
    best = graph.add("ArgMax", logits, axis=1, keepdims=0)  # (1, h, w)
    found = graph.add("Gather", graph.constant(ids), best, axis=0)
    p = model.window // 2
    if p:
        ends = [graph.constant(np.array(v)) for v in ([p, p], [-p, -p], [-2, -1])]
        blank = graph.add("Slice", blank, *ends)  # (1, h, w)
    graph.add("Where", blank, graph.constant(np.float32(np.nan)), classes, name="probabilities")
    known = graph.add("Where", blank, graph.constant(np.int32(0)), found)
    graph.add("Squeeze", known, graph.constant(np.array([0])), name="class_ids")
    sides = ("height_padded", "width_padded") if p else ("height", "width")
    outputs = [
        Port("class_ids", "int32", ("height", "width")),
        Port("probabilities", "float32", (len(ids), "height", "width")),
    ]
    inputs = [Port("pixels", "float32", (model.bands, *sides))]
    write_graph(graph, path, inputs, outputs, _about(model) | {"padding": p})


def _add_projection(graph: Graph, model: SceneModel) -> tuple[str, str]:
    """Append the projection ``(1, terms, h + 2p, w + 2p)``, and which pixels have no data.

    Those are projected as the spectrum that stands for them in training.
    """
    factors = [f.detach().cpu().double() for f in model.estimator.network_.hidden.factors]
    first = 2 if len(factors) > 1 else 0
    kept = [torch.from_numpy(_padded(f.numpy())) for f in factors[first:]]
    spectral = khatri_rao(kept).transpose(0, 1).flatten(0, 1)  # (R * Q, bands)
    center, scale = standardization(model.estimator, model.bands)
    weights = spectral.numpy() / scale
    fill = np.zeros(model.bands) if model.fill is None else np.asarray(model.fill)
    instead = ((fill - center) @ weights.T)[:, None, None]  # (terms, 1, 1)
    centered = graph.add("Sub", "pixels", graph.constant(center[:, None, None]))
    batch = graph.add("Unsqueeze", centered, graph.constant(np.array([0])))
    projected = graph.add("Conv", batch, graph.constant(weights[:, :, None, None]))
    # What is not finite leaves no term finite, whatever its weight; and infinity times 0 is NaN
    ends = [graph.constant(np.array(v)) for v in ([0], [1], [1])]
    term = graph.add("Slice", projected, *ends)  # (1, 1, h + 2p, w + 2p)
    lost = graph.add("IsNaN", graph.add("Mul", term, graph.constant(np.float32(0))))
    whole = graph.add("Where", lost, graph.constant(instead), projected)
    return whole, graph.add("Squeeze", lost, graph.constant(np.array([0])))


def _add_correlation(graph: Graph, projected: str, model: SceneModel) -> str:
    """Append the correlation with the spatial factors and the sum over the R terms."""
    layer = model.estimator.network_.hidden
    terms = [_padded(numbers(f)).swapaxes(0, 1) for f in layer.factors]  # each (R, Q, I_d)
    rank, units, _ = terms[0].shape
    bias = np.zeros(units) if layer.bias is None else _padded(numbers(layer.bias))
    z = projected
    if len(terms) > 1:
        along_y, along_x = (t.reshape(rank * units, -1) for t in terms[:2])
        kernels = [along_x[:, None, None, :], along_y[:, None, :, None]]
        if model.window <= PLANE_UP_TO:
            kernels = [kernels[0] * kernels[1]]  # (terms, 1, window, window)
        for kernel in kernels:
            z = graph.add("Conv", z, graph.constant(kernel), group=rank * units)
    if rank > 1:
        sizes = graph.add("Shape", z, start=2)  # (h, w)
        split = graph.constant(np.array([1, rank, units]))
        z = graph.add("Reshape", z, graph.add("Concat", split, sizes, axis=0))
        z = graph.total(z, 1)
    return graph.add("Add", z, graph.constant(bias[:, None, None]))


def _padded(units: Array) -> Array:
    """Return ``(Q, ...)`` with zeros for more units, whole vectors of a processor."""
    more = -len(units) % LANES
    return np.concatenate([units, np.zeros((more, *units.shape[1:]), units.dtype)])


def _about(model: SceneModel) -> dict[str, Any]:
    return {
        "kind": "SceneModel",
        "window": model.window,
        "bands": model.bands,
        "classes": [list(c) for c in model.classes],
        "wavelength": None if model.wavelength is None else list(model.wavelength),
    }
