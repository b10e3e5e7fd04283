"""Made problems and networks for the solvers."""

import pytest
import torch

from polyad.core.network import RankRNet
from polyad.fitting.problem import Problem


def make_problem(shape=(3, 4), n=20, n_outputs=3, loss="log", dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, dtype=dtype, generator=generator)
    weight = torch.rand(n, dtype=dtype, generator=generator) + 0.5
    if loss == "log":
        classes = torch.randint(n_outputs, (n,), generator=generator)
        target = torch.nn.functional.one_hot(classes, n_outputs).to(dtype)
    else:
        target = torch.randn(n, n_outputs, dtype=dtype, generator=generator)
    return Problem(x, target, weight / weight.mean(), loss)


def make_network(
    shape=(3, 4), hidden=5, n_outputs=3, rank=2, activation="tanh", dtype=torch.float64, **biases
):
    generator = torch.Generator().manual_seed(1)
    return RankRNet(
        shape, hidden, n_outputs, rank, activation, dtype=dtype, generator=generator, **biases
    )


@pytest.fixture
def problem_of():
    return make_problem


@pytest.fixture
def network_of():
    return make_network


@pytest.fixture
def callers_state():
    """Whatever a solver does, torch's seed, threads and default type stay the caller's."""
    seed, threads = torch.random.get_rng_state(), torch.get_num_threads()
    dtype, recording = torch.get_default_dtype(), torch.is_grad_enabled()
    yield
    assert torch.equal(torch.random.get_rng_state(), seed)
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == dtype
    assert torch.is_grad_enabled() == recording
