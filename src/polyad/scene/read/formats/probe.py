"""An HDF5 file is first opened in a separate process, where it may hang or crash without harm.

The HDF5 library trusts a file's tables: a few changed bytes can put it into an endless loop that
not even Ctrl+C ends, or crash the process. So before a file is opened here, `probe_child` reads its
header, with little memory and time to spend. That process is started with the first file, which
takes a third of a second, and answers at once for every further file.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from polyad.errors import SceneError

_CHILD = Path(__file__).with_name("probe_child.py")
_PATIENCE = 120.0  # seconds; processor time is limited to far less, this is for a file that blocks
_lock = threading.Lock()
_running: dict[int, subprocess.Popen[str]] = {}  # by our process id: a fork starts its own


def check_by_probe(path: Path) -> None:
    """Raise `SceneError` unless a process of its own could read the header of an HDF5 file."""
    status = path.stat()
    # The same path can hold another file a moment later
    trouble = _probe(os.fspath(path.absolute()), status.st_ino, status.st_size, status.st_mtime_ns)
    if trouble is not None:
        raise SceneError(
            f"{path}: wanted a sound HDF5 file, reading its header {trouble}; it is truncated, "
            "damaged or hostile, get it again from its source"
        )


@functools.lru_cache(maxsize=256)
def _probe(path: str, *_identity: int) -> str | None:
    """Return what went wrong with the file, in words that follow "reading its header"."""
    if not sys.executable:  # inside a program that has Python built in
        return None
    with _lock:
        child = _started()
        requests, answers = cast(IO[str], child.stdin), cast(IO[str], child.stdout)
        requests.write(json.dumps(path) + "\n")
        requests.flush()
        timer = threading.Timer(_PATIENCE, _kill, [child])
        timer.start()
        try:
            line = answers.readline()  # empty once the process is gone
        finally:
            timer.cancel()
        if not line:
            _end()
            return "did not end"
        trouble: str | None = json.loads(line)
        return trouble


def _started() -> subprocess.Popen[str]:
    """Return the process that probes files, started if it is not running."""
    child = _running.get(os.getpid())
    if child is None or child.poll() is not None:
        child = _running[os.getpid()] = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl+C is for us alone
        )
    return child


@atexit.register
def _end() -> None:
    child = _running.pop(os.getpid(), None)
    if child is not None:
        _kill(child)
        child.communicate()


def _kill(child: subprocess.Popen[str]) -> None:
    """End the process and the forks of it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
