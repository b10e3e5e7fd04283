"""Pixels of each class of a raster, counted a few rows at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError

Ids = NDArray[np.int64]
STRIP_PIXELS = 2**22  # looked at together: a map of any size takes the memory of these
_IDS = 2**16


def iter_strips(
    *rasters: xr.DataArray, pixels: int = STRIP_PIXELS
) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    """Yield the first row and the values of some rows of rasters that lie over each other."""
    height, width = rasters[0].sizes["y"], rasters[0].sizes["x"]
    step = max(1, pixels // max(1, width))
    for top in range(0, height, step):
        yield top, [raster.isel(y=slice(top, top + step)).to_numpy() for raster in rasters]


def ids_digest(raster: xr.DataArray) -> str:
    """Return twelve hexadecimal digits that tell the ids of one map from those of another.

    They depend on the ids and the shape alone, so the same map in another format has the same.

    Examples
    --------
    >>> ids = np.array([[1, 2], [0, 2]])
    >>> ids_digest(xr.DataArray(ids, dims=("y", "x")))
    'f099e6bba365'
    >>> ids_digest(xr.DataArray(ids.astype(np.uint8), dims=("y", "x")))
    'f099e6bba365'
    """
    digest = hashlib.sha256(f"{raster.sizes['y']} {raster.sizes['x']}".encode())
    for _, (strip,) in iter_strips(raster):
        digest.update(np.ascontiguousarray(strip, "<u2").data)
    return digest.hexdigest()[:12]


def count_ids(strip: NDArray[Any]) -> Ids:
    """Return how many pixels each id from 0 to 65535 has, shape (65536,)."""
    low, high = (int(f(initial=0)) for f in (strip.min, strip.max))
    if low < 0 or high >= _IDS:
        raise InputError(
            f"ids of a map must lie between 0 (none) and {_IDS - 1}, got {low} to {high}; renumber "
            "its classes"
        )
    return np.bincount(strip.ravel(), minlength=_IDS)


def class_totals(
    classes: xr.DataArray, strata: xr.DataArray, weights: NDArray[np.float64]
) -> tuple[Ids, NDArray[np.float64], Ids, NDArray[np.float64], int]:
    """Count the pixels that have a class and a stratum, and add up their weights.

    Parameters
    ----------
    classes, strata : DataArray of int, dims (y, x)
        Ids from 0, none, to 65535.
    weights : ndarray, shape (y,)
        Of a pixel of each row, such as its area.

    Returns
    -------
    pixels, total : ndarray, shape (65536,)
        By stratum.
    mapped, mapped_total : ndarray, shape (65536,)
        By class.
    outside : int
        Pixels that have a class and no stratum.
    """
    pixels, total = np.zeros(_IDS, np.int64), np.zeros(_IDS)
    mapped, mapped_total = np.zeros(_IDS, np.int64), np.zeros(_IDS)
    outside = 0
    even = bool(np.all(weights == weights[:1]))
    for top, (class_ids, stratum_ids) in iter_strips(classes, strata):
        both = (class_ids != 0) & (stratum_ids != 0)
        outside += int(np.count_nonzero((class_ids != 0) & (stratum_ids == 0)))
        rows = weights[top : top + len(both)]
        for ids, count, weight in ((stratum_ids, pixels, total), (class_ids, mapped, mapped_total)):
            kept = ids[both]
            own = count_ids(kept)
            count += own
            if even:
                weight += own * rows[0]
            else:
                each = np.repeat(rows, both.sum(axis=1))
                weight += np.bincount(kept, each, minlength=_IDS)
    return pixels, total, mapped, mapped_total, outside
