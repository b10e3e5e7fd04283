"""Windows of a scene: patches around given pixels, and tiles that are read with their halo.

A scene cut into 5 x 5 patches is twenty-five times as large. Patches are gathered of the given
pixels only, and a lazy scene is read only where they lie. A map is made tile by tile: the plan is
pure, and a tile is read with the pixels around it that its windows reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError
from polyad.scene.files.option_values import check_window
from polyad.scene.raster.despiking import HALO, Despiking, despike, find_outliers, replacements
from polyad.scene.raster.grid import Tile as Tile
from polyad.scene.raster.scene import Scene

Border = Literal["reflect", "drop"]
Cube = NDArray[Any] | xr.DataArray | Scene

# Side of the squares in which an unchunked lazy scene is read: 128 x 128 x 200 bands of float32 are
# 13 MB, large enough to amortize a seek and small enough to hold beside the patches.
_READ_TILE = 128


def reflect_index(index: ArrayLike, size: int) -> NDArray[np.intp]:
    """Fold indices that leave ``0 .. size - 1`` back into it, mirrored at the first and last pixel.

    The edge pixel itself is not repeated, as in ``numpy.pad(..., mode="reflect")``. Folding is
    periodic, so that an axis shorter than the window is bounced through more than once.

    Examples
    --------
    >>> reflect_index([-2, -1, 0, 3, 4, 5], size=4).tolist()
    [2, 1, 0, 3, 2, 1]
    """
    period = max(2 * (size - 1), 1)  # there and back: 0 1 2 3 2 1 | 0 1 2 ...
    folded = np.abs(np.asarray(index, dtype=np.intp)) % period
    return np.where(folded < size, folded, period - folded)


def check_window_fits(window: int, shape: tuple[int, ...]) -> int:
    """Return ``window`` if a scene of ``shape``, rows and columns first, is as wide or as high.

    Where the scene is narrower in one direction only, as a transect is, pixels are mirrored. A
    window wider than both holds the whole scene around every pixel, and tells none from another.

    Examples
    --------
    >>> check_window_fits(5, (40, 30, 103)), check_window_fits(5, (1, 30, 103))
    (5, 5)
    """
    window, (rows, cols) = check_window(window), shape[:2]
    if window > max(rows, cols):
        most = (max(rows, cols) - 1) // 2 * 2 + 1
        raise InputError(
            f"window must be no wider than the scene, {rows:,} x {cols:,} pixels, got {window}; "
            f"choose an odd number of pixels up to {most}, 5 is usual"
        )
    return window


def interior(
    rows: ArrayLike, cols: ArrayLike, shape: tuple[int, ...], window: int = 5
) -> NDArray[np.bool_]:
    """Return which pixels have their whole window inside the scene (the paper keeps only these).

    Parameters
    ----------
    rows, cols : array_like of int, shape (n,)
    shape : tuple of int
        ``(height, width)`` of the scene; further entries are ignored.
    window : int
        Odd side of the window.

    Returns
    -------
    ndarray of bool, shape (n,)

    Examples
    --------
    >>> interior([0, 2, 4], [2, 2, 2], shape=(5, 5), window=5).tolist()
    [False, True, False]
    """
    half = check_window(window) // 2
    rows, cols = np.asarray(rows), np.asarray(cols)
    height, width = shape[:2]
    whole_rows = (rows >= half) & (rows < height - half)
    whole_cols = (cols >= half) & (cols < width - half)
    return whole_rows & whole_cols


def extract_patches(cube: Cube, rows: ArrayLike, cols: ArrayLike, window: int = 5) -> NDArray[Any]:
    """Gather the ``window x window`` neighborhood of each given pixel.

    Where a window leaves the scene, the scene is mirrored at its edge; see `interior`.

    Parameters
    ----------
    cube : ndarray of shape (height, width, bands), or DataArray with dims y, x, band
        A lazy DataArray is read only around the given pixels, tile by tile. An ndarray may have
        more modes after the bands, which the patches keep.
    rows, cols : array_like of int, shape (n,)
        Pixels, 0-based; they may repeat.
    window : int
        Odd side s of the patch.

    Returns
    -------
    ndarray, shape (n, s, s, bands)
        In the scene's dtype; of a masked one see `polyad.scene.mask_scene`.

    Examples
    --------
    >>> cube = np.arange(9).reshape(3, 3, 1)
    >>> extract_patches(cube, rows=[0], cols=[1], window=3)[0, :, :, 0]
    array([[3, 4, 5],
           [0, 1, 2],
           [3, 4, 5]])
    """
    cube = cube if isinstance(cube, np.ndarray) else Scene.of(cube)
    if len(cube.shape) < 3:
        raise InputError(f"a scene is an array (height, width, bands), got shape {cube.shape}")
    height, width = cube.shape[:2]
    pixels = np.array([rows, cols], np.intp)  # (2, n)
    outside = (pixels < 0) | (pixels >= [[height], [width]])
    if outside.any():
        row, col = pixels[:, int(outside.any(axis=0).argmax())]
        raise InputError(
            f"pixel (row {row}, col {col}) lies outside the scene of {height} rows and {width} "
            "columns; rows and columns count from 0"
        )
    offsets = np.arange(check_window(window)) - window // 2
    row_index = reflect_index(pixels[0][:, None] + offsets, height)  # (n, s)
    col_index = reflect_index(pixels[1][:, None] + offsets, width)  # (n, s)
    if isinstance(cube, np.ndarray):
        return cube[row_index[:, :, None], col_index[:, None, :]]
    patches = np.empty((pixels.shape[1], window, window, cube.shape[2]), cube.pixel_dtype)
    for chosen in _tiles(cube, *pixels):
        r, c = row_index[chosen], col_index[chosen]
        # The box that holds every window of this tile, its halo included, is read in one piece.
        block = cube.read(slice(r.min(), r.max() + 1), slice(c.min(), c.max() + 1))
        patches[chosen] = block[(r - r.min())[:, :, None], (c - c.min())[:, None, :]]
    return patches


def _tiles(
    scene: Scene, rows: NDArray[np.intp], cols: NDArray[np.intp]
) -> Iterator[NDArray[np.intp]]:
    """Yield the pixels tile by tile, so that far-apart pixels are not read as one huge box."""
    if not len(rows):
        return
    # A chunk is always read whole; tiles that match chunks read each about once.
    chunks = scene.array.chunksizes
    side_y = max(chunks["y"]) if chunks else _READ_TILE
    side_x = max(chunks["x"]) if chunks else _READ_TILE
    tile = rows // side_y * (scene.shape[1] // side_x + 1) + cols // side_x
    order = np.argsort(tile, kind="stable")
    starts = np.flatnonzero(np.diff(tile[order])) + 1
    yield from np.split(order, starts)


BLOCK = 256  # side of a GeoTIFF block: tiles aligned to it are written once
# What one tile of the scene may take as it is read. From 32 MiB on, the C library takes new memory
# from the system for every array, and pages that nobody has touched cost more than reading them.
TILE_BYTES = 28 * 2**20
LEAST_ROWS = 32  # of a strip: the halo of a thinner one would cost more than a wide tile saves


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

    A strip over the scene's whole width is read fastest, whatever the file's layout, so tiles are
    strips unless `TILE_BYTES` leave one fewer than `LEAST_ROWS` rows.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the scene.
    pixel_bytes : int
        Bytes of one pixel, all bands.
    side : int, optional
        Asked for by the user: a square tile of this side.

    Examples
    --------
    >>> tile_shape((5000, 700), pixel_bytes=400)
    (64, 700)
    >>> tile_shape((5000, 40_000), pixel_bytes=400)
    (256, 256)
    """
    height, width = shape
    if side is not None:
        if side < 1:
            raise InputError(f"tile must be at least 1 pixel, got {side}")
        return min(side, height), min(side, width)
    pixels = max(TILE_BYTES // max(pixel_bytes, 1), 1)
    if height * width <= pixels:
        return shape
    if LEAST_ROWS * width <= pixels:
        return min(_power_of_two(pixels // width), BLOCK, height), width
    rows = min(_power_of_two(math.isqrt(pixels)), BLOCK, height)
    return rows, min(max(pixels // rows // BLOCK * BLOCK, rows), width)


def _power_of_two(limit: int) -> int:
    """Return the largest power of two that is not above ``limit``, which is at least 1."""
    return 1 << (limit.bit_length() - 1)


class Block(NamedTuple):
    """Pixels as they were read, and where each pixel of the tile with its halo lies in them.

    At the scene's border the halo is a reflection, so that an index may come more than once.
    Of a despiked scene the pixels are as stored, with those around the halo that its
    own may be replaced by: whoever reads a cut of it asks for `repaired` or `replacements`.
    ``origin`` is where the block lies in its scene.
    """

    values: npt.NDArray[Any]  # (rows read, columns read, bands)
    rows: npt.NDArray[np.intp]  # (height + 2 halo,)
    cols: npt.NDArray[np.intp]  # (width + 2 halo,)
    despiking: Despiking | None = None
    nodata: float | None = None
    origin: tuple[int, int] = (0, 0)

    def repaired(self, rows: slice, cols: slice) -> NDArray[Any]:
        """Return a cut of the tile with its halo, corrupt pixels replaced by their neighbors."""
        if self.despiking is None:
            return self.cut(rows, cols)
        wide, inner = self._reach(rows, cols)
        pixels, replaced = despike(self.values[wide], self.nodata, self.despiking.noise)
        self.despiking.note(*inner.moved(*self.origin), replaced[inner.within(wide)])
        y, x = self.rows - wide.rows.start, self.cols - wide.cols.start
        return Block(pixels, y, x).cut(rows, cols)

    def replacements(
        self, rows: slice, cols: slice, outliers: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[Any]]:
        """Return row and column in a cut, and spectrum, of its pixels that `repaired` replaces.

        Parameters
        ----------
        rows, cols : slice
            The cut.
        outliers : ndarray of bool
            Which of its pixels are outliers, see `polyad.scene.raster.despiking.find_outliers`.
        """
        if self.despiking is None:
            return np.empty(0, np.intp), np.empty(0, np.intp), self.values[:0, 0]
        wide, inner = self._reach(rows, cols)
        noise, stored = self.despiking.noise, self.values[wide]
        y, x = self.rows[rows] - wide.rows.start, self.cols[cols] - wide.cols.start
        known: npt.NDArray[np.bool_] = np.zeros((len(stored), stored.shape[1]), bool)
        known[np.ix_(y, x)] = outliers
        core = slice(HALO, -HALO)
        if np.count_nonzero(outliers[core, core]) < np.count_nonzero(outliers):
            own = inner.within(wide)
            for outer in _around(own.rows, len(known)):
                known[outer] = find_outliers(stored[outer], noise)
            for outer in _around(own.cols, stored.shape[1]):
                known[own.rows, outer] = find_outliers(stored[own.rows, outer], noise)
        down, across, spectra = replacements(stored, known, self.nodata, noise)
        replaced = np.zeros(known.shape, bool)
        replaced[down, across] = True
        self.despiking.note(*inner.moved(*self.origin), replaced[inner.within(wide)])
        # A reflected pixel is in several places
        i, first = np.nonzero(y[:, None] == down)
        j, second = np.nonzero(x[:, None] == across)
        one, other = np.nonzero(first[:, None] == second)
        return i[one], j[other], spectra[first[one]]

    def _reach(self, rows: slice, cols: slice) -> tuple[Tile, Tile]:
        """Return where a cut lies in what was read, with the pixels around it and without."""
        y, x = self.rows[rows], self.cols[cols]
        inner = Tile(*(slice(int(index.min()), int(index.max()) + 1) for index in (y, x)))
        return inner.grown(HALO, (len(self.values), self.values.shape[1])), inner

    def cut(self, rows: slice, cols: slice) -> NDArray[Any]:
        """Return a cut of the tile with its halo, ``(h, w, bands)``; a view inside the scene."""
        y, x = self.rows[rows], self.cols[cols]
        down, across = ascending_run(y), ascending_run(x)
        inner = self.values[_between(y, down), _between(x, across)]
        if inner.shape[:2] == (len(y), len(x)):
            return inner
        out = np.empty_like(inner, shape=(len(y), len(x), inner.shape[2]))  # in the same layout
        out[down, across] = inner
        for outer in _around(down, len(y)):
            out[outer] = self.values[y[outer, None], x]
        for outer in _around(across, len(x)):
            out[down, outer] = self.values[_between(y, down), x[outer]]
        return out


def _between(index: npt.NDArray[np.intp], run: slice) -> slice:
    """Return the slice that ``index[run]`` is, for an ascending run."""
    return slice(int(index[run.start]), int(index[run.stop - 1]) + 1)


def _around(run: slice, length: int) -> list[slice]:
    """Return what is left of ``0 .. length`` before and after ``run``."""
    return [s for s in (slice(0, run.start), slice(run.stop, length)) if s.start < s.stop]


def ascending_run(index: npt.NDArray[np.intp]) -> slice:
    """Return the longest stretch of ``index`` that goes up by one; nowhere by more.

    Examples
    --------
    >>> ascending_run(np.array([2, 1, 0, 1, 2, 3, 2]))
    slice(2, 6, None)
    """
    if index[-1] - index[0] == len(index) - 1:  # it goes up by at most one, so it always does
        return slice(0, len(index))
    breaks = np.flatnonzero(np.diff(index) != 1) + 1
    edges = np.concatenate([[0], breaks, [len(index)]])
    first = int(np.diff(edges).argmax())
    return slice(int(edges[first]), int(edges[first + 1]))


def read_block(scene: xr.DataArray | Scene, tile: Tile, halo: int) -> Block:
    """Read the pixels that a tile and ``halo`` more pixels on each side need."""
    scene = Scene.of(scene)
    y, x = (halo_index(s, halo, n) for s, n in zip(tile, scene.shape[:2], strict=True))
    window = Tile(*(slice(int(index.min()), int(index.max()) + 1) for index in (y, x)))
    if scene.despiking is not None:
        window = window.grown(HALO, scene.shape[:2])
    origin = window.rows.start, window.cols.start
    values = scene.read_stored(*window)
    return Block(values, y - origin[0], x - origin[1], scene.despiking, scene.nodata, origin)


def halo_index(side: slice, halo: int, length: int) -> npt.NDArray[np.intp]:
    """Return the pixels along one side of a tile and its halo, reflected where the scene ends.

    Examples
    --------
    >>> halo_index(slice(0, 3), halo=2, length=4).tolist()
    [2, 1, 0, 1, 2, 3, 2]
    """
    return reflect_index(np.arange(side.start - halo, side.stop + halo), length)
