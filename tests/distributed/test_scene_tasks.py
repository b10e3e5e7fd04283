"""What is learned of a whole scene is learned by the workers, with the bits of one machine."""

import os
import signal
from contextlib import closing
from dataclasses import replace

import pytest

from polyad.distributed import map_files
from polyad.distributed.worker import SceneSource, TileWork, run_on_cluster
from polyad.errors import ClusterError, SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import EXACT_PIXELS, PropagationSettings
from polyad.scene.learn.scene_statistics import graph_statistics
from polyad.scene.map.tile_mapper import scene_digest
from polyad.scene.raster.scene import Scene
from polyad.scene.read.scenes import open_scene

NODES = PropagationSettings.for_pixels(EXACT_PIXELS + 1)


@pytest.fixture
def work(best, scene_path):
    scene = open_scene(scene_path)
    source = SceneSource(str(scene_path), scene.shape, scene.dtype.str)
    return TileWork(SceneModel.load(best["superpixels"]), (source,))


@pytest.fixture
def run(two_workers, work):
    return run_on_cluster(two_workers, work, 0)


def test_answers_come_in_the_order_of_the_tasks_whoever_is_first(run):
    def rows_of(scene, factor, task):
        import time

        time.sleep(0.05 * (task == 0))
        return factor * task, scene.shape

    assert list(run(rows_of, 10, range(12))) == [(10 * k, (150, 110, 12)) for k in range(12)]


@pytest.mark.parametrize(
    ("error", "wanted", "said"),
    [
        (SceneError("no such band"), SceneError, "^no such band$"),
        (ZeroDivisionError("oh"), ClusterError, r"failed to read .*scene\.hdr: ZeroDivisionError"),
    ],
)
def test_an_error_of_a_worker_comes_with_a_sentence(run, error, wanted, said):
    def fails(scene, shared, task):
        raise shared

    with pytest.raises(wanted, match=said):
        list(run(fails, error, range(3)))


def test_whoever_stops_early_takes_no_further_task(run):
    taken = []

    def tasks():
        for k in range(1000):
            taken.append(k)
            yield k

    def same(scene, shared, task):
        return task

    with closing(run(same, None, tasks())) as answers:
        assert next(answers) == 0
    assert len(taken) < 50


def test_a_worker_that_dies_costs_its_task_some_time_and_nothing_else(run, tmp_path):
    def dies_once(scene, mark, task):
        if task == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    assert list(run(dies_once, tmp_path / "dead", range(8))) == list(range(8))
    assert (tmp_path / "dead").exists()


def test_statistics_of_workers_have_the_bits_of_one_machine(run, work, monkeypatch):
    scene = work.mapper(0).scene
    here = graph_statistics(scene, NODES)
    digest = scene_digest(scene)
    read = []
    real = Scene.read
    monkeypatch.setattr(Scene, "read", lambda *a: read.append("strip") or real(*a))
    there = graph_statistics(scene, NODES, run=run)
    assert scene_digest(scene, run) == digest
    assert read == ["strip"]  # the first one, for its units; all else is read by workers
    assert (here.whitening.projection_ == there.whitening.projection_).all()
    assert (here.nodes == there.nodes).all()
    assert (here.nodes.min(), here.nodes.max() + 1) == (-1, here.graphs[0].shape[0])
    for one, other in zip(here.graphs, there.graphs, strict=True):
        assert (one.data == other.data).all()
        assert (one.indices == other.indices).all()


def test_a_map_without_kept_shares_has_the_bytes_of_one_machine(
    two_workers, best, scene_path, alone, tile, tmp_path
):
    model = replace(SceneModel.load(best["superpixels"]), cache=None)
    map_files(model, scene_path, tmp_path / "map.tif", cluster=two_workers, tile=tile)
    assert (tmp_path / "map.tif").read_bytes() == alone["superpixels"][0]


def test_a_scene_that_a_worker_cannot_read_is_named(two_workers, work, tmp_path):
    gone = replace(work, sources=(work.sources[0]._replace(location=str(tmp_path / "no.hdr")),))
    run = run_on_cluster(two_workers, gone, 0)
    with pytest.raises(SceneError, match=r"no\.hdr.*a disk that all of them share"):
        list(run(lambda scene, shared, task: task, None, range(2)))
