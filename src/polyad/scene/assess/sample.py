"""A probability sample of a map's pixels, to be checked on the ground or in finer images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError, SceneError
from polyad.scene.assess.areas import Z95
from polyad.scene.assess.designs import (
    ALLOCATIONS,
    accuracy_deviations,
    accuracy_error,
    allocate_within,
    allocation_shares,
    draw_pixels,
    size_for_error,
)
from polyad.scene.assess.regions import Region, region_of
from polyad.scene.files.own_outputs import DRAWN_FROM
from polyad.scene.raster.classes import ClassInfo, class_key
from polyad.scene.raster.counting import ids_digest
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.legend import find_classes, known_classes
from polyad.scene.read.sample_points import REFERENCE, STRATUM, Origin, look_up
from polyad.scene.write.tables import centers, write_points

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

    def to_dict(self) -> dict[str, Any]:
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
            share, told = f"{pixels / total:.1%}", "-" if np.isnan(expected) else f"{expected:.0%}"
            lines.append(f"{key:{wide}}  {pixels:13,}  {share:>7}  {told:>8}  {points:7,}")
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

    def xy(self) -> NDArray[np.float64]:
        """Return the centers of the pixels on the map, shape (n, 2)."""
        return centers(self.grid, self.pixels)


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
            "wanted a size or a margin of error, one of the two; give --size N or --margin M"
        )
    _check_asked(size, minimum, int(pixels.sum()))
    users, spread = _expected(accuracy, deviations, known)
    shares = allocation_shares(allocation, pixels, spread)
    if size is None:
        counts = _counts_for(float(margin or 0), pixels, spread, allocation, shares, minimum)
    else:
        counts = allocate_within(size, shares, pixels, minimum)
    _check_room(counts, region)
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
                f"wanted a number such as 0.8, or Corn=0.9 for one stratum, got {text[:80]!r}"
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


def _counts_for(
    margin: float,
    pixels: NDArray[np.int64],
    spread: NDArray[np.float64],
    allocation: str,
    shares: NDArray[np.float64],
    minimum: int,
) -> NDArray[np.int64]:
    """Return the points of each stratum that give the margin, also with the minimum."""
    least = int(np.minimum(pixels, minimum).sum())
    size = max(size_for_error(margin / Z95, pixels, spread, allocation), least)
    counts = np.minimum(allocate_within(size, shares, pixels, minimum), pixels)
    while accuracy_error(pixels, spread, counts) > margin / Z95 and size < pixels.sum():
        size += max(1, size // 1000)
        counts = np.minimum(allocate_within(size, shares, pixels, minimum), pixels)
    return counts


def _expected(
    accuracy: float | Mapping[str | int, float] | None,
    deviations: float | Mapping[str | int, float] | None,
    strata: tuple[ClassInfo, ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the accuracy (NaN if not known) and the deviation expected of each stratum."""
    if deviations is None:
        given = accuracy.values() if isinstance(accuracy, Mapping) else [accuracy]
        if any(value is not None and np.isnan(value) for value in given):
            raise InputError(
                "accuracy must be from 0 to 1, got nan; leave it out if it is not known"
            )
        users = _by_stratum(accuracy, strata, "accuracy")
        users = np.where(np.isnan(users), EXPECTED, users)
        return users, accuracy_deviations(users)
    if accuracy is not None:
        raise InputError("accuracies give standard deviations; wanted one of the two, got both")
    spread = _by_stratum(deviations, strata, "standard deviation")
    if not (spread > 0).all():  # NaN too
        raise InputError(
            f"wanted a standard deviation above 0 for each stratum; {known_classes(strata)}"
        )
    low, high = DEVIATIONS
    odd = spread[(spread < low) | (spread > high)]
    if len(odd):
        raise InputError(
            f"standard deviations must be from {low:g} to {high:g}, got {odd[0]:g}; give them in "
            "other units, only how they relate to each other counts for an allocation"
        )
    return np.full(len(strata), np.nan), spread


def _by_stratum(
    given: float | Mapping[str | int, float] | None, strata: tuple[ClassInfo, ...], what: str
) -> NDArray[np.float64]:
    """Return a value for each stratum, NaN where none is given."""
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


def _check_asked(size: int | None, minimum: int, pixels: int) -> None:
    """Raise `InputError` for numbers of points that no sample of the map has."""
    if size is not None and size > pixels:
        raise InputError(
            f"wanted at most {pixels:,} points, as many as the map has pixels with a class and a "
            f"stratum, got {size:,}; lower --size"
        )
    if minimum > pixels:
        raise InputError(
            f"minimum must be at most {pixels:,}, as many as the map has pixels with a class and a "
            f"stratum, got {minimum:,}; lower --minimum"
        )


def _check_room(counts: NDArray[np.int64], region: Region) -> None:
    for info, size, n in zip(region.strata, region.pixels.tolist(), counts.tolist(), strict=True):
        if n > size:
            raise SceneError(
                f"stratum {class_key(info)} has {size:,} pixels, and {n:,} points would be drawn "
                f"from it; lower --size or --minimum, or choose another of "
                f"{', '.join(ALLOCATIONS)}"
            )
