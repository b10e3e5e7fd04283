r"""What "auto" stands for: rules from the number of samples, their layout and a ridge regression.

*Coordinates.* Which mode holds features with scales of their own, and whether its principal axes
should count alike, is asked of a ridge regression on each candidate (`candidates`); the one with
the least error on samples left out is taken, if chance does not explain what it gains over the
plainest. A window around a pixel has its features in the last mode, and no other is tried.

*Penalty.* Half the sum of squared weights, times ``penalty / n``, is added to the loss. For classes
the penalty is one, which is what logistic regression has by default. Of a regression the noise is
not known, so its ridge regression is asked again: for a coefficient of length b it takes a price of
:math:`\frac s 2 b^2`. The D + 1 factors of a network share that length, and at equal lengths cost
:math:`\frac p 2 \sum_d |w_d|^2 = \frac p 2 (D + 1)\, b^{2 / (D + 1)}`. Both prices are the same for
:math:`p = s\, b^{2 - 2 / (D + 1)} / (D + 1)`. Without a signal s is large and b vanishes, and so
would p; see `ridge_penalty` for the least b. Many samples of classes take it too, unless a Gaussian
kernel clearly tells classes apart where lines do not.

*Structure.* Samples held out choose the rank and the share of a linear model in the outputs
(`polyad.fitting.linear`). A linear model is better where the weights are dense and samples few, the
network where weights have low rank or the target is not linear.

*Schedule.* The learning rate falls to zero along a cosine, so that the last steps average over
batches. Many samples make many batches, and take fewer passes. More than 5,000 take 30 passes where
that is not too many steps, from a lower rate, and up to four times the penalty: no worse on any of
ten problems with 8,000 to 20,000 samples, and up to two points better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from polyad.estimators.parameters import Array
from polyad.estimators.scaler import fit_scaler
from polyad.fitting.linear import RidgeFit, fit_ridge, radial_gram
from polyad.fitting.modes import PrincipalAxes
from polyad.fitting.problem import LOSSES, Problem

# The settings for windows of hyperspectral scenes as they were before ``standardize="auto"``:
# bands standardized, Adam from 0.06 to 0.02 within thirty steps, decoupled weight decay of 0.1.
WINDOWS: dict[str, int | None] = {"standardize": -1}

LEARNING_RATE = 0.02
FULL_BATCH_UP_TO = 1024  # samples; beyond, "auto" takes minibatches
MINIBATCH = 256
MOST_STEPS = 600
FEWEST_EPOCHS = 10
MANY = 5_000  # samples: from here on the schedule is longer and slower, and the penalty higher
MANY_EPOCHS, LONG_STEPS = 30, 6_000
MOST_PENALTY = 4.0
LOWEST_RATE = 0.002
WHITENINGS = (0.0, 0.5, 1.0)
RANKS = (1, 4)
FEWEST, FEW = 8, 200  # samples: fewer try nothing, fewer are held out by halves instead of quarters
SEVERAL = 150  # samples to fit, from which on more than one rank is tried
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of a linear model, the plainest first
MOST_SAMPLES = 384  # that are asked: a ridge regression costs their number cubed
NONLINEAR = 0.9  # a kernel with less than this share of the linear error sees what lines do not

Standardized = int | Literal["common"]


@dataclass(frozen=True)
class Coordinates:
    """In which coordinates samples are fitted.

    Attributes
    ----------
    standardize : int or "common"
        Mode that is standardized, or one mean and one scale for all entries.
    whiten : float
        0 leaves the principal axes of the mode as long as they are, 1 makes them alike.
    """

    standardize: Standardized
    whiten: float = 0.0


def is_window(shape: Sequence[int]) -> bool:
    """Return whether a sample looks like a window around a pixel: odd, square, then features.

    Examples
    --------
    >>> is_window((5, 5, 200)), is_window((6, 11)), is_window((8, 8))
    (True, False, False)
    """
    return len(shape) >= 3 and shape[0] == shape[1] and shape[0] % 2 == 1


def candidates(shape: Sequence[int]) -> list[Coordinates]:
    """Return the coordinates to choose from for samples of that shape, the plainest first.

    Examples
    --------
    >>> [(c.standardize, c.whiten) for c in candidates((5, 5, 200))]
    [(-1, 0.0), (-1, 0.5), (-1, 1.0)]
    >>> [c.standardize for c in candidates((6, 11)) if not c.whiten]
    [-1, 0, 'common']
    """
    order = len(shape)
    last = [Coordinates(-1, w) for w in WHITENINGS]
    if order == 1 or is_window(shape):
        return last
    others = [Coordinates(d, w) for d in range(order - 1) if shape[d] > 1 for w in WHITENINGS]
    return [*last, *others, Coordinates("common")]


def ridge_penalty(ridge: RidgeFit, order: int) -> float:
    """Return the penalty on a network's weights that costs as much as a ridge does.

    It grows with the strength of the ridge. With coefficients shorter than ``(D - 1) / 2D`` of
    their free length the network's price has no minimum beside zero: there its slope falls faster
    than that of the squared error rises. So it is taken at that length at least, and a ridge that
    shrinks further makes the network vanish as well.

    Parameters
    ----------
    ridge : RidgeFit
    order : int
        Of the samples.
    """
    least = ridge.free_norm * (order - 1) / (2 * order)
    return ridge.strength * max(ridge.norm, least) ** (2 - 2 / (order + 1)) / (order + 1)


def class_penalty(n: int, ridge: float) -> float:
    """Return the penalty for classes: one, and up to the ridge's where samples are many.

    More than `MANY` samples, which the ridge regression did not see, take up to four times as much.

    Parameters
    ----------
    n : int
        Samples.
    ridge : float
        The penalty of `ridge_penalty`; zero where lines do not tell the classes apart.

    Examples
    --------
    >>> class_penalty(30, 20.0), class_penalty(600, 20.0), class_penalty(60_000, 20.0)
    (1.0, 4.0, 80.0)
    """
    return max(1.0, min(ridge, n / 150)) * min(MOST_PENALTY, max(1.0, n / MANY))


def ranks_for(shape: Sequence[int], n: float) -> tuple[int, ...]:
    """Return the ranks to try for ``n`` samples of that shape; of order one they are all the same.

    Examples
    --------
    >>> ranks_for((8, 8), 1000), ranks_for((8, 8), 50), ranks_for((64,), 1000)
    ((1, 4), (1,), (1,))
    """
    return RANKS if len(shape) > 1 and n >= SEVERAL else RANKS[:1]


def batch_size_for(n: int) -> int | None:
    """Return the batch size for ``n`` samples; None takes all at once.

    Examples
    --------
    >>> batch_size_for(500), batch_size_for(20_000)
    (None, 256)
    """
    return None if n <= FULL_BATCH_UP_TO else MINIBATCH


def epochs_for(n: int, batch_size: int | None, most: int) -> int:
    """Return the number of passes over ``n`` samples, at most ``most``.

    Examples
    --------
    >>> epochs_for(500, None, 200), epochs_for(5_000, 256, 200), epochs_for(20_000, 256, 200)
    (200, 30, 30)
    >>> epochs_for(1_000_000, 256, 200)
    10
    """
    batches = 1 if batch_size is None else -(-n // batch_size)
    long = min(MANY_EPOCHS, LONG_STEPS // batches) if n > FULL_BATCH_UP_TO else 0
    return min(most, max(FEWEST_EPOCHS, MOST_STEPS // batches, long))


def learning_rate_for(steps: int) -> float:
    """Return the rate that a cosine of that many steps begins with: higher where it is short.

    Examples
    --------
    >>> learning_rate_for(600), learning_rate_for(50), learning_rate_for(2)
    (0.02, 0.04, 0.1)
    >>> learning_rate_for(2400)
    0.005
    """
    if steps > MOST_STEPS:
        return max(LOWEST_RATE, LEARNING_RATE * MOST_STEPS / steps)
    return min(0.1, LEARNING_RATE * max(1.0, 200 / steps) ** 0.5)


# -- asked of the samples -----------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The coordinates chosen, and what ridge regressions in them say.

    Attributes
    ----------
    coordinates : Coordinates
    ridge : RidgeFit
    radial : RidgeFit
        With a Gaussian kernel in place of the inner product.
    n : int
        Samples with a weight; whole weights count as copies.
    """

    coordinates: Coordinates
    ridge: RidgeFit
    radial: RidgeFit
    n: int

    def linear_penalty(self, order: int) -> float:
        """Return the penalty that the ridge regression asks for; zero where a kernel sees more."""
        if self.radial.error < NONLINEAR * self.ridge.error and self.radial.beats(self.ridge):
            return 0.0
        return ridge_penalty(self.ridge, order)


def choose(X: Array, target: Array, weight: Array, generator: torch.Generator) -> Choice:
    """Choose coordinates by the error of ridge regressions on samples left out.

    Parameters
    ----------
    X : array, ``(n, I_1, ..., I_D)``
    target : array, ``(n, C)``
        Classes as one-hot rows, or standardized numbers.
    weight : array, ``(n,)``
    generator : torch.Generator
        Draws samples where there are more than are asked.
    """
    asked = np.flatnonzero(weight > 0)
    whole = bool(np.all(weight == np.round(weight)))
    n, unit = len(asked), weight[asked].mean()
    if whole and weight.max() < 2**53:  # the same model for weights of 1 and 2, and of 10 and 20
        unit = np.gcd.reduce(weight.astype(np.int64))
        n = int(weight.sum() / unit)
    weight = weight / unit
    if len(asked) > MOST_SAMPLES:
        drawn = torch.randperm(len(asked), generator=generator)[:MOST_SAMPLES].numpy()
        asked = asked[np.sort(drawn)]
    x, goal, share = (torch.from_numpy(a[asked]) for a in (X, target, weight))
    some = Problem(x, goal, share, "squared").merged()
    tried: list[tuple[RidgeFit, Coordinates, torch.Tensor]] = []
    for coordinates in candidates(X.shape[1:]):
        gram = _gram(some, coordinates)
        tried.append((fit_ridge(gram, some.target, some.weight), coordinates, gram))
    plainest, best = tried[0], min(tried, key=lambda one: one[0].error)
    ridge, coordinates, gram = best if best[0].beats(plainest[0]) else plainest
    radial = fit_ridge(radial_gram(gram), some.target, some.weight)
    return Choice(coordinates, ridge, radial, n)


@dataclass(frozen=True)
class Structure:
    """What a network is made of.

    Attributes
    ----------
    rank : int
    linear : float
        Share of a linear model in its outputs, 0 to 1.
    """

    rank: int
    linear: float


def held_out_folds(
    problem: Problem, count: float, generator: torch.Generator
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return pairs of samples to fit to and samples to hold out, classes dealt out evenly.

    Two halves, or one quarter where there are many samples; none where there are hardly any.

    Parameters
    ----------
    problem : Problem
        Without copies.
    count : float
        Samples with their copies.
    generator : torch.Generator
    """
    if len(problem) < FEWEST:
        return []
    order = torch.randperm(len(problem), generator=generator)
    if problem.loss == "log":
        order = order[problem.target.cpu().argmax(dim=1)[order].argsort(stable=True)]
    turn = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    held = [turn % 2 == k for k in (0, 1)] if count < FEW else [turn % 4 == 0]
    return [(torch.nonzero(~h)[:, 0], torch.nonzero(h)[:, 0]) for h in held]


def choose_structure(
    held: Problem, outputs: Mapping[int, torch.Tensor], linear: torch.Tensor
) -> Structure:
    """Return the rank and the linear share with the least error of samples held out.

    The error is squared, of probabilities for classes, and a wrong class adds one to it. A higher
    rank must be better by more than one standard error of the difference; so must a network beside
    a larger share of a ridge regression, since a target may be noise.

    Parameters
    ----------
    held : Problem
    outputs : mapping of int to Tensor, ``(n, C)``
        Of the network of each rank, the lowest first.
    linear : Tensor, ``(n, C)``
        Outputs of the linear model.
    """
    link, needed = LOSSES[held.loss].link, 1.0 if held.loss == "squared" else 0.0

    def losses(network: torch.Tensor, share: float) -> torch.Tensor:
        mixed = (1 - share) * network + share * linear
        missed = (link(mixed) - held.target).square().sum(dim=1)  # (n,)
        if held.loss == "log":
            missed = missed + (mixed.argmax(dim=1) != held.target.argmax(dim=1))
        return missed * held.weight

    chosen, least = Structure(0, 0.0), None
    for rank, network in outputs.items():
        best = min((losses(network, s) for s in SHARES), key=lambda loss: float(loss.sum()))
        share = next(s for s in SHARES if not _clearly(losses(network, s) - best, needed))
        own = losses(network, share)
        if least is None or _clearly(least - own):
            chosen, least = Structure(rank, share), own
    return chosen


def _clearly(gain: torch.Tensor, deviations: float = 1.0) -> bool:
    """Whether gains of samples are above zero by more than some standard errors of their sum."""
    return float(gain.sum()) > deviations * float(gain.std()) * len(gain) ** 0.5


def _gram(problem: Problem, coordinates: Coordinates) -> torch.Tensor:
    X, weight = problem.x.numpy(), problem.weight.numpy()
    scaler = fit_scaler(coordinates.standardize, X, weight)
    x = torch.from_numpy(X if scaler is None else scaler.transform(X))
    if coordinates.whiten and isinstance(coordinates.standardize, int):
        scaled = replace(problem, x=x, weight=problem.weight.to(x))
        axes = PrincipalAxes.of(scaled, coordinates.standardize, coordinates.whiten)
        x = x if axes is None else axes.project(scaled).x
    rows = x.reshape(len(x), -1)
    return (rows @ rows.T).double()
