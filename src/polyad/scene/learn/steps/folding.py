r"""A linear step on spectra folded into the network that follows it.

A hidden unit sees whitened spectra :math:`z = P^\top (x - \mu) / s` through its spectral factor
:math:`w`; since :math:`w^\top z = (P w)^\top (x - \mu) / s`, the factor :math:`P w` on standardized
bands does the same. A network that learned on components thus becomes an ordinary Rank-R network
on the scene's bands: mapping needs no extra step.
"""

from __future__ import annotations

import torch

from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.learn.steps.whitening import NoiseWhitening


def fold_whitening(
    estimator: RankRClassifier, whitening: NoiseWhitening, unit: float = 1.0
) -> RankRClassifier:
    """Return a classifier of windows of bands that predicts as ``estimator`` does on components.

    Parameters
    ----------
    estimator : RankRClassifier
        Fitted with ``standardize=None`` on samples ``(..., components)`` divided by ``unit``.
    whitening : NoiseWhitening
        That made the components.
    unit : float
    """
    if estimator.scaler_ is not None:
        raise InputError("only a network fitted with standardize=None can take in a whitening")
    layer = estimator.network_.hidden
    shape = (*layer.in_shape[:-1], len(whitening.mean_))
    projection = torch.from_numpy(whitening.projection_ / unit)  # (bands, components)
    spectral = layer.factors[-1].detach()  # (Q, R, components)
    folded_in = (spectral.double() @ projection.T).to(spectral.dtype)  # (Q, R, bands)
    network = estimator.network_.like({f"hidden.factors.{len(shape) - 1}": folded_in})
    scaler = ModeStandardScaler(-1)
    scaler.mean_, scaler.scale_ = whitening.mean_, whitening.scale_
    scaler.sample_shape_, scaler.n_features_in_ = shape, shape[0]
    folded = RankRClassifier(**(estimator.get_params() | {"standardize": -1}))
    folded.network_, folded.classes_, folded.scaler_ = network, estimator.classes_, scaler
    folded.sample_shape_, folded.n_features_in_ = shape, shape[0]
    folded.history_, folded.n_iter_ = estimator.history_, estimator.n_iter_
    return folded
