r"""How many points a sample needs, how they are shared out to strata, and which pixels they are.

With shares :math:`W_h` of the region, standard deviations :math:`S_h` and shares :math:`a_h` of the
sample, the overall accuracy of :math:`n` points has the variance (Cochran 1977, 5.5)

.. math:: V = \frac{1}{n} \sum_h \frac{W_h^2 S_h^2}{a_h} - \frac{1}{N} \sum_h W_h S_h^2 ,

which gives :math:`n` for a wanted :math:`V`. With Neyman's :math:`a_h \propto W_h S_h` and
:math:`S_h = \sqrt{U_h (1 - U_h)}` for an expected user's accuracy :math:`U_h` it is Eq. 13 of
Olofsson et al. (2014), which is Cochran's Eq. 5.25.

References
----------
Cochran, W. G. (1977). Sampling Techniques, third edition. Wiley.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError
from polyad.scene.assess.areas import Z95
from polyad.scene.raster.counting import STRIP_PIXELS, count_ids, iter_strips

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ALLOCATIONS = ("proportional", "equal", "optimal")


def allocation_shares(allocation: str, pixels: ArrayLike, deviations: ArrayLike) -> Floats:
    """Return which share of a sample each stratum gets.

    Parameters
    ----------
    allocation : {"proportional", "equal", "optimal"}
        By pixels; the same for all; or by pixels times deviation (Neyman).
    pixels : array_like, shape (H,)
        Of each stratum.
    deviations : array_like, shape (H,)
        Standard deviation of what is estimated within each stratum.

    Examples
    --------
    >>> allocation_shares("optimal", [600, 400], [0.2, 0.3]).tolist()
    [0.5, 0.5]
    """
    sizes, spread = np.asarray(pixels, np.float64), np.asarray(deviations, np.float64)
    if allocation not in ALLOCATIONS:
        raise InputError(
            f"unknown allocation {str(allocation)[:40]!r}; wanted one of {', '.join(ALLOCATIONS)}"
        )
    if allocation == "equal":
        wanted = np.ones(len(sizes))
    else:
        wanted = sizes if allocation == "proportional" or not spread.any() else sizes * spread
    return wanted / wanted.sum()


def accuracy_deviations(users_accuracy: ArrayLike) -> Floats:
    """Return the standard deviations of being right that user's accuracies give.

    Examples
    --------
    >>> accuracy_deviations([0.9, 0.5]).round(2).tolist()
    [0.3, 0.5]
    """
    users = np.asarray(users_accuracy, np.float64)
    if not ((users >= 0) & (users <= 1)).all():
        raise InputError(
            f"expected accuracies lie between 0 and 1, got {users.tolist()}; give shares, not "
            "percent"
        )
    return np.sqrt(users * (1 - users))


def accuracy_error(pixels: ArrayLike, deviations: ArrayLike, counts: ArrayLike) -> float:
    """Return the standard error of overall accuracy that a sample is expected to give."""
    sizes, spread, n = (np.asarray(a, np.float64) for a in (pixels, deviations, counts))
    shares = sizes / sizes.sum()
    return math.sqrt(float(((shares * spread) ** 2 * (1 - n / sizes) / n).sum()))


def size_for_error(
    standard_error: float, pixels: ArrayLike, deviations: ArrayLike, allocation: str = "optimal"
) -> int:
    """Return the number of points that gives overall accuracy a standard error.

    Parameters
    ----------
    standard_error : float
        Wanted; a margin of error is 1.96 of them.
    pixels, deviations, allocation
        See `allocation_shares`.

    Examples
    --------
    The example of Olofsson et al. (2014), section 5.1:

    >>> pixels = [200_000, 150_000, 3_200_000, 6_450_000]
    >>> size_for_error(0.01, pixels, accuracy_deviations([0.7, 0.6, 0.9, 0.95]))
    641
    """
    if not (math.isfinite(standard_error) and 0 < standard_error < 1):
        raise InputError(
            f"the margin of error must lie between 0 and 1, got {standard_error * Z95:.4g}; 0.03 "
            "is three percent points to either side"
        )
    sizes, spread = np.asarray(pixels, np.float64), np.asarray(deviations, np.float64)
    own, shares = allocation_shares(allocation, sizes, spread), sizes / sizes.sum()
    used = own > 0
    above = float(((shares * spread)[used] ** 2 / own[used]).sum())
    below = standard_error**2 + float((shares * spread**2).sum()) / sizes.sum()
    return min(max(math.ceil(above / below - 1e-9), 1), int(sizes.sum()))


def allocate(size: int, shares: ArrayLike, minimum: int = 2) -> Counts:
    """Share out points in whole numbers, each stratum at least ``minimum``.

    Strata whose share is smaller get the minimum, and the others what is left, by their shares
    (Olofsson et al. 2014, section 5.1.2); rounding is by largest remainders.

    Parameters
    ----------
    size : int
    shares : array_like, shape (H,)
        As `allocation_shares` gives them.
    minimum : int, default=2

    Returns
    -------
    ndarray of int, shape (H,)
        Its sum is ``size``.

    Examples
    --------
    >>> allocate(100, [0.9, 0.08, 0.02], minimum=10).tolist()
    [80, 10, 10]
    """
    own = np.asarray(shares, np.float64)
    if minimum < 2:
        raise InputError(f"minimum must be at least 2, got {minimum}: one point has no variance")
    if size < minimum * len(own):
        raise InputError(
            f"{size:,} points are too few for {len(own)} strata of at least {minimum} each; wanted "
            f"{minimum * len(own):,} or more"
        )
    fixed = np.zeros(len(own), bool)
    while True:
        rest = size - minimum * int(fixed.sum())
        free = own[~fixed].sum()
        wanted = np.where(fixed, minimum, rest * own / free if free > 0 else minimum)
        low = ~fixed & (wanted < minimum)
        if not low.any():
            break
        fixed |= low
    counts = np.floor(wanted + 1e-9).astype(np.int64)
    order = np.argsort(-(wanted - counts), kind="stable")
    counts[order[: size - int(counts.sum())]] += 1
    return counts


def allocate_within(size: int, shares: ArrayLike, pixels: ArrayLike, minimum: int = 2) -> Counts:
    """Share out points as `allocate` does; strata smaller than the minimum are sampled whole.

    Of such a stratum everything is known, so it adds nothing to any standard error.

    Parameters
    ----------
    size, shares, minimum
        See `allocate`.
    pixels : array_like of int, shape (H,)
        Of each stratum.

    Examples
    --------
    >>> allocate_within(20, [0.7, 0.299, 0.001], [700, 299, 1]).tolist()
    [13, 6, 1]
    """
    own, room = np.asarray(shares, np.float64), np.asarray(pixels, np.int64)
    whole = room < minimum
    if not whole.any():
        return allocate(size, own, minimum)
    least = int(np.minimum(room, minimum).sum())
    if minimum >= 2 and size < least:
        raise InputError(
            f"{size:,} points are too few for {len(own)} strata of at least {minimum} each, or all "
            f"of their pixels; wanted {least:,} or more"
        )
    counts = room.copy()
    if not whole.all():
        rest = own[~whole]
        even = rest.sum() <= 0  # all that counts is in the small ones
        rest = np.full(len(rest), 1 / len(rest)) if even else rest / rest.sum()
        counts[~whole] = allocate(size - int(room[whole].sum()), rest, minimum)
    return counts


def draw_pixels(
    strata: xr.DataArray,
    ids: Sequence[int],
    counts: ArrayLike,
    rng: np.random.Generator,
    *,
    where: xr.DataArray | None = None,
    strip_pixels: int = STRIP_PIXELS,
) -> NDArray[np.intp]:
    """Draw pixels of each stratum at random, without replacement.

    The raster is read twice, a few rows at a time: to count the pixels of each stratum, and to find
    those whose numbers were drawn. The draw does not depend on how many rows are read together.

    Parameters
    ----------
    strata : DataArray of int, dims (y, x)
    ids : sequence of int
        The strata to draw from.
    counts : array_like of int
        How many pixels of each.
    rng : numpy.random.Generator
    where : DataArray of int, dims (y, x), optional
        Only pixels at which it is not 0 are drawn.
    strip_pixels : int
        Read together.

    Returns
    -------
    ndarray of int, shape (n, 2)
        Rows and columns, stratum by stratum and in the order of the raster.

    Examples
    --------
    >>> halves = xr.DataArray(np.repeat([[1], [2]], 50, axis=1), dims=("y", "x"))
    >>> pixels = draw_pixels(halves, [1, 2], [3, 2], np.random.default_rng(0))
    >>> pixels[:, 0].tolist()
    [0, 0, 0, 1, 1]
    """
    mask = strata if where is None else where
    wanted = np.asarray(counts, np.int64)
    pixels = np.zeros(len(ids), np.int64)
    for _, (values, kept) in iter_strips(strata, mask, pixels=strip_pixels):
        pixels += count_ids(np.where(kept != 0, values, 0))[list(ids)]
    for value, n, size in zip(ids, wanted.tolist(), pixels.tolist(), strict=True):
        if n > size:
            raise InputError(f"stratum {value} has {size:,} pixels, and {n:,} points of it")
    ranks = [
        np.sort(rng.choice(int(size), int(n), replace=False))
        for n, size in zip(wanted, pixels, strict=True)
    ]
    drawn: list[list[NDArray[np.intp]]] = [[] for _ in ids]
    seen = np.zeros(len(ids), np.int64)
    width = strata.sizes["x"]
    for top, (values, kept) in iter_strips(strata, mask, pixels=strip_pixels):
        masked = np.where(kept != 0, values, 0)
        here = count_ids(masked)[list(ids)]
        for k, value in enumerate(ids):
            low, high = np.searchsorted(ranks[k], [seen[k], seen[k] + here[k]])
            if low < high:
                flat = np.flatnonzero(masked == value)[ranks[k][low:high] - seen[k]]
                drawn[k].append(np.stack([top + flat // width, flat % width], axis=1))
        seen += here
    pieces = [piece for own in drawn for piece in own]
    return np.concatenate(pieces) if pieces else np.empty((0, 2), np.intp)
