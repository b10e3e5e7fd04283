"""The two noises that go by the name "20 % white noise", each named for what it is.

The paper's text speaks of white noise in every band of each pixel: `pixel_noise`. Its published
code draws one number per band and adds it to every pixel alike: `band_offset`. Standardizing each
band, as the paper does, removes the second one exactly; it only changes the random seed. The two
must therefore never share a table without their names.

In both, the scale is the published code's: ``level`` times the maximum of the band over the scene.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import rioxarray  # noqa: F401  (the .rio accessor)
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError
from polyad.scene.raster.scene import as_scene

AnyCube = TypeVar("AnyCube", NDArray[np.generic], xr.DataArray)


def pixel_noise(
    cube: AnyCube, level: float = 0.2, *, random_state: int | np.random.Generator
) -> AnyCube:
    r"""Add independent Gaussian noise to every band of every pixel (what the paper's text says).

    .. math:: \tilde x_{ijb} = x_{ijb} + \text{level} \cdot \max_{kl} x_{klb} \cdot
        \epsilon_{ijb}, \qquad \epsilon_{ijb} \sim \mathcal N(0, 1)

    Parameters
    ----------
    cube : ndarray or DataArray, shape (height, width, bands)
    level : float
        Standard deviation of the noise as a share of the band's maximum; 0.2 is the paper's 20 %.
    random_state : int or numpy Generator

    Returns
    -------
    ndarray or DataArray of float32, shape (height, width, bands)
        A noisy copy, held in memory. Pixels without data stay as they are.

    Examples
    --------
    >>> cube = np.full((100, 100, 2), 5.0)
    >>> noisy = pixel_noise(cube, level=0.2, random_state=0)
    >>> [round(float(noisy[..., b].std()), 1) for b in range(2)]
    [1.0, 1.0]
    """
    cube = _in_order(cube)
    rng = np.random.default_rng(random_state)
    values, keep, scale = _prepare(cube, level)
    for row, has_data in zip(values, keep, strict=True):  # row by row: the draws stay small
        noise = rng.standard_normal(row.shape, dtype=np.float32) * scale  # (width, bands)
        np.add(row, noise, out=row, where=has_data)
    return _like(cube, values)


def band_offset(
    cube: AnyCube, level: float = 0.2, *, random_state: int | np.random.Generator
) -> AnyCube:
    r"""Add one Gaussian draw per band to all pixels alike (what the paper's published code does).

    .. math:: \tilde x_{ijb} = x_{ijb} + \text{level} \cdot \max_{kl} x_{klb} \cdot
        \epsilon_b, \qquad \epsilon_b \sim \mathcal N(0, 1)

    Per-band standardization takes this offset away again, whatever was drawn.

    Parameters
    ----------
    cube : ndarray or DataArray, shape (height, width, bands)
    level : float
        Standard deviation of the draw as a share of the band's maximum.
    random_state : int or numpy Generator

    Returns
    -------
    ndarray or DataArray of float32, shape (height, width, bands)

    Examples
    --------
    >>> cube = np.ones((4, 4, 3))
    >>> bool((band_offset(cube, random_state=0).std(axis=(0, 1)) < 1e-6).all())
    True
    """
    cube = _in_order(cube)
    rng = np.random.default_rng(random_state)
    values, keep, scale = _prepare(cube, level)
    offset = rng.standard_normal(values.shape[-1], dtype=np.float32) * scale  # (bands,)
    np.add(values, offset, out=values, where=keep)
    return _like(cube, values)


def _in_order(cube: AnyCube) -> AnyCube:
    return cube if isinstance(cube, np.ndarray) else as_scene(cube)


def _prepare(
    cube: NDArray[np.generic] | xr.DataArray, level: float
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32]]:
    """Return a float32 copy, which entries hold data, and the noise's deviation per band."""
    if not np.isfinite(level) or level < 0:
        raise InputError(f"noise level must be a number >= 0 (0.2 is 20 %), got {level!r}")
    if cube.ndim != 3:
        raise InputError(f"noise wants a scene (height, width, bands), got shape {cube.shape}")
    raw = cube.to_numpy() if isinstance(cube, xr.DataArray) else cube
    values = raw.astype(np.float32)  # always a copy: the caller's scene is left alone
    keep = np.isfinite(values)
    nodata = cube.rio.nodata if isinstance(cube, xr.DataArray) else None
    if nodata is not None:
        keep &= raw != nodata
    largest = np.max(values, axis=(0, 1), where=keep, initial=-np.inf)  # (bands,)
    # Gaussian noise is symmetric, so that a negative maximum scales like its absolute value; a band
    # without data gets no noise.
    scale = np.float32(level) * np.where(np.isfinite(largest), np.abs(largest), 0)
    return values, keep, scale.astype(np.float32)


def _like(cube: AnyCube, values: NDArray[np.float32]) -> AnyCube:
    """Wrap ``values`` as ``cube`` was: same coordinates, attributes and georeference."""
    if isinstance(cube, xr.DataArray):
        return cube.copy(data=values)
    return values
