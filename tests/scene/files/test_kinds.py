"""What may be replaced without a word: an earlier output of polyad, and nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr
from affine import Affine

from polyad import RankRClassifier
from polyad.cli import main
from polyad.errors import OutputError
from polyad.scene.arguments import check_arguments
from polyad.scene.assess.report import write_report
from polyad.scene.files.paths import LABELS, check_kind
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene
from polyad.scene.write.tables import write_scores
from polyad.scene.write.writers import MapWriter, write_map
from tests.models import bare_model

ENDINGS = (".tif", ".hdr", ".img", ".png", ".nc", ".npy")
FOREIGN = {
    "text": b"notes of a summer\n",
    "zip": b"PK\3\4",
    "html": b"<!doctype html><p>mine",
    "json": b'{"type": "FeatureCollection"}',
    "csv": b"row,col,class\n1,2,3\n",
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "hdf5": b"\x89HDF\r\n\x1a\n",
    "envi": b"ENVI\nsamples = 3\n",
    "cut tiff": b"II*\0\x08",
    "lying tiff": b"II*\0\x08\0\0\0\xff\xff" + struct.pack("<HHII", 42112, 2, 2**32 - 1, 2**31),
    "lying bigtiff": b"II+\0\x08\0\0\0" + b"\xff" * 8,
    "model": struct.pack("<Q", 20) + b'{"__metadata__":{"format":"pt"}}',
}


def small_map(side: int = 5) -> xr.DataArray:
    ids = (np.arange(side * side, dtype=np.uint8) % 3).reshape(side, side)
    return xr.DataArray(ids, dims=("y", "x"))


def model() -> SceneModel:
    patches = np.random.default_rng(0).normal(size=(12, 1, 1, 4))
    network = RankRClassifier(hidden=2, random_state=0).fit(patches, np.arange(12) % 2 + 1)
    return bare_model(network, 1, (ClassInfo(1, "a", ""), ClassInfo(2, "b", "")), 4)


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize(
    ("name", "what"),
    [*((f"x{ending}", "map") for ending in ENDINGS), ("x.tif", "file of probabilities"),
     ("x.json", "file of scores"), ("x.csv", "file of scores"), ("x", "model"),
     ("x.html", "report")],
)  # fmt: skip
def test_file_of_another_kind_is_replaced_with_force_only(
    tmp_path: Path, name: str, what: str, kind: str
) -> None:
    (tmp_path / name).write_bytes(FOREIGN[kind])
    with pytest.raises(OutputError, match=r"would be lost; choose another name, or .*--force"):
        check_arguments(outputs={what: tmp_path / name})
    check_arguments(outputs={what: tmp_path / name}, force=True)


@pytest.mark.parametrize("side", [5, 600])
@pytest.mark.parametrize("ending", ENDINGS)
def test_map_is_replaced_by_the_next_one(tmp_path: Path, ending: str, side: int) -> None:
    placed = small_map(side).rio.write_crs(32616).rio.write_transform(Affine(30, 0, 0, 0, -30, 0))
    write_map(tmp_path / f"map{ending}", placed)
    check_kind(tmp_path / f"map{ending}", "map")


def test_labels_are_no_map(tmp_path: Path) -> None:
    np.save(tmp_path / "truth.npy", small_map().values)
    write_map(tmp_path / "labels.tif", small_map().assign_attrs(quantity=LABELS))
    for name in ("truth.npy", "labels.tif"):
        with pytest.raises(OutputError, match="is no map of polyad"):
            check_kind(tmp_path / name, "map")


def test_map_of_ids_alone_is_read_by_numpy(tmp_path: Path) -> None:
    for ids in (small_map(), small_map().astype(np.uint16) * 300):
        write_map(tmp_path / "map.npy", ids)
        found = np.load(tmp_path / "map.npy", mmap_mode="r")
        np.testing.assert_array_equal(found, ids)
        check_kind(tmp_path / "map.npy", "map")


@pytest.mark.parametrize("side", ["o.tif.aux.xml", "o.tif.ovr", "o.img.aux.xml"])
def test_side_of_a_raster_that_is_gone_is_kept(tmp_path: Path, side: str) -> None:
    (tmp_path / side).write_text("mine")
    with pytest.raises(OutputError, match=f"{side} is there and would be lost"):
        check_kind(tmp_path / ("o.hdr" if "img" in side else "o.tif"), "map")


def test_side_of_an_earlier_map_may_go(tmp_path: Path) -> None:
    write_map(tmp_path / "map.tif", small_map())
    (tmp_path / "map.tif").unlink()
    check_kind(tmp_path / "map.tif", "map")


def test_empty_file_and_missing_file_are_of_no_kind(tmp_path: Path) -> None:
    (tmp_path / "map.tif").touch()
    check_kind(tmp_path / "map.tif", "map")
    check_kind(tmp_path / "other.tif", "map")


def test_scene_in_the_same_container_is_no_map(tmp_path: Path) -> None:
    cube = np.ones((4, 5, 6), np.float32)
    np.save(tmp_path / "scene.npy", cube)
    with rasterio.open(
        tmp_path / "scene.tif", "w", driver="GTiff", count=4, height=5, width=6, dtype="float32",
        transform=Affine(1, 0, 9, 0, -1, 9),
    ) as out:  # fmt: skip
        out.write(cube)
    xr.Dataset({"r": (("y", "x", "band"), cube)}).to_netcdf(tmp_path / "s.nc", engine="h5netcdf")
    for name in ("scene.npy", "scene.tif", "s.nc"):
        with pytest.raises(OutputError, match="is no map of polyad"):
            check_kind(tmp_path / name, "map")


def test_data_beside_an_envi_header_are_kept_too(tmp_path: Path) -> None:
    (tmp_path / "scene.img").write_bytes(b"pixels")
    with pytest.raises(OutputError, match=r"scene\.img is there"):
        check_kind(tmp_path / "scene.hdr", "map")


def test_folder_that_is_no_zarr_map_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "store.zarr"
    store.mkdir()
    check_kind(store, "map")
    (store / "zarr.json").touch()
    with pytest.raises(OutputError, match="is no map of polyad"):
        check_kind(store, "map")


def test_other_outputs_are_replaced_by_their_like(tmp_path: Path) -> None:
    fitted, scores = model(), {"overall_accuracy": 0.5, "classes": []}
    fitted.save(tmp_path / "m.polyad")
    np.save(tmp_path / "s.npy", np.random.default_rng(0).normal(size=(5, 5, 4)).astype("f4"))
    write_map(tmp_path / "labels.npy", small_map())
    cube = open_scene(str(tmp_path / "s.npy"))
    labels = open_labels(str(tmp_path / "labels.npy"), cube)
    write_report(tmp_path / "r.html", fitted, cube, labels, title="t", command="c")
    for name in ("s.json", "s.csv"):
        write_scores(tmp_path / name, scores)
        check_kind(tmp_path / name, "file of scores")
    beside = {"uncertainty": tmp_path / "u.tif", "probabilities": tmp_path / "p.tif"}
    with MapWriter(tmp_path / "u.map.tif", (5, 5), (ClassInfo(1, "a", ""),), **beside) as out:
        out.write((slice(0, 5), slice(0, 5)), np.ones((5, 5), int), np.ones((5, 5, 1)))
    check_kind(tmp_path / "u.tif", "file of uncertainty")
    check_kind(tmp_path / "m.polyad", "model")
    check_kind(tmp_path / "p.tif", "file of probabilities")
    check_kind(tmp_path / "r.html", "report")
    with pytest.raises(OutputError, match="is no map of polyad"):
        check_kind(tmp_path / "p.tif", "map")


def test_every_command_asks_before_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("s.npy", np.random.default_rng(0).normal(size=(5, 5, 4)).astype("f4"))
    np.save("l.npy", small_map().values)
    model().save("m.polyad")
    for name in ("t.txt", "t.html", "t.tif", "t.csv", "d/s.tif", "d/model.polyad", "q.qml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("mine")
    for name in ("d/report.html", "d/paper.md"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("mine")
    Path("t.zarr").mkdir()
    Path("t.zarr/mine").touch()
    for command in (
        "train s.npy l.npy --out t.txt",
        "map m.polyad s.npy --out t.tif",
        "map m.polyad s.npy --out new.tif --probabilities t.tif",
        "map m.polyad s.npy --out new.tif --uncertainty t.tif",
        "map m.polyad s.npy --out q.tif",
        "map m.polyad s.npy --out q.tif --cluster local:1",
        "map m.polyad s.npy --out t.zarr",
        "map m.polyad s.npy --out-dir d",
        "map m.polyad s.npy --cluster local:1 --out t.tif",
        "map m.polyad s.npy --cluster local:1 --out t.zarr",
        "evaluate m.polyad s.npy l.npy --report t.html",
        "evaluate m.polyad s.npy l.npy --out t.csv",
        "demo --out d",
        "reproduce --quick --out d",
    ):
        with pytest.raises(SystemExit, match="2"):
            main(command.split())
        assert "would be lost" in capsys.readouterr().err, command
    assert Path("t.tif").read_text() == Path("t.txt").read_text() == "mine"
    with pytest.raises(SystemExit, match="0"):
        main(["map", "m.polyad", "s.npy", "--out", "t.tif", "--force"])
    with pytest.raises(SystemExit, match="0"):
        main(["map", "m.polyad", "s.npy", "--out-dir", "d", "--force"])
    check_kind("t.tif", "map")
    check_kind("d/s.tif", "map")


def test_model_is_an_input_of_many_maps_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("s.npy", np.ones((5, 5, 4), np.float32))
    model().save("s.tif")
    before = Path("s.tif").read_bytes()
    with pytest.raises(SystemExit, match="2"):
        main(["map", "s.tif", "s.npy", "--out-dir", ".", "--force"])
    assert "is the input s.tif" in capsys.readouterr().err
    assert Path("s.tif").read_bytes() == before
