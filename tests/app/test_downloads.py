"""What is saved from the page: on the scene's grid, and all of one fit."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.crs import CRS

from polyad.app import prepare
from polyad.app.labels import Session, labels_tif
from polyad.cli import main
from polyad.errors import SceneError
from polyad.scene.learn.model import SceneModel
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import scene_from_array
from tests.waiting import PATIENCE

# Worked out of the coordinates of such a scene, its pixels measure 3.69999999999886 m
UTM = CRS.from_epsg(32611)
PLACED = Affine(3.7, 0.0, 654321.1, 0.0, -3.7, 4123456.7)


@pytest.fixture
def scene_file(scene, tmp_path):
    """A GeoTIFF scene with pixels of 3.7 m."""
    path = tmp_path / "scene.tif"
    height, width, bands = scene.shape
    profile = {"driver": "GTiff", "height": height, "width": width, "count": bands,
               "dtype": "float32", "crs": UTM, "transform": PLACED}  # fmt: skip
    with rasterio.open(path, "w", **profile) as file:
        file.write(np.moveaxis(scene.values, -1, 0))
    return path


def description(path):
    """Return everything but the pixels: place, palette, names."""
    with rasterio.open(path) as file:
        return file.crs, file.transform, file.colormap(1), file.tags(), file.nodata


@pytest.mark.parametrize("grid_mapping", ["spatial_ref", "crs"])
def test_saved_labels_have_exactly_the_reference_system_and_transform_of_the_scene(
    scene, tmp_path, grid_mapping
):
    scene = scene_from_array(scene.values, crs=UTM, transform=PLACED)
    if grid_mapping != "spatial_ref":  # NetCDF files choose the name themselves
        scene = scene.rename(spatial_ref=grid_mapping).rio.write_grid_mapping(grid_mapping)
    session = Session(scene, journal=tmp_path / "j")
    session.do({"do": "add", "name": "Water"})
    session.do({"do": "label", "class": 1, "pixels": [[3, 4]]})
    (tmp_path / "labels.tif").write_bytes(labels_tif(session.snapshot(), scene))
    session.close()
    crs, transform, *_ = description(tmp_path / "labels.tif")
    assert (crs, transform) == (UTM, PLACED)


def test_files_saved_with_every_default_are_of_one_fit_and_equal_those_of_polyad_map(
    scene_file, truth, tmp_path, capsys, kit
):
    page = prepare(scene_file, truth=truth).start()
    assert page.workspace.trainer.settings.preset == "best"
    try:
        kit.label_some(page.workspace.session)
        # Asked for at once, while the draft is being made
        with (
            httpx.Client(base_url=page.url, timeout=PATIENCE) as client,
            ThreadPoolExecutor(3) as pool,
        ):
            names = ["files/map.tif", "files/model.polyad", "labels/tif"]
            answers = list(pool.map(lambda name: client.get(f"api/{name}"), names))
        shown = page.workspace.trainer.newest_map.ids
        labels = page.workspace.session.snapshot()
    finally:
        page.stop()
    assert [a.status_code for a in answers] == [200] * 3
    saved = [tmp_path / name for name in ("map.tif", "model.polyad", "labels.tif")]
    for path, answer in zip(saved, answers, strict=True):
        path.write_bytes(answer.content)

    with pytest.raises(SystemExit) as left:
        main(["map", str(saved[1]), str(scene_file), "--out", str(tmp_path / "cli.tif")])
    assert left.value.code in (0, None)
    capsys.readouterr()
    with rasterio.open(saved[0]) as ours, rasterio.open(tmp_path / "cli.tif") as theirs:
        np.testing.assert_array_equal(ours.read(), theirs.read())
        np.testing.assert_array_equal(ours.read(1), shown)
    assert description(saved[0]) == description(tmp_path / "cli.tif")
    assert description(saved[0])[:2] == description(saved[2])[:2] == (UTM, PLACED)
    assert open_labels(saved[0]).attrs["class_names"] == ["Water", "Corn", "Woods"]
    marked = labels.raster(truth.expand_dims("band", -1))
    np.testing.assert_array_equal(open_labels(saved[2]).values, marked.values)
    assert len(SceneModel.load(saved[1]).training.pixels) == len(labels.labels)


def test_a_fit_that_fails_is_told_to_whoever_waits_for_its_file(make_work, monkeypatch, kit):
    def broken(*_, **__):
        raise SceneError("the disk is gone")

    monkeypatch.setattr("polyad.app.trainer.fit_preset", broken)
    session, trainer, _ = make_work(kit.quick)
    kit.label_some(session)
    with pytest.raises(SceneError, match="no map could be made: the disk is gone"):
        trainer.final_model(PATIENCE)
