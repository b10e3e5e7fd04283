"""Tiles as PNG images: three bands of the scene, the map, the uncertainty.

A tile at level k holds every 2**k-th pixel of a square of the scene, so a page never asks for more
pixels than it can show, and never for more than three bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError
from polyad.scene.draw.color import RGBA, encode_indexed, encode_rgb
from polyad.scene.raster.classes import ClassInfo, rgb
from polyad.scene.raster.despiking import valid_pixels

Array = npt.NDArray[Any]

TILE = 256  # pixels of a side
_SAMPLE = 384  # pixels of a side that a band's percentiles are estimated from
_TILES = 256  # kept; each takes up to 256 KiB

# Uncertainty from transparent through violet to yellow, as share and RGBA; readable with color
# blindness too.
RAMP = ((0.0, (40, 20, 90, 40)), (0.5, (190, 50, 120, 190)), (1.0, (255, 225, 80, 255)))


def levels(shape: tuple[int, int]) -> int:
    """Return the number of levels at which the scene fits into one tile.

    Examples
    --------
    >>> levels((145, 145)), levels((256, 257)), levels((10000, 600))
    (1, 2, 7)
    """
    side, count = max(shape), 1
    while side > TILE:
        side, count = -(-side // 2), count + 1
    return count


def tile_slices(shape: tuple[int, int], level: int, row: int, col: int) -> tuple[slice, slice]:
    """Return the pixels of one tile as slices with a step of ``2 ** level``."""
    if not 0 <= level < levels(shape) or row < 0 or col < 0:  # before 2 ** level, which may be huge
        raise InputError(f"there is no tile at level {level}, row {row}, column {col}")
    step = 2**level
    side = TILE * step
    if row * side >= shape[0] or col * side >= shape[1]:
        raise InputError(f"tile {row}, {col} of level {level} lies outside the scene")
    return (
        slice(row * side, min((row + 1) * side, shape[0]), step),
        slice(col * side, min((col + 1) * side, shape[1]), step),
    )


class SceneTiles:
    """Tiles of a scene in three bands, stretched by percentiles of the whole scene."""

    def __init__(self, scene: xr.DataArray) -> None:
        self.scene = scene
        self.shape = (scene.sizes["y"], scene.sizes["x"])
        self.tile = lru_cache(_TILES)(self._tile)
        self.quantiles = lru_cache(self._sampled_quantiles)

    def _tile(
        self,
        level: int,
        row: int,
        col: int,
        bands: tuple[int, int, int],
        percentiles: tuple[float, float],
    ) -> bytes:
        """Return one tile as PNG; pixels without data are transparent."""
        if not all(0 <= b < self.scene.sizes["band"] for b in bands):
            raise InputError(f"bands lie between 0 and {self.scene.sizes['band'] - 1}, got {bands}")
        low, high = percentiles
        if not 0 <= low < high <= 100:
            raise InputError(f"percentiles rise from 0 to 100, got {low} and {high}")
        ys, xs = tile_slices(self.shape, level, row, col)
        distinct = sorted(set(bands))  # a band shown twice is read once
        values = np.asarray(self.scene.isel(y=ys, x=xs, band=distinct).values)
        values = values[..., [distinct.index(b) for b in bands]]
        image = np.zeros((*values.shape[:2], 4), np.uint8)
        for channel, band in enumerate(bands):
            low, high = np.interp(percentiles, np.linspace(0, 100, 1001), self.quantiles(band))
            with np.errstate(invalid="ignore"):
                share = (values[..., channel].astype(np.float32) - low) / max(high - low, 1e-12)
            image[..., channel] = np.rint(255 * np.clip(np.nan_to_num(share), 0, 1))
        image[..., 3] = np.where(valid_pixels(values, self.scene.rio.nodata), 255, 0)
        return encode_rgb(image)

    def _sampled_quantiles(self, band: int) -> Array:
        """Return 1001 quantiles of a band, from a sample of the scene."""
        rows, cols = (slice(None, None, max(1, n // _SAMPLE)) for n in self.shape)
        sample = self.scene.isel(y=rows, x=cols, band=[band]).values
        values = sample[valid_pixels(sample, self.scene.rio.nodata)].ravel()
        values = values[np.isfinite(values)]
        values = values if values.size else np.zeros(1)
        return np.quantile(values.astype(float), np.linspace(0, 1, 1001))


def map_tile(ids: Array, classes: Sequence[ClassInfo], level: int, row: int, col: int) -> bytes:
    """Return a tile of a class map ``(y, x)`` in the colors of its classes, as PNG."""
    tile = ids[tile_slices(ids.shape, level, row, col)]
    colors: list[RGBA] = [(0, 0, 0, 0)] * 256
    for info in classes:
        colors[info.value] = (*rgb(info.color), 255)
    return encode_indexed(tile, colors)


def uncertainty_tile(uncertainty: Array, level: int, row: int, col: int) -> bytes:
    """Return a tile of uncertainty, uint8 with 0 for "not mapped", as PNG."""
    shares, stops = np.linspace(0, 1, 255), [position for position, _ in RAMP]
    channels = [np.interp(shares, stops, [color[k] for _, color in RAMP]) for k in range(4)]
    ramp = np.rint(np.stack(channels, axis=1)).astype(int)
    colors = [(0, 0, 0, 0), *((int(r), int(g), int(b), int(a)) for r, g, b, a in ramp)]
    return encode_indexed(uncertainty[tile_slices(uncertainty.shape, level, row, col)], colors)
