"""A Rank-R classifier slid over a tile: one projection and two short correlations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyad.core.contract import khatri_rao
from polyad.core.network import ACTIVATIONS
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier

Array = npt.NDArray[Any]
Scorer = Callable[[Array], Array]
"""A tile with its halo, ``(h + 2p, w + 2p, bands)``, to scores ``(h, w, classes)``."""


def separable_scorer(estimator: RankRClassifier) -> Scorer:
    """Score a tile by one projection and two short correlations; equal to `patch_scorer`."""
    network = estimator.network_
    factors = [f.detach() for f in network.hidden.factors]
    shape, rank = network.hidden.in_shape, network.hidden.rank
    if len(shape) > 1 and (len(shape) < 3 or shape[0] != shape[1]):
        raise InputError(
            f"a scene is mapped by a model of square windows (s, s, bands) or of spectra (bands,), "
            f"this one was fitted on samples of {shape}"
        )
    spatial = factors[:2] if len(shape) > 1 else []
    device, dtype = factors[0].device, factors[0].dtype
    hidden = len(factors[0])
    spectral = khatri_rao(factors[len(spatial) :]).flatten(0, 1)  # (Q * R, features)
    centre, scale = _standardization(estimator, spectral.shape[1])
    # (x - centre) / scale projected: the division goes into the weights, in double precision
    projection = (spectral.double() / torch.from_numpy(scale).to(device)).to(dtype).T.contiguous()
    taps = [f.flatten(0, 1).T.contiguous() for f in spatial]  # each (window, Q * R)
    activation = ACTIVATIONS[network.activation].value
    shift = torch.from_numpy(centre).to(device, dtype)

    @torch.no_grad()
    def scores(block: Array) -> Array:
        height, width, features = block.shape
        pixels = torch.from_numpy(block.astype(_numpy_dtype(dtype))).to(device)
        pixels = pixels.reshape(-1, features).sub_(shift)
        z = (pixels @ projection).reshape(height, width, -1)  # (h + 2p, w + 2p, Q * R)
        if taps:
            z = _correlate(_correlate(z, taps[1], axis=1), taps[0], axis=0)
        a = z.reshape(*z.shape[:2], hidden, rank).sum(dim=-1) if rank > 1 else z
        if network.hidden.bias is not None:
            a = a + network.hidden.bias
        return network.output(activation(a)).cpu().numpy()

    return scores


def _correlate(z: Tensor, taps: Tensor, axis: int) -> Tensor:
    """Slide ``taps``, ``(window, Q * R)``, along one axis of ``z``; each term has its own."""
    length = z.shape[axis] - len(taps) + 1
    out = z.narrow(axis, 0, length) * taps[0]
    for k in range(1, len(taps)):
        out.addcmul_(z.narrow(axis, k, length), taps[k])
    return out


def _standardization(estimator: RankRClassifier, features: int) -> tuple[Array, Array]:
    """Return what to subtract from and divide a pixel by, each ``(features,)``."""
    scaler, shape = estimator.scaler_, estimator.sample_shape_
    if scaler is None:
        return np.zeros(features), np.ones(features)
    mode = scaler.mode % len(shape)
    first = 2 if len(shape) > 1 else 0  # modes before this one are spatial
    if mode < first:
        raise InputError(
            f"a scene is standardised by band, the model by mode {scaler.mode} of {shape}; "
            "fit it with standardize=-1"
        )
    along = [1] * (len(shape) - first)
    along[mode - first] = -1
    spread = [
        np.broadcast_to(a.reshape(along), shape[first:]) for a in (scaler.mean_, scaler.scale_)
    ]
    return spread[0].flatten(), spread[1].flatten()


def _numpy_dtype(dtype: torch.dtype) -> npt.DTypeLike:
    return np.float64 if dtype == torch.float64 else np.float32
