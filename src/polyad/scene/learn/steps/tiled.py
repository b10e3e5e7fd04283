"""Superpixels of a whole scene and their features, tile by tile.

The edge filter stops within a few pixels wherever there is noise, so that a tile with a narrow halo
gives what the whole scene would. Superpixels end at the tiles' seams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.scene.learn.steps.edges import EdgeFilter
from polyad.scene.learn.steps.graph import Graph, node_graph
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.segments import find_segments
from polyad.scene.learn.steps.superpixels import find_superpixels, group_means
from polyad.scene.learn.steps.whitening import SegmentWhitening
from polyad.scene.raster.tiles import Tile, plan_tiles
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
TILE, HALO = 256, 16  # pixels: a tile's side, and how far the edge filter sees beyond it
BATCH = 8  # tiles between two checks
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
    done: Callable[[float], None] = lambda share: None,  # noqa: ARG005
) -> Superpixels:
    """Cut a whitened scene ``(height, width, k)`` into superpixels.

    ``done`` is called every few tiles with the share of them that is done, and may raise.
    """
    shape = (valid.shape[0], valid.shape[1])
    tiles, count = plan_tiles(shape, (TILE, TILE)), 0
    nodes = np.empty(shape, np.int32)
    parts: list[tuple[list[Array], Array, Array]] = []  # features, places, sizes
    for start in range(0, len(tiles), BATCH):
        batch = tiles[start : start + BATCH]
        made = run_tasks(lambda tile: _tile_superpixels(z, valid, sharper, settings, tile), batch)
        for tile, (groups, features, places, sizes) in zip(batch, made, strict=True):
            nodes[tile] = np.where(groups < 0, groups, groups + np.int32(count))
            if len(sizes):
                parts.append((features, places, sizes))
            count += len(sizes)
        done(min((start + BATCH) / len(tiles), 1.0))
    joined = [np.concatenate([p[0][k] for p in parts]) for k in range(len(settings.graphs))]
    places, sizes = (np.concatenate([p[k] for p in parts]) for k in (1, 2))
    return Superpixels(nodes, joined, places, sizes)


def _tile_superpixels(
    z: Array, valid: Array, sharper: SegmentWhitening, settings: Propagation, tile: Tile
) -> tuple[Array, list[Array], Array, Array]:
    """Return a tile's groups ``(h, w)``, their features, places and sizes."""
    shape = (valid.shape[0], valid.shape[1])
    inside = valid[tile]
    if not inside.any():
        return np.full(tile.shape, -1, np.int32), [], np.empty((0, 2)), np.empty(0, np.intp)
    wide = tile.grown(HALO, shape)
    inner, components = tile.within(wide), sharper.transform(z[wide])
    maps = [
        EdgeFilter(contrast).transform(components[..., : int(kept)])[inner]
        for kept, contrast in settings.graphs
    ]
    groups = find_superpixels(maps[0], settings.superpixel, inside)
    number, count = groups[inside], int(groups.max()) + 1
    features = [group_means(each[inside], number, count) for each in maps]
    corner = np.array([tile.rows.start, tile.cols.start])
    places = group_means(np.argwhere(inside) + corner, number, count)
    return groups, features, places, np.bincount(number, minlength=count)
