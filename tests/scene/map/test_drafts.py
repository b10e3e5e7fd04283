import numpy as np
import pytest
import torch

from polyad.scene.learn import steps
from polyad.scene.learn.recipe import PropagationSettings
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.steps import filtered, guided_filter
from polyad.scene.learn.training import PropagatedLabels, fit_draft
from polyad.scene.map.mapping import map_scene
from polyad.scene.map.tile_mapper import DraftMapper, Shares
from polyad.scene.raster.windows import Tile
from polyad.scene.read.scenes import open_known, open_known_labels
from tests.models import train_best

HEIGHT, WIDTH = 60, 70
SUPERPIXELS = PropagationSettings(
    superpixel=4, neighbors=3, nearness=0.02, alpha=0.97, iterations=50
)


@pytest.fixture(scope="module")
def work():
    """Return a crop of Indian Pines with some labels, and its statistics with components."""
    crop = {"y": slice(0, HEIGHT), "x": slice(0, WIDTH)}
    scene = open_known("indian-pines").isel(crop).copy()
    scene.values[3:6, 4:9] = 0
    scene = scene.rio.write_nodata(0)
    truth = open_known_labels("indian-pines").isel(crop)
    rng, labels = np.random.default_rng(0), truth.copy(data=np.zeros_like(truth.values))
    for value in np.unique(truth.values[truth.values > 0]):
        where = rng.permutation(np.argwhere(truth.values == value))[:8]
        labels.values[tuple(where.T)] = value
    statistics = scene_statistics(scene, settings=SUPERPIXELS, keep_components=True)
    return scene, truth, labels, statistics


@pytest.fixture(scope="module")
def final(work):
    scene, _, labels, statistics = work
    pixels = np.argwhere(labels.values > 0)
    return train_best(scene, labels, pixels, statistics=statistics, starts=1)


def propagated(labels, statistics):
    pixels = np.argwhere(labels.values > 0)
    class_ids = labels.values[tuple(pixels.T)].astype(int)
    return pixels, class_ids, PropagatedLabels(statistics).log_shares(pixels, class_ids)


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("with_shares", [False, True])
def test_a_strided_draft_equals_the_full_one_at_its_pixels(work, stride, with_shares):
    _, _, labels, statistics = work
    model = fit_draft(statistics, labels)
    shares = None
    if with_shares:
        shares = Shares(statistics.nodes, propagated(labels, statistics)[2], (1.0, 0.2))
    mapper = DraftMapper(model, statistics, shares)
    for rows, cols in (((0, HEIGHT), (0, WIDTH)), ((12, 41), (24, 70))):
        tile = Tile(slice(*rows), slice(*cols))
        full, every = mapper.probabilities(tile), mapper.probabilities(tile, stride)
        np.testing.assert_allclose(every, full[::stride, ::stride], atol=2e-6)


def test_a_draft_is_the_same_whatever_the_tiles(work, final):
    _, _, labels, statistics = work
    for last in (None, final):
        mapper = DraftMapper(fit_draft(statistics, labels, last=last), statistics)
        whole = mapper.probabilities(Tile(slice(0, HEIGHT), slice(0, WIDTH)))
        tile = Tile(slice(10, 33), slice(40, 70))
        np.testing.assert_allclose(mapper.probabilities(tile), whole[tile], atol=1e-5)


def test_a_draft_of_a_plain_window_equals_patch_by_patch(work):
    _, _, labels, statistics = work
    model = fit_draft(statistics, labels)
    proba = DraftMapper(model, statistics).probabilities(Tile(slice(0, HEIGHT), slice(0, WIDTH)))
    values = statistics.components.view(("whitened",)).astype(np.float32)
    patch = values[20:25, 30:35][None]
    np.testing.assert_allclose(proba[22, 32], model.estimator.predict_proba(patch)[0], atol=1e-5)
    assert np.isnan(proba[4, 5]).all()


def test_a_draft_agrees_with_the_final_map_on_most_pixels(work, final):
    scene, _, labels, statistics = work
    model = fit_draft(statistics, labels, last=final)
    assert model.training.choice == final.training.choice
    step = final.recipe.propagation
    shares = None
    if step is not None:
        logs = propagated(labels, statistics)[2]
        shares = Shares(statistics.nodes, logs, step.weights)
    mapper = DraftMapper(model, statistics, shares)
    proba = mapper.probabilities(Tile(slice(0, HEIGHT), slice(0, WIDTH)))
    ids = np.array([c.value for c in model.classes])[np.nan_to_num(proba).argmax(axis=-1)]
    wanted = map_scene(final, scene).values
    assert (ids == wanted)[wanted > 0].mean() > 0.9


def test_labels_propagated_class_by_class_are_those_propagated_together(work):
    _, _, labels, statistics = work
    pixels, class_ids, logs = propagated(labels, statistics)
    targets = np.unique(class_ids, return_inverse=True)[1]
    together = statistics.propagator().log_shares(pixels, targets, logs.shape[1])
    np.testing.assert_allclose(logs, together, atol=1e-4)


def test_a_click_propagates_the_labels_of_its_class_alone(work, monkeypatch):
    _, truth, labels, statistics = work
    pixels = np.argwhere(labels.values > 0)
    class_ids = labels.values[tuple(pixels.T)].astype(int)
    kept, fresh = PropagatedLabels(statistics), PropagatedLabels(statistics)
    kept.log_shares(pixels, class_ids)
    columns, real = [], steps.propagate_labels

    def spy(graph, seeds, *options):
        columns.append(seeds.shape[1])
        return real(graph, seeds, *options)

    monkeypatch.setattr(steps, "propagate_labels", spy)
    new = np.argwhere((truth.values == class_ids[0]) & (labels.values == 0))[:1]
    more = np.concatenate([pixels, new]), np.append(class_ids, class_ids[0])
    logs = kept.log_shares(*more)
    assert columns == [1] * len(statistics.graphs)
    np.testing.assert_allclose(logs, fresh.log_shares(*more), atol=1e-4)


def test_an_ended_propagation_leaves_what_was_known(work):
    _, _, labels, statistics = work
    pixels = np.argwhere(labels.values > 0)
    class_ids = labels.values[tuple(pixels.T)].astype(int)
    kept = PropagatedLabels(statistics)
    first = kept.log_shares(pixels, class_ids)

    def end():
        raise KeyError

    with pytest.raises(KeyError):
        kept.log_shares(pixels[1:], class_ids[1:], end)
    np.testing.assert_array_equal(kept.log_shares(pixels, class_ids, end), first)


def test_components_do_not_change_what_else_is_learned(work):
    scene, _, _, statistics = work
    other = scene_statistics(scene, settings=SUPERPIXELS)
    assert other.components is None
    np.testing.assert_array_equal(other.nodes, statistics.nodes)
    assert (other.graphs[0] != statistics.graphs[0]).nnz == 0
    kept = statistics.components
    spectra = scene.values[20, 30].astype(float)
    for name, view in (("whitened", statistics.whitening), ("plain", statistics.plain)):
        stored = kept.view((name,))[20, 30].astype(np.float32)
        wanted = view.transform(spectra)[: len(stored)]
        np.testing.assert_allclose(stored, wanted, rtol=2e-3, atol=2e-2)
    assert not kept.values[4, 5].any()


def test_the_guided_filter_in_single_precision_is_near_that_in_double():
    rng = np.random.default_rng(0)
    maps, guide = rng.random((23, 31, 4)), rng.normal(size=(23, 31, 3))
    for radius in (1, 5):
        quick = filtered(
            torch.from_numpy(maps).float(), torch.from_numpy(guide).float(), radius, 0.01
        )
        np.testing.assert_allclose(quick, guided_filter(maps, guide, radius, 0.01), atol=1e-4)
