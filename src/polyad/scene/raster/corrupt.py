r"""Corrupt pixels: found by their spectrum, and replaced by their neighbors before windows are cut.

A measured spectrum is smooth up to the scene's own noise and absorption lines. What is looked at is
its roughness :math:`r_b = x_b - (x_{b-1} + x_{b+1}) / 2`, in units of how much that varies over the
scene: noise from a broken detector or a broken file is rough in most bands, and a dead
band leaves a step. A bright roof or a single tree is as smooth as anything else and stays. So does
an area: a pixel is replaced only if most pixels around it are sound.

Two tests follow each other. A cheap one looks at a few sums of roughness over the bands, one matrix
product for a tile; `find_suspects_slow` is its definition. The few suspects are then examined band
by band. Nothing depends on pixels further away than `HALO`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polyad.scene.raster.sharing import shared_tensor

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]

REPAIRS = "repairs"  # attribute of a scene whose pixels are read repaired
HALO = 2  # pixels around one that it may be replaced by
LEAST_BANDS = 16  # of fewer, roughness says little
LEAST_SPECTRA = 64
SUMS = 32  # sums of roughness that the first test looks at
SUSPECT = 15.0  # deviations of such a sum
# Median roughness of a corrupt spectrum. One of the scene has 0.7; of three scenes none has 1.9,
# and of noise as strong as the scene's contrast none has less than 5.
ROUGH = 3.2
STEP = 12.0  # deviations between two bands, where one of them is dead
END = 8  # share of the bands that may be dead at either end of the spectrum
OWN_STEP = 8.0  # and times the pixel's usual step
_CHUNK = 4096  # pixels tested at a time, few enough to stay in the processor's caches
_EXAMINED = 256  # suspects examined at a time: their neighbors take 24 times as much
_noting = threading.Lock()  # not in `Repairs`, which are sent to workers
_AROUND = [(y, x) for y, x in product(range(-HALO, HALO + 1), repeat=2) if (y, x) != (0, 0)]


@dataclass(frozen=True)
class Soundness:
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
class Repairs:
    """What `read_pixels` needs to give a scene repaired, and which pixels it replaced so far."""

    soundness: Soundness
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


def learn_soundness(spectra: Array) -> Soundness | None:
    """Learn how rough spectra ``(n, bands)`` of a scene are; up to a tenth may be corrupt.

    Returns
    -------
    Soundness or None
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
    return Soundness(center, scale, tail, sum_center, np.maximum(np.maximum(narrow, wide), 1e-3))


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


class _FirstTest(NamedTuple):
    """The sums of roughness as one product with the spectra."""

    weights: Array  # (bands, SUMS), float32
    shift: Array  # (SUMS,), float32


def _first_test(soundness: Soundness) -> _FirstTest:
    bands = soundness.bands
    mixed = _signs(bands) / soundness.tail[:, None]
    weights = np.zeros((bands, SUMS))
    weights[1:-1] += mixed
    weights[:-2] -= mixed / 2
    weights[2:] -= mixed / 2
    shift = soundness.center @ mixed + soundness.sum_center
    single = (a / soundness.sum_scale for a in (weights, shift))
    with np.errstate(over="ignore"):  # of a strange scale all spectra are suspects
        return _FirstTest(*(a.astype(np.float32) for a in single))


def find_suspects(values: Array, soundness: Soundness) -> Array:
    """Return which pixels of ``(h, w, bands)`` are worth a closer look, ``(h, w)``.

    These are pixels with a sum of roughness far off, with one value in all bands, or with a value
    that is not finite. By one product in single precision; see `find_suspects_slow`.
    """
    import torch  # here, since reading without repairs must not import it

    height, width, bands = values.shape
    test = _first_test(soundness)
    weights, shift = torch.from_numpy(test.weights), torch.from_numpy(test.shift)
    rows = max(_CHUNK // max(width, 1), 1)
    room = torch.empty(min(rows, height) * width, bands)
    suspects = np.empty((height, width), bool)
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
        suspects[start : start + rows] = found.numpy().reshape(stored.shape[:2])
        suspects[start : start + rows] |= of_one_value(stored)
    return suspects


def far_off(x: Tensor, weights: Tensor, shift: Tensor) -> Tensor:
    """Return which of ``(n, bands)`` have a sum of roughness far off, or one that is no number."""
    sums = (x @ weights).sub_(shift).abs_().amax(dim=1)
    return (sums <= SUSPECT).logical_not_()


def of_one_value(values: Array) -> Array:
    """Return which pixels of ``(h, w, bands)`` have one value in all of a few bands, ``(h, w)``."""
    alike: Array = np.asarray(values[..., 0] == values[..., -1])  # as other bands are, perhaps
    places = np.nonzero(alike)
    if len(places[0]):
        some = values[places][:, _spread_bands(values.shape[-1])]
        alike[places] = (some == some[:, :1]).all(axis=1)
    return alike


def centered_test(soundness: Soundness, center: Array) -> tuple[Array, Array]:
    """Return the weights and the shift of `far_off` for spectra less ``center``, ``(bands,)``."""
    weights, shift = _first_test(soundness)
    with np.errstate(all="ignore"):  # as there
        moved = shift - (center @ weights.astype(np.float64))
    return weights, moved.astype(np.float32)


def find_suspects_slow(values: Array, soundness: Soundness) -> Array:
    """As `find_suspects`, pixel by pixel and band by band: the reference."""
    height, width, bands = values.shape
    few, signs = _spread_bands(bands), _signs(bands)
    suspects = np.zeros((height, width), bool)
    for y, x in np.ndindex(height, width):
        spectrum = values[y, x].astype(np.float64)
        z = (roughness(spectrum) - soundness.center) / soundness.tail
        sums = [sum(z[b] * signs[b, k] for b in range(bands - 2)) for k in range(SUMS)]
        off = np.abs((np.array(sums) - soundness.sum_center) / soundness.sum_scale)
        alike = all(spectrum[b] == spectrum[few[0]] for b in few)
        suspects[y, x] = alike or not (off <= SUSPECT).all()
    return suspects


def _spread_bands(bands: int) -> Array:
    return np.unique(np.linspace(0, bands - 1, 8).astype(int))


def repair(values: Array, nodata: float | None, soundness: Soundness) -> tuple[Array, Array]:
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
    soundness : Soundness
    """
    given = values
    if values.strides[-1] != values.itemsize:  # band after band: tests and models read it slowly
        values = np.ascontiguousarray(values)
    y, x, spectra = replacements(values, find_suspects(values, soundness), nodata, soundness)
    replaced = np.zeros(values.shape[:2], bool)
    if len(y):
        values = values.copy() if values is given else values
        values[y, x] = spectra
        replaced[y, x] = True
    return values, replaced


def replacements(
    values: Array, suspects: Array, nodata: float | None, soundness: Soundness
) -> tuple[Array, Array, Array]:
    """Return row, column and new spectrum ``(n, bands)`` of each suspect that is corrupt.

    Parameters
    ----------
    values : ndarray, ``(h, w, bands)``
    suspects : ndarray of bool, ``(h, w)``
        From `find_suspects`.
    nodata : float or None
    soundness : Soundness
    """
    places = np.argwhere(suspects)
    rows, cols, spectra_of = [places[:0, 0]], [places[:0, 1]], [values[:0, 0]]
    places = places[_has_data(values[places[:, 0], places[:, 1], :1], nodata)]  # others are many
    for start in range(0, len(places), _EXAMINED):
        y, x = places[start : start + _EXAMINED].T
        kept = _has_data(values[y, x], nodata)
        y, x = y[kept], x[kept]
        if not len(y):
            continue
        spectra = values[y, x].astype(np.float64)
        mean, supported = _neighbors(values, suspects, y, x, nodata)
        bad = _bad_bands(spectra, mean, soundness) & supported[:, None]
        wrong = bad.any(axis=1)
        fixed = np.where(bad[wrong], mean[wrong], spectra[wrong])
        if values.dtype.kind in "iu":
            fixed = np.rint(fixed)
        rows.append(y[wrong])
        cols.append(x[wrong])
        spectra_of.append(fixed.astype(values.dtype))
    return np.concatenate(rows), np.concatenate(cols), np.concatenate(spectra_of)


def repair_slow(values: Array, nodata: float | None, soundness: Soundness) -> tuple[Array, Array]:
    """As `repair`, pixel by pixel: the reference."""
    suspects = find_suspects_slow(values, soundness)
    repaired, replaced = values.copy(), np.zeros(suspects.shape, bool)
    height, width, bands = values.shape
    for y, x in np.argwhere(suspects):
        spectrum = values[y, x].astype(np.float64)
        if not _has_data(values[y, x][None], nodata)[0]:
            continue
        near, far, corrupt = [], [], 0
        for dy, dx in _AROUND:
            if not (0 <= y + dy < height and 0 <= x + dx < width):
                continue
            if not _has_data(values[y + dy, x + dx][None], nodata)[0]:
                continue
            if suspects[y + dy, x + dx]:
                corrupt += 1
                continue
            far.append(values[y + dy, x + dx].astype(np.float64))
            if max(abs(dy), abs(dx)) == 1:
                near.append(far[-1])
        if len(far) < 3 or len(far) <= corrupt:
            continue
        mean = np.mean(near if len(near) >= 3 else far, axis=0)
        z = np.abs(roughness(spectrum) - soundness.center) / soundness.scale
        if np.median(z) > ROUGH or (spectrum == spectrum[0]).all():
            bad = np.ones(bands, bool)
        else:
            bad = _beyond_steps_slow(spectrum - mean, soundness)
        if bad.any():
            fixed = np.where(bad, mean, spectrum)
            repaired[y, x] = np.rint(fixed) if values.dtype.kind in "iu" else fixed
            replaced[y, x] = True
    return repaired, replaced


def _has_data(spectra: Array, nodata: float | None) -> Array:
    """Return which of ``(..., bands)`` have a measurement in every band."""
    valid: Array = np.ones(spectra.shape[:-1], bool)
    if spectra.dtype.kind == "f":
        valid &= (np.abs(spectra) <= np.finfo(np.float32).max).all(axis=-1)
    if nodata is not None and not np.isnan(nodata):
        valid &= (spectra != nodata).all(axis=-1)
    return valid


def _neighbors(
    values: Array, suspects: Array, y: Array, x: Array, nodata: float | None
) -> tuple[Array, Array]:
    """Return the mean of each pixel's sound neighbors, and whether most neighbors are sound."""
    height, width = suspects.shape
    offsets = np.array(_AROUND)  # (24, 2)
    rows, cols = y[:, None] + offsets[:, 0], x[:, None] + offsets[:, 1]  # (n, 24)
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    rows, cols = rows.clip(0, height - 1), cols.clip(0, width - 1)
    spectra = values[rows, cols]  # (n, 24, bands)
    valid = inside & _has_data(spectra, nodata)
    corrupt = (valid & suspects[rows, cols]).sum(axis=1)
    sound = valid & ~suspects[rows, cols]
    near = sound & (np.abs(offsets).max(axis=1) == 1)
    used = np.where(near.sum(axis=1)[:, None] >= 3, near, sound)
    weights = used / np.maximum(used.sum(axis=1), 1)[:, None]
    clean = np.where(used[..., None], spectra, 0)  # NaN times 0 would be NaN
    mean = np.einsum("nk,nkb->nb", weights, clean.astype(np.float64))
    return mean, (sound.sum(axis=1) >= 3) & (sound.sum(axis=1) > corrupt)


def _bad_bands(spectra: Array, mean: Array, soundness: Soundness) -> Array:
    """Return which bands of ``(n, bands)`` are corrupt, given the mean of each one's neighbors."""
    z = np.abs(roughness(spectra) - soundness.center) / soundness.scale
    whole = (np.median(z, axis=1) > ROUGH) | (spectra == spectra[:, :1]).all(axis=1)
    bad = _beyond_steps(spectra - mean, soundness)
    bad[whole] = True
    return bad


def _beyond_steps(difference: Array, soundness: Soundness) -> Array:
    """Return the bands beyond steps of the difference to the neighbors, ``(n, bands)``.

    Steps cut the bands into stretches; on the two sides of a step, the one whose mean difference is
    larger is beyond it. The first and the last stretch have a step on one side only, which other
    ground may have too: longer ones stay.
    """
    n, bands = difference.shape
    steps = np.abs(np.diff(difference, axis=1)) / _step_scale(soundness)  # (n, bands - 1)
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


def _beyond_steps_slow(difference: Array, soundness: Soundness) -> Array:
    """As `_beyond_steps` of one pixel, stretch by stretch."""
    steps = np.abs(np.diff(difference)) / _step_scale(soundness)
    jumps = np.flatnonzero(steps > max(STEP, OWN_STEP * np.median(steps))) + 1
    stretches = np.split(np.arange(len(difference)), jumps)
    level = [abs(difference[s].mean()) for s in stretches]
    bad = np.zeros(len(difference), bool)
    for k in range(len(jumps)):
        bad[stretches[k if level[k] > level[k + 1] else k + 1]] = True
    for end in (stretches[0], stretches[-1]):
        if len(end) > len(difference) // END:
            bad[end] = False
    return bad


def _step_scale(soundness: Soundness) -> Array:
    """Return how much the step between two bands may vary, ``(bands - 1,)``."""
    padded = np.concatenate([soundness.tail[:1], soundness.tail, soundness.tail[-1:]])
    return np.maximum(padded[1:], padded[:-1])
