"""Algorithm 1 as it stands in the paper: sample by sample, with Khatri-Rao products.

The slow reference that the solvers are measured against. For every block and batch, each sample's
contracted input is formed by unfolding the sample and multiplying by the Khatri-Rao product of the
other factors (Eq. 12), for one unit after the other as step 3.1 of the algorithm says, or for all
units at once; the steps are torch's own Adam on torch's own gradients. It starts, shuffles and
steps as `polyad.fitting.alternating` does and so gives the same numbers.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.fitting.alternating import Steps
from polyad.fitting.problem import LOSSES, Problem


class Textbook:
    """Call it for an epoch; ``network`` is a copy that is changed in place."""

    def __init__(
        self,
        network: RankRNet,
        problem: Problem,
        steps: Steps,
        generator: torch.Generator | None = None,
        *,
        unit_by_unit: bool = True,
    ) -> None:
        self.contracted = contracted_by_unit if unit_by_unit else contracted
        self.network = copy.deepcopy(network)
        order = torch.randperm(len(problem), generator=generator)
        self.problem, self.steps = problem.take(order), steps
        size = len(problem) if steps.batch_size is None else steps.batch_size
        self.batches = [self.problem.take(batch) for batch in torch.arange(len(order)).split(size)]

    def __call__(self) -> None:
        for mode in range(len(self.network.hidden.factors)):
            for batch in self.batches:
                self._step_mode(mode, batch)
        for batch in self.batches:
            self._step_output(batch)

    def _step_mode(self, mode: int, batch: Problem) -> None:
        layer = self.network.hidden
        factor = layer.factors[mode]
        with torch.no_grad():
            z = torch.stack([self.contracted(x, list(layer.factors), mode) for x in batch.x])
        adam = self._adam([factor], [] if layer.bias is None else [layer.bias])
        for _ in range(self.steps.inner_steps):
            before = (z * factor).sum(dim=(2, 3))  # (n, Q): the trace of Eq. (14)
            if layer.bias is not None:
                before = before + layer.bias
            hidden = ACTIVATIONS[self.network.activation].value(before)
            self._descend(adam, self.network.output(hidden), batch)

    def _step_output(self, batch: Problem) -> None:
        output = self.network.output
        with torch.no_grad():
            factors = list(self.network.hidden.factors)
            z = torch.stack([self.contracted(x, factors, 0) for x in batch.x])
            before = (z * factors[0]).sum(dim=(2, 3))
            if self.network.hidden.bias is not None:
                before = before + self.network.hidden.bias
            hidden = ACTIVATIONS[self.network.activation].value(before)
        adam = self._adam([output.weight], [] if output.bias is None else [output.bias])
        for _ in range(self.steps.inner_steps):
            self._descend(adam, output(hidden), batch)

    def _adam(self, weights: list[Tensor], biases: list[Tensor]) -> torch.optim.Optimizer:
        groups = [{"params": weights, "weight_decay": self.steps.weight_decay}]
        groups += [{"params": biases, "weight_decay": 0.0}] if biases else []
        return torch.optim.AdamW(groups, lr=self.steps.learning_rate)

    def _descend(self, adam: torch.optim.Optimizer, outputs: Tensor, batch: Problem) -> None:
        loss = (LOSSES[batch.loss].value(outputs, batch.target) * batch.weight).mean()
        adam.zero_grad()
        stepped = [p for group in adam.param_groups for p in group["params"]]
        torch.autograd.backward(loss, inputs=stepped)
        adam.step()


def contracted(x: Tensor, factors: list[Tensor], mode: int) -> Tensor:
    """Return Eq. (12) for one sample ``(I_1, ..., I_D)`` and every unit, ``(Q, R, I_mode)``."""
    unfolded = x.movedim(mode, 0).reshape(x.shape[mode], -1)  # (I_mode, product of the others)
    others = [f for d, f in enumerate(factors) if d != mode]
    if not others:
        return x.expand(*factors[0].shape)
    return khatri_rao(others) @ unfolded.T


def contracted_by_unit(x: Tensor, factors: list[Tensor], mode: int) -> Tensor:
    """Return what `contracted` does, by a loop over the units."""
    units = [[f[q : q + 1] for f in factors] for q in range(len(factors[0]))]
    return torch.cat([contracted(x, unit, mode) for unit in units])


def khatri_rao(factors: list[Tensor]) -> Tensor:
    """Return the Khatri-Rao product of each unit's factors, ``(Q, R, product of I_d)``."""
    product = factors[0]
    for factor in factors[1:]:
        product = torch.einsum("qri,qrj->qrij", product, factor).flatten(2)
    return product
