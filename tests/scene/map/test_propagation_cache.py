"""What labels propagate to is cached for this user, and nothing beside a model is trusted."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import load_file, save_file

import polyad
from polyad.scene.map import tile_mapper as mapper
from polyad.scene.map.tile_mapper import read_cache, scene_digest, write_cache
from polyad.scene.raster.scene import Scene
from tests.scene.learn.test_presets import make_scene

NODES = np.array([[0, 1, -1], [1, 2, 2]], np.int32)
LOGS = np.log(np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], np.float32))


@pytest.fixture(scope="module")
def trained() -> tuple[xr.DataArray, Any]:
    scene, labels = make_scene()
    model = polyad.train(scene, labels, preset="best", samples_per_class=5)
    assert model.recipe.propagation is not None
    return scene, model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "propagation"


@pytest.fixture
def saved(
    trained: tuple[xr.DataArray, Any], tmp_path: Path, folder: Path
) -> tuple[xr.DataArray, Any]:
    """A scene, and its model as a later process finds it."""
    scene, model = trained
    model.save(tmp_path / "model.polyad")
    polyad.scene.cache_propagation(model, scene)
    assert len(list(folder.iterdir())) == 1
    return scene, polyad.SceneModel.load(tmp_path / "model.polyad")


def no_graphs(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("graphs were built")


def test_a_map_of_the_training_scene_builds_no_graphs(
    saved: tuple[xr.DataArray, Any],
    trained: tuple[xr.DataArray, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, model = saved
    monkeypatch.setattr(mapper, "graph_statistics", no_graphs)
    cached = polyad.map_scene(model, scene, probabilities=True)[1]
    fresh = polyad.map_scene(trained[1], scene, probabilities=True)[1]
    np.testing.assert_array_equal(cached.values, fresh.values)


def test_a_forged_cache_sent_with_a_model_changes_nothing(
    saved: tuple[xr.DataArray, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, model = saved
    expected = polyad.map_scene(model, scene).values
    (file,) = folder.iterdir()
    arrays = load_file(file)
    received = tmp_path / "received"
    for place in (received, received / "model.polyad.cache", received / "propagation"):
        place.mkdir()
        save_file(arrays | {"logs": arrays["logs"][:, ::-1].copy()}, place / file.name)
    model.save(received / "model.polyad")
    monkeypatch.setenv("POLYAD_CACHE", str(tmp_path / "of another user"))
    monkeypatch.chdir(received)
    mapped = polyad.map_scene(polyad.SceneModel.load("model.polyad"), scene)
    np.testing.assert_array_equal(mapped.values, expected)


def test_another_value_or_mask_is_another_scene(trained: tuple[xr.DataArray, Any]) -> None:
    scene, _ = trained
    values, inside = scene.values.copy(), np.ones(scene.shape[:2], bool)
    values[7, 11, 3] += 1
    inside[:3] = False
    known = scene_digest(Scene.of(scene))
    assert known == scene_digest(Scene.of(scene.copy()))
    assert known != scene_digest(Scene.of(scene.copy(data=values)))
    assert known != scene_digest(Scene.of(polyad.scene.mask_scene(scene, inside)))


@pytest.mark.usefixtures("folder")
def test_log_shares_come_back_as_they_were_written() -> None:
    write_cache("k", NODES, LOGS)
    found = read_cache("k", (2, 3), 2)
    assert found is not None
    np.testing.assert_array_equal(found[0], NODES)
    np.testing.assert_array_equal(found[1], LOGS)
    for shape, classes in (((3, 2), 2), ((2, 3), 3)):
        assert read_cache("k", shape, classes) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"nodes": np.where(NODES == 2, 3, NODES)},
        {"nodes": np.where(NODES == 2, -2, NODES)},
        {"logs": np.where(LOGS < -2, np.nan, LOGS)},
        {"logs": LOGS - 100},
        {"logs": LOGS[:0]},
    ],
    ids=str,
)
def test_damaged_values_count_as_none(folder: Path, damage: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    save_file({"nodes": NODES, "logs": LOGS} | damage, folder / "k.safetensors")
    assert read_cache("k", (2, 3), 2) is None


def test_damaged_files_count_as_none(folder: Path) -> None:
    write_cache("k", NODES, LOGS)
    whole = (folder / "k.safetensors").read_bytes()
    for damaged in (b"", b"PK\x03\x04", whole[:-3]):
        (folder / "k.safetensors").write_bytes(damaged)
        assert read_cache("k", (2, 3), 2) is None


def test_files_used_longest_ago_give_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cache("first", NODES, LOGS)
    size = (folder / "first.safetensors").stat().st_size
    monkeypatch.setattr(mapper, "CACHE_BYTES", 2 * size + 20)
    write_cache("second", NODES, LOGS)
    for age, name in enumerate(("second", "first")):
        os.utime(folder / f"{name}.safetensors", (age, age))
    assert read_cache("second", (2, 3), 2) is not None
    write_cache("third", NODES, LOGS)
    assert sorted(p.stem for p in folder.iterdir()) == ["second", "third"]


def test_a_cache_that_cannot_be_written_is_left_out(folder: Path) -> None:
    folder.parent.write_text("a file where the folder should be")
    write_cache("k", NODES, LOGS)
    assert read_cache("k", (2, 3), 2) is None
    assert folder.parent.read_text() == "a file where the folder should be"
