"""The steps of a recipe done to the maps of a model: tile by tile, or on the whole scene."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import PolyadWarning, SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.steps.graph import Graph
from polyad.scene.learn.steps.guided import guided_filter
from polyad.scene.learn.steps.propagation import Propagation, combine
from polyad.scene.raster.dims import as_scene
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.inside import packed, read_pixels
from polyad.scene.raster.pixels import valid_pixels
from polyad.scene.raster.tiles import Tile, read_window

Array = npt.NDArray[Any]
Network = Callable[[Tile], Array]
"""A tile to its probabilities ``(h, w, classes)``, NaN where there is no data."""


def active_steps(model: SceneModel, scene: xr.DataArray) -> tuple[Mapping[str, Any], ...]:
    """Return the steps that this scene's map takes.

    Label propagation starts from the training pixels: on any other scene it is left out.
    """
    steps = () if model.recipe is None else model.recipe.steps
    if _propagates(steps) and not model.learned_from(scene):
        return tuple(step for step in steps if step["step"] != "propagate")
    return steps


def needs_whole_scene(model: SceneModel, scene: xr.DataArray) -> bool:
    """Whether a tile of this scene's map depends on pixels all over the scene."""
    return _propagates(active_steps(model, scene))


def warn_of_other_scene(model: SceneModel, scene: xr.DataArray) -> None:
    """Warn where steps of the model are left out because it was trained on another scene."""
    steps = () if model.recipe is None else model.recipe.steps
    if len(active_steps(model, scene)) < len(steps):
        warnings.warn(
            "this model was trained for the scene its labels lie in and is used on another one: "
            "the network works alone; for maps of other scenes train with --goal other-scenes "
            "(in Python, goal='other-scenes')",
            PolyadWarning,
            stacklevel=3,
        )


def refiner(
    model: SceneModel,
    scene: xr.DataArray,
    steps: tuple[Mapping[str, Any], ...],
    network: Network,
) -> Network:
    """Return the function from a tile to its probabilities after ``steps``.

    Steps that need the whole scene are done at the first call, and kept.
    """
    scene = as_scene(scene)
    local = [step for step in steps if step["step"] == "guided"]
    if not _propagates(steps):
        return lambda tile: _filtered(scene, local, tile, network)
    kept: list[Array] = []

    def from_whole(tile: Tile) -> Array:
        if not kept:
            _check_room(scene, len(model.classes))
            everything = Tile(slice(0, scene.sizes["y"]), slice(0, scene.sizes["x"]))
            proba = _filtered(scene, local, everything, network)
            for step in steps:
                if step["step"] == "propagate":
                    proba = _propagated(model, scene, step, proba)
            kept.append(proba)
        return kept[0][tile]

    return from_whole


def _check_room(scene: xr.DataArray, classes: int) -> None:
    """Raise `SceneError` where the labels of all classes do not fit in memory at every pixel."""
    height, width = scene.sizes["y"], scene.sizes["x"]
    needed, budget = height * width * classes * 24, memory_budget()  # six copies
    if needed > budget:
        raise SceneError(
            f"label propagation of {classes:,} classes over {height} x {width} pixels takes about "
            f"{needed:,} bytes where {budget:,} may be used; train with --goal other-scenes"
        )


def _propagates(steps: Iterable[Mapping[str, Any]]) -> bool:
    return any(step["step"] == "propagate" for step in steps)


def _filtered(
    scene: xr.DataArray, steps: list[Mapping[str, Any]], tile: Tile, network: Network
) -> Array:
    """Return the probabilities of a tile after its guided filters; their halo is read too."""
    halo = sum(2 * int(step["radius"]) for step in steps)
    if not steps:
        return network(tile)
    size = scene.sizes["y"], scene.sizes["x"]
    wide = tile.grown(halo, size)
    proba = network(wide)
    blank = np.isnan(proba[..., 0])
    cube = np.where(blank[..., None], 0, read_window(scene, wide)).astype(np.float32)
    for step in steps:
        proba = smooth(proba, cube, blank, step)
    return proba[tile.within(wide)]


def smooth(proba: Array, cube: Array, blank: Array, step: Mapping[str, Any]) -> Array:
    """Return probabilities ``(h, w, classes)`` smoothed along the scene; NaN stays where it is."""
    guide = (cube - np.asarray(step["mean"])) @ np.asarray(step["projection"])
    guide[blank] = 0.0
    maps = np.where(blank[..., None], 1 / proba.shape[-1], proba)
    smoothed = guided_filter(maps, guide, int(step["radius"]), float(step["ridge"]))
    smoothed = np.clip(smoothed, 1e-6, 1.0)
    smoothed = (smoothed / smoothed.sum(axis=-1, keepdims=True)).astype(np.float32)
    smoothed[blank] = np.nan
    return smoothed


def _propagated(
    model: SceneModel, scene: xr.DataArray, step: Mapping[str, Any], proba: Array
) -> Array:
    """Return probabilities of the whole scene after label propagation."""
    if model.statistics is not None and model.statistics.inside == packed(scene):
        return propagate(model, step, proba, model.statistics.graphs)
    cube = read_pixels(scene, slice(None), slice(None))
    valid = valid_pixels(cube, scene.rio.nodata)
    cube = cube if valid.all() else np.where(valid[..., None], cube, 0)
    graphs = Propagation.from_dict(step["settings"]).build_graphs(cube, valid)
    return propagate(model, step, proba, graphs)


def propagate(
    model: SceneModel, step: Mapping[str, Any], proba: Array, graphs: Sequence[Graph]
) -> Array:
    """Return ``proba`` times the class shares that label propagation gives each pixel.

    Parameters
    ----------
    model : SceneModel
        Its training pixels are where propagation starts.
    step : mapping
        The model's step of this name.
    proba : ndarray, ``(height, width, classes)``
        Of the network; NaN where there is no data.
    graphs : sequence of Graph
        Of the scene; see `Propagation.build_graphs`.
    """
    settings = Propagation.from_dict(step["settings"])
    height, width, count = proba.shape
    pixels = model.training_pixels((height, width))
    targets = np.asarray(step["targets"], np.intp)
    shares = settings.propagate(graphs, pixels, targets, (height, width), count)
    flat = np.nan_to_num(proba.reshape(-1, count), nan=1 / count)
    both = combine(flat, shares, (float(step["weights"][0]), float(step["weights"][1])))
    both = both.reshape(proba.shape).astype(np.float32)
    both[np.isnan(proba[..., 0])] = np.nan
    return both
