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
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import InputError, SceneError
from polyad.scene.assess.areas import Z95, region_of
from polyad.scene.files.paths import DRAWN_FROM
from polyad.scene.raster.classes import (
    STRIP_PIXELS,
    ClassInfo,
    class_key,
    count_ids,
    ids_digest,
    iter_strips,
)
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.labels import find_classes, known_classes
from polyad.scene.read.samples import REFERENCE, STRATUM, Origin, look_up
from polyad.scene.write.tables import write_points

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
            f"unknown allocation {str(allocation)[:40]!r}; expected one of {', '.join(ALLOCATIONS)}"
        )
    if allocation == "equal":
        weights = np.ones(len(sizes))
    else:
        weights = sizes if allocation == "proportional" or not spread.any() else sizes * spread
    return weights / weights.sum()


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


def allocate(size: int, shares: ArrayLike, pixels: ArrayLike, minimum: int = 2) -> Counts:
    """Share out points in whole numbers, each stratum at least ``minimum``.

    Strata whose share is smaller get the minimum, and the others what is left, by their shares
    (Olofsson et al. 2014, section 5.1.2); rounding is by largest remainders. Strata smaller than
    the minimum are sampled whole: everything is known of them, so they add nothing to any standard
    error.

    Parameters
    ----------
    size : int
    shares : array_like, shape (H,)
        As `allocation_shares` gives them.
    pixels : array_like of int, shape (H,)
        Of each stratum.
    minimum : int, default=2

    Returns
    -------
    ndarray of int, shape (H,)
        Its sum is ``size``, unless all strata are sampled whole.

    Examples
    --------
    >>> allocate(100, [0.9, 0.08, 0.02], [900, 80, 20], minimum=10).tolist()
    [80, 10, 10]
    >>> allocate(20, [0.7, 0.299, 0.001], [700, 299, 1]).tolist()
    [13, 6, 1]
    """
    weights, room = np.asarray(shares, np.float64), np.asarray(pixels, np.int64)
    if minimum < 2:
        raise InputError(f"minimum must be at least 2, got {minimum}: one point has no variance")
    least = np.minimum(room, minimum)
    if size < least.sum():
        raise InputError(
            f"{size:,} points are too few for {len(room)} strata of at least {minimum} each, or "
            f"all of their pixels; expected {least.sum():,} or more"
        )
    fixed = room < minimum
    if fixed.all():
        return least
    if fixed.any():
        weights = np.where(fixed, 0, weights)
        if not weights.any():  # all that counts is in the small ones
            weights = np.where(fixed, 0.0, 1.0)
        weights = weights / weights.sum()
    while True:
        rest, free = size - int(least[fixed].sum()), weights[~fixed].sum()
        exact = np.where(fixed, least, rest * weights / free if free > 0 else minimum)
        low = ~fixed & (exact < minimum)
        if not low.any():
            break
        fixed |= low
    counts = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: size - int(counts.sum())]] += 1
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
    listed, width = list(ids), strata.sizes["x"]

    def strips() -> Iterator[tuple[int, NDArray[Any]]]:
        for top, (values, used) in iter_strips(strata, mask, pixels=strip_pixels):
            yield top, np.where(used != 0, values, 0)

    pixels = np.zeros(len(ids), np.int64)
    for _, strip in strips():
        pixels += count_ids(strip)[listed]
    ranks = []
    for value, n, size in zip(ids, np.asarray(counts).tolist(), pixels.tolist(), strict=True):
        if n > size:
            raise InputError(f"stratum {value} has {size:,} pixels, and {n:,} points of it")
        ranks.append(np.sort(rng.choice(size, n, replace=False)))
    drawn: list[list[NDArray[np.intp]]] = [[np.empty((0, 2), np.intp)] for _ in ids]
    seen = np.zeros(len(ids), np.int64)
    for top, strip in strips():
        here = count_ids(strip)[listed]
        for k, value in enumerate(ids):
            low, high = np.searchsorted(ranks[k], [seen[k], seen[k] + here[k]])
            if low < high:
                flat = np.flatnonzero(strip == value)[ranks[k][low:high] - seen[k]]
                drawn[k].append(np.stack([top + flat // width, flat % width], axis=1))
        seen += here
    return np.concatenate([piece for pieces in drawn for piece in pieces])


# A probability sample of a map's pixels, to be checked on the ground or in finer images.


EXPECTED = 0.8  # user's accuracy of a class of which nothing is known
DEVIATIONS = (1e-30, 1e30)  # their squares, times pixels, neither vanish nor overflow
FEW = 25  # points of a stratum, below which intervals are rough; see docs/results/areas.md


@dataclass(frozen=True, eq=False)
class Sample:
    """Pixels drawn at random from the strata of a map; made by `draw_sample`.

    Attributes
    ----------
    grid : Grid
        Of the map.
    pixels : ndarray of int, shape (n, 2)
        Rows and columns, in random order.
    strata, mapped : tuple of ClassInfo, length n
        Stratum and class of the map of each pixel.
    allocation : tuple of (ClassInfo, int, int, float)
        Each stratum, its pixels, its points, and the accuracy expected there (NaN where standard
        deviations were given).
    rule : {"proportional", "equal", "optimal"}
        How the points were shared out.
    minimum : int
        Points that each stratum gets at least.
    margin : float
        Half the width of the 95 % interval of overall accuracy that is expected.
    wanted : float or None
        The margin that was asked for.
    map_id, strata_id : str
        Digests of the ids of the map and of the strata, by which `polyad area` knows them again;
        the second is empty where the strata are the classes of the map.
    """

    grid: Grid
    pixels: NDArray[np.intp]
    strata: tuple[ClassInfo, ...]
    mapped: tuple[ClassInfo, ...]
    allocation: tuple[tuple[ClassInfo, int, int, float], ...]
    rule: str
    minimum: int
    margin: float
    wanted: float | None = None
    map_id: str = ""
    strata_id: str = ""

    def __len__(self) -> int:
        return len(self.pixels)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        blind: bool = False,
        source: str = "map",
        strata: str | None = None,
    ) -> None:
        """Write the points with an empty field ``reference``; see `polyad.scene.write_points`.

        Parameters
        ----------
        path : path-like
            Ending in ``.gpkg``, ``.geojson`` or ``.csv``.
        blind : bool, default=False
            Leave out stratum and class of the map, so that whoever looks is not led by them.
        source, strata : str
            Names of the map and of the strata, which the field ``drawn_from`` keeps with their
            digests.
        """
        n = len(self)
        fields: dict[str, list[Any]] = {"id": list(range(1, n + 1))}
        if not blind:
            fields |= {
                STRATUM: [c.value for c in self.strata],
                "stratum_name": [c.name for c in self.strata],
                "map_class": [c.value for c in self.mapped],
                "map_name": [c.name for c in self.mapped],
            }
        if self.map_id:
            origin = Origin(source, self.map_id, strata or "strata", self.strata_id)
            fields[DRAWN_FROM] = [str(origin)] * n
        write_points(path, self.grid, self.pixels, fields | {REFERENCE: [None] * n})

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings."""
        return {
            "size": len(self),
            "allocation": self.rule,
            "minimum": self.minimum,
            "margin": self.margin,
            "margin_wanted": self.wanted,
            "strata": [
                {
                    "id": info.value,
                    "name": info.name,
                    "pixels": pixels,
                    "points": points,
                    "expected_accuracy": None if np.isnan(expected) else expected,
                }
                for info, pixels, points, expected in self.allocation
            ],
        }

    def __str__(self) -> str:
        total = sum(pixels for _, pixels, _, _ in self.allocation)
        keys = [class_key(info) for info, *_ in self.allocation]
        wide = max(map(len, ("stratum", "total", *keys)))
        lines = [
            f"{'stratum':{wide}}  {'pixels':>13}  {'share':>7}  {'expected':>8}  {'points':>7}"
        ]
        for key, (_, pixels, points, expected) in zip(keys, self.allocation, strict=True):
            chance = "-" if np.isnan(expected) else f"{expected:.0%}"
            lines.append(
                f"{key:{wide}}  {pixels:13,}  {pixels / total:>7.1%}  {chance:>8}  {points:7,}"
            )
        lines.append(f"{'total':{wide}}  {total:13,}  {'100.0%':>7}  {'':>8}  {len(self):7,}")
        return "\n".join([*lines, "", *self.notes()])

    def notes(self) -> list[str]:
        """Return what a reader should know of the design, a sentence each."""
        expected = {accuracy for *_, accuracy in self.allocation}
        same = self.rule == "optimal" and len(expected) == 1 and not np.isnan(expected.pop())
        notes = [
            f"Shared out: {self.rule}, at least {self.minimum} of each stratum."
            + (" All are expected to be equally accurate, so optimal is proportional." * same)
        ]
        if self.wanted is not None:
            source = "5.25, and Olofsson et al. 2014, Eq. 13" if self.rule == "optimal" else "5.24"
            error = self.wanted / Z95
            notes.append(
                f"A margin of {self.wanted:.3g} is 1.96 standard errors of {error:.3g}; "
                f"with the accuracies expected this takes {len(self):,} points (Cochran 1977, Eq. "
                f"{source})."
            )
        notes.append(
            f"The mean of what deviates so will be known to ± {self.margin:.3g} (95 %)."
            if any(np.isnan(accuracy) for *_, accuracy in self.allocation)
            else f"Overall accuracy will be known to ± {self.margin:.3g} (95 %), if the map is as "
            "accurate as expected."
        )
        whole = [class_key(info) for info, pixels, n, _ in self.allocation if n == pixels]
        if whole and len(whole) < len(self.allocation):
            notes.append(f"Sampled whole, so without sampling error: {', '.join(whole)}.")
        few = [class_key(info) for info, pixels, n, _ in self.allocation if n < min(FEW, pixels)]
        if few:
            notes.append(
                f"Strata of fewer than {FEW} points have rough intervals: {', '.join(few)}; "
                "--minimum gives them more."
            )
        return notes


def draw_sample(
    class_map: xr.DataArray,
    size: int | None = None,
    *,
    margin: float | None = None,
    strata: xr.DataArray | None = None,
    allocation: str = "proportional",
    minimum: int = 2,
    accuracy: float | Mapping[str | int, float] | None = None,
    deviations: float | Mapping[str | int, float] | None = None,
    random_state: int | np.random.Generator = 0,
) -> Sample:
    """Draw a stratified random sample of a map's pixels, without replacement.

    Parameters
    ----------
    class_map : DataArray of int, dims (y, x)
        0 where there is no class; nothing is drawn there.
    size : int, optional
        How many pixels; or else ``margin``.
    margin : float, optional
        Half the width of the 95 % interval of overall accuracy that is wanted, such as 0.03: as
        many pixels are drawn as it takes if the map is as accurate as expected.
    strata : DataArray of int, dims (y, x), optional
        On the grid of the map, 0 where there is none. By default the classes of the map.
    allocation : {"proportional", "equal", "optimal"}
        By pixels; the same for all; or Neyman's, by pixels times standard deviation.
    minimum : int, default=2
        Points of each stratum at least; a stratum that has fewer pixels is sampled whole.
    accuracy : float or mapping, optional
        Expected user's accuracy of all strata, or of each by name or id; 0.8 where not given.
    deviations : float or mapping, optional
        Standard deviation of all strata, or of each by name or id, of what is to be estimated, in
        place of those that ``accuracy`` gives.
    random_state : int or Generator

    Returns
    -------
    Sample

    Examples
    --------
    >>> ids = np.repeat([[1, 2]], [60, 40], axis=1).repeat(50, axis=0)
    >>> land = xr.DataArray(ids, dims=("y", "x"))
    >>> sample = draw_sample(land, 100)
    >>> [(info.value, points) for info, _, points, _ in sample.allocation]
    [(1, 60), (2, 40)]
    >>> len(draw_sample(land, margin=0.05))
    235
    """
    region = region_of(class_map, strata)
    pixels, known = region.pixels, region.strata
    if (size is None) == (margin is None):
        raise InputError(
            "expected a size or a margin of error, one of the two; give --size N or --margin M"
        )
    for what, points in (("size", size or 0), ("minimum", minimum)):
        if points > pixels.sum():
            raise InputError(
                f"{what} must be at most {pixels.sum():,}, as many as the map has pixels with a "
                f"class and a stratum, got {points:,}; lower --{what}"
            )
    users, spread = _expected(accuracy, deviations, known)
    shares = allocation_shares(allocation, pixels, spread)
    if margin is None:
        counts = allocate(size or 0, shares, pixels, minimum)
    else:  # with the minimum, it may take more points
        size = size_for_error(margin / Z95, pixels, spread, allocation)
        size = max(size, int(np.minimum(pixels, minimum).sum()))
        counts = np.minimum(allocate(size, shares, pixels, minimum), pixels)
        while accuracy_error(pixels, spread, counts) > margin / Z95 and size < pixels.sum():
            size += max(1, size // 1000)
            counts = np.minimum(allocate(size, shares, pixels, minimum), pixels)
    for info, room, n in zip(known, pixels.tolist(), counts.tolist(), strict=True):
        if n > room:
            raise SceneError(
                f"stratum {class_key(info)} has {room:,} pixels, and {n:,} points would be drawn "
                f"from it; lower --size or --minimum, or choose another of {', '.join(ALLOCATIONS)}"
            )
    rng = np.random.default_rng(random_state)
    ids = [info.value for info in known]
    drawn = draw_pixels(region.stratum_map, ids, counts, rng, where=region.class_map)
    drawn = rng.permutation(drawn)  # by stratum, the order would tell the class
    named, mapped = {c.value: c for c in known}, {c.value: c for c in region.classes}
    rows = zip(known, pixels.tolist(), counts.tolist(), users.tolist(), strict=True)
    return Sample(
        region.grid,
        drawn,
        tuple(named[v] for v in look_up(region.stratum_map, drawn).tolist()),
        tuple(mapped[v] for v in look_up(region.class_map, drawn).tolist()),
        tuple(rows),
        allocation,
        minimum,
        Z95 * accuracy_error(pixels, spread, counts),
        margin,
        ids_digest(region.class_map),
        "" if region.by_class else ids_digest(region.stratum_map),
    )


def parse_by_stratum(texts: Sequence[str]) -> float | dict[str | int, float] | None:
    """Return numbers for all strata or for each, as the command line takes them.

    Parameters
    ----------
    texts : sequence of str
        ``0.8``, for all strata, or ``Corn=0.9``, for one by name or id.

    Returns
    -------
    float, dict, or None if there are no texts

    Examples
    --------
    >>> parse_by_stratum(["0.7"]), parse_by_stratum(["Corn=0.9", "2=0.6"])
    (0.7, {'Corn': 0.9, '2': 0.6})
    """
    each: dict[str | int, float] = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError as error:
            raise InputError(
                f"expected a number such as 0.8, or Corn=0.9 for one stratum, got {text[:80]!r}"
            ) from error
        if not key and len(texts) > 1:
            raise InputError(
                f"give one number for all strata, or one for each by name, got {text[:80]!r} and "
                f"{len(texts) - 1} more"
            )
        if not key:
            return value
        each[key.strip()] = value
    return each or None


def _expected(
    accuracy: float | Mapping[str | int, float] | None,
    deviations: float | Mapping[str | int, float] | None,
    strata: tuple[ClassInfo, ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the accuracy (NaN if not known) and the deviation expected of each stratum."""
    if deviations is None:
        users = _by_stratum(accuracy, strata, "accuracy")
        users = np.where(np.isnan(users), EXPECTED, users)
        return users, accuracy_deviations(users)
    if accuracy is not None:
        raise InputError("accuracies give standard deviations; expected one of the two, got both")
    spread, (low, high) = _by_stratum(deviations, strata, "standard deviation"), DEVIATIONS
    odd = spread[~((spread >= low) & (spread <= high))]  # NaN too, where none is given
    if len(odd):
        raise InputError(
            f"expected a standard deviation from {low:g} to {high:g} for each stratum, got "
            f"{odd[0]:g}; only how they relate to each other counts, {known_classes(strata)}"
        )
    return np.full(len(strata), np.nan), spread


def _by_stratum(
    given: float | Mapping[str | int, float] | None, strata: tuple[ClassInfo, ...], what: str
) -> NDArray[np.float64]:
    """Return a value for each stratum, NaN where none is given."""
    numbers = given.values() if isinstance(given, Mapping) else [given]
    if any(value is not None and math.isnan(value) for value in numbers):
        raise InputError(f"expected a number as {what}, got nan; leave it out if it is not known")
    if isinstance(given, float | int):
        return np.full(len(strata), float(given))
    values = np.full(len(strata), np.nan)
    for key, value in (given or {}).items():
        found = find_classes(strata, key)
        if not found:
            raise InputError(
                f"no stratum is called {str(key)[:80]!r}, for which there is an expected {what}; "
                f"{known_classes(strata)}"
            )
        values[[info in found for info in strata]] = value
    return values
