"""Steps against formulas written out once more, where the slow reference shares what it tests."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from polyad.scene.learn.steps import (
    domain_transform,
    pixel_graph,
)


def test_two_pixels_are_smoothed_by_the_weight_of_the_paper():
    """Gastal & Oliveira (2011), Eqs. 21 and 14, for one row of two pixels of two bands."""
    cube = np.array([[[0.0, 1.0], [2.0, 4.0]]])
    contrast, reach = 3.0, 7.0
    distance = 1 + reach / contrast * (2 + 3)
    wanted = cube.copy()
    for k in range(2):
        sigma = reach * np.sqrt(3) * 2 ** (2 - (k + 1)) / np.sqrt(4**2 - 1)
        a = np.exp(-np.sqrt(2) / sigma) ** distance
        wanted[0, 1] += a * (wanted[0, 0] - wanted[0, 1])
        wanted[0, 0] += a * (wanted[0, 1] - wanted[0, 0])
    assert_allclose(domain_transform(cube, contrast, reach, passes=2), wanted)
    upright = domain_transform(cube.swapaxes(0, 1), contrast, reach, passes=2)
    assert_allclose(upright.swapaxes(0, 1), wanted)


def graph_slowly(features, neighbors, nearness):
    """Return the matrix S of `pixel_graph`, pair by pair."""
    height, width, _ = features.shape
    flat = features.reshape(height * width, -1)
    unit = np.sqrt(sum(np.var(flat[:, k]) for k in range(flat.shape[1])))
    places = [(i, j) for i in range(height) for j in range(width)]
    count = len(places)
    far = np.zeros((count, count))
    for p in range(count):
        for q in range(count):
            value = ((flat[p] - flat[q]) ** 2).sum() / unit**2
            place = (places[p][0] - places[q][0]) ** 2 + (places[p][1] - places[q][1]) ** 2
            far[p, q] = np.sqrt(value + nearness**2 * place)
    graph = np.zeros((count, count))
    for p in range(count):
        nearest = np.argsort(far[p])[1 : neighbors + 1]  # the first is the pixel itself
        graph[p, nearest] = np.exp(-(far[p, nearest] ** 2) / far[p, nearest[-1]] ** 2)
    graph = np.maximum(graph, graph.T)
    degree = graph.sum(axis=1)
    return graph / np.sqrt(degree[:, None] * degree[None, :])


@pytest.mark.parametrize("nearness", [0.01, 0.5])
def test_graph_equals_that_found_pair_by_pair(nearness):
    features = np.random.default_rng(0).normal(size=(4, 5, 3)) * [1.0, 2.0, 5.0]
    found = pixel_graph(features, 4, nearness).toarray()
    assert_allclose(found, graph_slowly(features, 4, nearness), atol=1e-6)
