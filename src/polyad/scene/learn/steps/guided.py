r"""The guided filter: probabilities smoothed along the scene's own structure.

In every square of side 2r + 1 the output is a linear function of the guide,
:math:`q = a^\top g + b`, fitted to the input by ridge regression; the functions of all squares that
hold a pixel are averaged (He, Sun & Tang 2013).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.errors import InputError

Array = npt.NDArray[Any]


def guided_filter(maps: Array, guide: Array, radius: int = 5, ridge: float = 0.01) -> Array:
    """Return maps ``(height, width, k)`` smoothed along ``guide`` ``(height, width, g)``.

    A pixel depends on those within ``2 * radius`` of it. The filter works by running sums: its
    cost does not depend on ``radius``.

    Parameters
    ----------
    maps, guide : ndarray
    radius : int, default=5
    ridge : float, default=0.01
        In units of the guide's variance; larger smooths more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> guide = np.repeat([[[0.0]] * 15 + [[1.0]] * 15], 30, axis=0)
    >>> smooth = guided_filter(guide + rng.normal(size=guide.shape) / 3, guide)
    >>> bool(np.abs(smooth - guide).max() < 0.2)
    True
    """
    if radius < 1 or ridge <= 0:
        raise InputError(f"radius must be at least 1 and ridge above 0, got {radius}, {ridge}")
    maps, guide = maps.astype(np.float64), guide.astype(np.float64)
    k, g = maps.shape[2], guide.shape[2]
    count = box_sum(np.ones((*maps.shape[:2], 1)), radius)
    upper = [(i, j) for i in range(g) for j in range(i, g)]
    pairs = np.stack([guide[..., i] * guide[..., j] for i, j in upper], axis=-1)
    cross = (guide[..., :, None] * maps[..., None, :]).reshape(*maps.shape[:2], g * k)
    means = box_sum(np.concatenate([maps, guide, pairs, cross], axis=-1), radius) / count
    mean_maps, mean_guide, mean_pairs, mean_cross = np.split(
        means, np.cumsum([k, g, len(upper)]), axis=-1
    )
    covariance = np.empty((*maps.shape[:2], g, g))
    for at, (i, j) in enumerate(upper):
        value = mean_pairs[..., at] - mean_guide[..., i] * mean_guide[..., j]
        covariance[..., i, j] = covariance[..., j, i] = value
    covariance += ridge * np.eye(g)
    shared = mean_cross.reshape(*maps.shape[:2], g, k)
    shared = shared - mean_guide[..., :, None] * mean_maps[..., None, :]
    try:
        slope = np.linalg.solve(covariance, shared)  # (h, w, g, k)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"the guide's {g} components must differ by more than rounding, got a singular "
            "covariance; raise ridge or scale the guide to unit variance"
        ) from error
    offset = mean_maps - np.einsum("hwg,hwgk->hwk", mean_guide, slope)
    both = np.concatenate([slope.reshape(*maps.shape[:2], g * k), offset], axis=-1)
    both = box_sum(both, radius) / count
    slope = both[..., : g * k].reshape(*maps.shape[:2], g, k)
    return np.einsum("hwg,hwgk->hwk", guide, slope) + both[..., g * k :]


def guided_filter_slow(maps: Array, guide: Array, radius: int = 5, ridge: float = 0.01) -> Array:
    """As `guided_filter`, square by square with a regression in each: the reference."""
    height, width, g = guide.shape
    total, count = np.zeros(maps.shape), np.zeros((height, width, 1))
    for y in range(height):
        for x in range(width):
            rows = slice(max(y - radius, 0), y + radius + 1)
            cols = slice(max(x - radius, 0), x + radius + 1)
            a, b = guide[rows, cols].reshape(-1, g), maps[rows, cols].reshape(-1, maps.shape[2])
            centered = a - a.mean(axis=0)
            slope = np.linalg.solve(
                centered.T @ centered / len(a) + ridge * np.eye(g), centered.T @ b / len(a)
            )
            fitted = centered @ slope + b.mean(axis=0)
            total[rows, cols] += fitted.reshape(total[rows, cols].shape)
            count[rows, cols] += 1
    return total / count


def box_sum(values: Array, radius: int) -> Array:
    """Return sums over squares of side ``2 * radius + 1``, cut off at the border."""
    for axis in (0, 1):
        size = values.shape[axis]
        sums = np.cumsum(values, axis=axis, dtype=np.float64)
        sums = np.concatenate([np.zeros_like(sums.take([0], axis=axis)), sums], axis=axis)
        last = np.minimum(np.arange(size) + radius + 1, size)
        first = np.maximum(np.arange(size) - radius, 0)
        values = sums.take(last, axis=axis) - sums.take(first, axis=axis)
    return values
