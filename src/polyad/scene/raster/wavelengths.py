"""Wavelengths in nanometers, whatever unit the file uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
