r"""Ridge regression by its Gram matrix: what a linear model would make of samples, in milliseconds.

With :math:`K = Z Z^T = U \Lambda U^T` all ridge strengths share one decomposition, and the error of
each sample when it is left out follows from the fit on all, :math:`e_i = r_i / (1 - h_i)`. So
coordinates can be compared, and the noise of a target told from its signal, without a single fit
of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Ridge strengths that are tried, relative to the mean squared length of a sample
STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-8, 9))


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
