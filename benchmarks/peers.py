"""The peers as classifiers with one face: fit, predict, and a report after every epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from torch import nn

from benchmarks.data import HIDDEN, Task
from polyad import RankRClassifier
from polyad.estimators.scaler import ModeStandardScaler
from polyad.experiments import CNNClassifier, DenseClassifier

Predict = Callable[[NDArray[Any]], NDArray[Any]]
BRIEF = 3  # epochs of a fit whose memory alone is asked for
STEPS = 500
CHUNK = 200  # samples predicted at once


@dataclass
class Watch:
    """Follows the accuracy on some test pixels; its own time is not counted.

    Attributes
    ----------
    every : int, default=1
        Looks after every so many epochs.
    curve : list of (seconds, accuracy)
    """

    task: Task
    every: int = 1
    calls: int = 0
    curve: list[tuple[float, float]] = field(default_factory=list)
    paused: float = 0.0
    started: float = field(default_factory=time.process_time)

    def look(self, predict: Predict) -> None:
        self.calls += 1
        if self.calls % self.every:
            return
        now = time.process_time()
        X, y = self.task.watched
        accuracy = float(np.mean(predict(X) == y))
        self.curve.append((now - self.started - self.paused, accuracy))
        self.paused += time.process_time() - now


class Fit(Protocol):
    """Fits a classifier to a task; followed by a watch, or briefly for its memory alone."""

    def __call__(self, task: Task, watch: Watch | None, brief: bool = False) -> Any: ...


@dataclass(frozen=True)
class Peer:
    """A row of the table of fits.

    Attributes
    ----------
    fit : Fit
        Returns something with ``predict``.
    rounds : int
        How often it is run; the slow ones once.
    every : int
        See `Watch`.
    """

    name: str
    fit: Fit
    rounds: int = 3
    every: int = 1
    ours: bool = False


@dataclass(frozen=True)
class Fitted:
    """A classifier that is nothing but its ``predict``."""

    predict: Predict


def _with_epochs(make: Callable[..., Any]) -> Fit:
    """Fit one of polyad's estimators, which tell after every epoch."""

    def fit(task: Task, watch: Watch | None, brief: bool = False) -> Any:
        model = make(epochs=BRIEF) if brief else make()

        def on_epoch(_: int, network: nn.Module) -> None:
            if watch is not None:
                watch.look(lambda X: model.classes_[_argmax(network, model.scaler_.transform(X))])

        return model.fit(task.X, task.y, on_epoch=on_epoch)

    return fit


def _scikit(make: Callable[[], Any]) -> Fit:
    def fit(task: Task, watch: Watch | None, brief: bool = False) -> Any:  # noqa: ARG001
        model = make_pipeline(FunctionTransformer(_flat), StandardScaler(), make())
        model.fit(task.X, task.y)
        if watch is not None:
            watch.look(model.predict)
        return model

    return fit


def _perceptron(task: Task, watch: Watch | None, brief: bool = False) -> Any:
    front = make_pipeline(FunctionTransformer(_flat), StandardScaler())
    X = front.fit_transform(task.X)
    model = MLPClassifier((HIDDEN,), activation="tanh", max_iter=STEPS, random_state=0)

    def predict(patches: NDArray[Any]) -> NDArray[Any]:
        return model.predict(front.transform(patches))

    for _ in range(BRIEF if brief else STEPS):
        model.partial_fit(X, task.y, classes=np.unique(task.y))
        if watch is not None:
            watch.look(predict)
    return Fitted(predict)


def torch_loop(
    hidden_layer: Callable[[tuple[int, ...]], nn.Module],
    seed: int = 0,
    start: Callable[[nn.Module, torch.Tensor], None] | None = None,
) -> Fit:
    """Fit a hidden layer, tanh and a linear layer by full-batch Adam steps.

    ``start`` may change the hidden layer, by the training samples, before the first step.
    """

    def fit(task: Task, watch: Watch | None, brief: bool = False) -> Any:
        torch.manual_seed(seed)
        scaler = ModeStandardScaler().fit(task.X)
        classes, codes = np.unique(task.y, return_inverse=True)
        x, target = torch.from_numpy(scaler.transform(task.X)), torch.from_numpy(codes)
        first = hidden_layer(task.X.shape[1:])
        if start is not None:
            start(first, x)
        network = nn.Sequential(first, nn.Tanh(), nn.Linear(HIDDEN, len(classes)))
        adam = torch.optim.Adam(network.parameters(), lr=5e-3)

        def predict(patches: NDArray[Any]) -> NDArray[Any]:
            return classes[_argmax(network, scaler.transform(patches))]

        for _ in range(BRIEF if brief else STEPS):
            adam.zero_grad()
            nn.functional.cross_entropy(network(x), target).backward()
            adam.step()
            if watch is not None:
                watch.look(predict)
        return Fitted(predict)

    return fit


@torch.no_grad()
def _argmax(network: nn.Module, X: NDArray[Any]) -> NDArray[np.intp]:
    batches = torch.from_numpy(X).split(CHUNK)  # a factorized layer's intermediates are large
    return torch.cat([network(batch).argmax(dim=1) for batch in batches]).numpy()


def _flat(X: NDArray[Any]) -> NDArray[Any]:
    return X.reshape(len(X), -1)


def _trl(shape: tuple[int, ...]) -> nn.Module:
    from tltorch import TRL

    layer = TRL(shape, (HIDDEN,), rank=HIDDEN, factorization="cp")
    layer.weight.normal_(0, 0.02)
    return layer


def factorized_linear(implementation: str) -> Callable[[tuple[int, ...]], nn.Module]:
    def make(shape: tuple[int, ...]) -> nn.Module:
        from tltorch import FactorizedLinear

        layer = FactorizedLinear(
            shape, (HIDDEN,), rank=HIDDEN, factorization="cp", implementation=implementation
        )
        layer.weight.normal_(0, 0.02)
        return nn.Sequential(nn.Flatten(), layer)

    return make


def _joint(rank: int) -> Callable[..., RankRClassifier]:
    return partial(RankRClassifier, rank, HIDDEN, random_state=0)


def _paper(rank: int) -> Callable[..., RankRClassifier]:
    return partial(RankRClassifier.paper, rank, random_state=0)


def _linear(implementation: str) -> Peer:
    name = f"TensorLy-Torch FactorizedLinear {implementation}, {STEPS} steps"
    return Peer(name, torch_loop(factorized_linear(implementation)), rounds=1, every=10)


OURS = [
    Peer("polyad joint, rank 1", _with_epochs(_joint(1)), ours=True),
    Peer("polyad joint, rank 4", _with_epochs(_joint(4)), ours=True),
    Peer("polyad alternating, rank 1, 50 epochs", _with_epochs(_paper(1)), ours=True),
    Peer("polyad alternating, rank 4, 50 epochs", _with_epochs(_paper(4)), ours=True),
]
_dense, _cnn = partial(DenseClassifier, random_state=0), partial(CNNClassifier, random_state=0)
_forest = partial(RandomForestClassifier, 500, random_state=0)
OTHERS = [
    Peer("dense network, torch, 200 epochs", _with_epochs(_dense), every=5),
    Peer("the paper's CNN, torch, 500 epochs", _with_epochs(_cnn), rounds=1, every=20),
    Peer("scikit-learn SVC", _scikit(partial(SVC, C=10.0))),
    Peer("scikit-learn RandomForest(500)", _scikit(_forest)),
    Peer(f"scikit-learn MLP(75, tanh), {STEPS} steps", _perceptron, rounds=1, every=10),
]
FACTORIZED = [
    Peer(f"TensorLy-Torch TRL, {STEPS} steps", torch_loop(_trl), rounds=1, every=10),
    _linear("factorized"),
    _linear("reconstructed"),
]


def peers() -> list[Peer]:
    """Return all that are installed."""
    try:
        import tltorch  # noqa: F401
    except ImportError:
        return [*OURS, *OTHERS]
    return [*OURS, *OTHERS, *FACTORIZED]
