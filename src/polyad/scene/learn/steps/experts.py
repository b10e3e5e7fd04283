r"""Experts: Rank-R networks on different views of a scene, weighed by spatial folds.

No view of the spectra and no window serves all scenes. Whitening by the scene's noise helps where
fields are large and costs where pixels are mixed; so does a wide window.
Each `Expert` is one such choice. Its held-out loss on spatial folds says what it is worth here: an
expert whose loss is :math:`\Delta` above the best one's has the weight
:math:`\exp(-\tfrac12 (\Delta / s)^2)`, with :math:`s` the standard error of that difference over
groups of labels. So folds of a few labels decide only what they can see.

All views are linear in the bands and all networks separable: experts merge into one Rank-R network
on the scene's bands, hidden units side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from polyad.scene.learn.accuracy import NOT_TESTED, HeldOutLabels
from polyad.scene.learn.steps.calibration import fit_weights
from polyad.scene.learn.steps.spatial import SpatialFolds, testable

Array = npt.NDArray[Any]
VIEWS = ("plain", "whitened")
LEAST_SHARE = 0.1  # of all weights; lighter experts are left out
LEAST_DECAY = 0.1
UNLIKELY = np.log(1e-4)  # log-probability of a class that a fold did not have
RESAMPLES = 1000


@dataclass(frozen=True)
class Expert:
    """One view of the spectra, one window and how strongly weights are held down.

    Attributes
    ----------
    view : {"plain", "whitened"}
        Principal components of standardized bands, or components in units of the noise.
    window : int
    strength : float
        Of the prior on the weights; the decay is ``strength / n`` within bounds.
    """

    view: str
    window: int
    strength: float

    def decay(self, n: int) -> float:
        """Return the weight decay for ``n`` labels.

        At most 10 for single pixels, 3 for windows of 3 x 3 and 1 for wider ones: more would undo
        what their factors, whose product it is that counts, learn from a step.
        """
        most = {1: 10.0, 3: 3.0}.get(self.window, 1.0)
        return float(np.clip(self.strength / n, LEAST_DECAY, most))

    def __str__(self) -> str:
        where = "single pixels" if self.window == 1 else f"{self.window} x {self.window} windows"
        return f"{self.view} spectra, {where}"


PRIOR = Expert("whitened", 5, 15)  # where there is nothing to choose by
EXPERTS = (
    Expert("plain", 1, 600),
    Expert("plain", 3, 300),
    Expert("plain", 5, 100),
    Expert("whitened", 1, 600),
    PRIOR,
)


def experts_for(window: int | None, views: Sequence[str] = VIEWS) -> list[Expert]:
    """Return the experts to choose from; a window that was asked for is kept to.

    Examples
    --------
    >>> [str(expert) for expert in experts_for(7, ["plain"])]
    ['plain spectra, 7 x 7 windows']
    """
    known = [expert for expert in EXPERTS if expert.view in views]
    if window is None:
        return known
    nearest = {e.view: e for e in sorted(known, key=lambda e: -abs(e.window - window))}
    return [Expert(view, window, e.strength) for view, e in nearest.items()]


@dataclass(frozen=True)
class Choice:
    """What was chosen by spatial folds, and how well it did on them.

    Attributes
    ----------
    experts : tuple of Expert
    weights : tuple of float
        Of the experts' logits; they add up to one.
    overall, average : float or None
        Accuracy on the labels that were held out; None where nothing could be held out.
    interval : tuple of float or None
        Between which ``overall`` lies in 95 of 100 resamples of the groups.
    side, groups, labels : int
        Of the folds: side of a block in pixels, how many blocks hold labels, labels tested.
    untested : tuple of (int, int)
        Position of each class whose labels were all held out together, so that none could be
        tested, and how many there are. Known at training alone: no model file has it.
    held_out : HeldOutLabels or None
        What became of every label that was held out, known at training alone.
    """

    experts: tuple[Expert, ...]
    weights: tuple[float, ...]
    overall: float | None = None
    average: float | None = None
    interval: tuple[float, float] | None = None
    side: int = 0
    groups: int = 0
    labels: int = 0
    untested: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    held_out: HeldOutLabels | None = field(default=None, compare=False, repr=False)

    @property
    def window(self) -> int:
        """The largest window."""
        return max(expert.window for expert in self.experts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        experts = [[e.view, e.window, e.strength] for e in self.experts]
        interval = None if self.interval is None else list(self.interval)
        names = ("overall", "average", "side", "groups", "labels")
        return {name: getattr(self, name) for name in names} | {
            "experts": experts,
            "weights": list(self.weights),
            "interval": interval,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Choice:
        """Return the choice that `to_dict` wrote."""
        interval = stored["interval"]
        return cls(
            tuple(Expert(*row) for row in stored["experts"]),
            tuple(stored["weights"]),
            stored["overall"],
            stored["average"],
            None if interval is None else (interval[0], interval[1]),
            *(stored[key] for key in ("side", "groups", "labels")),
        )

    @property
    def score_line(self) -> str:
        """How well it did on the folds, in words."""
        if self.overall is None or self.average is None or self.interval is None:
            return "not known: no class has labels in two places; label some more of each"
        low, high = (100 * share for share in self.interval)
        where = f"blocks of {self.side} pixels" if self.side > 1 else "single labels"
        near = self.side <= self.window > 1  # their windows overlap those of other blocks
        return (
            f"{100 * self.overall:.1f} % overall (95 % interval {low:.0f} to {high:.0f}), "
            f"{100 * self.average:.1f} % average, on {self.labels:,} labels held out by {where}"
            + (", which lie next to each other: expect less elsewhere" if near else "")
        )

    @property
    def line(self) -> str:
        """The choice in words."""
        if len(self.experts) == 1:
            return str(self.experts[0])
        said = (f"{e} ({w:.2f})" for e, w in zip(self.experts, self.weights, strict=True))
        return " + ".join(said)


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
        best = PRIOR if PRIOR in experts else experts[-1]
        own = held[list(experts).index(best)]
        return scored(Choice((best,), (1.0,)), own, targets, folds), own
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
    choice = Choice(tuple(experts[k] for k in kept), tuple(map(float, scaled)))
    return scored(choice, mixed, targets, folds, random_state), mixed


def scored(
    choice: Choice, held: Array, targets: Array, folds: SpatialFolds, random_state: int = 0
) -> Choice:
    """Return the choice with the accuracy of held-out log-probabilities ``(n, C)``.

    Labels of a class that no other fold has are left out.
    """
    tested = testable(folds.fold, targets)
    predicted = np.where(tested, held.argmax(axis=1), NOT_TESTED)
    count = len(np.unique(folds.fold))
    choice = replace(
        choice, held_out=HeldOutLabels(targets, predicted, folds.group, count, *folds[2:])
    )
    if not tested.any():
        return choice
    y, group = targets[tested], folds.group[tested]
    classes, counts = np.unique(targets[~tested], return_counts=True)
    right = predicted[tested] == y
    return replace(
        choice,
        overall=float(right.mean()),
        average=float(np.mean([right[y == c].mean() for c in np.unique(y)])),
        interval=bootstrap(right, group, random_state),
        side=folds.side,
        groups=len(np.unique(group)),
        labels=len(y),
        untested=tuple(zip(classes.tolist(), counts.tolist(), strict=True)),
    )


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
