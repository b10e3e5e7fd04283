"""A disk that is really full, and a limit on the size of files, under everything that is written.

What GDAL and other C libraries write can only be met so. The disk is a file system in memory of a
few hundred kilobytes where one may be mounted; a limit is set in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from polyad import RankRClassifier
from polyad.app.journal import Journal
from polyad.distributed.tile_store import TileStore
from polyad.errors import OutputError
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.write.tables import write_scores
from polyad.scene.write.writers import MapWriter, write_map
from tests.models import bare_model, tile_plan

KILOBYTES = 256
ABOUT = {"shape": [6, 5], "scene": "0123"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={KILOBYTES}k", "polyad-test", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        done = 1
    if done:
        pytest.skip("no file system may be mounted here; the limit on file sizes is tested below")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def noise(side: int) -> xr.DataArray:
    """Return a map that cannot be compressed much, of about ``side ** 2 * 5 / 8`` bytes."""
    ids = np.random.default_rng(side).integers(0, 31, (side, side)).astype(np.uint8)
    table = {
        "class_values": list(range(1, 31)),
        "class_names": [f"class {k}" for k in range(1, 31)],
    }
    return xr.DataArray(ids, dims=("y", "x"), attrs=table)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("ending", [".tif", ".hdr", ".nc", ".zarr", ".npy"])
def test_map_that_does_not_fit_leaves_the_old_one(small_disk: Path, ending: str) -> None:
    write_map(small_disk / f"map{ending}", noise(50))
    before = files(small_disk)
    with pytest.raises(OutputError, match="expected room for the whole file"):
        write_map(small_disk / f"map{ending}", noise(900))
    assert files(small_disk) == before


def test_probabilities_that_do_not_fit_keep_the_new_map_away_too(small_disk: Path) -> None:
    def write(side: int) -> None:
        shares = np.random.default_rng(0).random((side, side, 30), np.float32)
        ids = noise(side)
        paths = {"path": small_disk / "map.tif", "probabilities": small_disk / "p.tif"}
        with MapWriter(shape=ids.shape, output=class_table(ids), **paths) as out:
            out.write((slice(None), slice(None)), ids.values, shares)

    write(20)
    before = files(small_disk)
    with pytest.raises(OutputError, match="expected room for the whole file"):
        write(200)
    assert files(small_disk) == before


def fill(folder: Path, leave: int) -> None:
    """Leave ``leave`` bytes free."""
    with (folder / "ballast").open("wb") as out:
        room = os.statvfs(folder)
        out.write(b"\0" * (room.f_bavail * room.f_frsize - leave))


def model(hidden: int) -> SceneModel:
    patches = np.random.default_rng(0).normal(size=(12, 1, 1, 50))
    network = RankRClassifier(hidden=hidden, epochs=1, random_state=0)
    network.fit(patches, np.arange(12) % 2 + 1)
    return bare_model(network, 1, (ClassInfo(1, "a", ""), ClassInfo(2, "b", "")), 50)


def test_model_and_scores_that_do_not_fit_leave_the_old_ones(small_disk: Path) -> None:
    model(2).save(small_disk / "m.polyad")
    write_scores(small_disk / "s.json", {"kappa": 1})
    fill(small_disk, leave=8192)
    before = files(small_disk)
    with pytest.raises(OutputError, match="full disk"):
        model(100).save(small_disk / "m.polyad")
    with pytest.raises(OutputError, match="full disk"):
        write_scores(small_disk / "s.json", {"note": "x" * 20_000})
    assert files(small_disk) == before


def test_journal_takes_no_label_that_the_disk_refused(small_disk: Path) -> None:
    journal = Journal(small_disk / "l.jsonl", ABOUT)
    journal.append({"do": "first"})
    fill(small_disk, leave=0)
    with pytest.raises(OutputError, match="cannot write to the journal"):
        journal.append({"do": "x" * 10_000})
    (small_disk / "ballast").unlink()
    journal.append({"do": "second"})
    journal.close()
    again = Journal(small_disk / "l.jsonl", ABOUT)
    again.close()
    assert [command["do"] for command in again.commands] == ["first", "second"]


def test_finished_tiles_go_on_after_a_full_disk(small_disk: Path) -> None:
    plan = tile_plan(100, 100)
    store = TileStore(small_disk, plan, "0" * 16)
    ids = [np.full(tile.shape, k, np.uint8) for k, tile in enumerate(plan.tiles)]
    store.put(0, ids[0], None, 0, None)
    fill(small_disk, leave=0)
    with pytest.raises(OSError, match="No space left"):
        store.put(1, ids[1], None, 0, None)
    assert set(TileStore(small_disk, plan, "0" * 16).finished) == {0}
    (small_disk / "ballast").unlink()
    store.put(1, ids[1], None, 0, None)
    assert set(TileStore(small_disk, plan, "0" * 16).finished) == {0, 1}


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from polyad.errors import OutputError
from polyad.scene.write.writers import write_map

place = Path(sys.argv[1])
ids = np.random.default_rng(0).integers(0, 31, (600, 600)).astype(np.uint8)
large = xr.DataArray(ids, dims=("y", "x"))
small = large[:30, :30].copy()
endings = sys.argv[2:]
for ending in endings:
    write_map(place / f"map{ending}", small)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for ending in endings:
    try:
        write_map(place / f"map{ending}", large)
    except OutputError as error:
        print("told", ending, "wanted room for the whole file" in str(error))
"""


def test_limit_on_file_sizes_is_told_as_a_full_disk_is(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    endings = [".tif", ".hdr", ".nc", ".npy"]
    command = [sys.executable, "-c", LIMITED, str(tmp_path), *endings]
    done: Any = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"told {ending} True" for ending in endings], done.stderr
    wanted = {f"map{e}" for e in (*endings, ".img", ".tif.aux.xml", ".qml")}
    assert {p.name for p in tmp_path.iterdir()} == wanted
    assert max(p.stat().st_size for p in tmp_path.iterdir()) < 50_000
