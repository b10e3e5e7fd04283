"""A model on one scene: its network, and the steps of its recipe, tile by tile.

Label propagation needs the whole scene, and gives the same for every map of it. So the result is
kept in the propagation cache, a folder of the user's own: a file that comes with a model could
change its maps. A file's name is a digest of the scene's content, the labels and the settings, so
that a scene that has changed in one pixel has another one. The folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xarray as xr
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as to_bytes
from torch import Tensor
from tqdm import tqdm

from polyad.atomic import replacing
from polyad.errors import OutputError, PolyadWarning, SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import GuidedFilter, Propagation, Step
from polyad.scene.learn.scene_statistics import (
    Progress,
    RunOnScene,
    SceneStatistics,
    graph_statistics,
    run_here,
    statistics_bar,
)
from polyad.scene.learn.steps import Propagator, combine, filtered, guided_filter
from polyad.scene.map.classifier import block_classifier, piece_side
from polyad.scene.map.separable import Scorer, separable_scorer
from polyad.scene.raster.classes import UNLABELED, class_dtype
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import (
    TILE_BYTES,
    Block,
    Tile,
    halo_index,
    plan_tiles,
    read_block,
    tile_shape,
)
from polyad.threads import one_ahead

Array = npt.NDArray[Any]
SMOOTHED_TILE = 4  # times as large as others is a tile whose halo is wide
IN_MEMORY_TILE = 4  # times as large as others is a tile that need not be read
WORKING_SHARE = 16  # what is computed of a tile may take this many times what is read of it
PROPAGATION = 0.05  # of the time that shares take: the rest is for the scene's statistics


class Mapper:
    """A model on one scene, built once: its bands are matched, and its steps chosen.

    A tile is mapped in two steps, `read` and `classify`: the next one may be read meanwhile.
    Buffers are kept, so use one mapper in each thread.

    Parameters
    ----------
    model : SceneModel
        As it maps this scene, see `polyad.scene.adapt_model`.
    scene : Scene or DataArray, dims ``(y, x, band)``
    numbers : bool, default=False
        Whether probabilities are wanted; of a regression model, standard deviations.
    progress : bool, default=False
        Show bars.
    check : callable, optional
        Called while labels are propagated, and may raise to end the work.

    Attributes
    ----------
    scene : Scene
        As the model sees it.
    propagation : Propagation or None
        The step that makes a tile depend on pixels all over the scene, if this map takes it.
    """

    def __init__(
        self,
        model: SceneModel,
        scene: Scene | xr.DataArray,
        numbers: bool = False,
        progress: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.model, self.scene = model, model.view(scene)
        self.numbers, self.progress, self.check = numbers, progress, check
        self.steps = active_steps(model, self.scene)
        self.propagation = next((s for s in self.steps if isinstance(s, Propagation)), None)
        self._guided = [step for step in self.steps if isinstance(step, GuidedFilter)]
        derived = bool(self.steps) or model.merging is not None  # ids come of the probabilities
        self._network = block_classifier(model.unmerged, self.scene.nodata, numbers or derived)
        self._shares: Shares | None = None

    def __call__(self, tile: Tile, shares: Shares | None = None) -> tuple[Array, Array | None]:
        """Map one tile; see `classify`."""
        return self.classify(self.read(tile), shares)

    def read(self, tile: Tile) -> Block | Tile:
        """Return the pixels of a tile with their halo; steps read what they need by themselves."""
        return tile if self.steps else read_block(self.scene, tile, self.model.window // 2)

    def classify(
        self, pixels: Block | Tile, shares: Shares | None = None
    ) -> tuple[Array, Array | None]:
        """Return ids ``(h, w)`` and, if asked for, probabilities ``(h, w, classes)``.

        Of a regression model, the ids are 1 where there is a value, and in place of the
        probabilities come the values; if ``numbers`` are wanted, with their standard deviations.

        Parameters
        ----------
        pixels : Block or Tile
            From `read`.
        shares : Shares, optional
            What label propagation gives this tile, see `propagate`. If it is not given, labels are
            propagated over the whole scene at the first tile, and what came of it is kept.
        """
        model = self.model
        if isinstance(pixels, Block):
            ids, numbers = self._network(pixels)
        else:
            if self.propagation is not None and shares is None:
                self._shares = self._shares or self.propagate()
                shares = None if self._shares is None else self._shares.at(pixels)
            numbers = refined(self.scene, self._guided, pixels, self._probabilities, shares)
        if model.merging is not None:
            numbers = model.merging.sums(np.asarray(numbers))
        if self.steps or model.merging is not None:
            ids = _likeliest(model, np.asarray(numbers))
        return ids, numbers if self.numbers or model.values is not None else None

    def run(
        self, tiles: Iterable[Tile] | None = None
    ) -> Iterator[tuple[Tile, Array, Array | None]]:
        """Yield each tile, by default all of the scene, with what `classify` gives.

        What lies on disk is read one tile ahead.
        """
        self.warn_of_other_scene()
        tiles = scene_tiles(self.scene, None, self.model) if tiles is None else list(tiles)
        in_memory = self.scene.array.variable._in_memory  # there is nothing to wait for
        blocks = ((t, self.read(t)) for t in tiles) if in_memory else one_ahead(self.read, tiles)
        with tqdm(desc="mapping", unit="tile", total=len(tiles), disable=not self.progress) as bar:
            for tile, pixels in blocks:
                outcome = self.classify(pixels)
                del pixels  # before the tile after the next is read
                yield tile, *outcome
                bar.update()

    def propagate(self, run: RunOnScene | None = None) -> Shares | None:
        """Return what label propagation gives the scene, None if its map takes no such step.

        It is all that a map needs of the whole scene: with it, tiles are mapped anywhere. ``run``
        reads the scene, window by window; threads here unless it is given.
        """
        if self.propagation is None:
            return None
        with statistics_bar(self.progress) as bar:
            model = self.model.unmerged
            return propagated_shares(model, self.scene, self.propagation, bar, self.check, run)

    def warn_of_other_scene(self) -> None:
        """Warn where steps of the model are left out because it was trained on another scene."""
        if self.model.recipe is not None and len(self.steps) < len(self.model.recipe.steps):
            warnings.warn(
                "this model was trained for the scene its labels lie in and is used on another "
                "one: the network works alone; for maps of other scenes train with --goal "
                "other-scenes (in Python, goal='other-scenes')",
                PolyadWarning,
                stacklevel=3,
            )

    def _probabilities(self, tile: Tile) -> Array:
        """Return the network's probabilities ``(h, w, classes)`` of a tile."""
        block = read_block(self.scene, tile, self.model.window // 2)
        return np.asarray(self._network(block)[1])


def active_steps(model: SceneModel, scene: Scene) -> tuple[Step, ...]:
    """Return the steps that the map of a scene, as the model sees it, takes.

    Label propagation starts from the training pixels: on any other scene it is left out.
    """
    steps = () if model.recipe is None else model.recipe.steps
    if any(step.whole_scene for step in steps) and model.training.scene != scene.fingerprint:
        return tuple(step for step in steps if not step.whole_scene)
    return steps


def scene_tiles(
    scene: Scene | xr.DataArray, side: int | None = None, model: SceneModel | None = None
) -> list[Tile]:
    """Return the tiles that a scene is mapped by, in the order in which they are written.

    A model of very many classes gets smaller ones, for the probabilities of a tile's pixels; one
    that smooths them larger ones, since the halo of each tile is computed once more. A scene in
    memory has larger ones too: threads wait for each other at the end of a tile.
    """
    scene = Scene.of(scene)
    read = scene.shape[2] * scene.dtype.itemsize
    if scene.array.variable._in_memory:
        read //= IN_MEMORY_TILE
    if model is not None and model.recipe is not None and model.recipe.guided is not None:
        read //= SMOOTHED_TILE
    made = 0 if model is None else model.working_bytes
    shape = scene.shape[:2]
    return plan_tiles(shape, tile_shape(shape, max(read, made // WORKING_SHARE), side))


def _likeliest(model: SceneModel, proba: Array) -> Array:
    """Return the ids ``(h, w)`` of the largest probabilities ``(h, w, classes)``; 0 for NaN."""
    values = np.array([c.value for c in model.classes], class_dtype(model.classes))
    blank = np.isnan(proba[..., 0])
    ids = values[np.where(blank[..., None], 0, proba).argmax(axis=-1)]
    ids[blank] = UNLABELED
    return ids


def refined(
    scene: Scene,
    steps: Sequence[GuidedFilter],
    tile: Tile,
    network: Callable[[Tile], Array],
    shares: Shares | None = None,
) -> Array:
    """Return the probabilities ``(h, w, classes)`` of a tile after guided filters and propagation.

    ``network`` gives those of any tile, NaN where there is no data; the halo of the filters is
    asked of it too.
    """
    wide = tile.grown(sum(step.halo for step in steps), scene.shape[:2])
    proba = network(wide)
    if steps:
        blank = np.isnan(proba[..., 0])
        pixels = scene.read(wide.rows, wide.cols)
        cube = np.where(blank[..., None], 0, pixels).astype(np.float32)
        for step in steps:
            proba = smooth(proba, cube, blank, step)
        proba = proba[tile.within(wide)]
    return proba if shares is None else shares.combined(proba)


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


# --- label propagation ---------------------------------------------------------------------------


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
    scene: Scene,
    step: Propagation,
    progress: Progress = lambda stage, share: None,  # noqa: ARG005
    check: Callable[[], None] = lambda: None,
    run: RunOnScene | None = None,
) -> Shares:
    """Propagate the model's labels over its scene, whose graphs are built if it has none.

    What comes of it is kept in the propagation cache, and found there by the next map, unless the
    model holds its scene's statistics.

    Parameters
    ----------
    model : SceneModel
        Its training pixels are where propagation starts.
    scene : Scene
        With the model's bands.
    step : Propagation
        Of the model's recipe.
    progress : callable, optional
        Called with the stage and the share of all the work that is done.
    check : callable, optional
        Called meanwhile, and may raise to end the work.
    run : RunOnScene, optional
        Who reads the scene, window by window; threads here unless it is given.
    """
    settings, shape, classes = step.settings, scene.shape[:2], len(model.classes)
    nodes = -(-shape[0] * shape[1] // settings.superpixel)
    needed, budget = nodes * classes * 24, memory_budget()  # six copies
    if needed > budget:
        raise SceneError(
            f"label propagation of {classes:,} classes over {shape[0]} x {shape[1]} pixels takes "
            f"about {needed:,} bytes, the budget is {budget:,}; train with --goal other-scenes"
        )
    pixels, targets = model.training_pixels(shape), np.asarray(step.targets, np.intp)
    statistics, key = model.statistics, None
    if statistics is None or statistics.inside != scene.packed_mask:
        key = cache_key(model, scene, step, run)
        found = read_cache(key, shape, classes)
        if found is not None:
            return Shares(*found, step.weights)
        statistics = graph_statistics(
            scene,
            settings,
            progress=lambda stage, share: progress(stage, (1 - PROPAGATION) * share),
            check=check,
            run=run,
        )
    propagator = Propagator(settings, statistics.graphs, statistics.nodes, check)
    logs = propagator.log_shares(
        pixels, targets, classes, lambda left: progress("propagation", 1 - PROPAGATION * left)
    )
    if key is not None:
        write_cache(key, statistics.nodes, logs)
    return Shares(statistics.nodes, logs, step.weights)


def cache_propagation(
    model: SceneModel, scene: xr.DataArray | Scene, progress: bool = False
) -> None:
    """Write to the propagation cache what the labels of a model propagate to in its own scene.

    Maps of the scene then begin at once. A model that does not propagate labels caches nothing.
    """
    mapper = Mapper(model, scene, progress=progress)
    shares = mapper.propagate()
    if shares is not None and mapper.propagation is not None and model.statistics is not None:
        write_cache(cache_key(model, mapper.scene, mapper.propagation), shares.nodes, shares.logs)


# --- maps of a draft ---------------------------------------------------------------------------


class DraftMapper:
    """Maps tiles of a draft: a network slid over components in memory, at all pixels or every few.

    Several threads may share one.

    Parameters
    ----------
    model : SceneModel
        Of `polyad.scene.learn.training.fit_draft`.
    statistics : SceneStatistics
        That it was fitted by.
    shares : Shares, optional
        Of label propagation, where the model's recipe has it.
    """

    def __init__(
        self, model: SceneModel, statistics: SceneStatistics, shares: Shares | None = None
    ) -> None:
        from polyad.scene.learn.training import GUIDE, kept_components  # a map needs none

        self._model, self._nodes, self._shares = model, statistics.nodes, shares
        self._components = kept_components(statistics)
        choice = model.training.choice
        self._values = self._components.view(() if choice is None else choice.views)
        self._guided = None if model.recipe is None else model.recipe.guided
        plain = self._components.columns["plain"]
        self._guides = min(GUIDE, plain.stop - plain.start)
        self._spare: dict[int, list[Scorer]] = {}  # by stride; they keep buffers

    def probabilities(self, tile: Tile, stride: int = 1) -> Array:
        """Return probabilities of every ``stride``-th pixel of a tile, down and across.

        They are those that the whole tile has there, but for a guided filter: it then works on
        these pixels alone, with a radius that many times shorter.

        Returns
        -------
        ndarray of float32, ``(ceil(h / stride), ceil(w / stride), classes)``
            NaN where there is no data.
        """
        if self._guided is not None:
            proba = self._smoothed(self._guided, tile, stride)
        else:
            proba = torch.softmax(self._logits(tile, stride), dim=2).numpy()
        every = Tile(*(slice(side.start, side.stop, stride) for side in tile))
        proba[self._nodes[every] < 0] = np.nan
        return proba if self._shares is None else self._shares.at(every).combined(proba)

    def _smoothed(self, step: GuidedFilter, tile: Tile, stride: int) -> Array:
        radius = max(round(step.radius / stride), 1)
        wide = tile.grown(2 * radius * stride, (self._nodes.shape[0], self._nodes.shape[1]))
        every = Tile(*(slice(side.start, side.stop, stride) for side in wide))
        blank = torch.from_numpy(self._nodes[every] < 0)
        proba = torch.softmax(self._logits(wide, stride), dim=2)
        proba[blank] = 1 / proba.shape[2]
        guide = torch.from_numpy(self._components.guide(wide, stride, self._guides))
        smooth = filtered(proba, guide, radius, step.ridge).clamp(1e-6, 1.0)
        smooth /= smooth.sum(dim=2, keepdim=True)
        rows, cols = (
            slice((own.start - out.start) // stride, -(-(own.stop - out.start) // stride))
            for own, out in zip(tile, wide, strict=True)
        )
        return smooth[rows, cols].numpy().copy()

    def _logits(self, tile: Tile, stride: int) -> Tensor:
        """Return the network's logits of a tile, ``(h', w', classes)``."""
        shape, halo = self._values.shape, self._model.window // 2
        height, width = (-(-n // stride) for n in tile.shape)
        logits = torch.empty(height, width, len(self._model.classes))
        side = max(piece_side(self._model) // stride, 1) * stride
        spare = self._spare.setdefault(stride, [])
        for piece in plan_tiles(tile.shape, (side, side)):
            try:
                scorer = spare.pop()
            except IndexError:
                scorer = separable_scorer(self._model.estimator, stride=stride)
            rows, cols = (
                halo_index(slice(s.start + t.start, s.stop + t.start), halo, n)
                for s, t, n in zip(piece, tile, shape[:2], strict=True)
            )
            block = Block(self._values, rows, cols)
            scores = scorer(block.cut(slice(None), slice(None)), sure=True)
            at = tuple(slice(s.start // stride, -(-s.stop // stride)) for s in piece)
            logits[at] = torch.from_numpy(np.asarray(scores)).permute(1, 2, 0)
            spare.append(scorer)
        return logits


# --- the propagation cache -----------------------------------------------------------------------

FORMAT = 3
CACHE_BYTES = 2**30  # of all files in the folder; the oldest give way
STRIPS = 4  # of a scene are read by one task: some hundredths of a second
LOWEST = -50.0  # of a log share; `log_shares` has a floor far above


def scene_digest(scene: Scene, run: RunOnScene | None = None) -> str:
    """Return a digest of every pixel of a scene as it is stored, its mask and its nodata value.

    ``run`` reads it strip by strip, threads here unless it is given.
    """
    height, width, bands = scene.shape
    about = (scene.shape, scene.dtype.str, str(scene.nodata))
    rows = max(TILE_BYTES // max(width * bands * scene.dtype.itemsize, 1), 1)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(scene.packed_mask or b"")
    run = run_here(scene) if run is None else run
    starts = range(0, height, rows)
    some = [starts[k : k + STRIPS] for k in range(0, len(starts), STRIPS)]
    for strips in run(_strip_digests, rows, some):
        digest.update(strips)
    return digest.hexdigest()


def _strip_digests(scene: Scene, rows: int, starts: range) -> bytes:
    """Return the digests of strips of so many rows of a scene, one after the other."""
    digests = []
    for start in starts:
        strip = scene.read_stored(slice(start, min(start + rows, scene.shape[0])), slice(None))
        digests.append(hashlib.sha256(np.ascontiguousarray(strip).data).digest())
    return b"".join(digests)


def cache_key(
    model: SceneModel, scene: Scene, step: Propagation, run: RunOnScene | None = None
) -> str:
    """Return the name of what a model's labels propagate to; the whole scene is read for it."""
    about = {
        "format": FORMAT,
        "scene": scene_digest(scene, run),
        "pixels": model.training.pixels.tolist(),
        "targets": list(step.targets),
        "classes": len(model.classes),
        "settings": step.settings.to_data(),
    }
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def cache_folder() -> Path:
    """Return the folder of the propagation cache: of this user, and never beside a model."""
    import pooch  # here: most maps need no cache

    return Path(os.environ.get("POLYAD_CACHE") or pooch.os_cache("polyad")) / "propagation"


def write_cache(key: str, nodes: Array, logs: Array) -> None:
    """Write nodes ``(height, width)`` and log shares ``(nodes, classes)``; old files make room.

    A cache is a convenience: where it cannot be written, or would be too large, it is left out.
    """
    arrays = {"nodes": np.ascontiguousarray(nodes, np.int32)}
    arrays["logs"] = np.ascontiguousarray(logs, np.float32)
    if sum(a.nbytes for a in arrays.values()) > CACHE_BYTES:
        return
    with suppress(OSError, OutputError):
        path = cache_folder() / f"{key}.safetensors"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(to_bytes(arrays))
        files = sorted(path.parent.glob("*.safetensors"), key=lambda file: file.stat().st_mtime_ns)
        while sum(file.stat().st_size for file in files) > CACHE_BYTES:
            files.pop(0).unlink()


def read_cache(key: str, shape: tuple[int, int], classes: int) -> tuple[Array, Array] | None:
    """Return the nodes and log shares in the cache, None if there are none or they are damaged."""
    path = cache_folder() / f"{key}.safetensors"
    try:
        arrays = load_file(path)
        nodes, logs = arrays["nodes"], arrays["logs"]
        os.utime(path)  # used last: it gives way last
    except (OSError, SafetensorError, KeyError):
        return None
    if nodes.shape != shape or logs.shape[1:] != (classes,) or not len(logs):
        return None
    inside = nodes.min() >= -1 and nodes.max() < len(logs)
    sound = inside and np.isfinite(logs).all() and logs.max() <= 0.01 and logs.min() >= LOWEST
    return (nodes, logs) if sound else None
