"""The networks of `benchmarks.ideas`: rank 1 in plain autograd, and what is tried on top of it.

`descend` takes the steps of the package's joint solver from the package's own start, so that the
base agrees with `RankRClassifier`; tests hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot

from polyad import RankRClassifier
from polyad.estimators.base import HEAD_START
from polyad.estimators.parameters import JOINT_DEFAULTS
from polyad.fitting.joint import HEAD_STEPS
from polyad.fitting.modes import PrincipalAxes
from polyad.fitting.problem import Problem

HIDDEN, EPOCHS, PATIENCE, TOL, DEVIATION = 75, 200, 10, 1e-4, 0.1  # as of RankRClassifier
PRUNED = 0.05  # terms below this share of the largest are taken out
PAIRS = {
    "shared": "pairs of modes beside the separable term, same factors",
    "separable": "pairs of modes, separable",
    "full": "pairs of modes, full matrices",
}
Array = np.ndarray[Any, Any]
Extra = Callable[["Net", Tensor, Tensor], Tensor]  # network, hidden (n, Q), targets (n,)


@dataclass(frozen=True)
class Net:
    """A network whose hidden layer is given by how its dense weight follows from parameters."""

    dense: Callable[[list[Tensor]], Tensor]  # (Q, I, J, K)
    parameters: list[Tensor]
    output: Tensor  # (C, Q)
    biases: list[Tensor]  # (Q,) and (C,)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the hidden representation (n, Q) of samples (n, I, J, K)."""
        weight = self.dense(self.parameters)
        return torch.tanh(x.flatten(1) @ weight.flatten(1).T + self.biases[0])

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.output.T + self.biases[1]

    @property
    def n_weights(self) -> int:
        """Nonzero parameters without biases, as the paper counts them."""
        return sum(int((p != 0).sum()) for p in [*self.parameters, self.output])


@dataclass(frozen=True)
class Task:
    """Training samples in the solver's coordinates, and what is needed to predict."""

    problem: Problem
    test: Tensor
    means: list[Tensor]  # the averaging vector of each mode
    decay: float
    seed: int

    @classmethod
    def of(cls, train: Array, y: Array, test: Array, decay: float, seed: int) -> Task:
        """Turn samples (n, I, J, K) into the principal axes, as the joint solver does."""
        x, target = torch.from_numpy(train), one_hot(torch.from_numpy(y)).to(torch.float32)
        problem = Problem(x, target, torch.ones(len(x)), "log")
        axes = PrincipalAxes.of(problem, -1)
        means = [torch.full((size,), 1 / size) for size in train.shape[1:]]
        means[-1] = means[-1] @ axes.axes
        return cls(axes.project(problem), torch.from_numpy(test) @ axes.axes, means, decay, seed)


def separable(factors: list[Tensor]) -> Tensor:
    """Return the sum of rank-one terms: the Rank-R unit."""
    return torch.einsum("qri,qrj,qrk->qijk", *factors)


def cp_start(task: Task, hidden: int = HIDDEN, rank: int = 1) -> Net:
    """Return the start of the package's joint solver."""
    model = RankRClassifier(rank, hidden, activation="tanh", random_state=task.seed)
    model.settings_ = model._given(len(task.problem))
    net = model._network(task.problem, model._generator(), rank)
    factors, biases = [*net.hidden.factors], [net.hidden.bias, net.output.bias]
    return Net(separable, factors, net.output.weight, biases)


def pair_start(task: Task, kind: str, hidden: int = 0) -> Net:
    """Return a start of pairs of modes: ``hidden`` units, or as many weights as of rank 1, about.

    A pair sees only the mean over the third mode. ``separable`` gives each pair two factors of its
    own, ``full`` a matrix; ``shared`` takes the factors of the rank-one term.
    """
    i, j, k = task.problem.x.shape[1:]
    classes = task.problem.target.shape[1]
    size, rank = {
        "shared": (i + j + k, 1),
        "separable": (2 * (i + j + k), 2),
        "full": (i * k + j * k + i * j, min(i, j, k)),
    }[kind]
    hidden = hidden or round(HIDDEN * (i + j + k + classes) / (size + classes))
    net = cp_start(task, hidden, rank)
    rows, columns, bands = ([mean.expand(hidden, -1)] for mean in task.means)

    def dense(parameters: list[Tensor]) -> Tensor:
        if kind == "full":
            pairs = zip(
                ("ik,qj", "jk,qi", "ij,qk"), parameters, columns + rows + bands, strict=True
            )
            return sum(torch.einsum(f"q{modes}->qijk", pair, mean) for modes, pair, mean in pairs)
        a, b, c = (list(factor.unbind(1)) for factor in parameters)
        modes = [a + a + rows + a, b + columns + b + b, c + c + c + bands]
        if kind == "separable":
            modes = [a[:1] + rows + a[1:], columns + b, c + bands]
        return separable([torch.stack(mode, dim=1) for mode in modes])

    a, b, c = parameters = [factor.detach() for factor in net.parameters]
    if kind == "full":
        parameters = [torch.einsum("qri,qrk->qik", *pair) for pair in ((a, c), (b, c), (a, b))]
    low, high = -20.0, 20.0  # logarithm of the scale at which units have the package's deviation
    for _ in range(50):
        scale = (low + high) / 2
        weight = dense([p * math.exp(scale) for p in parameters]).flatten(1)
        large = (task.problem.x.flatten(1) @ weight.T).square().mean().sqrt() > DEVIATION
        low, high = (low, scale) if large else (scale, high)
    return replace(net, dense=dense, parameters=[p * math.exp(low) for p in parameters])


def descend(
    net: Net, task: Task, extra: Extra | None = None, steps: int | None = None
) -> tuple[Net, int]:
    """Take Adam's steps as the joint solver does, or so many; return the network and the number."""
    weights = [p.detach().clone().requires_grad_() for p in [*net.parameters, net.output]]
    biases = [p.detach().clone().requires_grad_() for p in net.biases]
    net = Net(net.dense, weights[:-1], weights[-1], biases)
    free = {"params": biases, "weight_decay": 0.0}
    adam = torch.optim.AdamW([{"params": weights, "weight_decay": task.decay}, free])
    target = task.problem.target.argmax(dim=1)
    best, waited, step = math.inf, 0, 0
    while step < (steps or EPOCHS) and (steps or waited < PATIENCE):
        step += 1
        head = 1 + HEAD_START * math.exp(-step / HEAD_STEPS)
        for group in adam.param_groups:
            group["lr"] = JOINT_DEFAULTS["learning_rate"] * head
        hidden = net.hidden(task.problem.x)
        loss = cross_entropy(net.logits(hidden), target)
        if extra is not None:
            loss = loss + extra(net, hidden, target)
        adam.zero_grad()
        loss.backward()
        adam.step()
        now = float(loss.detach())
        best, waited = (now, 0) if now < best - TOL else (best, waited + 1)
    return net, step


def class_cosines(hidden: Tensor, anchors: Tensor, target: Tensor) -> Tensor:
    """Return the cosine of each of ``hidden`` (n, Q) to the class means of ``anchors``: (n, C)."""
    classes = one_hot(target).to(anchors)
    means = (classes.T @ anchors) / classes.sum(dim=0)[:, None]
    return normalize(hidden) @ normalize(means).T


def pull(strength: float, margin: float) -> Extra:
    """Pull samples to the mean of their class, and ahead of any other mean by a margin."""

    def loss(_: Net, hidden: Tensor, target: Tensor) -> Tensor:
        cosines = class_cosines(hidden, hidden, target)
        own = cosines.gather(1, target[:, None])[:, 0]
        rival = cosines.scatter(1, target[:, None], -2.0).amax(dim=1)
        return strength * ((1 - own) + torch.relu(margin - own + rival)).mean()

    return loss


def term_norms(net: Net) -> Tensor:
    """Return the norm (Q, R) of each rank-one term."""
    return torch.stack([f.norm(dim=2) for f in net.parameters]).prod(dim=0)


def lasso(strength: float) -> Extra:
    """Penalize the norm of each rank-one term: terms are groups, and small ones vanish."""
    return lambda net, *_: strength * term_norms(net).sum(dim=1).mean()


def pruned(net: Net, values: Net) -> Net:
    """Return ``values`` without the terms that are small in ``net``; zero factors stay zero."""
    norms = term_norms(net).detach()
    kept = (norms > PRUNED * norms.max()).to(norms)[..., None]
    return replace(values, parameters=[f * kept for f in values.parameters])


def predict(net: Net, task: Task, cosine: bool = False) -> Array:
    """Predict by softmax, or by the nearest class mean of the hidden representation, in angle."""
    with torch.no_grad():
        anchors, hidden = net.hidden(task.problem.x), net.hidden(task.test)
        cosines = class_cosines(hidden, anchors, task.problem.target.argmax(dim=1))
        return (cosines if cosine else net.logits(hidden)).argmax(dim=1).numpy()
