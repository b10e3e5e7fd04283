"""Principal axes: another coordinate system for the same network."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyad import RankRClassifier, RankRNet
from polyad.fitting.modes import PrincipalAxes
from polyad.fitting.problem import Problem


def problem_of(shape, n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    ones = torch.ones(n, dtype=torch.float64)
    return Problem(x, torch.ones(n, 2, dtype=torch.float64), ones, "log")


@given(
    shape=st.lists(st.integers(2, 5), min_size=1, max_size=4),
    rank=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_expanded_network_computes_on_samples_what_the_other_does_on_projections(shape, rank, data):
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    problem = problem_of(shape)
    axes = PrincipalAxes.of(problem, mode)
    projected = axes.project(problem)
    small = RankRNet(projected.x.shape[1:], 4, 2, rank, dtype=torch.float64)
    whole = axes.expand(small)
    assert whole.hidden.in_shape == tuple(shape)
    torch.testing.assert_close(whole(problem.x), small(projected.x), rtol=1e-10, atol=1e-10)


def test_axes_are_orthonormal_and_diagonalise_the_covariance():
    problem = problem_of((3, 6), n=40)
    axes = PrincipalAxes.of(problem, -1)
    eye = torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(axes.axes.T @ axes.axes, eye, atol=1e-12, rtol=0)
    fibres = axes.project(problem).x.reshape(-1, 6)
    covariance = fibres.T @ fibres
    assert torch.allclose(covariance, covariance.diagonal().diag(), atol=1e-9)
    assert (covariance.diagonal().diff() <= 0).all()


@pytest.mark.parametrize(("shape", "scale"), [((4, 1), 1), ((2, 2000), 1), ((3, 4), 0)])
def test_a_mode_of_one_entry_very_many_or_zeros_is_left_alone(shape, scale):
    problem = problem_of(shape, n=2)
    given = Problem(scale * problem.x, problem.target, problem.weight, "log")
    assert PrincipalAxes.of(given, -1) is None


def test_a_class_that_differs_in_a_weak_direction_is_learned_from_few_samples():
    # a strong direction common to all bands, and the class in one that is fifty times weaker
    rng = np.random.default_rng(0)
    weak = rng.normal(size=50) / np.sqrt(50)

    def draw(n):
        y = rng.integers(0, 2, n)
        common = 50 * rng.normal(size=(n, 1)) * np.ones(50)
        return common + np.outer(2 * y - 1, weak) * 5 + 0.1 * rng.normal(size=(n, 50)), y

    (X, y), (X_test, y_test) = draw(20), draw(500)
    model = RankRClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.95


def test_on_epoch_is_given_a_network_on_samples_as_they_are_after_each_epoch():
    X = np.random.default_rng(0).normal(size=(20, 3, 4))
    seen = []
    RankRClassifier(hidden=3, epochs=3, random_state=0).fit(
        X, np.arange(20) % 2, on_epoch=lambda k, network: seen.append((k, network.hidden.in_shape))
    )
    assert seen == [(1, (3, 4)), (2, (3, 4)), (3, (3, 4))]
