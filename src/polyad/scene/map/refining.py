"""The steps of a recipe done to the maps of a model: tile by tile, or on the whole scene.

Propagating labels needs the whole scene, and gives the same for every map of it. So ``polyad
train`` keeps the result in ``<model>.cache/<key>.safetensors``, where the key is a digest of the
scene's content, the labels and the settings: another scene, or a scene that has changed in one
pixel, has another key. A file is read only if it has the key, the size and the values that it must
have; anything else is as if it were not there. The folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from polyad.atomic import replacing
from polyad.errors import OutputError, PolyadError, PolyadWarning, SceneError
from polyad.scene.learn.model import SceneModel, cache_folder
from polyad.scene.learn.recipe import GuidedFilter, Propagation, PropagationSettings, Step
from polyad.scene.learn.scene_statistics import (
    Progress,
    RunOnScene,
    graph_statistics,
    run_here,
    statistics_bar,
)
from polyad.scene.learn.steps import Propagator, combine, guided_filter
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.selection import packed, read_stored
from polyad.scene.raster.windows import TILE_BYTES, Tile, read_window

Array = npt.NDArray[Any]
FORMAT = 2
MARK = "polyad-shares"
CACHE_BYTES = 2**30  # of all files in the folder; the oldest give way
HEADER_BYTES = 4096
STRIPS = 4  # of a scene are read by one task: some hundredths of a second
LOWEST = -50.0  # of a log share; `log_shares` has a floor far above


def scene_digest(scene: xr.DataArray, run: RunOnScene | None = None) -> str:
    """Return a digest of every pixel of a scene as it is stored, its mask and its nodata value.

    ``run`` reads it strip by strip, threads here unless it is given.
    """
    scene = as_scene(scene)
    height, width, bands = scene.shape
    about = (scene.shape, scene.dtype.str, str(scene.rio.nodata))
    rows = max(TILE_BYTES // max(width * bands * scene.dtype.itemsize, 1), 1)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(packed(scene) or b"")
    run = run_here(scene) if run is None else run
    starts = range(0, height, rows)
    some = [starts[k : k + STRIPS] for k in range(0, len(starts), STRIPS)]
    for strips in run(_strip_digests, rows, some):
        digest.update(strips)
    return digest.hexdigest()


def _strip_digests(scene: xr.DataArray, rows: int, starts: range) -> bytes:
    """Return the digests of strips of so many rows of a scene, one after the other."""
    digests = []
    for start in starts:
        strip = read_stored(scene, slice(start, min(start + rows, scene.shape[0])), slice(None))
        digests.append(hashlib.sha256(np.ascontiguousarray(strip).data).digest())
    return b"".join(digests)


def share_key(
    scene: xr.DataArray,
    pixels: Array,
    targets: Array,
    settings: PropagationSettings,
    run: RunOnScene | None = None,
) -> str:
    """Return the name of what these labels propagate to; the whole scene is read for it."""
    about = {
        "format": FORMAT,
        "scene": scene_digest(scene, run),
        "pixels": np.asarray(pixels).tolist(),
        "targets": np.asarray(targets).tolist(),
        "settings": settings.to_data(),
    }
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write_shares(folder: Path, key: str, nodes: Array, logs: Array) -> bool:
    """Keep what label propagation gave under its key; older files make room.

    A cache is a convenience: where it cannot be written, or would be too large, it is left out.

    Parameters
    ----------
    folder : Path
    key : str
        See `share_key`.
    nodes : ndarray of int, ``(height, width)``
        Node of each pixel, -1 where there is no data.
    logs : ndarray, ``(nodes, classes)``
        Log shares of the classes.

    Returns
    -------
    bool
        Whether it is kept.
    """
    arrays = {"nodes": np.ascontiguousarray(nodes, np.int32)}
    arrays["logs"] = np.ascontiguousarray(logs, np.float32)
    if sum(a.nbytes for a in arrays.values()) > CACHE_BYTES:
        return False
    about = {MARK: str(FORMAT), "key": key, "sha256": _checksum(key, arrays)}
    path = folder / f"{key}.safetensors"
    try:
        folder.mkdir(exist_ok=True)
        # Neither folder nor file may be a link: what it leads to is not ours to write to
        if folder.is_symlink() or (os.path.lexists(path) and not _is_kept(path)):
            return False
        with replacing(path) as temporary:
            temporary.write_bytes(to_bytes(arrays, about))
    except (OSError, OutputError):
        return False
    _make_room(folder, keep=key)
    return True


def read_shares(
    folder: Path, key: str, shape: tuple[int, int], classes: int
) -> tuple[Array, Array] | None:
    """Return the nodes and log shares that are kept under ``key``, or None.

    A file that is damaged, forged or of another scene counts as none.
    """
    path = folder / f"{key}.safetensors"
    pixels = shape[0] * shape[1]
    most = pixels * 4 * (1 + classes) + HEADER_BYTES  # every pixel a node
    try:
        if folder.is_symlink() or not _is_kept(path) or path.stat().st_size > most:
            return None
        with safe_open(path, framework="numpy") as content:
            about = content.metadata() or {}
            if set(content.keys()) != {"nodes", "logs"} or about.get("key") != key:
                return None
            forms = {name: content.get_slice(name) for name in ("nodes", "logs")}
            sizes = {name: tuple(form.get_shape()) for name, form in forms.items()}
            kinds = [form.get_dtype() for form in forms.values()]
            count = sizes["logs"][0] if sizes["logs"] else 0
            wanted = {"nodes": shape, "logs": (count, classes)}
            if sizes != wanted or kinds != ["I32", "F32"] or not 0 < count <= pixels:
                return None
            arrays = {name: content.get_tensor(name) for name in forms}
    except (OSError, PolyadError, SafetensorError, ValueError, MemoryError):
        return None
    if about.get("sha256") != _checksum(key, arrays) or not _sound(**arrays):
        return None
    with suppress(OSError):
        os.utime(path)  # used last: it gives way last
    return arrays["nodes"], arrays["logs"]


def _sound(nodes: Array, logs: Array) -> bool:
    """Whether every node exists, and every value is the logarithm of a share."""
    inside = nodes.min() >= -1 and nodes.max() < len(logs)
    return bool(inside and np.isfinite(logs).all() and logs.max() <= 0.01 and logs.min() >= LOWEST)


def _checksum(key: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(key.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _is_kept(path: Path) -> bool:
    """Whether this is a file that was written here, and no link to one."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(HEADER_BYTES)


def _make_room(folder: Path, keep: str) -> None:
    """Remove the files used longest ago, until the others fit."""
    with suppress(OSError):
        kept = [path for path in folder.glob("*.safetensors") if _is_kept(path)]
        found = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in kept]
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= CACHE_BYTES:
                return
            if path.stem != keep:
                path.unlink()
                total -= size


Network = Callable[[Tile], Array]
"""A tile to its probabilities ``(h, w, classes)``, NaN where there is no data."""
Refined = Callable[..., Array]
"""As `Network`, after the steps of a recipe; takes a tile and, if they are known, its `Shares`."""
PROPAGATION = 0.05  # of the time that shares take: the rest is for the scene's statistics


def active_steps(model: SceneModel, scene: xr.DataArray) -> tuple[Step, ...]:
    """Return the steps that this scene's map takes.

    Label propagation starts from the training pixels: on any other scene it is left out.
    """
    steps = () if model.recipe is None else model.recipe.steps
    if _propagate_step(steps) is not None and not model.learned_from(scene):
        return tuple(step for step in steps if not step.whole_scene)
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
    steps: tuple[Step, ...],
    network: Network,
    progress: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Refined:
    """Return the function from a tile, and its own shares, to its probabilities after ``steps``.

    If it is not given any, labels are propagated over the whole scene at the first call, with a
    bar if ``progress`` is wanted and ``check`` called meanwhile, and what came of it is kept.
    """
    scene = as_scene(scene)
    guides = [step for step in steps if isinstance(step, GuidedFilter)]
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
    step: Propagation,
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
    step : Propagation
        Of the model's recipe.
    progress : callable, optional
        Called with the stage and the share of all the work that is done.
    check : callable, optional
        Called meanwhile, and may raise to end the work.
    run : RunOnScene, optional
        Who reads the scene, window by window; threads here unless it is given.
    """
    scene, settings = as_scene(scene), step.settings
    _check_room(scene, len(model.classes), settings)
    shape, classes = (scene.sizes["y"], scene.sizes["x"]), len(model.classes)
    pixels, targets = model.training_pixels(shape), np.asarray(step.targets, np.intp)
    key = "" if model.cache is None else share_key(scene, pixels, targets, settings, run)
    statistics = model.statistics
    if statistics is None or statistics.inside != packed(scene):
        found = None if model.cache is None else read_shares(model.cache, key, shape, classes)
        if found is not None:
            return Shares(*found, step.weights)
        before = 1 - PROPAGATION
        statistics = graph_statistics(
            scene,
            settings,
            progress=lambda stage, share: progress(stage, before * share),
            check=check,
            run=run,
        )
    propagator = Propagator(settings, statistics.graphs, statistics.nodes, check)
    logs = propagator.log_shares(
        pixels, targets, classes, lambda left: progress("propagation", 1 - PROPAGATION * left)
    )
    if model.cache is not None:
        write_shares(model.cache, key, statistics.nodes, logs)
    return Shares(statistics.nodes, logs, step.weights)


def keep_shares(
    model: SceneModel, scene: xr.DataArray, path: str | os.PathLike[str], progress: bool = False
) -> None:
    """Keep beside the model file ``path`` what label propagation gives the model's own scene.

    Maps of the scene then begin at once. A model that does not propagate labels keeps nothing.
    """
    scene = model.view(scene)
    for step in active_steps(model, scene):
        if isinstance(step, Propagation):
            _with_bar(replace(model, cache=cache_folder(path)), scene, step, progress)


def _with_bar(
    model: SceneModel,
    scene: xr.DataArray,
    step: Propagation,
    progress: bool,
    check: Callable[[], None] = lambda: None,
    run: RunOnScene | None = None,
) -> Shares:
    """Return `propagated_shares`, with a bar if one is wanted."""
    with statistics_bar(progress) as bar:
        return propagated_shares(model, scene, step, bar, check, run)


def _check_room(scene: xr.DataArray, classes: int, settings: PropagationSettings) -> None:
    """Raise `SceneError` where the labels of all classes do not fit in memory at every node."""
    height, width = scene.sizes["y"], scene.sizes["x"]
    nodes = -(-height * width // settings.superpixel)
    needed, budget = nodes * classes * 24, memory_budget()  # six copies
    if needed > budget:
        raise SceneError(
            f"label propagation of {classes:,} classes over {height} x {width} pixels takes about "
            f"{needed:,} bytes where {budget:,} may be used; train with --goal other-scenes"
        )


def _propagate_step(steps: Iterable[Step]) -> Propagation | None:
    """Return the one step that propagates labels, if there is one."""
    return next((step for step in steps if isinstance(step, Propagation)), None)


def _filtered(
    scene: xr.DataArray, steps: list[GuidedFilter], tile: Tile, network: Network
) -> Array:
    """Return the probabilities of a tile after its guided filters; their halo is read too."""
    halo = sum(step.halo for step in steps)
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


def smooth(proba: Array, cube: Array, blank: Array, step: GuidedFilter) -> Array:
    """Return probabilities ``(h, w, classes)`` smoothed along the scene; NaN stays where it is."""
    centered = cube - np.asarray(step.mean, np.float32)  # first: single precision is enough then
    guide = centered @ np.asarray(step.projection, np.float32)
    guide[blank] = 0.0
    maps = np.where(blank[..., None], 1 / proba.shape[-1], proba)
    smoothed = guided_filter(maps, guide, step.radius, step.ridge)
    smoothed = np.clip(smoothed, 1e-6, 1.0)
    smoothed = (smoothed / smoothed.sum(axis=-1, keepdims=True)).astype(np.float32)
    smoothed[blank] = np.nan
    return smoothed
