"""The bands of a scene: which are left out, and what a user is told of them.

Along its bands a scene may carry ``wavelength`` and ``fwhm`` in nm. Once some bands were left out,
it has ``number`` too, the place of each band in its file, counted from 1, and ``width`` in nm: the
``fwhm`` or, where that is untold, the distance to the next band of the file. The attributes
``bands_in_file`` and ``bands_left_out`` say how many there were and why some are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from polyad.errors import SceneError

if TYPE_CHECKING:
    import xarray as xr

IN_FILE, LEFT_OUT = "bands_in_file", "bands_left_out"
FLAGGED = "flagged as bad"
MOST_RUNS = 20  # of neighboring bands that are told


@dataclass(frozen=True)
class Bands:
    """The bands of a scene.

    Attributes
    ----------
    number : ndarray of int, ``(bands,)``
        Place of each band in its file, counted from 1.
    wavelength, fwhm : ndarray, ``(bands,)``, or None
        Center and width in nm, as the file tells them; NaN where it does not.
    width : ndarray, ``(bands,)``, or None
        Width in nm: ``fwhm`` or, where bands were left out and it is untold, the distance to the
        next band of the file.
    in_file : int
        How many bands the file has.
    left_out : str or None
        Which of them were left out and why; None if none were.
    """

    number: npt.NDArray[np.intp]
    wavelength: npt.NDArray[Any] | None
    fwhm: npt.NDArray[Any] | None
    width: npt.NDArray[Any] | None
    in_file: int
    left_out: str | None

    @classmethod
    def of(cls, scene: xr.DataArray) -> Bands:
        """Return the bands of an array with dim band."""
        along = {
            name: np.asarray(scene[name].values) if name in scene.coords else None
            for name in ("wavelength", "fwhm", "width")
        }
        if along["width"] is None:
            along["width"] = along["fwhm"]
        about = {IN_FILE: scene.sizes["band"], LEFT_OUT: None, **scene.attrs}
        return cls(
            band_numbers(scene), **along, in_file=int(about[IN_FILE]), left_out=about[LEFT_OUT]
        )

    @property
    def count(self) -> int:
        """How many bands the scene has."""
        return len(self.number)

    @property
    def note(self) -> str | None:
        """What a user is told of the bands that were left out; None if none were.

        Examples
        --------
        >>> import xarray as xr
        >>> scene = xr.DataArray(np.zeros((1, 1, 4)), dims=("y", "x", "band"))
        >>> Bands.of(keep_bands(scene, [True, False, False, True], "flagged as bad")).note
        '2 of 4: 2-3 flagged as bad'
        """
        if self.left_out is None:
            return None
        return f"{self.in_file - self.count} of {self.in_file}: {self.left_out}"


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
    >>> import xarray as xr
    >>> scene = xr.DataArray(np.zeros((1, 1, 4)), dims=("y", "x", "band"))
    >>> scene = keep_bands(scene, np.array([True, False, False, True]), "flagged as bad")
    >>> Bands.of(scene).left_out, scene["number"].values.tolist()
    ('2-3 flagged as bad', [1, 4])
    """
    keep = np.asarray(keep, bool)
    if keep.all():
        return scene
    bands = Bands.of(scene)
    scene = scene.assign_coords(number=("band", bands.number))
    if bands.wavelength is not None and "width" not in scene.coords:
        width = band_widths(np.asarray(bands.wavelength, float), bands.fwhm)
        scene = scene.assign_coords(width=("band", width))
    note = f"{named_bands(scene.isel(band=~keep))} {why}"
    if not keep.any():
        raise SceneError(
            f"no band of the scene is left of {len(keep)}: {note}; choose other bands or open a "
            "scene with usable ones"
        )
    left_out = note if bands.left_out is None else f"{bands.left_out}; {note}"
    return scene.isel(band=np.flatnonzero(keep)).assign_attrs(
        {IN_FILE: bands.in_file, LEFT_OUT: left_out}
    )


def band_widths(centers: npt.NDArray[Any], fwhm: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the width of each band in nm: as told, else the distance to its nearest neighbor.

    A single band of untold width has none: only a band at the same place is the same.

    Examples
    --------
    >>> band_widths(np.array([500.0, 510.0, 530.0]), None).tolist()
    [10.0, 10.0, 20.0]
    """
    spacing = np.zeros(len(centers))
    if len(centers) > 1:
        order = np.argsort(centers)
        steps = np.diff(centers[order])
        around = np.stack([np.append(steps[0], steps), np.append(steps, steps[-1])])
        spacing[order] = np.where(around > 0, around, np.inf).min(axis=0)
    if fwhm is None:
        return spacing
    known = np.isfinite(fwhm) & (np.asarray(fwhm) > 0)
    return np.where(known, fwhm, spacing)


def named_bands(scene: xr.DataArray) -> str:
    """Return the bands of ``scene`` by their numbers and, where known, wavelengths.

    Examples
    --------
    >>> import xarray as xr
    >>> coords = {"wavelength": ("band", [500.0, 1340.0, 1350.0]), "number": ("band", [3, 9, 10])}
    >>> scene = xr.DataArray(np.zeros((1, 1, 3)), dims=("y", "x", "band"), coords=coords)
    >>> named_bands(scene)
    '3 (500 nm), 9-10 (1340-1350 nm)'
    """
    nm = scene["wavelength"].values if "wavelength" in scene.coords else None
    return ranges_of_bands(band_numbers(scene), nm)


def ranges_of_bands(numbers: npt.NDArray[np.intp], wavelength: npt.ArrayLike | None) -> str:
    """Return bands by their numbers and, where known, wavelengths; see `named_bands`."""
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    nm = np.full(len(numbers), np.nan)
    if wavelength is not None:
        nm = np.asarray(wavelength, float)[order]
    runs = np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(numbers) > 1) + 1)
    names = []
    for run in runs[:MOST_RUNS]:
        known = np.isfinite(nm[run]).all()
        names.append(_range(numbers[run]) + (f" ({_range(nm[run])} nm)" if known else ""))
    names += [f"and {len(runs) - MOST_RUNS} more ranges"] if len(runs) > MOST_RUNS else []
    return ", ".join(names)


def _range(values: npt.NDArray[Any]) -> str:
    low, high = (f"{v:.0f}" for v in (values.min(), values.max()))
    return low if low == high else f"{low}-{high}"
