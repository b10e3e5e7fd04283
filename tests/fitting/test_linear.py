"""Linear models, and the networks that compute them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from polyad.core.network import RankRNet, join_networks
from polyad.fitting.linear import as_network, fit_linear, fit_ridge
from polyad.fitting.problem import Problem

SHAPES = [((7,), 1), ((7,), 3), ((3, 4), 2), ((3, 4, 5), 1), ((3, 4, 5), 5)]


def problem(shape, loss="log", n=50, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    target = torch.eye(classes, dtype=torch.float64)[torch.arange(n) % classes]
    return Problem(x, target, torch.ones(n, dtype=torch.float64), loss)


@pytest.mark.every_case
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "identity"])
@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_a_linear_model_is_a_network_of_any_rank_and_activation(shape, rank, activation):
    samples = problem(shape)
    linear = fit_linear(samples, torch.Generator())
    like = RankRNet(shape, 6, 3, rank, activation, dtype=torch.float64)
    network = as_network(linear, like, samples.x)
    assert (network.hidden.rank, network.activation) == (rank, activation)
    wanted = linear(samples.x)
    torch.testing.assert_close(network(samples.x), wanted, rtol=1e-4, atol=1e-4)
    joined = join_networks([like, network], [0.25, 0.75])
    mixed = 0.25 * like(samples.x) + 0.75 * wanted
    torch.testing.assert_close(joined(samples.x), mixed, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 5), (10, 10)])
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_those_of_logistic_regression_on_standardized_entries(shape, classes):
    samples = problem(shape, classes=classes)
    rows = StandardScaler().fit_transform(samples.x.flatten(1).numpy())
    plain = LogisticRegression(max_iter=200).fit(rows, samples.target.argmax(dim=1).numpy())
    ours = torch.softmax(fit_linear(samples, torch.Generator())(samples.x), dim=1)
    np.testing.assert_allclose(ours.numpy(), plain.predict_proba(rows), atol=2e-3)


@pytest.mark.parametrize("shape", [(4, 5), (10, 10)])
def test_numbers_are_those_of_ridge_regression_of_the_chosen_strength(shape):
    samples = problem(shape, "squared", classes=2)
    rows = StandardScaler().fit_transform(samples.x.flatten(1).numpy())
    gram = torch.from_numpy(rows @ rows.T)
    strength = fit_ridge(gram, samples.target, samples.weight, deviations=0.1).strength
    plain = Ridge(strength).fit(rows, samples.target.numpy())
    ours = fit_linear(samples, torch.Generator())(samples.x)
    np.testing.assert_allclose(ours.numpy(), plain.predict(rows), atol=1e-9)


def test_a_class_without_a_sample_is_improbable():
    samples = problem((4, 5))
    unseen = Problem(
        samples.x, torch.cat([samples.target, torch.zeros(50, 1)], dim=1), samples.weight, "log"
    )
    outputs = fit_linear(unseen, torch.Generator())(samples.x)
    assert outputs.shape == (50, 4)
    assert torch.softmax(outputs, dim=1)[:, 3].max() < 0.01


def test_there_is_none_for_one_class_or_several_labels():
    assert fit_linear(problem((4,), classes=1), torch.Generator()) is None
    assert fit_linear(problem((4,), "binary"), torch.Generator()) is None
