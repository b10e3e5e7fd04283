"""Early stopping: which samples are held out, and that nothing is learned from them."""

import numpy as np
import pytest
import torch

from polyad import RankRClassifier, RankRRegressor

X = np.random.default_rng(0).normal(size=(80, 3, 4)).astype(np.float32)
Y = np.repeat([0, 1], [60, 20])


def parts_of(model, y):
    """Return the training and validation problems of a fit."""
    seen = {}
    solve = type(model)._run_solver

    def watched(self, network, problem, *args, **options):
        seen.update(train=problem, held=options.get("validation"))
        return solve(self, network, problem, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_run_solver", watched)
        model.fit(X, y)
    return seen["train"], seen["held"]


@pytest.mark.parametrize("kind", [RankRClassifier, RankRRegressor])
def test_no_sample_both_trains_and_validates(kind):
    train, held = parts_of(kind(hidden=3, epochs=2, early_stopping=True, random_state=0), Y)
    assert (len(train), len(held)) == (72, 8)
    every = torch.cat([train.x, held.x]).flatten(1)
    assert len(torch.unique(every, dim=0)) == 80


def test_validation_holds_every_class_in_its_share():
    for seed in range(5):
        model = RankRClassifier(hidden=3, epochs=1, early_stopping=True, random_state=seed)
        _, held = parts_of(model, Y)
        assert held.target.sum(dim=0).tolist() == [6, 2]


@pytest.mark.parametrize("unit", [10.0, 0.1, 1e-20, 1e20])
@pytest.mark.parametrize("weight", [np.ones(80), 1.0 + Y])
def test_a_linear_regression_does_not_depend_on_the_unit_of_its_weights(weight, unit):
    y = X[:, 0, 0] + 0.5 * X[:, 1, 1]
    models = [
        RankRRegressor(hidden=3, epochs=20, random_state=0).fit(X, y, sample_weight)
        for sample_weight in (weight, unit * weight)
    ]
    of_a_sample = [model.settings_["penalty"] / model._copies for model in models]
    assert of_a_sample[0] == pytest.approx(of_a_sample[1])
    np.testing.assert_allclose(models[1].predict(X), models[0].predict(X), rtol=1e-3, atol=1e-3)
