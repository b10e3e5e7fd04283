"""Spectra of the labeled pixels, of which only new ones are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.app.label_state import Pixel
from polyad.app.session import Snapshot
from polyad.scene.raster.windows import extract_patches

Array = npt.NDArray[Any]


class LabelSpectra:
    """Reads the spectra of labels once, and keeps them as long as the labels stay.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    window : int
        Side of the window whose mean the advice compares.
    """

    def __init__(self, scene: xr.DataArray, window: int) -> None:
        self._scene, self.window = scene, window
        self._known: dict[Pixel, tuple[Array, Array]] = {}

    def class_means(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return the mean spectrum and the number of labels of each class, as JSON types."""
        self._read(snapshot)
        spectra: dict[int, list[Array]] = {}
        for pixel in sorted(snapshot.labels):
            spectra.setdefault(snapshot.labels[pixel], []).append(self._known[pixel][0])
        return {
            str(value): {"count": len(some), "mean": plain_floats(np.mean(some, axis=0))}
            for value, some in sorted(spectra.items())
        }

    def window_means(self, snapshot: Snapshot) -> Array:
        """Return the mean spectrum around each label, ``(labels, bands)``."""
        self._read(snapshot)
        means = [self._known[pixel][1] for pixel in sorted(snapshot.labels)]
        return np.nan_to_num(np.array(means))

    def _read(self, snapshot: Snapshot) -> None:
        """Read what is not known yet, and forget what is no longer labeled."""
        known = {pixel: self._known[pixel] for pixel in snapshot.labels if pixel in self._known}
        new = sorted(snapshot.labels.keys() - known.keys())
        if new:
            rows, cols = np.array(new).T
            patches = extract_patches(self._scene, rows, cols, self.window).astype(np.float32)
            middle = self.window // 2
            center, mean = patches[:, middle, middle], patches.mean(axis=(1, 2))
            known |= {pixel: (center[k].copy(), mean[k]) for k, pixel in enumerate(new)}
        self._known = known


def plain_floats(values: Array) -> list[float | None]:
    """Return numbers for JSON, with None for NaN and infinity.

    Examples
    --------
    >>> plain_floats(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]
