"""Prediction sets by other scores."""

import numpy as np

from benchmarks.coverage import by_class, by_mass, one_threshold


def test_the_mass_of_likelier_classes_leaves_out_the_class_itself():
    np.testing.assert_allclose(by_mass(np.array([[0.2, 0.7, 0.1]])), [[0.3, 1.0, 0.1]])


def test_thresholds_by_class_come_from_the_labels_of_the_class_alone():
    rng = np.random.default_rng(0)
    targets = np.repeat([0, 1], 20)
    own = np.where(targets == 0, 0.9, 0.6) + 0.01 * rng.random(40)
    held = {"proba": np.where(np.eye(2)[targets] == 1, own[:, None], 1 - own[:, None])}
    held["targets"] = targets
    proba = np.array([[0.7, 0.7]])  # no probabilities, but a look at both thresholds at once
    assert by_class(held, proba, 0.9).tolist() == [[False, True]]
    assert one_threshold(held, proba, 0.9, lambda p: p).tolist() == [[True, True]]
