"""The textbook form of Algorithm 1 gives the same numbers as the solver timed against it."""

import pytest
import torch
from torch.testing import assert_close

from benchmarks.textbook import Textbook
from polyad.core.network import RankRNet
from polyad.fitting.alternating import Steps, fit_alternating
from polyad.fitting.epochs import EpochLoop
from polyad.fitting.problem import Problem


def problem_of(shape, n=11, classes=3):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, *shape, dtype=torch.float64, generator=generator)
    codes = torch.arange(n) % classes
    target = torch.nn.functional.one_hot(codes, classes).double()
    return Problem(x, target, torch.ones(n, dtype=torch.float64), "log")


@pytest.mark.parametrize("unit_by_unit", [True, False])
@pytest.mark.parametrize("hidden_bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
def test_textbook_and_solver_take_the_same_way(shape, hidden_bias, unit_by_unit):
    generator = torch.Generator().manual_seed(1)
    network = RankRNet(
        shape, 4, 3, 2, hidden_bias=hidden_bias, dtype=torch.float64, generator=generator
    )
    problem, steps = problem_of(shape), Steps(0.01, inner_steps=3, batch_size=4, weight_decay=0.1)
    textbook = Textbook(
        network,
        problem,
        steps,
        torch.Generator().manual_seed(2),
        unit_by_unit=unit_by_unit,
    )
    for _ in range(3):
        textbook()
    seeded = torch.Generator().manual_seed(2)
    fitted, _ = fit_alternating(network, problem, EpochLoop(3), steps, generator=seeded)
    for name, value in fitted.state_dict().items():
        assert_close(textbook.network.state_dict()[name], value, atol=1e-9, rtol=0, msg=name)
