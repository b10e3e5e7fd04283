r"""Alternating solver: Algorithm 1 of the paper, one mode at a time, for any order.

With every mode but ``d`` fixed, the pre-activations are linear in :math:`W_d` (Eq. 14):
:math:`a_q = \langle W_d^{(q)}, Z_{\neq d}^{(q)} \rangle`. So the contracted input
:math:`Z_{\neq d}` is formed once for a block and read by all of its gradient steps.

`fit_alternating_reference` is the algorithm in plain torch, on any device. `fit_alternating` is the
same arithmetic on the CPU: gradients written out, contractions shared between modes (a sweep over D
modes needs two large matrix products, not D), contracted inputs in memory that batches share, and
the inner steps by `polyad.fitting.blocks`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyad.core.contract import contract_except, khatri_rao
from polyad.core.layer import RankRLinear
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.core.plan import best_cut
from polyad.fitting import blocks
from polyad.fitting.epochs import EpochLoop, History, batch_slices
from polyad.fitting.problem import LOSSES, Problem

Array = npt.NDArray[np.floating]
Buffers = dict[tuple[int, ...], Array]  # by the modes that are open
Contraction = Callable[[Array, Array, Array], None]


@dataclass(frozen=True)
class Steps:
    """How a block is stepped: Adam made anew for every block and batch, as the published code."""

    learning_rate: float = 5e-4
    inner_steps: int = 10
    batch_size: int | None = 65
    weight_decay: float = 0.0


Sweep = Callable[[RankRNet, Problem, Steps], Callable[[], tuple[float, float]]]


def fit_alternating(
    network: RankRNet,
    problem: Problem,
    loop: EpochLoop,
    steps: Steps,
    *,
    generator: torch.Generator | None = None,
    sweep: Sweep | None = None,
) -> tuple[RankRNet, History]:
    """Fit a copy of ``network`` by Algorithm 1.

    Parameters
    ----------
    network : RankRNet
        The start; it is not changed.
    problem : Problem
    loop : EpochLoop
    steps : Steps
    generator : torch.Generator, optional
        Shuffles the samples once; the batches then stay the same.
    sweep : callable, optional
        Makes of network, problem and steps what does one epoch; by default the fastest one.

    Returns
    -------
    network : RankRNet
    history : History
    """
    if sweep is None:
        sweep = _CpuSweep if problem.x.device.type == "cpu" else _PlainSweep
    network = copy.deepcopy(network)
    order = torch.randperm(len(problem), generator=generator, device="cpu")
    one_epoch = sweep(network, problem.take(order.to(problem.x.device)), steps)
    return network, loop.run(network, one_epoch)


def fit_alternating_reference(
    network: RankRNet,
    problem: Problem,
    loop: EpochLoop,
    steps: Steps,
    *,
    generator: torch.Generator | None = None,
) -> tuple[RankRNet, History]:
    """Fit as `fit_alternating` does, by autograd and torch's Adam: the slow, plain reference."""
    return fit_alternating(network, problem, loop, steps, generator=generator, sweep=_PlainSweep)


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
        self.activation = network.activation
        self.rates = blocks.adam_rates(steps.inner_steps, steps.learning_rate, steps.weight_decay)
        modes = list(range(len(self.shape)))
        cut = best_cut(self.shape) if len(modes) > 1 else 1
        self.left, self.right = modes[:cut], modes[cut:]
        slices = batch_slices(len(problem), steps.batch_size)
        self.batches = [_Batch.of(problem, rows, cut, layer) for rows in slices]
        self.shared: Buffers = {}
        self.contracted = self.v[:0]  # right factors that the roots were computed with

    def __call__(self) -> tuple[float, float]:
        for mode, inputs in self._contractions():
            w = self.factors[mode].flatten(1).numpy()  # (Q, R * I_mode)
            for batch, z in zip(self.batches, inputs, strict=True):
                self._mode_block(z, w, batch)
        self._contract_right()
        w = self._khatri_rao(self.left).reshape(len(w), -1)  # (Q, R * P_left)
        hidden = [blocks.hidden(b.root, w, self.bias, self.activation) for b in self.batches]
        for batch, u in zip(self.batches, hidden, strict=True):  # u is (Q, n_b)
            blocks.output_block(u, self.v, self.c, batch.goal, self.rates)
        outputs = torch.from_numpy(np.concatenate(hidden, axis=1).T @ self.v.T)  # (n, C)
        if self.c.size:
            outputs += torch.from_numpy(self.c)
        return self.problem.mean_loss(outputs), self.problem.score(outputs)

    def _mode_block(self, z: Array, w: Array, batch: _Batch) -> None:
        output = self.v, self.c
        blocks.mode_block(z, w, self.bias, output, batch.goal, self.activation, self.rates)

    def _contractions(self) -> Iterator[tuple[int, Iterable[Array]]]:
        """Yield each mode with its contracted inputs, one per batch, always up to date.

        A mode's block may change its factor before the next mode is asked for: the left half is
        contracted only after all of its blocks are done.
        """
        self._contract_right()
        yield from self._open_each(self.left, [batch.root for batch in self.batches])
        if self.right:
            yield from self._open_each(self.right, self._contract_left())

    def _contract_right(self) -> None:
        """Update the roots: computed at the end of an epoch, they also serve the next."""
        if not self.right:
            return
        kr = self._khatri_rao(self.right)
        if not np.array_equal(kr, self.contracted):
            self.contracted = kr.copy()
            for batch in self.batches:
                np.matmul(kr, batch.right_first, out=batch.root.reshape(len(kr), -1))

    def _contract_left(self) -> Iterator[Array]:
        """Contract the left modes, batch by batch.

        A single right mode is the longest: there the block's products are faster over contiguous
        entries of a sample than over samples.
        """
        kr = self._khatri_rao(self.left)
        for batch in self.batches:
            out = self._memory(self.right, batch)
            if len(self.right) > 1:
                np.matmul(kr, batch.left_first, out=out.reshape(len(kr), -1))
                yield out
            else:
                rows = out.reshape(batch.size, len(kr), -1)  # (n_b, Q * R, I_D)
                np.matmul(kr, batch.left_first, out=rows)
                yield rows.reshape(batch.size, len(out), -1).transpose(1, 2, 0)

    def _open_each(
        self, modes: list[int], inputs: Iterable[Array]
    ) -> Iterator[tuple[int, Iterable[Array]]]:
        """Split inputs ``(Q, R * prod of modes, n_b)`` until one mode is left open."""
        if len(modes) == 1:
            yield modes[0], inputs
            return
        inputs = list(inputs)
        cut = best_cut([self.shape[d] for d in modes])
        left, right = modes[:cut], modes[cut:]
        yield from self._open_each(left, self._open(left, right, inputs, blocks.open_left))
        yield from self._open_each(right, self._open(right, left, inputs, blocks.open_right))

    def _open(
        self, kept: list[int], gone: list[int], inputs: list[Array], contract: Contraction
    ) -> Iterator[Array]:
        kr = self._khatri_rao(gone)
        sides = [math.prod(self.shape[d] for d in side) for side in sorted((kept, gone))]
        for batch, z in zip(self.batches, inputs, strict=True):
            out = self._memory(kept, batch)
            merged = out.reshape(len(kr), -1, batch.size)
            contract(z.reshape(len(kr), *sides, batch.size), kr, merged)
            yield out

    def _khatri_rao(self, modes: list[int]) -> Array:
        """Return the product of the modes' factors, ``(Q * R, prod of modes)``."""
        return khatri_rao([self.factors[d] for d in modes]).flatten(0, 1).numpy()

    def _memory(self, modes: list[int], batch: _Batch) -> Array:
        """Return memory for inputs with ``modes`` open, ``(Q, R * prod of modes, n_b)``.

        Inputs with one mode open are used by one block only, so all batches share their memory,
        which then stays in the cache.
        """
        buffers = self.shared if len(modes) == 1 else batch.buffers
        units, rank, _ = self.factors[0].shape
        shape = units, rank * math.prod(self.shape[d] for d in modes), batch.size
        if tuple(modes) not in buffers:  # made for the first batch, and no other is larger
            buffers[tuple(modes)] = np.empty(math.prod(shape), self.v.dtype)
        return buffers[tuple(modes)][: math.prod(shape)].reshape(shape)


@dataclass
class _Batch:
    """One batch, laid out so that each contraction is a plain matrix product.

    Attributes
    ----------
    left_first : ndarray, ``(P_left, P_right * n_b)``
        With a single right mode, ``(n_b, P_left, I_D)``.
    right_first : ndarray, ``(P_right, P_left * n_b)``
    root : ndarray, ``(Q, R * P_left, n_b)``
        Samples contracted with the right factors. At order one there are none, and all terms of
        all units see the sample itself: ``(1, R * I_1, n_b)``.
    goal : tuple of targets ``(C, n_b)`` and of sample weights over ``n_b``, ``(n_b,)``
    """

    size: int
    left_first: Array
    right_first: Array
    root: Array
    goal: blocks.Goal
    buffers: Buffers = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, rows: slice, cut: int, layer: RankRLinear) -> _Batch:
        n, left = rows.stop - rows.start, math.prod(layer.in_shape[:cut])
        x: Array = problem.x[rows].numpy().reshape(n, left, -1)  # (n_b, P_left, P_right)
        left_first = x
        if len(layer.in_shape) > cut + 1:
            left_first = np.ascontiguousarray(x.transpose(1, 2, 0)).reshape(left, -1)
        right_first = np.ascontiguousarray(x.transpose(2, 1, 0)).reshape(-1, left * n)
        if len(layer.in_shape) == 1:
            root = np.tile(right_first.reshape(left, n), (layer.rank, 1))[None]
        else:
            root = np.empty((layer.out_features, layer.rank * left, n), x.dtype)
        target = np.ascontiguousarray(problem.target[rows].numpy().T)
        goal = blocks.Goal(target, problem.weight[rows].numpy() / n, problem.loss == "log")
        return cls(n, left_first, right_first, root, goal)


def _row(bias: Tensor | None, like: Tensor) -> Array:
    """Return a bias as a view ``(1, size)``; no bias has size zero."""
    return like.new_empty(1, 0).numpy() if bias is None else bias.detach()[None].numpy()
