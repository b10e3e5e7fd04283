"""The activation before the sum over the terms, against autograd on its formula."""

import numpy as np
import pytest
import torch

from benchmarks.activation_order import TermwiseClassifier
from polyad import RankRClassifier
from polyad.fitting.epochs import batch_slices

SETTINGS = {"hidden": 4, "random_state": 0, "epochs": 2, "batch_size": 7, "inner_steps": 3}


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 3, 2, 5)), np.arange(20) % 3


def autograd(start, x, y, rank):
    """Algorithm 1 on ``V sum_r g(<term_r, X>) + c``, by autograd, from the start of a fit."""
    factors = [f.detach().clone().unflatten(0, (-1, rank)).squeeze(2) for f in start.hidden.factors]
    v, c = start.output.weight.detach()[:, ::rank].clone(), start.output.bias.detach().clone()
    for _ in range(SETTINGS["epochs"]):
        for block in ([factors[0]], [factors[1]], [factors[2]], [v, c]):
            for rows in batch_slices(len(x), SETTINGS["batch_size"]):
                weights = [w.requires_grad_() for w in block]
                adam = torch.optim.Adam(weights, lr=5e-4)
                for _ in range(SETTINGS["inner_steps"]):
                    adam.zero_grad()
                    terms = torch.einsum("nijk,qri,qrj,qrk->nqr", x[rows], *factors)
                    outputs = terms.tanh().sum(dim=2) @ v.T + c
                    torch.nn.functional.cross_entropy(outputs, y[rows]).backward()
                    adam.step()
                for w in block:
                    w.requires_grad_(False)
    return factors, v


def test_termwise_fit_takes_the_steps_of_autograd_on_its_formula(samples):
    rank, seen = 3, {}
    model = TermwiseClassifier.paper(rank, **SETTINGS)
    network_of = model._network
    model._network = lambda problem, generator, rank: seen.setdefault(
        "start", network_of(problem, generator, rank)
    )
    solve = model._solve

    def solved(network, problem, generator, *rest, **options):
        order = torch.randperm(len(problem), generator=generator.clone_state())
        seen["problem"] = problem.take(order)
        return solve(network, problem, generator, *rest, **options)

    model._solve = solved
    model.fit(*samples)
    x, y = seen["problem"].x, seen["problem"].target.argmax(dim=1)
    factors, v = autograd(seen["start"], x, y, rank)
    for found, expected in zip(model.network_.hidden.factors, factors, strict=True):
        torch.testing.assert_close(found.detach().squeeze(1), expected.flatten(0, 1))
    torch.testing.assert_close(
        model.network_.output.weight.detach(), v.repeat_interleave(rank, dim=1)
    )


def test_with_one_term_the_activation_commutes_with_the_sum(samples):
    one, other = (kind.paper(1, **SETTINGS).fit(*samples) for kind in
                  (TermwiseClassifier, RankRClassifier))  # fmt: skip
    np.testing.assert_allclose(one.predict_proba(samples[0]), other.predict_proba(samples[0]))
