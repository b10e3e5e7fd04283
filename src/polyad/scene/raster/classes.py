"""What the values of a map mean: classes or targets, and how certain they are.

A class raster is an integer ``xarray.DataArray`` with dims ``(y, x)`` in which 0 means "no class".
Its table of classes lies in three plain attributes of equal length, which survive every file
format: ``class_values`` (ids), ``class_names`` and ``class_colors`` (``#rrggbb``).

Values of a scene are a DataArray of float32 with dims ``(y, x, target)``, NaN where nothing is
known. Names are the coordinate ``target``, units the coordinate ``units`` along it.
"""

from __future__ import annotations

import colorsys
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import InputError
from polyad.scene.files.option_values import check_bounds
from polyad.text import clean_name

if TYPE_CHECKING:
    import xarray as xr


UNLABELED = 0
_TABLE = ("class_values", "class_names", "class_colors")  # attributes of a class raster
EXACT_NAMES = "polyad class names"  # in an ENVI header, whose lists cannot hold a comma

# Color-blind-safe: Paul Tol's "muted" and "vibrant" hues, interleaved so that neighbors differ.
_PALETTE = (
    "#4477AA", "#EE7733", "#117733", "#CC3311", "#88CCEE", "#DDCC77", "#AA4499", "#44AA99",
    "#882255", "#999933", "#332288", "#EE3377", "#009988", "#CC6677", "#33BBEE", "#BBBBBB",
)  # fmt: skip


class _Row(NamedTuple):
    value: int
    name: str
    color: str


class ClassInfo(_Row):
    r"""One class: its id in the raster, its name, its color as ``#rrggbb``.

    Names and colors may come from untrusted files and go into XML, web pages and terminals. So a
    class always has a name of plain characters and a valid color, whatever it is made from.

    Examples
    --------
    >>> ClassInfo(1, "Corn\x1b\n", "red; } body { display: none")
    ClassInfo(value=1, name='Corn', color='#4477AA')
    """

    __slots__ = ()

    def __new__(cls, value: int, name: str, color: str) -> Self:
        """Return the class, its name cleaned and an invalid color replaced."""
        named = clean_name(name) or default_name(value)
        return super().__new__(cls, value, named, color if is_color(color) else class_color(value))


def is_color(text: str) -> bool:
    """Whether ``text`` is a color as ``#rrggbb``."""
    return re.fullmatch(r"#[0-9a-fA-F]{6}", text) is not None


def class_color(value: int) -> str:
    """Return the default color of a class, as ``#rrggbb``: it depends on the id alone.

    So a class keeps its color when another has no label. Ids 1 to 16 suit color-blind readers.

    Examples
    --------
    >>> class_color(1), class_color(5)
    ('#4477AA', '#88CCEE')
    """
    if 1 <= value <= len(_PALETTE):
        return _PALETTE[value - 1]
    k = value - len(_PALETTE) - 1
    golden = 0.618033988749895  # successive multiples of it are spread evenly round the hue circle
    light = (0.35, 0.55, 0.75)[k % 3]
    r, g, b = colorsys.hls_to_rgb((k * golden) % 1.0, light, 0.6)
    return f"#{round(255 * r):02X}{round(255 * g):02X}{round(255 * b):02X}"


def palette(n: int) -> list[str]:
    """Return the colors of classes 1 to ``n``, all distinct; see `class_color`.

    Examples
    --------
    >>> palette(2)
    ['#4477AA', '#EE7733']
    >>> len(set(palette(40)))
    40
    """
    return [class_color(k) for k in range(1, n + 1)]


def default_name(value: int) -> str:
    """Return the name of a class that has none."""
    return f"class {value}"


def has_own_name(info: ClassInfo) -> bool:
    """Whether a class has a name of its own, not the default for its id."""
    return info.name != default_name(info.value)


def class_key(info: ClassInfo) -> str:
    """Return how a legend calls a class: by id and name.

    Examples
    --------
    >>> class_key(ClassInfo(9, "Oats", "#882255")), class_key(ClassInfo(9, "class 9", "#882255"))
    ('9 Oats', 'class 9')
    """
    return f"{info.value} {info.name}" if has_own_name(info) else info.name


def unique_names(classes: Sequence[ClassInfo]) -> list[str]:
    """Return the name of each class, with its id where two classes share a name.

    Examples
    --------
    >>> unique_names([ClassInfo(1, "Corn", ""), ClassInfo(2, "Rye", ""), ClassInfo(5, "Corn", "")])
    ['1 Corn', 'Rye', '5 Corn']
    """
    names = [info.name for info in classes]
    return [i.name if names.count(i.name) == 1 else class_key(i) for i in classes]


def class_table(raster: xr.DataArray) -> tuple[ClassInfo, ...]:
    """Return the classes of ``raster``, in the order of their ids.

    Names and colors that the raster does not carry are filled in from the ids, as ``class 3``.
    """
    stored = {k: np.atleast_1d(v) for k, v in raster.attrs.items() if k in _TABLE}
    ids = stored["class_values"] if "class_values" in stored else np.unique(raster.values)
    values = [int(v) for v in ids if "class_values" in stored or v != UNLABELED]
    names = stored.get("class_names", [default_name(v) for v in values])
    colors = stored.get("class_colors", [class_color(v) for v in values])
    rows = zip(values, names, colors, strict=True)
    return tuple(sorted(ClassInfo(v, str(n), str(c)) for v, n, c in rows))


def with_classes(raster: xr.DataArray, classes: Sequence[ClassInfo]) -> xr.DataArray:
    """Return ``raster`` carrying ``classes`` in its attributes."""
    return raster.assign_attrs(
        class_values=[c.value for c in classes],
        class_names=[c.name for c in classes],
        class_colors=[c.color for c in classes],
    )


def rgb(color: str) -> tuple[int, int, int]:
    """Return the red, green and blue of ``#rrggbb``.

    Examples
    --------
    >>> rgb("#4477AA")
    (68, 119, 170)
    """
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def class_dtype(classes: Sequence[ClassInfo]) -> np.dtype[Any]:
    """Return the smallest of uint8 and uint16 that holds every class id.

    Examples
    --------
    >>> class_dtype([ClassInfo(255, "Corn", "#4477AA")]).name
    'uint8'
    """
    largest = max((c.value for c in classes), default=0)
    smallest = min((c.value for c in classes), default=1)
    if smallest <= UNLABELED or largest > 65535:
        raise InputError(
            f"class ids of a map must lie between 1 and 65535, got {smallest} to {largest}; "
            "renumber the classes"
        )
    return np.dtype(np.uint8 if largest <= 255 else np.uint16)


Ids = NDArray[np.int64]
STRIP_PIXELS = 2**22  # looked at together: a map of any size takes the memory of these
_IDS = 2**16


def iter_strips(
    *rasters: xr.DataArray, pixels: int = STRIP_PIXELS
) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    """Yield the first row and the values of some rows of rasters that lie over each other."""
    height, width = rasters[0].sizes["y"], rasters[0].sizes["x"]
    step = max(1, pixels // max(1, width))
    for top in range(0, height, step):
        yield top, [raster.isel(y=slice(top, top + step)).to_numpy() for raster in rasters]


def ids_digest(raster: xr.DataArray) -> str:
    """Return twelve hexadecimal digits that tell the ids of one map from those of another.

    They depend on the ids and the shape alone, so the same map in another format has the same.

    Examples
    --------
    >>> ids = np.array([[1, 2], [0, 2]])
    >>> ids_digest(xr.DataArray(ids, dims=("y", "x")))
    'f099e6bba365'
    >>> ids_digest(xr.DataArray(ids.astype(np.uint8), dims=("y", "x")))
    'f099e6bba365'
    """
    digest = hashlib.sha256(f"{raster.sizes['y']} {raster.sizes['x']}".encode())
    for _, (strip,) in iter_strips(raster):
        digest.update(np.ascontiguousarray(strip, "<u2").data)
    return digest.hexdigest()[:12]


def count_ids(strip: NDArray[Any]) -> Ids:
    """Return how many pixels each id from 0 to 65535 has, shape (65536,)."""
    low, high = (int(f(initial=0)) for f in (strip.min, strip.max))
    if low < 0 or high >= _IDS:
        raise InputError(
            f"ids of a map must lie between 0 (none) and {_IDS - 1}, got {low} to {high}; renumber "
            "its classes"
        )
    return np.bincount(strip.ravel(), minlength=_IDS)


def class_totals(
    classes: xr.DataArray, strata: xr.DataArray, weights: NDArray[np.float64]
) -> tuple[Ids, NDArray[np.float64], Ids, NDArray[np.float64], int]:
    """Count the pixels that have a class and a stratum, and add up their weights.

    Parameters
    ----------
    classes, strata : DataArray of int, dims (y, x)
        Ids from 0, none, to 65535.
    weights : ndarray, shape (y,)
        Of a pixel of each row, such as its area.

    Returns
    -------
    pixels, total : ndarray, shape (65536,)
        By stratum.
    mapped, mapped_total : ndarray, shape (65536,)
        By class.
    outside : int
        Pixels that have a class and no stratum.
    """
    pixels, total = np.zeros(_IDS, np.int64), np.zeros(_IDS)
    mapped, mapped_total = np.zeros(_IDS, np.int64), np.zeros(_IDS)
    outside = 0
    even = bool(np.all(weights == weights[:1]))
    for top, (class_ids, stratum_ids) in iter_strips(classes, strata):
        both = (class_ids != 0) & (stratum_ids != 0)
        outside += int(np.count_nonzero((class_ids != 0) & (stratum_ids == 0)))
        rows = weights[top : top + len(both)]
        for ids, count, weight in ((stratum_ids, pixels, total), (class_ids, mapped, mapped_total)):
            kept = ids[both]
            own = count_ids(kept)
            count += own
            if even:
                weight += own * rows[0]
            else:
                each = np.repeat(rows, both.sum(axis=1))
                weight += np.bincount(kept, each, minlength=_IDS)
    return pixels, total, mapped, mapped_total, outside


SET_SIZE = "prediction set size"  # the tag "quantity" of a file that holds it
SET_MEMBERS = "prediction set members"
NO_SET = 255  # of a membership, where a pixel is not mapped


class SetRule(NamedTuple):
    """Which classes are in the set of a pixel.

    Attributes
    ----------
    coverage : float
        Share of the sets that are promised to hold the true class.
    least : tuple of float
        Of each class: it is in the set of a pixel in which its probability is not below this.
    labels : int
        How many held-out labels say so.
    """

    coverage: float
    least: tuple[float, ...]
    labels: int


def set_members(proba: npt.NDArray[Any], rule: SetRule) -> npt.NDArray[np.uint8]:
    """Return which classes are in the set of each pixel; the likeliest always is.

    Parameters
    ----------
    proba : array of float, shape (..., classes)
        NaN where there are none.
    rule : SetRule

    Returns
    -------
    array of uint8, shape (..., classes)
        1 for a class in the set, 0 for others, 255 where there are no probabilities.

    Examples
    --------
    >>> rule = SetRule(0.9, (0.2, 0.2, 0.2), 50)
    >>> proba = np.array([[0.7, 0.25, 0.05], [0.9, 0.06, 0.04], [np.nan] * 3])
    >>> set_members(proba, rule).tolist()
    [[1, 1, 0], [1, 0, 0], [255, 255, 255]]
    """
    blank = np.isnan(proba[..., :1])
    members = proba >= np.asarray(rule.least, np.float32)
    likeliest = np.where(blank, 0, proba).argmax(axis=-1)
    np.put_along_axis(members, likeliest[..., np.newaxis], True, axis=-1)
    return np.where(blank, NO_SET, members).astype(np.uint8)


def set_sizes(members: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return how many classes each set has, ``(...)``; 0 where there is none.

    Examples
    --------
    >>> set_sizes(np.array([[1, 1, 0], [255, 255, 255]], np.uint8)).tolist()
    [2, 0]
    """
    sizes = (members == 1).sum(axis=-1)
    return sizes.astype(size_dtype(members.shape[-1]))


def size_dtype(classes: int) -> np.dtype[Any]:
    """Return the type that holds the size of any set of so many classes."""
    return np.dtype(np.uint8 if classes <= np.iinfo(np.uint8).max else np.uint16)


UNCERTAINTY = "class uncertainty"  # the tag "quantity" of a file that holds it
UNCERTAINTIES = (
    "1 - largest probability",
    "1 - (largest - second largest probability)",
    "entropy / log(number of classes)",
)
"""The bands, by name. All three point the same way: 0 is certain, larger is less certain."""


def uncertainty_bands(proba: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    r"""Return three measures of uncertainty of class probabilities, each from 0 to 1.

    With :math:`p_1 \ge p_2 \ge \dots \ge p_K` they are :math:`1 - p_1`, :math:`1 - (p_1 - p_2)`,
    which is one minus the margin, and :math:`-\sum_k p_k \log p_k / \log K`, the entropy.

    Parameters
    ----------
    proba : array of float, shape (..., classes)
        NaN where there are none.

    Returns
    -------
    array of float32, shape (..., 3)
        NaN where there are no probabilities.

    Examples
    --------
    >>> uncertainty_bands(np.array([[0.5, 0.5], [1.0, 0.0], [np.nan, np.nan]])).tolist()
    [[0.5, 1.0, 1.0], [0.0, 0.0, 0.0], [nan, nan, nan]]
    """
    count = proba.shape[-1]
    if count == 1:
        return np.repeat(np.clip(1 - proba, 0, 1).astype(np.float32), 3, axis=-1)
    largest = np.partition(proba, count - 2, axis=-1)[..., -2:]  # (..., 2): second, first
    terms = np.where(proba == 0, 0, proba * np.log(np.maximum(proba, np.finfo(np.float32).tiny)))
    bands = np.stack(
        [
            1 - largest[..., 1],
            1 - (largest[..., 1] - largest[..., 0]),
            terms.sum(axis=-1) / np.log(count),  # at most 0
        ],
        axis=-1,
    )
    return np.clip(np.abs(bands), 0, 1).astype(np.float32)


LARGEST, SMALLEST = 1e30, 1e-30  # values that single precision leaves room to compute with
VALUE_DIMS = ("y", "x", "target")
MOST_TARGETS = 64


class Target(NamedTuple):
    """A number that is predicted.

    Attributes
    ----------
    name : str
    units : str
        "" where it has none, or they are not known.
    low, high : float or None
        Bounds that a prediction never leaves.
    """

    name: str
    units: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def title(self) -> str:
        """Name and unit, as an axis has them."""
        return f"{self.name} [{self.units}]" if self.units else self.name


def as_values(values: Any) -> xr.DataArray:
    """Return values with dims ``(y, x, target)``; one target may come without its dimension.

    Parameters
    ----------
    values : DataArray of numbers, dims ``(y, x)`` or ``(y, x, target)``
        NaN where nothing is known; a name of its own is that of the one target.

    Examples
    --------
    >>> plain = xr.DataArray(np.ones((2, 3)), dims=("x", "y"), name="cover")
    >>> [str(name) for name in as_values(plain)["target"].values]
    ['cover']
    """
    if not isinstance(values, xr.DataArray) or values.dtype.kind not in "iuf":
        got = values.dtype if isinstance(values, xr.DataArray) else type(values).__name__
        raise InputError(
            f"expected a DataArray of numbers with dims (y, x) or (y, x, target), got {got}"
        )
    if set(values.dims) == {"y", "x"}:
        name = "value" if values.name is None else str(values.name)
        values = values.expand_dims(target=[name])
    if set(values.dims) != set(VALUE_DIMS):
        raise InputError(f"values have dims (y, x) or (y, x, target), got {values.dims}")
    if "target" not in values.coords:
        names = [f"value {k + 1}" for k in range(values.sizes["target"])]
        values = values.assign_coords(target=names)
    if not 1 <= values.sizes["target"] <= MOST_TARGETS:
        raise InputError(f"expected 1 to {MOST_TARGETS} targets, got {values.sizes['target']}")
    return values.transpose(*VALUE_DIMS)


def target_table(values: xr.DataArray, bounds: Sequence[float] | None = None) -> tuple[Target, ...]:
    """Return the targets of values; ``bounds`` hold for all of them."""
    low, high = (None, None) if bounds is None else check_bounds(bounds)
    names = [clean_name(str(name)) for name in values["target"].values]
    if len(set(names)) < len(names):
        raise InputError(f"targets must have different names, got {', '.join(names)}")
    told = "units" in values.coords and values["units"].dims == ("target",)
    units = values["units"].values.tolist() if told else [""] * len(names)
    return tuple(
        Target(n, clean_name(str(u)) if u else "", low, high)
        for n, u in zip(names, units, strict=True)
    )


def size_fault(numbers: NDArray[Any]) -> str | None:
    """Return what is wrong with the size of a target's numbers, ``(n,)``, in words, or None.

    Examples
    --------
    >>> size_fault(np.array([0.5, 1e300]))
    'expected numbers from -1e+30 to 1e+30, got 1e+300; give them in other units'
    >>> size_fault(np.array([0.0, np.nan, 7.0]))
    """
    known = numbers[np.isfinite(numbers)].astype(np.float64)
    farthest = float(known[np.abs(known).argmax()]) if len(known) else 0.0
    if abs(farthest) > LARGEST:
        return (
            f"expected numbers from {-LARGEST:g} to {LARGEST:g}, got {farthest:g}; give them in "
            "other units"
        )
    if 0 < abs(farthest) < SMALLEST:
        return (
            f"expected numbers of which some reach {SMALLEST:g}, got none beyond {farthest:g}; "
            "give them in other units"
        )
    return None


def clipped(values: NDArray[Any], targets: Sequence[Target]) -> NDArray[Any]:
    """Return values ``(..., targets)`` within the targets' bounds; NaN stays.

    What is measured lies within them, so the nearest value there is never farther from it.

    Examples
    --------
    >>> clipped(np.array([[-0.2, 7.0]]), [Target("cover", "", 0.0, 1.0), Target("height")])
    array([[0., 7.]])
    """
    low = np.array([-np.inf if t.low is None else t.low for t in targets], values.dtype)
    high = np.array([np.inf if t.high is None else t.high for t in targets], values.dtype)
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return values
    return np.clip(values, low, high)
