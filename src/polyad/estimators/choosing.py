"""Choose what "auto" stands for: the rules of `polyad.estimators.defaults` asked of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polyad.estimators.defaults import (
    FEW,
    FEWEST,
    NONLINEAR,
    SHARES,
    Coordinates,
    candidates,
    ridge_pull,
)
from polyad.estimators.scaler import ModeStandardScaler, common_scaler
from polyad.fitting.axes import PrincipalAxes
from polyad.fitting.problem import LOSSES, Problem
from polyad.fitting.ridge import RidgeFit, fit_ridge, radial_gram

Array = npt.NDArray[Any]

MOST_SAMPLES = 384  # that are asked: a ridge regression costs their number cubed


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

    def linear_pull(self, order: int) -> float:
        """Return the pull that the ridge regression asks for; zero where a kernel sees more."""
        if self.radial.error < NONLINEAR * self.ridge.error and self.radial.beats(self.ridge):
            return 0.0
        return ridge_pull(self.ridge, order)


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


def scaler_for(standardize: int | str, X: Array, weight: Array) -> ModeStandardScaler:
    """Return the scaler of a mode, or of all entries in common, fitted."""
    if isinstance(standardize, str):
        return common_scaler(X, weight)
    return ModeStandardScaler(standardize).fit(X, sample_weight=weight)


def _gram(problem: Problem, coordinates: Coordinates) -> torch.Tensor:
    X, weight = problem.x.numpy(), problem.weight.numpy()
    x = torch.from_numpy(scaler_for(coordinates.standardize, X, weight).transform(X))
    if coordinates.whiten and isinstance(coordinates.standardize, int):
        scaled = replace(problem, x=x, weight=problem.weight.to(x))
        axes = PrincipalAxes.of(scaled, coordinates.standardize, coordinates.whiten)
        x = x if axes is None else axes.project(scaled).x
    rows = x.reshape(len(x), -1)
    return (rows @ rows.T).double()
