"""The alternating solver: the fast path gives the plain one's numbers, step by step."""

import copy
import itertools

import pytest
import torch
from torch.testing import assert_close

from polyad.core.network import ACTIVATIONS
from polyad.errors import Diverged
from polyad.fitting.alternating import Steps, fit_alternating, fit_alternating_reference
from polyad.fitting.epochs import EpochLoop

pytestmark = pytest.mark.usefixtures("callers_state")

SHAPES = [(6,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (2, 2, 3, 2, 2)]  # orders 1 to 5


def same_path(network, problem, steps, epochs=3):
    def seeded():
        return torch.Generator().manual_seed(7)

    fast, history = fit_alternating(network, problem, EpochLoop(epochs), steps, generator=seeded())
    plain, expected = fit_alternating_reference(
        network, problem, EpochLoop(epochs), steps, generator=seeded()
    )
    assert history.loss == pytest.approx(expected.loss, rel=1e-9)
    assert history.score == pytest.approx(expected.score, rel=1e-9, abs=1e-12)
    for name, value in plain.state_dict().items():
        assert_close(fast.state_dict()[name], value, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("loss", ["log", "squared"])
def test_trajectory_of_the_reference_for_every_order_and_rank(
    shape, rank, loss, network_of, problem_of
):
    problem = problem_of(shape, n=13, loss=loss)
    network = network_of(shape, rank=rank, hidden_bias=False)
    same_path(network, problem, Steps(learning_rate=0.01, inner_steps=3, batch_size=5))


@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize(
    ("activation", "bias", "decay"),
    list(itertools.product(sorted(ACTIVATIONS), [True, False], [0.0, 0.2])),
)
def test_trajectory_of_the_reference_for_every_activation_loss_bias_and_decay(
    activation, loss, bias, decay, network_of, problem_of
):
    network = network_of((3, 2, 4), activation=activation, hidden_bias=bias)
    steps = Steps(learning_rate=0.01, inner_steps=3, batch_size=None, weight_decay=decay)
    same_path(network, problem_of((3, 2, 4), n=9, loss=loss), steps)


def test_same_seed_same_bits_and_nothing_handed_in_is_changed(network_of, problem_of):
    network, problem = network_of(), problem_of()
    before, x = copy.deepcopy(network.state_dict()), problem.x.clone()

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        fit = fit_alternating(
            network, problem, EpochLoop(3), Steps(batch_size=6), generator=generator
        )
        return fit[1].loss

    assert run(1) == run(1)
    assert run(1) != run(2)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(problem.x, x)


def test_validation_on_epoch_and_best_weights(network_of, problem_of):
    held, seen = problem_of(seed=9), []
    network, history = fit_alternating(
        network_of(),
        problem_of(),
        EpochLoop(40, validation=held, on_epoch=lambda epoch, _: seen.append(epoch)),
        Steps(learning_rate=0.02),
        generator=torch.Generator().manual_seed(0),
    )
    assert seen == list(range(1, 41))
    with torch.no_grad():
        assert held.mean_loss(network(held.x)) == pytest.approx(min(history.validation_loss))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy sees the overflow coming
def test_divergence_says_what_to_try(network_of, problem_of):
    problem = problem_of(loss="squared")
    with pytest.raises(Diverged, match="try a smaller learning_rate"):
        fit_alternating(
            network_of(activation="identity"),
            problem,
            EpochLoop(30),
            Steps(learning_rate=1e200),
            generator=torch.Generator(),
        )
