"""The ideas of the ablation: the base row is the package's, and each idea does what it says."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from benchmarks import ideas as script
from benchmarks import ideas_networks as ideas
from polyad import RankRClassifier
from polyad.scene import extract_patches


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    centers = rng.normal(size=(3, 1, 1, 8))
    X = centers[y] + rng.normal(size=(36, 5, 5, 8))
    return X.astype(np.float32), y


def test_base_row_is_the_classifier_of_the_package(samples):
    X, y = samples
    model = RankRClassifier(standardize=None, weight_decay=0.3, random_state=7).fit(X, y)
    task = ideas.Task.of(X, y, X, 0.3, 7)
    start = ideas.cp_start(task)
    net, steps = ideas.descend(start, task)
    assert steps == model.n_iter_
    assert net.n_weights == model.network_.n_weights
    proba = torch.softmax(net.logits(net.hidden(task.test)), dim=1).detach().numpy()
    assert_allclose(proba, model.predict_proba(X), atol=1e-3)


def test_base_row_is_the_classifier_of_the_package_on_indian_pines():
    scene = script.Scene.open(*("indian-pines",) * 3)
    (split,) = scene.splits("other-fields-10", 0)
    task, classes, true = scene.task(split, 0)
    name, _, predicted, _, steps = next(script.fits(task, {}))
    y = scene.labels[tuple(split.train.T)]
    windows = extract_patches(scene.cube, *split.train.T, 5)
    decay = scene.expert.decay(len(y))
    model = RankRClassifier(standardize=None, weight_decay=decay, random_state=0)
    model.fit(windows / windows.std(), y)
    known = split.test[np.isin(scene.labels[tuple(split.test.T)], classes)]
    expected = model.predict(extract_patches(scene.cube, *known.T, 5) / windows.std())
    assert name == "base: rank 1"
    assert abs(steps - model.n_iter_) <= 1  # rounding may cost a step
    assert (classes[predicted] == expected).mean() > 0.998
    assert_allclose((classes[predicted] == true).mean(), (expected == true).mean(), atol=1e-3)


@pytest.mark.parametrize("kind", ideas.PAIRS)
def test_pairs_start_at_the_deviation_of_the_package_with_as_many_weights(samples, kind):
    task = ideas.Task.of(*samples, samples[0], 0.1, 0)
    base = ideas.cp_start(task)
    net = ideas.pair_start(task, kind)
    weight = net.dense(net.parameters).detach().flatten(1)
    before = task.problem.x.flatten(1) @ weight.T
    assert_allclose(before.square().mean().sqrt(), 0.1, rtol=1e-3)
    assert_allclose(net.n_weights, base.n_weights, rtol=0.1)


def test_pairs_of_full_matrices_see_averages_over_the_third_mode(samples):
    task = ideas.Task.of(*samples, samples[0], 0.1, 0)
    net, x = ideas.pair_start(task, "full"), task.problem.x
    ik, jk, ij = (matrix.detach() for matrix in net.parameters)
    terms = [("nik,qik->nq", x.mean(2), ik), ("njk,qjk->nq", x.mean(1), jk)]
    terms.append(("nij,qij->nq", x @ task.means[2], ij))
    before = x.flatten(1) @ net.dense([ik, jk, ij]).flatten(1).T
    assert_allclose(before, sum(torch.einsum(*term) for term in terms), rtol=1e-3, atol=1e-5)


def test_pull_is_nothing_where_every_sample_lies_on_its_mean():
    hidden, target = torch.eye(3).repeat(2, 1), torch.arange(3).repeat(2)
    assert float(ideas.pull(1.0, 0.5)(None, hidden, target)) == pytest.approx(0, abs=1e-6)
    assert float(ideas.pull(1.0, 1.5)(None, hidden, target)) == pytest.approx(0.5, abs=1e-6)


def test_pruned_terms_stay_away_in_the_refit(samples):
    task = ideas.Task.of(*samples, samples[0], 0.1, 0)
    start = ideas.cp_start(task, 10, 2)
    with torch.no_grad():
        start.parameters[0][:, 1] *= 1e-3
    fitted, _ = ideas.descend(ideas.pruned(start, start), task)
    assert (fitted.parameters[0][:, 1] == 0).all()
    assert fitted.n_weights == ideas.cp_start(task, 10, 1).n_weights


def test_table_shows_the_paired_difference_and_the_chosen_setting_is_the_best_one():
    def record(seed, method, oa, setting=()):
        head = {"scene": "made", "protocol": "random-10", "seed": seed, "method": method}
        return head | {"setting": setting, "oa": oa, "macro_f1": oa, "n_weights": 9, "steps": 5}

    shown = [
        record(s, m, 0.5 + s / 10 + gain) for s in (0, 1) for m, gain in (("a", 0), ("b", 0.2))
    ]
    table = script.parts([*shown, record(100, "a", 0.0)])["oa"]
    assert "| a | 55.0 ± 7.1 |" in table
    assert "| b | 75.0 ± 7.1 (+20.0 ± 0.0) |" in table
    tried = [record(100, m, s[0], s) for m, grid in script.GRIDS.items() for s in grid]
    assert script.choose(tried)[script.LASSO][0][0] == 1.0
