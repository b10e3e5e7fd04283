"""A network that is fitted further begins as what it is, whatever the next batch looks like."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from polyad import RankRClassifier, RankRRegressor

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(40, 40))
X = RNG.normal(size=(120, 3, 40)) @ MIX
Y = (X[:, 0, :5].sum(axis=1) > 0).astype(int)
BOTH = pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])
SOLVERS = pytest.mark.parametrize("solver", ["joint", "alternating"])
NO_STEP = {"epochs": 1, "learning_rate": 1e-12, "weight_decay": 0.0}


def outputs(model):
    return model.predict(X) if isinstance(model, RankRRegressor) else model.decision_function(X)


@BOTH
@SOLVERS
@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_warm_start_on_a_small_batch_begins_from_the_same_function(kind, solver, n):
    model = kind(hidden=10, epochs=20, solver=solver, random_state=0, warm_start=True).fit(X, Y)
    before = outputs(model)
    seen = []
    model.set_params(**NO_STEP).fit(X[:n], Y[:n], on_epoch=lambda _, network: seen.append(network))
    assert_allclose(outputs(model), before, rtol=1e-6, atol=1e-6)
    assert seen[0].hidden.in_shape == (3, 40)


@pytest.mark.parametrize("batch", [np.zeros((4, 3, 40)), 1e4 * X[:4], X[:4] * (np.arange(40) < 2)])
def test_a_warm_start_on_an_odd_batch_begins_from_the_same_function(batch):
    model = RankRClassifier(hidden=10, epochs=20, random_state=0, warm_start=True).fit(X, Y)
    before = outputs(model)
    model.set_params(**NO_STEP).fit(batch, [0, 1, 0, 1])
    assert_allclose(outputs(model), before, rtol=1e-6, atol=1e-6)


@BOTH
@SOLVERS
@pytest.mark.parametrize(("first", "then"), [("float32", "float64"), ("float64", "float32")])
def test_later_batches_take_the_precision_of_the_network(kind, solver, first, then):
    settings = {"hidden": 4, "epochs": 3, "solver": solver, "random_state": 0, "warm_start": True}
    begun, further = X.astype(first), X.astype(then)
    for model in (
        kind(**settings).fit(begun, Y).partial_fit(further, Y).partial_fit(begun, Y),
        kind(**settings).fit(begun, Y).fit(further, Y),
    ):
        assert str(model.network_.output.weight.dtype) == f"torch.{first}"
        assert np.isfinite(outputs(model)).all()
