"""Networks applied to the test pixels of a scene, as often as the curves have epochs.

Patch by patch, ten thousand test pixels cost more than the epoch they are to judge. A Rank-R weight
is separable, so that the scene is projected once onto the spectral factors and then correlated with
the short spatial ones. The CNN's first layer is computed once for each pixel that a test pixel's
window needs, and no other: a fifth of the work of sliding it over Pavia University. Same numbers as
patch by patch, up to rounding; a test ties them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from polyad.baselines.cnn import KERNEL, ConvolutionalNet
from polyad.baselines.dense import DenseNet
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.raster.windows import halo_index

STRIP_PIXELS = 6_000  # worked on at a time: what a strip needs stays in the cache
GATHERED = 1024  # windows that are gathered at a time, for the same reason


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
        self.height, self.width, self.bands = cube.shape
        self.mean, self.scale = (v.astype(np.float32) for v in (scaler.mean_, scaler.scale_))
        self.cube = cube.astype(np.float32, copy=False)
        half = window // 2
        self.rows, self.cols = (
            halo_index(slice(0, n), half, n) for n in (self.height, self.width)
        )  # of the mirrored scene, in the cube
        corner = _offsets(window, len(self.cols))
        windows = pixels @ (len(self.cols), 1) + corner[:, None]  # (s * s, n), in the mirrored one
        needed, index = np.unique(windows.T, return_inverse=True)
        self.needed = needed  # flat positions in the mirrored scene
        self.index = torch.from_numpy(index.reshape(len(pixels), window**2))
        # Few pixels in a large scene: their patches together are smaller than the scene.
        self.sparse = len(pixels) * window**2 < self.height * self.width

    @cached_property
    def spectra(self) -> Tensor:
        """Standardized spectra of the pixels that some test pixel's window has, (n, bands)."""
        down, across = np.divmod(self.needed, len(self.cols))
        values = self.cube[self.rows[down], self.cols[across]]
        return torch.from_numpy((values - self.mean) / self.scale)

    @cached_property
    def scene(self) -> Tensor:
        """The standardized scene, mirrored at its border, (bands, height + s - 1, ...)."""
        flat = (self.cube.reshape(-1, self.bands) - self.mean) / self.scale
        cube = flat.reshape(self.cube.shape)
        padded = cube[self.rows[:, None], self.cols].transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(padded))

    @cached_property
    def layers(self) -> tuple[Tensor, Tensor]:
        """Which pixels each 3 x 3 window of the CNN's two convolutions is made of.

        Positions in `spectra`, ``(n_1, 9)``, and positions among the ``n_1``, ``(n, 9)``.
        """
        width = len(self.cols)
        inner = _offsets(KERNEL, width)
        corners = self.needed[self.index[:, 0].numpy()]
        first, second = np.unique(corners[:, None] + inner, return_inverse=True)
        where = np.searchsorted(self.needed, first[:, None] + inner)
        return torch.from_numpy(where), torch.from_numpy(second.reshape(-1, KERNEL**2))

    def predict(self, network: nn.Module) -> NDArray[np.intp]:
        """Return the code (position in ``classes_``) of each of ``pixels``, shape (n,)."""
        with torch.no_grad():
            if isinstance(network, ConvolutionalNet) and self.window == 2 * KERNEL - 1:
                return self._convolve(network).argmax(dim=1).numpy()
            if isinstance(network, RankRNet) and not self.sparse:
                return self.map(network)[tuple(self.pixels.T)]
            shape = (-1, self.window, self.window, self.bands)
            codes = [
                network(self.spectra[batch].reshape(shape)).argmax(dim=1)
                for batch in torch.split(self.index, GATHERED)
            ]
        return torch.cat(codes).numpy()

    def _convolve(self, network: ConvolutionalNet) -> Tensor:
        """Return the logits of the CNN, (n, C), no pixel's first layer computed twice."""
        hidden = self.spectra
        for layer, index in zip((network.first, network.second), self.layers, strict=True):
            weight = layer.weight.permute(0, 2, 3, 1).flatten(1)
            windows = (hidden[batch].flatten(1) for batch in torch.split(index, GATHERED))
            outputs = [network.activation(linear(w, weight, layer.bias)) for w in windows]
            hidden = torch.cat(outputs)
        dense, output = network.dense, network.output
        hidden = network.activation(linear(hidden, dense.weight.flatten(1), dense.bias))
        return linear(hidden, output.weight.flatten(1), output.bias)

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


def _offsets(side: int, width: int) -> NDArray[np.intp]:
    """Return the flat positions of a square's pixels after its first, in rows of ``width``."""
    down, across = np.divmod(np.arange(side**2), side)
    return down * width + across
