"""The fast paths of the alternating solver: equal to the plain reference, few kernel calls."""

import math
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from polyad.fitting import blocks
from polyad.fitting.alternating import Steps, fit_alternating, fit_alternating_reference
from polyad.fitting.epochs import EpochLoop
from tests.fitting.conftest import make_network, make_problem

BLOCKS = ("mode_block", "output_block", "hidden", "open_left", "open_right")


problem_of = partial(make_problem, n=23, n_outputs=4)
network_of = partial(make_network, hidden=7, n_outputs=4)


def both(network, problem, steps, epochs=3):
    """Fit with the written-out blocks and by the reference; return the two and histories."""
    seeded = [torch.Generator().manual_seed(2) for _ in range(2)]
    fast = fit_alternating(network, problem, EpochLoop(epochs), steps, generator=seeded[0])
    plain = fit_alternating_reference(
        network, problem, EpochLoop(epochs), steps, generator=seeded[1]
    )
    return fast, plain


def assert_same_trajectory(fast, plain, atol):
    for name, value in plain[0].state_dict().items():
        assert_close(fast[0].state_dict()[name], value, atol=atol, rtol=0, msg=name)
    assert_close(fast[1].loss, plain[1].loss, atol=atol, rtol=atol)
    assert_close(fast[1].score, plain[1].score, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 4, 22, 23, 100, None])
def test_every_leftover_batch_follows_the_reference(batch_size):
    steps = Steps(0.003, inner_steps=2, batch_size=batch_size)
    fast, plain = both(network_of((4, 5)), problem_of((4, 5)), steps)
    assert_same_trajectory(fast, plain, 1e-9)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_huge_outputs_and_pre_activations_stay_finite(activation):
    network = network_of((3, 5), activation=activation)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 1e3
    fast, plain = both(network, problem_of((3, 5)), Steps(), epochs=1)
    assert math.isfinite(fast[1].loss[0])
    assert_close(fast[1].loss, plain[1].loss, atol=1e-6, rtol=1e-6)


def test_one_block_call_takes_all_steps_of_a_batch(monkeypatch):
    """No clock: an epoch is D + 1 blocks on each batch, whatever the number of inner steps."""
    calls = dict.fromkeys(BLOCKS, 0)

    def counted(name):
        block = getattr(blocks, name)

        def call(*arguments):
            calls[name] += 1
            with monkeypatch.context() as inner:  # a block's own calls are not counted
                inner.setattr(blocks, "hidden", originals["hidden"])
                return block(*arguments)

        return call

    originals = {name: getattr(blocks, name) for name in BLOCKS}
    for name in BLOCKS:
        monkeypatch.setattr(blocks, name, counted(name))
    network, problem = network_of((3, 4, 11)), problem_of((3, 4, 11))
    steps = Steps(inner_steps=50, batch_size=9)
    fit_alternating(network, problem, EpochLoop(1), steps, generator=torch.Generator())
    batches = 3
    assert calls == {
        "mode_block": 3 * batches,
        "output_block": batches,
        "hidden": batches,
        "open_left": batches,
        "open_right": batches,
    }
