"""Superpixels of a whole scene and their features, tile by tile.

The edge filter stops within a few pixels wherever there is noise, so that a tile with a narrow halo
gives what the whole scene would. Superpixels end at the tiles' seams.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.edges import EdgeFilter
from polyad.scene.learn.steps.graph import Graph, node_graph
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.segments import find_segments
from polyad.scene.learn.steps.superpixels import find_superpixels, group_means
from polyad.scene.learn.steps.whitening import SegmentWhitening
from polyad.scene.raster.scene_tasks import RunOnScene, run_here
from polyad.scene.raster.tiles import Tile, plan_tiles
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
TILE, HALO = 256, 16  # pixels: a tile's side, and how far the edge filter sees beyond it
SEGMENT_TILE, SEGMENT_TILES = 128, 12  # a side, and how many: segments are cut in these


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

    def graph(self, number: int, settings: Propagation) -> Graph:
        """Return one of the graphs of the superpixels."""
        features, nearness = self.features[number], settings.nearness
        return node_graph(features, self.places, settings.neighbors, nearness, self.sizes)


def sharper_whitening(z: Array, valid: Array, settings: Propagation) -> SegmentWhitening:
    """Learn the whitening by segments from tiles all over a whitened scene, ``(h, w, k)``."""
    side, shape = SEGMENT_TILE, (valid.shape[0], valid.shape[1])
    tiles = [tile for tile in plan_tiles(shape, (side, side)) if valid[tile].any()]
    chosen = np.unique(np.linspace(0, len(tiles) - 1, SEGMENT_TILES).astype(int))
    tiles = [tiles[k] for k in chosen]
    clearest, coarse = max(settings.components // 2, 1), EdgeFilter(settings.coarse)
    smooth = run_tasks(lambda tile: coarse.transform(z[tile][..., :clearest]), tiles)
    deviation = float(np.std(np.concatenate([s.ravel() for s in smooth])))
    cubes, segments, first = [], [], 0
    for tile, features in zip(tiles, smooth, strict=True):
        number = find_segments(features, settings.scale, settings.least, deviation) + first
        first = int(number.max()) + 1
        cubes.append(z[tile][valid[tile]])
        segments.append(number[valid[tile]])
    most = int(max(kept for kept, _ in settings.graphs))
    spectra, segment = np.concatenate(cubes)[:, None], np.concatenate(segments)[:, None]
    return SegmentWhitening(most).fit_segments(spectra, segment)


def scene_superpixels(
    z: Array,
    valid: Array,
    sharper: SegmentWhitening,
    settings: Propagation,
    run: RunOnScene | None = None,
    done: Callable[[float], None] = lambda share: None,  # noqa: ARG005
) -> Superpixels:
    """Cut a whitened scene ``(height, width, k)`` into superpixels.

    ``run`` does the tiles, threads here unless it is given. ``done`` is called after each tile with
    the share of them that is done, and may raise.
    """
    shape = (valid.shape[0], valid.shape[1])
    tiles, count = plan_tiles(shape, (TILE, TILE)), 0
    nodes = np.empty(shape, np.int32)
    parts: list[_TileSuperpixels] = []
    windows = (_Window.of(z, valid, tile) for tile in tiles)
    run = run_here(None) if run is None else run
    with closing(run(_tile_superpixels, (sharper, settings), windows)) as made:
        for number, (tile, part) in enumerate(zip(tiles, made, strict=True)):
            nodes[tile] = np.where(part.groups < 0, part.groups, part.groups + np.int32(count))
            count += len(part.sizes)
            if len(part.sizes):
                parts.append(part._replace(groups=None))
            done((number + 1) / len(tiles))
    joined = [np.concatenate([p.features[k] for p in parts]) for k in range(len(settings.graphs))]
    places, sizes = (np.concatenate(each) for each in zip(*(p[2:] for p in parts), strict=True))
    return Superpixels(nodes, joined, places, sizes)


class _Window(NamedTuple):
    """A tile of a whitened scene with the halo of the edge filter."""

    tile: Tile
    inner: Tile  # where the tile lies in the window
    z: Array  # (height, width, k), with the halo
    inside: Array  # (h, w) of the tile: which pixels have data

    @classmethod
    def of(cls, z: Array, valid: Array, tile: Tile) -> _Window:
        """Return the window of a tile; nothing is copied."""
        wide = tile.grown(HALO, (valid.shape[0], valid.shape[1]))
        return cls(tile, tile.within(wide), z[wide], valid[tile])


class _TileSuperpixels(NamedTuple):
    """The superpixels of one tile."""

    groups: Any  # ndarray of int32 (h, w), from 0, -1 without data
    features: list[Array]  # of each graph
    places: Array
    sizes: Array


def _tile_superpixels(
    _: object, shared: tuple[SegmentWhitening, Propagation], window: _Window
) -> _TileSuperpixels:
    """Cut one tile into superpixels."""
    (sharper, settings), inside = shared, window.inside
    if not inside.any():
        blank = np.full(window.tile.shape, -1, np.int32)
        return _TileSuperpixels(blank, [], np.empty((0, 2)), np.empty(0, np.intp))
    components = sharper.transform(window.z)
    maps = [
        EdgeFilter(contrast).transform(components[..., : int(kept)])[window.inner]
        for kept, contrast in settings.graphs
    ]
    groups = find_superpixels(maps[0], settings.superpixel, inside)
    number, count = groups[inside], int(groups.max()) + 1
    features = [group_means(each[inside], number, count) for each in maps]
    corner = np.array([window.tile.rows.start, window.tile.cols.start])
    places = group_means(np.argwhere(inside) + corner, number, count)
    return _TileSuperpixels(groups, features, places, np.bincount(number, minlength=count))
