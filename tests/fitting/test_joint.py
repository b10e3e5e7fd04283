"""The joint solver: written-out gradients, AdamW, and nothing touched that is not its own."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.fitting import joint as solver
from polyad.fitting.epochs import EpochLoop
from polyad.fitting.joint import (
    AdamState,
    FlatWeights,
    JointSettings,
    adam_step,
    autograd_gradient,
    choose_gradient,
    fit_joint,
    written_gradient,
)
from polyad.fitting.problem import LOSSES, Problem

pytestmark = pytest.mark.usefixtures("callers_state")

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@st.composite
def cases(draw):
    """Return a network and a problem of any order up to five, any rank, activation and loss."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    hidden, outputs, rank = (draw(st.integers(1, k)) for k in (4, 3, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    network = RankRNet(
        shape,
        hidden,
        outputs,
        rank,
        draw(st.sampled_from(sorted(ACTIVATIONS))),
        hidden_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        dtype=torch.float64,
        generator=generator,
    )
    n = draw(st.integers(1, 6))
    x = torch.randn(n, *shape, dtype=torch.float64, generator=generator)
    target = torch.rand(n, outputs, dtype=torch.float64, generator=generator)
    loss = draw(st.sampled_from(sorted(LOSSES)))
    if loss == "log":
        target = target / target.sum(dim=1, keepdim=True)
    weight = torch.rand(n, dtype=torch.float64, generator=generator)
    return network, Problem(x, target, weight, loss)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_written_gradient_equals_autograd(case):
    network, problem = case
    weights = FlatWeights.of(network)
    expected_outputs = autograd_gradient(network, weights, problem)
    expected = weights.gradient.clone()
    weights.gradient.fill_(math.nan)
    with torch.no_grad():
        outputs = written_gradient(network, weights, problem)
    assert_close(outputs, expected_outputs, **EXACT)
    assert_close(weights.gradient, expected, **EXACT)


def adamw(network, decay, rate):
    """Return torch's own AdamW, which leaves biases undecayed."""
    named = dict(network.named_parameters())
    groups = [
        {"params": [p for k, p in named.items() if not k.endswith("bias")], "weight_decay": decay},
        {"params": [p for k, p in named.items() if k.endswith("bias")], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_step_is_that_of_torch(decay, network_of):
    network = network_of()
    twin, weights = copy.deepcopy(network), FlatWeights.of(network)
    state, optimizer = AdamState.like(weights.values), adamw(twin, decay, 0.03)
    generator = torch.Generator().manual_seed(0)
    for _ in range(25):
        weights.gradient.copy_(
            torch.randn(weights.values.shape, dtype=torch.float64, generator=generator)
        )
        for name, parameter in twin.named_parameters():
            parameter.grad = weights.slots[name].clone()
        optimizer.step()
        adam_step(weights, state, 0.03, decay)
    for name, parameter in twin.named_parameters():
        assert_close(weights.views[name], parameter.detach(), **EXACT)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("head_start", [0.0, 2.0])
def test_joint_is_plain_adamw_on_all_weights(loss, head_start, network_of, problem_of):
    network, problem = network_of(), problem_of(loss=loss)
    settings = JointSettings(0.02, 0.05, head_start=head_start)
    fitted, history, _ = fit_joint(network, problem, EpochLoop(30), settings)
    twin = copy.deepcopy(network)
    optimizer = adamw(twin, 0.05, 0.02)
    seen = []
    for step in range(1, 31):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (1 + head_start * math.exp(-step / 10))
        optimizer.zero_grad()
        value = (LOSSES[loss].value(twin(problem.x), problem.target) * problem.weight).mean()
        value.backward()
        optimizer.step()
        seen.append(float(value.detach()))
    assert history.loss == pytest.approx(seen, rel=1e-12)
    for name, parameter in fitted.named_parameters():
        assert_close(parameter, twin.get_parameter(name), rtol=1e-9, atol=1e-9)


def test_a_weight_too_large_to_rebuild_goes_through_autograd(monkeypatch, network_of, problem_of):
    assert choose_gradient(network_of()) is written_gradient
    huge = RankRNet((1000, 1000), 60, 2, 1, device="meta")
    assert choose_gradient(huge) is autograd_gradient
    _, expected, _ = fit_joint(network_of(), problem_of(), EpochLoop(5), JointSettings(0.01))
    monkeypatch.setattr(solver, "MAX_REBUILT", 0)
    _, other, _ = fit_joint(network_of(), problem_of(), EpochLoop(5), JointSettings(0.01))
    assert other.loss == pytest.approx(expected.loss, rel=1e-12)


def test_minibatches_are_shuffled_by_the_generator_alone(network_of, problem_of):
    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        batches = JointSettings(0.01, batch_size=6)
        fit = fit_joint(network_of(), problem_of(), EpochLoop(4), batches, generator=generator)
        return fit[1].loss

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_going_on_from_a_state_is_one_long_fit(network_of, problem_of):
    settings = JointSettings(0.01, head_start=1.0)
    _, whole, _ = fit_joint(network_of(), problem_of(), EpochLoop(8), settings)
    network, half, state = fit_joint(network_of(), problem_of(), EpochLoop(4), settings)
    _, rest, _ = fit_joint(network, problem_of(), EpochLoop(4), settings, state=state)
    assert half.loss + rest.loss == whole.loss
    assert state.steps == 4  # the state handed in was copied
