"""The start drawn from the data."""

import pytest
import torch
from torch.testing import assert_close

from polyad.core.contract import cp_inner
from polyad.fitting import modes
from polyad.fitting.modes import start_from_data
from polyad.fitting.problem import Problem

pytestmark = pytest.mark.usefixtures("callers_state")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def size(network, problem):
    """Root mean square of the pre-activations, samples counted by weight."""
    with torch.no_grad():
        before = cp_inner(problem.x, list(network.hidden.factors)).square().mean(dim=1)
    return float((before * problem.weight).mean().sqrt())


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (2, 3, 2, 2), (2,) * 8])
@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_pre_activations_have_the_deviation_asked_for(shape, rank, scale, network_of, problem_of):
    network, problem = network_of(shape, rank=rank), problem_of(shape)
    problem = Problem(problem.x * scale, problem.target, problem.weight, "log")
    start_from_data(network, problem, seeded())
    assert size(network, problem) == pytest.approx(0.1)
    start_from_data(network, problem, seeded(), deviation=2.0)
    assert size(network, problem) == pytest.approx(2.0)


def test_weights_count_as_repetitions(network_of, problem_of):
    problem = problem_of(n=12)
    times = torch.tensor([1, 2, 3] * 4)
    weighted = Problem(problem.x, problem.target, times / times.double().mean(), "log")
    repeated = problem.take(torch.arange(12).repeat_interleave(times))
    repeated = Problem(
        repeated.x, repeated.target, torch.ones(len(repeated), dtype=torch.float64), "log"
    )
    one, other = network_of(), network_of()
    start_from_data(one, weighted, seeded())
    start_from_data(other, repeated, seeded())
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert_close(a, b, rtol=1e-6, atol=1e-9)


def test_factors_lie_where_the_samples_lie(network_of, problem_of):
    problem = problem_of((5, 6))
    along = torch.zeros(6, dtype=torch.float64)
    along[2] = 1.0
    flat = Problem(problem.x * along, problem.target, problem.weight, "log")
    network = network_of((5, 6))
    start_from_data(network, flat, seeded())
    outside = network.hidden.factors[1].detach()[..., along == 0]
    assert float(outside.abs().max()) < 1e-6


def test_only_a_part_of_many_samples_is_read(monkeypatch, network_of, problem_of):
    monkeypatch.setattr(modes, "MAX_SAMPLES", 50)
    problem = problem_of(n=2000)
    network = network_of()
    start_from_data(network, problem, seeded())
    assert size(network, problem) == pytest.approx(0.1, rel=0.2)
    assert size(network, problem) != pytest.approx(0.1, rel=1e-6)  # as it would be from all
