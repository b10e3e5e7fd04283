r"""Linear models, and the Rank-R networks that compute them.

By Theorem 1 a dense weight is a sum of rank-one terms, one for each fibre along its longest mode.
A unit that stays where its activation is straight, or a pair of relu units, computes R of them. So
a linear model is a Rank-R network as well, and can be joined with one that was fitted.

A ridge regression is fitted by its Gram matrix. With :math:`K = Z Z^T = U \Lambda U^T` all ridge
strengths share one decomposition, and the error of each sample when it is left out follows from the
fit on all, :math:`e_i = r_i / (1 - h_i)`. So coordinates can be compared, and the noise of a target
told from its signal, without a single fit of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from polyad.core.contract import cp_inner
from polyad.core.layer import exact_factors
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.fitting.problem import Problem

SAMPLES = 384  # that choose the strength of a ridge: it costs their number cubed
DEVIATIONS = 0.1  # standard errors of its error that a stronger ridge may be worse by
UNSEEN = -10.0  # logit of a class without a sample
CENTER = 0.01  # of tanh and the sigmoid, within which they are straight to 3e-5
# Ridge strengths that are tried, relative to the mean squared length of a sample
STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-8, 9))


# -- networks that compute linear models ------------------------------------------------------


class Linear(NamedTuple):
    """Outputs ``weight @ x.flatten() + bias``: ``(C, prod I_d)`` and ``(C,)``."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs ``(n, C)``."""
        return x.reshape(len(x), -1) @ self.weight.T + self.bias


def fit_linear(problem: Problem, generator: torch.Generator) -> Linear | None:
    """Fit logistic or ridge regression to the standardized entries of the samples.

    The ridge is the strongest whose error on samples left out is near the least. None for labels
    that do not exclude each other, and for a single class.

    Parameters
    ----------
    problem : Problem
        Without copies; a weight is the number of copies.
    generator : torch.Generator
        Draws the samples that choose the ridge where there are many.
    """
    like = problem.x
    problem = Problem(like.cpu(), problem.target.cpu(), problem.weight.cpu(), problem.loss)
    present = problem.target.sum(dim=0) > 0
    if problem.loss == "binary" or (problem.loss == "log" and int(present.sum()) < 2):
        return None
    x = problem.x.reshape(len(problem), -1).double()
    share = (problem.weight / problem.weight.sum()).double()
    mean = share @ x
    scale = (share @ (x - mean).square()).sqrt()
    scale[scale <= 1e-7 * mean.abs()] = torch.inf  # constant entries: their weight is zero
    rows = (x - mean) / scale  # (n, P)
    # All that a penalized model can see of the samples, in at most n coordinates
    wide = x.shape[1] > len(x)
    axes = torch.linalg.svd(rows, full_matrices=False).Vh if wide else None
    seen = rows if axes is None else rows @ axes.T
    fit = _logistic if problem.loss == "log" else _ridge
    weight, bias = fit(seen, problem, present, generator)
    weight = (weight if axes is None else weight @ axes) / scale
    return Linear(weight.to(like), (bias - weight @ mean).to(like))


def _logistic(
    rows: Tensor, problem: Problem, present: Tensor, _: torch.Generator
) -> tuple[Tensor, Tensor]:
    from sklearn.linear_model import LogisticRegression  # only here, and slow to import

    classes = problem.target.argmax(dim=1).numpy()
    model = LogisticRegression(max_iter=200).fit(rows.numpy(), classes, problem.weight.numpy())
    weight, bias = (torch.from_numpy(a) for a in (model.coef_, model.intercept_))
    if len(weight) == 1:  # two classes: half of the difference each
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    every = rows.new_zeros(len(present), rows.shape[1]), rows.new_full((len(present),), UNSEEN)
    every[0][present], every[1][present] = weight, bias
    return every


def _ridge(
    rows: Tensor, problem: Problem, _: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    some = torch.arange(len(rows))
    if len(rows) > SAMPLES:
        some = torch.randperm(len(rows), generator=generator)[:SAMPLES].sort().values
    target, weight = problem.target.double(), problem.weight.double()
    chosen = fit_ridge(rows[some] @ rows[some].T, target[some], weight[some], DEVIATIONS)
    middle = weight @ target / weight.sum()
    weighted = rows * weight[:, None]
    gram = weighted.T @ rows + chosen.strength * torch.eye(rows.shape[1], dtype=rows.dtype)
    return torch.linalg.solve(gram, weighted.T @ (target - middle)).T, middle


def as_network(linear: Linear, like: RankRNet, x: Tensor) -> RankRNet:
    """Return the network with the rank and the activation of another that computes a linear model.

    Parameters
    ----------
    linear : Linear
    like : RankRNet
        On samples as ``x`` is, with a bias of its hidden units.
    x : Tensor, ``(n, I_1, ..., I_D)``
        Samples, which tell how far units of tanh or the sigmoid must be straight.
    """
    shape, rank = like.hidden.in_shape, like.hidden.rank
    outputs, groups = len(linear.weight), -(-linear.weight.shape[1] // max(shape) // rank)
    units = outputs * groups
    factors = [
        f.reshape(units, rank, -1) for f in exact_factors(linear.weight, shape, groups * rank)
    ]
    output = torch.eye(outputs).to(linear.weight).repeat_interleave(groups, dim=1)  # (C, units)
    bias = linear.bias
    if like.activation == "relu":  # a = relu(a) - relu(-a)
        factors = [torch.cat([f, f if d else -f]) for d, f in enumerate(factors)]
        output = torch.cat([output, -output], dim=1)
    elif like.activation != "identity":  # g(s a) = g(0) + s g'(0) a, nearly
        scale = CENTER / cp_inner(x, factors).abs().amax(dim=0).clamp_min(1e-30)  # (units,)
        activation = ACTIVATIONS[like.activation]
        height = activation.value(torch.zeros_like(scale))
        factors[0] = factors[0] * scale[:, None, None]
        output = output / (scale * activation.slope(height))
        bias = bias - output @ height
    weights = {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    weights |= {"hidden.bias": output.new_zeros(output.shape[1])}
    return like.like(weights | {"output.weight": output, "output.bias": bias})


# -- ridge regression by its Gram matrix ------------------------------------------------------


@dataclass(frozen=True)
class RidgeFit:
    """The best ridge regression on a set of samples.

    Attributes
    ----------
    error : float
        Squared error of samples left out, as a share of the targets' variance.
    strength : float
        Of the ridge: ``sum of squared errors + strength * norm ** 2`` was minimized.
    norm : float
        Length of the coefficients.
    free_norm : float
        What their length would be without a ridge, were all directions of the samples alike.
    losses : Tensor, ``(n,)``
        What each sample adds to the error.
    """

    error: float
    strength: float
    norm: float
    free_norm: float
    losses: Tensor

    def beats(self, other: RidgeFit, deviations: float = 2.0) -> bool:
        """Return whether the error is lower by more than chance makes it, sample by sample."""
        gain = other.losses - self.losses
        if len(gain) < 2:
            return False  # one sample has no spread to tell chance by
        return float(gain.sum()) > deviations * float(gain.std() * len(gain) ** 0.5)


def fit_ridge(gram: Tensor, target: Tensor, weight: Tensor, deviations: float = 1.0) -> RidgeFit:
    """Find the strength with the least error on samples left out.

    The error is that of the best strength; strength and norm are those of the strongest ridge that
    is not worse by more than ``deviations`` standard errors of the difference.

    Parameters
    ----------
    gram : Tensor, ``(n, n)``
        Inner products of samples; they need not be centered.
    target : Tensor, ``(n, C)``
    weight : Tensor, ``(n,)``
        Above zero.

    Returns
    -------
    RidgeFit

    Examples
    --------
    >>> x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    >>> fit = fit_ridge(x @ x.T, x[:, :1] * 2, torch.ones(50))
    >>> round(fit.norm, 2), fit.error < 1e-4
    (2.0, True)
    """
    gram, target, weight = gram.double(), target.double(), weight.double()
    share = weight / weight.sum()
    middle = gram @ share  # <z_i, mean>
    gram = gram - middle[:, None] - middle + share @ middle
    root = weight.sqrt()
    rounding = 1e-24 * float((target.square() * weight[:, None]).sum())
    target = (target - share @ target) * root[:, None]
    variance = float(target.square().sum())
    values, vectors = torch.linalg.eigh(gram * torch.outer(root, root))
    values = values.clamp_min(0.0)
    size = float(values.sum() / len(values))
    if len(values) < 2 or variance <= rounding or size <= 0:
        return RidgeFit(1.0, 1.0, 0.0, 0.0, target.square().sum(dim=1))
    typical = float(values.square().sum() / values.sum())  # eigenvalue, by its share of variance
    turned, squares = vectors.T @ target, vectors.square()  # (n, C), (n, n)
    fits = []
    for relative in STRENGTHS:
        strength = relative * size
        kept = values / (values + strength)
        stayed = (1 - squares @ kept - share).clamp_min(1e-6)
        missed = (target - vectors @ (kept[:, None] * turned)) / stayed[:, None]
        losses = missed.square().sum(dim=1) / variance
        norm = (values[:, None] * (turned / (values + strength)[:, None]).square()).sum().sqrt()
        free = float(norm) * (1 + strength / typical)
        fits.append(RidgeFit(float(losses.sum()), strength, float(norm), free, losses))
    best = min(fits, key=lambda fit: fit.error)
    alike = [fit for fit in fits if fit is best or not best.beats(fit, deviations)]
    strongest = max(alike, key=lambda fit: fit.strength)
    return replace(strongest, error=best.error, losses=best.losses)


def radial_gram(gram: Tensor) -> Tensor:
    """Turn inner products into a Gaussian kernel as wide as the samples lie apart."""
    squares = gram.diagonal()
    distances = (squares[:, None] + squares - 2 * gram).clamp_min(0.0)
    return torch.exp(-distances / distances.mean().clamp_min(1e-30))
