r"""A linear step on spectra folded into the network that follows it.

A hidden unit sees whitened spectra :math:`z = P^\top (x - \mu) / s` through its spectral factor
:math:`w`; since :math:`w^\top z = (P w)^\top (x - \mu) / s`, the factor :math:`P w` on standardized
bands does the same. A network that learned on components thus becomes an ordinary Rank-R network
on the scene's bands: mapping needs no extra step.
"""

from __future__ import annotations

import copy

import torch

from polyad.core.network import RankRNet
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


def on_windows(estimator: RankRClassifier, window: int) -> RankRClassifier:
    """Return a classifier of ``window x window`` windows that predicts as ``estimator`` does.

    Parameters
    ----------
    estimator : RankRClassifier
        Of spectra ``(bands,)`` or of smaller windows ``(s, s, bands)``, standardized by band. What
        lies around them gets zero weights.
    window : int
        With 1, a network on spectra stays one.
    """
    if len(estimator.network_.hidden.in_shape) == 1 == window:
        return estimator
    network = estimator.network_
    *sides, spectral = (f.detach() for f in network.hidden.factors)
    center = spectral.new_ones(*spectral.shape[:2], 1)
    factors = [padded(side, window) for side in sides or [center, center]] + [spectral]
    wide = RankRNet(
        [f.shape[-1] for f in factors],
        len(spectral),
        len(network.output.weight),
        spectral.shape[1],
        network.activation,
        hidden_bias=network.hidden.bias is not None,
        output_bias=network.output.bias is not None,
        start=network.hidden.start,
        device="meta",
        dtype=spectral.dtype,
    )
    state = {n: v for n, v in network.state_dict().items() if "factors" not in n}
    state |= {f"hidden.factors.{d}": f for d, f in enumerate(factors)}
    wide.load_state_dict(state, assign=True)
    scaler = copy.copy(estimator.scaler_)
    twin = copy.copy(estimator)
    twin.network_, twin.scaler_, twin.sample_shape_ = wide, scaler, wide.hidden.in_shape
    twin.n_features_in_ = window
    if scaler is not None:
        scaler.sample_shape_, scaler.n_features_in_ = twin.sample_shape_, window
    return twin


def padded(factor: torch.Tensor, window: int) -> torch.Tensor:
    """Return a spatial factor ``(Q, R, s)`` with zeros on both sides, ``(Q, R, window)``."""
    margin = (window - factor.shape[-1]) // 2
    return torch.nn.functional.pad(factor, (margin, margin))
