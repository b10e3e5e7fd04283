"""Where the pixels of a scene lie, and what readers of them share.

Nothing here imports xarray: the confined process that reads files starts at once.
"""

from __future__ import annotations

from collections.abc import Sequence
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


# Factor to nanometers of each spelling met in ENVI headers, NetCDF attributes and TIFF tags.
_TO_NM = {
    "nm": 1.0, "nanometer": 1.0, "nanometers": 1.0, "nanometre": 1.0, "nanometres": 1.0,
    "um": 1e3, "µm": 1e3, "μm": 1e3, "micron": 1e3, "microns": 1e3,
    "micrometer": 1e3, "micrometers": 1e3, "micrometre": 1e3, "micrometres": 1e3,
    "m": 1e9, "meter": 1e9, "meters": 1e9, "metre": 1e9, "metres": 1e9,
}  # fmt: skip


def known_factor(units: str | None) -> float | None:
    """Return the factor from a unit to nanometers, None for one that is not known.

    Examples
    --------
    >>> known_factor("Micrometers"), known_factor("Unknown")
    (1000.0, None)
    """
    return _TO_NM.get((units or "").strip().lower())


def nm_factor(values: NDArray[np.float64], units: str | None) -> float:
    """Return the factor that turns ``values`` into nanometers.

    An unknown unit is guessed from the size: optical sensors work between 0.3 and 15 micrometers,
    so that values below 100 are micrometers and values above are nanometers.

    Examples
    --------
    >>> nm_factor(np.array([0.4, 2.5]), "Micrometers"), nm_factor(np.array([400.0]), None)
    (1000.0, 1.0)
    """
    known = known_factor(units)
    if known is not None:
        return known
    return 1e3 if np.nanmax(values, initial=0.0) < 100 else 1.0


def to_nm(values: Sequence[float] | NDArray[np.float64], units: str | None) -> NDArray[np.float64]:
    """Return ``values`` in nanometers, shape ``(bands,)``.

    Examples
    --------
    >>> to_nm([0.4, 0.5], "um")
    array([400., 500.])
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    # Rounded to a millionth of a nanometer: 0.55 * 1000 is 550.0000000000001 otherwise.
    return np.round(array * nm_factor(array, units), 6)
