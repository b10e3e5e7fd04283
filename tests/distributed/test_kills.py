"""Whatever is killed, the same command resumes, and the map has the bytes of an undisturbed one."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from distributed import Client
from polyad.distributed import map_files
from polyad.distributed.tile_store import TileStore
from polyad.errors import ClusterError, OutputError, PolyadWarning
from polyad.scene.learn.model import SceneModel
from tests.waiting import PATIENCE, wait_until

resource = pytest.importorskip("resource", reason="kills processes by signals")
# The command; before it keeps the tile of that number, its group is sent a signal
MAP = """
import os, sys
from polyad.distributed.tile_store import TileStore
from polyad.cli import main
number, sent = int(sys.argv.pop(1)), int(sys.argv.pop(1))
real, kept = TileStore.put, []
def put(*args, **options):
    kept.append(args)
    if len(kept) == number:
        os.killpg(0, sent)
    real(*args, **options)
TileStore.put = put
main()
"""


def kept_tiles(out):
    """The tiles that are kept of a map, and when they were written."""
    folder = out.with_name(out.name + ".tiles")
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*/*.tile")}


def at_write(number, action, patch):
    """Have something done just before the tile of that number is kept."""
    real, kept = TileStore.put, []

    def put(*args, **options):
        kept.append(args)
        if len(kept) == number:
            action()
        real(*args, **options)

    patch.setattr(TileStore, "put", put)


def half_done(model, scene_path, out, tile, monkeypatch, before=0):
    """Make a map that breaks off, for want of room, 20 tiles further."""

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        at_write(21, full, patch)
        with pytest.raises(OutputError, match=rf"is full.*{before + 20} of 266 tiles are kept"):
            map_files(model, scene_path, out, tile=tile)


@pytest.fixture(params=["network alone", "propagation"])
def made(request, model_path, wanted, best, alone):
    """A model's file and the bytes of its map, undisturbed."""
    if request.param == "propagation":
        return best["superpixels"], alone["superpixels"][0]
    return model_path, wanted[0]


def run_map(*words, number=0, sent=signal.SIGKILL, **options):
    """Run the command in a session of its own; a terminal's Ctrl+C reaches its workers too."""
    command = [sys.executable, "-c", MAP, number, int(sent), "map", *words]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False,
        start_new_session=True, timeout=PATIENCE, **options,
    )  # fmt: skip


def test_driver_killed_resumes_where_it_was(
    two_workers, certificates, made, scene_path, tile, tmp_path, monkeypatch
):
    out, (model_path, wanted) = tmp_path / "map.tif", made
    words = [model_path, scene_path, "--out", out, "--tile", tile]
    words += ["--cluster", two_workers.scheduler.address]
    driver = run_map(*words, number=21, env={**os.environ, **certificates})
    assert driver.returncode == -signal.SIGKILL
    before = kept_tiles(out)
    assert len(before) == 20
    assert not out.exists()
    grown = {}
    at_write(2, lambda: grown.update(kept_tiles(out)), monkeypatch)
    map_files(SceneModel.load(model_path), scene_path, out, cluster=two_workers, tile=tile)
    assert before.items() <= grown.items()  # nothing is done twice
    assert len(grown) == 21
    assert out.read_bytes() == wanted
    assert sorted(p.name for p in tmp_path.iterdir()) == ["map.qml", "map.tif", "map.tif.aux.xml"]


def start_scheduler(folder):
    """A scheduler and one worker, each a process of its own."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    dashboard = ["--dashboard-address", "127.0.0.1:0"]
    alone = ["--nthreads", "1", "--no-nanny", "--death-timeout", str(PATIENCE)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = []
    for part, options in [("scheduler", ["--port", "0", *dashboard]), ("worker", alone)]:
        program = [sys.executable, "-m", f"distributed.cli.dask_{part}"]
        processes.append(subprocess.Popen([*program, *common, *options], **quiet))
        wait_until(file.exists)
    return file, processes


def test_lost_scheduler_is_told_and_the_next_one_resumes(
    two_workers, model, scene_path, wanted, tile, tmp_path, monkeypatch
):
    out = tmp_path / "map.tif"
    file, processes = start_scheduler(tmp_path)
    try:
        with (
            Client(scheduler_file=str(file), set_as_default=False, timeout=PATIENCE) as client,
            monkeypatch.context() as patch,
        ):
            at_write(11, processes[0].kill, patch)
            with pytest.raises(ClusterError, match=r"scheduler.*the same command resumes"):
                map_files(model, scene_path, out, cluster=client, tile=tile)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert len(kept_tiles(out)) >= 10
    map_files(model, scene_path, out, cluster=two_workers, tile=tile)
    assert out.read_bytes() == wanted[0]


def test_limit_of_the_system_on_file_size_is_told(
    model, model_path, scene_path, wanted, tile, tmp_path
):
    limited = run_map(
        model_path, scene_path, "--tile", 100, "--out-dir", tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
    )  # fmt: skip
    assert limited.returncode == 2
    assert "is full" in limited.stderr
    assert "0 of 4 tiles are kept" in limited.stderr
    assert "Traceback" not in limited.stderr
    assert list(tmp_path.iterdir()) == []  # there is nothing to resume
    map_files(model, [str(scene_path)], out_dir=tmp_path, tile=tile)
    assert (tmp_path / "scene.tif").read_bytes() == wanted[0]


def test_damaged_tile_is_done_again(model, scene_path, wanted, tile, tmp_path, monkeypatch):
    out = tmp_path / "map.tif"
    half_done(model, scene_path, out, tile, monkeypatch)
    kept = (tmp_path / "map.tif.tiles").glob("*/*.tile")
    next(kept).write_bytes(b"changed")
    with next(kept).open("ab") as longer:
        longer.write(b"more")
    with pytest.warns(PolyadWarning, match="2 tiles"):
        map_files(model, scene_path, out, tile=tile)
    assert out.read_bytes() == wanted[0]


def test_tiles_of_another_model_are_not_used(model, scene_path, tile, tmp_path, monkeypatch):
    from polyad.scene.map.mapping import map_file
    from polyad.scene.read.scenes import open_scene

    out = tmp_path / "map.tif"
    half_done(model, scene_path, out, tile, monkeypatch)
    path = tmp_path / "other.polyad"
    model.save(path)
    other = SceneModel.load(path)
    other.estimator.network_.output.weight.data.neg_()
    map_files(other, scene_path, out, tile=tile)
    map_file(other, open_scene(scene_path), tmp_path / "expected.tif", tile=tile)
    assert out.read_bytes() == (tmp_path / "expected.tif").read_bytes()
    assert not (tmp_path / "map.tif.tiles").exists()


def test_worker_killed_in_the_middle_loses_nothing(
    two_workers, made, scene_path, tile, tmp_path, monkeypatch
):
    out, (model_path, wanted) = tmp_path / "map.tif", made
    pid = next(iter(two_workers.run(os.getpid).values()))
    at_write(11, lambda: os.kill(pid, signal.SIGKILL), monkeypatch)
    map_files(SceneModel.load(model_path), scene_path, out, cluster=two_workers, tile=tile)
    assert out.read_bytes() == wanted
    assert not (tmp_path / "map.tif.tiles").exists()


def test_ctrl_c_ends_the_command_and_its_own_cluster(made, scene_path, tile, tmp_path):
    out, (model_path, wanted) = tmp_path / "map.tif", made
    words = [model_path, scene_path, "--tile", tile, "--out", out, "--cluster", "local:1"]
    driver = run_map(*words, number=21, sent=signal.SIGINT)
    assert driver.returncode == 130
    assert "the same command resumes" in driver.stderr
    assert "Traceback" not in driver.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["map.tif.tiles"]
    map_files(SceneModel.load(model_path), scene_path, out, tile=tile)
    assert out.read_bytes() == wanted
