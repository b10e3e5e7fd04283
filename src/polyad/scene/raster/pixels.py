"""Pixels as arrays: which of them have a measurement."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster.sharing import shared_tensor


def valid_pixels(values: NDArray[Any], nodata: float | None = None) -> NDArray[np.bool_]:
    """Return which pixels have a measurement in every band.

    Parameters
    ----------
    values : array of shape (..., bands)
        Pixels of a scene or of a tile of it.
    nodata : float, optional
        Value that stands for "no measurement"; NaN and infinity always do, and so does what is
        infinite as float32, in which models compute.

    Returns
    -------
    bool array of shape (...)
        False where any band is nodata or not finite.

    Examples
    --------
    >>> valid_pixels(np.array([[1, 2], [-9, 4]]), nodata=-9)
    array([ True, False])
    """
    check_real(values.dtype)
    valid = np.ones(values.shape[:-1], bool)
    if values.dtype.kind == "f" and not _sum_is_finite(values):
        most = values.dtype.type(min(np.finfo(values.dtype).max, np.finfo(np.float32).max))
        valid &= (np.abs(values) <= most).all(axis=-1)  # not so for NaN
    if nodata is not None and not np.isnan(nodata):
        missing = np.asarray(values == nodata)
        if missing.any():
            valid &= ~missing.any(axis=-1)
    return valid


def check_real(dtype: np.dtype[Any]) -> None:
    """Raise `SceneError` unless values of this type are real numbers."""
    if dtype.kind not in "biuf":
        raise SceneError(
            f"a scene's values must be real numbers, got {dtype}; take the part that was measured"
        )


def _sum_is_finite(values: NDArray[Any]) -> bool:
    """Return whether the sum of all values is finite: then all values are, and it is fast.

    Doubles are summed as float32, where those beyond its range are infinite. Torch is faster, but
    not by what importing it takes: `polyad info` does without.
    """
    shared = shared_tensor(values) if "torch" in sys.modules else None
    wide = values.dtype.itemsize > 4
    with np.errstate(all="ignore"):
        if shared is None:
            return math.isfinite(float(values.sum(dtype=np.float32 if wide else None)))
        return math.isfinite(float((shared.float() if wide else shared).sum()))
