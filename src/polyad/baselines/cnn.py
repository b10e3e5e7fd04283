"""`CNNClassifier`: the convolutional network that the paper compares with.

Architecture (Makantasis et al. 2015, as the paper describes it): 150 and then 300 kernels of 3 x 3
without padding, 75 hidden units, one output per class. With biases its sizes are those of Table 2:
699,241 parameters for Indian Pines, 624,839 for Botswana and 567,759 for Pavia University.

The paper names neither activation nor optimizer, but describes what they led to: more than 200
epochs until a plateau and a wide spread between runs. What we chose, and what it was chosen
from, is written where the results are (docs/results/paper.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn
from torch.nn.functional import linear

from polyad.baselines.gradient import ACTIVATIONS, GradientClassifier, unfilled
from polyad.errors import InputError

KERNEL = 3


class ConvolutionalNet(nn.Module):
    """Two valid 3 x 3 convolutions, a hidden layer, an output layer.

    Parameters
    ----------
    shape : (s, s, bands)
        Of one sample; ``s`` is at least 5.
    kernels : (int, int)
    hidden, n_outputs : int
    activation : {"tanh", "relu"}
    """

    def __init__(
        self,
        shape: Sequence[int],
        kernels: tuple[int, int],
        hidden: int,
        n_outputs: int,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        height, width, bands = shape
        left = (height - 2 * (KERNEL - 1), width - 2 * (KERNEL - 1))
        first, second = kernels
        self.activation = ACTIVATIONS[activation]
        self.first = unfilled(nn.Conv2d, bands, first, KERNEL)
        self.second = unfilled(nn.Conv2d, first, second, KERNEL)
        # A dense layer over what the convolutions leave is a convolution of just that size, and
        # then the whole network can be slid over a scene.
        self.dense = unfilled(nn.Conv2d, second, hidden, left)
        self.output = unfilled(nn.Conv2d, hidden, n_outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map samples ``(n, s, s, bands)`` to logits ``(n, C)``."""
        # As matrix products: half the time of torch's convolutions, which are made for images.
        hidden = self.activation(_as_product(self.first, x))
        hidden = self.activation(_as_product(self.second, hidden))
        hidden = self.activation(_as_product(self.dense, hidden))
        return _as_product(self.output, hidden)[:, 0, 0]

    def slide(self, scene: Tensor) -> Tensor:
        """Map scenes ``(n, bands, height, width)`` to logits ``(n, C, height-s+1, width-s+1)``."""
        hidden = self.activation(self.second(self.activation(self.first(scene))))
        return self.output(self.activation(self.dense(hidden)))


def _as_product(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Apply a valid convolution to ``(n, height, width, channels)``; channels stay last."""
    height, width = layer.kernel_size
    if x.shape[1:3] == (height, width):  # a single window: nothing to copy
        rows = x.reshape(len(x), 1, 1, -1)
    else:
        windows = x.unfold(1, height, 1).unfold(2, width, 1)  # (n, rows, columns, channels, h, w)
        rows = windows.permute(0, 1, 2, 4, 5, 3).flatten(3)  # whole spectra are copied, not numbers
    return linear(rows, layer.weight.permute(0, 2, 3, 1).flatten(1), layer.bias)


class CNNClassifier(GradientClassifier):
    """The paper's CNN on patches.

    Parameters
    ----------
    kernels : (int, int), default=(150, 300)
        Number of 3 x 3 kernels of the two convolutions.
    hidden : int, default=75
    activation : {"tanh", "relu"}, default="tanh"
    optimizer : {"sgd", "momentum", "adam"}, default="sgd"
    learning_rate : float, default=0.001
    batch_size : int, default=65
        Shuffled anew in every epoch.
    epochs : int, default=500
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray, ``(C,)``
    network_ : ConvolutionalNet
    losses_ : list of float
        Mean training loss of each epoch.
    n_parameters_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 5, 5, 200)); y = np.arange(20) % 16
    >>> CNNClassifier(epochs=1, random_state=0).fit(X, y).n_parameters_  # Table 2 of the paper
    699241
    """

    def __init__(
        self,
        kernels: tuple[int, int] = (150, 300),
        hidden: int = 75,
        *,
        activation: str = "tanh",
        optimizer: str = "sgd",
        learning_rate: float = 0.001,
        batch_size: int = 65,
        epochs: int = 500,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            hidden,
            activation=activation,
            optimizer=optimizer,
            learning_rate=learning_rate,
            batch_size=batch_size,
            epochs=epochs,
            random_state=random_state,
        )
        self.kernels = kernels

    def _network(self, shape: tuple[int, ...], n_classes: int) -> nn.Module:
        smallest = 2 * (KERNEL - 1) + 1
        if len(shape) != 3 or min(shape[:2]) < smallest:
            raise InputError(
                f"the CNN wants samples (rows, columns, bands) of at least {smallest} x {smallest} "
                f"pixels, got {shape}; cut patches with a window of {smallest} or more"
            )
        return ConvolutionalNet(shape, self.kernels, self.hidden, n_classes, self.activation)
