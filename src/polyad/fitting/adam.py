"""Adam on one flat vector: few operations on long arrays instead of many on short ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyad.core.network import RankRNet

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


@dataclass
class FlatWeights:
    """All parameters of a network as views into one vector, and their gradients into another.

    The first ``n_decayed`` entries are weights, the rest biases (which no decay touches).
    """

    values: Tensor
    gradient: Tensor
    n_decayed: int
    views: dict[str, Tensor]
    slots: dict[str, Tensor]  # views into ``gradient``, same names
    buffers: dict[tuple[str, tuple[int, ...]], Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, network: RankRNet) -> FlatWeights:
        """Move the parameters of ``network`` into one vector; the network keeps using them."""
        named = dict(network.named_parameters())
        names = sorted(named, key=lambda name: name.endswith("bias"))
        values = torch.cat([named[name].detach().reshape(-1) for name in names])
        gradient = torch.zeros_like(values)
        views, slots, start = {}, {}, 0
        for name in names:
            parameter = named[name]
            place = slice(start, start + parameter.numel())
            views[name] = values[place].view_as(parameter)
            slots[name] = gradient[place].view_as(parameter)
            parameter.data = views[name]
            start = place.stop
        n_decayed = sum(named[name].numel() for name in names if not name.endswith("bias"))
        return cls(values, gradient, n_decayed, views, slots)

    def buffer(self, name: str, *shape: int) -> Tensor:
        """Return working memory of that name and shape, made at its first use."""
        key = (name, shape)
        if key not in self.buffers:
            self.buffers[key] = self.values.new_empty(shape)
        return self.buffers[key]

    def release(self, network: RankRNet) -> None:
        """Give every parameter of ``network`` memory of its own again."""
        for name, parameter in network.named_parameters():
            parameter.data = self.views[name].clone()


@dataclass
class AdamState:
    """Running means of the gradient and of its square, and the number of steps taken."""

    mean: Tensor
    square: Tensor
    steps: int = 0

    @classmethod
    def like(cls, values: Tensor) -> AdamState:
        """Return the state before the first step."""
        return cls(torch.zeros_like(values), torch.zeros_like(values))


def adam_step(
    weights: FlatWeights, state: AdamState, learning_rate: float, weight_decay: float
) -> None:
    """Take one step in place, with decoupled weight decay (AdamW)."""
    state.steps += 1
    state.mean.lerp_(weights.gradient, 1 - BETA1)
    state.square.mul_(BETA2).addcmul_(weights.gradient, weights.gradient, value=1 - BETA2)
    if weight_decay:
        weights.values[: weights.n_decayed].mul_(1 - learning_rate * weight_decay)
    scale = weights.buffer("scale", *state.square.shape)
    torch.div(state.square, 1 - BETA2**state.steps, out=scale).sqrt_().add_(EPS)
    weights.values.addcdiv_(state.mean, scale, value=-learning_rate / (1 - BETA1**state.steps))
