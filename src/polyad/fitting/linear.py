r"""Linear models, and the Rank-R networks that compute them.

By Theorem 1 a dense weight is a sum of rank-one terms, one for each fibre along its longest mode.
A unit that stays where its activation is straight, or a pair of relu units, computes R of them. So
a linear model is a Rank-R network as well, and can be joined with one that was fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from polyad.core.contract import cp_inner
from polyad.core.layer import exact_factors
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.fitting.problem import Problem
from polyad.fitting.ridge import fit_ridge

SAMPLES = 384  # that choose the strength of a ridge: it costs their number cubed
DEVIATIONS = 0.1  # standard errors of its error that a stronger ridge may be worse by
UNSEEN = -10.0  # logit of a class without a sample
CENTER = 0.01  # of tanh and the sigmoid, within which they are straight to 3e-5


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
