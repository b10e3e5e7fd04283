"""A first look at an HDF5 file in a process of its own, where it may hang or crash without harm.

The HDF5 library takes a file's tables as they are: a few changed bytes in one can keep it busy for
good, in a loop that not even Ctrl+C ends, or end the process. So before a file is opened here,
`probe_child` reads its header, with little memory and time to spend. That process is started with
the first file, in a third of a second, and looks at every further one in moments.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
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
    found = path.stat()
    # The same path can hold another file a moment later
    trouble = _probe(os.fspath(path.absolute()), found.st_ino, found.st_size, found.st_mtime_ns)
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
        asked, answered = cast(IO[str], child.stdin), cast(IO[str], child.stdout)
        asked.write(json.dumps(path) + "\n")
        asked.flush()
        line = answered.readline() if _comes(answered) else ""
        if not line:
            _end()
            return "did not end"
        found: str | None = json.loads(line)
        return found


def _comes(answered: IO[str]) -> bool:
    """Wait for an answer, but not for good."""
    if os.name == "nt":  # pragma: no cover - it cannot wait for a pipe
        return True
    return bool(select.select([answered], [], [], _PATIENCE)[0])


def _started() -> subprocess.Popen[str]:
    """Return the process that looks at files, started if it is not there."""
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
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL) if os.name != "nt" else child.kill()
        child.communicate()
