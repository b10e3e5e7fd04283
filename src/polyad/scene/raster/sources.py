"""Where the pixels of a scene lie, and what readers of them share.

Nothing here imports xarray: the confined process that reads files starts at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Names of the three axes met in products and in files that people write themselves.
AXES = {
    "y": {"y", "lat", "latitude", "northing", "row", "rows", "line", "lines", "downtrack"},
    "x": {"x", "lon", "longitude", "easting", "col", "cols", "column", "columns", "sample",
          "samples", "crosstrack"},
    "band": {"band", "bands", "wavelength", "wavelengths", "wl", "lambda", "channel", "channels",
             "spectral", "number_of_bands"},
}  # fmt: skip
WAVELENGTHS = ("wavelength", "wavelengths", "wl", "lambda", "center_wavelength")
DEGREES = {"lat", "latitude", "lon", "longitude"}


class PixelSource(Protocol):
    """Where the pixels of a scene lie."""

    @property
    def path(self) -> Path | str:
        """The file, or an address, for error messages."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""

    @property
    def dtype(self) -> np.dtype:
        """Element type of what `read` returns."""

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``; the slices have start, stop, step 1."""


def consecutive(positions: NDArray[np.intp]) -> bool:
    """Return whether each position follows the one before it."""
    return bool(np.all(np.diff(positions) == 1))


def hull(positions: NDArray[np.intp]) -> tuple[slice, NDArray[np.intp]]:
    """Return the smallest slice over ``positions`` and where they stand inside it.

    Examples
    --------
    >>> hull(np.array([5, 3]))
    (slice(3, 6, None), array([2, 0]))
    """
    start = int(positions.min())
    return slice(start, int(positions.max()) + 1), positions - start


def pick(window: Array, bands: NDArray[np.intp]) -> Array:
    """Return the ``bands`` of a window, shape ``(rows, cols, bands)``; all of them cost nothing."""
    if len(bands) == window.shape[2] and consecutive(bands):
        return window
    return window[..., bands]


def representable(value: float | None, dtype: np.dtype) -> Any:
    """Return ``value`` as an element of ``dtype``, or None if no element can equal it.

    Examples
    --------
    >>> int(representable(-9999, np.dtype("int16")))
    -9999
    >>> representable(-9999, np.dtype("uint16")) is None
    True
    """
    if value is None:
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            element = dtype.type(value)
        return None if np.isfinite(value) and not np.isfinite(element) else element
    if dtype.kind not in "iu" or not np.isfinite(value) or value != int(value):
        return None
    limits = np.iinfo(dtype)
    return dtype.type(int(value)) if limits.min <= value <= limits.max else None
