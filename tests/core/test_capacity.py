"""Corollaries 1 and 2: which ranks are universal, and bounds of the VC dimension."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad.core import ACTIVATIONS, RankRNet, generic_rank, sample_size, vc_bound
from polyad.errors import InputError

# -- Corollary 1: below the generic rank no number of units suffices ----------------------------


def orthogonal(rng, n, size):
    """Return matrices drawn from the Haar measure of O(size)."""
    q, r = np.linalg.qr(rng.normal(size=(n, size, size)))
    return q * np.sign(np.einsum("nii->ni", r))[:, None]


def mirrored(samples, network):
    """Return a partner of each sample under which one unit is the same and det is opposite.

    The reflection ``S`` fixes the column space of the unit's weight: ``<W, S X> = <S W, X>``.
    """
    weight = network.hidden.to_dense().weight.detach().numpy().reshape(samples.shape[1:])
    normal = np.linalg.svd(weight)[0][:, -1]
    return (np.eye(len(normal)) - 2 * np.outer(normal, normal)) @ samples


@given(
    size=st.integers(2, 5),
    missing=st.integers(1, 4),
    activation=st.sampled_from(list(ACTIVATIONS)),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_determinant_is_orthogonal_to_every_unit_of_lower_rank(size, missing, activation, seed):
    """E[det(X) g(<W, X> + b)] = 0 if rank(W) < n and X is distributed as S X: pair by pair."""
    rank = max(1, size - missing)
    generator = torch.Generator().manual_seed(seed)
    network = RankRNet((size, size), 1, 1, rank, activation, dtype=torch.float64,
                       generator=generator)  # fmt: skip
    with torch.no_grad():
        network.hidden.bias.normal_(generator=generator)
    samples = np.random.default_rng(seed).normal(size=(20, size, size))
    partners = mirrored(samples, network)
    with torch.no_grad():
        ours, theirs = (network(torch.from_numpy(x)).numpy() for x in (samples, partners))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(np.linalg.det(samples), -np.linalg.det(partners), atol=1e-10)


def test_no_network_of_lower_rank_tells_rotations_from_reflections_on_average():
    """A wide network on O(3): its mean over rotations is its mean over reflections."""
    network = RankRNet((3, 3), 200, 1, 2, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(0))  # fmt: skip
    torch.nn.init.normal_(network.hidden.bias, generator=torch.Generator().manual_seed(1))
    group = orthogonal(np.random.default_rng(0), 200_000, 3)
    with torch.no_grad():
        values = network(torch.from_numpy(group)).numpy()[:, 0]
    products = values * np.linalg.det(group)
    assert abs(products.mean()) < 4 * products.std() / math.sqrt(len(group))


def test_units_of_full_rank_see_the_determinant():
    samples = np.random.default_rng(0).normal(size=(100_000, 2, 2))
    products = np.linalg.det(samples) * np.tanh(np.trace(samples, axis1=1, axis2=2)) ** 2
    assert products.mean() > 10 * products.std() / math.sqrt(len(samples))


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_without_hidden_bias_a_network_is_odd_up_to_a_constant(activation):
    """So that the paper's equations, which have no bias, are not universal at any rank."""
    network = RankRNet((3, 4), 20, 2, 3, activation, hidden_bias=False, dtype=torch.float64)
    x = torch.randn(50, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        even = network(x) + network(-x)
    torch.testing.assert_close(even, even[:1].expand_as(even))


@pytest.mark.parametrize(
    ("shape", "rank"),
    [
        ((7,), 1), ((1, 1, 1), 1), ((2, 2), 2), ((3, 8), 3), ((8, 3), 3),
        ((2, 2, 2), 2), ((2, 2, 3), 3), ((2, 3, 3), 3), ((3, 4, 5), 6), ((4, 4, 4), 7),
        ((3, 3, 3), 5), ((3, 4, 4), 6), ((2, 2, 2, 2), 4),  # one more than parameters suggest
        ((3, 3, 20), 9), ((5, 5, 200), 25),  # as Theorem 1
    ],
)  # fmt: skip
@pytest.mark.every_case
def test_generic_rank_is_the_known_one(shape, rank):
    assert generic_rank(shape) == rank


def test_generic_rank_of_a_large_tensor_is_refused_with_a_bound():
    with pytest.raises(InputError, match=r"at most 4096 entries, got 8000 of .*Theorem 1, 400"):
        generic_rank((20, 20, 20))


# -- Corollary 2: bounds ---------------------------------------------------------------------------

SIZES = st.integers(1, 40)
NETWORKS = st.tuples(
    st.lists(SIZES, min_size=1, max_size=4), SIZES, st.integers(1, 6), st.integers(2, 20),
    st.sampled_from(list(ACTIVATIONS)),
)  # fmt: skip


@given(NETWORKS)
@settings(max_examples=100, deadline=None)
def test_vc_bound_grows_with_every_size_and_is_above_the_number_of_weights(network):
    shape, hidden, rank, outputs, activation = network
    bound = vc_bound(*network)
    assert bound > rank * hidden * sum(shape) + hidden * outputs
    assert bound < vc_bound([shape[0] + 1, *shape[1:]], hidden, rank, outputs, activation)
    assert bound < vc_bound(shape, hidden + 1, rank, outputs, activation)
    assert bound < vc_bound(shape, hidden, rank + 1, outputs, activation)
    assert bound < vc_bound(shape, hidden, rank, outputs + 1, activation)


@given(NETWORKS, st.floats(1.0001, 100))
@settings(max_examples=100, deadline=None)
def test_more_points_than_the_bound_of_relu_units_have_fewer_patterns_than_labelings(
    network, factor
):
    """Two applications of Warren's bound, 2 (2 e m k / P)^P sign vectors of m polynomials."""
    shape, hidden, rank, outputs, _ = network
    parameters = hidden * (rank * sum(shape) + 1 + outputs) + outputs
    points = factor * (vc_bound(shape, hidden, rank, outputs, "relu") + 1)
    degree = len(shape)
    patterns = 2 + parameters * (
        math.log2(2 * math.e * points * hidden * degree / parameters)
        + math.log2(2 * math.e * points * (outputs - 1) * (degree + 1) / parameters)
    )
    assert points > patterns


@given(st.integers(1, 10**6), st.floats(0.01, 0.5), st.floats(1e-6, 0.5))
@settings(max_examples=100, deadline=None)
def test_sample_size_suffices_by_the_theorems_it_comes_from(vc, epsilon, delta):
    """Growth function by Sauer's lemma: (2 e m / d)^d labelings of 2 m samples."""
    samples = sample_size(vc, epsilon, delta)
    growth = vc * math.log(2 * math.e * samples / vc)
    assert math.log(4) + growth - epsilon**2 * samples / 32 <= math.log(delta) + 1e-9
    samples = sample_size(vc, epsilon, delta, realizable=True)
    growth = vc * math.log2(2 * math.e * samples / vc)
    assert 1 + growth - epsilon * samples / 2 <= math.log2(delta) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1, 0.1), "vc must be at least 1, got 0"),
        ((1, 0.0, 0.1), "epsilon must be between 0 and 1, both excluded, got 0.0"),
        ((1, 0.1, 1.0), "delta must be between 0 and 1, both excluded, got 1.0"),
    ],
)
def test_sample_size_refuses_what_is_no_dimension_or_probability(arguments, message):
    with pytest.raises(InputError, match=message):
        sample_size(*arguments)


def test_vc_bound_refuses_an_unknown_activation_and_no_outputs():
    with pytest.raises(InputError, match="activation must be one of tanh"):
        vc_bound((3, 4), 5, 1, activation="sine")
    with pytest.raises(InputError, match="n_outputs must be at least 1, got 0"):
        vc_bound((3, 4), 5, 1, n_outputs=0)
