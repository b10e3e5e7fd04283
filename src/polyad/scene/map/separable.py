"""A Rank-R network slid over a tile: one projection and one short correlation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from polyad.core.contract import khatri_rao
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.errors import InputError
from polyad.estimators.base import RankREstimator
from polyad.scene.raster.despiking import (
    NoiseModel,
    centered_test,
    far_off,
    of_one_value,
    shared_tensor,
)

Array = npt.NDArray[Any]


Replace = Callable[[Array], tuple[Array, Array, Array]]
"""Suspects ``(h, w)`` to rows, columns and new spectra ``(n, bands)`` of those to be replaced."""


class Scorer(Protocol):
    """A tile with its halo, ``(h + 2p, w + 2p, bands)``, to scores ``(classes, h, w)``.

    None if a value may not be finite, unless the caller is sure that all are. Corrupt pixels are
    scored as what ``replace`` gives for them, if it is given.
    """

    def __call__(
        self, pixels: Array, sure: bool = False, replace: Replace | None = None
    ) -> Array | None:
        """Score one tile."""


# Up to this window one correlation in the plane is faster than one along each axis; up to the
# second where the processor has vectors of 16 float32, which take the 25 products of a window of 5
# in half the time of two passes over the terms.
PLANE_UP_TO, PLANE_UP_TO_WIDE = 3, 5
# Units are padded by zeros to whole vectors of the processor, 16 float32 at most: depthwise
# convolution of 75 channels takes 1.3 times as long as of 80, and the product is no slower.
LANES = 16
# Of pixels centered at a time: few enough to be in the processor's caches when they are projected,
# and so many that the calls for a strip take little of its time.
STRIP_BYTES = 2**20


def separable_scorer(
    estimator: RankREstimator, soundness: NoiseModel | None = None, stride: int = 1
) -> Scorer:
    """Score a tile by one projection and a correlation; equal to patch by patch.

    By ``soundness`` it finds the pixels that may be corrupt, while they are in the cache. With a
    ``stride`` it scores every so many pixels only, down and across, from the first on. It keeps its
    buffers from call to call: use one in each thread.
    """
    network = estimator.network_
    shape, rank = network.hidden.in_shape, network.hidden.rank
    check_square_windows(shape)
    weights = _weights(network)
    # Terms lie as (R, Q), so that the sum over R adds rows that are contiguous
    factors = [_padded(f).transpose(0, 1).flatten(0, 1) for f in weights.factors]
    spatial = factors[:2] if len(shape) > 1 else []
    spectral = khatri_rao([f[:, None] for f in factors[len(spatial) :]])[:, 0]  # (R * Q, features)
    center, scale = standardization(estimator, spectral.shape[1])
    project = Projection(spectral, center, scale, soundness)
    bias = None  # of the hidden units, in the first of the R terms that are added
    if weights.bias is not None:
        bias = spectral.new_zeros(len(spectral))
        bias[: len(weights.bias)] = weights.bias.detach()
    correlate = _correlation(spatial, bias, stride)
    output = _padded(weights.output.T).T.contiguous()  # (classes, Q)
    offset, activation = weights.offset, weights.activation

    @torch.no_grad()
    def scores(pixels: Array, sure: bool = False, replace: Replace | None = None) -> Array | None:
        suspects = None if replace is None else np.empty(pixels.shape[:2], bool)
        projected = project(pixels, suspects)  # (h + 2p, w + 2p, R * Q)
        # What is not finite leaves no term finite, whatever its weight: infinity times 0 is NaN
        if not (
            sure or pixels.dtype.kind in "biu" or math.isfinite(float(projected[..., 0].sum()))
        ):
            return None
        if replace is not None and suspects is not None and suspects.any():
            rows, cols, spectra = replace(suspects)
            if len(rows):
                projected[rows, cols] = project.spectra(spectra)
        z = correlate(projected)  # (h, w, R * Q)
        if rank > 1:
            z = z.reshape(*z.shape[:2], rank, -1).sum(dim=-2)
        hidden = activation(z).reshape(-1, output.shape[1])  # (h * w, Q)
        if offset is None:
            logits = torch.mm(output, hidden.T)  # (classes, h * w)
        else:
            logits = torch.addmm(offset[:, None], output, hidden.T)
        return logits.cpu().numpy().reshape(len(logits), *z.shape[:2])

    return scores


def check_square_windows(shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless samples are square windows or spectra."""
    if len(shape) > 1 and (len(shape) < 3 or shape[0] != shape[1]):
        raise InputError(
            f"expected a model of square windows (s, s, bands) or of spectra (bands,), got one "
            f"fitted on samples of {shape}"
        )


class _Weights(NamedTuple):
    """What a network is mapped by."""

    factors: list[Tensor]  # each (Q, R, I_d)
    bias: Tensor | None  # (Q,)
    output: Tensor  # (classes, Q)
    offset: Tensor | None  # (classes,)
    activation: Callable[[Tensor], Tensor]  # written over its argument


def _weights(network: RankRNet) -> _Weights:
    """Return the weights of a network; one of tanh becomes one of the logistic function.

    tanh(a) = 2 s(2a) - 1, and torch takes a third of the time for s, the logistic function.
    Doubling is exact; the sum over the output weights is taken in double precision.
    """
    factors = [f.detach() for f in network.hidden.factors]
    bias, output, offset = network.hidden.bias, network.output.weight.detach(), network.output.bias
    if network.activation != "tanh":
        return _Weights(factors, bias, output, offset, ACTIVATIONS[network.activation].over)
    factors[0] = 2 * factors[0]
    shifted = -output.double().sum(dim=1)
    if offset is not None:
        shifted += offset.detach()
    doubled = None if bias is None else 2 * bias.detach()
    return _Weights(factors, doubled, 2 * output, shifted.to(output.dtype), torch.sigmoid_)


class Projection:
    """Standardize pixels and project them onto spectral factors, strip by strip.

    A strip is centered into a buffer that stays in the cache, in the order in which the pixels
    lie: with bands innermost, or band after band as BIL and BSQ files have them, which the matrix
    product reads transposed at no cost.

    Parameters
    ----------
    spectral : Tensor, ``(terms, features)``
    center, scale : ndarray, ``(features,)``
        What is subtracted from a pixel, and what it is divided by.
    soundness : NoiseModel, optional
        By which pixels are suspects.
    """

    def __init__(
        self, spectral: Tensor, center: Array, scale: Array, soundness: NoiseModel | None = None
    ) -> None:
        device, dtype = spectral.device, spectral.dtype
        # (x - center) / scale projected: the division goes into the weights, in double precision
        divided = spectral.double() / torch.from_numpy(scale).to(device)
        self.weights = divided.to(dtype).T.contiguous()  # (features, terms)
        self.shift = torch.from_numpy(center).to(device, dtype)
        self._centered = self.shift.new_empty(0)
        self._projected = self.shift.new_empty(0)
        self._test: tuple[Tensor, ...] = ()
        if soundness is not None:
            weights, shift = centered_test(soundness, center)
            self._test = tuple(torch.from_numpy(a).to(device, dtype) for a in (weights, shift))

    def spectra(self, values: Array) -> Tensor:
        """Return ``(n, terms)`` of a few spectra ``(n, bands)``: plain, and the reference."""
        return (as_tensor(values, self.shift).to(self.shift) - self.shift) @ self.weights

    def __call__(self, pixels: Array, suspects: Array | None = None) -> Tensor:
        """Return ``(h, w, terms)``, which the next call overwrites.

        ``suspects``, ``(h, w)``, takes up which pixels may be corrupt; see
        `polyad.scene.raster.despiking.find_outliers`.
        """
        height, width, features = pixels.shape
        terms = self.weights.shape[1]
        rows = max(STRIP_BYTES // (width * features * self.shift.element_size()), 1)
        rows = -(-height // -(-height // rows))  # strips of one height
        if self._centered.numel() < rows * width * features:
            self._centered = self.shift.new_empty(rows * width * features)
        if self._projected.numel() < height * width * terms:
            self._projected = self.shift.new_empty(height * width * terms)
        projected = self._projected[: height * width * terms].view(height, width, terms)
        flat = projected.view(-1, terms)
        values, innermost = as_tensor(pixels, self.shift), pixels.strides[-1] == pixels.itemsize
        for start in range(0, height, rows):
            stop = min(start + rows, height)
            matrix, centered = self._room(stop - start, width, innermost)
            strip = values[start:stop]
            if strip.dtype == centered.dtype and strip.device == centered.device:
                torch.sub(strip, self.shift, out=centered)
            else:
                centered.copy_(strip).sub_(self.shift)
            torch.mm(matrix, self.weights, out=flat[start * width : stop * width])
            if suspects is not None:
                found = far_off(matrix, *self._test).cpu().numpy()
                suspects[start:stop] = found.reshape(-1, width)
        if suspects is not None:
            suspects |= of_one_value(pixels)
        return projected

    def _room(self, rows: int, width: int, bands_innermost: bool) -> tuple[Tensor, Tensor]:
        """Return the buffer as ``(rows * width, features)`` and ``(rows, width, features)``."""
        features = len(self.shift)
        room = self._centered[: rows * width * features]
        if bands_innermost:
            return room.view(-1, features), room.view(rows, width, features)
        return room.view(features, -1).T, room.view(features, rows, width).permute(1, 2, 0)


def _padded(units: Tensor) -> Tensor:
    """Return ``(Q, ...)`` with zeros for more units, up to a multiple of `LANES`."""
    more = -len(units) % LANES
    return torch.cat([units, units.new_zeros(more, *units.shape[1:])]) if more else units


def as_tensor(values: Array, like: Tensor) -> Tensor:
    """Return pixels as a tensor; what torch cannot share is copied by numpy first."""
    shared = shared_tensor(values)
    if shared is not None:
        return shared
    wide = like.dtype == torch.float64
    with np.errstate(over="ignore"):  # what is infinite in single precision is no data
        return torch.from_numpy(values.astype(np.float64 if wide else np.float32))


def _plane_up_to() -> int:
    """Return the widest window that is correlated in the plane on this machine."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return PLANE_UP_TO_WIDE if wide else PLANE_UP_TO


def _correlation(
    spatial: list[Tensor], bias: Tensor | None, stride: int = 1
) -> Callable[[Tensor], Tensor]:
    """Slide the spatial factors over ``(h + 2p, w + 2p, terms)``, each term with its own.

    The projection leaves terms innermost, which torch calls channels-last: its depthwise
    convolution takes that as it is.
    """
    if not spatial:  # single pixels
        every = slice(None, None, stride)
        return lambda z: z[every, every] if bias is None else z[every, every] + bias
    along_y, along_x = spatial  # each (terms, window)
    terms, window = along_y.shape
    last = torch.channels_last
    if window <= _plane_up_to():
        plane = along_y[:, :, None] * along_x[:, None, :]  # (terms, window, window)
        kernels = [plane[:, None].contiguous(memory_format=last)]
    else:
        kernels = [
            along_y[:, None, :, None].contiguous(memory_format=last),
            along_x[:, None, None, :].contiguous(memory_format=last),
        ]

    def correlate(z: Tensor) -> Tensor:
        # (1, terms, h + 2p, w + 2p); a new axis in front, or torch would take another layout for it
        z = z[None].permute(0, 3, 1, 2)
        for kernel in kernels[:-1]:
            z = conv2d(z, kernel, stride=(stride, 1), groups=terms)
        steps = (stride if len(kernels) == 1 else 1, stride)
        z = conv2d(z, kernels[-1], bias, stride=steps, groups=terms)
        return z[0].permute(1, 2, 0)  # (h, w, terms)

    return correlate


def standardization(estimator: RankREstimator, features: int) -> tuple[Array, Array]:
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
