"""Each fast step against its slow reference, and what each step must never do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import log_softmax, softmax

from polyad import RankRClassifier
from polyad.codec import Fault
from polyad.errors import InputError, SceneMismatch
from polyad.scene.files.option_values import check_preset
from polyad.scene.learn.experts import fit_weights
from polyad.scene.learn.networks import fold_whitening, merge
from polyad.scene.learn.recipe import (
    GuidedFilter,
    Propagation,
    PropagationSettings,
    Recipe,
)
from polyad.scene.learn.steps import (
    Propagator,
    domain_transform,
    find_segments,
    guided_filter,
    make_seeds,
    pixel_graph,
    pixel_nodes,
    propagate_labels,
)
from polyad.scene.learn.whitening import (
    NoiseWhitening,
    SegmentWhitening,
    neighbor_covariance,
    segment_mean,
)
from tests.scene.learn.references import (
    build_graphs,
    domain_transform_slow,
    guided_filter_slow,
    neighbor_covariance_slow,
    propagate_labels_slow,
)


def cube(height=9, width=11, bands=5, seed=0):
    return np.random.default_rng(seed).normal(size=(height, width, bands))


def fields(height=24, width=30, bands=6, noise=1.0, seed=0):
    """Return three upright fields of different spectra and their labels."""
    rng = np.random.default_rng(seed)
    label = np.repeat([0, 1, 2], width // 3)[None].repeat(height, axis=0)
    spectra = rng.normal(0, 4, size=(3, bands))
    return spectra[label] + rng.normal(0, noise, size=(height, width, bands)), label


# -- whitening --------------------------------------------------------------------------------


@pytest.mark.parametrize("holes", [False, True])
def test_neighbor_covariance_equals_pixel_by_pixel(holes):
    z = cube()
    valid = np.ones(z.shape[:2], bool)
    if holes:
        valid[2:5, 3:7] = False
    assert_allclose(neighbor_covariance(z, valid), neighbor_covariance_slow(z, valid))


def test_whitened_noise_has_unit_variance_in_every_component():
    noisy = np.random.default_rng(0).normal(size=(80, 80, 4)) @ np.diag([1.0, 5.0, 0.1, 20.0])
    noisy[..., 1] += noisy[..., 0]  # correlated noise too
    found = NoiseWhitening(4).fit(noisy).transform(noisy).reshape(-1, 4)
    assert_allclose(np.cov(found.T), np.eye(4), atol=0.06)


def test_whitening_survives_dead_and_copied_bands():
    values, _ = fields()
    values = np.concatenate([values, values[..., :1], np.full((*values.shape[:2], 1), 7.0)], axis=2)
    assert np.isfinite(NoiseWhitening(20).fit(values).transform(values)).all()


def test_pixels_without_data_do_not_count_in_whitening():
    values, _ = fields()
    valid = np.ones(values.shape[:2], bool)
    valid[:5] = False
    spoilt = values.copy()
    spoilt[:5] = 1e6
    first, second = (NoiseWhitening(3).fit(v, valid) for v in (values, spoilt))
    assert_allclose(first.projection_, second.projection_)


def test_segment_whitening_gives_unit_variance_inside_segments():
    values, label = fields()
    found = SegmentWhitening(2).fit_segments(values, label).transform(values)
    inside = (found - segment_mean(found, label)).reshape(-1, 2)
    assert_allclose(np.cov(inside.T), np.eye(2), atol=0.02)


def test_whitening_refuses_other_bands_and_empty_scenes():
    model = NoiseWhitening().fit(cube())
    with pytest.raises(SceneMismatch, match="5 bands, got 4"):
        model.transform(cube(bands=4))
    with pytest.raises(InputError, match="two pixels"):
        NoiseWhitening().fit(cube(), np.zeros((9, 11), bool))
    with pytest.raises(InputError, match="height, width, bands"):
        NoiseWhitening().fit(np.zeros((3, 3)))


# -- filters ----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 3), st.floats(0.1, 50))
def test_domain_transform_equals_pixel_by_pixel(height, width, bands, contrast):
    z = cube(height, width, bands)
    assert_allclose(
        domain_transform(z, contrast, 20.0), domain_transform_slow(z, contrast, 20.0), atol=1e-12
    )


@settings(deadline=None, max_examples=10)
@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 3), st.integers(1, 4))
def test_guided_filter_equals_square_by_square(height, width, bands, radius):
    maps, guide = cube(height, width, 3), cube(height, width, bands, seed=1)
    assert_allclose(
        guided_filter(maps, guide, radius, 0.1),
        guided_filter_slow(maps, guide, radius, 0.1),
        atol=1e-8,
    )


def test_a_tile_with_its_halo_is_filtered_as_in_the_whole_scene():
    maps, guide = cube(40, 40, 2), cube(40, 40, 3, seed=1)
    halo = 2 * 3
    whole = guided_filter(maps, guide, radius=3)
    near = slice(15 - halo, 25 + halo)
    tile = guided_filter(maps[near, near], guide[near, near], radius=3)
    inner = slice(halo, -halo)
    assert_allclose(tile[inner, inner], whole[15:25, 15:25], atol=1e-9)


# -- segments and graph -----------------------------------------------------------------------


@pytest.mark.parametrize("bands", [1, 2, 6])
def test_segments_are_the_fields(bands):
    values, label = fields(bands=bands, noise=0.01, seed=3)
    segments = find_segments(values)
    assert {len(np.unique(segments[label == k])) for k in range(3)} == {1}
    assert len(np.unique(segments)) == 3


def test_the_graph_is_symmetric_without_loops_and_leaves_out_pixels_without_data():
    values, _ = fields()
    valid = np.ones(values.shape[:2], bool)
    valid[3, 4:9] = False
    graph = pixel_graph(values, 5, valid=valid)
    assert abs(graph - graph.T).max() < 1e-6
    assert graph.diagonal().max() == 0
    assert graph[np.flatnonzero(~valid.ravel())].nnz == 0
    with pytest.raises(InputError, match="more pixels"):
        pixel_graph(values[:1, :3], 5)


def test_propagation_equals_the_dense_matrix_pixel_by_pixel():
    values, label = fields(6, 9)
    graph = pixel_graph(values, 4)
    seeds = make_seeds(np.array([0, 31, 53]), np.array([0, 1, 2]), label.size, 3)
    assert_allclose(
        propagate_labels(graph, seeds, 0.9, 20),
        propagate_labels_slow(graph, seeds, 0.9, 20),
        atol=1e-6,
    )


def test_a_field_that_hardly_any_label_reaches_is_left_to_the_network():
    blocks = np.kron(np.eye(3), np.ones((4, 4)))  # three fields; nobody labels the last
    blocks[4, 8] = blocks[8, 4] = 1e-4  # and one thin way leads there
    degree = np.sqrt(blocks.sum(axis=1))
    graph = sparse.csr_array((blocks / degree / degree[:, None]).astype(np.float32))
    pixels, targets = np.array([[0, 0], [0, 5]]), np.array([0, 1])
    nodes = pixel_nodes(np.ones((1, 12), bool))
    smoothed, believed = (
        softmax(Propagator(settings_, [graph], nodes).log_shares(pixels, targets, 2), axis=1)
        for settings_ in (PropagationSettings(smoothing=0.03), PropagationSettings(smoothing=0.0))
    )
    assert (believed[8:, 1] > 0.99).all()
    assert (abs(smoothed[8:] - 0.5) < 0.1).all()
    assert (smoothed[[0, 1, 2, 3, 4, 5, 6, 7], [0] * 4 + [1] * 4] > 0.97).all()


def test_labels_propagate_over_their_fields_and_folds_leave_their_own_label_out():
    values, label = fields()
    settings_ = PropagationSettings(components=6, graphs=((4, 2.0), (3, 2.0)), least=5)
    graphs = build_graphs(settings_, values)
    pixels = np.array([[2, 3], [9, 5], [4, 13], [20, 15], [5, 25], [11, 24]])
    targets, nodes = label[tuple(pixels.T)], pixel_nodes(label >= 0)
    propagator = Propagator(settings_, graphs, nodes)
    found = propagator.log_shares(pixels, targets, 3).argmax(axis=1)
    assert (found == label.ravel()).mean() > 0.99
    fold = np.array([0, 1, 0, 1, 0, 1])
    held = propagator.held_out(pixels, targets, fold, 3)
    first = propagator.log_shares(pixels[1::2], targets[1::2], 3)
    assert_allclose(held[0], first[pixels[0, 0] * 30 + pixels[0, 1]], rtol=1e-4)


# -- network: ensemble, folding, calibration --------------------------------------------------


def learned(rank=2, bands=6, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 3, 3, bands)).astype(np.float32)
    y = rng.integers(0, 3, size=45)
    X[np.arange(45), 1, 1, y] += 3
    options |= {"rank": rank, "hidden": 6, "epochs": 30}
    return [RankRClassifier(random_state=k, **options).fit(X, y) for k in range(3)], X


@pytest.mark.parametrize("bias", [True, False])
def test_merged_starts_are_one_network_with_the_same_answers(bias):
    members, X = learned(hidden_bias=bias)
    one = merge(members)
    logs = np.mean([member.predict_log_proba(X) for member in members], axis=0)
    assert one.network_.hidden.out_features == 18
    assert_allclose(one.predict_proba(X), softmax(logs, axis=1), atol=1e-5)
    halved = merge(members, [0.5 / 3] * 3)
    assert_allclose(halved.predict_log_proba(X), log_softmax(0.5 * logs, axis=1), atol=1e-4)


def test_a_folded_network_answers_on_bands_as_on_components():
    values, label = fields(bands=8)
    values = 1000 + 50 * values
    whitening = NoiseWhitening(4).fit(values)
    patches = np.stack([values[4:7, x : x + 3] for x in range(27)])
    X = whitening.transform(patches) / np.float32(3.0)
    model = RankRClassifier(rank=2, hidden=5, standardize=None, random_state=0)
    model.fit(X, label[5, 1:28])
    folded = fold_whitening(model, whitening, unit=3.0)
    assert folded.sample_shape_ == (3, 3, 8)
    assert_allclose(folded.predict_proba(patches), model.predict_proba(X), atol=1e-4)


def test_without_evidence_the_prior_stays():
    even = np.zeros((4, 3))
    weights = fit_weights([even, even], np.array([0, 1, 2, 0]), [1.0, 0.2])
    assert_allclose(weights, [1.0, 0.2], rtol=0.01)


def test_a_recipe_survives_as_plain_values_and_refuses_unknown_steps():
    settings_ = PropagationSettings(neighbors=7)
    steps = (
        GuidedFilter(radius=5, ridge=0.1, mean=(1.0, 2.0), projection=((0.5,), (0.1,))),
        Propagation(settings=settings_, targets=(0, 1), weights=(1.0, 0.2)),
    )
    recipe = Recipe(preset="best", goal="this-scene", line="a > b", steps=steps)
    assert Recipe.from_json(recipe.to_json(), "recipe") == recipe
    assert (recipe.guided, recipe.propagation) == steps
    with pytest.raises(Fault, match=r"recipe.steps\[0\] must have a 'step' of 'guided', "):
        Recipe.from_data(recipe.to_data() | {"steps": [{"step": "explode"}]}, "recipe")
    with pytest.raises(Fault, match=r"recipe\.steps must differ"):
        Recipe.from_data(recipe.to_data() | {"steps": [steps[0], steps[0]]}, "recipe")
    with pytest.raises(InputError, match="paper, fast, best"):
        check_preset("fastest", "this-scene")
    with pytest.raises(InputError, match="other-scenes"):
        check_preset("best", "all")
