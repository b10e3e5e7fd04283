"""A start drawn from the data: factors that lie where the samples lie."""

from __future__ import annotations

import torch
from torch import Tensor

from polyad.core.contract import cp_inner
from polyad.core.network import RankRNet
from polyad.fitting.problem import Problem

MAX_SAMPLES = 1024  # enough to know a mode's covariance
MAX_ROOT = 1024  # above this mode size the matrix root would cost more than the fit


def start_from_data(
    network: RankRNet, problem: Problem, generator: torch.Generator, *, deviation: float = 0.1
) -> None:
    """Draw the factors of ``network`` from the modes of the samples, in place.

    Each factor's column is drawn with the (uncentred) covariance of the data's mode-d fibres: a
    column along a smooth mode starts smooth, one along a noisy mode starts noisy. Then all
    factors are scaled so that the pre-activations have the given deviation: small, so that the
    units still learn what to look at.

    Parameters
    ----------
    network : RankRNet
    problem : Problem
        Its samples and their weights.
    generator : torch.Generator
        On the CPU.
    deviation : float, default=0.1
        Root mean square of the pre-activations.
    """
    network.reset_parameters(generator)
    if len(problem) > MAX_SAMPLES:
        pick = torch.randperm(len(problem), generator=generator)[:MAX_SAMPLES]
        problem = problem.take(pick.to(problem.x.device))
    factors = list(network.hidden.factors)
    with torch.no_grad():
        for mode, factor in enumerate(factors):
            noise = torch.randn(factor.shape, generator=generator, dtype=factor.dtype)
            drawn = noise.to(factor.device) @ _mode_root(problem, mode, generator)
            if bool(drawn.any()):  # a mode of zeros only keeps its unit-variance start
                factor.copy_(drawn / drawn.square().mean().sqrt())
        before = cp_inner(problem.x, factors).square().mean(dim=1)  # (n,)
        size = float((before * problem.weight).mean().sqrt())
        for factor in factors if size > 0 else ():
            factor.mul_((deviation / size) ** (1 / len(factors)))


def _mode_root(problem: Problem, mode: int, generator: torch.Generator) -> Tensor:
    """Return a root ``(I_d, I_d)`` of the covariance of the mode-``mode`` fibres."""
    size = problem.x.shape[1 + mode]
    weighted = problem.x * problem.weight.sqrt().reshape(-1, *[1] * (problem.x.ndim - 1))
    fibres = weighted.movedim(1 + mode, -1).reshape(-1, size)  # (m, I_d)
    if size > MAX_ROOT:
        # a random mix of fibres has their covariance too, and needs no decomposition
        mix = torch.randn(size, len(fibres), generator=generator, dtype=fibres.dtype)
        return mix.to(fibres.device) @ fibres
    covariance = (fibres.T @ fibres).double()
    values, vectors = torch.linalg.eigh(covariance / covariance.diagonal().max().clamp_min(1e-30))
    values = torch.where(values > 1e-10, values, 0.0)  # rounding, whose root would be noise
    return ((vectors * values.sqrt()) @ vectors.T).to(fibres.dtype)
