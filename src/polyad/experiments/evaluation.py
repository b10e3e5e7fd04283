"""Networks applied to a whole scene at once, as often as after every epoch.

Patch by patch, ten thousand test pixels cost more than the epoch they are to judge. A Rank-R weight
is separable, so that the scene is projected once onto the spectral factors and then correlated with
the short spatial ones; the CNN and the dense network are slid over the scene as convolutions. Same
numbers as patch by patch, up to rounding; a test ties them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d

from polyad.baselines.cnn import ConvolutionalNet
from polyad.baselines.dense import DenseNet
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.raster.patches import extract_patches
from polyad.scene.raster.tiles import halo_index

STRIP_PIXELS = 6_000  # worked on at a time: what a strip needs stays in the cache


def slide_rank_r(network: RankRNet, scene: Tensor, window: int) -> Tensor:
    """Return logits ``(C, h - s + 1, w - s + 1)`` of a standardized scene ``(bands, h, w)``."""
    rows, cols, spectral = network.hidden.factors  # (Q, R, s), (Q, R, s), (Q, R, bands)
    units, rank, bands = spectral.shape
    height, width = scene.shape[1:]
    projected = spectral.reshape(-1, bands) @ scene.reshape(bands, -1)  # (Q R, pixels)
    taps = (rows[..., :, None] * cols[..., None, :]).reshape(-1, 1, window, window)
    image = projected.reshape(1, -1, height, width)
    terms = conv2d(image, taps, groups=len(taps))[0]  # (Q R, h - s + 1, w - s + 1)
    before = terms.reshape(units, rank, *terms.shape[1:]).sum(dim=1)
    if network.hidden.bias is not None:
        before += network.hidden.bias[:, None, None]
    hidden = ACTIVATIONS[network.activation].value(before)
    return _output(network.output, hidden)


def slide_convolutional(network: ConvolutionalNet, scene: Tensor, window: int) -> Tensor:
    """Return logits ``(C, h - s + 1, w - s + 1)`` of the CNN."""
    del window  # its layers have the window's size already
    return network.slide(scene[None])[0]


def slide_dense(network: DenseNet, scene: Tensor, window: int) -> Tensor:
    """Return logits ``(C, h - s + 1, w - s + 1)`` of the dense network."""
    weight = network.hidden.weight.reshape(-1, window, window, len(scene))  # (Q, s, s, bands)
    before = conv2d(scene[None], weight.permute(0, 3, 1, 2), network.hidden.bias)[0]
    return _output(network.output, network.activation(before))


def _output(layer: nn.Linear, hidden: Tensor) -> Tensor:
    logits = (layer.weight @ hidden.flatten(1)).reshape(-1, *hidden.shape[1:])
    return logits if layer.bias is None else logits + layer.bias[:, None, None]


SLIDERS: dict[type[nn.Module], Callable[[Any, Tensor, int], Tensor]] = {
    RankRNet: slide_rank_r,
    ConvolutionalNet: slide_convolutional,
    DenseNet: slide_dense,
}


class SceneEvaluator:
    """Classify the same pixels of one scene again and again.

    Parameters
    ----------
    cube : ndarray, shape (height, width, bands)
    pixels : ndarray of int, shape (n, 2)
        Row and column of the pixels to classify.
    scaler : ModeStandardScaler
        Fitted on the training patches.
    window : int
        Side s of the patches. The scene is mirrored at its border.
    """

    def __init__(
        self,
        cube: NDArray[np.floating],
        pixels: NDArray[np.intp],
        scaler: ModeStandardScaler,
        window: int = 5,
    ) -> None:
        self.pixels, self.window = pixels, window
        self.height, self.width, bands = cube.shape
        flat = cube.reshape(-1, bands).astype(np.float32, copy=False)
        mean, scale = (v.astype(np.float32) for v in (scaler.mean_, scaler.scale_))
        cube = ((flat - mean) / scale).reshape(cube.shape)
        # Few pixels in a large scene: their patches together are smaller than the scene.
        self.patches: Tensor | None = None
        if len(pixels) * window**2 < self.height * self.width:
            self.patches = torch.from_numpy(
                extract_patches(cube, pixels[:, 0], pixels[:, 1], window, "reflect")
            )
        half = window // 2
        rows, cols = (halo_index(slice(0, n), half, n) for n in (self.height, self.width))
        padded = cube[rows[:, None], cols].transpose(2, 0, 1)  # (bands, height + s - 1, ...)
        self.scene = torch.from_numpy(np.ascontiguousarray(padded))

    def predict(self, network: nn.Module) -> NDArray[np.intp]:
        """Return the code (position in ``classes_``) of each of ``pixels``, shape (n,)."""
        if self.patches is None:
            return self.map(network)[tuple(self.pixels.T)]
        with torch.no_grad():
            batches = torch.split(self.patches, 2048)
            codes = [network(batch).argmax(dim=1) for batch in batches]
        return torch.cat(codes).numpy()

    def map(self, network: nn.Module) -> NDArray[np.intp]:
        """Return the code of every pixel of the scene, shape (height, width)."""
        slide = SLIDERS[type(network)]
        step = max(1, STRIP_PIXELS // self.width)
        extra = self.window - 1
        with torch.no_grad():
            strips = [
                slide(network, self.scene[:, top : top + step + extra], self.window).argmax(dim=0)
                for top in range(0, self.height, step)
            ]
        return torch.cat(strips).numpy()
