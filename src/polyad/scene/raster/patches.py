"""Windows of a scene around given pixels, and around no others.

A scene cut into 5 x 5 patches is twenty-five times as large. Here only the given pixels are
gathered, in one array or batch by batch within a memory budget, and a lazy scene is read only where
they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError
from polyad.scene.files.option_values import check_window as check_window
from polyad.scene.raster.mask import pixel_dtype, read_pixels
from polyad.scene.raster.scene import as_scene

Border = Literal["reflect", "drop"]
Cube = NDArray[Any] | xr.DataArray

# Side of the squares in which an unchunked lazy scene is read: 128 x 128 x 200 bands of float32 are
# 13 MB, large enough to amortize a seek and small enough to hold beside the patches.
_READ_TILE = 128


def reflect_index(index: ArrayLike, size: int) -> NDArray[np.intp]:
    """Fold indices that leave ``0 .. size - 1`` back into it, mirrored at the first and last pixel.

    The edge pixel itself is not repeated, as in ``numpy.pad(..., mode="reflect")``. Folding is
    periodic, so that an axis shorter than the window is bounced through more than once.

    Parameters
    ----------
    index : array_like of int
        Positions along one axis, of any sign and shape.
    size : int
        Length of the axis, at least 1.

    Returns
    -------
    ndarray of int
        Same shape as ``index``, every value in ``0 .. size - 1``.

    Examples
    --------
    >>> reflect_index([-2, -1, 0, 3, 4, 5], size=4).tolist()
    [2, 1, 0, 3, 2, 1]
    """
    index = np.asarray(index, dtype=np.intp)
    if size < 1:
        raise InputError(f"reflect_index: size must be at least 1, got {size}")
    if size == 1:
        return np.zeros_like(index)
    period = 2 * (size - 1)  # there and back: 0 1 2 3 2 1 | 0 1 2 ...
    folded = np.abs(index) % period
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


def extract_patches(
    cube: Cube, rows: ArrayLike, cols: ArrayLike, window: int = 5, border: Border = "reflect"
) -> NDArray[Any]:
    """Gather the ``window x window`` neighborhood of each given pixel.

    Parameters
    ----------
    cube : ndarray of shape (height, width, bands), or DataArray with dims y, x, band
        A lazy DataArray is read only around the given pixels, tile by tile. An ndarray may have
        more modes after the bands, which the patches keep.
    rows, cols : array_like of int, shape (n,)
        Pixels, 0-based; they may repeat.
    window : int
        Odd side s of the patch.
    border : {'reflect', 'drop'}
        What happens where a window leaves the scene. ``'reflect'`` mirrors the scene at its edge;
        ``'drop'`` wants such pixels dropped beforehand (see `interior`) and refuses them.

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
    cube = cube if isinstance(cube, np.ndarray) else as_scene(cube)
    height, width, bands = _cube_shape(cube)
    rows, cols = _check_pixels(rows, cols, (height, width), window, border)
    offsets = np.arange(window) - window // 2
    row_index = reflect_index(rows[:, None] + offsets, height)  # (n, s)
    col_index = reflect_index(cols[:, None] + offsets, width)  # (n, s)
    if isinstance(cube, np.ndarray):
        return cube[row_index[:, :, None], col_index[:, None, :]]
    patches = np.empty((len(rows), window, window, bands), dtype=pixel_dtype(cube))
    for pixels in _tiles(cube, rows, cols):
        r, c = row_index[pixels], col_index[pixels]
        # The box that holds every window of this tile, its halo included, is read in one piece.
        block = read_pixels(cube, slice(r.min(), r.max() + 1), slice(c.min(), c.max() + 1))
        patches[pixels] = block[(r - r.min())[:, :, None], (c - c.min())[:, None, :]]
    return patches


def iter_patches(
    cube: Cube,
    rows: ArrayLike,
    cols: ArrayLike,
    window: int = 5,
    border: Border = "reflect",
    max_bytes: int = 2**28,
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Gather patches in batches of at most ``max_bytes`` bytes each, in the given order.

    Parameters
    ----------
    cube, rows, cols, window, border
        As in `extract_patches`.
    max_bytes : int
        Size of one batch of patches; a single patch is yielded even when it is larger.

    Yields
    ------
    (slice, ndarray)
        Which of the given pixels these are, and their patches of shape (batch, s, s, bands).

    Examples
    --------
    >>> cube = np.zeros((4, 4, 2), dtype=np.float32)
    >>> [patches.shape for _, patches in iter_patches(cube, [0, 1, 2], [0, 1, 2], 3, max_bytes=150)]
    [(2, 3, 3, 2), (1, 3, 3, 2)]
    """
    cube = cube if isinstance(cube, np.ndarray) else as_scene(cube)
    height, width, bands = _cube_shape(cube)
    rows, cols = _check_pixels(rows, cols, (height, width), window, border)
    patch_bytes = window * window * bands * cube.dtype.itemsize
    batch = max(1, int(max_bytes) // patch_bytes)
    for start in range(0, len(rows), batch):
        chosen = slice(start, min(start + batch, len(rows)))
        yield chosen, extract_patches(cube, rows[chosen], cols[chosen], window, border)


def _cube_shape(cube: Cube) -> tuple[int, int, int]:
    """Return (height, width, values of a pixel), or say what a scene must look like."""
    if cube.ndim < 3 or (cube.ndim > 3 and not isinstance(cube, np.ndarray)):
        raise InputError(f"a scene is an array (height, width, bands), got shape {cube.shape}")
    return cube.shape[0], cube.shape[1], math.prod(cube.shape[2:])


def _check_pixels(
    rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int], window: int, border: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and cols as equally long index vectors that lie in the scene."""
    check_window(window)
    if border not in ("reflect", "drop"):
        raise InputError(f"border must be 'reflect' or 'drop', got {border!r}")
    row, col = np.asarray(rows), np.asarray(cols)
    if row.ndim != 1 or row.shape != col.shape:
        raise InputError(
            f"rows and cols must be vectors of one length, got shapes {row.shape} and {col.shape}"
        )
    row, col = row.astype(np.intp), col.astype(np.intp)
    outside = (row < 0) | (row >= shape[0]) | (col < 0) | (col >= shape[1])
    if outside.any():
        k = int(np.argmax(outside))
        raise InputError(
            f"pixel (row {row[k]}, col {col[k]}) lies outside the scene of {shape[0]} rows and "
            f"{shape[1]} columns; rows and columns count from 0"
        )
    if border == "drop" and not (whole := interior(row, col, shape, window)).all():
        k = int(np.argmin(whole))
        raise InputError(
            f"the {window} x {window} window of pixel (row {row[k]}, col {col[k]}) leaves the "
            f"scene; keep only pixels where interior(rows, cols, shape, window) is True, or use "
            f"border='reflect'"
        )
    return row, col


def _tiles(
    cube: xr.DataArray, rows: NDArray[np.intp], cols: NDArray[np.intp]
) -> Iterator[NDArray[np.intp]]:
    """Yield the pixels tile by tile, so that far-apart pixels are not read as one huge box."""
    if not len(rows):
        return
    # A chunk is always read whole; tiles that match chunks read each about once.
    chunks = cube.chunksizes
    side_y = max(chunks["y"]) if chunks else _READ_TILE
    side_x = max(chunks["x"]) if chunks else _READ_TILE
    tile = rows // side_y * (cube.sizes["x"] // side_x + 1) + cols // side_x
    order = np.argsort(tile, kind="stable")
    starts = np.flatnonzero(np.diff(tile[order])) + 1
    yield from np.split(order, starts)
