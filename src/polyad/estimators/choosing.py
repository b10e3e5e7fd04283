"""Choose what "auto" stands for: the rules of `polyad.estimators.defaults` asked of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polyad.estimators.defaults import NONLINEAR, Coordinates, candidates, ridge_pull
from polyad.estimators.scaler import ModeStandardScaler, common_scaler
from polyad.fitting.axes import PrincipalAxes
from polyad.fitting.problem import Problem
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
    radial_error : float
        Of samples left out, with a Gaussian kernel in place of the inner product.
    n : int
        Samples with a weight; whole weights count as copies.
    """

    coordinates: Coordinates
    ridge: RidgeFit
    radial_error: float
    n: int

    def linear_pull(self, order: int) -> float:
        """Return the pull that the ridge regression asks for; zero where a kernel sees more."""
        if self.radial_error < NONLINEAR * self.ridge.error:
            return 0.0
        return ridge_pull(self.ridge.strength, self.ridge.norm, order)


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
    X, target, weight = _merged(X[asked], target[asked], weight[asked])
    tried: list[tuple[RidgeFit, Coordinates, torch.Tensor]] = []
    goal, share = torch.from_numpy(target), torch.from_numpy(weight)
    for coordinates in candidates(X.shape[1:]):
        gram = _gram(X, coordinates, target, weight)
        tried.append((fit_ridge(gram, goal, share), coordinates, gram))
    plainest, best = tried[0], min(tried, key=lambda one: one[0].error)
    ridge, coordinates, gram = best if best[0].beats(plainest[0]) else plainest
    radial = fit_ridge(radial_gram(gram), goal, share)
    return Choice(coordinates, ridge, radial.error, n)


def scaler_for(standardize: int | str, X: Array, weight: Array) -> ModeStandardScaler:
    """Return the scaler of a mode, or of all entries in common, fitted."""
    if isinstance(standardize, str):
        return common_scaler(X, weight)
    return ModeStandardScaler(standardize).fit(X, sample_weight=weight)


def _gram(X: Array, coordinates: Coordinates, target: Array, weight: Array) -> torch.Tensor:
    x = torch.from_numpy(scaler_for(coordinates.standardize, X, weight).transform(X))
    if coordinates.whiten and isinstance(coordinates.standardize, int):
        problem = Problem(x, torch.from_numpy(target), torch.from_numpy(weight).to(x), "squared")
        axes = PrincipalAxes.of(problem, coordinates.standardize, coordinates.whiten)
        x = x if axes is None else axes.project(problem).x
    rows = x.reshape(len(x), -1)
    return (rows @ rows.T).double()


def _merged(X: Array, target: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Merge samples that are the same, and add up their weights.

    A sample that is left out while its copy stays would tell nothing; and a weight of two must
    mean what two copies do.
    """
    rows = np.concatenate([X.reshape(len(X), -1), target], axis=1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return X[first], target[first], np.bincount(group.ravel(), weight)
