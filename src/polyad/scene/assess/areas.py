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

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError, PolyadWarning, SceneError, SceneMismatch
from polyad.scene.raster.classes import (
    ClassInfo,
    class_key,
    class_table,
    class_totals,
    has_own_name,
)
from polyad.scene.raster.grid import (
    HECTARE,
    Grid,
    check_covers,
    check_same_place,
    grid_of,
    row_areas,
)
from polyad.scene.raster.labels import Labels, find_classes
from polyad.scene.read.classes import complete
from polyad.scene.read.samples import SamplePoints, check_classed, check_origin, look_up

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
    areas: tuple[ArrayLike, ArrayLike] | None = None,
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
    areas : array_like, shapes (H,) and (n,), optional
        Area of each stratum and of each sampled pixel; by default all pixels are of one size.
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
    h, m, r = (np.asarray(a, np.intp) for a in (strata, mapped, reference))
    population = np.asarray(pixels, np.float64)
    counts = np.bincount(h, minlength=len(population)).astype(np.float64)
    total, weights = population, np.ones(len(h))
    if areas is not None:
        total, sizes = (np.asarray(a, np.float64) for a in areas)
        weights = sizes / (total / population)[h]
    left = 1 - counts / population if finite else np.ones(len(population))
    design = _Design(h, weights, counts, total / total.sum(), left)
    classes = np.arange(n_classes)
    on_map, truly = m[:, None] == classes, r[:, None] == classes  # (n, C)
    both = (on_map & truly).astype(np.float64)
    right = (m == r).astype(np.float64)[:, None]
    cells = np.zeros((n_classes, n_classes))
    np.add.at(cells, (m, r), design.represented)
    overall, overall_se = design.mean(right)
    by_class = (*design.mean(truly), *design.ratio(both, on_map), *design.ratio(both, truly))
    return Shares(cells, *by_class, float(overall[0]), float(overall_se[0]))


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


# The region that is sampled: the pixels of a map that have a class and a stratum, counted.


@dataclass(frozen=True, eq=False)
class Region:
    """A map, its strata, and how many pixels and hectares each has.

    Attributes
    ----------
    class_map, stratum_map : DataArray of int, dims (y, x)
    grid : Grid
    strata : tuple of ClassInfo, length H
        Those that have pixels.
    pixels : ndarray of int, shape (H,)
    areas : ndarray, shape (H,)
        Of the strata, in hectares, or in pixels without a reference system.
    classes : tuple of ClassInfo, length C
        All that the map lists or has.
    mapped, mapped_areas : ndarray, shape (C,)
        Pixels and areas by the map alone.
    row_hectares : ndarray, shape (y,), or None
        Of a pixel of each row; None without a reference system.
    """

    class_map: xr.DataArray
    stratum_map: xr.DataArray
    grid: Grid
    strata: tuple[ClassInfo, ...]
    pixels: NDArray[np.int64]
    areas: Floats
    classes: tuple[ClassInfo, ...]
    mapped: NDArray[np.int64]
    mapped_areas: Floats
    row_hectares: Floats | None

    @property
    def by_class(self) -> bool:
        """Whether the strata are the classes of the map."""
        return self.stratum_map is self.class_map


def region_of(class_map: xr.DataArray, strata: xr.DataArray | None = None) -> Region:
    """Count the pixels of a map that have a class and a stratum, a few rows at a time.

    Parameters
    ----------
    class_map : DataArray of int, dims (y, x)
    strata : DataArray of int, dims (y, x), optional
        On the same grid; by default the classes.

    Examples
    --------
    >>> region = region_of(xr.DataArray(np.array([[1, 1], [0, 2]]), dims=("y", "x")))
    >>> region.pixels.tolist(), region.row_hectares
    ([2, 1], None)
    """
    class_map = _checked(class_map, "map")
    grid = grid_of(class_map)
    stratum_map = class_map if strata is None else _checked(strata, "strata")
    if strata is not None:
        theirs = grid_of(stratum_map)
        check_covers("strata", grid.shape, theirs.shape, "map", "resample them to its grid")
        check_same_place(grid, theirs)
    areas = row_areas(grid)
    hectares = None if areas is None else areas / HECTARE
    weights = np.ones(grid.shape[0]) if hectares is None else hectares
    pixels, total, mapped, mapped_total, outside = class_totals(class_map, stratum_map, weights)
    if outside:
        warnings.warn(
            f"{outside:,} pixels of the map lie in no stratum; they are left out, and areas are "
            "those of the rest",
            PolyadWarning,
            stacklevel=3,
        )
    if not pixels.any():
        raise SceneError("no pixel of the map has a class and a stratum; is this a class map?")
    known = tuple(c for c in _whole_table(stratum_map, pixels) if pixels[c.value])
    ids = [c.value for c in known]
    classes = _whole_table(class_map, mapped)
    values = [c.value for c in classes]
    return Region(
        class_map,
        stratum_map,
        grid,
        known,
        pixels[ids],
        total[ids],
        classes,
        mapped[values],
        mapped_total[values],
        hectares,
    )


def _checked(raster: xr.DataArray, what: str) -> xr.DataArray:
    raster = Labels.of(raster).array
    if raster.dtype.kind not in "iub":
        raise SceneError(
            f"a {what} holds whole numbers from 0 (none) to 65535, got {raster.dtype}; round it"
        )
    return raster


def _whole_table(raster: xr.DataArray, pixels: NDArray[np.int64]) -> tuple[ClassInfo, ...]:
    """Return the classes that a raster lists and, with names filled in, those that just occur."""
    listed = class_table(raster) if "class_values" in raster.attrs else ()
    names, colors = {c.value: c.name for c in listed}, {c.value: c.color for c in listed}
    return tuple(complete(np.flatnonzero(pixels).astype(np.uint16), names, colors))


# Areas of a map's classes from a checked sample, as a table that can be published.


DESIGNS = ("stratified", "random")


@dataclass(frozen=True, eq=False)
class AreaEstimates:
    """Areas and accuracies with standard errors and 95 % intervals; made by `estimate_areas`.

    Attributes
    ----------
    region : Region
        The map and its strata.
    classes : tuple of ClassInfo, length C
        Classes of the map that have pixels or sampled points.
    shares : Shares
        All estimates, as shares of the region.
    counts : ndarray of int, shape (C, C)
        Sampled points: rows are the map, columns the reference.
    sampled : ndarray of int, shape (H,)
        Points of each stratum.
    estimator : str
        In words.
    left_out : int
        Points without a reference, which are in no figure.
    """

    region: Region
    classes: tuple[ClassInfo, ...]
    shares: Shares
    counts: NDArray[np.int64]
    sampled: NDArray[np.int64]
    estimator: str
    left_out: int = 0

    @property
    def hectares(self) -> bool:
        """Whether areas are in hectares; else in pixels."""
        return self.region.row_hectares is not None

    @property
    def total(self) -> float:
        """Area of the region."""
        return float(self.region.areas.sum())

    @property
    def mapped(self) -> Floats:
        """Areas by the map alone, shape (C,)."""
        rows = zip(self.region.classes, self.region.mapped_areas, strict=True)
        return np.array([area for info, area in rows if info in self.classes])

    @property
    def strata(self) -> list[tuple[ClassInfo, int, int]]:
        """Each stratum, its pixels and its points."""
        region = self.region
        rows = zip(region.strata, region.pixels.tolist(), self.sampled.tolist(), strict=True)
        return list(rows)

    @property
    def unit(self) -> str:
        """What areas are in."""
        return "ha" if self.hectares else "pixels"

    @property
    def areas(self) -> Floats:
        """Estimated areas, shape (C,)."""
        return self.shares.area * self.total

    @property
    def errors(self) -> Floats:
        """Standard errors of the areas, shape (C,)."""
        return self.shares.area_se * self.total

    @property
    def intervals(self) -> Floats:
        """95 % intervals of the areas, shape (C, 2)."""
        return interval(self.areas, self.errors, self.total)

    @property
    def points(self) -> int:
        """How many points were used."""
        return int(self.counts.sum())

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings; hectares are None without a reference system."""
        shares, each = self.shares, self.region.row_hectares
        # Areas are numbers of pixels too where all pixels have one size
        even = each is None or bool(np.ptp(each) == 0)
        pixels = int(self.region.pixels.sum())
        totals = {"ha": self.total if self.hectares else None, "pixels": pixels if even else None}
        return {
            "overall_accuracy": shares.overall,
            "overall_accuracy_se": shares.overall_se,
            "overall_accuracy_ci95": interval(shares.overall, shares.overall_se).tolist(),
            "n_points": self.points,
            "n_left_out": self.left_out,
            "total_ha": totals["ha"],
            "total_pixels": pixels,
            "estimator": self.estimator,
            "classes": [self._row(k, totals) for k in range(len(self.classes))],
            "strata": [
                {"id": info.value, "name": info.name, "pixels": pixels, "points": points}
                for info, pixels, points in self.strata
            ],
            "error_matrix": shares.matrix.tolist(),
            "count_matrix": self.counts.tolist(),
            "notes": self.notes(),
        }

    def _row(self, k: int, totals: Mapping[str, float | None]) -> dict[str, object]:
        info, shares = self.classes[k], self.shares
        row: dict[str, object] = {"name": info.name, "id": info.value, "color": info.color}
        share, se = float(shares.area[k]), float(shares.area_se[k])
        for unit, total in totals.items():
            keys = [f"{name}_{unit}" for name in ("area", "se", "ci95")]
            row |= _estimate(keys, share, se, total)
        row["mapped_ha"] = float(self.mapped[k]) if self.hectares else None
        row |= {"share": share, "share_se": se}
        for name in ("users", "producers"):
            value, error = (float(getattr(shares, n)[k]) for n in (name, f"{name}_se"))
            keys = [f"{name}_accuracy{end}" for end in ("", "_se", "_ci95")]
            row |= _estimate(keys, value, error, 1.0 if np.isfinite(value) else None)
        return row | {
            "points_mapped": int(self.counts[k].sum()),
            "points_reference": int(self.counts[:, k].sum()),
        }

    def __str__(self) -> str:
        overall, se = self.shares.overall, self.shares.overall_se
        low, high = (f"{100 * bound:.1f}" for bound in interval(overall, se))
        return "\n".join(
            [
                *_aligned(self.table()),
                "",
                f"Overall accuracy {100 * overall:.1f} ± {100 * se:.1f} % (standard error), 95 % "
                f"interval {low} to {high} %, from {self.points:,} points.",
                "",
                "Error matrix in shares of the area (rows: map, columns: reference)",
                *_aligned(self.matrix_table()),
                "",
                *self.notes(),
            ]
        )

    def table(self) -> list[list[str]]:
        """Return the table of areas and accuracies as text, its heading first."""
        head = ["class", f"mapped {self.unit}", f"area {self.unit}", "± SE", "95 % interval"]
        rows = [[*head, "user's %", "± SE", "producer's %", "± SE"]]
        s = self.shares
        least = self.errors[self.errors > 0].min(initial=np.inf)
        # The smallest standard error shows two figures
        digits = int(np.clip(1 - np.floor(np.log10(least)), 0, 4)) if np.isfinite(least) else 2
        sizes = np.c_[self.mapped, self.areas, self.errors, self.intervals]
        ratios = np.c_[s.users, s.users_se, s.producers, s.producers_se]
        for info, size, ratio in zip(self.classes, sizes, ratios, strict=True):
            *three, low, high = (f"{value:,.{digits}f}" for value in size)
            shown = (f"{100 * v:.1f}" if np.isfinite(v) else "-" for v in ratio)
            rows.append([class_key(info), *three, f"{low} to {high}", *shown])
        total = f"{self.total:,.{digits}f}"
        return [*rows, ["total", total, total, *[""] * 6]]

    def matrix_table(self) -> list[list[str]]:
        """Return the error matrix in shares of the area as text, with sums and heading."""
        matrix, points = self.shares.matrix, self.counts.sum(axis=1)
        rows = [["map \\ reference", *(str(c.value) for c in self.classes), "sum", "points"]]
        for info, line, n in zip(self.classes, matrix, points, strict=True):
            cells = [f"{v:.4f}" if v else "0" for v in line]
            rows.append([class_key(info), *cells, f"{line.sum():.4f}", str(n)])
        sums = [f"{v:.4f}" for v in matrix.sum(axis=0)]
        return [*rows, ["sum", *sums, f"{matrix.sum():.4f}", str(self.points)]]

    def notes(self) -> list[str]:
        """Return what must be known of the estimates, a sentence each."""
        notes = [f"Estimator: {self.estimator}."]
        if self.left_out:
            drawn = self.points + self.left_out
            notes.append(
                f"Left out: {self.left_out:,} of {drawn:,} points, which have no reference; the "
                "figures hold if these are no different from the others of their strata."
            )
        if not self.hectares:
            notes.append(
                "The map does not say its reference system, so areas are in pixels; write it into "
                "the map for hectares."
            )

        def named(which: ArrayLike) -> str:
            return ", ".join(class_key(self.classes[k]) for k in np.flatnonzero(np.asarray(which)))

        on_map, seen = self.counts.any(axis=1), self.counts.any(axis=0)
        whole = self.points == self.region.pixels.sum()
        if certain := named((self.shares.area_se == 0) & seen & ~whole):
            # The rule of three: of n points without an error, 95 % confidence leaves 3 / n of them
            least = min(points for _, pixels, points in self.strata if points < pixels)
            notes.append(
                f"All points agree on {certain}, so these intervals have no width; that "
                f"is no certainty: {least} points without an error leave room for errors of up to "
                f"{min(3 / least, 1):.0%}."
            )
        if cut := named(self.shares.area - Z95 * self.shares.area_se < 0):
            notes.append(
                f"The area interval of {cut} is cut off at 0, since no area is less: "
                "the sample says little of so rare a class, which needs more points."
            )
        if unseen := named(~seen):
            notes.append(
                f"No point is truly of {unseen}: the area is estimated as 0, and its "
                "interval says nothing of how far off that may be."
            )
        if bare := named(~on_map):
            notes.append(f"No point is mapped as {bare}: no user's accuracy.")
        return notes


def estimate_areas(
    class_map: xr.DataArray,
    points: SamplePoints,
    *,
    strata: xr.DataArray | None = None,
    design: str = "stratified",
) -> AreaEstimates:
    """Estimate the area of each class, and the accuracy of the map, from a checked sample.

    Parameters
    ----------
    class_map : DataArray of int, dims (y, x)
        The map that is assessed.
    points : SamplePoints
        As `open_points` reads them.
    strata : DataArray of int, dims (y, x), optional
        The strata that the points were drawn from, on the grid of the map; by default its classes.
    design : {"stratified", "random"}
        How the points were drawn. For a simple random sample the strata serve afterwards: their
        sizes are known, and estimates that use them are more precise.

    Returns
    -------
    AreaEstimates

    Raises
    ------
    SceneError
        A stratum has fewer than two points.
    SceneMismatch
        Points lie where there is no class or stratum, or were drawn from other strata.

    Examples
    --------
    >>> ids = np.repeat([[1, 2]], [60, 40], axis=1).repeat(50, axis=0)
    >>> land = xr.DataArray(ids, dims=("y", "x"))
    >>> pixels = np.array([[0, 0], [9, 9], [30, 30], [44, 50], [0, 60], [9, 69], [30, 80], [44, 9]])
    >>> seen = np.array([1, 1, 1, 2, 2, 2, 2, 1])
    >>> areas = estimate_areas(land, SamplePoints(pixels, seen))
    >>> areas.areas.round().tolist(), round(areas.shares.overall, 2)
    ([2400.0, 2600.0], 0.88)
    """
    if design not in DESIGNS:
        raise InputError(f"unknown design {design[:40]!r}; expected one of {', '.join(DESIGNS)}")
    region = region_of(class_map, strata)
    mapped, stratum = (
        look_up(raster, points.pixels) for raster in (region.class_map, region.stratum_map)
    )
    if design == "stratified":
        file = points.place(0).rpartition(", ")[0] if points.where else "the sample"
        check_origin(file, points.origins, region.stratum_map, strata=True)
    check_classed(points, mapped, "the map has no class")
    check_classed(points, stratum, "there is no stratum")
    if design == "stratified":
        _check_drawn(points, stratum, region)
    where = np.searchsorted([info.value for info in region.strata], stratum)
    sampled = np.bincount(where, minlength=len(region.strata))
    kind, remedy = "class" if region.by_class else "stratum", "check some more pixels of it"
    if design == "random":
        remedy = "check more random pixels, or name fewer and larger strata with --strata"
    for info, size, n in zip(region.strata, region.pixels.tolist(), sampled.tolist(), strict=True):
        if n < (least := min(2, size)):  # two for a standard error
            named = class_key(info) if has_own_name(info) else info.value
            raise SceneError(
                f"{kind} {named} of {size:,} pixels on the map has {n} points in the sample, "
                f"expected at least {least}; {remedy}, or merge it with another {kind}"
            )
    seen = set(points.reference.tolist())
    if strange := seen - {info.value for info in region.classes}:
        raise InputError(f"reference class {min(strange)} is no class of the map")
    listed = zip(region.classes, region.mapped.tolist(), strict=True)
    classes = tuple(info for info, pixels in listed if pixels or info.value in seen)
    place = {info.value: k for k, info in enumerate(classes)}
    on_map, truly = ([place[v] for v in ids.tolist()] for ids in (mapped, points.reference))
    areas = None
    if region.row_hectares is not None:
        areas = region.areas, region.row_hectares[points.pixels[:, 0]]
    shares = estimate_shares(where, on_map, truly, region.pixels, len(classes), areas=areas)
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, (on_map, truly), 1)
    if design == "random":
        strata_used = "the map's classes" if region.by_class else "the strata given"
        estimator = (
            f"post-stratified by {strata_used}, of a simple random sample (Olofsson et al. 2014)"
        )
    elif region.by_class:
        estimator = "stratified, the strata are the map's classes (Olofsson et al. 2014)"
    else:
        estimator = "stratified, the strata are not the map's classes (Stehman 2014)"
    return AreaEstimates(region, classes, shares, counts, sampled, estimator, points.left_out)


def _check_drawn(points: SamplePoints, stratum: NDArray[np.int64], region: Region) -> None:
    """Refuse points whose file names other strata than those that are used."""
    if points.strata is None:
        return
    meant: dict[str, set[int]] = {}
    for k, (name, value) in enumerate(zip(points.strata, stratum.tolist(), strict=True)):
        if name and name not in meant:
            meant[name] = {info.value for info in find_classes(region.strata, name)}
            meant[name] |= {int(name)} if name.isdecimal() else set()  # a name may be a number
        if name and value not in meant[name]:
            raise SceneMismatch(
                f"{points.place(k)} was drawn from stratum {name[:80]!r}, and lies in {value} of "
                f"{'the map' if region.by_class else 'the strata given'}; name the raster that the "
                "sample was drawn from with --strata"
            )


def _estimate(
    keys: Sequence[str], share: float, se: float, total: float | None
) -> dict[str, object]:
    """Return an estimate, its standard error and its interval, None without a total."""
    if total is None:
        return dict.fromkeys(keys)
    values = (share * total, se * total, (interval(share, se) * total).tolist())
    return dict(zip(keys, values, strict=True))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines: names to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
