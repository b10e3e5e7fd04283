"""Superpixels: groups of like pixels, against the slow reference and by what must hold of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import ndimage

from polyad.scene.learn.scene_statistics import find_superpixels
from polyad.scene.learn.steps import node_graph, pixel_graph
from tests.scene.learn.references import find_superpixels_slow


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 7),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0, 1, 3]),
    st.integers(0, 2**16),
)
def test_superpixels_equal_those_joined_group_by_group(height, width, least, levels, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(height, width, 2))
    if levels:  # equal differences, where the order must be the same
        features = np.round(features * levels)
    valid = rng.random((height, width)) < 0.8
    fast = find_superpixels(features, least, valid)
    assert (fast == find_superpixels_slow(features, least, valid)).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 8), st.integers(0, 2**16))
def test_superpixels_are_connected_and_none_is_smaller_than_it_must_be(h, w, least, seed):
    rng = np.random.default_rng(seed)
    valid = rng.random((h, w)) < 0.9
    groups = find_superpixels(rng.normal(size=(h, w, 3)), least, valid)
    assert ((groups >= 0) == valid).all()
    region = ndimage.label(valid)[0]
    for number in range(int(groups.max()) + 1):
        inside = groups == number
        assert ndimage.label(inside)[1] == 1
        whole = region == region[inside][0]
        assert inside.sum() >= min(least, whole.sum())


def test_the_graph_of_nodes_is_that_of_pixels_where_every_pixel_is_a_node():
    features = np.random.default_rng(0).normal(size=(9, 11, 3)).astype(np.float32)
    places = np.argwhere(np.ones((9, 11), bool))
    nodes = node_graph(features.reshape(-1, 3), places, 5, 0.01, np.ones(99))
    assert_allclose(nodes.toarray(), pixel_graph(features, 5, 0.01).toarray(), atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_graph_of_fewer_nodes_than_neighbors_joins_all_of_them(count):
    features = np.random.default_rng(0).normal(size=(count, 2))
    graph = node_graph(features, np.zeros((count, 2)), 3, 0.02)
    assert graph.shape == (count, count)
    assert np.isfinite(graph.toarray()).all()
    assert graph.diagonal().sum() == 0
