"""What the best preset learns of a scene without labels: its noise, and graphs of its pixels.

A small scene is held whole, and every pixel is a node of its graphs. Of a larger one the noise is
learned from strips, and superpixels, cut region by region, are the nodes. Time is then linear in
the pixels, and memory some hundred bytes for each beside the regions at hand.

Work is split into independent tasks, functions of the scene, of something that all tasks share and
of their own part: whether threads here or workers of a cluster do them, the answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import islice, pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from tqdm import tqdm

from polyad.errors import BudgetExceeded
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import PropagationSettings
from polyad.scene.learn.steps import (
    Check,
    Graph,
    Propagator,
    edge_filter,
    find_segments,
    graphs_of_whitened,
    node_graph,
    pixel_nodes,
)
from polyad.scene.learn.whitening import (
    NoiseWhitening,
    SegmentWhitening,
    Strip,
    StripSums,
    StripUnits,
)
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile, plan_tiles, tile_shape
from polyad.threads import limit_threads, run_tasks, stream_tasks, threads_for

SceneTask = Callable[[Any, Any, Any], Any]
"""Takes the scene, what is shared, and a task's own part. Of a module, so that it can be sent."""


RunOnScene = Callable[[SceneTask, Any, Iterable[Any]], Generator[Any, None, None]]
"""Yields ``function(scene, shared, task)`` of each task, in their order, for whoever does them.

Tasks are taken a few at a time. Whoever stops early closes the generator."""


def run_here(scene: Scene) -> RunOnScene:
    """Return what does the tasks of ``scene`` by as many threads as torch has here."""

    def run(function: SceneTask, shared: Any, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        return stream_tasks(partial(function, scene, shared), tasks)

    return run


# -- superpixels -----------------------------------------------------------------------------------
# Every group that is too small joins the neighbor that differs least from it, all of them at once
# (Borůvka's rounds, stopped early). Each round at least doubles the smallest group, so that a few
# rounds do, each in time linear in the pixels.


Array = npt.NDArray[Any]
_COO: Any = sparse.coo_array
SPREAD = np.uint32(2654435761)  # a step, odd and far: it scatters the numbers of equal edges


def find_superpixels(features: Array, least: int = 4, valid: Array | None = None) -> Array:
    """Group the pixels of a scene or a tile of it.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
    least : int
        Pixels of the smallest group; less where data end.
    valid : ndarray of bool, ``(height, width)``, optional
        Pixels without data are in no group.

    Returns
    -------
    ndarray of int32, ``(height, width)``
        Group of each pixel, from 0 in the order of their first pixels; -1 without data.

    Examples
    --------
    >>> features = np.repeat([[[0.0]] * 3 + [[5.0]] * 3], 2, axis=0)
    >>> find_superpixels(features, least=6)
    array([[0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1]], dtype=int32)
    """
    valid = np.ones(features.shape[:2], bool) if valid is None else valid
    one, other = _edges(features, valid)
    group: Array = np.arange(valid.size)
    size: Array = np.ones(valid.size, np.intp)
    while len(one):
        here, there = group[one], group[other]
        apart = here != there
        one, other, here, there = one[apart], other[apart], here[apart], there[apart]
        cheapest = _first(here, there, len(size))
        joined = cheapest[(size < least) & (cheapest < len(one))]
        if not len(joined):
            break
        pairs = _COO(
            (np.ones(len(joined), bool), (here[joined], there[joined])), shape=(len(size),) * 2
        )
        count, renamed = connected_components(pairs, directed=False)
        group = renamed[group]
        size = np.bincount(group, minlength=count)
    return _numbered(group, valid)


def group_means(values: Array, groups: Array, count: int) -> Array:
    """Return the mean of ``values`` ``(n, k)`` over each of ``count`` groups, as float32.

    Examples
    --------
    >>> group_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), 2).ravel().tolist()
    [1.0, 5.0]
    """
    size = np.maximum(np.bincount(groups, minlength=count), 1)
    order = np.argsort(groups, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))])
    gather: Any = sparse.csr_array(
        (np.ones(len(groups), np.float32), order, ends), shape=(count, len(groups))
    )
    return np.asarray(gather @ values.astype(np.float32, copy=False) / size[:, None], np.float32)


def _edges(features: Array, valid: Array) -> tuple[Array, Array]:
    """Return both pixels of every edge between neighbors, the edge of least difference first."""
    index = np.arange(valid.size).reshape(valid.shape)
    ends, lengths = [], []
    for far, near in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        step = features[far] - features[near]
        kept = valid[far] & valid[near]
        ends.append(np.stack([index[near][kept], index[far][kept]]))
        lengths.append(np.einsum("...k,...k", step, step)[kept])
    one, other = np.concatenate(ends, axis=1)
    # Of equal edges, as in a field without noise, the first must not always be the one to the left
    scattered = np.argsort(np.arange(len(one), dtype=np.uint32) * SPREAD)
    order = scattered[np.argsort(np.concatenate(lengths)[scattered], kind="stable")]
    return one[order], other[order]


def _first(here: Array, there: Array, groups: int) -> Array:
    """Return the first edge of each group, or the number of edges for a group that has none."""
    edges = np.arange(len(here))[::-1]
    first = np.full((2, groups), len(here))
    first[0][here[::-1]] = edges  # the last write stays, which is that of the first edge
    first[1][there[::-1]] = edges
    return first.min(axis=0)


def _numbered(group: Array, valid: Array) -> Array:
    nodes = np.full(valid.shape, -1, np.int32)
    inside = group[valid.ravel()]
    first, inverse = np.unique(inside, return_index=True, return_inverse=True)[1:]
    nodes[valid] = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    return nodes


# -- components ------------------------------------------------------------------------------------
# A network that learned on components maps them as any other scene of so many bands, at a fraction
# of the reading and projecting: forty numbers for each pixel instead of hundreds of bands.


PLAIN = 20  # principal components, the clearest; the others hold a few hundredths of the variance
PIXEL_COMPONENTS_BYTES = 2 * (20 + PLAIN)
PROJECTED = 4096  # pixels that a thread projects at a time
LARGEST = 60_000.0  # half precision ends soon after


@dataclass(frozen=True)
class Components:
    """Whitened and plain components of a scene, as views on the same pixels.

    Attributes
    ----------
    values : ndarray of float16, ``(height, width, k)``
        0 where there is no data, which stands for the mean of the scene.
    columns : dict
        Which of the k belong to each view, ``"whitened"`` or ``"plain"``.
    plain : NoiseWhitening
        That made the plain ones.
    """

    values: Array
    columns: dict[str, slice]
    plain: NoiseWhitening

    @classmethod
    def blank(cls, shape: tuple[int, int], whitening: NoiseWhitening) -> Components:
        """Return components of a scene that are still to be put in."""
        plain, first = whitening.principal(), whitening.projection_.shape[1]
        kept = min(PLAIN, plain.projection_.shape[1])
        columns = {"whitened": slice(0, first), "plain": slice(first, first + kept)}
        return cls(np.zeros((*shape, first + kept), np.float16), columns, plain)

    def put(self, tile: Tile, cube: Array, whitened: Array, valid: Array) -> None:
        """Put in a tile, from its bands ``(h, w, bands)`` and its whitened components."""
        out, columns = self.values[tile], self.columns["plain"]
        out[..., self.columns["whitened"]] = np.clip(whitened, -LARGEST, LARGEST)
        mean, kept = self.plain.mean_.astype(np.float32), columns.stop - columns.start
        projection = self.plain.projection_[:, :kept] / self.plain.scale_[:, None]
        projection = projection.astype(np.float32)
        spectra, known = cube.reshape(-1, cube.shape[-1]), valid.reshape(-1, 1)

        def project(start: int) -> Array:
            some = slice(start, start + PROJECTED)
            centered = np.where(known[some], spectra[some] - mean, np.float32(0))
            return np.clip(centered @ projection, -LARGEST, LARGEST).astype(np.float16)

        parts = run_tasks(project, range(0, len(spectra), PROJECTED))
        out[..., columns] = np.concatenate(parts).reshape(*tile.shape, kept)

    def view(self, names: tuple[str, ...]) -> Array:
        """Return the components of some views, side by side, ``(height, width, k)``; not a copy."""
        spans = [self.columns[name] for name in self.columns if name in names]
        return self.values[..., spans[0].start : spans[-1].stop]

    def guide(self, tile: Tile, stride: int, count: int) -> Array:
        """Return the ``count`` clearest plain components of a tile, of unit variance."""
        first, ratio = self.columns["plain"].start, self.plain.ratio_[:count]
        every = self.values[tile.rows, tile.cols, first : first + count][::stride, ::stride]
        return every.astype(np.float32) / np.sqrt(ratio).astype(np.float32)


# -- statistics ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SceneStatistics:
    """What the best preset learns without labels; it serves every fit and map of the scene.

    Attributes
    ----------
    whitening : NoiseWhitening
        Of the scene's noise.
    graphs : list of Graph
        Of the scene's pixels or superpixels; none unless the goal is this-scene.
    inside : bytes or None
        The mask of the scene, packed: the graphs of another one do not serve.
    pixels : ndarray of int, ``(m, 2)``, or None
        Some pixels with data, all over the scene.
    nodes : ndarray of int32, ``(height, width)``
        Which node of the graphs each pixel belongs to, -1 where there is no data.
    propagation : PropagationSettings
        The settings that the graphs were built by.
    components : Components or None
        Of every pixel, for drafts of a map; kept only where they are asked for.
    """

    whitening: NoiseWhitening
    graphs: list[Graph]
    inside: bytes | None = None
    pixels: Array | None = None
    nodes: Array = field(default_factory=lambda: np.empty((0, 0), np.int32))
    propagation: PropagationSettings = field(default_factory=PropagationSettings)
    components: Components | None = field(default=None, repr=False)

    def propagator(self, check: Check = lambda: None) -> Propagator:
        """Return what propagates labels over the graphs."""
        return Propagator(self.propagation, self.graphs, self.nodes, check)

    @cached_property
    def plain(self) -> NoiseWhitening:
        """The principal components of the scene's bands."""
        return self.whitening.principal()


# -- superpixels of a whole scene ------------------------------------------------------------------
# The edge filter stops within a few pixels wherever there is noise, so that a tile with a narrow
# halo gives what the whole scene would. Superpixels end at the tiles' seams. A few tiles next to
# each other are read together, as a region, and no more is held of a scene than that and its
# superpixels.


TILE, HALO = 256, 16  # pixels: a tile's side, and how far the edge filter sees beyond it
REGION_TILES = 5  # read together, side by side: the wider, the faster a file is read
LEAST_REGIONS = 8  # of a scene of so many tiles, for the threads and workers that share them
SEGMENT_TILE, SEGMENT_TILES = 128, 12  # a side, and how many: segments are cut in these
CHUNK = 1024  # pixels that are projected at a time


@dataclass(frozen=True)
class Superpixels:
    """The superpixels of a scene.

    Attributes
    ----------
    nodes : ndarray of int32, ``(height, width)``
        Superpixel of each pixel, -1 where there is no data.
    features : list of ndarray of float32, each ``(n, k)``
        Their means of the components of each graph.
    places : ndarray of float32, ``(n, 2)``
        Their mean row and column.
    sizes : ndarray of int, ``(n,)``
        Their pixels.
    """

    nodes: Array
    features: list[Array]
    places: Array
    sizes: Array


def sharper_whitening(
    scene: Scene, whitening: NoiseWhitening, settings: PropagationSettings, run: RunOnScene
) -> SegmentWhitening:
    """Learn the whitening by segments from tiles all over a scene, which ``run`` reads."""
    tiles = plan_tiles(scene.shape[:2], (SEGMENT_TILE, SEGMENT_TILE))
    if scene.inside is not None:
        tiles = [tile for tile in tiles if scene.inside[tile].any()]
    starts = np.unique(np.linspace(0, len(tiles) - 1, SEGMENT_TILES).astype(int)).tolist()
    places = [tiles[a:b] for a, b in pairwise([*starts, len(tiles)])]
    samples = [found for found in run(_sample_tile, (whitening, settings), places) if found]
    deviation = float(np.std(np.concatenate([smooth.ravel() for _, _, smooth in samples])))
    cubes, segments, first = [], [], 0
    for z, valid, smooth in samples:
        number = find_segments(smooth, settings.scale, settings.least, deviation) + first
        first = int(number.max()) + 1
        cubes.append(z[valid])
        segments.append(number[valid])
    most = max(kept for kept, _ in settings.graphs)
    spectra, segment = np.concatenate(cubes)[:, None], np.concatenate(segments)[:, None]
    return SegmentWhitening(most).fit_segments(spectra, segment)


def _sample_tile(
    scene: Scene, shared: tuple[NoiseWhitening, PropagationSettings], tiles: list[Tile]
) -> tuple[Array, Array, Array] | None:
    """Return a tile with data: whitened, which pixels have data, and smoothed.

    It is the first that has data in half of its pixels, or else the one with the most.
    """
    whitening, settings = shared
    most, fullest = 0, None
    for tile in tiles:
        z, valid = whitened_window(scene, whitening, tile)
        if (count := int(np.count_nonzero(valid))) > most:
            most, fullest = count, (z, valid)
        if 2 * most >= valid.size:
            break
    if fullest is None:
        return None
    clearest = fullest[0][..., : max(settings.components // 2, 1)]
    return *fullest, edge_filter(clearest, settings.coarse)


def whitened_window(
    scene: Scene,
    whitening: NoiseWhitening,
    window: Tile,
    seen: Callable[[Tile, Array, Array, Array], None] = lambda *_: None,
) -> tuple[Array, Array]:
    """Return whitened components ``(h, w, k)`` of a window, and which of its pixels have data.

    Components are 0 without data. The window is read in parts: ``seen`` is called with where each
    lies in the scene, its bands, its components and which of its pixels have data.
    """
    z = np.empty((*window.shape, whitening.projection_.shape[1]), np.float32)
    valid = np.empty(window.shape, bool)
    part_shape = tile_shape(window.shape, scene.shape[2] * scene.dtype.itemsize)
    for at in plan_tiles(window.shape, part_shape):
        part = at.moved(window.rows.start, window.cols.start)
        cube = scene.read(*part)
        valid[at] = inside = valid_pixels(cube, scene.nodata)
        spectra, known = cube.reshape(-1, cube.shape[-1]), inside.reshape(-1, 1)
        chunks = [slice(k, k + CHUNK) for k in range(0, len(spectra), CHUNK)]
        z[at] = np.concatenate(
            [whitening.transform(np.where(known[c], spectra[c], 0)) * known[c] for c in chunks]
        ).reshape(*at.shape, -1)
        seen(part, cube, z[at], inside)
    return z, valid


class Cutting(NamedTuple):
    """By what a scene is cut into superpixels."""

    whitening: NoiseWhitening
    sharper: SegmentWhitening
    settings: PropagationSettings
    components: Components | None = None  # takes up those of every pixel; only by threads here


def plan_regions(shape: tuple[int, int]) -> list[Tile]:
    """Cut a scene into regions: whole tiles, side by side.

    Examples
    --------
    >>> [region.shape for region in plan_regions((300, 700))]
    [(256, 256), (256, 256), (256, 188), (44, 256), (44, 256), (44, 188)]
    >>> {region.shape for region in plan_regions((2560, 1280))}
    {(256, 1280)}
    """
    down, across = (-(-length // TILE) for length in shape)
    most = min(max(down * across // LEAST_REGIONS, 1), REGION_TILES)
    wide = -(-across // -(-across // most))  # of equal width, as far as whole tiles can be
    return plan_tiles(shape, (TILE, TILE * wide))


def scene_superpixels(
    shape: tuple[int, int],
    cutting: Cutting,
    run: RunOnScene,
    done: Callable[[float], None] = lambda share: None,  # noqa: ARG005
) -> Superpixels:
    """Cut a scene of ``shape`` into superpixels.

    ``run`` does it region by region; ``done`` is called after each with the share of the scene that
    is done, and may raise.
    """
    regions, nodes, count = plan_regions(shape), np.full(shape, -1, np.int32), 0
    parts: list[Superpixels] = []
    with closing(run(_region_superpixels, cutting, regions)) as results:
        for number, tiles in enumerate(results, start=1):
            for tile, part in tiles:
                nodes[tile] = np.where(part.nodes < 0, np.int32(-1), part.nodes + np.int32(count))
                count += len(part.sizes)
                parts.append(replace(part, nodes=nodes[tile]))
            done(number / len(regions))
    features = [np.concatenate(each) for each in zip(*(p.features for p in parts), strict=True)]
    places = np.concatenate([p.places for p in parts])
    return Superpixels(nodes, features, places, np.concatenate([p.sizes for p in parts]))


def _region_superpixels(
    scene: Scene, cutting: Cutting, region: Tile
) -> list[tuple[Tile, Superpixels]]:
    """Cut the tiles of a region that have data into superpixels, numbered from 0 in each."""
    shape = scene.shape[:2]
    wide = region.grown(HALO, shape)

    def keep(part: Tile, cube: Array, z: Array, inside: Array) -> None:
        common = part.common(region)
        if cutting.components is not None and min(common.shape) > 0:
            at = common.within(part)
            cutting.components.put(common, cube[at], z[at], inside[at])

    z, valid = whitened_window(scene, cutting.whitening, wide, keep)
    parts = []
    for within in plan_tiles(region.shape, (TILE, TILE)):
        tile = within.moved(region.rows.start, region.cols.start)
        inside, halo = valid[tile.within(wide)], tile.grown(HALO, shape)
        if inside.any():
            corner = np.array([tile.rows.start, tile.cols.start])
            sharp = cutting.sharper.transform(z[halo.within(wide)])
            maps = [
                edge_filter(sharp[..., :kept], contrast)[tile.within(halo)]
                for kept, contrast in cutting.settings.graphs
            ]
            nodes = find_superpixels(maps[0], cutting.settings.superpixel, inside)
            number, count = nodes[inside], int(nodes.max()) + 1
            features = [group_means(each[inside], number, count) for each in maps]
            places = group_means(np.argwhere(inside) + corner, number, count)
            sizes = np.bincount(number, minlength=count)
            parts.append((tile, Superpixels(nodes, features, places, sizes)))
    return parts


# -- learning --------------------------------------------------------------------------------------


Progress = Callable[[str, float], None]
"""Takes the name of the stage and the share of all the work that is done."""

SOME_PIXELS = 2000  # of the map, to know how far it lies from the labels
SAMPLE_ROWS, SAMPLE_PIXELS = 8, 200_000  # of a scene too large to learn its noise from whole
STRIP_BYTES = 8 * 2**20  # of a strip's pixels that are computed with at a time
PIXEL_BYTES = 120  # of a large scene: nodes, their features and edges
# Where each stage begins, and its share of the time
STAGES = {"noise": (0.0, 0.15), "superpixels": (0.15, 0.7), "graphs": (0.85, 0.15)}


def scene_statistics(
    scene: xr.DataArray | Scene,
    goal: str = "this-scene",
    max_bytes: int | None = None,
    **options: Any,
) -> SceneStatistics:
    """Learn the scene's noise and, for ``goal="this-scene"``, build the graphs of its pixels.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    goal : {"this-scene", "other-scenes"}
    max_bytes : int, optional
        Memory that may be used, by default a quarter of the machine's.
    **options
        Of `graph_statistics`; without graphs there are none.
    """
    scene, budget = prepared(scene), memory_budget(max_bytes, share=0.25)
    if goal == "this-scene":
        return graph_statistics(scene, budget=budget, **options)
    cube, valid = _readable(scene, goal, budget)
    with limit_threads(threads_for(2.0 * valid.size * cube.shape[-1] ** 2)):
        return SceneStatistics(NoiseWhitening().fit(cube, valid), [])


def graph_statistics(
    scene: Scene,
    settings: PropagationSettings | None = None,
    *,
    budget: int | None = None,
    progress: Progress = lambda stage, share: None,  # noqa: ARG005
    check: Check = lambda: None,
    keep_components: bool = False,
    run: RunOnScene | None = None,
) -> SceneStatistics:
    """Return the statistics of a scene with its graphs; the scene is taken as it is.

    Parameters
    ----------
    scene : Scene
    settings : PropagationSettings, optional
        By default those that suit the scene's size, see `PropagationSettings.for_pixels`.
    budget : int, optional
        Bytes of memory that may be used.
    progress : callable, optional
        Called after each tile with the stage and the share of all the work that is done.
    check : callable, optional
        Called after each tile, and may raise to end the work.
    keep_components : bool, default=False
        Keep components of every pixel, see `Components`.
    run : RunOnScene, optional
        Does what can be done window by window: threads here, unless it is given.
    """
    height, width, _ = scene.shape
    settings = PropagationSettings.for_pixels(height * width) if settings is None else settings
    budget = memory_budget() if budget is None else budget

    def done(stage: str, share: float) -> None:
        first, length = STAGES[stage]
        progress(stage, min(first + length * share, 1.0))
        check()

    if settings.superpixel == 1:
        statistics = _of_pixels(scene, settings, budget, done, keep_components)
    else:
        needed = height * width * (PIXEL_BYTES + keep_components * PIXEL_COMPONENTS_BYTES)
        if needed > budget:
            holds = "with goal this-scene holds graphs of the whole scene"
            raise _over_budget(holds, needed, budget, "--goal other-scenes or ")
        tasks = run_here(scene) if run is None else run
        statistics = _of_superpixels(scene, settings, done, tasks, keep_components)
    if run is None and scene.despiking is not None:
        scene.despiking.whole = True
    return statistics


def _over_budget(holds: str, needed: int, budget: int, remedy: str) -> BudgetExceeded:
    return BudgetExceeded(
        f"preset best {holds} in memory, about {needed:,} bytes where {budget:,} may be used; crop "
        "the scene, raise --max-bytes (in Python, max_bytes), or train with "
        f"{remedy}--preset fast"
    )


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


def _of_pixels(
    scene: Scene, settings: PropagationSettings, budget: int, done: Progress, keep: bool
) -> SceneStatistics:
    """Return the statistics of a scene that is held whole: every pixel is a node."""
    cube, valid = _readable(scene, "this-scene", budget)
    with limit_threads(threads_for(2.0 * valid.size * cube.shape[-1] ** 2)):
        whitening = NoiseWhitening(settings.components).fit(cube, valid)
        done("noise", 1.0)
        z = whitening.transform(cube) * valid[..., None]
    graphs = graphs_of_whitened(settings, z, valid)
    done("graphs", 1.0)
    components = Components.blank(valid.shape, whitening) if keep else None
    if components is not None:
        whole = Tile(slice(0, valid.shape[0]), slice(0, valid.shape[1]))
        components.put(whole, cube, z, valid)
    some, mask, nodes = _some_pixels(valid), scene.packed_mask, pixel_nodes(valid)
    return SceneStatistics(whitening, graphs, mask, some, nodes, settings, components)


def _of_superpixels(
    scene: Scene, settings: PropagationSettings, done: Progress, run: RunOnScene, keep: bool
) -> SceneStatistics:
    """Return the statistics of a scene that is read tile by tile: superpixels are the nodes."""
    shape = scene.shape[:2]
    whitening = NoiseWhitening(settings.components).fit_sums(_noise_sums(scene, done, run))
    components = Components.blank(shape, whitening) if keep else None
    sharper = sharper_whitening(scene, whitening, settings, run)
    cutting = Cutting(whitening, sharper, settings, components)
    found = scene_superpixels(shape, cutting, run, partial(done, "superpixels"))

    def build(features: Array) -> Graph:
        return node_graph(
            features, found.places, settings.neighbors, settings.nearness, found.sizes
        )

    graphs: list[Graph] = []
    with closing(stream_tasks(build, found.features)) as built:
        for graph in built:
            graphs.append(graph)
            done("graphs", len(graphs) / len(settings.graphs))
    some, mask = _some_pixels(found.nodes >= 0), scene.packed_mask
    return SceneStatistics(whitening, graphs, mask, some, found.nodes, settings, components)


def _noise_sums(scene: Scene, done: Progress, run: RunOnScene) -> Iterator[StripSums]:
    """Yield the sums over strips all over a scene, until they hold enough pixels with data."""
    height, width, _ = scene.crop_to_mask().shape
    left = iter(spread(-(-height // SAMPLE_ROWS)))
    for number in left:
        strip = _read_strip(scene, number)
        if strip.valid[: strip.own].any():
            break
    else:
        return
    units, found, taken, some = StripUnits.of(strip), 0, 0, [number]
    while some:
        with closing(run(_strip_sums, units, some)) as every:
            for sums in every:
                if sums is not None:
                    yield sums
                    found += sums.count
                done("noise", min(found / SAMPLE_PIXELS, 1.0))
        taken += len(some)
        some = list(islice(left, _strips_missing(found, taken, SAMPLE_ROWS * width)))


def _strips_missing(found: int, taken: int, pixels: int) -> int:
    """Return how many more strips of ``pixels`` are read at once, if ``taken`` had ``found``.

    As many as will do if they have as much data; where that was little, a few at first.

    Examples
    --------
    >>> [_strips_missing(*counts, 10_000) for counts in ((10_000, 1), (10, 1), (200_000, 20))]
    [19, 8, 0]
    """
    missing = max(SAMPLE_PIXELS - found, 0)
    wanted = -(-missing * taken // found)
    return wanted if 2 * found >= taken * pixels else min(wanted, max(8, 2 * taken))


def _strip_sums(scene: Scene, units: StripUnits, number: int) -> StripSums | None:
    """Return the sums over one strip, None if it has no data; of a wide one, few rows at a time."""
    strip, sums = _read_strip(scene, number), []
    rows = max(STRIP_BYTES // (4 * strip.cube[0].size), 1)
    for first in range(0, strip.own, rows):
        own, reach = min(rows, strip.own - first), slice(first, first + rows + 1)
        if strip.valid[first : first + own].any():
            part = Strip(strip.cube[reach], strip.valid[reach], own)
            sums.append(StripSums.of(part, units))
    return reduce(add, sums) if sums else None


def _read_strip(scene: Scene, number: int) -> Strip:
    """Read a strip of a scene, with one more row."""
    part = scene.crop_to_mask()
    first = number * SAMPLE_ROWS
    own = min(SAMPLE_ROWS, part.shape[0] - first)
    return Strip(*_read_rows(part, slice(first, first + own + 1)), own)


def _read_rows(scene: Scene, rows: slice) -> tuple[Array, Array]:
    """Return some rows, 0 without data, and which of their pixels have data."""
    cube = scene.read(rows, slice(None))
    valid = valid_pixels(cube, scene.nodata)
    return (cube if valid.all() else np.where(valid[..., None], cube, 0)), valid


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


def _readable(scene: Scene, goal: str, budget: int) -> tuple[Array, Array]:
    """Return the pixels that the noise is learned from, and which of them have data."""
    # Strips of a large scene would miss a small mask
    part = scene.crop_to_mask() if goal == "other-scenes" else scene
    height, width, bands = part.shape
    needed = height * width * (3 * bands * 4 + 2000)  # whitening's copies; a graph's edges
    if goal == "this-scene" or height * width <= SAMPLE_PIXELS:
        if needed > budget:
            whole = goal == "this-scene"
            holds = (
                f"{'with goal this-scene' if whole else 'on a scene this small'} holds the whole"
            )
            remedy = "--goal other-scenes or " if whole else ""
            raise _over_budget(f"{holds} scene", needed, budget, remedy)
        return _read_rows(part, slice(None))
    count = max(SAMPLE_PIXELS // (SAMPLE_ROWS * width), 1)
    starts = np.linspace(0, height - SAMPLE_ROWS, count).astype(int)
    strips, masks = [], []
    for start in np.unique(starts):
        strip, good = _read_rows(part, slice(start, start + SAMPLE_ROWS))
        # An empty row keeps pixels of different strips from being neighbors
        strips += [strip, np.zeros((1, width, bands), strip.dtype)]
        masks += [good, np.zeros((1, width), bool)]
    return np.concatenate(strips), np.concatenate(masks)
