"""The steps of a recipe done to the maps of a model: tile by tile, or on the whole scene."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import PolyadWarning, SceneError
from polyad.scene.learn.model import SceneModel, cache_folder
from polyad.scene.learn.scene_statistics import (
    Progress,
    RunOnScene,
    graph_statistics,
    statistics_bar,
)
from polyad.scene.learn.steps import Propagation, combine, guided_filter
from polyad.scene.map.share_cache import read_shares, share_key, write_shares
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.mask import packed
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.tiles import Tile, read_window

Array = npt.NDArray[Any]
Network = Callable[[Tile], Array]
"""A tile to its probabilities ``(h, w, classes)``, NaN where there is no data."""
Refined = Callable[..., Array]
"""As `Network`, after the steps of a recipe; takes a tile and, if they are known, its `Shares`."""
PROPAGATION = 0.05  # of the time that shares take: the rest is for the scene's statistics


def active_steps(model: SceneModel, scene: xr.DataArray) -> tuple[Mapping[str, Any], ...]:
    """Return the steps that this scene's map takes.

    Label propagation starts from the training pixels: on any other scene it is left out.
    """
    steps = () if model.recipe is None else model.recipe.steps
    if _propagate_step(steps) is not None and not model.learned_from(scene):
        return tuple(step for step in steps if step["step"] != "propagate")
    return steps


def needs_whole_scene(model: SceneModel, scene: xr.DataArray) -> bool:
    """Whether a tile of this scene's map depends on pixels all over the scene."""
    return _propagate_step(active_steps(model, scene)) is not None


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


def scene_shares(
    model: SceneModel,
    scene: xr.DataArray,
    progress: bool = False,
    run: RunOnScene | None = None,
) -> Shares | None:
    """Return what label propagation gives a scene, None if its map takes no such step.

    It is all that a map needs of the whole scene: with it, tiles are mapped anywhere.

    Parameters
    ----------
    model : SceneModel
    scene : DataArray, dims ``(y, x, band)``
    progress : bool, default=False
        Show a bar.
    run : RunOnScene, optional
        Who reads the scene, window by window; threads here unless it is given.
    """
    model = model.unmerged
    scene = model.view(scene)
    step = _propagate_step(active_steps(model, scene))
    return None if step is None else _with_bar(model, scene, step, progress, run=run)


def refiner(
    model: SceneModel,
    scene: xr.DataArray,
    steps: tuple[Mapping[str, Any], ...],
    network: Network,
    progress: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Refined:
    """Return the function from a tile, and its own shares, to its probabilities after ``steps``.

    If it is not given any, labels are propagated over the whole scene at the first call, with a
    bar if ``progress`` is wanted and ``check`` called meanwhile, and what came of it is kept.
    """
    scene = as_scene(scene)
    guides = [step for step in steps if step["step"] == "guided"]
    step = _propagate_step(steps)
    kept: list[Shares] = []

    def refined(tile: Tile, shares: Shares | None = None) -> Array:
        if step is not None and shares is None:
            if not kept:
                kept.append(_with_bar(model, scene, step, progress, check))
            shares = kept[0].at(tile)
        proba = _filtered(scene, guides, tile, network)
        return proba if shares is None else shares.combined(proba)

    return refined


@dataclass(frozen=True)
class Shares:
    """What label propagation gives a scene, or one tile of it.

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

    def at(self, tile: Tile) -> Shares:
        """Return the shares of a tile; nothing is copied."""
        return replace(self, nodes=self.nodes[tile])

    def cut(self, tile: Tile) -> Shares:
        """Return the shares of a tile in few bytes: its own rows alone, its nodes numbered anew.

        Pixels without data have some row, which says nothing.

        Examples
        --------
        >>> nodes = np.array([[7, 7, 900], [12, 3, 900]])
        >>> whole = Shares(nodes, np.arange(1000, dtype=np.float32)[:, None], (0.5, 0.5))
        >>> tile = whole.cut(Tile(slice(0, 2), slice(1, 3)))
        >>> tile.nodes
        array([[1, 2],
               [0, 2]], dtype=uint8)
        >>> tile.logs.ravel().tolist()
        [3.0, 7.0, 900.0]
        """
        nodes = self.nodes[tile]
        first = int(nodes.min())
        own = np.zeros(int(nodes.max()) - first + 1, bool)  # nodes of a tile lie near each other
        own[nodes - first] = True
        rows = np.flatnonzero(own)
        number = np.empty(len(own), np.min_scalar_type(len(rows) - 1))
        number[rows] = np.arange(len(rows), dtype=number.dtype)
        return replace(self, nodes=number[nodes - first], logs=self.logs[rows + first])

    def checksum(self) -> int:
        """Return a checksum of all values: other shares make another map."""
        value = zlib.crc32(repr(self.weights).encode())
        for array in (self.nodes, self.logs):
            value = zlib.crc32(np.ascontiguousarray(array).data, value)
        return value

    def combined(self, proba: Array) -> Array:
        """Return the probabilities ``(h, w, classes)`` of a tile times its shares; NaN stays."""
        count = proba.shape[-1]
        flat = np.nan_to_num(proba.reshape(-1, count), nan=1 / count)
        both = combine(flat, self.logs[self.nodes.ravel()], self.weights)
        both = both.reshape(proba.shape).astype(np.float32)
        both[np.isnan(proba[..., 0])] = np.nan
        return both


def propagated_shares(
    model: SceneModel,
    scene: xr.DataArray,
    step: Mapping[str, Any],
    progress: Progress = lambda stage, share: None,  # noqa: ARG005
    check: Callable[[], None] = lambda: None,
    run: RunOnScene | None = None,
) -> Shares:
    """Propagate the model's labels over its scene, whose graphs are built if it has none.

    What comes of it is kept beside the model file, and found there by the next map.

    Parameters
    ----------
    model : SceneModel
        Its training pixels are where propagation starts.
    scene : DataArray, dims ``(y, x, band)``
    step : mapping
        The model's step ``propagate``.
    progress : callable, optional
        Called with the stage and the share of all the work that is done.
    check : callable, optional
        Called meanwhile, and may raise to end the work.
    run : RunOnScene, optional
        Who reads the scene, window by window; threads here unless it is given.
    """
    scene, settings = as_scene(scene), Propagation.from_dict(step["settings"])
    _check_room(scene, len(model.classes), settings)
    shape, classes = (scene.sizes["y"], scene.sizes["x"]), len(model.classes)
    pixels, targets = model.training_pixels(shape), np.asarray(step["targets"], np.intp)
    weights = float(step["weights"][0]), float(step["weights"][1])
    key = "" if model.cache is None else share_key(scene, pixels, targets, step["settings"], run)
    statistics = model.statistics
    if statistics is None or statistics.inside != packed(scene):
        found = None if model.cache is None else read_shares(model.cache, key, shape, classes)
        if found is not None:
            return Shares(*found, weights)
        before = 1 - PROPAGATION
        statistics = graph_statistics(
            scene,
            settings,
            progress=lambda stage, share: progress(stage, before * share),
            check=check,
            run=run,
        )
    logs = settings.propagate(
        statistics.graphs,
        pixels,
        targets,
        statistics.nodes,
        classes,
        lambda left: progress("propagation", 1 - PROPAGATION * left),
        check,
    )
    if model.cache is not None:
        write_shares(model.cache, key, statistics.nodes, logs)
    return Shares(statistics.nodes, logs, weights)


def keep_shares(
    model: SceneModel, scene: xr.DataArray, path: str | os.PathLike[str], progress: bool = False
) -> None:
    """Keep beside the model file ``path`` what label propagation gives the model's own scene.

    Maps of the scene then begin at once. A model that does not propagate labels keeps nothing.
    """
    scene = model.view(scene)
    for step in active_steps(model, scene):
        if step["step"] == "propagate":
            _with_bar(replace(model, cache=cache_folder(path)), scene, step, progress)


def _with_bar(
    model: SceneModel,
    scene: xr.DataArray,
    step: Mapping[str, Any],
    progress: bool,
    check: Callable[[], None] = lambda: None,
    run: RunOnScene | None = None,
) -> Shares:
    """Return `propagated_shares`, with a bar if one is wanted."""
    with statistics_bar(progress) as bar:
        return propagated_shares(model, scene, step, bar, check, run)


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


def _propagate_step(steps: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the one step that propagates labels, if there is one."""
    return next((step for step in steps if step["step"] == "propagate"), None)


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
    centered = cube - np.asarray(step["mean"], np.float32)  # first: single precision is enough then
    guide = centered @ np.asarray(step["projection"], np.float32)
    guide[blank] = 0.0
    maps = np.where(blank[..., None], 1 / proba.shape[-1], proba)
    smoothed = guided_filter(maps, guide, int(step["radius"]), float(step["ridge"]))
    smoothed = np.clip(smoothed, 1e-6, 1.0)
    smoothed = (smoothed / smoothed.sum(axis=-1, keepdims=True)).astype(np.float32)
    smoothed[blank] = np.nan
    return smoothed
