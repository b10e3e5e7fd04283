r"""What the modes of the samples tell: principal axes to work in, and a start drawn from them.

Principal axes are coordinates in which a gradient method sees every direction of the data.

Bands of a spectrum are nearly copies of each other, so most of what tells classes apart lies in
directions that are small beside the common one. Adam steps every coordinate by about the same
amount; in the coordinates of the bands all steps then go along the common direction, in those of
the principal axes every direction gets its own. The network stays what it is: with :math:`U` the
axes of mode d, a factor fitted to projected samples is taken back by :math:`W_d = U \tilde W_d`,
since :math:`\langle [\![\dots, \tilde W_d, \dots]\!], X \times_d U^T \rangle
= \langle [\![\dots, U \tilde W_d, \dots]\!], X \rangle`.

This is done for the mode that is standardized, the one whose entries are features. For a mode
whose entries are neighbors (the rows of a window) the opposite holds: there the common direction,
the mean, is what generalizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyad.core.contract import cp_inner
from polyad.core.network import RankRNet
from polyad.fitting.problem import Problem

MAX_SIZE = 1024  # a larger mode keeps its own coordinates: its axes would cost more than the fit
KEEP = 1e-5  # axes with less than this share of the largest variance are dropped
MAX_SAMPLES = 1024  # enough to know a mode's covariance
MAX_ROOT = 1024  # above this mode size the matrix root would cost more than the fit


@dataclass(frozen=True)
class PrincipalAxes:
    """Axes ``(I_d, K)`` of one mode: orthonormal, or stretched so that they count alike.

    ``beyond``, ``(Q, R, I_d)``, is what a network that is fitted further has outside of the axes.
    """

    mode: int
    axes: Tensor
    beyond: Tensor | None = None

    @classmethod
    def of(cls, problem: Problem, mode: int, whiten: float = 0.0) -> PrincipalAxes | None:
        """Find the axes of a mode of the samples, by weight; None where it is left as it is.

        With ``whiten`` an axis along which samples deviate by s is stretched by ``s ** -whiten``,
        and all of them together so that the samples' mean square stays: one makes all axes alike.
        """
        order = problem.x.ndim - 1
        axes = _mode_axes(problem, mode % order, whiten)
        return None if axes is None else cls(mode % order, axes)

    def project(self, problem: Problem) -> Problem:
        """Return the problem in the coordinates of the axes."""
        x = (problem.x.movedim(1 + self.mode, -1) @ self.axes).movedim(-1, 1 + self.mode)
        return replace(problem, x=x.contiguous())

    def expand(self, network: RankRNet) -> RankRNet:
        """Return the network on samples that computes what ``network`` does on projected ones."""
        factor = network.hidden.factors[self.mode].detach() @ self.axes.T
        if self.beyond is not None:
            factor = factor + self.beyond
        return network.like({f"hidden.factors.{self.mode}": factor})

    def enter(self, network: RankRNet) -> tuple[RankRNet, PrincipalAxes]:
        """Return a network on samples as one on projected samples, and the axes that lead back.

        Samples say nothing of what the factor has outside of their axes: it is kept for `expand`,
        which so gives back the very network that came in.
        """
        factor = network.hidden.factors[self.mode].detach()
        inside = (factor.double() @ torch.linalg.pinv(self.axes.double()).T).to(factor)
        entered = network.like({f"hidden.factors.{self.mode}": inside})
        return entered, replace(self, beyond=factor - inside @ self.axes.T)


def _mode_axes(problem: Problem, mode: int, whiten: float) -> Tensor | None:
    size = problem.x.shape[1 + mode]
    if size == 1 or size > MAX_SIZE:
        return None
    weight = problem.weight.sqrt().reshape(-1, *[1] * (problem.x.ndim - 1))
    fibres = (problem.x * weight).movedim(1 + mode, -1).reshape(-1, size)  # (m, I_d)
    values, vectors = torch.linalg.eigh((fibres.T @ fibres).double())
    kept = values > KEEP * values[-1]
    axes, values = vectors[:, kept].flip(1), values[kept].flip(0)
    if axes.shape[1] == 0:  # nothing but zeros
        return None
    # eigh leaves the signs open: let the largest entry of each axis be positive
    largest = axes.abs().argmax(dim=0, keepdim=True)
    axes = axes * axes.gather(0, largest).sign()
    if whiten:
        stretch = values ** (-whiten / 2)
        axes = axes * stretch * (values.sum() / (values * stretch.square()).sum()).sqrt()
    return axes.to(problem.x.dtype)


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
