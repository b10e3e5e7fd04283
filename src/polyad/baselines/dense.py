"""`DenseClassifier`: the fully connected network whose weights the Rank-R network factorises."""

from __future__ import annotations

import math

from torch import Tensor, nn

from polyad.baselines.gradient import ACTIVATIONS, GradientClassifier, unfilled


class DenseNet(nn.Module):
    """One hidden layer on the flattened sample, ``V g(W vec(X) + b) + c``."""

    def __init__(self, inputs: int, hidden: int, n_outputs: int, activation: str = "tanh") -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.hidden = unfilled(nn.Linear, inputs, hidden)
        self.output = unfilled(nn.Linear, hidden, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, I_1, ..., I_D)`` to ``(n, C)``."""
        return self.output(self.activation(self.hidden(x.flatten(1))))


class DenseClassifier(GradientClassifier):
    """Fully connected network with one hidden layer (FCFNN in the paper).

    Parameters
    ----------
    hidden : int, default=75
        As many as the Rank-R network has.
    activation : {"tanh", "relu"}, default="tanh"
    optimizer : {"sgd", "momentum", "adam"}, default="adam"
    learning_rate : float, default=0.0005
    batch_size : int, default=65
        Shuffled anew in every epoch.
    epochs : int, default=200
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray, ``(C,)``
    network_ : DenseNet
    losses_ : list of float
    n_parameters_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 5, 5, 3)); y = X[:, 2, 2, 0] > 0
    >>> DenseClassifier(epochs=100, random_state=0).fit(X, y).score(X, y)
    1.0
    """

    def _network(self, shape: tuple[int, ...], n_classes: int) -> nn.Module:
        return DenseNet(math.prod(shape), self.hidden, n_classes, self.activation)
