"""What Linux has and macOS or Windows lacks is taken away: everything still works."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from polyad import atomic
from polyad.atomic import replacing
from polyad.distributed.ledger import FinishedTiles, Ledger
from polyad.durable import read_all, write_all
from polyad.errors import OutputError
from polyad.safe_open import open_own, read_at, write_at
from polyad.scene.raster.windows import plan_tiles
from polyad.threads import usable_cores
from tests.conftest import pytest_configure
from tests.waiting import PATIENCE

WITHOUT = ("sched_getaffinity", "pread", "pwrite", "O_NOFOLLOW", "O_NONBLOCK", "link")


@pytest.fixture
def elsewhere(monkeypatch):
    """Take away what Windows lacks."""
    for name in WITHOUT:
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(atomic, "fcntl", None)
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails


def test_usable_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert usable_cores() == 2


@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_usable_cores_are_all_cores_where_the_system_does_not_tell(elsewhere, monkeypatch, count,
                                                                   cores):  # fmt: skip
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == cores


def test_reading_at_a_position_works_without_pread(elsewhere, tmp_path):
    file = open_own(tmp_path / "tiles", 0o600)
    assert write_at(file, b"cd", 2) == 2
    assert write_at(file, b"ab", 0) == 2
    assert read_at(file, 2, 1) == b"bc"
    assert read_at(file, 9, 4) == b""
    write_all(file, b"xyz", 10)
    assert read_all(file, 5, 9) == b"\0xyz"
    os.close(file)


def test_threads_without_pread_do_not_move_each_others_position(elsewhere, tmp_path):
    file = open_own(tmp_path / "tiles", 0o600)
    together = threading.Barrier(4)

    def use(number):
        together.wait()
        content = bytes([number]) * 100
        for k in range(200):
            place = (4 * k + number) * 100
            write_all(file, content, place)
            if read_all(file, 100, place) != content:
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))
    os.close(file)


def test_a_file_is_replaced_without_locks_and_links(elsewhere, tmp_path):
    target = tmp_path / "map.tif"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["map.tif"]


def test_without_locks_age_tells_what_is_left_over(elsewhere, tmp_path):
    old, fresh = tmp_path / ".map.tif.part-1-aaaaaa", tmp_path / ".map.tif.part-2-bbbbbb"
    for leftover in (old, fresh):
        leftover.touch()
    os.utime(old, (0, 0))
    atomic.sweep_abandoned(tmp_path / "map.tif")
    assert [p.name for p in tmp_path.iterdir()] == [fresh.name]


def test_a_file_that_another_program_has_open_is_told_as_such(monkeypatch, tmp_path):
    """As Windows refuses to replace it."""

    def refused(self, target):
        raise PermissionError(13, "Access is denied", str(self), 5, str(target))

    target = tmp_path / "map.tif"
    target.write_text("old")
    monkeypatch.setattr(Path, "replace", refused)
    words = r"can be replaced, got 'Access is denied'; close it in other programs, or choose"
    with pytest.raises(OutputError, match=words), replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "old"


def test_a_link_in_the_place_of_an_own_file_is_refused_without_o_nofollow(elsewhere, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "journal").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic link"):
        open_own(tmp_path / "journal", 0o600)
    assert (tmp_path / "secret").read_text() == "mine"


def test_a_ledger_is_kept_resumed_and_removed_without_pread_and_links(elsewhere, tmp_path):
    folder = tmp_path / "map.tif.tiles"
    with Ledger(folder) as ledger:
        ledger.append({"map": "m", "tile": 1, "crc": 0})
    with (folder / "ledger.jsonl").open("ab") as file:
        file.write(b'{"tile": 2')  # cut by a kill
    with Ledger(folder) as ledger:
        assert [entry["tile"] for entry in ledger.entries] == [1]
        ledger.append({"map": "m", "tile": 3, "crc": 0})
        ledger.remove()
    assert list(tmp_path.iterdir()) == []


def test_tiles_are_stored_without_pread(elsewhere, tmp_path):
    tiles = plan_tiles((6, 4), (3, 4))
    store = FinishedTiles(tmp_path, "map.tif", "0", tiles, np.uint16, depth=2)
    ids = [np.full(tile.shape, k, np.uint16) for k, tile in enumerate(tiles)]
    numbers = [np.full((*tile.shape, 2), k + 0.5, np.float32) for k, tile in enumerate(tiles)]
    for k in reversed(range(len(tiles))):
        store.put(k, ids[k], numbers[k])
    for k in range(len(tiles)):
        for stored, given in zip(store.get(k), (ids[k], numbers[k]), strict=True):
            np.testing.assert_array_equal(stored, given)
    store.close()


@pytest.mark.slow
def test_importing_polyad_needs_nothing_that_only_unix_has():
    """Whatever is imported at the top of a module is there on every system."""
    script = """
import sys, pkgutil, importlib
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import polyad
for module in pkgutil.walk_packages(polyad.__path__, "polyad."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.unix
def test_what_tests_start_can_be_interrupted_where_sigint_is_ignored():
    """As under nohup, in a background job and on some CI runners."""

    def ended():
        return subprocess.run(["sh", "-c", "kill -INT $$"], check=False).returncode

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert ended() == 0
        pytest_configure()
        assert ended() == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)
