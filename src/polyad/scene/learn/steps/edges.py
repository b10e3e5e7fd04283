r"""Smoothing inside fields that stops at their edges: the recursive domain transform.

Along a row, a pixel takes over its neighbor's value with weight :math:`a^{d}`, where
:math:`d = 1 + \frac{\sigma_s}{\sigma_r} \sum_k |I_k(x) - I_k(x - 1)|` is the distance between the
two in space and in value (Gastal & Oliveira 2011). Rows and columns take turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from polyad.errors import InputError

Array = npt.NDArray[Any]


class EdgeFilter(TransformerMixin, BaseEstimator):
    """Smooth all components of a scene by their common edges. Needs the whole scene.

    Parameters
    ----------
    contrast : float, default=2.0
        Difference of neighbors, mean over the components, that counts as an edge. After
        whitening the unit is the noise's deviation.
    reach : float, default=200.0
        How many pixels far a flat region is smoothed.
    passes : int, default=3

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cube = np.repeat([[[0.0]] * 20 + [[50.0]] * 20], 30, axis=0)
    >>> smooth = EdgeFilter().fit_transform(cube + rng.normal(size=cube.shape))
    >>> bool(smooth[:, :20].std() < 0.5), bool(smooth[:, 20:].mean() - smooth[:, :20].mean() > 49)
    (True, True)
    """

    halo = None

    def __init__(self, contrast: float = 2.0, reach: float = 200.0, passes: int = 3) -> None:
        self.contrast = contrast
        self.reach = reach
        self.passes = passes

    def fit(self, cube: Array, y: object = None) -> EdgeFilter:  # noqa: ARG002
        """Do nothing: there is nothing to learn."""
        return self

    def transform(self, cube: Array) -> Array:
        """Return the scene ``(height, width, k)`` smoothed."""
        return domain_transform(cube, self.contrast * cube.shape[2], self.reach, self.passes)


def domain_transform(cube: Array, contrast: float, reach: float = 200.0, passes: int = 3) -> Array:
    """Smooth ``(height, width, k)``; ``contrast`` is sigma_r, ``reach`` is sigma_s."""
    across, down, bases = _distances(cube, contrast, reach, passes)
    smooth = cube.astype(np.result_type(cube, np.float32))  # a copy
    turned = np.empty((smooth.shape[1], smooth.shape[0], smooth.shape[2]), smooth.dtype)
    across = np.ascontiguousarray(across.swapaxes(0, 1))
    for base in bases:
        turned[:] = smooth.swapaxes(0, 1)  # columns one after the other in memory: twice as fast
        _sweep(turned, base**across)
        smooth[:] = turned.swapaxes(0, 1)
        _sweep(smooth, base**down)
    return smooth


def domain_transform_slow(
    cube: Array, contrast: float, reach: float = 200.0, passes: int = 3
) -> Array:
    """As `domain_transform`, pixel by pixel: the reference."""
    across, down, bases = _distances(cube, contrast, reach, passes)
    smooth = cube.astype(np.result_type(cube, np.float32))
    height, width = cube.shape[:2]
    for base in bases:
        for y in range(height):
            for x in range(1, width):
                a = base ** across[y, x - 1]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y, x - 1]
            for x in range(width - 2, -1, -1):
                a = base ** across[y, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y, x + 1]
        for x in range(width):
            for y in range(1, height):
                a = base ** down[y - 1, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y - 1, x]
            for y in range(height - 2, -1, -1):
                a = base ** down[y, x]
                smooth[y, x] = (1 - a) * smooth[y, x] + a * smooth[y + 1, x]
    return smooth


def _distances(
    cube: Array, contrast: float, reach: float, passes: int
) -> tuple[Array, Array, list[float]]:
    """Return distances along x and y, each with one entry at the end, and each pass's base a."""
    if contrast <= 0 or reach <= 0 or passes < 1:
        raise InputError(
            f"contrast and reach must be above 0 and passes at least 1, got {contrast}, {reach}, "
            f"{passes}"
        )
    steps = [np.abs(np.diff(cube, axis=axis)).sum(axis=2, keepdims=True) for axis in (1, 0)]
    across, down = (1 + reach / contrast * step for step in steps)
    # Each pass reaches half as far, so that no stripes of the sweeps remain; together sigma_s
    norm = np.sqrt(3.0 / (4.0**passes - 1))
    sigmas = [reach * norm * 2 ** (passes - 1 - k) for k in range(passes)]
    return across, down, [float(np.exp(-np.sqrt(2) / sigma)) for sigma in sigmas]


def _sweep(rows: Array, weight: Array) -> None:
    """Run the recursive filter forth and back along the first axis, in place."""
    step = np.empty(rows.shape[1:], rows.dtype)
    for k in range(1, len(rows)):
        np.subtract(rows[k - 1], rows[k], out=step)
        step *= weight[k - 1]
        rows[k] += step
    for k in range(len(rows) - 2, -1, -1):
        np.subtract(rows[k + 1], rows[k], out=step)
        step *= weight[k]
        rows[k] += step
