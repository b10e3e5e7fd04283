"""Scenes and class maps as pictures: arrays of uint8, shape (y, x, 3), and their PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from PIL import Image

from polyad.errors import InputError
from polyad.scene.raster.classes import ClassInfo, rgb
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.scene import Scene

BLANK = (240, 240, 240)
"""Color of pixels without measurement or without class: lighter than any class."""

RIGHT, WRONG = "#7FB2DC", "#C2410C"
"""Colors of pixels that a map has right and wrong: told apart by their lightness as well."""

_FALSE_COLOR_NM = (860.0, 650.0, 550.0)  # near infrared, red, green: living plants turn red
_TRUE_COLOR_NM = (640.0, 550.0, 460.0)
_REACH_NM = 60.0  # a band further away than this is another color
_SAMPLE = 1_000_000  # pixels that are enough to know percentiles

Pixels = npt.NDArray[Any]
RGBA = tuple[int, int, int, int]


def color_bands(scene: xr.DataArray | Scene, true_color: bool = False) -> tuple[int, int, int]:
    """Return the bands to show as red, green and blue.

    Parameters
    ----------
    scene : xarray.DataArray, dims (y, x, band)
        A scene; its ``wavelength`` coordinate (nm) is used if it has one.
    true_color : bool
        As the eye sees it, if the wavelengths are known; else near infrared, red and green.

    Returns
    -------
    (int, int, int)
        Band positions. Without wavelengths, or if they do not reach, bands at a half, a quarter
        and an eighth of the range: sensors begin in the blue, so this is close to it.

    Examples
    --------
    >>> color_bands(xr.DataArray(np.zeros((1, 1, 200)), dims=("y", "x", "band")))
    (100, 50, 25)
    """
    bands = Scene.of(scene).bands
    n = bands.count
    if bands.wavelength is not None:
        nm = np.asarray(bands.wavelength, dtype=float)
        wanted = np.array(_TRUE_COLOR_NM if true_color else _FALSE_COLOR_NM)
        distance = np.abs(nm[:, np.newaxis] - wanted)  # (bands, 3)
        if np.isfinite(distance).all() and (distance.min(axis=0) <= _REACH_NM).all():
            red, green, blue = (int(k) for k in distance.argmin(axis=0))
            return red, green, blue
    return n // 2, n // 4, n // 8


def false_color(
    scene: xr.DataArray | Scene,
    bands: Sequence[int] | None = None,
    percentiles: tuple[float, float] = (2.0, 98.0),
    *,
    true_color: bool = False,
) -> npt.NDArray[np.uint8]:
    """Return a picture of ``scene``, each channel stretched between two percentiles.

    Parameters
    ----------
    scene : xarray.DataArray, dims (y, x, band)
        A scene; only the three bands shown are read.
    bands : three int, optional
        Band positions for red, green and blue; by default those of `color_bands`.
    percentiles : (float, float)
        What becomes black and what becomes full color.
    true_color : bool
        See `color_bands`.

    Returns
    -------
    numpy.ndarray of uint8, shape (y, x, 3)
        Light gray where there is no measurement.
    """
    known = Scene.of(scene)
    chosen = color_bands(known, true_color) if bands is None else tuple(bands)
    n = known.bands.count
    if len(chosen) != 3 or not all(-n <= b < n for b in chosen):
        raise InputError(
            f"bands must be three positions between 0 and {n - 1} (red, green, blue), got {chosen}"
        )
    values = known.array.isel(band=list(chosen)).values  # (y, x, 3)
    seen = valid_pixels(values, known.nodata) & np.isfinite(values).all(axis=-1)
    with np.errstate(over="ignore"):  # what is infinite as float32 is not seen
        values = values.astype(np.float32)
    picture = np.zeros(values.shape, dtype=np.uint8)
    for channel in range(3):
        picture[..., channel] = _stretched(values[..., channel], seen, percentiles)
    picture[~seen] = BLANK
    return picture


def class_picture(ids: Pixels, classes: Sequence[ClassInfo]) -> npt.NDArray[np.uint8]:
    """Return class ids (y, x) in the colors of their classes; (y, x, 3), gray for the others.

    Examples
    --------
    >>> class_picture(np.array([[1, 0]]), [ClassInfo(1, "Corn", "#4477AA")]).tolist()
    [[[68, 119, 170], [240, 240, 240]]]
    """
    colors = np.full((65536, 3), BLANK, dtype=np.uint8)
    for c in classes:
        colors[c.value] = rgb(c.color)
    return colors[ids]


def error_picture(truth: Pixels, ids: Pixels, scored: Pixels) -> npt.NDArray[np.uint8]:
    """Return where a map is right and where it is wrong; (y, x, 4), clear where nobody knows.

    Parameters
    ----------
    truth, ids : array of int, shape (y, x)
        True classes and those of the map.
    scored : array of bool, shape (y, x)
        Which pixels count.

    Examples
    --------
    >>> seen = np.array([[True, True, False]])
    >>> error_picture(np.array([[1, 2, 0]]), np.array([[1, 1, 1]]), seen)[0, :, 3].tolist()
    [255, 255, 0]
    """
    picture = np.zeros((*truth.shape, 4), np.uint8)
    picture[scored] = (*rgb(WRONG), 255)
    picture[scored & (truth == ids)] = (*rgb(RIGHT), 255)
    return picture


def see_through(picture: npt.NDArray[np.uint8], blank: Pixels) -> npt.NDArray[np.uint8]:
    """Return a picture (y, x, 3) with a fourth channel: clear where ``blank``, else solid.

    Examples
    --------
    >>> see_through(np.full((1, 2, 3), 9, np.uint8), np.array([[True, False]])).tolist()
    [[[9, 9, 9, 0], [9, 9, 9, 255]]]
    """
    return np.dstack([picture, np.where(blank, 0, 255).astype(np.uint8)])


def _stretched(
    band: Pixels, seen: npt.NDArray[np.bool_], percentiles: tuple[float, float]
) -> npt.NDArray[np.uint8]:
    inside = band[seen]
    if not len(inside):
        return np.zeros(band.shape, dtype=np.uint8)
    low, high = np.percentile(inside[:: max(1, len(inside) // _SAMPLE)], percentiles)
    shown = np.clip((band - low) / max(high - low, np.finfo(np.float32).tiny), 0.0, 1.0)
    return np.where(seen, np.rint(255 * np.nan_to_num(shown)), 0).astype(np.uint8)


def encode_rgb(image: Pixels) -> bytes:
    r"""Return an array of uint8, shape (height, width, 3) or with alpha 4, as PNG.

    Examples
    --------
    >>> encode_rgb(np.zeros((1, 1, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    return _encode(Image.fromarray(np.ascontiguousarray(image, np.uint8)))


def encode_indexed(indices: Pixels, colors: Sequence[RGBA]) -> bytes:
    """Return indices of uint8, shape (height, width), in at most 256 colors, as PNG."""
    table = np.asarray(colors, np.uint8)  # (n, 4)
    picture = Image.fromarray(np.ascontiguousarray(indices, np.uint8))
    picture.putpalette(table[:, :3].tobytes())
    return _encode(picture, transparency=table[:, 3].tobytes())


def _encode(picture: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3, **options)  # quick: few leave this machine
    return buffer.getvalue()
