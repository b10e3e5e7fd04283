"""How a scene is cut into tiles: a pure plan, and the reading of one tile with its halo."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError
from polyad.scene.patches import reflect_index

BLOCK = 256  # side of a GeoTIFF block: tiles aligned to it are written once
TILE_BYTES = 64 * 2**20  # what one tile of the scene may take as it is read


class Tile(NamedTuple):
    """A rectangle of pixels."""

    rows: slice
    cols: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start


def plan_tiles(shape: tuple[int, int], tile: tuple[int, int]) -> list[Tile]:
    """Cut a scene of ``shape`` into tiles, row by row; the last ones may be smaller.

    Examples
    --------
    >>> [t.shape for t in plan_tiles((5, 4), (3, 4))]
    [(3, 4), (2, 4)]
    """
    height, width = tile
    return [
        Tile(slice(y, min(y + height, shape[0])), slice(x, min(x + width, shape[1])))
        for y in range(0, shape[0], height)
        for x in range(0, shape[1], width)
    ]


def tile_shape(
    shape: tuple[int, int], pixel_bytes: int, side: int | None = None
) -> tuple[int, int]:
    """Choose a tile's height and width.

    Wide tiles are read fastest, whatever the file's layout, so a tile takes the scene's whole
    width where `TILE_BYTES` allow; its sides are multiples of the GeoTIFF block.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the scene.
    pixel_bytes : int
        Bytes of one pixel, all bands.
    side : int, optional
        Asked for by the user: a square tile of this side.
    """
    if side is not None:
        if side < 1:
            raise InputError(f"tile must be at least 1 pixel, got {side}")
        return min(side, shape[0]), min(side, shape[1])
    pixels = max(TILE_BYTES // max(pixel_bytes, 1), 1)
    if shape[0] * shape[1] <= pixels:
        return shape
    height = BLOCK
    while height > 16 and height * BLOCK > pixels:
        height //= 2
    width = max(pixels // height // BLOCK, 1) * BLOCK
    return min(height, shape[0]), min(width, shape[1])


def read_tile(scene: xr.DataArray, tile: Tile, halo: int) -> npt.NDArray[Any]:
    """Read a tile with ``halo`` more pixels on each side, reflected at the scene's border.

    Returns
    -------
    ndarray, ``(height + 2 halo, width + 2 halo, bands)``
    """
    size = scene.shape[:2]
    wanted = [
        reflect_index(np.arange(part.start - halo, part.stop + halo), length)
        for part, length in zip(tile, size, strict=True)
    ]
    low = [int(index.min()) for index in wanted]
    high = [int(index.max()) + 1 for index in wanted]
    block = np.asarray(scene.isel(y=slice(low[0], high[0]), x=slice(low[1], high[1])).values)
    rows, cols = (index - start for index, start in zip(wanted, low, strict=True))
    if len(rows) == len(block) and len(cols) == block.shape[1]:
        return block  # the halo lies inside the scene
    return block[rows[:, None], cols[None, :]]
