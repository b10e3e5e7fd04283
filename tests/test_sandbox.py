"""The confined process: its limits hold, its errors are ours, and values come back as they were."""

import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from affine import Affine
from rasterio.crs import CRS

from polyad import sandbox
from polyad.errors import BudgetExceeded, PolyadWarning, SceneError, SceneMismatch
from polyad.sandbox import Limits, run
from polyad.scene.raster.grid import Grid

LIMITS = Limits(memory=100_000_000, seconds=20)
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")


def call(function, *arguments, **options):
    options = {"name": "scene.h5", "limits": LIMITS} | options
    return run(function, *arguments, **options)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 0.1, float("inf"), "Å", [1, [2.5, "a"]], (1, (2, 3)), {1: "a", "b": [2]},
        b"\0\xff", Path("a/b"), slice(2, 5), np.dtype(">i2"), Affine(30, 0, 5e5, 0, -30, 4e6),
        CRS.from_epsg(32633), Grid((3, 4), CRS.from_epsg(4326), Affine(1, 0, 0, 0, -1, 0)),
    ],
)  # fmt: skip
def test_values_come_back_as_they_were(value):
    assert call("copy:copy", value) == value


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "?", "u1"])
def test_arrays_keep_type_and_order_in_memory(order, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(order)
    found = call("copy:copy", array)
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.strides, found.flags.writeable) == (array.dtype, array.strides, True)


def test_arrays_without_axes_or_elements_are_arrays_too():
    assert call("copy:copy", np.array(7)).shape == ()
    assert call("copy:copy", np.empty((0, 3))).shape == (0, 3)


def fail(kind):
    raise {"ours": SceneMismatch("two do not fit"), "other": KeyError("shape")}[kind]


def warn():
    warnings.warn("odd", PolyadWarning, stacklevel=1)
    warnings.warn("of a library", UserWarning, stacklevel=1)


def test_errors_and_warnings_of_ours_pass_and_others_are_told():
    here = Path(__file__).parents[1]
    own = {"files": [here]}
    with pytest.raises(SceneMismatch, match="two do not fit"):
        call("tests.test_sandbox:fail", "ours", **own)
    with pytest.raises(RuntimeError, match="'shape'"):
        call("tests.test_sandbox:fail", "other", **own)
    with pytest.warns(PolyadWarning) as caught:
        call("tests.test_sandbox:warn", **own)
    assert [str(w.message) for w in caught] == ["odd"]


@linux
def test_memory_is_bounded_and_the_next_call_has_its_own_limit():
    with pytest.raises(BudgetExceeded, match=r"scene.h5: .* more memory than the budget of 100 MB"):
        call("numpy:ones", 10**8)
    assert call("numpy:ones", 10**8, "u1", limits=Limits(300_000_000)).sum() == 10**8


def test_a_name_that_speaks_of_memory_is_no_lack_of_memory(tmp_path):
    file = tmp_path / "out of memory, malloc.h5"
    file.touch()
    for text, kind in ((f"cannot open {file}", RuntimeError), ("malloc failed", BudgetExceeded)):
        with pytest.raises(kind):
            call("tests.test_sandbox:say", text, files=[file, Path(__file__).parents[1]])


def say(text):
    raise OSError(text)


@linux
def test_processor_time_is_bounded():
    with pytest.raises(SceneError, match="took more than 1 s of the processor, or crashed"):
        call("builtins:sum", list(range(9)), limits=Limits(10**8, 1)) and call(
            "builtins:eval", "[0 for _ in iter(int, 1)]", limits=Limits(10**10, 1)
        )


def test_a_crash_is_one_clear_error_and_the_next_call_works():
    with pytest.raises(SceneError, match=r"^scene.h5: .*; the file is truncated, damaged or host"):
        call("os:abort")
    assert call("os:getpid") != os.getpid()


def test_a_process_serves_all_requests_for_the_same_files(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").write_bytes(b"x")
    pids = [call("os:getpid", files=[tmp_path / name]) for name in "aba"]
    assert pids[0] == pids[2] != pids[1]
    (tmp_path / "c").write_bytes(b"y")
    (tmp_path / "c").replace(tmp_path / "a")
    assert call("os:getpid", files=[tmp_path / "a"]) not in pids


@linux
def test_no_other_file_is_read_none_is_written_and_no_socket_made(tmp_path):
    if sandbox.ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        pytest.skip("no Landlock")
    inside, beside = tmp_path / "scene.h5", tmp_path / "secret.txt"
    inside.write_text("a")
    beside.write_text("b")
    own = {"files": [inside]}
    assert call("numpy:fromfile", str(inside), "u1", **own).tolist() == [97]
    assert sorted(call("os:listdir", str(tmp_path), **own)) == ["scene.h5", "secret.txt"]
    for function, *arguments in (
        ("numpy:fromfile", str(beside), "u1"),
        ("os:listdir", str(tmp_path.parent)),
        ("os:unlink", str(inside)),
        ("os:mkdir", str(tmp_path / "new")),
        ("os:truncate", str(inside), 0),
        ("socket:create_connection", ("127.0.0.1", 9)),
        ("os:execv", "/bin/true", ["true"]),
    ):
        with pytest.raises(RuntimeError, match="denied"):
            call(function, *arguments, **own)
    (tmp_path / "link").symlink_to(beside)
    with pytest.raises(RuntimeError, match="denied"):
        call("numpy:fromfile", str(tmp_path / "link"), "u1", **own)
    assert {p.name for p in tmp_path.iterdir()} == {"scene.h5", "secret.txt", "link"}


@linux
def test_only_the_scratch_folder_is_written_and_little(tmp_path):
    scratch, other = tmp_path / "scratch", tmp_path / "other"
    scratch.mkdir()
    other.mkdir()
    own = {"files": [scratch], "scratch": scratch, "limits": Limits(10**8, 20, written=1000)}
    call("numpy:save", str(scratch / "a.npy"), np.zeros(10), **own)
    with pytest.raises(RuntimeError):
        call("numpy:save", str(scratch / "b.npy"), np.zeros(1000), **own)
    with pytest.raises(RuntimeError, match="denied"):
        call("numpy:save", str(other / "a.npy"), np.zeros(10), **own)
    assert (scratch / "a.npy").exists()


def test_an_interrupted_request_leaves_nothing_behind(monkeypatch):
    pid = call("os:getpid")
    monkeypatch.setattr(sandbox, "_receive", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        call("time:sleep", 600)
    monkeypatch.undo()
    assert call("os:getpid") != pid


def test_a_process_that_blocks_is_ended(monkeypatch):
    monkeypatch.setattr(sandbox, "PATIENCE", 0.02)
    with pytest.raises(SceneError, match="reading it took"):
        call("time:sleep", 600)


def test_several_threads_have_a_process_each():
    pids = set()
    start = threading.Barrier(3)

    def ask():
        start.wait()
        call("time:sleep", 0.3)
        pids.add(call("os:getpid"))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    before = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - before < 60
    assert pids


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_of_ours_starts_its_own():
    theirs = call("os:getppid")
    child = os.fork()
    if not child:
        os._exit(call("os:getppid") == theirs)
    assert os.waitpid(child, 0)[1] == 0
    assert call("os:getppid") == theirs


@dataclass(frozen=True)
class Foreign:
    """Of no module of polyad."""

    value: int


def test_records_of_other_packages_are_refused():
    with pytest.raises(SceneError, match="reading it"):
        call("copy:copy", Foreign(1))


@linux
def test_an_answer_calls_no_function():
    answer = ["record", "polyad.atomic:replacing", ["dict", ["list", "path"], ["list", "target"]]]
    with pytest.raises(ValueError, match="replacing, which is no record"):
        sandbox._rich(answer, [])


def test_nothing_is_left_when_the_parent_is_killed():
    script = """
import os, time
from polyad.sandbox import Limits, run
print(run("os:getpid", name="x", limits=Limits(10**8)), flush=True)
time.sleep(600)
"""
    import subprocess

    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
