"""What the best preset learns of a scene without labels: its noise, and graphs of its pixels.

A small scene is held whole, and every pixel is a node of its graphs. Of a larger one the noise is
learned from strips, and superpixels, cut region by region, are the nodes. Time is then linear in
the pixels, and memory some hundred bytes for each beside the regions at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.errors import BudgetExceeded
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.steps.components import PIXEL_COMPONENTS_BYTES, Components
from polyad.scene.learn.steps.graph import pixel_nodes
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.statistics import SceneStatistics
from polyad.scene.learn.steps.tiled import Cutting, scene_superpixels, sharper_whitening
from polyad.scene.learn.steps.whitening import NoiseWhitening, Strip, StripSums, StripUnits
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.mask import cropped_to_mask, note_read_whole, packed, read_pixels
from polyad.scene.raster.scene import as_scene
from polyad.scene.raster.scene_tasks import RunOnScene, run_here
from polyad.scene.raster.tiles import Tile
from polyad.threads import limit_threads, stream_tasks, threads_for

Array = npt.NDArray[Any]
Progress = Callable[[str, float], None]
"""Takes the name of the stage and the share of all the work that is done."""
Check = Callable[[], None]

SOME_PIXELS = 2000  # of the map, to know how far it lies from the labels
SAMPLE_ROWS, SAMPLE_PIXELS = 8, 200_000  # of a scene too large to learn its noise from whole
STRIP_BYTES = 8 * 2**20  # of a strip's pixels that are computed with at a time
PIXEL_BYTES = 120  # of a large scene: nodes, their features and edges
STAGES = {"noise": 0.15, "superpixels": 0.7, "graphs": 0.15}  # of the time


def scene_statistics(
    scene: xr.DataArray,
    goal: str = "this-scene",
    max_bytes: int | None = None,
    *,
    settings: Propagation | None = None,
    progress: Progress = lambda stage, share: None,  # noqa: ARG005
    check: Check = lambda: None,
    keep_components: bool = False,
) -> SceneStatistics:
    """Learn the scene's noise and, for ``goal="this-scene"``, build the graphs of its pixels.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    goal : {"this-scene", "other-scenes"}
    max_bytes : int, optional
        Memory that may be used, by default a quarter of the machine's.
    settings : Propagation, optional
        By default those that suit the scene's size, see `Propagation.for_pixels`.
    progress : callable, optional
        Called after each tile with the stage and the share of all the work that is done.
    check : callable, optional
        Called after each tile, and may raise to end the work.
    keep_components : bool, default=False
        Keep components of every pixel, see `Components`; only for ``goal="this-scene"``.
    """
    scene, budget = prepared(scene), memory_budget(max_bytes, share=0.25)
    if goal == "this-scene":
        return graph_statistics(
            scene, settings, budget, progress=progress, check=check, keep_components=keep_components
        )
    cube, valid = _readable(scene, goal, budget)
    with limit_threads(threads_for(2.0 * valid.size * cube.shape[-1] ** 2)):
        return SceneStatistics(NoiseWhitening().fit(cube, valid), [])


def graph_statistics(
    scene: xr.DataArray,
    settings: Propagation | None = None,
    budget: int | None = None,
    *,
    progress: Progress = lambda stage, share: None,  # noqa: ARG005
    check: Check = lambda: None,
    keep_components: bool = False,
    run: RunOnScene | None = None,
) -> SceneStatistics:
    """Return the statistics of a scene with its graphs; the scene is taken as it is.

    Arguments are those of `scene_statistics`; ``budget`` is the memory that may be used. ``run``
    does what can be done window by window: threads here, unless it is given.
    """
    scene = as_scene(scene)
    height, width, _ = scene.shape
    settings = Propagation.for_pixels(height * width) if settings is None else settings
    budget = memory_budget() if budget is None else budget
    build = _of_pixels if settings.superpixel == 1 else _of_superpixels
    steps = _Steps(progress, check, run_here(scene) if run is None else run)
    statistics = build(scene, settings, budget, steps, keep_components)
    if run is None:
        note_read_whole(scene)
    return statistics


@contextmanager
def statistics_bar(shown: bool) -> Iterator[Progress]:
    """Yield a function for ``progress`` that moves a bar on, if one is shown."""
    # Below another bar it goes when it is full
    with tqdm(total=100, desc="scene", unit="%", leave=None, disable=not shown) as bar:
        bar.set_postfix_str("reading")  # for which workers may have to start first

        def move(stage: str, share: float) -> None:
            bar.set_postfix_str(stage, refresh=stage != bar.postfix)
            bar.update(int(100 * share) - bar.n)

        yield move


@dataclass(frozen=True)
class _Steps:
    """Whom to tell what is done, whom to ask whether to go on, and who does the tasks."""

    progress: Progress
    check: Check
    run: RunOnScene

    def done(self, stage: str, share: float) -> None:
        """Say which share of a stage is done."""
        names = list(STAGES)
        before = sum(STAGES[name] for name in names[: names.index(stage)])
        self.progress(stage, min(before + STAGES[stage] * share, 1.0))
        self.check()


def _of_pixels(
    scene: xr.DataArray, settings: Propagation, budget: int, steps: _Steps, keep: bool
) -> SceneStatistics:
    """Return the statistics of a scene that is held whole: every pixel is a node."""
    cube, valid = _readable(scene, "this-scene", budget)
    with limit_threads(threads_for(2.0 * valid.size * cube.shape[-1] ** 2)):
        whitening = NoiseWhitening(settings.components).fit(cube, valid)
        steps.done("noise", 1.0)
        z = whitening.transform(cube) * valid[..., None]
    graphs = settings.graphs_of_whitened(z, valid)
    steps.done("graphs", 1.0)
    learned = (graphs, packed(scene), _some_pixels(valid), pixel_nodes(valid), settings)
    kept = None
    if keep:
        kept = Components.blank(valid.shape, whitening)
        kept.put(Tile(slice(0, valid.shape[0]), slice(0, valid.shape[1])), cube, z, valid)
    return SceneStatistics(whitening, *learned, kept)


def _of_superpixels(
    scene: xr.DataArray, settings: Propagation, budget: int, steps: _Steps, keep: bool
) -> SceneStatistics:
    """Return the statistics of a scene that is read tile by tile: superpixels are the nodes."""
    height, width, _ = scene.shape
    bytes_of_pixel = PIXEL_BYTES + (PIXEL_COMPONENTS_BYTES if keep else 0)
    needed = height * width * bytes_of_pixel
    if needed > budget:
        raise BudgetExceeded(
            "preset best with goal this-scene holds graphs of the whole scene in memory, about "
            f"{needed:,} bytes where {budget:,} may be used; crop the scene, raise --max-bytes (in "
            "Python, max_bytes), or train with --goal other-scenes or --preset fast"
        )
    whitening = NoiseWhitening(settings.components).fit_sums(_noise_sums(scene, steps))
    kept = Components.blank((height, width), whitening) if keep else None
    sharper = sharper_whitening(scene, whitening, settings, steps.run)
    cutting = Cutting(whitening, sharper, settings, kept)
    superpixels = scene_superpixels(
        (height, width), cutting, steps.run, lambda share: steps.done("superpixels", share)
    )
    graphs, numbers = [], range(len(settings.graphs))
    with closing(stream_tasks(lambda k: superpixels.graph(k, settings), numbers)) as made:
        for graph in made:
            graphs.append(graph)
            steps.done("graphs", len(graphs) / len(numbers))
    some = _some_pixels(superpixels.nodes >= 0)
    learned = (graphs, packed(scene), some, superpixels.nodes, settings)
    return SceneStatistics(whitening, *learned, kept)


def _noise_sums(scene: xr.DataArray, steps: _Steps) -> Iterator[StripSums]:
    """Yield the sums over strips all over a scene, until they hold enough pixels with data."""
    height, width, _ = cropped_to_mask(scene).shape
    left = iter(spread(-(-height // SAMPLE_ROWS)))
    for number in left:
        strip = _read_strip(scene, number)
        if strip.valid[: strip.own].any():
            break
    else:
        return
    units, found, taken, some = StripUnits.of(strip), 0, 0, [number]
    while some:
        with closing(steps.run(_strip_sums, units, some)) as every:
            for sums in every:
                if sums is not None:
                    yield sums
                    found += sums.count
                steps.done("noise", min(found / SAMPLE_PIXELS, 1.0))
        taken += len(some)
        some = list(islice(left, _strips_missing(found, taken, SAMPLE_ROWS * width)))


def _strips_missing(found: int, taken: int, pixels: int) -> int:
    """Return how many more strips are read at once, if so many were ``taken``.

    As many as will do if they have as much data; where that was little, a few at first.

    Parameters
    ----------
    found : int
        Pixels with data so far.
    taken : int
        Strips so far.
    pixels : int
        Of each strip, with data or without.

    Examples
    --------
    >>> _strips_missing(10_000, 1, 10_000), _strips_missing(10, 1, 10_000)
    (19, 8)
    >>> _strips_missing(200_000, 20, 10_000)
    0
    """
    missing = max(SAMPLE_PIXELS - found, 0)
    wanted = -(-missing * taken // found)
    return wanted if 2 * found >= taken * pixels else min(wanted, max(8, 2 * taken))


def _strip_sums(scene: xr.DataArray, units: StripUnits, number: int) -> StripSums | None:
    """Return the sums over one strip, None if it has no data; of a wide one, few rows at a time."""
    strip, total = _read_strip(scene, number), None
    rows = max(STRIP_BYTES // (4 * strip.cube[0].size), 1)
    for first in range(0, strip.own, rows):
        own = min(rows, strip.own - first)
        reach = slice(first, first + own + 1)
        if strip.valid[first : first + own].any():
            sums = StripSums.of(Strip(strip.cube[reach], strip.valid[reach], own), units)
            total = sums if total is None else total + sums
    return total


def _read_strip(scene: xr.DataArray, number: int) -> Strip:
    """Read a strip of a scene, with one more row."""
    scene = cropped_to_mask(scene)
    first = number * SAMPLE_ROWS
    own = min(SAMPLE_ROWS, scene.shape[0] - first)
    cube = read_pixels(scene, slice(first, first + own + 1), slice(None))
    valid = valid_pixels(cube, scene.rio.nodata)
    return Strip(cube if valid.all() else np.where(valid[..., None], cube, 0), valid, own)


def spread(count: int) -> list[int]:
    """Return the numbers below ``count`` in an order whose every beginning is spread evenly.

    Examples
    --------
    >>> spread(6)
    [0, 4, 2, 1, 5, 3]
    """
    bits = max((count - 1).bit_length(), 1)
    reversed_bits = (int(f"{k:0{bits}b}"[::-1], 2) for k in range(2**bits))
    return [k for k in reversed_bits if k < count]


def _some_pixels(valid: Array) -> Array:
    """Return pixels with data all over the scene, ``(m, 2)``."""
    index = np.flatnonzero(valid)
    index = index[:: max(len(index) // SOME_PIXELS, 1)]
    return np.stack(np.unravel_index(index, valid.shape), axis=1)


def _readable(scene: xr.DataArray, goal: str, budget: int) -> tuple[Array, Array]:
    """Return the pixels that the noise is learned from, and which of them have data."""
    if goal == "other-scenes":  # strips of a large scene would miss a small mask
        scene = cropped_to_mask(scene)
    height, width, bands = scene.shape
    nodata = scene.rio.nodata
    needed = height * width * (3 * bands * 4 + 2000)  # whitening's copies; a graph's edges
    if goal == "this-scene" or height * width <= SAMPLE_PIXELS:
        if needed > budget:
            whole = goal == "this-scene"
            raise BudgetExceeded(
                f"preset best {'with goal this-scene' if whole else 'on a scene this small'} holds "
                f"the whole scene in memory, about {needed:,} bytes where {budget:,} may be used; "
                "crop the scene, raise --max-bytes (in Python, max_bytes), or train with "
                + ("--goal other-scenes or " if whole else "")
                + "--preset fast"
            )
        cube = read_pixels(scene, slice(None), slice(None))
        valid = valid_pixels(cube, nodata)
        return (cube if valid.all() else np.where(valid[..., None], cube, 0)), valid
    count = max(SAMPLE_PIXELS // (SAMPLE_ROWS * width), 1)
    starts = np.linspace(0, height - SAMPLE_ROWS, count).astype(int)
    strips, masks = [], []
    for start in np.unique(starts):
        strip = read_pixels(scene, slice(start, start + SAMPLE_ROWS), slice(None))
        good = valid_pixels(strip, nodata)
        # An empty row keeps pixels of different strips from being neighbors
        strips += [np.where(good[..., None], strip, 0), np.zeros((1, width, bands), strip.dtype)]
        masks += [good, np.zeros((1, width), bool)]
    return np.concatenate(strips), np.concatenate(masks)
