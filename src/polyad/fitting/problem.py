"""What is to be learned: samples, targets, weights and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor


class Loss(NamedTuple):
    """A loss with its canonical link.

    For all losses below the gradient by the network's output ``o`` is ``link(o) - target``:
    softmax goes with the log-likelihood of one class, the sigmoid with that of each label by
    itself, the identity with half the squared error.
    """

    link: Callable[[Tensor], Tensor]
    value: Callable[[Tensor, Tensor], Tensor]


def _softmax(outputs: Tensor) -> Tensor:
    return torch.softmax(outputs, dim=-1)


def _log_loss(outputs: Tensor, target: Tensor) -> Tensor:
    return -(target * torch.log_softmax(outputs, dim=-1)).sum(dim=-1)


def _binary(outputs: Tensor, target: Tensor) -> Tensor:
    both = torch.nn.functional.softplus(outputs) - target * outputs
    return both.sum(dim=-1)


def _identity(outputs: Tensor) -> Tensor:
    return outputs


def _squared(outputs: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (outputs - target).square().sum(dim=-1)


LOSSES: dict[str, Loss] = {
    "log": Loss(_softmax, _log_loss),
    "binary": Loss(torch.sigmoid, _binary),
    "squared": Loss(_identity, _squared),
}


@dataclass(frozen=True)
class Problem:
    """Training or validation data, on one device and of one dtype.

    Attributes
    ----------
    x : Tensor, ``(n, I_1, ..., I_D)``
    target : Tensor, ``(n, C)``
        One-hot classes for the log loss, labels of 0 and 1 for the binary loss, values for the
        squared loss.
    weight : Tensor, ``(n,)``
        Sample weights with mean one.
    loss : {"log", "binary", "squared"}
    """

    x: Tensor
    target: Tensor
    weight: Tensor
    loss: str

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Problem:
        """Return the problem of the samples in ``index``."""
        return Problem(self.x[index], self.target[index], self.weight[index], self.loss)

    def merged(self) -> Problem:
        """Return the problem with samples that are the same as one, and without weightless ones.

        A sample that is held out while its copy is fitted to would tell nothing; and a weight of
        two must mean what two copies do.
        """
        rows = torch.cat([self.x.flatten(1), self.target], dim=1)
        _, group = torch.unique(rows, dim=0, return_inverse=True)
        first = torch.full((int(group.max()) + 1,), len(rows), device=rows.device)
        first.scatter_reduce_(0, group, torch.arange(len(rows), device=rows.device), "amin")
        weight = self.weight.new_zeros(len(first)).index_add_(0, group, self.weight)
        merged = replace(self.take(first), weight=weight)
        return merged.take(torch.nonzero(weight)[:, 0])

    def mean_loss(self, outputs: Tensor) -> float:
        """Return the weighted mean loss of ``outputs``, ``(n, C)``."""
        return float((LOSSES[self.loss].value(outputs, self.target) * self.weight).mean())

    def score(self, outputs: Tensor) -> float:
        """Return weighted accuracy, of single labels for the binary loss, or R^2 of ``outputs``."""
        total = self.weight.sum()
        if self.loss == "log":
            hit = outputs.argmax(dim=-1) == self.target.argmax(dim=-1)
            return float((hit * self.weight).sum() / total)
        if self.loss == "binary":
            hits = ((outputs > 0) == (self.target > 0.5)).to(self.weight).mean(dim=-1)
            return float((hits * self.weight).sum() / total)
        center = (self.target * self.weight[:, None]).sum(dim=0) / total
        spread = ((self.target - center).square() * self.weight[:, None]).sum()
        missed = ((self.target - outputs).square() * self.weight[:, None]).sum()
        return float(1 - missed / spread.clamp_min(torch.finfo(spread.dtype).tiny))
