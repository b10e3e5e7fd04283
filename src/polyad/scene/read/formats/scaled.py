"""Pixels that are stored as scaled whole numbers, one gain and offset for each band."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyad.scene.raster.sources import Array, PixelSource

SCALING = "scaling"  # attribute of a scene: what was done to the stored values


@dataclass(frozen=True)
class ScaledSource:
    """``gain * stored + offset`` of another source, float32; NaN where that has nodata.

    Parameters
    ----------
    stored : PixelSource
        The pixels as they are in the file.
    order : tuple of int
        Which band of the file each band is.
    gain, offset : tuple of float
        Of each band, in the same order as ``order``.
    nodata : float, optional
        Stored value for "no measurement".
    """

    stored: PixelSource
    order: tuple[int, ...]
    gain: tuple[float, ...]
    offset: tuple[float, ...]
    nodata: float | None

    @property
    def path(self) -> Path | str:
        """The file."""
        return self.stored.path

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        return (*self.stored.shape[:2], len(self.order))

    @property
    def dtype(self) -> np.dtype:
        """Physical values are float32."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        stored = self.stored.read(rows, cols, np.asarray(self.order)[bands])
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 there is no data
            gain, offset = (np.asarray(v, np.float32)[bands] for v in (self.gain, self.offset))
            values = stored.astype(np.float32) * gain + offset
        if self.nodata is not None:
            values[stored == self.nodata] = np.nan
        return values
