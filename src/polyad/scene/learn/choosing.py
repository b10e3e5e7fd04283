"""Which experts a scene's labels ask for, and the one network that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax
from tqdm import tqdm

from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.samples import ViewSamples
from polyad.scene.learn.steps.ensemble import RankREnsemble, merge
from polyad.scene.learn.steps.experts import (
    Choice,
    Expert,
    choose,
    held_out_logits,
)
from polyad.scene.learn.steps.folding import fold_whitening, on_windows
from polyad.scene.learn.steps.spatial import SpatialFolds, agreement, spatial_folds, testable
from polyad.scene.learn.steps.whitening import NoiseWhitening
from polyad.scene.raster.groups import LabelGroups

Array = npt.NDArray[Any]
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
    choice : Choice
    which : ndarray of int, ``(m,)``
        The labels that the folds were made of.
    folds : SpatialFolds
    logits : ndarray, ``(m, C)``
        Held-out log-probabilities of the choice.
    """

    choice: Choice
    which: Array
    folds: SpatialFolds
    logits: Array


def choose_experts(
    experts: Sequence[Expert],
    samples: ViewSamples,
    pixels: Array,
    targets: Array,
    *,
    folds: int = FOLDS,
    distance: float | None = None,
    groups: LabelGroups | None = None,
    objective: str = "overall",
    random_state: int = 0,
    parameters: Mapping[str, Any],
    check: Check = lambda: None,
    on_fit: Check = lambda: None,
) -> HeldOut:
    """Weigh experts by spatial folds of the labels.

    Parameters
    ----------
    experts : sequence of Expert
    samples : ViewSamples
        Of all training pixels.
    pixels : ndarray of int, ``(n, 2)``
    targets : ndarray of int, ``(n,)``
        Position of each label's class, from 0.
    folds, distance, groups, random_state
        See `spatial_folds`.
    objective : {"overall", "average"}, default="overall"
    parameters : mapping
        Of `RankRClassifier`.
    check, on_fit : callable, optional
        Called after each expert, and after each fit.
    """
    some = fold_subset(targets, random_state)
    own = None if groups is None else groups._replace(ids=groups.ids[some])
    dealt = choice_folds(pixels[some], targets[some], folds, random_state, distance, own)
    held = []
    given = (samples, some, targets, dealt.fold, random_state, parameters, on_fit)
    for expert in experts:
        held.append(_held_out(expert, *given))
        check()
    settings: dict[str, Any] = {"balanced": objective == "average", "random_state": random_state}
    choice, logits = choose(experts, held, targets[some], dealt, **settings)
    return HeldOut(choice, some, dealt, logits)


def _held_out(
    expert: Expert,
    samples: ViewSamples,
    some: Array,
    targets: Array,
    fold: Array,
    random_state: int,
    parameters: Mapping[str, Any],
    on_fit: Check,
) -> Array:
    """Return an expert's log-probabilities of the labels ``some``, ``(m, C)``, each held out."""
    options = {"epochs": FOLD_EPOCHS} | expert_options(expert, len(some), parameters)
    windows = samples.take(expert)[some]
    return held_out_logits(windows, targets[some], fold, random_state, options, on_fit)


def hold_out(
    choice: Choice,
    samples: ViewSamples,
    some: Array,
    targets: Array,
    fold: Array,
    random_state: int,
    parameters: Mapping[str, Any],
    on_fit: Check,
) -> Array:
    """Return log-probabilities of the labels ``some``, ``(m, C)``, by a choice that is made.

    As those of `choose_experts`, for folds that it was not made by.
    """
    given = (samples, some, targets, fold, random_state, parameters, on_fit)
    held = np.stack([_held_out(expert, *given) for expert in choice.experts])
    mixed: Array = log_softmax(np.tensordot(choice.weights, held, axes=1), axis=1)
    return mixed


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


def fit_experts(
    choice: Choice,
    samples: ViewSamples,
    views: Mapping[str, NoiseWhitening],
    y: Array,
    *,
    starts: int = 1,
    objective: str = "overall",
    random_state: int = 0,
    parameters: Mapping[str, Any],
    check: Check = lambda: None,
    on_fit: Check = lambda: None,
) -> RankRClassifier:
    """Fit the experts of a choice and return the one network on the scene's bands they become.

    The ``starts`` are shared out by the experts' weights; each has one at least.
    """
    members, weights = [], []
    for expert, weight in zip(choice.experts, choice.weights, strict=True):
        options, share = expert_options(expert, len(y), parameters), max(round(starts * weight), 1)
        ensemble = RankREnsemble(share, random_state, options)
        ensemble.fit(samples.take(expert), y, on_fit)
        for member in ensemble.members_:
            folded = fold_whitening(member, views[expert.view], samples.units[expert])
            members.append(on_windows(folded, choice.window))
            weights.append(weight / share)
        check()
    estimator = merge(members, weights)
    if objective == "average":
        even_out(estimator, y)
    return estimator


def expert_options(expert: Expert, n: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an expert's `RankRClassifier` for ``n`` labels."""
    return {"standardize": None, "weight_decay": expert.decay(n)} | dict(parameters)


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
