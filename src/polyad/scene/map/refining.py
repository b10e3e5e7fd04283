"""The steps of a recipe done to the maps of a model: tile by tile, or on the whole scene."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import PolyadWarning, SceneError
from polyad.scene.learn.model import SceneModel, cache_folder
from polyad.scene.learn.scene_statistics import graph_statistics
from polyad.scene.learn.steps.guided import guided_filter
from polyad.scene.learn.steps.propagation import Propagation, combine
from polyad.scene.map.share_cache import read_shares, share_key, write_shares
from polyad.scene.raster.dims import as_scene
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.inside import packed
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

    Labels are propagated over the whole scene at the first call, and what came of it is kept.
    """
    scene = as_scene(scene)
    local = [step for step in steps if step["step"] == "guided"]
    global_steps = [step for step in steps if step["step"] == "propagate"]
    kept: list[Shares] = []

    def refined(tile: Tile) -> Array:
        if not kept:
            kept.extend(propagated_shares(model, scene, step) for step in global_steps)
        proba = _filtered(scene, local, tile, network)
        for shares in kept:
            proba = shares.combined(proba, tile)
        return proba

    return refined


@dataclass(frozen=True)
class Shares:
    """What label propagation gives a scene; a tile of it needs its own ``nodes`` only.

    Attributes
    ----------
    nodes : ndarray of int, ``(height, width)``
        Which row of ``logs`` each pixel has; any where there is no data.
    logs : ndarray of float32, ``(nodes, classes)``
        Log shares of the classes.
    weights : tuple of float
        Of the propagation and of the network, see `combine`.
    """

    nodes: Array
    logs: Array
    weights: tuple[float, float]

    def cut(self, tile: Tile) -> Shares:
        """Return what a tile of the scene needs: its nodes, numbered anew, and their rows.

        Pixels without data have some row, which says nothing.
        """
        rows, nodes = np.unique(self.nodes[tile], return_inverse=True)
        return replace(self, nodes=nodes.reshape(tile.shape), logs=self.logs[rows])

    def combined(self, proba: Array, tile: Tile) -> Array:
        """Return probabilities ``(h, w, classes)`` of a tile times its shares; NaN stays."""
        count = proba.shape[-1]
        flat = np.nan_to_num(proba.reshape(-1, count), nan=1 / count)
        both = combine(flat, self.logs[self.nodes[tile].ravel()], self.weights)
        both = both.reshape(proba.shape).astype(np.float32)
        both[np.isnan(proba[..., 0])] = np.nan
        return both


def propagated_shares(model: SceneModel, scene: xr.DataArray, step: Mapping[str, Any]) -> Shares:
    """Propagate the model's labels over its scene, whose graphs are built if it has none.

    What comes of it is kept beside the model file, and found there by the next map.

    Parameters
    ----------
    model : SceneModel
        Its training pixels are where propagation starts.
    scene : DataArray, dims ``(y, x, band)``
    step : mapping
        The model's step ``propagate``.
    """
    settings = Propagation.from_dict(step["settings"])
    _check_room(scene, len(model.classes), settings)
    shape, classes = (scene.sizes["y"], scene.sizes["x"]), len(model.classes)
    pixels, targets = model.training_pixels(shape), np.asarray(step["targets"], np.intp)
    weights = float(step["weights"][0]), float(step["weights"][1])
    key = "" if model.cache is None else share_key(scene, pixels, targets, step["settings"])
    statistics = model.statistics
    if statistics is None or statistics.inside != packed(scene):
        found = None if model.cache is None else read_shares(model.cache, key, shape, classes)
        if found is not None:
            return Shares(*found, weights)
        statistics = graph_statistics(scene, settings)
    logs = settings.propagate(statistics.graphs, pixels, targets, statistics.nodes, classes)
    if model.cache is not None:
        write_shares(model.cache, key, statistics.nodes, logs)
    return Shares(statistics.nodes, logs, weights)


def keep_shares(model: SceneModel, scene: xr.DataArray, path: str | os.PathLike[str]) -> None:
    """Keep beside the model file ``path`` what label propagation gives the model's own scene.

    Maps of the scene then begin at once. A model that does not propagate labels keeps nothing.
    """
    scene = model.view(scene)
    for step in active_steps(model, scene):
        if step["step"] == "propagate":
            propagated_shares(replace(model, cache=cache_folder(path)), scene, step)


def _check_room(scene: xr.DataArray, classes: int, settings: Propagation) -> None:
    """Raise `SceneError` where the labels of all classes do not fit in memory at every node."""
    height, width = scene.sizes["y"], scene.sizes["x"]
    nodes = -(-height * width // settings.superpixel)
    needed, budget = nodes * classes * 24, memory_budget()  # six copies
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
