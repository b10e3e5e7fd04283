"""Superpixels of a whole scene and their features, tile by tile.

The edge filter stops within a few pixels wherever there is noise, so that a tile with a narrow halo
gives what the whole scene would. Superpixels end at the tiles' seams. A few tiles next to each
other are read together, as a region, and no more is held of a scene than that and its superpixels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.scene.learn.steps.components import Components
from polyad.scene.learn.steps.edges import EdgeFilter
from polyad.scene.learn.steps.graph import Graph, node_graph
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.segments import find_segments
from polyad.scene.learn.steps.superpixels import find_superpixels, group_means
from polyad.scene.learn.steps.whitening import NoiseWhitening, SegmentWhitening
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import INSIDE
from polyad.scene.raster.scene_tasks import RunOnScene
from polyad.scene.raster.tiles import Tile, plan_tiles, read_window, tile_shape

Array = npt.NDArray[Any]
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

    def graph(self, number: int, settings: Propagation) -> Graph:
        """Return one of the graphs of the superpixels."""
        features, nearness = self.features[number], settings.nearness
        return node_graph(features, self.places, settings.neighbors, nearness, self.sizes)


def sharper_whitening(
    scene: xr.DataArray, whitening: NoiseWhitening, settings: Propagation, run: RunOnScene
) -> SegmentWhitening:
    """Learn the whitening by segments from tiles all over a scene, which ``run`` reads."""
    tiles = [tile for tile in run(_sample_tile, (whitening, settings), _places(scene)) if tile]
    deviation = float(np.std(np.concatenate([smooth.ravel() for _, _, smooth in tiles])))
    cubes, segments, first = [], [], 0
    for z, valid, smooth in tiles:
        number = find_segments(smooth, settings.scale, settings.least, deviation) + first
        first = int(number.max()) + 1
        cubes.append(z[valid])
        segments.append(number[valid])
    most = int(max(kept for kept, _ in settings.graphs))
    spectra, segment = np.concatenate(cubes)[:, None], np.concatenate(segments)[:, None]
    return SegmentWhitening(most).fit_segments(spectra, segment)


def _places(scene: xr.DataArray) -> list[list[Tile]]:
    """Return for each place that is to be looked at the tiles from there to the next place."""
    tiles = plan_tiles((scene.sizes["y"], scene.sizes["x"]), (SEGMENT_TILE, SEGMENT_TILE))
    if INSIDE in scene.coords:
        tiles = [tile for tile in tiles if scene[INSIDE].values[tile].any()]
    starts = np.unique(np.linspace(0, len(tiles) - 1, SEGMENT_TILES).astype(int)).tolist()
    return [tiles[a:b] for a, b in pairwise([*starts, len(tiles)])]


def _sample_tile(
    scene: xr.DataArray, shared: tuple[NoiseWhitening, Propagation], tiles: list[Tile]
) -> tuple[Array, Array, Array] | None:
    """Return a tile with data: whitened, which pixels have data, and smoothed.

    It is the first that has data in half of its pixels, or else the one with the most.
    """
    whitening, settings = shared
    clearest, most = max(settings.components // 2, 1), 0
    fullest: tuple[Array, Array] | None = None
    for tile in tiles:
        z, valid = whitened_window(scene, whitening, tile)
        if (count := int(np.count_nonzero(valid))) > most:
            most, fullest = count, (z, valid)
        if 2 * most >= valid.size:
            break
    if fullest is None:
        return None
    return *fullest, EdgeFilter(settings.coarse).transform(fullest[0][..., :clearest])


def whitened_window(
    scene: xr.DataArray,
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
    part_shape = tile_shape(window.shape, scene.sizes["band"] * scene.dtype.itemsize)
    for at in plan_tiles(window.shape, part_shape):
        part = at.moved(window.rows.start, window.cols.start)
        cube = read_window(scene, part)
        valid[at] = inside = valid_pixels(cube, scene.rio.nodata)
        z[at] = _whitened(cube, inside, whitening)
        seen(part, cube, z[at], inside)
    return z, valid


def _whitened(cube: Array, inside: Array, whitening: NoiseWhitening) -> Array:
    """Return the components ``(h, w, k)`` of pixels ``(h, w, bands)``, few at a time."""
    spectra, known = cube.reshape(-1, cube.shape[-1]), inside.reshape(-1, 1)
    z = np.empty((len(spectra), whitening.projection_.shape[1]), np.float32)
    for start in range(0, len(spectra), CHUNK):
        some, good = spectra[start : start + CHUNK], known[start : start + CHUNK]
        if good.all():
            z[start : start + CHUNK] = whitening.transform(some)
        else:
            z[start : start + CHUNK] = whitening.transform(np.where(good, some, 0)) * good
    return z.reshape(*inside.shape, -1)


class Cutting(NamedTuple):
    """By what a scene is cut into superpixels."""

    whitening: NoiseWhitening
    sharper: SegmentWhitening
    settings: Propagation
    kept: Components | None = None  # takes up components of every pixel; only by threads here


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
    regions, count = plan_regions(shape), 0
    nodes = np.empty(shape, np.int32)
    parts: list[Superpixels] = []
    with closing(run(region_superpixels, cutting, regions)) as made:
        for number, (region, part) in enumerate(zip(regions, made, strict=True)):
            nodes[region] = _numbered_from(count, part.nodes)
            count += len(part.sizes)
            parts.append(replace(part, nodes=nodes[region]))
            done((number + 1) / len(regions))
    return _joined(nodes, parts)


def region_superpixels(scene: xr.DataArray, cutting: Cutting, region: Tile) -> Superpixels:
    """Cut one region of a scene into superpixels, tile by tile; their numbers begin at 0."""
    shape = scene.sizes["y"], scene.sizes["x"]
    wide = region.grown(HALO, shape)

    def keep(part: Tile, cube: Array, z: Array, inside: Array) -> None:
        own = part.common(region)
        if cutting.kept is not None and min(own.shape) > 0:
            at = own.within(part)
            cutting.kept.put(own, cube[at], z[at], inside[at])

    z, valid = whitened_window(scene, cutting.whitening, wide, keep)
    nodes, count = np.empty(region.shape, np.int32), 0
    parts: list[Superpixels] = []
    for within in plan_tiles(region.shape, (TILE, TILE)):
        tile = within.moved(region.rows.start, region.cols.start)
        halo = tile.grown(HALO, shape)
        part = _tile_superpixels(
            z[halo.within(wide)], valid[tile.within(wide)], tile, halo, cutting
        )
        nodes[within] = _numbered_from(count, part.nodes)
        count += len(part.sizes)
        parts.append(part)
    return _joined(nodes, parts)


def _tile_superpixels(
    z: Array, inside: Array, tile: Tile, halo: Tile, cutting: Cutting
) -> Superpixels:
    """Cut one tile, from its components with a halo and which of its own pixels have data."""
    settings = cutting.settings
    if not inside.any():
        most = cutting.sharper.projection_.shape[1]
        features = [np.empty((0, min(int(k), most)), np.float32) for k, _ in settings.graphs]
        nodes = np.full(inside.shape, -1, np.int32)
        return Superpixels(nodes, features, np.empty((0, 2), np.float32), np.empty(0, np.intp))
    components = cutting.sharper.transform(z)
    maps = [
        EdgeFilter(contrast).transform(components[..., : int(kept)])[tile.within(halo)]
        for kept, contrast in settings.graphs
    ]
    nodes = find_superpixels(maps[0], settings.superpixel, inside)
    number, count = nodes[inside], int(nodes.max()) + 1
    features = [group_means(each[inside], number, count) for each in maps]
    corner = np.array([tile.rows.start, tile.cols.start])
    places = group_means(np.argwhere(inside) + corner, number, count)
    return Superpixels(nodes, features, places, np.bincount(number, minlength=count))


def _numbered_from(first: int, nodes: Array) -> Array:
    """Return nodes numbered from ``first`` on; -1 stays."""
    return np.where(nodes < 0, np.int32(-1), nodes + np.int32(first))


def _joined(nodes: Array, parts: list[Superpixels]) -> Superpixels:
    """Return the superpixels of all parts, whose pixels are numbered already."""
    features = [np.concatenate(each) for each in zip(*(p.features for p in parts), strict=True)]
    places = np.concatenate([p.places for p in parts])
    return Superpixels(nodes, features, places, np.concatenate([p.sizes for p in parts]))
