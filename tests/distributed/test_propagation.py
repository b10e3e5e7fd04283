"""Label propagation on a cluster: once where the command runs, then tile by tile anywhere."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyad.distributed import map_files
from polyad.distributed.maps import model_digest, open_source, plan_scene
from polyad.distributed.worker import SceneSource, TileTask, TileWork, map_tile_here
from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import packed
from polyad.scene.learn.steps import Propagator
from polyad.scene.map.mapping import MapRequest, map_file
from polyad.scene.map.tile_mapper import Mapper
from polyad.scene.raster.windows import Tile
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene
from tests.models import with_steps


def left_in(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("nodes", ["pixels", "superpixels"])
@pytest.mark.parametrize("on_cluster", [True, False])
def test_map_and_probabilities_have_the_bytes_of_one_machine(
    two_workers, best, scene_path, alone, tile, nodes, on_cluster, tmp_path
):
    model, cluster = SceneModel.load(best[nodes]), two_workers if on_cluster else None
    out, proba = tmp_path / "map.tif", tmp_path / "proba.tif"
    map_files(model, scene_path, out, cluster=cluster, probabilities=proba, tile=tile)
    assert (out.read_bytes(), proba.read_bytes()) == alone[nodes]
    assert left_in(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml", "proba.tif"]


@pytest.mark.parametrize("case", ["mask", "another light"])
def test_merged_classes_a_mask_and_another_light_give_the_bytes_of_one_machine(
    two_workers, best, scene_path, values, envi, tmp_path, case
):
    model, place, adapt = SceneModel.load(best["superpixels"]), {}, case == "another light"
    if adapt:  # the same places, so that labels propagate there as well
        brighter = np.where(values == -9, values, 2 * values + 40)
        scene_path = envi(tmp_path / "brighter.hdr", brighter)
    else:
        np.save(tmp_path / "mask.npy", np.arange(150 * 110).reshape(150, 110) % 1000 < 900)
        place = {"mask": tmp_path / "mask.npy"}
    scene = restrict_scene(open_scene(scene_path), **place)
    assert Mapper(adapt_model(model, scene, adapt), scene).propagation is not None

    def made(way, mapper, source, **more):
        out, proba = tmp_path / f"{way}.tif", tmp_path / f"{way}-p.tif"
        options = {"merge": "1+3=other", "adapt": adapt, "tile": 40, **more}
        mapper(model, source, out, probabilities=proba, **options)
        return out.read_bytes(), proba.read_bytes()

    wanted = made("alone", map_file, scene)
    assert made("here", map_files, scene_path, **place) == wanted
    assert made("there", map_files, scene_path, cluster=two_workers, **place) == wanted


def test_interrupt_while_labels_propagate_leaves_nothing(
    best, scene_path, tile, tmp_path, monkeypatch, recwarn
):
    model = replace(SceneModel.load(best["superpixels"]), cache=None)
    monkeypatch.setattr(Propagator, "log_shares", interrupt)
    interrupted_map(model, scene_path, tmp_path / "map.tif", tile)
    assert left_in(tmp_path) == []
    assert not [told for told in recwarn if told.category is PolyadWarning]


@pytest.mark.parametrize("stage", ["tiles", "propagation"])
def test_interrupt_keeps_finished_tiles_and_says_how_to_resume(
    best, scene_path, alone, tile, tmp_path, monkeypatch, stage
):
    model, out = SceneModel.load(best["superpixels"]), tmp_path / "map.tif"
    stop_after(monkeypatch, 20)
    with pytest.warns(PolyadWarning, match=r"stopped\. 20 of 266 .* same command resumes"):
        interrupted_map(model, scene_path, out, tile)
    monkeypatch.undo()
    if stage == "propagation":  # interrupted once more, before any further tile
        monkeypatch.setattr(Mapper, "propagate", interrupt)
        with pytest.warns(PolyadWarning, match=r"20 of 266 tiles are kept"):
            interrupted_map(model, scene_path, out, tile)
        monkeypatch.undo()
    assert left_in(tmp_path) == ["map.tif.tiles"]
    monkeypatch.setattr("polyad.distributed.worker.map_tile_here", counted := Counted())
    map_files(model, scene_path, out, tile=tile)
    assert counted.tiles == 246
    assert out.read_bytes() == alone["superpixels"][0]


def test_tiles_of_other_shares_are_done_again_even_after_another_interrupt(
    best, scene_path, alone, tile, tmp_path, monkeypatch
):
    """As where a machine with another number of cores rounds the shares otherwise."""
    model, out = SceneModel.load(best["superpixels"]), tmp_path / "map.tif"
    with monkeypatch.context() as patch:
        real = Mapper.propagate
        patch.setattr(Mapper, "propagate", lambda *a: replace(real(*a), weights=(9.0, 0.1)))
        stop_after(patch, 260)
        with pytest.warns(PolyadWarning, match="260 of 266"):
            interrupted_map(model, scene_path, out, tile)
    with monkeypatch.context() as patch:
        stop_after(patch, 30)
        with pytest.warns(PolyadWarning, match="30 of 266"):
            interrupted_map(model, scene_path, out, tile)
    map_files(model, scene_path, out, tile=tile)
    assert out.read_bytes() == alone["superpixels"][0]
    assert left_in(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml"]


def test_a_scene_whose_labels_cannot_propagate_does_not_stop_the_others(
    best, scene_path, values, envi, tmp_path, monkeypatch
):
    envi(tmp_path / "other.hdr", np.roll(values, 30, axis=0))
    monkeypatch.setattr("polyad.scene.map.tile_mapper.memory_budget", lambda: 1000)
    scenes = [str(scene_path), str(tmp_path / "other.hdr")]
    with (
        pytest.warns(PolyadWarning, match="used on another one"),
        pytest.raises(SceneError, match=r"1 of 2 .*\n.*label propagation of 3 classes"),
    ):
        map_files(SceneModel.load(best["pixels"]), scenes, out_dir=tmp_path / "maps", tile=50)
    assert left_in(tmp_path / "maps") == ["other.qml", "other.tif", "other.tif.aux.xml"]


def test_a_worker_with_other_pixels_is_refused(best, values, envi, scene_path, tmp_path):
    """Its network would go without the labels, or the labels with another scene."""
    model, scene = SceneModel.load(best["superpixels"]), open_scene(scene_path)
    other = open_scene(envi(tmp_path / "scene.hdr", np.roll(values, 30, axis=0)))
    tile, shares = Tile(slice(0, 9), slice(0, 9)), Mapper(model, scene).propagate()
    for here, given in ((other, shares.cut(tile)), (scene, None)):
        work = TileWork(model, (SceneSource(here, here.shape, here.dtype.str),))
        with pytest.raises(SceneMismatch, match="put the same file on every machine"):
            work.map_tile(TileTask(0, 0, tile, given))


def test_tiles_of_other_training_pixels_are_not_taken(best, model, scene_path):
    def digest(model, **training):
        changed = model.with_training(**training)
        source = open_source(scene_path)
        return plan_scene(changed, *source, Path("map.tif"), MapRequest()).digest

    large = SceneModel.load(best["superpixels"])
    (step,) = large.recipe.steps
    pixels = large.training.pixels
    moved = packed([[row, (col + 1) % 110] for row, col in pixels])
    relabeled = with_steps(large, step.model_copy(update={"targets": step.targets[::-1]}))
    kept = [digest(large), digest(large, packed_pixels=moved), digest(relabeled)]
    kept.append(digest(large, seconds=9.0))
    assert len(set(kept)) == 3
    assert kept[0] == kept[3]
    # Without propagation it makes no difference where the labels were
    changed = model.with_training(packed_pixels=moved)
    assert model_digest(model) == model_digest(changed)


def interrupt(*_):
    raise KeyboardInterrupt


def interrupted_map(model, scene_path, out, tile):
    with pytest.raises(KeyboardInterrupt):
        map_files(model, scene_path, out, tile=tile)


def stop_after(patch, tiles):
    """Interrupt the map after so many tiles."""
    counted = Counted()

    def map_tile(work, task):
        return interrupt() if counted.tiles == tiles else counted(work, task)

    patch.setattr("polyad.distributed.worker.map_tile_here", map_tile)


class Counted:
    """Map tiles, and count them."""

    tiles = 0

    def __call__(self, work, task):
        self.tiles += 1
        return map_tile_here(work, task)
