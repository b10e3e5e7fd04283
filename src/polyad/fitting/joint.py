"""Joint solver: Adam on all factors, biases and output weights at once.

The gradient is written out instead of recorded: two matrix products through the rebuilt weight
carry nearly all the work, and the factors' gradients follow from the dense one. Where the dense
weight would be too large to rebuild, torch's autograd goes through the planned contraction.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyad.core.contract import khatri_rao, rebuilt_weight
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.core.plan import best_cut
from polyad.fitting.epochs import EpochLoop, History, batch_slices
from polyad.fitting.problem import LOSSES, Problem

# A dense weight of more entries than this is not rebuilt.
MAX_REBUILT = 50_000_000
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # of Adam
HEAD_STEPS = 10  # steps in which the head start of the learning rate falls to 1/e


# -- Adam on one flat vector: few operations on long arrays instead of many on short ones -------


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


# -- the fit ----------------------------------------------------------------------------------

Gradient = Callable[[RankRNet, FlatWeights, Problem], Tensor]


@dataclass(frozen=True)
class JointSettings:
    """How the joint solver steps.

    Attributes
    ----------
    learning_rate, weight_decay : float
        Of Adam; the decay is decoupled and leaves biases alone.
    penalty : float
        Half of it times the sum of squared weights, biases left out, is added to the loss.
    batch_size : int or None
        None takes all samples in every step.
    head_start : float
        The learning rate begins ``1 + head_start`` times as large and settles at its value with
        ``exp(-step / 10)``: the way out of a small start is long and safe.
    cosine_steps : int or None
        The learning rate falls to zero in this many steps, along a cosine.
    """

    learning_rate: float
    weight_decay: float = 0.0
    penalty: float = 0.0
    batch_size: int | None = None
    head_start: float = 0.0
    cosine_steps: int | None = None

    def rate(self, steps: int) -> float:
        """Return the learning rate after this many steps."""
        rate = self.learning_rate * (1 + self.head_start * math.exp(-(steps + 1) / HEAD_STEPS))
        if self.cosine_steps is not None:
            rate *= 0.5 + 0.5 * math.cos(math.pi * min(1.0, steps / self.cosine_steps))
        return rate


def fit_joint(
    network: RankRNet,
    problem: Problem,
    loop: EpochLoop,
    settings: JointSettings,
    *,
    generator: torch.Generator | None = None,
    state: AdamState | None = None,
) -> tuple[RankRNet, History, AdamState]:
    """Fit a copy of ``network`` to ``problem``.

    Parameters
    ----------
    network : RankRNet
        The start; it is not changed.
    problem : Problem
    loop : EpochLoop
    settings : JointSettings
    generator : torch.Generator, optional
        Shuffles the batches.
    state : AdamState, optional
        Where an earlier call left off.

    Returns
    -------
    network : RankRNet
    history : History
    state : AdamState
        From which a fit can be resumed.
    """
    network = copy.deepcopy(network)
    weights = FlatWeights.of(network)
    state = AdamState.like(weights.values) if state is None else copy.deepcopy(state)
    gradient = choose_gradient(network)

    def one_epoch() -> tuple[float, float]:
        loss = score = 0.0
        for batch in _batches(problem, settings.batch_size, generator):
            outputs = gradient(network, weights, batch)
            share = len(batch) / len(problem)
            loss += share * batch.mean_loss(outputs)
            score += share * batch.score(outputs)
            if settings.penalty:
                n = weights.n_decayed
                weights.gradient[:n].add_(weights.values[:n], alpha=settings.penalty)
            adam_step(weights, state, settings.rate(state.steps), settings.weight_decay)
        return loss, score

    with torch.no_grad():
        history = loop.run(network, one_epoch)
    weights.release(network)
    return network, history, state


def choose_gradient(network: RankRNet) -> Gradient:
    """Return the written-out gradient, or autograd where the dense weight is too large."""
    layer = network.hidden
    rebuilt = layer.out_features * math.prod(layer.in_shape)
    return written_gradient if rebuilt <= MAX_REBUILT else autograd_gradient


def autograd_gradient(network: RankRNet, weights: FlatWeights, problem: Problem) -> Tensor:
    """Fill ``weights.gradient`` by autograd and return the outputs: the plain reference."""
    with torch.enable_grad():
        outputs = network(problem.x)
        loss = (LOSSES[problem.loss].value(outputs, problem.target) * problem.weight).mean()
        names, parameters = zip(*network.named_parameters(), strict=True)
        gradients = torch.autograd.grad(loss, parameters)
    for name, gradient in zip(names, gradients, strict=True):
        weights.slots[name].copy_(gradient)
    return outputs.detach()


def written_gradient(network: RankRNet, weights: FlatWeights, problem: Problem) -> Tensor:
    """Fill ``weights.gradient`` by the chain rule written out; same result, no graph."""
    layer, slots, buffer = network.hidden, weights.slots, weights.buffer
    activation = ACTIVATIONS[network.activation]
    factors = [f.detach() for f in layer.factors]
    n, x = len(problem), problem.x.reshape(len(problem), -1)  # (n, P)

    dense = rebuilt_weight(factors, buffer("dense", len(factors[0]), x.shape[1]))  # (Q, P)
    before = torch.mm(x, dense.T, out=buffer("before", n, len(dense)))  # (n, Q)
    if layer.bias is not None:
        before += layer.bias
    hidden = activation.value(before)
    outputs = network.output(hidden)  # (n, C)

    by_output = LOSSES[problem.loss].link(outputs) - problem.target
    by_output *= (problem.weight / n)[:, None]
    by_before = torch.mm(by_output, network.output.weight, out=buffer("by", *before.shape))
    by_before *= activation.slope(hidden)
    torch.mm(by_output.T, hidden, out=slots["output.weight"])
    if network.output.bias is not None:
        torch.sum(by_output, dim=0, out=slots["output.bias"])
    if layer.bias is not None:
        torch.sum(by_before, dim=0, out=slots["hidden.bias"])
    by_dense = torch.mm(by_before.T, x, out=dense)  # (Q, P); the weight itself has served
    for d, by_factor in enumerate(factor_gradients(by_dense, factors)):
        slots[f"hidden.factors.{d}"].copy_(by_factor)
    return outputs


def factor_gradients(by_dense: Tensor, factors: list[Tensor]) -> list[Tensor]:
    """Return the gradient by each factor from that by the dense weight.

    Parameters
    ----------
    by_dense : Tensor, ``(Q, prod I_d)``
    factors : list of Tensor, each ``(Q, R, I_d)``

    Returns
    -------
    list of Tensor, each ``(Q, R, I_d)``
        ``by_dense`` contracted with every factor but one. Half of the modes is contracted at a
        time, so that modes share what they have in common.
    """
    hidden, rank, _ = factors[0].shape
    if len(factors) == 1:
        return [by_dense[:, None].expand(hidden, rank, -1)]
    cut = best_cut([f.shape[-1] for f in factors])
    left, right = factors[:cut], factors[cut:]
    left_kr, right_kr = khatri_rao(left), khatri_rao(right)
    both = by_dense.view(hidden, left_kr.shape[-1], right_kr.shape[-1])
    left_open = torch.bmm(right_kr, both.transpose(1, 2))  # (Q, R, P_left)
    right_open = torch.bmm(left_kr, both)  # (Q, R, P_right)
    return _open_each(left_open, left) + _open_each(right_open, right)


def _open_each(z: Tensor, factors: list[Tensor]) -> list[Tensor]:
    """Leave each mode open in turn; ``z`` is ``(Q, R, prod I_d)`` over the modes of ``factors``."""
    if len(factors) == 1:
        return [z]
    hidden, rank, _ = z.shape
    cut = best_cut([f.shape[-1] for f in factors])
    left, right = factors[:cut], factors[cut:]
    left_kr, right_kr = (khatri_rao(half).flatten(0, 1) for half in (left, right))
    both = z.reshape(hidden * rank, left_kr.shape[-1], right_kr.shape[-1])
    left_open = torch.bmm(both, right_kr[..., None])
    right_open = torch.bmm(left_kr[:, None, :], both)
    return [
        *_open_each(left_open.view(hidden, rank, -1), left),
        *_open_each(right_open.view(hidden, rank, -1), right),
    ]


def _batches(
    problem: Problem, batch_size: int | None, generator: torch.Generator | None
) -> list[Problem]:
    slices = batch_slices(len(problem), batch_size)
    if len(slices) == 1:
        return [problem]
    order = torch.randperm(len(problem), generator=generator, device="cpu").to(problem.x.device)
    return [problem.take(order[s]) for s in slices]
