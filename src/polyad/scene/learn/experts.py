r"""Experts: Rank-R networks on different views of a scene, weighed by spatial folds.

No view of the spectra and no window serves all scenes. Whitening by the scene's noise helps where
fields are large and costs where pixels are mixed; so does a wide window.
Each `Expert` is one such choice. Its held-out loss on spatial folds says what it is worth here: an
expert whose loss is :math:`\Delta` above the best one's has the weight
:math:`\exp(-\tfrac12 (\Delta / s)^2)`, with :math:`s` the standard error of that difference over
groups of labels. So folds of a few labels decide only what they can see.

Experts give log-probabilities :math:`\ell_e`; together they predict
:math:`\mathrm{softmax}(\sum_e w_e \ell_e)`. A single expert's weight is one over its temperature
(Guo et al. 2017). All views are linear in the bands and all networks separable: experts merge into
one Rank-R network on the scene's bands, hidden units side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from tqdm import tqdm

from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.accuracy import HeldOutLabels
from polyad.scene.learn.folds import SpatialFolds, agreement, spatial_folds, testable
from polyad.scene.learn.networks import fold_whitening, merge, on_windows
from polyad.scene.learn.recipe import Choice, Expert, prior_choice
from polyad.scene.learn.whitening import NoiseWhitening, check_magnitude
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.labels import LabelGroups
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import extract_patches

Array = npt.NDArray[Any]
Check = Callable[[], None]
LEAST_SHARE = 0.1  # of all weights; lighter experts are left out
UNLIKELY = np.log(1e-4)  # log-probability of a class that a fold did not have
FOLDS, STARTS = 3, 3
FOLD_LABELS, FOLD_LEAST = 600, 30  # labels that folds are made of; of each class
FOLD_EPOCHS = 100  # enough to tell experts apart
MANY = 2000  # labels; one start is enough for more
RADII = (5, 2)
LEAST_TESTED = 0.5  # of the labels; where groups leave fewer to choose by, they are split
PAIRS = 20  # of neighboring labels, to tell how wide fields are


@dataclass(frozen=True)
class TrainSettings:
    """How a model is trained; see `polyad.scene.train`.

    Attributes
    ----------
    preset, goal, objective : str
        Without a preset, best where that is possible, else fast.
    window : int or None
        Chosen by folds where it is not given.
    random_state : int
    max_bytes : int or None
    starts : int
        Networks of the best preset, shared out among its experts.
    folds : int
        By which experts are weighed; with 0 the prior expert is fitted.
    score : bool
        Whether time is spent on the accuracy of the model by spatial cross-validation.
    verbose : bool
        Whether bars are shown.
    parameters : mapping
        Of the estimator.
    """

    preset: Literal["paper", "fast", "best"] | None = None
    goal: Literal["this-scene", "other-scenes"] = "this-scene"
    objective: str = "overall"
    window: int | None = None
    random_state: int = 0
    max_bytes: int | None = None
    starts: int = STARTS
    folds: int = FOLDS
    score: bool = True
    verbose: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, **options: Any) -> TrainSettings:
        """Return the settings among ``options``; the others are parameters of the estimator."""
        names = {each.name for each in fields(cls)}
        parameters = {name: value for name, value in options.items() if name not in names}
        return cls(**{n: v for n, v in options.items() if n in names}, parameters=parameters)


def held_out_logits(
    samples: Array,
    targets: Array,
    fold: Array,
    random_state: int,
    options: Mapping[str, Any],
    on_fit: Callable[[], None] = lambda: None,
) -> Array:
    """Return log-probabilities ``(n, C)`` of each sample from a network that never saw its fold.

    ``on_fit`` is called after each fit, and may raise to end the work.
    """
    logits = np.full((len(targets), int(targets.max()) + 1), UNLIKELY)
    for k in np.unique(fold):
        rest, out = fold != k, fold == k
        if len(np.unique(targets[rest])) < 2:
            continue
        member = RankRClassifier(random_state=random_state, **options)
        member.fit(samples[rest], targets[rest])
        logits[np.ix_(out, member.classes_)] = member.predict_log_proba(samples[out])
        on_fit()
    return logits


def choose(
    experts: Sequence[Expert],
    held: Sequence[Array],
    targets: Array,
    folds: SpatialFolds,
    *,
    balanced: bool = False,
) -> tuple[Choice, Array]:
    """Weigh experts by their held-out log-probabilities.

    Parameters
    ----------
    experts : sequence of Expert
    held : sequence of ndarray, each ``(n, C)``
        See `held_out_logits`.
    targets : ndarray of int, ``(n,)``
    folds : SpatialFolds
    balanced : bool, default=False
        Every class counts the same, whatever its number of labels.

    Returns
    -------
    Choice
    held : ndarray, ``(n, C)``
        Held-out log-probabilities of the choice.
    """
    tested = testable(folds.fold, targets)
    if not tested.any():
        choice = prior_choice(experts)
        return choice, held[list(experts).index(choice.experts[0])]
    y, group = targets[tested], folds.group[tested]
    share = 1 / np.bincount(y)[y] if balanced else np.ones(len(y))
    heat = [fit_weights([h[tested]], y, [0.5], 0.03)[0] for h in held]  # inverse temperatures
    losses = np.stack([log_losses(t * h[tested], y) for t, h in zip(heat, held, strict=True)])
    weights, kept = heaviest(expert_weights(losses, group, share) * heat)
    stack = np.stack([held[k] for k in kept])  # (kept, n, C)
    mixed: Array = log_softmax(np.tensordot(weights, stack, axes=1), axis=1)
    chosen = Choice(
        experts=tuple(experts[k] for k in kept),
        weights=tuple(weights.tolist()),
        overall=HeldOutLabels.of(mixed, targets, folds).overall,
    )
    return chosen, mixed


def heaviest(weights: Array) -> tuple[Array, list[int]]:
    """Return the weights of the experts that are kept, adding up to one, and which these are."""
    kept = np.flatnonzero(weights >= LEAST_SHARE * weights.sum()).tolist()
    return weights[kept] / weights[kept].sum(), kept


def expert_weights(losses: Array, group: Array, share: Array) -> Array:
    """Return a weight for each expert from its losses ``(E, n)`` on held-out samples.

    The best one has weight one; two standard errors above its mean loss an expert has 0.14. Samples
    of a ``group`` are not independent: the error is that of group sums.

    Examples
    --------
    >>> losses = np.array([[0.1, 0.3, 0.2, 0.4], [0.2, 0.3, 0.2, 0.4], [2.0, 1.9, 2.1, 2.2]])
    >>> expert_weights(losses, np.arange(4), np.ones(4)).round(2).tolist()
    [1.0, 0.51, 0.0]
    """
    share = share / share.sum()
    best, present = losses[np.argmin(losses @ share)], np.bincount(group) > 0
    weights = []
    for loss in losses:
        parts = np.bincount(group, weights=share * (loss - best))[present]
        error = np.sqrt(len(parts) * max(parts.var(), 1e-12))
        weights.append(np.exp(-0.5 * (parts.sum() / error) ** 2))
    return np.array(weights)


def log_losses(logits: Array, targets: Array) -> Array:
    """Return the log loss of each sample, ``(n,)``, from logits ``(n, C)``."""
    return -log_softmax(logits, axis=1)[np.arange(len(targets)), targets]


# -- calibration -----------------------------------------------------------------------------------


def fit_weights(
    experts: Sequence[Array], targets: Array, prior: Sequence[float], pull: float = 0.1
) -> list[float]:
    r"""Return one positive weight for each expert.

    Minimizes :math:`-\frac1n \sum_i \log p_{i, y_i} + \lambda \sum_e (\log w_e - \log w^0_e)^2`.

    Parameters
    ----------
    experts : sequence of ndarray, each ``(n, C)``
        Log-probabilities of samples that the expert did not learn from.
    targets : ndarray of int, ``(n,)``
    prior : sequence of float
        The weights w0 without any sample.
    pull : float
        Strength of the prior, lambda.

    Examples
    --------
    >>> sure = np.log([[0.999, 0.001], [0.999, 0.001]])
    >>> (weight,) = fit_weights([sure], np.array([0, 1]), prior=[1.0], pull=0.01)
    >>> weight < 0.5  # wrong half of the time: it counts less
    True
    """
    stack = np.stack([np.asarray(e, np.float64) for e in experts])  # (E, n, C)
    start, own = np.log(np.asarray(prior, np.float64)), np.arange(len(targets))

    def loss(logs: Array) -> float:
        mixed = log_softmax(np.tensordot(np.exp(logs), stack, axes=1), axis=1)
        return float(pull * np.square(logs - start).sum() - mixed[own, targets].mean())

    solution = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
    return [float(w) for w in np.exp(solution.x)]


# -- samples ---------------------------------------------------------------------------------------


@dataclass
class Samples:
    """Training samples of a scene, gathered on demand.

    Attributes
    ----------
    scene : Scene
    rows, cols : ndarray of int, ``(n,)``
    window : int
    fill : tuple of float or None
        Put in place of pixels without data: the mean of the samples.
    """

    scene: Scene
    rows: Array
    cols: Array
    window: int
    fill: tuple[float, ...] | None = None

    def _windows(self) -> tuple[Array, Array]:
        stored = extract_patches(self.scene, self.rows, self.cols, self.window)
        valid = valid_pixels(stored, self.scene.nodata)
        with np.errstate(over="ignore"):  # what is infinite as float32 is not valid
            patches = stored.astype(np.float32, copy=False)
        check_magnitude(patches[valid])
        return patches, valid

    def spectra(self) -> Array:
        """Return the spectra of all pixels with data in the windows, ``(m, bands)``."""
        patches, valid = self._windows()
        return patches[valid]

    def take(self) -> Array:
        """Return all samples as float32, ``(n, window, window, bands)``.

        With a window of one pixel they are spectra, ``(n, bands)``.
        """
        patches, valid = self._windows()
        if self.fill is None:
            self.fill = tuple(patches[valid].mean(axis=0, dtype=np.float64).tolist())
        if not valid.all():
            patches = np.where(valid[..., None], patches, np.asarray(self.fill, np.float32))
        return patches[:, 0, 0] if self.window == 1 else patches


@dataclass(frozen=True)
class ViewSamples:
    """Windows around the training pixels, in each view.

    Attributes
    ----------
    components : mapping of str to ndarray, each ``(n, window, window, k)``
    window : int
    """

    components: Mapping[str, Array]
    window: int

    @classmethod
    def of_scene(
        cls, scene: Scene, views: Mapping[str, NoiseWhitening], pixels: Array, window: int
    ) -> ViewSamples:
        """Return the windows of a scene; pixels without data are the mean of the view."""
        windows = extract_patches(scene, pixels[:, 0], pixels[:, 1], window)
        valid = valid_pixels(windows, scene.nodata)[..., None]
        components = {}
        for name, view in views.items():
            mean = view.mean_.astype(windows.dtype)
            components[name] = view.transform(np.where(valid, windows, mean))
        return cls(components, window)

    def take(self, expert: Expert) -> tuple[Array, float]:
        """Return samples of unit variance over all of them, and what they were divided by.

        They are ``(n, window, window, components)``, of single pixels ``(n, components)``.
        """
        margin = (self.window - expert.window) // 2
        inner = slice(margin, self.window - margin)
        z = self.components[expert.view][:, inner, inner]
        unit = float(z.std()) or 1.0
        z = z / np.float32(unit)
        return (z[:, 0, 0] if expert.window == 1 else np.ascontiguousarray(z)), unit


# -- choosing and fitting --------------------------------------------------------------------------


@contextmanager
def progress(experts: int, shown: bool, check: Check = lambda: None) -> Iterator[Check]:
    """Yield the function to call after each expert, first tried and then fitted.

    It moves a bar on, if one is shown, and calls ``check``.
    """
    with tqdm(total=2 * experts, desc="training", unit="step", disable=not shown) as bar:

        def step() -> None:
            bar.update()
            check()

        yield step
        bar.update(2 * experts - bar.n)  # not every expert that was tried is fitted


class HeldOut(NamedTuple):
    """Labels held out by folds, and what experts say of them that never saw their fold.

    Attributes
    ----------
    pixels : ndarray of int, ``(m, 2)``
    targets : ndarray of int, ``(m,)``
    folds : SpatialFolds
    logits : ndarray, ``(m, C)``
        Log-probabilities of the choice.
    """

    pixels: Array
    targets: Array
    folds: SpatialFolds
    logits: Array

    @property
    def labels(self) -> HeldOutLabels:
        """The same labels with the likeliest classes."""
        return HeldOutLabels.of(self.logits, self.targets, self.folds)


@dataclass(frozen=True)
class FitContext:
    """What is known of a scene's labels, and shared by all fits of a training.

    Attributes
    ----------
    samples : ViewSamples
        Of all training pixels.
    views : mapping of str to NoiseWhitening
        That made the samples.
    pixels : ndarray of int, ``(n, 2)``
    y : ndarray of int, ``(n,)``
        Class ids.
    settings : TrainSettings
    groups : LabelGroups or None
        See `spatial_folds`.
    check : callable
        Called after each fit, and may raise.
    """

    samples: ViewSamples
    views: Mapping[str, NoiseWhitening]
    pixels: Array
    y: Array
    settings: TrainSettings
    groups: LabelGroups | None = None
    check: Check = lambda: None

    @cached_property
    def targets(self) -> Array:
        """Position of each label's class, from 0, ``(n,)``."""
        return np.unique(self.y, return_inverse=True)[1]

    @cached_property
    def some(self) -> Array:
        """Which labels the folds are made of, ``(m,)``."""
        return draw_labels(self.targets, self.settings.random_state)

    def choose(
        self, experts: Sequence[Expert], distance: float | None, done: Check
    ) -> tuple[Choice, HeldOut]:
        """Weigh experts by spatial folds of the labels; ``done`` is called after each."""
        folds, held = self.folds(distance), []
        for expert in experts:
            held.append(self._held_out(expert, folds))
            done()
        targets, balanced = self.targets[self.some], self.settings.objective == "average"
        choice, logits = choose(experts, held, targets, folds, balanced=balanced)
        return choice, HeldOut(self.pixels[self.some], targets, folds, logits)

    def folds(self, distance: float | None) -> SpatialFolds:
        """Return the folds of some labels, see `spatial_folds`; groups are split if they must be.

        One polygon of each class leaves nothing to test if it is held out whole. Folds of its
        pixels can still tell experts apart; what they say of accuracy is marked, and reported
        nowhere.
        """
        groups, targets = self.groups, self.targets[self.some]
        if groups is not None:
            groups = groups._replace(ids=groups.ids[self.some])
        count, seed = self.settings.folds, self.settings.random_state
        given = (self.pixels[self.some], targets, count, seed, distance)
        dealt = spatial_folds(*given, groups=groups)
        if groups is None or testable(dealt.fold, targets).mean() >= LEAST_TESTED:
            return dealt
        # The groups are kept, to say which class lacks some
        return spatial_folds(*given)._replace(split=True, group=dealt.group, by=dealt.by)

    def hold_out(self, choice: Choice, folds: SpatialFolds) -> HeldOut:
        """Return the labels held out by other folds than those the choice was made by."""
        logits = np.stack([self._held_out(expert, folds) for expert in choice.experts])
        mixed: Array = log_softmax(np.tensordot(choice.weights, logits, axes=1), axis=1)
        return HeldOut(self.pixels[self.some], self.targets[self.some], folds, mixed)

    def fit(self, choice: Choice, starts: int = 1, done: Check = lambda: None) -> RankRClassifier:
        """Fit the experts of a choice and return the one network that they become.

        The ``starts`` are shared out by the experts' weights; each has one at least. ``done`` is
        called after each expert.
        """
        members, weights = [], []
        for expert, weight in zip(choice.experts, choice.weights, strict=True):
            count, options = max(round(starts * weight), 1), self._options(expert, len(self.y))
            X, unit = self.samples.take(expert)
            view = self.views[expert.view]
            for seed in np.random.SeedSequence(self.settings.random_state).generate_state(count):
                member = RankRClassifier(random_state=int(seed), **options).fit(X, self.y)
                self.check()
                members.append(on_windows(fold_whitening(member, view, unit), choice.window))
                weights.append(weight / count)
            done()
        estimator = merge(members, weights)
        if self.settings.objective == "average":
            even_out(estimator, self.y)
        return estimator

    def _held_out(self, expert: Expert, folds: SpatialFolds) -> Array:
        """Return an expert's log-probabilities of the labels held out, ``(m, C)``."""
        options = {"epochs": FOLD_EPOCHS} | self._options(expert, len(self.some))
        windows, targets = self.samples.take(expert)[0][self.some], self.targets[self.some]
        return held_out_logits(
            windows, targets, folds.fold, self.settings.random_state, options, self.check
        )

    def _options(self, expert: Expert, n: int) -> dict[str, Any]:
        """Return the parameters of an expert's `RankRClassifier` for ``n`` labels."""
        return {"standardize": None, "weight_decay": expert.decay(n), **self.settings.parameters}


def even_out(estimator: RankRClassifier, y: Array) -> None:
    """Take the classes' shares of the labels out of the logits (logit adjustment, Menon 2021)."""
    bias = estimator.network_.output.bias
    with torch.no_grad():
        bias.sub_(torch.from_numpy(log_class_shares(y)).to(bias))


def log_class_shares(y: Array) -> Array:
    """Return the logarithm of each class's share of the labels, ``(C,)``."""
    return np.log(np.unique(y, return_counts=True)[1] / len(y))


def draw_labels(
    targets: Array, random_state: int, most: int = FOLD_LABELS, least: int = FOLD_LEAST
) -> Array:
    """Return which labels are taken, ``(m,)``: all, or a random part of each class of very many.

    Every class keeps at least ``least`` labels, if it has them.

    Examples
    --------
    >>> len(draw_labels(np.zeros(50, int), 0)), len(draw_labels(np.zeros(50_000, int), 0))
    (50, 600)
    """
    if len(targets) <= most:
        return np.arange(len(targets))
    rng, chosen = np.random.default_rng(random_state), []
    for target in np.unique(targets):
        where = rng.permutation(np.flatnonzero(targets == target))
        chosen.append(where[: max(least, most * len(where) // len(targets))])
    return np.sort(np.concatenate(chosen))


def smoothing_radius(pixels: Array, targets: Array, accuracy: float | None) -> int:
    """Return how far probabilities are smoothed, in pixels; 0 is not at all.

    A neighbor helps if it is of the same class more often than the network alone is right. Pairs of
    labels say how often that is; where there are hardly any, fields are taken to be wide.

    Examples
    --------
    >>> row = np.stack([np.zeros(60, int), np.arange(60)], axis=1)
    >>> smoothing_radius(row, np.arange(60) // 30, 0.8)
    5
    >>> smoothing_radius(row, np.arange(60) % 2, 0.8)
    0
    """
    if accuracy is None:
        return RADII[0]
    for radius in RADII:
        same, pairs = agreement(pixels, targets, radius)
        if pairs < PAIRS or same > accuracy:
            return radius
    return 0
