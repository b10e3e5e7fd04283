"""Other models behind the same contract: what the paper compares with, and what users would pick.

Each takes samples ``(n, s, s, bands)``, standardizes what it needs from the training samples alone,
and predicts like any scikit-learn classifier.

The CNN (Makantasis et al. 2015, as the paper describes it) has 150 and then 300 kernels of 3 x 3
without padding, 75 hidden units, one output per class. With biases its sizes are those of Table 2:
699,241 parameters for Indian Pines, 624,839 for Botswana and 567,759 for Pavia University. The
paper names neither activation nor optimizer; docs/results/findings.md says how ours were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn.functional import linear

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
KERNEL = 3


@dataclass(repr=False, eq=False)
class GradientClassifier(SoftmaxClassifierMixin, BaseEstimator):
    """Fit a torch network by batches; subclasses make the network in `_network`."""

    hidden: int = 75
    _: KW_ONLY
    activation: str = "tanh"
    optimizer: str = "adam"
    learning_rate: float = 5e-4
    batch_size: int = 65
    epochs: int = 200
    random_state: int | np.random.RandomState | None = None

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
        _check_two(self.classes_)
        self.sample_shape_ = X.shape[1:]
        self.scaler_ = ModeStandardScaler().fit(X)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        generator = torch.Generator().manual_seed(int(seed))
        x = torch.from_numpy(self.scaler_.transform(X))
        self.network_ = self._network(self.sample_shape_, len(self.classes_)).to(x.dtype)
        _start_xavier(self.network_, generator)
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
        for name, valid, expected in (
            ("epochs", self.epochs >= 1, "at least 1"),
            ("batch_size", self.batch_size >= 1, "at least 1"),
            ("learning_rate", self.learning_rate > 0, "above 0"),
            ("optimizer", self.optimizer in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}"),
            ("activation", self.activation in ACTIVATIONS, f"one of {', '.join(ACTIVATIONS)}"),
        ):
            if not valid:
                raise InputError(f"{name} must be {expected}, got {getattr(self, name)!r}")


def _check_two(classes: Array) -> None:
    if len(classes) < 2:
        raise InputError(f"y has 1 class, {classes[0]!r}; a classifier needs two or more")


def _unfilled(kind: type[nn.Module], *sizes: Any) -> Any:
    """Return a layer without numbers: torch would draw them from its own generator."""
    layer = kind(*sizes, device="meta")
    give_memory(layer, torch.device("cpu"))
    return layer


def _start_xavier(network: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight matrix from Xavier's uniform distribution; biases become zero."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                parameter.zero_()


class DenseNet(nn.Module):
    """One hidden layer on the flattened sample, ``V g(W vec(X) + b) + c``."""

    def __init__(self, inputs: int, hidden: int, n_outputs: int, activation: str = "tanh") -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.hidden = _unfilled(nn.Linear, inputs, hidden)
        self.output = _unfilled(nn.Linear, hidden, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, I_1, ..., I_D)`` to ``(n, C)``."""
        return self.output(self.activation(self.hidden(x.flatten(1))))


@dataclass(repr=False, eq=False)
class DenseClassifier(GradientClassifier):
    """Fully connected network with one hidden layer (FCFNN in the paper).

    Its weights are those that the Rank-R network factorises.

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
        self.first = _unfilled(nn.Conv2d, bands, first, KERNEL)
        self.second = _unfilled(nn.Conv2d, first, second, KERNEL)
        # A dense layer over what the convolutions leave is a convolution of just that size
        self.dense = _unfilled(nn.Conv2d, second, hidden, left)
        self.output = _unfilled(nn.Conv2d, hidden, n_outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map samples ``(n, s, s, bands)`` to logits ``(n, C)``."""
        # As matrix products: half the time of torch's convolutions, which are made for images.
        hidden = self.activation(_as_product(self.first, x))
        hidden = self.activation(_as_product(self.second, hidden))
        hidden = self.activation(_as_product(self.dense, hidden))
        return _as_product(self.output, hidden)[:, 0, 0]


def _as_product(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Apply a valid convolution to ``(n, height, width, channels)``; channels stay last."""
    height, width = layer.kernel_size
    if x.shape[1:3] == (height, width):  # a single window: nothing to copy
        rows = x.reshape(len(x), 1, 1, -1)
    else:
        windows = x.unfold(1, height, 1).unfold(2, width, 1)  # (n, rows, columns, channels, h, w)
        rows = windows.permute(0, 1, 2, 4, 5, 3).flatten(3)  # whole spectra are copied, not numbers
    return linear(rows, layer.weight.permute(0, 2, 3, 1).flatten(1), layer.bias)


@dataclass(repr=False, eq=False)
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

    optimizer: str = field(default="sgd", kw_only=True)
    learning_rate: float = field(default=0.001, kw_only=True)
    epochs: int = field(default=500, kw_only=True)
    kernels: tuple[int, int] = field(default=(150, 300), kw_only=True)

    def _network(self, shape: tuple[int, ...], n_classes: int) -> nn.Module:
        smallest = 2 * (KERNEL - 1) + 1
        if len(shape) != 3 or min(shape[:2]) < smallest:
            raise InputError(
                f"the CNN wants samples (rows, columns, bands) of at least {smallest} x {smallest} "
                f"pixels, got {shape}; cut patches with a window of {smallest} or more"
            )
        return ConvolutionalNet(shape, self.kernels, self.hidden, n_classes, self.activation)


FEATURES: dict[str, Callable[[Array], Array]] = {  # of patches (n, s, s, bands), to (n, bands)
    "spectrum": lambda X: X[:, X.shape[1] // 2, X.shape[2] // 2],
    "patch-mean": lambda X: X.mean(axis=(1, 2)),
}


@dataclass(repr=False, eq=False)
class PatchSVC(ClassifierMixin, BaseEstimator):
    """SVM with RBF kernel; C and gamma by cross-validation within the training samples.

    What somebody who knows scikit-learn would try first on a hyperspectral scene.

    Parameters
    ----------
    features : {"spectrum", "patch-mean"}, default="spectrum"
        What it sees of a patch. Samples of order one are taken as they are.
    costs : sequence of float, default=(1, 10, 100, 1000)
        Values of C tried.
    gammas : sequence of float, default=(0.01, 0.1, 1, 10)
        Values of gamma tried, as multiples of one over the number of features.
    folds : int, default=5
        Fewer where the rarest class has fewer samples; with a single sample nothing can be held
        out, and the middle of the grid is taken.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray, ``(C,)``
    best_params_ : dict
        ``C`` and ``gamma``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5, 5, 3)); y = X.mean(axis=(1, 2, 3)) > 0
    >>> PatchSVC("patch-mean", random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    features: str = "spectrum"
    _: KW_ONLY
    costs: Sequence[float] = (1.0, 10.0, 100.0, 1000.0)
    gammas: Sequence[float] = (0.01, 0.1, 1.0, 10.0)
    folds: int = 5
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Array, y: Array) -> Self:
        """Choose C and gamma, then fit on all samples.

        Parameters
        ----------
        X : array, ``(n, s, s, bands)`` or ``(n, features)``
        y : array, ``(n,)``
        """
        if self.features not in FEATURES:
            raise InputError(
                f"features must be one of {', '.join(FEATURES)}, got {self.features!r}"
            )
        X, y = validate_data(self, X, y, **NUMERIC)
        check_classification_targets(y)
        self.sample_shape_ = X.shape[1:]
        self.classes_, counts = np.unique(y, return_counts=True)
        _check_two(self.classes_)
        features = self._features(X)
        gammas = [g / features.shape[1] for g in self.gammas]
        grid = {"svc__C": list(self.costs), "svc__gamma": gammas}
        machine = make_pipeline(StandardScaler(), SVC())
        folds = min(self.folds, int(counts.min()))
        if folds < 2:
            middle = {name: values[len(values) // 2] for name, values in grid.items()}
            self.machine_ = machine.set_params(**middle).fit(features, y)
        else:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
            self.machine_ = GridSearchCV(machine, grid, cv=splits).fit(features, y).best_estimator_
        chosen = self.machine_.named_steps["svc"]
        self.best_params_ = {"C": chosen.C, "gamma": chosen.gamma}
        return self

    def predict(self, X: Array) -> Array:
        """Return the class of each sample, ``(n,)``."""
        features = self._checked(X)
        return self.machine_.predict(features)

    def decision_function(self, X: Array) -> Array:
        """Return one-versus-rest scores, ``(n, C)``, or ``(n,)`` for two classes."""
        features = self._checked(X)
        return self.machine_.decision_function(features)

    def _checked(self, X: Array) -> Array:
        check_is_fitted(self, "machine_")
        check_sample_shape(X, self.sample_shape_)
        return self._features(validate_data(self, X, reset=False, **NUMERIC))

    def _features(self, X: Array) -> Array:
        """Return what the machine sees, ``(n, features)``."""
        return FEATURES[self.features](X) if X.ndim == 4 else X.reshape(len(X), -1)
