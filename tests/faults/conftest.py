"""Fail or kill a write at every one of its steps, as SQLite's tests do.

A step is a call by which Python changes a disk: opening for writing, writing (half of it is done),
syncing, renaming, linking, removing, truncating, changing permissions. GDAL and HDF5 write by
themselves: they are met by a full disk instead, see `test_full_disk.py`.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

CALLS = (
    "open", "write", "pwrite", "fsync", "rename", "replace", "link", "unlink", "rmdir", "mkdir",
    "truncate", "ftruncate", "chmod",
)  # fmt: skip
REAL: dict[str, Any] = {name: getattr(os, name) for name in (*CALLS, "remove")}
REAL_OPEN = io.open
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KILLED = 137
ENDED = 2**22 + 1  # a process that cannot be, in the names of what it left behind

Strike = Callable[[int, str], None]


class Steps:
    """Count the steps of a write; at each, half done where it can be, call ``strike``."""

    def __init__(self, strike: Strike | None = None) -> None:
        self.strike = strike
        self.names: list[str] = []

    def take(self, name: str, half: Callable[[], Any] | None = None) -> Any:
        """Note a step; return what ``half`` of it gave."""
        self.names.append(name)
        if self.strike is None:
            return 0
        done = 0 if half is None else half()
        self.strike(len(self.names) - 1, name)
        return done


@contextmanager
def watched(steps: Steps) -> Iterator[None]:
    """Let every call that changes the disk be a step of ``steps``."""
    real = REAL | {"fsync": lambda _: None}  # still a step, without waiting for the disk

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            view = memoryview(data).cast("B")
            done = steps.take("write", lambda: super(File, self).write(view[: len(view) // 2]))
            return int(done) + super().write(view[done:])

        def truncate(self, size: int | None = None) -> int:
            steps.take("truncate")
            return super().truncate(size)

    def call(name: str) -> Callable[..., Any]:
        def done(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & WRITING:
                return real[name](*args, **options)
            if name not in ("write", "pwrite"):
                steps.take(name)
                return real[name](*args, **options)
            file, data, at = args[0], memoryview(args[1]).cast("B"), args[2:]
            done = steps.take(name, lambda: real[name](file, data[: len(data) // 2], *at))
            return done + real[name](file, data[done:], *(place + done for place in at))

        return done

    def open_file(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any):
        if not set(mode) & set("wax+"):
            return REAL_OPEN(file, mode, buffering, *args, **options)
        if not isinstance(file, int):
            steps.take("open")
        raw = File(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, call(name))
        patch.setattr(os, "remove", call("unlink"))
        patch.setattr(io, "open", open_file)
        patch.setattr(builtins, "open", open_file)
        yield


def run(write: Callable[[], None], strike: Strike | None = None) -> list[str]:
    """Do ``write``, with ``strike`` at each of its steps; return their names."""
    steps = Steps(strike)
    with watched(steps):
        write()
    return steps.names


def fail(write: Callable[[], None], at: int, number: int) -> bool:
    """Do ``write`` with an error at one of its steps; return whether it said so."""

    def strike(step: int, _: str) -> None:
        if step == at:
            raise OSError(number, os.strerror(number))

    try:
        run(write, strike)
    except Exception:
        return True
    return False


def kill(write: Callable[[], None], at: int) -> None:
    """Do ``write`` in a process that ends at one of its steps, as by a kill."""

    def strike(step: int, _: str) -> None:
        if step == at:
            os._exit(KILLED)

    with warnings.catch_warnings():  # other threads of this process do not matter to the child
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            run(write, strike)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == KILLED


class Bench:
    """A folder in which ``new`` is written over what ``old`` wrote, again and again."""

    kill = staticmethod(kill)

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    def place(self, like: Path | None = None) -> Path:
        """Return a fresh folder, empty or a copy of another."""
        self.number += 1
        fresh = self.folder / str(self.number)
        with pytest.MonkeyPatch.context() as patch:  # this is no step of the write
            for name in (*CALLS, "remove"):
                patch.setattr(os, name, REAL[name])
            for module in (io, builtins):
                patch.setattr(module, "open", REAL_OPEN)
            fresh.mkdir() if like is None else shutil.copytree(like, fresh)
            for path in [p for p in fresh.rglob("*") if f"-{os.getpid()}-" in p.name]:
                path.rename(path.with_name(path.name.replace(f"-{os.getpid()}-", f"-{ENDED}-")))
        return fresh

    def check(
        self,
        old: Callable[[Path], None],
        new: Callable[[Path], None],
        read: Callable[[Path], Any],
        also: tuple[Any, ...] = (),
    ) -> int:
        """Fail and kill ``new`` at every step; return how many there are.

        Parameters
        ----------
        old, new : callable
            Write one state, or the next one, into a folder.
        read : callable
            Returns the state of a folder, or raises if it is not whole.
        also : tuple
            States that a kill, but no error, may leave beside the old and the new one.
        """
        start = self.place()
        old(start)
        before = read(start)
        done, killed = self.place(start), []
        # What is on the disk at a step is what a kill there leaves: one write shows them all
        names = run(partial(new, done), lambda *_: killed.append(self.place(done)))
        after = read(done)
        assert before != after
        for at, name in enumerate(names):
            here, where = self.place(start), f"at step {at} of {len(names)}, {name}"
            told = fail(partial(new, here), at, (errno.ENOSPC, errno.EIO)[at % 2])
            found = read(here)
            assert found in (before, after), f"failed {where}"
            assert not (told and found == after), f"failed {where}: done, but called a failure"
            if name not in ("unlink", "rmdir"):  # what cannot be removed stays
                assert left_overs(here) == [], f"failed {where}"
            assert read(killed[at]) in (before, after, *also), f"killed {where}"
            if at % 8 == 0:  # not each, for the sake of time
                new(killed[at])
                found = read(killed[at]), left_overs(killed[at])
                assert found == (after, []), f"killed {where}, then done again"
        return len(names)


def left_overs(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".part-" in path.name]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # still a step, without waiting for the disk
    if not hasattr(os, "fork"):
        pytest.skip("this system knows no fork, by which a process is made that can be killed")
    return Bench(tmp_path)
