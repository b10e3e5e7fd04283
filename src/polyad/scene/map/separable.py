"""A Rank-R classifier slid over a tile: one projection and one short correlation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from polyad.core.contract import khatri_rao
from polyad.core.network import ACTIVATIONS
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.raster.sharing import shared_tensor
from polyad.scene.raster.tiles import Mosaic

Array = npt.NDArray[Any]


class Scorer(Protocol):
    """A tile with its halo, ``(h + 2p, w + 2p, bands)``, to scores ``(classes, h, w)``.

    None if a value may not be finite, unless the caller is sure that all are.
    """

    def __call__(self, pixels: Mosaic, sure: bool = False) -> Array | None:
        """Score one tile."""


# Up to this window one correlation in the plane is faster than one along each axis.
PLANE_UP_TO = 7


def separable_scorer(estimator: RankRClassifier) -> Scorer:
    """Score a tile by one projection and a correlation; equal to patch by patch.

    The scorer keeps its buffers from call to call: use one in each thread.
    """
    network = estimator.network_
    shape, rank = network.hidden.in_shape, network.hidden.rank
    if len(shape) > 1 and (len(shape) < 3 or shape[0] != shape[1]):
        raise InputError(
            f"a scene is mapped by a model of square windows (s, s, bands) or of spectra (bands,), "
            f"this one was fitted on samples of {shape}"
        )
    # Terms lie as (R, Q), so that the sum over R adds rows that are contiguous
    factors = [f.detach().transpose(0, 1).flatten(0, 1) for f in network.hidden.factors]
    spatial = factors[:2] if len(shape) > 1 else []
    spectral = khatri_rao([f[:, None] for f in factors[len(spatial) :]])[:, 0]  # (R * Q, features)
    device, dtype = spectral.device, spectral.dtype
    terms, features = spectral.shape
    center, scale = standardization(estimator, features)
    # (x - center) / scale projected: the division goes into the weights, in double precision
    projection = (spectral.double() / torch.from_numpy(scale).to(device)).to(dtype).T.contiguous()
    shift = torch.from_numpy(center).to(device, dtype)
    bias = _in_first_term(network.hidden.bias, terms)
    correlate = _correlation(spatial, bias) if spatial else _addition(bias)
    output = network.output
    activation = ACTIVATIONS[network.activation].over
    spectra, projected = shift.new_empty(0, features), shift.new_empty(0, terms)

    @torch.no_grad()
    def scores(pixels: Mosaic, sure: bool = False) -> Array | None:
        nonlocal spectra, projected
        height, width, _ = pixels.shape
        count = height * width
        if len(spectra) < count:
            spectra, projected = shift.new_empty(count, features), shift.new_empty(count, terms)
        centered = spectra[:count].view(height, width, features)
        for rows, cols, values in pixels.pieces:
            center_into(centered[rows, cols], values, shift)
        if not sure and not math.isfinite(float(centered.sum())):
            return None
        torch.mm(spectra[:count], projection, out=projected[:count])
        z = correlate(projected[:count].view(height, width, terms))  # (h, w, R * Q)
        if rank > 1:
            z = z.reshape(*z.shape[:2], rank, -1).sum(dim=-2)
        hidden = activation(z).reshape(-1, output.in_features)  # (h * w, Q)
        logits = torch.mm(output.weight, hidden.T)  # (classes, h * w)
        if output.bias is not None:
            logits += output.bias[:, None]
        return logits.cpu().numpy().reshape(len(logits), *z.shape[:2])

    return scores


def center_into(out: Tensor, values: Array, shift: Tensor) -> None:
    """Write ``values - shift`` to ``out``; what torch cannot share is copied by numpy first."""
    x = shared_tensor(values)
    if x is None:
        with np.errstate(over="ignore"):  # what is infinite in single precision is no data
            x = torch.from_numpy(values.astype(_numpy_dtype(out.dtype)))
    if x.dtype == out.dtype and x.device == out.device:
        torch.sub(x, shift, out=out)
    else:
        out.copy_(x).sub_(shift)


def _in_first_term(bias: Tensor | None, terms: int) -> Tensor | None:
    """Return the hidden units' bias in the first of the R terms that are added, ``(terms,)``."""
    if bias is None:
        return None
    return torch.cat([bias.detach(), bias.new_zeros(terms - len(bias))])


def _addition(bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    return lambda z: z if bias is None else z + bias


def _correlation(spatial: list[Tensor], bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Slide the spatial factors over ``(h + 2p, w + 2p, terms)``, each term with its own.

    The projection leaves terms innermost, which torch calls channels-last: its depthwise
    convolution takes that as it is.
    """
    along_y, along_x = spatial  # each (terms, window)
    terms, window = along_y.shape
    last = torch.channels_last
    if window <= PLANE_UP_TO:
        plane = along_y[:, :, None] * along_x[:, None, :]  # (terms, window, window)
        kernels = [plane[:, None].contiguous(memory_format=last)]
    else:
        kernels = [
            along_x[:, None, None, :].contiguous(memory_format=last),
            along_y[:, None, :, None].contiguous(memory_format=last),
        ]

    def correlate(z: Tensor) -> Tensor:
        # (1, terms, h + 2p, w + 2p); a new axis in front, or torch would take another layout for it
        z = z[None].permute(0, 3, 1, 2)
        for kernel in kernels[:-1]:
            z = conv2d(z, kernel, groups=terms)
        z = conv2d(z, kernels[-1], bias, groups=terms)
        return z[0].permute(1, 2, 0)  # (h, w, terms)

    return correlate


def standardization(estimator: RankRClassifier, features: int) -> tuple[Array, Array]:
    """Return what to subtract from and divide a pixel by, each ``(features,)``."""
    scaler, shape = estimator.scaler_, estimator.sample_shape_
    if scaler is None:
        return np.zeros(features), np.ones(features)
    mode = scaler.mode % len(shape)
    first = 2 if len(shape) > 1 else 0  # modes before this one are spatial
    if mode < first:
        raise InputError(
            f"a scene is standardized by band, the model by mode {scaler.mode} of {shape}; "
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
