"""The bands of a scene: which are left out, and what a user is told of them.

Along its bands a scene may carry ``wavelength`` and ``fwhm`` in nm, and, once some bands were left
out, ``number``: the place of each band that stayed in its file, counted from 1. The attributes
``bands_in_file`` and ``bands_left_out`` say how many there were and why some are gone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneError

IN_FILE, LEFT_OUT = "bands_in_file", "bands_left_out"
FLAGGED = "flagged as bad"


def band_numbers(scene: xr.DataArray) -> npt.NDArray[np.intp]:
    """Return the place of each band in its file, counted from 1, ``(bands,)``."""
    if "number" in scene.coords:
        return np.asarray(scene["number"].values, np.intp)
    return np.arange(1, scene.sizes["band"] + 1)


def keep_bands(scene: xr.DataArray, keep: npt.ArrayLike, why: str) -> xr.DataArray:
    """Return ``scene`` with some of its bands, and a note of those that were left out.

    Parameters
    ----------
    scene : DataArray with dim band
    keep : bool array of shape (bands,)
    why : str
        Why the others are left out.

    Raises
    ------
    SceneError
        If no band is left.

    Examples
    --------
    >>> scene = xr.DataArray(np.zeros((1, 1, 4)), dims=("y", "x", "band"))
    >>> scene = keep_bands(scene, np.array([True, False, False, True]), "flagged as bad")
    >>> scene.attrs["bands_left_out"], scene["number"].values.tolist()
    ('bands 2-3 (flagged as bad)', [1, 4])
    """
    keep = np.asarray(keep, bool)
    if keep.all():
        return scene
    scene = scene.assign_coords(number=("band", band_numbers(scene)))
    said = f"{named_bands(scene.isel(band=~keep))} ({why})"
    if not keep.any():
        raise SceneError(f"no band of the scene is left: {said}; open a scene with usable bands")
    notes = [note for note in (scene.attrs.get(LEFT_OUT), said) if note]
    total = scene.attrs.get(IN_FILE, scene.sizes["band"])
    return scene.isel(band=np.flatnonzero(keep)).assign_attrs(
        {IN_FILE: int(total), LEFT_OUT: "; ".join(notes)}
    )


def named_bands(scene: xr.DataArray) -> str:
    """Return the bands of ``scene`` by their numbers and, where known, wavelengths.

    Examples
    --------
    >>> coords = {"wavelength": ("band", [500.0, 1340.0, 1350.0])}
    >>> scene = xr.DataArray(np.zeros((1, 1, 3)), dims=("y", "x", "band"), coords=coords)
    >>> named_bands(scene)
    'bands 1-3, 500 to 1350 nm'
    """
    centers = scene["wavelength"].values if "wavelength" in scene.coords else None
    numbers = runs(band_numbers(scene))
    if centers is None or not np.isfinite(centers).all():
        return f"bands {numbers}"
    return f"bands {numbers}, {centers.min():.0f} to {centers.max():.0f} nm"


def runs(numbers: npt.ArrayLike) -> str:
    """Return whole numbers as ranges.

    Examples
    --------
    >>> runs([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    ordered = sorted({int(n) for n in np.atleast_1d(numbers)})
    starts = [ordered[0], *(b for a, b in pairwise(ordered) if b > a + 1)]
    stops = [*(a for a, b in pairwise(ordered) if b > a + 1), ordered[-1]]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, stops, strict=True))


def left_out_line(scene: xr.DataArray) -> str | None:
    """Return what a user is told of the bands that were left out; None if none were."""
    if LEFT_OUT not in scene.attrs:
        return None
    total: Any = scene.attrs[IN_FILE]
    return f"{total - scene.sizes['band']} of {total} bands left out: {scene.attrs[LEFT_OUT]}"
