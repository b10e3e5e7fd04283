"""What Linux has and macOS or Windows lacks is taken away: everything still works."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polyad.atomic import replacing
from polyad.errors import OutputError
from polyad.safe_open import open_own
from polyad.threads import usable_cores
from tests.conftest import pytest_configure
from tests.waiting import PATIENCE

WITHOUT = ("sched_getaffinity", "O_NOFOLLOW", "O_NONBLOCK", "link")


@pytest.fixture
def elsewhere(monkeypatch):
    """Take away what Windows lacks."""
    for name in WITHOUT:
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails


def test_usable_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert usable_cores() == 2


@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_usable_cores_are_all_cores_where_the_system_does_not_tell(elsewhere, monkeypatch, count,
                                                                   cores):  # fmt: skip
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == cores


def test_a_file_is_replaced_without_links(elsewhere, tmp_path):
    target = tmp_path / "map.tif"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["map.tif"]


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
