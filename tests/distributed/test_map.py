"""A map from a cluster is the map from one machine."""

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio

from polyad.cli import main
from polyad.distributed import map_files, open_cluster
from polyad.distributed.maps import open_source, plan_scene
from polyad.distributed.tile_store import TileFolder
from polyad.errors import ClusterError, InputError, OutputError, SceneError
from polyad.scene.map.mapping import MapRequest, map_scene
from polyad.scene.read.masks import restrict_scene
from polyad.scene.read.scenes import open_scene


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("on_cluster", [True, False])
def test_map_and_probabilities_have_the_bytes_of_one_machine(
    two_workers, model, scene_path, wanted, tile, tmp_path, on_cluster
):
    out, proba = tmp_path / "map.tif", tmp_path / "proba.tif"
    cluster = two_workers if on_cluster else None
    mapped = map_files(model, scene_path, out, cluster=cluster, probabilities=proba, tile=tile)
    assert (out.read_bytes(), proba.read_bytes()) == wanted
    assert (mapped.paths, mapped.pixels) == ([out], 150 * 110)
    with rasterio.open(out) as found:
        assert mapped.mapped == np.count_nonzero(found.read(1)) < 150 * 110
    assert names(tmp_path) == ["map.qml", "map.tif", "map.tif.aux.xml", "proba.tif"]


def test_error_of_another_package_tells_which_tile_failed(model, scene_path, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no more")

    monkeypatch.setattr("polyad.distributed.worker.map_tile_here", broken)
    with pytest.raises(ClusterError, match=r"tile 0 of .* failed: RuntimeError: no more"):
        map_files(model, scene_path, tmp_path / "map.tif", tile=40)
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["geotiff", "netcdf", "zarr"])
def test_workers_read_every_kind_of_file(two_workers, model, scene_path, kind, tmp_path):
    scene = open_scene(scene_path).load()
    path = tmp_path / f"scene.{kind}"
    plain = scene.rename("scene").drop_vars("spatial_ref")
    if kind == "geotiff":
        scene.transpose("band", "y", "x").rio.to_raster(path, driver="GTiff", tiled=True)
    elif kind == "netcdf":
        plain.drop_attrs().to_netcdf(path, engine="h5netcdf")
    else:
        plain.drop_attrs().to_zarr(path, consolidated=False)
    map_files(model, path, tmp_path / "map.npy", cluster=two_workers, tile=40)
    np.testing.assert_array_equal(
        np.load(tmp_path / "map.npy"), map_scene(model, open_scene(path)).values
    )


def test_lazy_scene_is_sent_as_its_path_and_window(two_workers, model, scene_path, tmp_path):
    window = open_scene(scene_path).isel(y=slice(3, 90), x=slice(50, 110))
    map_files(model, window, tmp_path / "map.tif", cluster=two_workers, tile=32)
    with rasterio.open(tmp_path / "map.tif") as found:
        np.testing.assert_array_equal(found.read(1), map_scene(model, window).values)
        assert found.transform.f == 4000000 - 3 * 30


@pytest.mark.parametrize(
    ("change", "remedy"),
    [(lambda s: s.load(), "pass the path"), (lambda s: s.chunk(), "map_lazy")],
)
def test_scene_that_would_be_sent_whole_is_refused(model, scene_path, tmp_path, change, remedy):
    scene = change(open_scene(scene_path))
    with pytest.raises(InputError, match=remedy):
        map_files(model, scene, tmp_path / "map.tif")


def test_many_scenes_share_one_folder_of_tiles_and_a_bad_one_does_not_stop_the_others(
    two_workers, model, values, envi, tmp_path
):
    for k in range(3):
        envi(tmp_path / f"s{k}.hdr", np.roll(values, 7 * k, axis=0))
    (tmp_path / "s1.img").write_bytes(b"short")
    with pytest.raises(SceneError, match=r"1 of 3 scenes could not be mapped.*\n.*s1"):
        map_files(
            model, [f"{tmp_path}/s*.hdr"], out_dir=tmp_path / "maps", cluster=two_workers, tile=50
        )
    assert names(tmp_path / "maps") == [
        f"s{k}{e}" for k in (0, 2) for e in (".qml", ".tif", ".tif.aux.xml")
    ]
    for k in (0, 2):
        with rasterio.open(tmp_path / "maps" / f"s{k}.tif") as found:
            scene = open_scene(tmp_path / f"s{k}.hdr")
            np.testing.assert_array_equal(found.read(1), map_scene(model, scene).values)


def test_scenes_of_the_same_name_and_patterns_without_files_are_refused(
    model, scene_path, values, envi, tmp_path
):
    (tmp_path / "b").mkdir()
    other = envi(tmp_path / "b" / "scene.hdr", values)
    with pytest.raises(InputError, match="different folders"):
        map_files(model, [str(scene_path), str(other)], out_dir=tmp_path)
    with pytest.raises(SceneError, match="no file matches"):
        map_files(model, [f"{tmp_path}/*.hdr"], out_dir=tmp_path)


def test_scene_that_workers_do_not_see_is_told_with_the_reason(
    two_workers, model, values, envi, tmp_path, monkeypatch
):
    path = envi(tmp_path / "s.hdr", values)
    monkeypatch.setattr("polyad.distributed.maps.absolute", lambda _: "/nowhere/s.hdr")
    monkeypatch.setattr("polyad.distributed.maps.open_scene", lambda _, **__: open_scene(path))
    with pytest.raises(SceneError, match="all of them share"):
        map_files(model, path, tmp_path / "map.tif", cluster=two_workers)


def test_second_process_on_the_same_output_is_refused(model, scene_path, tmp_path):
    folder = TileFolder(tmp_path / "map.tif.tiles")
    with pytest.raises(OutputError, match="another process"):
        map_files(model, scene_path, tmp_path / "map.tif")
    folder.close(remove=True)


@pytest.mark.parametrize("name", ["no/map.tif", "no/map.zarr", "map.docx"])
def test_output_that_cannot_be_is_told_before_anything_is_mapped(model, scene_path, name, tmp_path):
    with pytest.raises(OutputError, match=name.split("/")[-1]):
        map_files(model, scene_path, tmp_path / name)
    assert names(tmp_path) == []


def test_command_maps_on_a_cluster_of_its_own(
    model_path, scene_path, wanted, tile, tmp_path, capsys
):
    out = tmp_path / "map.tif"
    arguments = ["map", model_path, scene_path, "--out", out, "--tile", tile, "--json"]
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in [*arguments, "--cluster", "local:1"]])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["pixels"] == 150 * 110
    assert out.read_bytes() == wanted[0]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("local:0", "at least one"),
        ("nothing-here.json", "scheduler file"),
        ("tcp://127.0.0.1:9", "no scheduler answers"),
    ],
)
def test_cluster_that_is_not_there_is_told_in_one_sentence(where, sentence, monkeypatch):
    monkeypatch.setattr("polyad.distributed.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match=sentence), open_cluster(where):
        pass


def test_worker_of_another_version_is_refused(model):
    from polyad.distributed.worker import TileWork

    work = TileWork(model, (), versions={"torch": "1.0"})
    with pytest.raises(ClusterError, match="torch"):
        work.check_versions()


@pytest.mark.parametrize("on_cluster", [True, False])
def test_a_mask_goes_with_the_tiles(two_workers, model, scene_path, tmp_path, on_cluster):
    mask = np.zeros((150, 110), np.uint8)
    mask[17:90, 30:75] = 1
    np.save(tmp_path / "mask.npy", mask)
    place = {"mask": tmp_path / "mask.npy", "bbox": (500_000, 3_990_000, 502_000, 4_000_000)}
    out, cluster = tmp_path / "map.npy", two_workers if on_cluster else None
    map_files(model, scene_path, out, cluster=cluster, tile=40, **place)
    wanted = map_scene(model, restrict_scene(open_scene(scene_path), **place)).values
    np.testing.assert_array_equal(np.load(out), wanted)
    assert 0 < np.count_nonzero(wanted) < mask.sum()


def test_tiles_kept_of_another_mask_are_not_taken(model, scene_path):
    def digest(**place):
        source = open_source(scene_path, **place)
        return plan_scene(model, *source, Path("map.tif"), MapRequest()).digest

    boxes = [None, (500_000, 3_990_000, 502_000, 4_000_000), (500_000, 3_990_000, 503_000, 4e6)]
    assert len({digest(bbox=bbox) for bbox in boxes}) == 3
