"""`RankRLinear` behaves as torch users expect, starts well, and is Theorem 1 made code."""

import math
import re
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, vmap

from polyad.core import RankRLinear, decompose, dense_inner
from polyad.errors import InputError

# Theorem 1 has more weights than the dense layer, and says so
pytestmark = pytest.mark.filterwarnings("ignore:the Rank-R layer has:UserWarning")
properties = settings(deadline=None, max_examples=50, derandomize=True)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def doubles(*size, seed=0):
    return torch.randn(*size, dtype=torch.float64, generator=seeded(seed))


@pytest.fixture
def layer():
    made = RankRLinear((3, 4, 2), 5, rank=2, dtype=torch.float64, generator=seeded())
    with torch.no_grad():
        made.bias.copy_(torch.arange(5.0))
    return made


# A module like any other


@pytest.mark.parametrize("batch", [(), (3,), (2, 3, 4), (0,), (2, 0, 3)])
def test_leading_batch_dimensions_of_any_number(layer, batch):
    x = doubles(*batch, 3, 4, 2)
    y = layer(x)
    assert y.shape == (*batch, 5)
    wanted = dense_inner(x.reshape(-1, 3, 4, 2), list(layer.factors)) + layer.bias
    torch.testing.assert_close(y.reshape(-1, 5), wanted)


def test_parameters_are_the_factors_then_the_bias(layer):
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    wanted = {"factors.0": (5, 2, 3), "factors.1": (5, 2, 4), "factors.2": (5, 2, 2)}
    assert shapes == {"bias": (5,), **wanted}


def test_state_dict_round_trip(layer):
    other = RankRLinear((3, 4, 2), 5, rank=2, dtype=torch.float64, generator=seeded(1))
    x = doubles(6, 3, 4, 2)
    assert not torch.equal(other(x), layer(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer(x))


def test_vmap_of_the_gradient_gives_per_sample_gradients(layer):
    x = doubles(4, 3, 4, 2)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters, sample):
        return functional_call(layer, parameters, (sample,)).square().sum()

    gradients = vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(gradients[name].sum(0), parameter.grad)


# Small: beyond some thousand multiplications torch hands bfloat16 products to oneDNN, whose
# instructions a virtual machine may announce and then refuse.
@pytest.mark.parametrize("bias", [True, False])
def test_autocast_gives_bfloat16_as_nn_linear_does(bias):
    layer = RankRLinear((2, 3, 2), 3, rank=2, bias=bias, generator=seeded())
    x = torch.randn(4, 2, 3, 2, generator=seeded())
    with torch.autocast("cpu", torch.bfloat16):
        low, dense = layer(x), layer.to_dense()(x.flatten(1))
    assert low.dtype == dense.dtype == torch.bfloat16
    # 8 bits of mantissa: a few roundings of 2**-8 each on values of unit variance
    torch.testing.assert_close(low.float(), layer(x), rtol=0.05, atol=0.05)


def test_meta_device_makes_shapes_and_no_numbers():
    layer = RankRLinear((100, 100, 100), 1000, rank=50, device="meta")
    assert all(p.is_meta for p in layer.parameters())
    assert layer(torch.empty(8, 100, 100, 100, device="meta")).shape == (8, 1000)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dtype_is_kept_from_parameters_to_output(dtype):
    layer = RankRLinear((3, 4), 5, rank=2, dtype=dtype)
    assert {p.dtype for p in layer.parameters()} == {dtype}
    y = layer(torch.ones(2, 3, 4, dtype=dtype))
    assert y.dtype == dtype
    assert torch.isfinite(y).all()


def test_layer_learns_inside_a_torch_model():
    x = torch.randn(64, 3, 4, generator=seeded())
    y = (x[:, 1] @ torch.tensor([1.0, -1.0, 0.5, 2.0]))[:, None]
    torch.manual_seed(0)
    model = nn.Sequential(RankRLinear((3, 4), 8, 1), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("shape", [(2, 4, 3), (4, 3), (12,), ()])
def test_input_of_another_shape_is_refused(shape):
    layer = RankRLinear((3, 4), 5, rank=1)
    wanted = f"layer wants input of shape (..., 3, 4), got {shape}"
    with pytest.raises(InputError, match=f"^{re.escape(wanted)}$"):
        layer(torch.zeros(shape))


def test_unknown_start_is_refused():
    with pytest.raises(InputError, match="start must be 'unit-variance' or 'xavier', got 'ones'"):
        RankRLinear((3,), 1, 1, start="ones")


# The start

STARTS = [
    *[((4,) * order, rank) for order in range(1, 6) for rank in (1, 2, 5)],
    *[((2,) * order, rank) for order in (6, 7, 8) for rank in (1, 5)],
    ((1, 1, 1), 4),
    ((200,), 3),
    ((5, 5, 200), 1),
    ((5, 5, 200), 5),
    ((1, 64), 3),
]


@pytest.mark.parametrize(("shape", "rank"), STARTS)
def test_unit_variance_start_gives_preactivations_of_unit_variance(shape, rank):
    units, n = 500, 2000
    layer = RankRLinear(shape, units, rank, generator=seeded())
    x = torch.randn(n, *shape, generator=seeded(1))  # white
    with torch.no_grad():
        variance = layer(x).square().mean()
    # x^T M x averaged over n samples, M of trace 1: deviation at most sqrt(2 / n); and the trace
    # itself deviates as above.
    deviation = math.sqrt(2 / n) + math.sqrt(2 * (1 - 1 / rank) / prod(shape) / units)
    assert abs(variance - 1) <= 5 * deviation


def test_xavier_start_is_the_one_torch_makes():
    layer = RankRLinear((3, 4), 5, 2, start="xavier", generator=seeded())
    wanted = seeded()
    for factor in layer.factors:
        drawn = nn.init.xavier_uniform_(torch.empty_like(factor), generator=wanted)
        assert torch.equal(factor, drawn)


@pytest.mark.parametrize("start", ["unit-variance", "xavier"])
def test_the_generator_decides_and_without_one_the_seed_of_torch(start):
    first = RankRLinear((3, 4), 5, 2, start=start, generator=seeded(7))
    before = torch.get_rng_state()
    second = RankRLinear((3, 4), 5, 2, start=start, generator=seeded())
    second.reset_parameters(seeded(7))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    third, fourth = (torch.manual_seed(3) and RankRLinear((3, 4), 5, 2) for _ in range(2))
    assert torch.equal(third.factors[0], fourth.factors[0])


# To dense and back: Theorem 1

dense_shapes = st.integers(1, 5).flatmap(
    lambda order: st.lists(st.integers(1, 4), min_size=order, max_size=order)
)


@properties
@given(dense_shapes, st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32))
def test_theorem_1_every_dense_two_layer_network_is_a_rank_r_network(shape, hidden, outputs, seed):
    first = nn.Linear(prod(shape), hidden, dtype=torch.float64)
    second = nn.Linear(hidden, outputs, dtype=torch.float64)
    for number, parameter in enumerate([*first.parameters(), *second.parameters()]):
        parameter.data.copy_(doubles(*parameter.shape, seed=seed + number))
    layer, error = RankRLinear.from_dense(first.weight, shape, bias=first.bias)
    assert error == 0.0
    assert layer.rank == min(prod(shape) // size for size in shape)
    assert torch.equal(layer.to_dense().weight, first.weight)
    x = doubles(7, *shape, seed=seed + 9)
    wanted = second(torch.tanh(first(x.flatten(1))))
    got = second(torch.tanh(layer(x)))
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@settings(properties, max_examples=20)
@given(dense_shapes.filter(lambda s: prod(s) // max(s) > 1), st.data())
def test_relative_error_below_the_exact_rank_is_the_norm_computed_apart(shape, data):
    rank = data.draw(st.integers(1, prod(shape) // max(shape) - 1))
    weight = doubles(2, prod(shape), seed=1)
    layer, error = RankRLinear.from_dense(weight, shape, rank, max_iter=20)
    rebuilt = np.zeros((2, *shape))
    for q in range(2):
        for r in range(rank):
            term = np.ones(())
            for factor in layer.factors:
                term = np.multiply.outer(term, factor[q, r].detach().numpy())
            rebuilt[q] += term
    wanted = np.linalg.norm(rebuilt - weight.numpy().reshape(2, *shape)) / weight.norm().item()
    assert error == pytest.approx(wanted, rel=1e-10, abs=1e-12)


def test_error_of_an_order_two_weight_falls_with_the_rank_and_is_the_svd_optimum():
    weight = doubles(3, 6 * 8)
    singular = torch.linalg.svdvals(weight.reshape(3, 6, 8))
    errors = []
    for rank in range(1, 7):
        _, error = RankRLinear.from_dense(weight, (6, 8), rank, max_iter=1000)
        # Eckart-Young: the squared error left over is the sum of the dropped squared values
        optimum = float(singular[:, rank:].square().sum().sqrt() / weight.norm())
        assert optimum - 1e-12 <= error <= optimum + 1e-4
        errors.append(error)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0.0


def test_weight_that_has_the_rank_is_found_again():
    made = RankRLinear((4, 5, 6), 3, rank=2, dtype=torch.float64, generator=seeded())
    _, error = RankRLinear.from_dense(made.to_dense().weight, (4, 5, 6), 2, max_iter=2000)
    assert error < 1e-3


def test_from_dense_is_as_near_as_the_decomposition_of_tensorly():
    tensorly = pytest.importorskip("tensorly", reason="needs tensorly")
    decomposition = pytest.importorskip("tensorly.decomposition", reason="needs tensorly")
    weight = doubles(4, 5 * 4 * 6)
    _, error = RankRLinear.from_dense(weight, (5, 4, 6), rank=2)
    misses = []
    with tensorly.backend_context("numpy"):  # tltorch, once imported, leaves another one
        for w in weight.numpy().reshape(4, 5, 4, 6):
            cp = decomposition.parafac(w, 2, init="random", n_iter_max=200, random_state=0)
            misses.append(np.linalg.norm(cp.to_tensor() - w))
    assert error < 1.05 * np.linalg.norm(misses) / np.linalg.norm(weight.numpy())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4, 2)])
def test_to_dense_computes_the_same_on_the_flattened_sample(shape, bias):
    layer = RankRLinear(shape, 5, 1, bias=bias, dtype=torch.float64, generator=seeded())
    dense = layer.to_dense()
    x = doubles(6, *shape)
    assert isinstance(dense, nn.Linear)
    assert (dense.in_features, dense.out_features) == (prod(shape), 5)
    assert (dense.bias is None) == (not bias)
    torch.testing.assert_close(dense(x.flatten(1)), layer(x))


@pytest.mark.parametrize(
    ("weight", "shape", "options", "message"),
    [
        (torch.ones(2, 11), (3, 4), {}, r"must be \(out_features, 12\) .* got \(2, 11\)"),
        (torch.ones(12), (3, 4), {}, r"must be \(out_features, 12\) .* got \(12,\)"),
        (torch.ones(2, 12), (3, 4), {"rank": 0}, "rank must be at least 1, got 0"),
        (torch.ones(2, 1), (), {}, "order 1 to 8, got order 0"),
        (torch.full((2, 12), torch.nan), (3, 4), {}, "weight holds NaN or infinite numbers"),
        (torch.ones(2, 12), (3, 4), {"bias": torch.ones(1)}, r"bias must be \(2,\), got \(1,\)"),
        (torch.ones(2, 12), (3, 4), {"samples": torch.ones(5, 12)}, r"samples must be \(n, 3, 4\)"),
        (torch.ones(2, 12), (3, 4), {"samples": torch.ones(0, 3, 4)}, "n at least 1"),
        (torch.ones(2, 12), (3, 4), {"samples": torch.ones(1, 3, 4) / 0}, "all values finite"),
    ],
)
def test_from_dense_refuses_what_has_no_decomposition(weight, shape, options, message):
    with pytest.raises(InputError, match=message):
        RankRLinear.from_dense(weight, shape, **options)


@pytest.mark.parametrize("bias", [True, False])
def test_a_dense_module_is_taken_with_its_bias(bias):
    torch.manual_seed(0)
    dense = nn.Linear(12, 5, bias=bias)
    layer, error = RankRLinear.from_dense(dense, (3, 4), rank=1)
    again, same = RankRLinear.from_dense(dense.weight, (3, 4), rank=1, bias=dense.bias)
    assert error == same
    assert layer.state_dict().keys() == again.state_dict().keys()
    assert all(map(torch.equal, layer.parameters(), again.parameters()))


@pytest.mark.parametrize(
    ("shape", "rank", "message"),
    [
        ((3, 4), None, "has 105 weights, the dense layer has 60; pass a rank of at most 1"),
        ((4, 4, 4), 6, "has 360 weights, the dense layer has 320; pass a rank of at most 5"),
        ((1, 9), 1, "has 50 weights, the dense layer has 45; keep the dense layer"),
    ],
)
def test_a_result_larger_than_the_dense_layer_is_warned_of(shape, rank, message):
    with pytest.warns(UserWarning, match=f"^the Rank-R layer {message}$") as caught:
        RankRLinear.from_dense(nn.Linear(prod(shape), 5), shape, rank)
    assert caught[0].filename == __file__


# Outputs instead of weights


def test_decomposition_by_samples_is_the_svd_optimum_of_the_scaled_weight(monkeypatch):
    monkeypatch.setattr(decompose, "DAMPING", 0.0)
    monkeypatch.setattr(decompose, "OUTPUT_TOLERANCE", 1e-9)
    weight = doubles(3, 6 * 8)
    rows, columns = doubles(6, seed=1).exp(), doubles(8, seed=2).exp()
    scale = torch.outer(rows, columns)
    # entry (i, j) of a sample has variance scale[i, j] ** 2, and no two are correlated
    samples = torch.diag(scale.flatten()).reshape(48, 6, 8)
    _, error = RankRLinear.from_dense(weight, (6, 8), 2, samples=samples, max_iter=1000)
    scaled = weight.reshape(3, 6, 8) * scale
    left = torch.linalg.svdvals(scaled)[:, 2:].square().sum().sqrt()  # Eckart-Young
    assert error == pytest.approx(float(left / scaled.norm()), rel=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 8), (3, 4, 5)])
def test_with_samples_outputs_change_less(shape, bias):
    size = prod(shape)
    mixed = doubles(200, 6) @ doubles(6, size, seed=1) + 0.1 * doubles(200, size, seed=2)
    x = (mixed + 3).reshape(200, *shape)  # correlated entries with a mean
    dense = nn.Linear(size, 4, bias=bias, dtype=torch.float64)
    with torch.no_grad():
        dense.weight.copy_(doubles(4, size, seed=3))
        wanted = dense(x.flatten(1))
        plain, _ = RankRLinear.from_dense(dense, shape, 2)
        fitted, error = RankRLinear.from_dense(dense, shape, 2, samples=x)
        misses = [(layer(x) - wanted).norm() for layer in (plain, fitted)]
    assert misses[1] < 0.5 * misses[0]
    spread = wanted - wanted.mean(0) if bias else wanted
    assert error == pytest.approx(float(misses[1] / spread.norm()))


def test_the_bias_keeps_the_mean_of_the_outputs():
    x, dense = doubles(50, 3, 4) + 1, nn.Linear(12, 5, dtype=torch.float64)
    layer, _ = RankRLinear.from_dense(dense, (3, 4), 1, samples=x)
    torch.testing.assert_close(layer(x).mean(0), dense(x.flatten(1)).mean(0))


@pytest.mark.parametrize("samples", [torch.zeros(5, 3, 4), torch.ones(1, 3, 4)])
def test_samples_that_do_not_vary_leave_the_decomposition_of_the_weight(samples):
    dense = nn.Linear(12, 5)
    plain, _ = RankRLinear.from_dense(dense, (3, 4), 1, max_iter=2000)
    layer, _ = RankRLinear.from_dense(dense, (3, 4), 1, samples=samples, max_iter=2000)
    wanted = plain.to_dense().weight
    torch.testing.assert_close(layer.to_dense().weight, wanted, rtol=1e-2, atol=1e-2)
