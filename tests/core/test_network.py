"""`RankRNet` is the paper's network: its equation, its parameter counts, its activations."""

import pytest
import torch
from torch import nn

from polyad.core import ACTIVATIONS, RankRNet, dense_inner
from polyad.errors import InputError

# sample shape, classes, and the cells of Table 2 in thousands for ranks 1 to 5
TABLE_2 = {
    "Indian Pines": ((5, 5, 200), 16, (17, 33, 49, 64, 80)),
    "Botswana": ((5, 5, 145), 14, (13, 24, 36, 48, 59)),
    "Pavia University": ((5, 5, 103), 9, (10, 18, 26, 35, 43)),
}
EXACT = {
    "Indian Pines": (16_950, 32_700, 48_450, 64_200, 79_950),
    "Botswana": (12_675, 24_300, 35_925, 47_550, 59_175),
    "Pavia University": (9_150, 17_625, 26_100, 34_575, 43_050),
}
# The paper rounds these two up: 48.45K to 49K and 9.15K to 10K.
ROUNDED_UP = {("Indian Pines", 3), ("Pavia University", 1)}

CELLS = [(scene, rank) for scene in TABLE_2 for rank in range(1, 6)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("scene", "rank"), CELLS)
def test_parameter_counts_of_table_2(scene, rank):
    shape, classes, printed = TABLE_2[scene]
    net = RankRNet(shape, hidden=75, n_outputs=classes, rank=rank, device="meta")
    assert net.n_weights == rank * 75 * sum(shape) + 75 * classes == EXACT[scene][rank - 1]
    thousands = net.n_weights / 1000
    if (scene, rank) in ROUNDED_UP:
        assert printed[rank - 1] - 1 < thousands < printed[rank - 1]
    else:
        assert printed[rank - 1] == round(thousands)


def test_biases_are_the_only_parameters_beyond_the_papers_count():
    net = RankRNet((5, 5, 200), 75, 16, rank=2, device="meta")
    assert sum(p.numel() for p in net.parameters()) == net.n_weights + 75 + 16
    bare = RankRNet((5, 5, 200), 75, 16, 2, hidden_bias=False, output_bias=False, device="meta")
    assert sum(p.numel() for p in bare.parameters()) == bare.n_weights == net.n_weights


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_network_computes_its_equation(activation):
    net = RankRNet((3, 4, 2), 6, 5, 2, activation, dtype=torch.float64, generator=seeded())
    with torch.no_grad():
        net.hidden.bias.normal_(generator=seeded(1))
        net.output.bias.normal_(generator=seeded(2))
    x = torch.randn(7, 3, 4, 2, dtype=torch.float64, generator=seeded(3))
    g = {
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
        "identity": nn.Identity(),
    }
    u = g[activation](dense_inner(x, list(net.hidden.factors)) + net.hidden.bias)
    torch.testing.assert_close(net(x), u @ net.output.weight.T + net.output.bias)


def test_activation_comes_after_the_sum_over_terms():
    net = RankRNet((2,), 1, 1, rank=2, hidden_bias=False, output_bias=False)
    with torch.no_grad():
        net.hidden.factors[0].copy_(torch.tensor([[[3.0, 0.0], [-3.0, 0.5]]]))
        net.output.weight.fill_(1.0)
    # g(3 - 3 + 0.5), not g(3) + g(-2.5)
    wanted = torch.tanh(torch.tensor([[0.5]]))
    torch.testing.assert_close(net(torch.tensor([[1.0, 1.0]])), wanted)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_written_in_the_output_is_the_derivative(name):
    g = ACTIVATIONS[name]
    a = torch.linspace(-4, 4, 41, dtype=torch.float64).requires_grad_()  # zero is among them
    u = g.value(a)
    (derivative,) = torch.autograd.grad(u.sum(), a)
    slope = g.slope(u.detach())
    assert slope.dtype == derivative.dtype
    torch.testing.assert_close(slope, derivative)


def test_like_without_weights_is_a_copy_and_draws_no_random_numbers():
    net = RankRNet((3, 4), 5, 2, 2, "relu", hidden_bias=False, start="xavier", dtype=torch.float64)
    before = torch.get_rng_state()
    twin = net.like({})
    assert torch.equal(torch.get_rng_state(), before)
    assert (twin.activation, twin.hidden.start) == ("relu", "xavier")
    assert twin.hidden.bias is None
    assert all(p.requires_grad for p in twin.parameters())
    x = torch.rand(7, 3, 4, dtype=torch.float64)
    assert torch.equal(twin(x), net(x))
    with torch.no_grad():
        twin.output.weight.zero_()
    assert net.output.weight.any()


def test_like_refuses_a_weight_that_the_network_does_not_have():
    net = RankRNet((3,), 5, 2, 1)
    names = "hidden.bias, hidden.factors.0, output.weight, output.bias"
    with pytest.raises(InputError, match=f"named as one of {names}, got hidden.factors.1"):
        net.like({"hidden.factors.1": torch.ones(5, 1, 4)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "swish"}, "one of tanh, sigmoid, relu, identity, got 'swish'"),
        ({"n_outputs": 0}, "n_outputs must be at least 1, got 0"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"hidden": 10**9}, "a layer must have at most 2,147,483,648 weights"),
        ({"rank": -1}, "rank must be at least 1, got -1"),
        ({"in_shape": (3, 0)}, r"at least one entry, got \(3, 0\)"),
        ({"start": "ones"}, "start must be 'unit-variance' or 'xavier', got 'ones'"),
    ],
)
def test_impossible_networks_are_refused_with_a_sentence(change, message):
    options = {"in_shape": (3, 4), "hidden": 6, "n_outputs": 5, "rank": 2, **change}
    with pytest.raises(InputError, match=message):
        RankRNet(**options)
