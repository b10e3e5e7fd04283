"""Losses, their gradients, and the scores of a problem."""

import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, r2_score
from torch.testing import assert_close

from polyad.fitting.problem import LOSSES, Problem


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_by_the_outputs_is_link_minus_target(loss, problem_of):
    problem = problem_of(loss=loss)
    outputs = torch.randn(
        problem.target.shape, dtype=torch.float64, requires_grad=True, generator=torch.Generator()
    )
    LOSSES[loss].value(outputs, problem.target).sum().backward()
    assert_close(outputs.grad, LOSSES[loss].link(outputs.detach()) - problem.target)


def test_mean_loss_and_accuracy_are_those_of_scikit_learn(problem_of):
    problem = problem_of(n=50)
    outputs = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator())
    truth, weight = problem.target.argmax(dim=1).numpy(), problem.weight.numpy()
    expected = log_loss(truth, torch.softmax(outputs, 1).numpy(), sample_weight=weight)
    assert problem.mean_loss(outputs) == pytest.approx(expected)
    expected = accuracy_score(truth, outputs.argmax(dim=1).numpy(), sample_weight=weight)
    assert problem.score(outputs) == pytest.approx(expected)


def test_score_of_a_regression_is_that_of_scikit_learn(problem_of):
    problem = problem_of(n=50, n_outputs=1, loss="squared")
    outputs = problem.target + 0.1 * torch.randn(
        50, 1, dtype=torch.float64, generator=torch.Generator()
    )
    expected = r2_score(
        problem.target.numpy(), outputs.numpy(), sample_weight=problem.weight.numpy()
    )
    assert problem.score(outputs) == pytest.approx(expected)


def test_weights_count_as_repetitions(problem_of):
    problem = problem_of()
    twice = Problem(problem.x, problem.target, torch.full((20,), 2.0, dtype=torch.float64), "log")
    repeated = problem.take(torch.arange(20).repeat(2))
    repeated = Problem(repeated.x, repeated.target, torch.ones(40, dtype=torch.float64), "log")
    outputs = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator())
    assert twice.mean_loss(outputs) == pytest.approx(2 * repeated.mean_loss(outputs.repeat(2, 1)))
    assert twice.score(outputs) == pytest.approx(repeated.score(outputs.repeat(2, 1)))
