r"""Pixels as arrays: which of them have a measurement, and how corrupt ones are replaced.

A measured spectrum is smooth up to the scene's own noise and absorption lines. What is looked at is
its roughness :math:`r_b = x_b - (x_{b-1} + x_{b+1}) / 2`, in units of how much that varies over the
scene: noise from a broken detector or a broken file is rough in most bands, and a dead
band leaves a step. A bright roof or a single tree is as smooth as anything else and stays. So does
an area: a pixel is replaced only if most pixels around it are sound.

Two tests follow each other. A cheap one looks at a few sums of roughness over the bands, one matrix
product for a tile. The few outliers are then examined band by band. Nothing depends on pixels
further away than `HALO`.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from polyad.errors import SceneError

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]

HALO = 2  # pixels around one that it may be replaced by
LEAST_BANDS = 16  # of fewer, roughness says little
LEAST_SPECTRA = 64
LEAST_CONSTANT = 3  # bands, and pixels, that must have one value to be taken for no measurement
SUMS = 32  # sums of roughness that the first test looks at
OUTLIER = 15.0  # deviations of such a sum
# Median roughness of a corrupt spectrum. One of the scene has 0.7; of three scenes none has 1.9,
# and of noise as strong as the scene's contrast none has less than 5.
ROUGH = 3.2
STEP = 12.0  # deviations between two bands, where one of them is dead
END = 8  # share of the bands that may be dead at either end of the spectrum
OWN_STEP = 8.0  # and times the pixel's usual step
_CHUNK = 4096  # pixels tested at a time, few enough to stay in the processor's caches
_EXAMINED = 256  # outliers examined at a time: their neighbors take 24 times as much
_noting = threading.Lock()  # not in `Despiking`, which are sent to workers
_AROUND = [(y, x) for y, x in product(range(-HALO, HALO + 1), repeat=2) if (y, x) != (0, 0)]


def valid_pixels(values: npt.NDArray[Any], nodata: float | None = None) -> npt.NDArray[np.bool_]:
    """Return which pixels have a measurement in every band.

    Parameters
    ----------
    values : array of shape (..., bands)
        Pixels of a scene or of a tile of it.
    nodata : float, optional
        Value that stands for "no measurement"; NaN and infinity always do, and so does what is
        infinite as float32, in which models compute.

    Returns
    -------
    bool array of shape (...)
        False where any band is nodata or not finite.

    Examples
    --------
    >>> valid_pixels(np.array([[1, 2], [-9, 4]]), nodata=-9)
    array([ True, False])
    """
    check_real(values.dtype)
    valid = np.ones(values.shape[:-1], bool)
    if values.dtype.kind == "f" and not _sum_is_finite(values):
        most = values.dtype.type(min(np.finfo(values.dtype).max, np.finfo(np.float32).max))
        valid &= (np.abs(values) <= most).all(axis=-1)  # not so for NaN
    if nodata is not None and not np.isnan(nodata):
        missing = np.asarray(values == nodata)
        if missing.any():
            valid &= ~missing.any(axis=-1)
    return valid


def undeclared_nodata(pixels: npt.NDArray[Any], known: Sequence[float | None]) -> float | None:
    """Return a value that fills all bands of some pixels and lies far outside of all others.

    Parameters
    ----------
    pixels : array of shape (..., bands)
    known : sequence of float
        Values that are known to stand for "no measurement".

    Examples
    --------
    >>> pixels = np.linspace(0.1, 0.5, 400).reshape(100, 4)
    >>> pixels[:3] = -9999
    >>> undeclared_nodata(pixels, [None]), undeclared_nodata(pixels, [-9999.0])
    (-9999.0, None)
    """
    spectra = pixels.reshape(-1, pixels.shape[-1])
    if spectra.shape[1] < LEAST_CONSTANT:
        return None
    # Two bands are looked at first: this is done with every window
    same = spectra[:, 0] == spectra[:, -1]
    if not same.any() or same.all():
        return None
    values, counts = np.unique(spectra[same, 0], return_counts=True)
    others = np.flatnonzero(~same)
    sample = spectra[others[:: max(len(others) // 256, 1)]].astype(np.float64)
    sample = sample[np.isfinite(sample) & ~np.isin(sample, [v for v in known if v is not None])]
    if not len(sample):
        return None
    low, high = np.percentile(sample, (1, 99))
    far = (values < low - (high - low) / 2) | (values > high + (high - low) / 2)
    usable = np.abs(values) <= np.finfo(np.float32).max  # beyond single precision there is no data
    for value in values[far & (counts >= LEAST_CONSTANT) & usable]:
        one = spectra[np.argmax(same & (spectra[:, 0] == value))]
        if float(value) not in known and (one == value).all():
            return float(value)
    return None


def check_real(dtype: np.dtype[Any]) -> None:
    """Raise `SceneError` unless values of this type are real numbers."""
    if dtype.kind not in "biuf":
        raise SceneError(
            f"a scene's values must be real numbers, got {dtype}; take the part that was measured"
        )


def _sum_is_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether the sum of all values is finite: then all values are, and it is fast.

    Doubles are summed as float32, where those beyond its range are infinite. Torch is faster, but
    not by what importing it takes: `polyad info` does without.
    """
    shared = shared_tensor(values) if "torch" in sys.modules else None
    wide = values.dtype.itemsize > 4
    with np.errstate(all="ignore"):
        if shared is None:
            return math.isfinite(float(values.sum(dtype=np.float32 if wide else None)))
        return math.isfinite(float((shared.float() if wide else shared).sum()))


def shared_tensor(values: npt.NDArray[Any]) -> Tensor | None:
    """Return ``values`` as a tensor on the same memory, None where torch cannot take them.

    Torch takes no read-only memory, no foreign byte order, no negative steps and no long doubles.

    Examples
    --------
    >>> import numpy as np
    >>> shared_tensor(np.zeros(3, "f4")), shared_tensor(np.zeros(3, ">f4"))
    (tensor([0., 0., 0.]), None)
    """
    import torch  # here: scenes are described without it

    kind = values.dtype
    known = kind.isnative and kind.kind in "fiu" and kind.itemsize <= 8
    forward = values.flags.writeable and min(values.strides, default=0) >= 0
    return torch.from_numpy(values) if known and forward else None


@dataclass(frozen=True)
class NoiseModel:
    """How rough the spectra of a scene are, so that corrupt ones stand out.

    Attributes
    ----------
    center, scale, tail : ndarray of float64, ``(bands - 2,)``
        Roughness of each inner band: its median, its robust deviation, and the deviation that its
        upper tenth tells, which is larger where a band is noisy now and then.
    sum_center, sum_scale : ndarray of float64, ``(SUMS,)``
        Median and deviation of the sums of the first test.
    """

    center: Array
    scale: Array
    tail: Array
    sum_center: Array
    sum_scale: Array

    @property
    def bands(self) -> int:
        """How many bands a spectrum has."""
        return len(self.center) + 2


@dataclass
class Despiking:
    """What `Scene.read` needs to give a scene despiked, and which pixels it replaced so far."""

    noise: NoiseModel
    shape: tuple[int, int]
    replaced: Array | None = field(default=None, repr=False)  # bits (y, x / 8), once there is one
    whole: bool = False  # whether every pixel has been read, so that all are counted

    def note(self, rows: slice, cols: slice, replaced: Array) -> None:
        """Remember the pixels of a window that were replaced."""
        if not replaced.any():
            return
        with _noting:
            if self.replaced is None:
                self.replaced = np.zeros((self.shape[0], -(-self.shape[1] // 8)), np.uint8)
            y, x = np.nonzero(replaced)
            y, x = y + rows.start, x + cols.start
            np.bitwise_or.at(self.replaced, (y, x // 8), (128 >> x % 8).astype(np.uint8))

    def count(self, rows: slice = slice(None), cols: slice = slice(None)) -> int:
        """Return how many pixels of a rectangle, or of all read so far, were replaced."""
        if self.replaced is None:
            return 0
        bits = np.unpackbits(self.replaced[rows], axis=1, count=self.shape[1])
        return int(np.count_nonzero(bits[:, cols]))


def learn_noise(spectra: Array) -> NoiseModel | None:
    """Learn how rough spectra ``(n, bands)`` of a scene are; up to a tenth may be corrupt.

    Returns
    -------
    NoiseModel or None
        None of too few bands or spectra to tell, and where nothing varies.
    """
    n, bands = spectra.shape
    if bands < LEAST_BANDS or n < LEAST_SPECTRA:
        return None
    x = spectra.astype(np.float64, copy=False)
    rough = roughness(x)
    spread = np.abs(np.diff(picked(x, (0.05, 0.95)), axis=0))[0]
    if not spread.max() > 0:
        return None
    # What does not vary, or by a last digit only, must not make everything else remarkable
    floor = np.maximum(1e-3 * spread[1:-1], 1e-3 * spread.max()) + np.finfo(np.float32).tiny
    center, scale, tail = _robust(rough)
    scale, tail = np.maximum(scale, floor), np.maximum(tail, floor)
    sum_center, narrow, wide = _robust(((rough - center) / tail) @ _signs(bands))
    return NoiseModel(center, scale, tail, sum_center, np.maximum(np.maximum(narrow, wide), 1e-3))


def roughness(spectra: Array) -> Array:
    """Return ``x_b - (x_(b-1) + x_(b+1)) / 2`` of the inner bands, ``(..., bands - 2)``.

    Examples
    --------
    >>> roughness(np.array([1.0, 2.0, 3.0, 9.0])).tolist()
    [0.0, -2.5]
    """
    return spectra[..., 1:-1] - (spectra[..., :-2] + spectra[..., 2:]) / 2


def picked(values: Array, shares: tuple[float, ...]) -> Array:
    """Return quantiles ``(shares, k)`` of the columns of ``(n, k)``; all are values of theirs."""
    ordered = np.sort(np.ascontiguousarray(values.T), axis=1)
    last = ordered.shape[1] - 1
    return ordered[:, [round(share * last) for share in shares]].T


def _robust(values: Array) -> tuple[Array, Array, Array]:
    """Return median, deviation by the median, and deviation by the upper tenth of columns."""
    center = picked(values, (0.5,))[0]
    half, most = picked(np.abs(values - center), (0.5, 0.9))
    scale = 1.4826 * half
    return center, scale, np.maximum(scale, most / 1.645)


def _signs(bands: int) -> Array:
    """Return which sum each inner band belongs to, and its sign there, ``(bands - 2, SUMS)``.

    Every 32nd band is in one sum; signs are the Thue-Morse sequence, which repeats nowhere.
    """
    place = np.arange(bands - 2)
    signs = np.zeros((bands - 2, SUMS))
    signs[place, place % SUMS] = [1 - 2 * (int(k).bit_count() % 2) for k in place]
    return signs


def _first_test(noise: NoiseModel) -> tuple[Array, Array]:
    """Return the sums of roughness as one product with the spectra.

    Weights ``(bands, SUMS)`` and shifts ``(SUMS,)``, both in single precision.
    """
    bands = noise.bands
    mixed = _signs(bands) / noise.tail[:, None]
    weights = np.zeros((bands, SUMS))
    weights[1:-1] += mixed
    weights[:-2] -= mixed / 2
    weights[2:] -= mixed / 2
    shift = noise.center @ mixed + noise.sum_center
    with np.errstate(over="ignore"):  # of a strange scale all spectra are outliers
        weights, shift = weights / noise.sum_scale, shift / noise.sum_scale
        return weights.astype(np.float32), shift.astype(np.float32)


def find_outliers(values: Array, noise: NoiseModel) -> Array:
    """Return which pixels of ``(h, w, bands)`` are worth a closer look, ``(h, w)``.

    These are pixels with a sum of roughness far off, with one value in all bands, or with a value
    that is not finite. By one product in single precision.
    """
    import torch  # here, since reading without repairs must not import it

    height, width, bands = values.shape
    weights, shift = map(torch.from_numpy, _first_test(noise))
    rows = max(_CHUNK // max(width, 1), 1)
    room = torch.empty(min(rows, height) * width, bands)
    outliers = np.empty((height, width), bool)
    for start in range(0, height, rows):
        stored = values[start : start + rows]
        shared = shared_tensor(stored)
        if shared is None:
            with np.errstate(over="ignore"):  # what is infinite in single precision is no data
                shared = torch.from_numpy(stored.astype(np.float32))
        if shared.dtype == torch.float32 and shared.is_contiguous():
            x = shared.view(-1, bands)
        else:
            x = room[: stored.shape[0] * width]
            x.view(stored.shape).copy_(shared)
        found = far_off(x, weights, shift)
        outliers[start : start + rows] = found.numpy().reshape(stored.shape[:2])
        outliers[start : start + rows] |= of_one_value(stored)
    return outliers


def far_off(x: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """Return which of ``(n, bands)`` have a sum of roughness far off, or one that is no number."""
    sums = (x @ weights).sub_(shift).abs_().amax(dim=1)
    return (sums <= OUTLIER).logical_not_()


def of_one_value(values: Array) -> Array:
    """Return which pixels of ``(h, w, bands)`` have one value in all of a few bands, ``(h, w)``."""
    alike: Array = np.asarray(values[..., 0] == values[..., -1])  # as other bands are, perhaps
    places = np.nonzero(alike)
    if len(places[0]):
        few = np.unique(np.linspace(0, values.shape[-1] - 1, 8).astype(int))
        some = values[places][:, few]
        alike[places] = (some == some[:, :1]).all(axis=1)
    return alike


def centered_test(noise: NoiseModel, center: Array) -> tuple[Array, Array]:
    """Return the weights and the shift of `far_off` for spectra less ``center``, ``(bands,)``."""
    weights, shift = _first_test(noise)
    with np.errstate(all="ignore"):  # as there
        moved = shift - (center @ weights.astype(np.float64))
    return weights, moved.astype(np.float32)


def despike(values: Array, nodata: float | None, noise: NoiseModel) -> tuple[Array, Array]:
    """Return pixels ``(h, w, bands)`` with corrupt ones replaced, and which these are, ``(h, w)``.

    A spectrum that is rough in most bands, or has one value in all of them, is replaced by the mean
    of its sound neighbors: of the eight next to it, or of the 24 around it if fewer than three of
    the eight are sound. Of one with steps that its neighbors do not have, the bands beyond the
    steps are. Pixels without data stay as they are.

    Parameters
    ----------
    values : ndarray, ``(h, w, bands)``
        Left as it is; where nothing is corrupt it is returned, or a copy with bands innermost.
    nodata : float or None
    noise : NoiseModel
    """
    given = values
    if values.strides[-1] != values.itemsize:  # band after band: tests and models read it slowly
        values = np.ascontiguousarray(values)
    y, x, spectra = replacements(values, find_outliers(values, noise), nodata, noise)
    replaced = np.zeros(values.shape[:2], bool)
    if len(y):
        values = values.copy() if values is given else values
        values[y, x] = spectra
        replaced[y, x] = True
    return values, replaced


def replacements(
    values: Array, outliers: Array, nodata: float | None, noise: NoiseModel
) -> tuple[Array, Array, Array]:
    """Return row, column and new spectrum ``(n, bands)`` of each outlier that is corrupt.

    Parameters
    ----------
    values : ndarray, ``(h, w, bands)``
    outliers : ndarray of bool, ``(h, w)``
        From `find_outliers`.
    nodata : float or None
    noise : NoiseModel
    """
    places = np.argwhere(outliers)
    rows, cols, spectra_of = [places[:0, 0]], [places[:0, 1]], [values[:0, 0]]
    places = places[valid_pixels(values[places[:, 0], places[:, 1], :1], nodata)]  # others are many
    for start in range(0, len(places), _EXAMINED):
        y, x = places[start : start + _EXAMINED].T
        kept = valid_pixels(values[y, x], nodata)
        y, x = y[kept], x[kept]
        if not len(y):
            continue
        spectra = values[y, x].astype(np.float64)
        mean, supported = _neighbors(values, outliers, y, x, nodata)
        bad = _bad_bands(spectra, mean, noise) & supported[:, None]
        wrong = bad.any(axis=1)
        fixed = np.where(bad[wrong], mean[wrong], spectra[wrong])
        if values.dtype.kind in "iu":
            fixed = np.rint(fixed)
        rows.append(y[wrong])
        cols.append(x[wrong])
        spectra_of.append(fixed.astype(values.dtype))
    return np.concatenate(rows), np.concatenate(cols), np.concatenate(spectra_of)


def _neighbors(
    values: Array, outliers: Array, y: Array, x: Array, nodata: float | None
) -> tuple[Array, Array]:
    """Return the mean of each pixel's sound neighbors, and whether most neighbors are sound."""
    height, width = outliers.shape
    offsets = np.array(_AROUND)  # (24, 2)
    rows, cols = y[:, None] + offsets[:, 0], x[:, None] + offsets[:, 1]  # (n, 24)
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    rows, cols = rows.clip(0, height - 1), cols.clip(0, width - 1)
    spectra = values[rows, cols]  # (n, 24, bands)
    valid = inside & valid_pixels(spectra, nodata)
    corrupt = (valid & outliers[rows, cols]).sum(axis=1)
    sound = valid & ~outliers[rows, cols]
    near = sound & (np.abs(offsets).max(axis=1) == 1)
    used = np.where(near.sum(axis=1)[:, None] >= 3, near, sound)
    weights = used / np.maximum(used.sum(axis=1), 1)[:, None]
    clean = np.where(used[..., None], spectra, 0)  # NaN times 0 would be NaN
    mean = np.einsum("nk,nkb->nb", weights, clean.astype(np.float64))
    return mean, (sound.sum(axis=1) >= 3) & (sound.sum(axis=1) > corrupt)


def _bad_bands(spectra: Array, mean: Array, noise: NoiseModel) -> Array:
    """Return which bands of ``(n, bands)`` are corrupt, given the mean of each one's neighbors."""
    z = np.abs(roughness(spectra) - noise.center) / noise.scale
    whole = (np.median(z, axis=1) > ROUGH) | (spectra == spectra[:, :1]).all(axis=1)
    bad = _beyond_steps(spectra - mean, noise)
    bad[whole] = True
    return bad


def _beyond_steps(difference: Array, noise: NoiseModel) -> Array:
    """Return the bands beyond steps of the difference to the neighbors, ``(n, bands)``.

    Steps cut the bands into stretches; on the two sides of a step, the one whose mean difference is
    larger is beyond it. The first and the last stretch have a step on one side only, which other
    ground may have too: longer ones stay.
    """
    n, bands = difference.shape
    tail = np.pad(noise.tail, 1, mode="edge")
    scale = np.maximum(tail[1:], tail[:-1])  # of the step between two bands
    steps = np.abs(np.diff(difference, axis=1)) / scale  # (n, bands - 1)
    usual = np.median(steps, axis=1, keepdims=True)
    jumps = steps > np.maximum(STEP, OWN_STEP * usual)
    stretch = np.zeros((n, bands), np.intp)
    np.cumsum(jumps, axis=1, out=stretch[:, 1:])
    stretch += np.concatenate([[0], np.cumsum(stretch[:, -1] + 1)[:-1]])[:, None]
    flat = stretch.ravel()
    level = np.abs(np.bincount(flat, difference.ravel()) / np.bincount(flat))
    beyond = np.zeros(len(level), bool)
    left = stretch[:, :-1][jumps]
    beyond[np.where(level[left] > level[left + 1], left, left + 1)] = True
    lengths = np.bincount(flat)
    for end in (stretch[:, 0], stretch[:, -1]):
        beyond[end] &= lengths[end] <= bands // END
    return beyond[stretch]
