r"""The bands that a model was fitted on, found in a scene by their wavelengths.

A scene may have more bands than the model wants, or have them in another order. A band whose center
lies within a tenth of the wanted band's width counts as the same. Within half of the width, the
value at the wanted center is interpolated between the two bands around it,
:math:`x(\lambda) = (1 - t) x_a + t x_b`. Anything farther is another band.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneMismatch
from polyad.scene.raster.bands import band_numbers
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import lazy_scene

Array = npt.NDArray[Any]
SAME, NEAR = 0.1, 0.5  # of a band's width


@dataclass(frozen=True)
class BandMatch:
    """Where the wanted bands lie among those of a scene.

    Attributes
    ----------
    first, second : ndarray of int, ``(wanted,)``
        The two bands of the scene that a wanted band is made from.
    share : ndarray, ``(wanted,)``
        Of the second of them; 0 where the first is taken as it is.
    shift : float
        The largest distance in nm between a wanted band and the nearest one of the scene.
    """

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    share: npt.NDArray[np.float64]
    shift: float

    @property
    def interpolated(self) -> int:
        """How many bands are made from two."""
        return int(np.count_nonzero(self.share))


def match_bands(wanted: Array, widths: Array, centers: Array) -> BandMatch:
    """Find the bands at ``wanted`` wavelengths among those of a scene at ``centers``.

    Parameters
    ----------
    wanted : ndarray, ``(wanted,)``
        Centers in nm.
    widths : ndarray, ``(wanted,)``
        Of these bands, in nm.
    centers : ndarray, ``(bands,)``
        Of the scene, in any order.

    Raises
    ------
    SceneMismatch
        A wanted band is farther than half its width from every band of the scene.

    Examples
    --------
    >>> match = match_bands(np.array([500.0, 603.0]), np.array([10.0, 10.0]),
    ...                     np.array([600.0, 610.0, 500.5]))
    >>> match.first.tolist(), match.second.tolist(), match.share.tolist(), match.shift
    ([2, 0], [2, 1], [0.0, 0.3], 3.0)
    """
    order = np.argsort(centers, kind="stable")  # unknown ones, NaN, last
    order = order[: np.count_nonzero(np.isfinite(centers))]
    if not len(order):
        raise SceneMismatch("the scene does not tell the wavelength of any band; train a new model")
    above = np.searchsorted(centers[order], wanted)
    low, high = (order[np.clip(above + k, 0, len(order) - 1)] for k in (-1, 0))
    below = np.abs(wanted - centers[low]) < np.abs(wanted - centers[high])
    nearest = np.where(below, low, high)
    shift = np.abs(wanted - centers[nearest])
    far = ~(shift < NEAR * widths) & (shift > 0)
    if far.any():
        worst = int(np.flatnonzero(far)[shift[far].argmax()])
        raise SceneMismatch(
            f"model wants {len(wanted)} bands{span(wanted)}, scene has {len(centers)}"
            f"{span(centers)}: the nearest to the model's band at {wanted[worst]:.1f} nm, "
            f"{widths[worst]:.1f} nm wide, is {shift[worst]:.1f} nm away; give the scene the bands "
            "the model was trained on, as with gdal_translate -b, or train a model on this scene"
        )
    first, second, share = nearest.copy(), nearest.copy(), np.zeros(len(wanted))
    _check_apart(wanted, nearest)
    # Beyond the scene's range the nearest band is taken
    between = (shift > SAME * widths) & (above > 0) & (above < len(order))
    first[between], second[between] = low[between], high[between]
    step = centers[high[between]] - centers[low[between]]
    share[between] = (wanted[between] - centers[low[between]]) / step
    return BandMatch(first, second, share, float(shift.max(initial=0.0)))


def _check_apart(wanted: Array, nearest: npt.NDArray[np.intp]) -> None:
    """Refuse two bands of a model that would be one band of the scene."""
    order = np.argsort(nearest, kind="stable")
    twice = np.flatnonzero(np.diff(nearest[order]) == 0)
    if len(twice):
        low, high = sorted(float(wanted[order[twice[0] + k]]) for k in (0, 1))
        raise SceneMismatch(
            f"two bands of the model, at {low:.1f} and {high:.1f} nm, are nearest to one band of "
            "the scene; resample the scene to the model's bands, or train a model on this scene"
        )


def scene_in_bands(scene: xr.DataArray, match: BandMatch, wanted: Array) -> xr.DataArray:
    """Return ``scene`` with the bands of a match, at ``wanted`` wavelengths; nothing is read.

    Bands that are only chosen or put in another order are the scene's own; where one has to be
    interpolated, all are float32, with NaN where there is no data.
    """
    if not match.interpolated:
        same = len(match.first) == scene.sizes["band"] and bool((np.diff(match.first) == 1).all())
        return scene if same else scene.isel(band=match.first)
    own = scene.isel(band=match.first)
    numbers = band_numbers(own)
    source = ResampledSource(scene, match)
    place = {k: v for k, v in scene.coords.items() if "band" not in v.dims}
    resampled = lazy_scene(source, wavelength=np.asarray(wanted, float), nodata=np.nan)
    return resampled.assign_coords(place).assign_coords(number=("band", numbers))


@dataclass(frozen=True)
class ResampledSource:
    """The pixels of a scene at the wavelengths of a match, float32; NaN where there is no data."""

    scene: xr.DataArray
    match: BandMatch

    @property
    def path(self) -> Path:
        """The scene's file, for error messages."""
        return Path(str(self.scene.encoding.get("source", "scene")))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and wanted bands."""
        return self.scene.sizes["y"], self.scene.sizes["x"], len(self.match.first)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single precision."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: npt.NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        first, second, share = (
            a[bands] for a in (self.match.first, self.match.second, self.match.share)
        )
        needed, place = np.unique(np.concatenate([first, second]), return_inverse=True)
        stored = self.scene.isel(y=rows, x=cols, band=needed).values
        with np.errstate(over="ignore"):  # what is infinite as float32 is no data
            values = stored.astype(np.float32)
        values[~valid_pixels(stored[..., None], self.scene.rio.nodata)] = np.nan
        a, b = values[..., place[: len(first)]], values[..., place[len(first) :]]
        return np.where(share > 0, (1 - share) * a + share * b, a).astype(np.float32)


def span(wavelength: Any) -> str:
    """Return the range of wavelengths as words, "" where it is not known.

    Examples
    --------
    >>> span([418.2, 2445.5])
    ' (418 to 2446 nm)'
    """
    centers = np.asarray([] if wavelength is None else wavelength, float)
    centers = centers[np.isfinite(centers)]
    return f" ({centers.min():.0f} to {centers.max():.0f} nm)" if len(centers) else ""
