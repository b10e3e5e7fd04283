"""Targets: the numbers that a model predicts and a map of values holds, by name, unit and bounds.

Values of a scene are a DataArray of float32 with dims ``(y, x, target)``, NaN where nothing is
known. Names are the coordinate ``target``, units the coordinate ``units`` along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError
from polyad.scene.files.option_values import check_bounds
from polyad.text import clean_name

LARGEST, SMALLEST = 1e30, 1e-30  # values that single precision leaves room to compute with
VALUE_DIMS = ("y", "x", "target")
MOST_TARGETS = 64


class Target(NamedTuple):
    """A number that is predicted.

    Attributes
    ----------
    name : str
    units : str
        "" where it has none, or they are not known.
    low, high : float or None
        Bounds that a prediction never leaves.
    """

    name: str
    units: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def title(self) -> str:
        """Name and unit, as an axis has them."""
        return f"{self.name} [{self.units}]" if self.units else self.name


def as_values(values: Any) -> xr.DataArray:
    """Return values with dims ``(y, x, target)``; one target may come without its dimension.

    Parameters
    ----------
    values : DataArray of numbers, dims ``(y, x)`` or ``(y, x, target)``
        NaN where nothing is known; a name of its own is that of the one target.

    Examples
    --------
    >>> plain = xr.DataArray(np.ones((2, 3)), dims=("x", "y"), name="cover")
    >>> [str(name) for name in as_values(plain)["target"].values]
    ['cover']
    """
    if not isinstance(values, xr.DataArray) or values.dtype.kind not in "iuf":
        got = values.dtype if isinstance(values, xr.DataArray) else type(values).__name__
        raise InputError(
            f"wanted values as a DataArray of numbers with dims (y, x) or (y, x, target), got {got}"
        )
    if set(values.dims) == {"y", "x"}:
        name = "value" if values.name is None else str(values.name)
        values = values.expand_dims(target=[name])
    if set(values.dims) != set(VALUE_DIMS):
        raise InputError(f"values have dims (y, x) or (y, x, target), got {values.dims}")
    if "target" not in values.coords:
        names = [f"value {k + 1}" for k in range(values.sizes["target"])]
        values = values.assign_coords(target=names)
    if not 1 <= values.sizes["target"] <= MOST_TARGETS:
        raise InputError(f"wanted 1 to {MOST_TARGETS} targets, got {values.sizes['target']}")
    return values.transpose(*VALUE_DIMS)


def target_table(values: xr.DataArray, bounds: Sequence[float] | None = None) -> tuple[Target, ...]:
    """Return the targets of values; ``bounds`` hold for all of them."""
    low, high = (None, None) if bounds is None else check_bounds(bounds)
    names = [clean_name(str(name)) for name in values["target"].values]
    if len(set(names)) < len(names):
        raise InputError(f"targets must have different names, got {', '.join(names)}")
    told = "units" in values.coords and values["units"].dims == ("target",)
    units = values["units"].values.tolist() if told else [""] * len(names)
    return tuple(
        Target(n, clean_name(str(u)) if u else "", low, high)
        for n, u in zip(names, units, strict=True)
    )


def size_fault(numbers: NDArray[Any]) -> str | None:
    """Return what is wrong with the size of a target's numbers, ``(n,)``, in words, or None.

    Examples
    --------
    >>> size_fault(np.array([0.5, 1e300]))
    'wanted numbers from -1e+30 to 1e+30, got 1e+300; give them in other units'
    >>> size_fault(np.array([0.0, np.nan, 7.0]))
    """
    known = numbers[np.isfinite(numbers)].astype(np.float64)
    farthest = float(known[np.abs(known).argmax()]) if len(known) else 0.0
    if abs(farthest) > LARGEST:
        return (
            f"wanted numbers from {-LARGEST:g} to {LARGEST:g}, got {farthest:g}; give them in "
            "other units"
        )
    if 0 < abs(farthest) < SMALLEST:
        return (
            f"wanted numbers of which some reach {SMALLEST:g}, got none beyond {farthest:g}; give "
            "them in other units"
        )
    return None


def clipped(values: NDArray[Any], targets: Sequence[Target]) -> NDArray[Any]:
    """Return values ``(..., targets)`` within the targets' bounds; NaN stays.

    What is measured lies within them, so the nearest value there is never farther from it.

    Examples
    --------
    >>> clipped(np.array([[-0.2, 7.0]]), [Target("cover", "", 0.0, 1.0), Target("height")])
    array([[0., 7.]])
    """
    low = np.array([-np.inf if t.low is None else t.low for t in targets], values.dtype)
    high = np.array([np.inf if t.high is None else t.high for t in targets], values.dtype)
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return values
    return np.clip(values, low, high)
