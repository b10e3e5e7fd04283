r"""Spectra in units of their noise: few components, ordered by signal to noise.

Neighboring pixels mostly show the same material, so half the covariance of their differences is
the covariance of the noise, :math:`N`. With the covariance of the pixels, :math:`S`, the
generalized eigenvectors :math:`S v = \lambda N v` give components of unit noise, the clearest
first (maximum noise fraction, Green et al. 1988). No label is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, eigh

from polyad.errors import InputError, SceneError, SceneMismatch

Array = npt.NDArray[Any]
HUGE = 1e30
KEEP = 1e-5  # principal components with less than this share of the largest variance are dropped
TOO_FEW = (
    "learning the noise of a scene wants at least two pixels with data, got fewer; check its "
    "nodata value, and the mask or bounding box"
)
FLOOR = 1e-6  # of a band's noise variance, added so that copied or dead bands can be inverted


class TooFewPixels(InputError):
    """A scene has too few pixels with data for its noise or its graphs to be learned."""


class NoiseWhitening:
    """Project spectra onto the components with the most signal for their noise.

    Needs the whole scene to be fitted; `transform` needs no neighbor.

    Parameters
    ----------
    components : int, default=20
        At most as many as there are bands.

    Attributes
    ----------
    mean_, scale_ : ndarray, ``(bands,)``
        Of the scene, removed before the projection.
    covariance_ : ndarray, ``(bands, bands)``
        Of the pixels after that.
    projection_ : ndarray, ``(bands, components)``
    ratio_ : ndarray, ``(components,)``
        Variance of each component where its noise has one, descending.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ramp = np.linspace(0, 20, 40)[:, None, None] * np.array([1.0, -1.0, 0.5])
    >>> cube = ramp + rng.normal(size=(40, 40, 3))
    >>> model = NoiseWhitening(components=1).fit(cube)
    >>> noise = np.diff(model.transform(cube)[..., 0], axis=1).std() / np.sqrt(2)
    >>> bool(0.8 < noise < 1.2), bool(model.ratio_[0] > 10)
    (True, True)
    """

    def __init__(self, components: int = 20) -> None:
        self.components = components

    def fit(self, cube: Array, valid: Array | None = None) -> Self:
        """Learn from a scene ``(height, width, bands)``; ``valid`` marks pixels with data."""
        cube, valid = _checked(cube, valid)
        _check_spectra(cube[valid])
        self._center(cube, valid)
        z = (cube - self.mean_.astype(np.float32)) / self.scale_.astype(np.float32)
        self.covariance_ = _covariance(z[valid])
        self._solve(self.covariance_, neighbor_covariance(z, valid))
        return self

    def fit_sums(self, strips: Iterable[StripSums]) -> Self:
        """Learn as `fit` does, from the sums over strips of a scene, one unit for all."""
        sums: StripSums | None = None
        for strip in strips:
            sums = strip if sums is None else sums + strip
        if sums is None or sums.count < 2:
            raise TooFewPixels(TOO_FEW)
        _check_spectra(np.stack([sums.lowest, sums.highest]), sums.count)
        mean, covariance, noise = sums.moments()
        self.mean_, self.scale_ = mean, _scale(mean, np.sqrt(np.diag(covariance)))
        self.covariance_ = covariance / np.outer(self.scale_, self.scale_)
        self._solve(self.covariance_, noise / np.outer(self.scale_, self.scale_))
        return self

    def principal(self) -> NoiseWhitening:
        """Return the plain view of the same scene: its principal components, on their own scale.

        Those with next to no variance are left out.

        Examples
        --------
        >>> cube = np.random.default_rng(0).normal(size=(20, 20, 3))
        >>> plain = NoiseWhitening(2).fit(cube).principal()
        >>> np.allclose(plain.projection_.T @ plain.projection_, np.eye(3), atol=1e-5)
        True
        """
        plain = NoiseWhitening(len(self.covariance_))
        plain.mean_, plain.scale_, plain.covariance_ = self.mean_, self.scale_, self.covariance_
        plain._solve(self.covariance_, np.eye(len(self.covariance_)))
        kept = plain.ratio_ > KEEP * plain.ratio_[0]
        plain.ratio_, plain.projection_ = plain.ratio_[kept], plain.projection_[:, kept]
        return plain

    @classmethod
    def of_spectra(cls, spectra: Array) -> NoiseWhitening:
        """Return the plain view of some spectra ``(n, bands)``; see `principal`."""
        _check_spectra(spectra)
        view = cls()
        view._center(spectra, np.ones(len(spectra), bool))
        view.covariance_ = _covariance((spectra - view.mean_) / view.scale_)
        return view.principal()

    def transform(self, cube: Array) -> Array:
        """Return components ``(..., components)`` of spectra ``(..., bands)``, as float32."""
        if cube.shape[-1] != len(self.mean_):
            raise SceneMismatch(
                f"whitening was fitted on {len(self.mean_)} bands, got {cube.shape[-1]}; select "
                "the bands it was fitted on"
            )
        z = (cube.reshape(-1, cube.shape[-1]) - self.mean_) / self.scale_
        components = z.astype(np.float32) @ self.projection_.astype(np.float32)
        return components.reshape(*cube.shape[:-1], -1)

    def _center(self, cube: Array, valid: Array) -> None:
        spectra = cube[valid]
        self.mean_ = spectra.mean(axis=0, dtype=np.float64)
        self.scale_ = _scale(self.mean_, spectra.std(axis=0, dtype=np.float64))

    def _solve(self, signal: Array, noise: Array) -> None:
        bands = len(signal)
        floor = FLOOR * np.diag(noise).mean() + np.finfo(np.float64).tiny
        floor = max(floor, FLOOR**2 * np.diag(signal).mean())  # where no pixel has a neighbor
        while True:
            try:
                values, vectors = eigh(signal, noise + floor * np.eye(bands))
                break
            except LinAlgError:  # noise that lies within the rounding of single precision
                floor *= 100
        order = np.argsort(values)[::-1][: min(self.components, bands)]
        self.ratio_, vectors = values[order], vectors[:, order]
        # An eigenvector's sign is the solver's choice: the largest entry is made positive
        peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(order))]
        self.projection_ = vectors * np.where(peak < 0, -1.0, 1.0)


class Strip(NamedTuple):
    """Some rows of a scene, and one more that is there to be their neighbor."""

    cube: Array  # (rows, width, bands)
    valid: Array  # (rows, width): which pixels have data
    own: int  # rows, without that neighbor


class StripUnits(NamedTuple):
    """What values are shifted and divided by, to be near one when they are summed."""

    shift: Array  # (bands,)
    unit: Array  # (bands,)

    @classmethod
    def of(cls, strip: Strip) -> StripUnits:
        """Return mean and deviation of a strip's own pixels."""
        valid = strip.valid[: strip.own]
        spectra = _checked(strip.cube[: strip.own], valid, least=1)[0][valid]
        check_magnitude(spectra.min(axis=0), spectra.max(axis=0))
        shift = spectra.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(shift, _scale(shift, spectra.std(axis=0, dtype=np.float64)).astype(np.float32))


@dataclass(frozen=True)
class StripSums:
    """Sums over one strip of a scene, or over several, in the same units."""

    units: StripUnits
    lowest: Array
    highest: Array
    first: Array
    second: Array
    steps: Array
    count: int
    pairs: int

    @classmethod
    def of(cls, strip: Strip, units: StripUnits) -> StripSums:
        """Return the sums over a strip."""
        cube, valid = _checked(strip.cube, strip.valid, least=1)
        spectra = cube[valid]
        check_magnitude(spectra.min(axis=0), spectra.max(axis=0))
        z = (cube - units.shift) / units.unit
        inside = z[: strip.own][valid[: strip.own]]
        steps, pairs = _steps(z, valid, strip.own)
        return cls(
            units,
            spectra.min(axis=0),
            spectra.max(axis=0),
            inside.sum(axis=0, dtype=np.float64),
            _gram(inside),
            steps,
            len(inside),
            pairs,
        )

    def __add__(self, other: StripSums) -> StripSums:
        """Return the sums over the strips of both."""
        lowest = np.minimum(self.lowest, other.lowest)
        highest = np.maximum(self.highest, other.highest)
        names = ("first", "second", "steps", "count", "pairs")
        sums = [getattr(self, name) + getattr(other, name) for name in names]
        return StripSums(self.units, lowest, highest, *sums)

    def moments(self) -> tuple[Array, Array, Array]:
        """Return the mean of the pixels, their covariance and that of the noise."""
        unit, mean = self.units.unit.astype(np.float64), self.first / self.count
        scale = np.outer(unit, unit)
        covariance = (self.second / self.count - np.outer(mean, mean)) * scale
        np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0))
        noise = self.steps / (2 * max(self.pairs, 1)) * scale
        return self.units.shift + unit * mean, covariance, noise


class SegmentWhitening(NoiseWhitening):
    r"""Whiten by what varies inside segments, and order by what varies between them.

    As `NoiseWhitening`, with the covariance inside segments for the noise: it holds the noise and
    the texture of the ground as well. Fitting needs the whole scene.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> segments = np.repeat([[0] * 20 + [1] * 20], 30, axis=0)
    >>> cube = segments[..., None] * [9.0, 0.0] + rng.normal(size=(30, 40, 2)) * [3.0, 1.0]
    >>> white = SegmentWhitening(components=1).fit_segments(cube, segments).transform(cube)
    >>> bool(0.9 < white[:, :20].std() < 1.1)
    True
    """

    def fit_segments(self, cube: Array, segments: Array, valid: Array | None = None) -> Self:
        """Learn from a scene ``(height, width, bands)`` and its segments ``(height, width)``."""
        cube, valid = _checked(cube, valid)
        self._center(cube, valid)
        z = (cube[valid] - self.mean_) / self.scale_
        means = segment_mean(z, segments[valid])
        self._solve(_covariance(means), _covariance(z - means))
        return self


def check_magnitude(*values: Array) -> None:
    """Raise `SceneError` where squares of the values would be far beyond single precision."""
    peak = max(float(np.abs(v).max(initial=0)) for v in values)
    if peak > HUGE:
        raise SceneError(
            f"a scene's values must lie within {HUGE:g} of 0 to be computed with, got {peak:.3g}; "
            "declare the value that stands for no data, or divide the scene"
        )


def _check_spectra(spectra: Array, count: int | None = None) -> None:
    """Raise `SceneError` unless spectra ``(n, bands)`` can be computed with and told apart."""
    lowest, highest = spectra.min(axis=0), spectra.max(axis=0)
    check_magnitude(lowest, highest)
    if (lowest == highest).all():
        count = len(spectra) if count is None else count
        raise SceneError(
            f"all {count:,} pixels with data have the same spectrum, so that nothing can be "
            "told apart; check the scene and its nodata value"
        )


def neighbor_covariance(z: Array, valid: Array) -> Array:
    """Return half the covariance ``(bands, bands)`` of differences of neighbors."""
    total, count = _steps(z, valid, len(z))
    return total / (2 * max(count, 1))


def _steps(z: Array, valid: Array, rows: int) -> tuple[Array, int]:
    """Return the sum of squares of differences of neighbors, and how many; down from ``rows``."""
    across = (z[:rows, 1:] - z[:rows, :-1])[valid[:rows, 1:] & valid[:rows, :-1]]
    down = (z[1:] - z[:-1])[valid[1:] & valid[:-1]]
    return _gram(across) + _gram(down), len(across) + len(down)


def _gram(rows: Array) -> Array:
    return (rows.T @ rows).astype(np.float64)


def _covariance(rows: Array) -> Array:
    centered = rows - rows.mean(axis=0)
    return _gram(centered) / max(len(rows), 1)


def _scale(mean: Array, deviation: Array) -> Array:
    """Return what bands are divided by: their deviation, or one where they do not vary."""
    return np.where(deviation > 1e-6 * np.abs(mean), deviation, 1.0)


def _checked(cube: Array, valid: Array | None, least: int = 2) -> tuple[Array, Array]:
    if cube.ndim != 3:
        raise InputError(f"a scene is an array (height, width, bands), got shape {cube.shape}")
    valid = np.ones(cube.shape[:2], bool) if valid is None else valid
    if valid.sum() < least:
        raise TooFewPixels(TOO_FEW)
    with np.errstate(over="ignore"):  # what is infinite as float32 is not valid
        return cube.astype(np.float32, copy=False), valid


def segment_mean(values: Array, segments: Array) -> Array:
    """Return for each pixel the mean of ``values`` over its segment.

    Parameters
    ----------
    values : ndarray, ``(..., k)``
    segments : ndarray of int, ``(...)``

    Examples
    --------
    >>> segment_mean(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])).ravel().tolist()
    [1.0, 1.0, 5.0]
    """
    which = segments.ravel()
    count = np.maximum(np.bincount(which), 1)
    flat = values.reshape(len(which), -1)
    sums = np.stack([np.bincount(which, weights=column) for column in flat.T], axis=1)
    return (sums / count[:, None])[which].reshape(values.shape)
