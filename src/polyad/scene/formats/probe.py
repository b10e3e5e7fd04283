"""A first look at an HDF5 file in a process of its own, where it may hang or crash without harm.

The HDF5 library reads a file's tables as they are: a few changed bytes in one can keep it busy for
good, in a loop that not even Ctrl+C ends, take all memory, or end the process. So before a file's
attributes are read here, `probe_child` reads them all, with little memory and time to spend. That
takes a third of a second, once for each file.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

from polyad.errors import SceneError
from polyad.scene.formats import probe_child

_PATIENCE = 120.0  # seconds; processor time is limited to far less, this is for files that block


def check_by_probe(path: Path) -> None:
    """Raise `SceneError` unless a process of its own could read the header of an HDF5 file."""
    found = path.stat()
    # The same path can hold another file a moment later
    trouble = _probe(os.fspath(path.absolute()), found.st_ino, found.st_size, found.st_mtime_ns)
    if trouble is not None:
        raise SceneError(
            f"{path}: wanted a sound HDF5 file, reading its header {trouble}; it is damaged or "
            "hostile, get it again from its source"
        )


@functools.lru_cache(maxsize=256)
def _probe(path: str, *_identity: int) -> str | None:
    """Return what went wrong with the file, in words that follow "reading its header"."""
    if not sys.executable:  # inside a program that has Python built in
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-I", probe_child.__file__, path],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    if done.returncode == 0:
        return None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"took more than {probe_child.SECONDS} s"
    if done.returncode < 0:
        return f"crashed the HDF5 library (signal {-done.returncode})"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"failed ({said[-1] if said else f'exit code {done.returncode}'})"
