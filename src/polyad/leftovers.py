"""What killed writers leave behind, told from what living ones are still writing.

A writer keeps its half-written files under hidden names, ``.<name>.part-<token>``, and beside them
one lock, ``.<name>.part-<token>.<machine>.lock``, for as long as it lives. The system drops the
lock with the process, so that a lock which can be had means that nobody will come back for the
files. A lock of another machine, which this one may not see, or no lock at all says nothing: then
age decides.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# A writer touches its file far more often than this, even from another machine on a shared disk.
ABANDONED_AFTER = 24 * 3600.0  # seconds

_TOKEN = re.compile(r"\.part-([0-9]+-[0-9a-f]+)")


def lock(target: Path, token: str) -> tuple[Path, int] | None:
    """Lock what this process writes under ``token`` into the folder of ``target``.

    Returns
    -------
    (path, int) or None
        The lock and its descriptor, for `unlock`; None where the file system knows no locks.
    """
    if fcntl is None:  # Windows
        return None
    path = target.with_name(f".{target.name}.part-{token}{_lock_ending()}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        unlock(path, descriptor)
        return None
    return path, descriptor


def unlock(path: Path, descriptor: int) -> None:
    """Undo `lock`."""
    remove(path)
    os.close(descriptor)


def sweep(target: Path) -> None:
    """Remove what killed writers of ``target`` left behind."""
    hidden = [p for p in target.parent.iterdir() if p.name.startswith(".") and ".part-" in p.name]
    for path in hidden:
        if not path.name.startswith(f".{target.name}.part-"):
            continue
        family = [p for p in hidden if _token(p) == _token(path)]
        locks = [p for p in family if p.name.endswith(_lock_ending())]
        if any(map(_is_abandoned, locks)):
            for leftover in sorted(family, key=lambda p: p in locks):  # the locks last
                remove(leftover)
            continue
        with suppress(OSError):  # another writer may sweep at the same time
            if time.time() - path.lstat().st_mtime > ABANDONED_AFTER:
                remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder that may be there; one that cannot be removed is left to others."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _token(path: Path) -> str | None:
    """Return what the hidden names of one writer have in common."""
    tokens = _TOKEN.findall(path.name)
    return tokens[-1] if tokens else None


@cache
def _lock_ending() -> str:
    """Return how locks end that this running system has made, and no other of the same name."""
    try:
        system = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:  # pragma: no cover - other systems than Linux
        system = platform.node().encode()
    return f".{zlib.crc32(system):08x}.lock"


def _is_abandoned(lock: Path) -> bool:
    """Whether the process that held a lock of this machine is gone."""
    if fcntl is None:  # Windows
        return False
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
