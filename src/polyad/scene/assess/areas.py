r"""Areas and accuracies of a map from a probability sample, with standard errors.

One estimator serves three designs. In stratum :math:`h` with :math:`N_h` pixels, :math:`n_h` of
them sampled, and the share :math:`W_h` of the region's area, the share of the region for which an
indicator :math:`y` holds is (Stehman 2014, Eqs. 3 and 25)

.. math::

    \hat{Y} = \sum_h W_h \bar{y}_h, \qquad
    \hat{V}(\hat{Y}) = \sum_h W_h^2 \left(1 - \frac{n_h}{N_h}\right) \frac{s_{yh}^2}{n_h},

and user's and producer's accuracy are ratios :math:`\hat{R} = \hat{Y} / \hat{X}` of two of them
with the variance of the residuals :math:`y - \hat{R} x` (Eqs. 27 and 28). Where the strata are the
classes of the map, these are Eqs. 4 to 11 of Olofsson et al. (2014), and with the map's classes as
strata made afterwards they are the post-stratified estimators of a simple random sample, given how
many points fell into each class (Holt and Smith 1979), as Olofsson et al. use them too.

Where pixels differ in size, as on a grid of degrees, means are weighted by area, which makes each
stratum's mean a ratio; areas then still add up to the region.

References
----------
Olofsson, P., Foody, G. M., Herold, M., Stehman, S. V., Woodcock, C. E. and Wulder, M. A. (2014).
Good practices for estimating area and assessing accuracy of land change. Remote Sensing of
Environment 148, 42-57. doi:10.1016/j.rse.2014.02.015

Stehman, S. V. (2014). Estimating area and map accuracy for stratified random sampling when the
strata are different from the map classes. International Journal of Remote Sensing 35, 4923-4939.
doi:10.1080/01431161.2014.930207

Holt, D. and Smith, T. M. F. (1979). Post stratification. Journal of the Royal Statistical
Society A 142, 33-46.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError

Floats = NDArray[np.float64]
Z95 = 1.959963984540054  # half the width of a 95 % interval, in standard errors


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of the region, with standard errors; C is the number of classes.

    Attributes
    ----------
    matrix : ndarray, shape (C, C)
        Error matrix in shares of the region's area: rows are the map, columns the reference.
    area, area_se : ndarray, shape (C,)
        Share of the region that is truly of each class.
    users, users_se : ndarray, shape (C,)
        User's accuracy; NaN where no sampled pixel is mapped as the class.
    producers, producers_se : ndarray, shape (C,)
        Producer's accuracy; NaN where no sampled pixel is truly of the class.
    overall, overall_se : float
    """

    matrix: Floats
    area: Floats
    area_se: Floats
    users: Floats
    users_se: Floats
    producers: Floats
    producers_se: Floats
    overall: float
    overall_se: float


def estimate_shares(
    strata: ArrayLike,
    mapped: ArrayLike,
    reference: ArrayLike,
    pixels: ArrayLike,
    n_classes: int,
    *,
    totals: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    finite: bool = True,
) -> Shares:
    """Estimate areas and accuracies from sampled pixels.

    Parameters
    ----------
    strata, mapped, reference : array_like of int, shape (n,)
        For each sampled pixel the position of its stratum, of its class on the map and of its true
        class, counted from 0.
    pixels : array_like of int, shape (H,)
        Pixels of each stratum.
    n_classes : int
    totals : array_like, shape (H,), optional
        Area of each stratum; by default its pixels.
    sizes : array_like, shape (n,), optional
        Area of each sampled pixel, in the same unit; by default all are of one size.
    finite : bool, default=True
        Whether the pixels that were sampled reduce the variance, so that it is zero where all of
        them were. Olofsson et al. (2014) leave this out, as samples are usually small.

    Returns
    -------
    Shares

    Examples
    --------
    The example of Stehman (2014) begins with seven of ten pixels of stratum A mapped as A; here are
    two strata of it, A and D, alone:

    >>> strata = [0] * 10 + [1] * 10
    >>> mapped = [0] * 7 + [1] * 3 + [3] * 10
    >>> reference = [0] * 5 + [2, 1, 0, 1, 2] + [3] * 7 + [2, 2, 1]
    >>> shares = estimate_shares(strata, mapped, reference, [40_000, 10_000], n_classes=4)
    >>> shares.area.round(3).tolist(), round(shares.overall, 3)
    ([0.48, 0.18, 0.2, 0.14], 0.62)
    """
    h, m, r = (_positions(a) for a in (strata, mapped, reference))
    design = _Design.of(h, np.asarray(pixels, np.float64), totals, sizes, finite)
    classes = np.arange(n_classes)
    on_map, truly = m[:, None] == classes, r[:, None] == classes  # (n, C)
    both = (on_map & truly).astype(np.float64)
    right = (m == r).astype(np.float64)[:, None]
    cells = np.zeros((n_classes, n_classes))
    np.add.at(cells, (m, r), design.represented)
    area, area_se = design.mean(truly)
    overall, overall_se = design.mean(right)
    users, users_se = design.ratio(both, on_map)
    producers, producers_se = design.ratio(both, truly)
    return Shares(
        matrix=cells,
        area=area,
        area_se=area_se,
        users=users,
        users_se=users_se,
        producers=producers,
        producers_se=producers_se,
        overall=float(overall[0]),
        overall_se=float(overall_se[0]),
    )


def interval(value: ArrayLike, se: ArrayLike, most: float = 1.0) -> Floats:
    """Return the 95 % intervals, shape (..., 2), cut off at 0 and at ``most``.

    Examples
    --------
    >>> interval(0.9, 0.1).round(3).tolist()
    [0.704, 1.0]
    """
    middle, half = np.asarray(value, np.float64), Z95 * np.asarray(se, np.float64)
    return np.stack([middle - half, middle + half], axis=-1).clip(0.0, most)


@dataclass(frozen=True, eq=False)
class _Design:
    """Sampled pixels and their strata; see `estimate_shares`.

    Attributes
    ----------
    strata : ndarray of int, shape (n,)
    weights : ndarray, shape (n,)
        Area of a pixel over the mean area of its stratum's pixels.
    counts : ndarray, shape (H,)
        Sampled pixels.
    shares : ndarray, shape (H,)
        Of the region's area.
    left : ndarray, shape (H,)
        The finite population correction, 1 - n_h / N_h.
    """

    strata: NDArray[np.intp]
    weights: Floats
    counts: Floats
    shares: Floats
    left: Floats

    @classmethod
    def of(
        cls,
        strata: NDArray[np.intp],
        pixels: Floats,
        totals: ArrayLike | None,
        sizes: ArrayLike | None,
        finite: bool,
    ) -> _Design:
        areas = pixels if totals is None else np.asarray(totals, np.float64)
        counts = np.bincount(strata, minlength=len(pixels)).astype(np.float64)
        check_counts(counts, pixels)
        weights = np.ones(len(strata))
        if sizes is not None:
            weights = np.asarray(sizes, np.float64) / (areas / pixels)[strata]
        left = 1 - counts / pixels if finite else np.ones(len(pixels))
        return cls(strata, weights, counts, areas / areas.sum(), left)

    @property
    def represented(self) -> Floats:
        """The share of the region that each sampled pixel stands for, shape (n,)."""
        held = self.sums(self.weights[:, None])[:, 0]
        return (self.shares / held)[self.strata] * self.weights

    def sums(self, values: Floats) -> Floats:
        """Return the sums (H, q) over the strata of values (n, q)."""
        out = np.zeros((len(self.counts), values.shape[1]))
        np.add.at(out, self.strata, values)
        return out

    def mean(self, values: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the means over the region of values (n, q), and their standard errors."""
        weights = self.weights[:, None]
        held = self.sums(weights)  # (H, 1)
        means = self.sums(weights * values) / held  # (H, q)
        residuals = weights * (values - means[self.strata])
        # A stratum of one pixel that was sampled has no residual
        spread = self.sums(residuals**2) / np.maximum(self.counts - 1, 1)[:, None]
        shares = self.shares[:, None]
        variance = (shares**2 * (self.left / self.counts)[:, None] * spread).sum(axis=0)
        return (shares * means).sum(axis=0), np.sqrt(variance)

    def ratio(self, values: NDArray[Any], base: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the ratios of two means and their standard errors, NaN where the base is 0."""
        above, below = self.mean(values)[0], self.mean(base)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(below > 0, above / below, np.nan)
            residuals = values - np.nan_to_num(ratios) * base
            return ratios, np.where(below > 0, self.mean(residuals)[1] / below, np.nan)


def check_counts(counts: Floats, pixels: Floats) -> None:
    """Raise `InputError` unless each stratum has two sampled pixels, or all that it has."""
    for k, (n, size) in enumerate(zip(counts.tolist(), pixels.tolist(), strict=True)):
        if n > size:
            raise InputError(f"stratum {k} has {size:.0f} pixels, and {n:.0f} of it are sampled")
        if n < min(2, size):
            raise InputError(
                f"stratum {k} has {n:.0f} sampled pixels, wanted at least 2; sample it, or merge it"
            )


def _positions(values: ArrayLike) -> NDArray[np.intp]:
    return np.asarray(values, np.intp)
