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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from tqdm import tqdm

from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.accuracy import NOT_TESTED, HeldOutLabels
from polyad.scene.learn.folds import SpatialFolds, agreement, spatial_folds, testable
from polyad.scene.learn.networks import RankREnsemble, fold_whitening, merge, on_windows
from polyad.scene.learn.recipe import Choice, Expert, prior_choice
from polyad.scene.learn.whitening import NoiseWhitening, check_magnitude
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.labels import LabelGroups
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import extract_patches

Array = npt.NDArray[Any]
LEAST_SHARE = 0.1  # of all weights; lighter experts are left out
UNLIKELY = np.log(1e-4)  # log-probability of a class that a fold did not have
RESAMPLES = 1000


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
    from polyad.estimators.classifier import RankRClassifier  # here: a choice is read without torch

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
    random_state: int = 0,
) -> tuple[Tested, Array]:
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
    Tested
    held : ndarray, ``(n, C)``
        Held-out log-probabilities of the choice.
    """
    tested = testable(folds.fold, targets)
    if not tested.any():
        choice = prior_choice(experts)
        own = held[list(experts).index(choice.experts[0])]
        return scored(choice, own, targets, folds), own
    y, group = targets[tested], folds.group[tested]
    share = 1 / np.bincount(y)[y] if balanced else np.ones(len(y))
    heat = [fit_weights([h[tested]], y, [0.5], 0.03)[0] for h in held]  # inverse temperatures
    losses = np.stack([log_losses(t * h[tested], y) for t, h in zip(heat, held, strict=True)])
    weights = expert_weights(losses, group, share)
    scaled = weights * heat
    kept = np.flatnonzero(scaled >= LEAST_SHARE * scaled.sum()).tolist()
    scaled = scaled[kept] / scaled[kept].sum()
    stack = np.stack([held[k] for k in kept])  # (kept, n, C)
    mixed: Array = log_softmax(np.tensordot(scaled, stack, axes=1), axis=1)
    choice = Choice(experts=tuple(experts[k] for k in kept), weights=tuple(map(float, scaled)))
    return scored(choice, mixed, targets, folds, random_state), mixed


class Tested(NamedTuple):
    """A choice with its accuracy, and what became of every label that was held out."""

    choice: Choice
    labels: HeldOutLabels


def scored(
    choice: Choice, held: Array, targets: Array, folds: SpatialFolds, random_state: int = 0
) -> Tested:
    """Return the choice with the accuracy of held-out log-probabilities ``(n, C)``.

    Labels of a class that no other fold has are left out.
    """
    tested = testable(folds.fold, targets)
    predicted = np.where(tested, held.argmax(axis=1), NOT_TESTED)
    count = len(np.unique(folds.fold))
    labels = HeldOutLabels(targets, predicted, folds.group, count, *folds[2:])
    if not tested.any():
        return Tested(choice, labels)
    y, group = targets[tested], folds.group[tested]
    right = predicted[tested] == y
    scores = {
        "overall": float(right.mean()),
        "average": float(np.mean([right[y == c].mean() for c in np.unique(y)])),
        "interval": bootstrap(right, group, random_state),
        "side": folds.side,
        "groups": len(np.unique(group)),
        "labels": len(y),
    }
    return Tested(choice.model_copy(update=scores), labels)


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
    best = losses[np.argmin(losses @ share)]
    weights = []
    for loss in losses:
        parts = np.bincount(group, weights=share * (loss - best))
        parts = parts[np.bincount(group) > 0]
        mean = parts.sum()
        error = np.sqrt(len(parts) * max(parts.var(), 1e-12))
        weights.append(np.exp(-0.5 * (mean / error) ** 2))
    return np.array(weights)


def bootstrap(right: Array, group: Array, random_state: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of ``right.mean()`` over resamples of the groups.

    Examples
    --------
    >>> bootstrap(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))
    (0.0, 1.0)
    """
    rng = np.random.default_rng(random_state)
    number = np.unique(group, return_inverse=True)[1].reshape(-1)
    hits, sizes = np.bincount(number, weights=right), np.bincount(number)
    drawn = rng.integers(0, len(sizes), (RESAMPLES, len(sizes)))
    shares = hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)


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
    if len(experts) != len(prior) or min(prior) <= 0:
        raise InputError(f"expected one prior above 0 for each of {len(experts)} experts")
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
        Put in place of pixels without data: the mean of the first samples that were taken.
    """

    scene: Scene
    rows: Array
    cols: Array
    window: int
    fill: tuple[float, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all samples as float32."""
        return len(self.rows) * self.window**2 * self.scene.shape[2] * 4

    def spectra(self) -> Array:
        """Return the spectra of all pixels with data in the windows, ``(m, bands)``."""
        stored = extract_patches(self.scene, self.rows, self.cols, self.window)
        valid = valid_pixels(stored, self.scene.nodata)
        with np.errstate(over="ignore"):
            spectra = stored[valid].astype(np.float32, copy=False)
        check_magnitude(spectra)
        return spectra

    def take(self, which: slice | Array) -> Array:
        """Return the given samples as float32, ``(n, window, window, bands)``.

        With a window of one pixel they are spectra, ``(n, bands)``.
        """
        stored = extract_patches(self.scene, self.rows[which], self.cols[which], self.window)
        valid = valid_pixels(stored, self.scene.nodata)
        with np.errstate(over="ignore"):  # what is infinite as float32 is not valid
            patches = stored.astype(np.float32, copy=False)
        check_magnitude(patches[valid])
        if self.fill is None:
            self.fill = tuple(patches[valid].mean(axis=0, dtype=np.float64).tolist())
        if not valid.all():
            patches = np.where(valid[..., None], patches, np.asarray(self.fill, np.float32))
        return patches[:, 0, 0] if self.window == 1 else patches


class ViewSamples:
    """Windows of a scene around the training pixels, in each view, as an expert wants them.

    Attributes
    ----------
    units : dict
        What the samples of each expert were divided by.
    """

    def __init__(
        self, scene: Scene, views: Mapping[str, NoiseWhitening], pixels: Array, window: int
    ) -> None:
        windows = extract_patches(scene, pixels[:, 0], pixels[:, 1], window)
        valid = valid_pixels(windows, scene.nodata)
        components = {}
        for name, view in views.items():
            filled = np.where(valid[..., None], windows, view.mean_.astype(windows.dtype))
            components[name] = view.transform(filled)
        self._keep(components, window)

    @classmethod
    def of_components(cls, components: Mapping[str, Array], window: int) -> ViewSamples:
        """Return samples of components that are known, each ``(n, window, window, k)``."""
        samples = cls.__new__(cls)
        samples._keep(components, window)
        return samples

    def _keep(self, components: Mapping[str, Array], window: int) -> None:
        self._components, self._window = dict(components), window
        self.units: dict[Expert, float] = {}

    def take(self, expert: Expert) -> Array:
        """Return samples ``(n, window, window, components)``; of single pixels ``(n, components)``.

        They have unit variance over all samples, pixels and components.
        """
        margin = (self._window - expert.window) // 2
        inner = slice(margin, self._window - margin)
        z = self._components[expert.view][:, inner, inner]
        self.units[expert] = float(z.std()) or 1.0
        z = z / np.float32(self.units[expert])
        return z[:, 0, 0] if expert.window == 1 else np.ascontiguousarray(z)


# -- choosing and fitting --------------------------------------------------------------------------


Check = Callable[[], None]
FOLDS = 3
FOLD_LABELS, FOLD_LEAST = 600, 30  # labels that folds are made of; of each class
FOLD_EPOCHS = 100  # enough to tell experts apart
MANY = 2000  # labels; one start is enough for more
RADII = (5, 2)
LEAST_TESTED = 0.5  # of the labels; where groups leave fewer to choose by, they are split
PAIRS = 20  # of neighboring labels, to tell how wide fields are


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
    """What the folds said.

    Attributes
    ----------
    tested : Tested
    which : ndarray of int, ``(m,)``
        The labels that the folds were made of.
    folds : SpatialFolds
    logits : ndarray, ``(m, C)``
        Held-out log-probabilities of the choice.
    """

    tested: Tested
    which: Array
    folds: SpatialFolds
    logits: Array


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
    groups : LabelGroups or None
        See `spatial_folds`.
    objective : {"overall", "average"}
    random_state : int
    parameters : mapping
        Of `RankRClassifier`.
    check : callable
        Called after each fit, and may raise.
    """

    samples: ViewSamples
    views: Mapping[str, NoiseWhitening]
    pixels: Array
    y: Array
    groups: LabelGroups | None = None
    objective: str = "overall"
    random_state: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    check: Check = lambda: None

    @cached_property
    def targets(self) -> Array:
        """Position of each label's class, from 0, ``(n,)``."""
        return np.unique(self.y, return_inverse=True)[1]

    def choose(
        self, experts: Sequence[Expert], folds: int, distance: float | None, done: Check
    ) -> HeldOut:
        """Weigh experts by spatial folds of the labels; ``done`` is called after each."""
        some = fold_subset(self.targets, self.random_state)
        dealt = self.folds(some, folds, distance)
        held = []
        for expert in experts:
            held.append(self._held_out(expert, some, dealt.fold))
            done()
        tested, logits = choose(
            experts,
            held,
            self.targets[some],
            dealt,
            balanced=self.objective == "average",
            random_state=self.random_state,
        )
        return HeldOut(tested, some, dealt, logits)

    def folds(self, some: Array, folds: int, distance: float | None) -> SpatialFolds:
        """Return the folds of the labels ``some``, see `choice_folds`."""
        own = None if self.groups is None else self.groups._replace(ids=self.groups.ids[some])
        pixels, targets = self.pixels[some], self.targets[some]
        return choice_folds(pixels, targets, folds, self.random_state, distance, own)

    def hold_out(self, choice: Choice, some: Array, fold: Array) -> Array:
        """Return log-probabilities of the labels ``some``, ``(m, C)``, by a choice that is made.

        As those of `choose`, for folds that it was not made by.
        """
        held = np.stack([self._held_out(expert, some, fold) for expert in choice.experts])
        mixed: Array = log_softmax(np.tensordot(choice.weights, held, axes=1), axis=1)
        return mixed

    def fit(self, choice: Choice, starts: int = 1, done: Check = lambda: None) -> RankRClassifier:
        """Fit the experts of a choice and return the one network that they become.

        The ``starts`` are shared out by the experts' weights; each has one at least. ``done`` is
        called after each expert.
        """
        members, weights = [], []
        for expert, weight in zip(choice.experts, choice.weights, strict=True):
            share = max(round(starts * weight), 1)
            options = self._options(expert, len(self.y))
            ensemble = RankREnsemble(share, self.random_state, options)
            ensemble.fit(self.samples.take(expert), self.y, self.check)
            for member in ensemble.members_:
                view, unit = self.views[expert.view], self.samples.units[expert]
                members.append(on_windows(fold_whitening(member, view, unit), choice.window))
                weights.append(weight / share)
            done()
        estimator = merge(members, weights)
        if self.objective == "average":
            even_out(estimator, self.y)
        return estimator

    def _held_out(self, expert: Expert, some: Array, fold: Array) -> Array:
        """Return an expert's log-probabilities of the labels ``some``, ``(m, C)``, held out."""
        options = {"epochs": FOLD_EPOCHS} | self._options(expert, len(some))
        windows, targets = self.samples.take(expert)[some], self.targets[some]
        return held_out_logits(windows, targets, fold, self.random_state, options, self.check)

    def _options(self, expert: Expert, n: int) -> dict[str, Any]:
        """Return the parameters of an expert's `RankRClassifier` for ``n`` labels."""
        return {"standardize": None, "weight_decay": expert.decay(n)} | dict(self.parameters)


def choice_folds(
    pixels: Array,
    targets: Array,
    folds: int,
    random_state: int,
    distance: float | None,
    groups: LabelGroups | None,
) -> SpatialFolds:
    """Return the folds to choose by, see `spatial_folds`; groups are split if they must be.

    One polygon of each class leaves nothing to test if it is held out whole. Folds of its pixels
    can still tell experts apart; what they say of accuracy is marked, and reported nowhere.
    """
    given = (pixels, targets, folds, random_state, distance)
    dealt = spatial_folds(*given, groups=groups)
    if groups is None or testable(dealt.fold, targets).mean() >= LEAST_TESTED:
        return dealt
    # The groups are kept, to say which class lacks some
    return spatial_folds(*given)._replace(split=True, group=dealt.group, by=dealt.by)


def even_out(estimator: RankRClassifier, y: Array) -> None:
    """Take the classes' shares of the labels out of the logits (logit adjustment, Menon 2021)."""
    bias = estimator.network_.output.bias
    with torch.no_grad():
        bias.sub_(torch.from_numpy(log_class_shares(y)).to(bias))


def log_class_shares(y: Array) -> Array:
    """Return the logarithm of each class's share of the labels, ``(C,)``."""
    return np.log(np.unique(y, return_counts=True)[1] / len(y))


def fold_subset(targets: Array, random_state: int) -> Array:
    """Return which labels the folds are made of, ``(m,)``: all, or a random part of very many.

    Every class keeps at least `FOLD_LEAST` labels, if it has them.

    Examples
    --------
    >>> len(fold_subset(np.zeros(50, int), 0)), len(fold_subset(np.zeros(50_000, int), 0))
    (50, 600)
    """
    if len(targets) <= FOLD_LABELS:
        return np.arange(len(targets))
    rng = np.random.default_rng(random_state)
    kept = []
    for target in np.unique(targets):
        where = rng.permutation(np.flatnonzero(targets == target))
        kept.append(where[: max(FOLD_LEAST, FOLD_LABELS * len(where) // len(targets))])
    return np.sort(np.concatenate(kept))


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
