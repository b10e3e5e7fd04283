"""What the baselines that are trained by gradient descent share: one plain loop over batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from polyad.core.layer import give_memory
from polyad.errors import Diverged, InputError
from polyad.estimators.classifier import SoftmaxClassifierMixin
from polyad.estimators.scaler import NUMERIC, ModeStandardScaler, check_sample_shape

Array = npt.NDArray[Any]
OnEpoch = Callable[[int, nn.Module], None]
Optimizer = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
    "momentum": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
    "adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate),
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}
CHUNK = 2048  # samples predicted at a time


class GradientClassifier(SoftmaxClassifierMixin, BaseEstimator):
    """Fit a torch network by batches; the children say which network.

    They make it in `_network`.
    """

    def __init__(
        self,
        hidden: int = 75,
        *,
        activation: str = "tanh",
        optimizer: str = "adam",
        learning_rate: float = 5e-4,
        batch_size: int = 65,
        epochs: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.random_state = random_state

    def _network(self, shape: tuple[int, ...], n_classes: int) -> nn.Module:
        """Return the network for samples of ``shape``, its weights not yet drawn."""
        raise NotImplementedError  # pragma: no cover

    def fit(self, X: Array, y: Array, *, on_epoch: OnEpoch | None = None) -> Self:
        """Learn from samples and their classes.

        Parameters
        ----------
        X : array, ``(n, I_1, ..., I_D)``
        y : array, ``(n,)``
        on_epoch : callable, optional
            Called with the epoch's number (from one) and the network after each epoch.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, **NUMERIC, order="C")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has 1 class, {self.classes_[0]!r}; a classifier needs two or more")
        self.sample_shape_ = X.shape[1:]
        self.scaler_ = ModeStandardScaler().fit(X)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        generator = torch.Generator().manual_seed(int(seed))
        x = torch.from_numpy(self.scaler_.transform(X))
        self.network_ = self._network(self.sample_shape_, len(self.classes_)).to(x.dtype)
        start_xavier(self.network_, generator)
        # as the CNN reads its kernels; torch's types leave this form of `to` out
        self.network_.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.losses_ = self._descend(x, torch.from_numpy(codes), generator, on_epoch)
        self.n_iter_ = len(self.losses_)
        return self

    def _descend(
        self, x: Tensor, codes: Tensor, generator: torch.Generator, on_epoch: OnEpoch | None
    ) -> list[float]:
        """Run the epochs; return the mean loss of each."""
        optimizer = OPTIMIZERS[self.optimizer](list(self.network_.parameters()), self.learning_rate)
        losses = []
        for epoch in range(1, self.epochs + 1):
            order = torch.randperm(len(x), generator=generator)
            total = 0.0
            for batch in torch.split(order, self.batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.network_(x[batch]), codes[batch])
                torch.autograd.backward(loss)
                optimizer.step()
                total += float(loss.detach()) * len(batch)
            losses.append(total / len(x))
            if not math.isfinite(total):
                raise Diverged(
                    f"training loss became {total} in epoch {epoch}; try a smaller learning_rate "
                    f"than {self.learning_rate}"
                )
            if on_epoch is not None:
                on_epoch(epoch, self.network_)
        return losses

    @property
    def n_parameters_(self) -> int:
        """Number of weights and biases."""
        return sum(p.numel() for p in self.network_.parameters())

    def _outputs(self, X: Array) -> Array:
        check_is_fitted(self, "network_")
        check_sample_shape(X, self.sample_shape_)
        X = validate_data(self, X, reset=False, **NUMERIC, order="C")
        dtype = next(self.network_.parameters()).dtype
        with torch.no_grad():
            logits = [
                self.network_(torch.from_numpy(self.scaler_.transform(X[k : k + CHUNK])).to(dtype))
                for k in range(0, len(X), CHUNK)
            ]
        return torch.cat(logits).numpy()

    def _check_parameters(self) -> None:
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if value < 1 or int(value) != value:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.learning_rate <= 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate!r}")
        for name, table in (("optimizer", OPTIMIZERS), ("activation", ACTIVATIONS)):
            if getattr(self, name) not in table:
                known = ", ".join(table)
                raise InputError(f"{name} must be one of {known}, got {getattr(self, name)!r}")


def unfilled(kind: type[nn.Module], *sizes: Any) -> Any:
    """Return a layer without numbers: torch would draw them from its own generator."""
    layer = kind(*sizes, device="meta")
    give_memory(layer, torch.device("cpu"))
    return layer


def start_xavier(network: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight matrix from Xavier's uniform distribution; biases become zero."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                parameter.zero_()
