r"""Alternating solver: Algorithm 1 of the paper, one mode at a time, for any order.

With every mode but ``d`` fixed, the pre-activations are linear in :math:`W_d` (Eq. 14):
:math:`a_q = \langle W_d^{(q)}, Z_{\neq d}^{(q)} \rangle`. So the contracted input
:math:`Z_{\neq d}` is formed once for a block and read by all of its gradient steps.

`alternating_reference` is the algorithm in plain torch, on any device. `alternating` is the same
arithmetic on the CPU at memory speed: gradients written out, contractions shared between modes
(a sweep over D modes needs two large matrix products, not D), and the thin products of the inner
steps by numpy, whose stacked matrix-vector product reads memory as fast as it comes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit
from torch import Tensor

from polyad.core.contract import contract_except, khatri_rao
from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.fitting.adam import BETA1, BETA2, EPS
from polyad.fitting.epochs import History, OnEpoch, Stopping, batch_slices, run_epochs
from polyad.fitting.joint import best_cut
from polyad.fitting.problem import LOSSES, Problem

Array = npt.NDArray[np.floating]

_VALUES: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": expit,
    "relu": lambda a: np.maximum(a, 0),
    "identity": lambda a: a,
}


@dataclass(frozen=True)
class Steps:
    """How a block is stepped: Adam made anew for every block and batch, as the published code."""

    learning_rate: float = 5e-4
    inner_steps: int = 10
    batch_size: int | None = 65
    weight_decay: float = 0.0


def alternating(
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


def alternating_reference(
    network: RankRNet,
    problem: Problem,
    stopping: Stopping,
    steps: Steps,
    *,
    generator: torch.Generator | None = None,
) -> tuple[RankRNet, History]:
    """Fit as `alternating` does, by autograd and torch's own Adam: the slow, plain reference."""
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
        for part in batch_slices(len(self.problem), self.steps.batch_size):
            batch = self.problem.take(torch.arange(part.start, part.stop))
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
        layer = network.hidden
        self.steps, self.loss, self.problem = steps, problem.loss, problem
        self.shape, self.rank = layer.in_shape, layer.rank
        self.value = _VALUES[network.activation]
        self.slope = ACTIVATIONS[network.activation].slope
        self.factors = [f.detach() for f in layer.factors]  # (Q, R, I_d)
        self.bias = None if layer.bias is None else layer.bias.detach().numpy()
        self.v = network.output.weight.detach().numpy()  # (C, Q)
        self.c = None if network.output.bias is None else network.output.bias.detach().numpy()
        self.target = np.ascontiguousarray(problem.target.numpy().T)  # (C, n)
        self.weight = problem.weight.numpy()
        self.slices = batch_slices(len(problem), steps.batch_size)
        n = len(problem)
        self.cut = best_cut(list(self.shape)) if len(self.shape) > 1 else 0
        x = problem.x.reshape(n, math.prod(self.shape[: self.cut]), -1)  # (n, P_left, P_right)
        # Both layouts of the input, so that each contraction is one plain matrix product
        self.rows = x.reshape(-1, x.shape[-1]).T  # (P_right, n * P_left)
        self.columns = (
            x.transpose(0, 1).reshape(x.shape[1], -1).contiguous()
        )  # (P_left, n * P_right)
        self.buffer: dict[str, Array] = {}

    def __call__(self) -> tuple[float, float]:
        with torch.no_grad():
            for mode, z in self._contractions():
                self._mode_block(mode, z)
                last = mode, z
            hidden = self._hidden(last[1], self.factors[last[0]].numpy())  # (Q, n)
        outputs = torch.from_numpy(self._output_block(hidden).T)
        return self.problem.mean_loss(outputs), self.problem.score(outputs)

    # -- contractions -------------------------------------------------------------------------

    def _contractions(self) -> Iterator[tuple[int, Array]]:
        """Yield each mode with its contracted input ``(Q, R, n, I_mode)``, always up to date.

        A mode's block may change its factor before the next mode is asked for: the left half is
        contracted only after all of its blocks are done.
        """
        hidden = len(self.factors[0])
        n = len(self.problem)
        if self.cut == 0:
            x = self.problem.x.numpy()[None, None]  # (1, 1, n, I)
            yield 0, np.broadcast_to(x, (hidden, self.rank, *x.shape[2:]))
            return
        for kept, gone, matrix in (
            (range(self.cut), range(self.cut, len(self.shape)), self.rows),
            (range(self.cut, len(self.shape)), range(self.cut), self.columns),
        ):
            kr = khatri_rao([self.factors[d] for d in gone]).flatten(0, 1)  # (Q * R, P_gone)
            size = [self.shape[d] for d in kept]
            z = self._into(f"root{kept.start}", (len(kr), matrix.shape[1]))
            torch.mm(kr, matrix, out=torch.from_numpy(z))
            yield from self._open_each(list(kept), z.reshape(hidden, self.rank, n, math.prod(size)))

    def _open_each(self, modes: list[int], z: Array) -> Iterator[tuple[int, Array]]:
        """Split ``z``, ``(Q, R, n, prod of modes)``, until one mode is left open."""
        if len(modes) == 1:
            yield modes[0], z
            return
        cut = best_cut([self.shape[d] for d in modes])
        left, right = modes[:cut], modes[cut:]
        sizes = math.prod(self.shape[d] for d in left), math.prod(self.shape[d] for d in right)
        both = z.reshape(*z.shape[:3], *sizes)
        kr = khatri_rao([self.factors[d] for d in right]).numpy()
        yield from self._open_each(left, np.matmul(both, kr[:, :, None, :, None])[..., 0])
        kr = khatri_rao([self.factors[d] for d in left]).numpy()
        product = torch.from_numpy(both) * torch.from_numpy(kr)[:, :, None, :, None]
        yield from self._open_each(right, product.sum(dim=-2).numpy())

    # -- blocks -------------------------------------------------------------------------------

    def _mode_block(self, mode: int, z: Array) -> None:
        factor = self.factors[mode].numpy()
        for part in self.slices:
            zb = z[:, :, part]  # (Q, R, n_b, I)
            adam = _Adam([factor], [self.bias], self.steps)
            for _ in range(self.steps.inner_steps):
                hidden = self._hidden(zb, factor)
                by_before = self.v.T @ self._by_output(hidden, part)  # (Q, n_b)
                by_before *= self.slope(hidden)  # type: ignore[arg-type]
                by_factor = np.matmul(by_before[:, None, None, :], zb)[:, :, 0]
                adam.step([by_factor, None if self.bias is None else by_before.sum(axis=1)])

    def _output_block(self, hidden: Array) -> Array:
        for part in self.slices:
            u = np.ascontiguousarray(hidden[:, part])
            adam = _Adam([self.v], [self.c], self.steps)
            for _ in range(self.steps.inner_steps):
                by_output = self._by_output(u, part)
                adam.step([by_output @ u.T, None if self.c is None else by_output.sum(axis=1)])
        return self._outputs(hidden)

    def _hidden(self, z: Array, factor: Array) -> Array:
        """Hidden units ``(Q, n)`` from the contracted input: Eq. (14)."""
        before = np.matmul(z, factor[..., None])[..., 0]  # (Q, R, n)
        before = before[:, 0] if self.rank == 1 else before.sum(axis=1)
        if self.bias is not None:
            before += self.bias[:, None]
        return self.value(before)

    def _outputs(self, hidden: Array) -> Array:
        outputs = self.v @ hidden  # (C, n)
        if self.c is not None:
            outputs += self.c[:, None]
        return outputs

    def _by_output(self, hidden: Array, part: slice) -> Array:
        """Gradient of the batch's mean loss by the outputs, ``(C, n_b)``."""
        p = self._outputs(hidden)
        if self.loss == "log":
            p -= p.max(axis=0)
            np.exp(p, out=p)
            p /= p.sum(axis=0)
        p -= self.target[:, part]
        p *= self.weight[part] / (part.stop - part.start)
        return p

    def _into(self, name: str, shape: tuple[int, ...]) -> Array:
        if name not in self.buffer:
            self.buffer[name] = np.empty(shape, dtype=self.v.dtype)
        return self.buffer[name]


class _Adam:
    """Adam of one block, in place on numpy arrays; the first array is decayed."""

    def __init__(self, weights: list[Array], biases: list[Array | None], steps: Steps) -> None:
        self.arrays = [*weights, *biases]
        self.decay = [1 - steps.learning_rate * steps.weight_decay] * len(weights)
        self.decay += [1.0] * len(biases)
        self.rate = steps.learning_rate
        self.means = [None if a is None else np.zeros_like(a) for a in self.arrays]
        self.squares = [None if a is None else np.zeros_like(a) for a in self.arrays]
        self.t = 0

    def step(self, gradients: list[Array | None]) -> None:
        self.t += 1
        rate = self.rate / (1 - BETA1**self.t)
        rows = zip(self.arrays, gradients, self.means, self.squares, self.decay, strict=True)
        for array, g, mean, square, decay in rows:
            if array is None or g is None or mean is None or square is None:
                continue
            mean *= BETA1
            mean += (1 - BETA1) * g
            square *= BETA2
            g *= g
            g *= 1 - BETA2
            square += g
            if decay != 1.0:
                array *= decay
            scale = np.sqrt(square)
            scale *= 1 / math.sqrt(1 - BETA2**self.t)
            scale += EPS
            np.divide(mean, scale, out=scale)
            scale *= rate
            array -= scale
