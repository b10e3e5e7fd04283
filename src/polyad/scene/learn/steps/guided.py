r"""The guided filter: probabilities smoothed along the scene's own structure.

In every square of side 2r + 1 the output is a linear function of the guide,
:math:`q = a^\top g + b`, fitted to the input by ridge regression; the functions of all squares that
hold a pixel are averaged (He, Sun & Tang 2013).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from polyad.errors import InputError
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
GROUP = 8  # maps filtered at a time, by one thread: memory does not grow with their number


def guided_filter(maps: Array, guide: Array, radius: int = 5, ridge: float = 0.01) -> Array:
    """Return maps ``(height, width, k)`` smoothed along ``guide`` ``(height, width, g)``.

    A pixel depends on those within ``2 * radius`` of it.

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
    lead = torch.from_numpy(np.ascontiguousarray(guide, np.float64))
    classes = maps.shape[2]
    smoothed = torch.empty(maps.shape, dtype=torch.float64)

    @torch.no_grad()
    def filter_some(group: slice) -> None:
        some = torch.from_numpy(np.ascontiguousarray(maps[..., group], np.float64))
        smoothed[..., group] = filtered(some, lead, radius, ridge)

    run_tasks(filter_some, [slice(k, k + GROUP) for k in range(0, classes, GROUP)])
    if not bool(torch.isfinite(smoothed).all()):
        raise InputError(
            f"maps and guide must be finite and the guide's {guide.shape[2]} components differ by "
            "more than rounding; raise ridge or scale the guide to unit variance"
        )
    return smoothed.numpy()


def filtered(maps: Tensor, guide: Tensor, radius: int, ridge: float) -> Tensor:
    """As `guided_filter`, on tensors of one precision ``(h, w, k)`` and ``(h, w, g)``.

    In single precision the guide must have a mean near zero: little is left of a variance that lies
    far from it.
    """
    k, g = maps.shape[2], guide.shape[2]
    upper = [(i, j) for i in range(g) for j in range(i, g)]
    pairs = [guide[..., i] * guide[..., j] for i, j in upper]
    cross = (guide[..., :, None] * maps[..., None, :]).flatten(2)  # (h, w, g * k)
    means = box_mean(torch.cat([maps, guide, torch.stack(pairs, dim=2), cross], dim=2), radius)
    mean_maps, mean_guide, mean_pairs, mean_cross = torch.split(
        means, [k, g, len(upper), g * k], dim=2
    )
    rows: list[list[Tensor]] = [[mean_guide] * g for _ in range(g)]  # of the covariance, (h, w)
    for at, (i, j) in enumerate(upper):
        value = mean_pairs[..., at] - mean_guide[..., i] * mean_guide[..., j]
        rows[i][j] = rows[j][i] = value + ridge if i == j else value
    right = [
        mean_cross[..., i * k : (i + 1) * k] - mean_guide[..., i : i + 1] * mean_maps
        for i in range(g)
    ]
    slopes = _solved(rows, right)  # of each component, (h, w, k)
    offset = mean_maps.clone()
    for i, slope in enumerate(slopes):
        offset -= mean_guide[..., i : i + 1] * slope
    means = box_mean(torch.cat([*slopes, offset], dim=2), radius)
    smoothed = means[..., g * k :].clone()
    for i in range(g):
        smoothed += guide[..., i : i + 1] * means[..., i * k : (i + 1) * k]
    return smoothed


def _solved(rows: list[list[Tensor]], right: list[Tensor]) -> list[Tensor]:
    """Solve one small positive system at each pixel by elimination.

    ``rows[i][j]`` are entries ``(h, w)``, and ``right[i]`` right sides ``(h, w, k)``.
    """
    g = len(rows)
    for i in range(g):
        for j in range(i + 1, g):
            share = rows[j][i] / rows[i][i]
            rows[j] = [low - share * high for low, high in zip(rows[j], rows[i], strict=True)]
            right[j] = right[j] - share[..., None] * right[i]
    for i in reversed(range(g)):
        for j in range(i + 1, g):
            right[i] = right[i] - rows[i][j][..., None] * right[j]
        right[i] = right[i] / rows[i][i][..., None]
    return right


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


def box_mean(values: Tensor, radius: int) -> Tensor:
    """Return means of ``(h, w, c)`` over squares of side ``2 * radius + 1``, cut off at the border.

    Examples
    --------
    >>> box_mean(torch.arange(4.0).reshape(1, 4, 1), 1).flatten().tolist()
    [0.5, 1.0, 2.0, 2.5]
    """
    planes = values[None].permute(0, 3, 1, 2)  # channels stay innermost
    for side, pad in (((2 * radius + 1, 1), (radius, 0)), ((1, 2 * radius + 1), (0, radius))):
        planes = avg_pool2d(planes, side, 1, pad, count_include_pad=False)
    return planes[0].permute(1, 2, 0)
