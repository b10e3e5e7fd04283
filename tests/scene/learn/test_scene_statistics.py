"""Scene statistics of large scenes: read tile by tile, with superpixels as nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose

import polyad.scene.learn.scene_statistics as module
from polyad.errors import SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import EXACT_PIXELS, PropagationSettings
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.whitening import NoiseWhitening, Strip, StripSums, StripUnits
from polyad.scene.map.mapping import map_scene
from polyad.scene.map.tile_mapper import Shares, propagated_shares
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import mask_scene
from polyad.scene.raster.windows import Tile
from tests.models import train_best

NODES = PropagationSettings.for_pixels(EXACT_PIXELS + 1)
QUICK = {"epochs": 20, "starts": 1}


def fields(height=70, width=90, bands=12, seed=0, dtype=np.float32):
    """Return a scene of noisy fields and their classes, from 1."""
    rng = np.random.default_rng(seed)
    rows, cols = np.indices((height, width))
    truth = ((rows // 25 + 2 * (cols // 30)) % 3 + 1).astype(np.uint8)
    spectra = 1000 + 150 * rng.normal(size=(4, bands))
    values = spectra[truth] + 40 * rng.normal(size=(height, width, bands))
    scene = xr.DataArray(values.astype(dtype), dims=("y", "x", "band"))
    return scene, xr.DataArray(truth, dims=("y", "x"))


def some_labels(truth, seed=0):
    pixels = np.argwhere(truth.values > 0)
    return np.random.default_rng(seed).permutation(pixels)[:90]


def assert_same(one, other):
    assert (one.nodes == other.nodes).all()
    for first, second in zip(one.graphs, other.graphs, strict=True):
        assert (first.data == second.data).all()
        assert (first.indices == second.indices).all()
        assert (first.indptr == second.indptr).all()


def test_small_scenes_have_pixels_for_nodes_and_larger_ones_superpixels():
    assert PropagationSettings.for_pixels(EXACT_PIXELS) == PropagationSettings()
    assert NODES.superpixel > 1
    scene, _ = fields()
    statistics = scene_statistics(scene)
    assert statistics.propagation == PropagationSettings()
    assert (statistics.nodes == np.arange(scene[..., 0].size).reshape(scene.shape[:2])).all()
    statistics = scene_statistics(scene, settings=NODES)
    assert statistics.graphs[0].shape[0] == statistics.nodes.max() + 1 < scene[..., 0].size / 4


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_maps_over_superpixels_agree_with_those_over_pixels_on_97_of_100(seed):
    scene, truth = fields(seed=seed)
    pixels = some_labels(truth, seed)
    maps = []
    for settings in (PropagationSettings(), NODES):
        statistics = scene_statistics(scene, settings=settings)
        model = train_best(scene, truth, pixels, statistics=statistics, **QUICK)
        assert "propagated" in model.recipe.line
        maps.append(map_scene(model, scene).values)
        assert (maps[-1] == truth.values).mean() > 0.95
    assert (maps[0] == maps[1]).mean() > 0.97


def test_statistics_are_the_same_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(module, "TILE", 32)
    scene, _ = fields()
    before = torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            made.append(scene_statistics(scene, settings=NODES))
    finally:
        torch.set_num_threads(before)
    assert_same(made[0], made[1])
    assert_same(made[0], made[2])


def test_tiles_change_little_but_the_seams(monkeypatch):
    scene, truth = fields()
    pixels = some_labels(truth)
    targets = truth.values[tuple(pixels.T)].astype(int) - 1
    found = []
    for side in (256, 32):
        monkeypatch.setattr(module, "TILE", side)
        made = scene_statistics(scene, settings=NODES)
        logs = made.propagator().log_shares(pixels, targets, 3)
        found.append(logs.argmax(axis=1)[made.nodes])
    assert (found[0] == found[1]).mean() > 0.97


def test_pixels_without_data_belong_to_no_node_and_are_not_mapped():
    scene, truth = fields()
    scene = scene.copy()
    scene[20:40, 30:60, 3] = np.nan
    statistics = scene_statistics(scene, settings=NODES)
    hole = np.zeros(truth.shape, bool)
    hole[20:40, 30:60] = True
    assert ((statistics.nodes < 0) == hole).all()
    pixels = some_labels(truth)
    pixels = pixels[~hole[tuple(pixels.T)]]
    model = train_best(scene, truth, pixels, statistics=statistics, **QUICK)
    ids = map_scene(model, scene).values
    assert ((ids == 0) == hole).all()


def test_a_mask_leaves_the_outside_without_nodes_and_tiles_without_data_are_passed(monkeypatch):
    monkeypatch.setattr(module, "TILE", 16)
    scene, _ = fields()
    mask = np.zeros((70, 90), bool)
    mask[3:30, 4:25] = True
    statistics = scene_statistics(mask_scene(scene, mask), settings=NODES)
    assert ((statistics.nodes >= 0) == mask).all()
    assert statistics.inside is not None


@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (2, 2), (3, 90)])
def test_thin_and_tiny_scenes_have_graphs(shape):
    rng = np.random.default_rng(0)
    values = rng.normal(1000, 50, (*shape, 6)).astype(np.float32)
    statistics = scene_statistics(xr.DataArray(values, dims=("y", "x", "band")), settings=NODES)
    assert statistics.nodes.shape == shape
    assert statistics.nodes.min() == 0
    assert all(np.isfinite(graph.data).all() for graph in statistics.graphs)


def test_bands_that_do_not_vary_and_whole_numbers_are_taken():
    scene, _ = fields(dtype=np.uint16)
    scene = scene.copy()
    scene[..., 4] = 7
    statistics = scene_statistics(scene, settings=NODES)
    assert statistics.nodes.max() > 100
    scene[:] = 7
    with pytest.raises(SceneError, match="all 6,300 pixels with data have the same spectrum"):
        scene_statistics(scene, settings=NODES)


def test_whitening_by_strips_in_any_order_equals_that_of_the_whole():
    rng = np.random.default_rng(0)
    cube = rng.normal(3000, 200, (22, 30, 8)).astype(np.float32)
    cube += np.linspace(0, 4000, 22, dtype=np.float32)[:, None, None]  # strips differ
    cube[..., 2] = 5.0
    valid = rng.random((22, 30)) < 0.9
    strips = [Strip(cube[k : k + 9], valid[k : k + 9], min(8, 22 - k)) for k in (8, 16, 0)]
    units = StripUnits.of(strips[0])
    by_strips = NoiseWhitening(3).fit_sums(StripSums.of(strip, units) for strip in strips)
    whole = NoiseWhitening(3).fit(cube, valid)
    assert_allclose(by_strips.mean_, whole.mean_, rtol=1e-6)
    assert_allclose(by_strips.scale_, whole.scale_, rtol=1e-5)
    assert_allclose(by_strips.covariance_, whole.covariance_, atol=1e-5)
    assert_allclose(by_strips.ratio_, whole.ratio_, rtol=1e-4)


def test_noise_of_wide_strips_is_summed_few_rows_at_a_time_without_a_difference(monkeypatch):
    scene, _ = fields()
    scene = scene.copy()
    scene[3:6] = np.nan  # whole rows of a strip
    scene[20, 5:50, 2] = np.nan
    whole = scene_statistics(scene, settings=NODES).whitening
    monkeypatch.setattr(module, "STRIP_BYTES", 4 * 90 * 12)
    by_rows = scene_statistics(scene, settings=NODES).whitening
    assert_allclose(by_rows.mean_, whole.mean_, rtol=1e-6)
    assert_allclose(by_rows.covariance_, whole.covariance_, atol=1e-5)
    assert_allclose(by_rows.ratio_, whole.ratio_, rtol=1e-4)


def test_noise_of_a_scene_with_little_data_is_read_in_few_rounds(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_PIXELS", 2_000)
    cube = fields(height=1600, width=40)[0].copy()
    cube[:, 2:] = np.nan
    scene = Scene.of(cube)
    rounds = []

    def run(function, shared, tasks):
        tasks = list(tasks)
        rounds.append(len(tasks))
        return (function(scene, shared, task) for task in tasks)

    NoiseWhitening().fit_sums(module._noise_sums(scene, lambda *_: None, run))
    assert sum(rounds) == 125  # strips of 8 x 2 pixels with data
    assert len(rounds) < 6


def test_strips_are_read_until_there_is_enough_data(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_PIXELS", 300)
    scene, _ = fields(height=200)
    scene = scene.copy()
    scene[:180] = np.nan
    statistics = scene_statistics(scene, settings=NODES)
    assert_allclose(statistics.whitening.mean_, scene[180:].mean(("y", "x")), rtol=0.05)


def test_progress_rises_to_one_and_names_its_stages(monkeypatch):
    monkeypatch.setattr(module, "TILE", 16)
    told = []
    scene_statistics(
        fields()[0], settings=NODES, progress=lambda stage, share: told.append((stage, share))
    )
    assert list(dict.fromkeys(stage for stage, _ in told)) == list(module.STAGES)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert_allclose(shares[-1], 1.0)
    assert sum(stage == "superpixels" for stage, _ in told) >= 3


@pytest.mark.parametrize("stage", list(module.STAGES))
def test_a_check_that_raises_ends_the_work_in_any_stage(stage):
    class Ended(Exception):
        pass

    seen = []

    def check():
        if seen[-1] == stage:
            raise Ended

    with pytest.raises(Ended):
        scene_statistics(
            fields()[0],
            settings=NODES,
            progress=lambda name, share: seen.append(name),
            check=check,
        )
    assert seen[-1] == stage


def test_a_scene_whose_graphs_do_not_fit_is_refused_with_the_remedy():
    with pytest.raises(
        SceneError, match=r"graphs of the whole scene .* --goal other-scenes or .* fast$"
    ):
        scene_statistics(fields()[0], settings=NODES, max_bytes=100_000)


def test_a_model_file_of_superpixels_maps_as_the_model_did(tmp_path):
    scene, truth = fields()
    statistics = scene_statistics(scene, settings=NODES)
    model = train_best(scene, truth, some_labels(truth), statistics=statistics, **QUICK)
    model.save(tmp_path / "m.polyad")
    again = SceneModel.load(tmp_path / "m.polyad")
    assert again.recipe.propagation.settings.superpixel == 4
    first, second = (map_scene(m, scene, probabilities=True) for m in (model, again))
    assert (first[0].values == second[0].values).all()
    assert_allclose(first[1].values, second[1].values, atol=1e-5)


def test_the_shares_of_a_tile_can_be_cut_out():
    scene, truth = fields()
    scene = scene.copy()
    scene[:5] = np.nan
    statistics = scene_statistics(scene, settings=NODES)
    pixels = some_labels(truth)
    model = train_best(scene, truth, pixels, statistics=statistics, **QUICK)
    shares = propagated_shares(model, Scene.of(scene), model.recipe.steps[0])
    rng = np.random.default_rng(0)
    for tile in (Tile(slice(2, 20), slice(7, 40)), Tile(slice(0, 5), slice(0, 9))):
        proba = rng.dirichlet(np.ones(3), tile.shape).astype(np.float32)
        proba[statistics.nodes[tile] < 0] = np.nan
        cut = shares.cut(tile)
        assert isinstance(cut, Shares)
        assert len(cut.logs) <= tile.shape[0] * tile.shape[1]
        assert_allclose(cut.combined(proba), shares.at(tile).combined(proba))
