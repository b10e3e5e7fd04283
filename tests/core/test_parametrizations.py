"""Pruning, TorchScript and Muon with the layer, as docs/how-to/pytorch.md shows them."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from polyad.core import RankRLinear, RankRNet


def steps(model, optimizer, count=3):
    """Train; return the losses."""
    x = torch.randn(32, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    y, losses = (x[:, 1, 1, 1] > 0).long(), []
    for _ in range(count):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def network():
    torch.manual_seed(0)
    return nn.Sequential(RankRLinear((3, 4, 5), 8, rank=2), nn.Tanh(), nn.Linear(8, 2))


def test_a_factor_pruned_by_torch_stays_pruned_while_the_rest_learns():
    model = network()
    factors = model[0].factors
    prune.l1_unstructured(factors, "2", amount=0.5)
    pruned, before = factors[2] == 0, factors[2].detach().clone()
    losses = steps(model, torch.optim.Adam(model.parameters(), 0.02), 20)
    assert losses[-1] < 0.9 * losses[0]
    model(torch.zeros(1, 3, 4, 5))
    assert pruned.float().mean() == 0.5
    assert torch.equal(factors[2] == 0, pruned)
    assert not torch.isclose(factors[2][~pruned], before[~pruned]).any()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
def test_torchscript_takes_the_dense_form():
    net, x = RankRNet((3, 4, 5), 8, 2, rank=2), torch.randn(5, 3, 4, 5)
    dense = nn.Sequential(nn.Flatten(), net.hidden.to_dense(), nn.Tanh(), net.output)
    torch.testing.assert_close(torch.jit.script(dense)(x), net(x))


class Unfolded(nn.Module):
    """A factor as a matrix, ``(units * rank, I_d)``."""

    def __init__(self, units):
        super().__init__()
        self.units = units

    def forward(self, matrix):
        return matrix.unflatten(0, (self.units, -1))

    def right_inverse(self, factor):
        return factor.flatten(0, 1)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="needs a torch with Muon")
def test_muon_trains_factors_that_are_parametrized_as_matrices():
    model, x = network(), torch.randn(5, 3, 4, 5)
    wanted, layer = model(x), model[0]
    for name in "012":
        parametrize.register_parametrization(layer.factors, name, Unfolded(layer.out_features))
    torch.testing.assert_close(model(x), wanted, rtol=0, atol=0)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    assert len(matrices) == 4
    losses = steps(model, torch.optim.Muon(matrices, lr=0.02), 20)
    assert losses[-1] < 0.9 * losses[0]
