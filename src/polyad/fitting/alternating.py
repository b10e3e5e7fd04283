r"""Alternating solver: Algorithm 1 of the paper, one mode at a time, for any order.

With every mode but ``d`` fixed, the pre-activations are linear in :math:`W_d` (Eq. 14):
:math:`a_q = \langle W_d^{(q)}, Z_{\neq d}^{(q)} \rangle`. So the contracted input
:math:`Z_{\neq d}` is formed once for a block and read by all of its gradient steps.

`fit_alternating_reference` is the algorithm in plain torch, on any device. `fit_alternating` is the
same arithmetic on the CPU at memory speed: gradients written out, contractions shared between modes
(a sweep over D modes needs two large matrix products, not D), buffers allocated once, and the
inner steps by `polyad.fitting.blocks`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyad.core.contract import contract_except, khatri_rao
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.core.plan import best_cut
from polyad.fitting import blocks
from polyad.fitting.epochs import History, OnEpoch, Stopping, batch_slices, run_epochs
from polyad.fitting.problem import LOSSES, Problem

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Steps:
    """How a block is stepped: Adam made anew for every block and batch, as the published code."""

    learning_rate: float = 5e-4
    inner_steps: int = 10
    batch_size: int | None = 65
    weight_decay: float = 0.0


def fit_alternating(
    network: RankRNet,
    problem: Problem,
    stopping: Stopping,
    steps: Steps,
    *,
    generator: torch.Generator | None = None,
    validation: Problem | None = None,
    on_epoch: OnEpoch | None = None,
    verbose: bool = False,
) -> tuple[RankRNet, History]:
    """Fit a copy of ``network`` by Algorithm 1.

    Parameters
    ----------
    network : RankRNet
        The start; it is not changed.
    problem : Problem
    stopping : Stopping
    steps : Steps
    generator : torch.Generator, optional
        Shuffles the samples once; the batches then stay the same.
    validation, on_epoch, verbose
        See `polyad.fitting.epochs.run_epochs`.

    Returns
    -------
    network : RankRNet
    history : History
    """
    sweeper = _CpuSweep if problem.x.device.type == "cpu" else _PlainSweep
    return _fit(
        sweeper, network, problem, stopping, steps, generator, validation, on_epoch, verbose
    )


def fit_alternating_reference(
    network: RankRNet,
    problem: Problem,
    stopping: Stopping,
    steps: Steps,
    *,
    generator: torch.Generator | None = None,
) -> tuple[RankRNet, History]:
    """Fit as `fit_alternating` does, by autograd and torch's Adam: the slow, plain reference."""
    return _fit(_PlainSweep, network, problem, stopping, steps, generator, None, None, False)


def _fit(
    sweeper: type[_CpuSweep] | type[_PlainSweep],
    network: RankRNet,
    problem: Problem,
    stopping: Stopping,
    steps: Steps,
    generator: torch.Generator | None,
    validation: Problem | None,
    on_epoch: OnEpoch | None,
    verbose: bool,
) -> tuple[RankRNet, History]:
    network = copy.deepcopy(network)
    order = torch.randperm(len(problem), generator=generator, device="cpu")
    sweep = sweeper(network, problem.take(order.to(problem.x.device)), steps)
    history = run_epochs(
        network, sweep, stopping, validation=validation, on_epoch=on_epoch, verbose=verbose
    )
    return network, history


@dataclass
class _PlainSweep:
    """One epoch, as Algorithm 1 reads."""

    network: RankRNet
    problem: Problem
    steps: Steps

    def __call__(self) -> tuple[float, float]:
        layer, output = self.network.hidden, self.network.output
        for mode, factor in enumerate(layer.factors):
            self._block([factor], [layer.bias], mode)
        self._block([output.weight], [output.bias], None)
        with torch.no_grad():
            outputs = self.network(self.problem.x)
        return self.problem.mean_loss(outputs), self.problem.score(outputs)

    def _block(self, weights: list[Tensor], biases: list[Tensor | None], mode: int | None) -> None:
        """Step one factor (or the output layer) on each batch in turn."""
        present = [b for b in biases if b is not None]
        for rows in batch_slices(len(self.problem), self.steps.batch_size):
            batch = self.problem.take(torch.arange(rows.start, rows.stop))
            groups = [
                {"params": weights, "weight_decay": self.steps.weight_decay},
                {"params": present, "weight_decay": 0.0},
            ]
            adam = torch.optim.AdamW(groups, lr=self.steps.learning_rate)
            contracted = self._contracted(batch, mode)
            for _ in range(self.steps.inner_steps):
                adam.zero_grad()
                outputs = self._outputs(contracted, batch, mode)
                loss = LOSSES[batch.loss].value(outputs, batch.target) * batch.weight
                torch.autograd.backward(loss.mean(), inputs=[*weights, *present])
                adam.step()

    def _contracted(self, batch: Problem, mode: int | None) -> Tensor | None:
        if mode is None:
            return None
        factors = [f.detach() for f in self.network.hidden.factors]
        return contract_except(batch.x, factors, mode)  # Eq. (12)

    def _outputs(self, contracted: Tensor | None, batch: Problem, mode: int | None) -> Tensor:
        layer = self.network.hidden
        if contracted is None or mode is None:
            return self.network(batch.x)
        before = (contracted * layer.factors[mode]).sum(dim=(-2, -1))  # Eq. (14)
        if layer.bias is not None:
            before = before + layer.bias
        return self.network.output(ACTIVATIONS[self.network.activation].value(before))


class _CpuSweep:
    """One epoch by written-out gradients; arrays are views of the network's own memory."""

    def __init__(self, network: RankRNet, problem: Problem, steps: Steps) -> None:
        layer, output = network.hidden, network.output
        self.problem, self.shape = problem, layer.in_shape
        self.factors = [f.detach() for f in layer.factors]  # (Q, R, I_d)
        self.v = output.weight.detach().numpy()  # (C, Q)
        self.bias, self.c = (_row(b, output.weight) for b in (layer.bias, output.bias))
        self.log_loss, self.activation = problem.loss == "log", network.activation
        self.rates = blocks.adam_rates(steps.inner_steps, steps.learning_rate, steps.weight_decay)
        self.cut = best_cut(list(self.shape)) if len(self.shape) > 1 else 0
        slices = batch_slices(len(problem), steps.batch_size)
        self.batches = [_Batch.of(problem, rows, self.cut, layer.rank) for rows in slices]

    def __call__(self) -> tuple[float, float]:
        with torch.no_grad():
            for mode, inputs in self._contractions():
                w = self.factors[mode].flatten(1).numpy()  # (Q, R * I_mode)
                for batch, z in zip(self.batches, inputs, strict=True):
                    self._mode_block(z, w, batch)
            hidden = [blocks.hidden(z, w, self.bias, self.activation) for z in inputs]  # (Q, n_b)
        for batch, u in zip(self.batches, hidden, strict=True):
            blocks.output_block(u, self.v, self.c, *batch.goal, self.log_loss, self.rates)
        outputs = torch.from_numpy(np.concatenate(hidden, axis=1).T @ self.v.T)  # (n, C)
        if self.c.size:
            outputs += torch.from_numpy(self.c)
        return self.problem.mean_loss(outputs), self.problem.score(outputs)

    def _mode_block(self, z: Array, w: Array, batch: _Batch) -> None:
        layers = w, self.bias, self.v, self.c
        blocks.mode_block(z, *layers, *batch.goal, self.log_loss, self.activation, self.rates)

    def _contractions(self) -> Iterator[tuple[int, list[Array]]]:
        """Yield each mode with its contracted inputs, one per batch, always up to date.

        A mode's block may change its factor before the next mode is asked for: the left half is
        contracted only after all of its blocks are done.
        """
        modes = list(range(len(self.shape)))
        left, right = modes[: self.cut], modes[self.cut :]
        if not left:
            yield 0, [batch.right_first.numpy()[None] for batch in self.batches]
            return
        for kept, gone in ((left, right), (right, left)):
            kr = khatri_rao([self.factors[d] for d in gone]).flatten(0, 1)  # (Q * R, P_gone)
            roots = [self._product(kr, batch, gone is left) for batch in self.batches]
            yield from self._open_each(kept, roots)

    def _product(self, kr: Tensor, batch: _Batch, from_left: bool) -> Array:
        """Contract a batch by one matrix product: ``(Q * R, P_kept, n_b)``."""
        matrix = batch.left_first if from_left else batch.right_first
        out = batch.buffer(from_left, (len(kr), matrix.shape[1]))
        torch.mm(kr, matrix, out=torch.from_numpy(out))
        return out.reshape(len(kr), -1, batch.size)

    def _open_each(self, modes: list[int], roots: list[Array]) -> Iterator[tuple[int, list[Array]]]:
        """Split inputs ``(Q * R, prod of modes, n_b)`` until one mode is left open."""
        if len(modes) == 1:
            yield modes[0], [z.reshape(len(self.factors[0]), -1, z.shape[-1]) for z in roots]
            return
        cut = best_cut([self.shape[d] for d in modes])
        left, right = modes[:cut], modes[cut:]
        sizes = [math.prod(self.shape[d] for d in side) for side in (left, right)]
        for kept, gone, size in ((left, right, sizes[0]), (right, left, sizes[1])):
            kr = khatri_rao([self.factors[d] for d in gone]).flatten(0, 1).numpy()
            contract = blocks.open_left if kept is left else blocks.open_right
            opened = []
            for batch, z in zip(self.batches, roots, strict=True):
                out = batch.buffer(tuple(kept), (len(z), size, batch.size))
                contract(z.reshape(len(z), *sizes, batch.size), kr, out)
                opened.append(out)
            yield from self._open_each(kept, opened)


@dataclass
class _Batch:
    """One batch, laid out so that each contraction is a plain matrix product.

    Attributes
    ----------
    left_first : Tensor, ``(P_left, P_right * n_b)``
    right_first : Tensor, ``(P_right, P_left * n_b)``
        Samples run fastest.
    goal : tuple of targets ``(C, n_b)`` and of sample weights over ``n_b``, ``(n_b,)``
    """

    size: int
    left_first: Tensor
    right_first: Tensor
    goal: tuple[Array, Array]
    buffers: dict[Hashable, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, rows: slice, cut: int, rank: int) -> _Batch:
        x = problem.x[rows]
        n = len(x)
        x = x.reshape(n, math.prod(x.shape[1 : 1 + cut]), -1)  # (n_b, P_left, P_right)
        left_first = x.permute(1, 2, 0).reshape(x.shape[1], -1).contiguous()
        right_first = x.permute(2, 1, 0).reshape(x.shape[2], -1).contiguous()
        if cut == 0:  # order one: all terms of all units see the sample itself
            right_first = right_first.repeat(rank, 1)
        target = np.ascontiguousarray(problem.target[rows].numpy().T)
        return cls(n, left_first, right_first, (target, problem.weight[rows].numpy() / n))

    def buffer(self, name: Hashable, shape: tuple[int, ...]) -> Array:
        """Return the array of that name, made at its first use."""
        if name not in self.buffers:
            self.buffers[name] = np.empty(shape, dtype=self.goal[0].dtype)
        return self.buffers[name]


def _row(bias: Tensor | None, like: Tensor) -> Array:
    """Return a bias as a view ``(1, size)``; no bias has size zero."""
    return like.new_empty(1, 0).numpy() if bias is None else bias.detach()[None].numpy()
