"""What label propagation gave is kept beside the model, and never trusted blindly."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import save_file

import polyad
from polyad.scene.map import mapper
from polyad.scene.map.mapper import read_cache, scene_digest, write_cache
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
def saved(trained: tuple[xr.DataArray, Any], tmp_path: Path) -> tuple[xr.DataArray, Any, Path]:
    """A scene, its model as a later process finds it, and the folder of the cache."""
    scene, model = trained
    path = tmp_path / "model.polyad"
    model.save(path)
    polyad.scene.keep_shares(model, scene, path)
    return scene, polyad.SceneModel.load(path), tmp_path / "model.polyad.cache"


def no_graphs(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("graphs were built")


def test_a_map_of_the_training_scene_builds_no_graphs(
    saved: tuple[xr.DataArray, Any, Path],
    trained: tuple[xr.DataArray, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, model, folder = saved
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(mapper, "graph_statistics", no_graphs)
    kept = polyad.map_scene(model, scene, probabilities=True)[1]
    fresh = polyad.map_scene(trained[1], scene, probabilities=True)[1]
    np.testing.assert_array_equal(kept.values, fresh.values)


def test_the_first_map_fills_a_cache_that_was_removed(
    saved: tuple[xr.DataArray, Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, model, folder = saved
    (file,) = folder.iterdir()
    file.unlink()
    folder.rmdir()
    first = polyad.map_scene(model, scene)
    monkeypatch.setattr(mapper, "graph_statistics", no_graphs)
    np.testing.assert_array_equal(polyad.map_scene(model, scene).values, first.values)


def test_another_value_in_one_pixel_is_another_scene(trained: tuple[xr.DataArray, Any]) -> None:
    scene, _ = trained
    values = scene.values.copy()
    values[7, 11, 3] += 1
    assert scene_digest(Scene.of(scene)) == scene_digest(Scene.of(scene.copy()))
    assert scene_digest(Scene.of(scene)) != scene_digest(Scene.of(scene.copy(data=values)))


def test_a_masked_scene_is_another_scene(trained: tuple[xr.DataArray, Any]) -> None:
    scene, _ = trained
    inside = np.ones(scene.shape[:2], bool)
    inside[:3] = False
    assert scene_digest(Scene.of(scene)) != scene_digest(
        Scene.of(polyad.scene.mask_scene(scene, inside))
    )


def test_shares_come_back_as_they_were_written(tmp_path: Path) -> None:
    assert write_cache(tmp_path / "c", "k", NODES, LOGS)
    found = read_cache(tmp_path / "c", "k", (2, 3), 2)
    assert found is not None
    np.testing.assert_array_equal(found[0], NODES)
    np.testing.assert_array_equal(found[1], LOGS)


@pytest.mark.parametrize(("shape", "classes"), [((3, 2), 2), ((2, 3), 3), ((1, 1), 2)])
def test_shares_of_another_shape_are_not_read(
    tmp_path: Path, shape: tuple[int, int], classes: int
) -> None:
    write_cache(tmp_path / "c", "k", NODES, LOGS)
    assert read_cache(tmp_path / "c", "k", shape, classes) is None


def forged(path: Path, nodes: Any = NODES, logs: Any = LOGS, key: str = "k", **more: Any) -> None:
    """Write a file with the right checksum, whatever it holds."""
    arrays = {"nodes": np.ascontiguousarray(nodes), "logs": np.ascontiguousarray(logs)}
    about = {"polyad-shares": "1", "key": key, "sha256": mapper._checksum("k", arrays)}
    save_file(arrays | more, path, about)


@pytest.mark.parametrize(
    "forgery",
    [
        {"nodes": np.where(NODES == 2, 3, NODES)},
        {"nodes": np.where(NODES == 2, -2, NODES)},
        {"nodes": NODES.astype(np.int64)},
        {"logs": np.where(LOGS < -2, np.nan, LOGS)},
        {"logs": LOGS - 100},
        {"logs": LOGS + 5},
        {"logs": LOGS.astype(np.float64)},
        {"logs": LOGS[:0]},
        {"key": "other"},
        {"extra": np.zeros(1, np.float32)},
    ],
    ids=str,
)
def test_forged_shares_count_as_none(tmp_path: Path, forgery: dict[str, Any]) -> None:
    forged(tmp_path / "k.safetensors", **forgery)
    assert read_cache(tmp_path, "k", (2, 3), 2) is None


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"PK\x03\x04", b"\xff" * 64], ids=repr)
def test_files_of_another_kind_count_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k.safetensors").write_bytes(content)
    assert read_cache(tmp_path, "k", (2, 3), 2) is None


def test_damaged_shares_count_as_none(tmp_path: Path) -> None:
    write_cache(tmp_path, "k", NODES, LOGS)
    path = tmp_path / "k.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"\0" * 5000):
        path.write_bytes(damaged)
        assert read_cache(tmp_path, "k", (2, 3), 2) is None


def test_pipes_and_folders_count_as_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.safetensors")
    assert read_cache(tmp_path, "k", (2, 3), 2) is None
    (tmp_path / "other.safetensors").mkdir()
    assert read_cache(tmp_path, "other", (2, 3), 2) is None


def test_files_used_longest_ago_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cache(tmp_path, "first", NODES, LOGS)
    size = (tmp_path / "first.safetensors").stat().st_size
    monkeypatch.setattr(mapper, "CACHE_BYTES", 2 * size + 20)
    write_cache(tmp_path, "second", NODES, LOGS)
    for age, name in enumerate(("second", "first")):
        os.utime(tmp_path / f"{name}.safetensors", (age, age))
    assert read_cache(tmp_path, "second", (2, 3), 2) is not None
    write_cache(tmp_path, "third", NODES, LOGS)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["second", "third"]


def test_links_lead_to_nothing_that_is_written_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "notes.txt"
    precious.write_text("precious")
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "k.safetensors").symlink_to(precious)
    assert not write_cache(folder, "k", NODES, LOGS)
    assert read_cache(folder, "k", (2, 3), 2) is None
    (tmp_path / "weights").mkdir()
    other = tmp_path / "weights" / "other.safetensors"
    save_file({"weights": LOGS}, other)
    monkeypatch.setattr(mapper, "CACHE_BYTES", 600)
    (tmp_path / "linked").symlink_to(tmp_path / "weights")
    assert not write_cache(tmp_path / "linked", "k", NODES, LOGS)
    assert write_cache(tmp_path / "weights", "k", NODES, LOGS)  # a folder with files of others
    assert write_cache(tmp_path / "weights", "l", NODES, LOGS)
    assert precious.read_text() == "precious"
    assert other.exists()


def test_a_cache_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file where the folder should be")
    assert not write_cache(tmp_path / "c", "k", NODES, LOGS)
    assert (tmp_path / "c").read_text() == "a file where the folder should be"
