"""Which bands of a scene are used: those with data, and those in the wavelengths asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, SceneError
from polyad.scene.raster.bands import keep_bands
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import INSIDE, as_scene
from polyad.scene.raster.tiles import Tile, read_window, tile_shape

EMPTY, LOOKED_AT = "without data in any pixel", "bands_looked_at"
LOOKS = 32  # tiles of a large scene that are looked at for bands without data

Ranges = str | Sequence[tuple[float, float]]


def usable_bands(scene: xr.DataArray) -> xr.DataArray:
    """Return ``scene`` without the bands that have no data wherever the scene has data.

    Kept, one such band would leave no pixel with data in all bands. Tiles are read until every band
    has shown a value, as a rule one tile; of a large scene `LOOKS` of them, spread over it.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``

    Returns
    -------
    DataArray
        With a mark, so that it is not looked at again.

    Examples
    --------
    >>> values = np.ones((2, 2, 3))
    >>> values[..., 1] = np.nan
    >>> usable_bands(xr.DataArray(values, dims=("y", "x", "band"))).attrs["bands_left_out"]
    '2 without data in any pixel'
    """
    scene = as_scene(scene)
    if LOOKED_AT in scene.attrs or (scene.dtype.kind != "f" and scene.rio.nodata is None):
        return scene  # in the second case every value is a measurement
    empty = np.ones(scene.sizes["band"], bool)
    for tile in _looks(scene):
        left = np.flatnonzero(empty)
        values = read_window(scene.isel(band=left), tile)  # (h, w, bands left)
        empty[left] = ~valid_pixels(values[..., None], scene.rio.nodata).any(axis=(0, 1))
        if not empty.any():
            break
    # A scene without any data is told as what it is by whoever wants its pixels
    usable = scene if empty.all() else keep_bands(scene, ~empty, EMPTY)
    return usable.assign_attrs({LOOKED_AT: "yes"})


def _looks(scene: xr.DataArray) -> Iterator[Tile]:
    """Yield the tiles to look at, the middle of the scene first: its corners often have no data."""
    shape = scene.sizes["y"], scene.sizes["x"]
    # Four times as many bytes for a pixel as it has make tiles of a quarter of the usual size
    height, width = tile_shape(shape, 4 * scene.sizes["band"] * scene.dtype.itemsize)
    across = math.ceil(shape[1] / width)
    count = math.ceil(shape[0] / height) * across
    numbers = np.arange(count)
    if INSIDE in scene.coords:  # only where the scene is looked at
        down, right = np.nonzero(scene[INSIDE].values)
        numbers = np.unique(down // height * across + right // width)
    chosen = numbers[np.unique(np.linspace(0, len(numbers) - 1, LOOKS).astype(int))]
    for number in sorted(chosen, key=lambda n: abs(n - numbers[len(numbers) // 2])):
        y, x = (int(k) for k in divmod(number, across))
        rows = slice(y * height, min((y + 1) * height, shape[0]))
        yield Tile(rows, slice(x * width, min((x + 1) * width, shape[1])))


def select_bands(
    scene: xr.DataArray, bands: Ranges | None = None, drop_nm: Ranges | None = None
) -> xr.DataArray:
    """Return ``scene`` with the bands whose center lies in some wavelengths and not in others.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
        With wavelengths.
    bands : str or sequence of (low, high), optional
        Ranges in nm to keep, both ends included, as in ``"400-1300,1450-1800"``; all if not given.
    drop_nm : str or sequence of (low, high), optional
        Ranges in nm to leave out.

    Raises
    ------
    InputError
        The ranges cannot be understood.
    SceneError
        The scene has no wavelengths, or no band is left.

    Examples
    --------
    >>> coords = {"wavelength": ("band", [500.0, 900.0, 1400.0, 1900.0])}
    >>> scene = xr.DataArray(np.zeros((1, 1, 4)), dims=("y", "x", "band"), coords=coords)
    >>> select_bands(scene, "400-1500", drop_nm=[(1340, 1450)])["wavelength"].values.tolist()
    [500.0, 900.0]
    """
    scene = as_scene(scene)
    if bands is None and drop_nm is None:
        return scene
    if "wavelength" not in scene.coords:
        raise SceneError(
            "bands are chosen by wavelength, and the scene has none; add them to its header, or in "
            "Python take bands by number with scene.isel(band=...)"
        )
    centers = np.asarray(scene["wavelength"].values, float)
    keep = np.ones(len(centers), bool) if bands is None else _within(centers, parse_ranges(bands))
    if drop_nm is not None:
        keep &= ~_within(centers, parse_ranges(drop_nm))
    if not keep.any():
        raise SceneError(
            f"no band is left of {len(keep)} from {np.nanmin(centers):.0f} to "
            f"{np.nanmax(centers):.0f} nm; choose other wavelengths"
        )
    return keep_bands(scene, keep, "not chosen")


def parse_ranges(ranges: Ranges) -> list[tuple[float, float]]:
    """Return ranges of wavelengths as numbers.

    Examples
    --------
    >>> parse_ranges("400-1300, 1450.5-1800")
    [(400.0, 1300.0), (1450.5, 1800.0)]
    """
    if not isinstance(ranges, str):
        pairs = [(float(low), float(high)) for low, high in ranges]
    else:
        matches = [re.fullmatch(r"\s*([\d.]+)\s*-\s*([\d.]+)\s*", r) for r in ranges.split(",")]
        try:
            pairs = [(float(m[1]), float(m[2])) for m in matches if m]
        except ValueError:
            pairs = []
        pairs = pairs if len(pairs) == len(matches) else []
    if not pairs or any(low > high for low, high in pairs):
        raise InputError(
            f"wanted wavelengths in nm as ranges such as 400-1300,1450-1800, the smaller end "
            f"first, got {ranges!r}"
        )
    return pairs


def _within(
    centers: npt.NDArray[np.float64], ranges: Sequence[tuple[float, float]]
) -> npt.NDArray[np.bool_]:
    return np.any([(low <= centers) & (centers <= high) for low, high in ranges], axis=0)
