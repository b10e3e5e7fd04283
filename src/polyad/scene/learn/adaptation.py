r"""Radiometric normalization: a model on another day, sensor setting or unit, without a label.

What changes a band's values is taken for affine, :math:`x' = a_b x + b_b`. Four ways to undo it are
tried, from the least to the most free: none; one gain and one offset for all bands; those of each
band, drawn toward the common ones where its quantiles do not fit; those of each band as its
quantiles say. Quantiles cannot tell light from content: a scene with more water is darker too. So
the way is chosen by spectra instead: after it, each pixel of the new scene should look like *some*
pixel of the scene that the model knows, however many there are of either. The distance is in units
of the spectra's roughness, and the median over pixels is taken. Where the pixels are even those of
the same places, the training pixels lie in the new scene too, and label propagation starts there.
Where even then they are far from all of them, as random numbers are, the model is left as it is.

The map :math:`a_b x + b_b` is folded into the model: its scaler, its fill and its guide. So every
way of mapping takes an adapted model as any other.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, PolyadWarning
from polyad.estimators.base import RankREstimator
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.radiometry import Radiometry
from polyad.scene.raster.despiking import roughness
from polyad.scene.raster.scene import LEAST, RadiometricSample, Scene, sample_pixels

Array = npt.NDArray[Any]

# There is a radiometric shift if some way brings its pixels this much nearer to known spectra: the
# halves of three scenes, whose content differs and whose light does not, stay below 1.2.
OUTSIDE, MARGIN = 1.25, 0.5
# So many times as far from the training scene's spectra as these from each other, no light explains
# a scene: quarters of three scenes stay below 3.2 in any light; with the values of each band
# shuffled, Indian Pines is at 7 and the Pavia crop at 10.
FAR = 4.0
SAME = 0.2  # distance below which two pictures are one; pixels of one field are ten times as far
FREEDOM = 0.03  # share by which a single band is expected to depart from the common gain
# Quantiles near the median are surer, and the outermost may be of corrupt pixels
_WEIGHTS = np.array([0, 1, 1.5, 2, 1.5, 1, 0])[:, None] / 7


class Shift(NamedTuple):
    """A way from a scene's values to those that a model knows: ``gain * x + offset``."""

    gain: Array  # (bands,)
    offset: Array  # (bands,)
    by: str  # in words


AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Comparison:
    """A scene's light beside that of a model.

    Attributes
    ----------
    shift : Shift
        The way that brings the scene nearest to what the model knows.
    common : tuple of float
        Gain and offset for all bands from the model's scene to this one: 1.3 is brighter.
    distance, nearest : float
        Median distance of the scene's spectra to known ones, as it is and after ``shift``.
    share_outside : float
        Of the scene's values, beyond the 1st and 99th percentile of the training pixels.
    same_ground : bool
        Whether, after ``shift``, the pixels are those of the model's scene, place by place: the
        same picture in another unit or with another calibration.
    apart : float
        How far the scene is from known spectra at best, as a multiple of how far these lie apart.
    varies : bool
        Whether the scene's pixels differ: where they do not, no gain can be told.
    """

    shift: Shift
    common: tuple[float, float]
    distance: float
    nearest: float
    share_outside: float
    same_ground: bool
    apart: float
    varies: bool

    @property
    def outside(self) -> bool:
        """Whether there is a radiometric shift from the training scene."""
        return self.distance > OUTSIDE * self.nearest + MARGIN

    @property
    def unlike(self) -> bool:
        """Whether no light brings the scene near the one that the model knows."""
        return self.apart > FAR

    @property
    def _far(self) -> str:
        times = number_text(self.apart)
        return (
            f"its spectra lie {times} times as far from the nearest ones there as those lie apart"
        )

    @property
    def unlike_message(self) -> str:
        """Why the scene cannot be adapted to."""
        way = "no gain and offset bring the scene near the training scene: at best "
        if not self.varies:
            way = (
                "all pixels of the scene have one spectrum, which is not near the training scene: "
            )
        return (
            f"{way}{self._far}, expected at most {FAR:.0f}; check its sensor, bands and unit, or "
            "train on labels of this scene"
        )

    @property
    def note(self) -> str:
        """What was done with the shift."""
        if not self.varies:
            return "not adapted: all pixels of the scene have one spectrum, which tells no gain"
        if self.shift.by == AS_IT_IS:
            way = "nothing was adapted: no gain and offset bring the scene nearer to the training "
            return f"{way}scene; {self._far}"
        values = shift_text(self.common)
        return f"adapted to the scene's light {self.shift.by}: its values are {values}"

    def warning(self, adaptable: bool) -> str:
        """Return what is warned of where a model is not adapted to a radiometric shift."""
        remedy = "map with --adapt (in Python, adapt=True), or train" if adaptable else "train"
        return (
            "radiometric shift from the training scene, the map may be wrong: the scene's values "
            f"are {shift_text(self.common)}, and {100 * self.share_outside:.0f} % of them lie "
            f"beyond the 1st and 99th percentile of the training pixels; {remedy} on labels of "
            "this scene"
        )


@dataclass(frozen=True)
class Adaptation:
    """What a model needs to map one scene in its light; small enough to go to every worker.

    Attributes
    ----------
    shift : Shift or None
        Folded into the model, if any.
    light : RadiometricSample or None
        Of the scene, if it has enough pixels: its soundness finds corrupt pixels.
    note : str or None
        What was done, in one line.
    scene : str or None
        Fingerprint of the scene, if the model's training pixels lie in it too.
    """

    shift: Shift | None
    light: RadiometricSample | None
    note: str | None = None
    scene: str | None = None

    def apply(self, model: SceneModel) -> SceneModel:
        """Return the model for this scene."""
        shifted = model if self.shift is None else fold_shift(model, self.shift)
        if self.scene is not None:
            shifted = replace(shifted.with_training(scene=self.scene), statistics=None)
        if model.soundness is not None and self.light is not None:
            shifted = replace(shifted, soundness=self.light.noise)
        return replace(shifted, radiometry=None, adapted=self.note)


def adapt_model(
    model: SceneModel, scene: xr.DataArray | Scene, adapt: bool | None = None
) -> SceneModel:
    """Return the model as it maps ``scene``: adapted to its light, or with a warning.

    Parameters
    ----------
    model : SceneModel
    scene : DataArray, dims ``(y, x, band)``
        A sample of it is read. The scene that the model was trained on is never adapted to.
    adapt : bool, optional
        By default, a model trained with ``goal="other-scenes"`` is adapted to a scene that is
        clearly shifted, and any other model is not.

    Returns
    -------
    SceneModel
        Its attribute ``adapted`` says in one line what was done.

    Raises
    ------
    InputError
        ``adapt`` is asked for, and the model cannot be adapted.
    """
    adaptation = find_adaptation(model, scene, adapt)
    return model if adaptation is None else adaptation.apply(model)


def find_adaptation(
    model: SceneModel, scene: xr.DataArray | Scene, adapt: bool | None = None
) -> Adaptation | None:
    """Return how the model is adapted to a scene, None where nothing is to be done or known.

    Warns where the model is not adapted to a scene with a radiometric shift, or that is unlike the
    training scene in any; see `adapt_model`.
    """
    if model.adapted is not None:
        return None  # done before
    obstacle = _obstacle(model)
    if adapt and obstacle is not None:
        raise InputError(f"{obstacle}; or map with --no-adapt (adapt=False)")
    if model.radiometry is None:
        return None
    viewed = model.view(scene)
    if model.training.scene == viewed.fingerprint:
        return None
    light = viewed.radiometry
    if light is None:
        if not adapt:
            return None
        count = len(sample_pixels(viewed)[0])
        note = f"not adapted: expected at least {LEAST} pixels with data, the scene has {count}"
        return Adaptation(None, None, note)
    found = compare(model.radiometry, light)
    meant_for_others = model.recipe is not None and model.recipe.goal == "other-scenes"
    wanted = (meant_for_others and found.outside and obstacle is None) or adapt
    if found.unlike:
        if adapt:
            return Adaptation(None, light, f"not adapted: {found.unlike_message}")
        warnings.warn(found.unlike_message, PolyadWarning, stacklevel=3)
    elif wanted and adapt is not False:
        same = viewed.fingerprint if found.same_ground else None
        return Adaptation(found.shift, light, found.note, same)
    elif found.outside:
        warnings.warn(found.warning(obstacle is None), PolyadWarning, stacklevel=3)
    return Adaptation(None, light)


def compare(known: Radiometry, light: RadiometricSample) -> Comparison:
    """Compare a scene's light to that of a model."""
    spectra = known.spectra.astype(np.float64)
    scale = _spectral_scale(spectra)
    scaled = spectra / scale
    shifts = candidates(known.scene, light.quantiles)
    views = [shift.gain * light.spectra + shift.offset for shift in shifts]
    distances = [nearest_distance(moved / scale, scaled) for moved in views]
    best = int(np.argmin(distances))
    moved, same_ground = views[best], False
    if moved.shape == spectra.shape:
        apart = np.square((moved - spectra) / scale).mean(axis=1)
        same_ground = float(np.sqrt(np.median(apart))) < SAME
    gain, offset = common_shift(known.scene, light.quantiles)
    outside = (light.spectra < known.training[0]) | (light.spectra > known.training[-1])
    return Comparison(
        shifts[best],
        (1 / gain, -offset / gain) if gain > 0 else (math.nan, math.nan),
        distances[0],
        distances[best],
        float(outside.mean()),
        same_ground,
        distances[best] / max(nearest_distance(scaled, scaled), MARGIN / FAR),
        _varies(light.quantiles),
    )


def candidates(known: Array, new: Array) -> list[Shift]:
    """Return the ways to bring a scene of quantiles ``new``, ``(7, bands)``, to the known ones."""
    ones, zeros = np.ones(known.shape[1]), np.zeros(known.shape[1])
    gain, offset = common_shift(known, new)
    shifts = [Shift(ones, zeros, AS_IT_IS)]
    if _varies(new) and math.isfinite(gain) and gain > 0:
        by = "by gain and offset of each band"
        shifts += [
            Shift(gain * ones, offset * ones, "by one gain and one offset"),
            Shift(*drawn_shift(known, new, gain, offset), by),
            Shift(*band_shift(known, new, gain), by),
        ]
    finite = [np.isfinite([s.gain, s.offset]).all() and (s.gain > 0).all() for s in shifts]
    return [shift for shift, sane in zip(shifts, finite, strict=True) if sane]


def _varies(quantiles: Array) -> bool:
    """Whether a scene's pixels differ by more than the rounding of single precision."""
    return bool(np.ptp(quantiles, axis=0).max() > 1e-6 * np.abs(quantiles).max())


def common_shift(known: Array, new: Array) -> tuple[float, float]:
    """Return gain and offset that bring all bands' quantiles together, robustly (Huber 1964).

    Examples
    --------
    >>> known = np.arange(7.0)[:, None] * [1.0, 2.0, 5.0]
    >>> gain, offset = common_shift(known, 2 * known + 3)
    >>> round(gain, 6), round(offset, 6)
    (0.5, -1.5)
    """
    unit = 1 / _spread(known)
    gain, offset = float(_spread(known).sum() / _spread(new).sum()), 0.0
    weights = np.broadcast_to(_WEIGHTS, known.shape)
    for _ in range(50):
        off = np.abs(known - gain * new - offset) * unit
        scale = 1.4826 * np.median(off[1:-1]) + 1e-12
        w = weights * unit**2 * np.minimum(1, 1.345 * scale / np.maximum(off, 1e-12))
        total = w.sum()
        x, y = (w * new).sum() / total, (w * known).sum() / total
        gain = float((w * (new - x) * (known - y)).sum() / max((w * (new - x) ** 2).sum(), 1e-300))
        offset = float(y - gain * x)
    return gain, offset


def band_shift(known: Array, new: Array, common: float) -> tuple[Array, Array]:
    """Return gain and offset by which each band has the known median and spread."""
    spread = new[5] - new[1]
    flat = spread <= 1e-3 * _spread(new)  # says nothing of its gain
    gain = np.where(flat, common, (known[5] - known[1]) / np.where(flat, 1, spread))
    gain = np.maximum(gain, 1e-3 * abs(common))
    return gain, known[3] - gain * new[3]


def drawn_shift(known: Array, new: Array, gain: float, offset: float) -> tuple[Array, Array]:
    """Return each band's gain and offset, the mean of its own and the common ones by precision.

    Its own are a regression over its quantiles. Where content is the same they lie on a line and
    the band decides; where they do not, the common ones do, which bands depart from by `FREEDOM`.
    """
    x, y = (_WEIGHTS * new).sum(axis=0), (_WEIGHTS * known).sum(axis=0)
    variance = np.maximum((_WEIGHTS * (new - x) ** 2).sum(axis=0), 1e-300)
    slope = (_WEIGHTS * (new - x) * (known - y)).sum(axis=0) / variance
    left = (_WEIGHTS * (known - y - slope * (new - x)) ** 2).sum(axis=0)
    left = np.maximum(left, 1e-12 * _spread(known) ** 2)
    level = gain * x + offset
    prior = 1 / (FREEDOM * gain) ** 2
    own = variance / left
    slope = (own * slope + prior * gain) / (own + prior)
    prior_level = 1 / np.maximum(FREEDOM * np.abs(level), 1e-6 * _spread(known)) ** 2
    level = (y / left + prior_level * level) / (1 / left + prior_level)
    return slope, level - slope * x


def nearest_distance(spectra: Array, known: Array) -> float:
    """Return the median over ``spectra`` of the distance to the nearest of ``known``, by band.

    Among ``known`` themselves it is that to the nearest other one, infinite for a single spectrum.
    """
    squares = (spectra**2).sum(axis=1)[:, None] + (known**2).sum(axis=1) - 2 * spectra @ known.T
    if spectra is known:
        np.fill_diagonal(squares, math.inf)
    return float(np.median(np.sqrt(np.maximum(squares.min(axis=1), 0) / known.shape[1])))


def fold_shift(model: SceneModel, shift: Shift) -> SceneModel:
    """Return the model that says of ``x`` what ``model`` says of ``gain * x + offset``."""
    gain, offset = shift.gain, shift.offset
    estimator = copy.copy(model.estimator)
    old, shape = estimator.scaler_, estimator.sample_shape_
    mean, scale = (0.0, 1.0) if old is None else (old.mean_, old.scale_)
    scaler = ModeStandardScaler(-1)
    # (a x + b - m) / s is (x - (m - b) / a) / (s / a)
    scaler.mean_, scaler.scale_ = (mean - offset) / gain, scale / gain
    scaler.sample_shape_, scaler.n_features_in_ = shape, shape[0]
    estimator.scaler_ = scaler
    fill = np.zeros(model.bands) if model.fill is None else np.asarray(model.fill)
    fill, recipe = (fill - offset) / gain, model.recipe
    if recipe is not None and recipe.guided is not None:
        guided = recipe.guided
        mean = (np.asarray(guided.mean) - offset) / gain
        projection = np.asarray(guided.projection) * gain[:, None]
        both = {"mean": tuple(mean.tolist()), "projection": tuple(map(tuple, projection.tolist()))}
        folded = guided.model_copy(update=both)
        steps = tuple(folded if step is guided else step for step in recipe.steps)
        recipe = recipe.model_copy(update={"steps": steps})
    return replace(model, estimator=estimator, fill=tuple(fill.tolist()), recipe=recipe)


def _obstacle(model: SceneModel) -> str | None:
    """Return why a shift of the bands cannot be found for the model or folded into it, if so."""
    estimator = model.estimator
    if isinstance(estimator, RankREstimator):
        scaler, shape = estimator.scaler_, estimator.sample_shape_
        by_band = scaler is None or scaler.mode % len(shape) == len(shape) - 1
    if not isinstance(estimator, RankREstimator) or not by_band or shape[-1] != model.bands:
        kind = type(estimator).__name__
        return f"only a Rank-R model that standardizes each band can be adapted, got {kind}"
    if model.radiometry is None:
        what = "a model is adapted by the radiometry of its training scene, which this one does not"
        return f"{what} have; train it again with this version"
    return None


def _spread(quantiles: Array) -> Array:
    """Return how far the bands' values spread; bands that hardly vary count as if they did."""
    spread = quantiles[5] - quantiles[1]
    return np.maximum(spread, max(1e-3 * float(spread.max()), 1e-30))


def _spectral_scale(spectra: Array) -> Array:
    """Return the unit of distances in each band: how much roughness varies, ``(bands,)``."""
    spread = np.abs(np.diff(np.quantile(spectra, (0.05, 0.95), axis=0), axis=0))[0]
    least = np.maximum(1e-3 * spread, max(1e-3 * float(spread.max()), 1e-30))
    if spectra.shape[1] < 3:
        return least
    rough = roughness(spectra)
    inner = 1.4826 * np.median(np.abs(rough - np.median(rough, axis=0)), axis=0)
    return np.maximum(np.concatenate([inner[:1], inner, inner[-1:]]), least)


def shift_text(common: tuple[float, float]) -> str:
    """Return what happened to the values, as "about 1.30 times ... plus 150".

    Examples
    --------
    >>> shift_text((1.3, 150.0))
    "about 1.30 times the training scene's plus 150"
    >>> shift_text((0.0001, 0.0))
    "about 1/10,000 of the training scene's, as reflectance is of counts"
    """
    factor, offset = common
    if not (math.isfinite(factor) and factor > 0):
        return "unlike the training scene's"
    power = round(math.log10(factor))
    if power and abs(math.log10(factor) - power) < 0.2:
        if power < 0:
            return f"about 1/{10**-power:,} of the training scene's, as reflectance is of counts"
        return f"about {10**power:,} times the training scene's, as counts are to reflectance"
    unit = "" if 1 / 3 < factor < 3 else ", as in another unit"
    times = f"{factor:.2f}" if 0.1 < factor < 10 else f"{factor:.3g}"
    sign = "plus" if offset >= 0 else "minus"
    return f"about {times} times the training scene's {sign} {number_text(abs(offset))}{unit}"


def number_text(value: float) -> str:
    """Return a number with three digits and without a power."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
