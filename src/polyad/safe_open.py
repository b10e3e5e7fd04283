"""Which files may be opened: regular ones.

To open a named pipe is to wait until somebody writes to it, and to open a device can do anything.
A file that is read is therefore looked at before it is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from polyad.errors import PolyadError, SceneError

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip


def check_regular(path: Path, error: type[PolyadError] = SceneError) -> int:
    """Return the size of a regular file in bytes; raise ``error`` for a pipe or device.

    Links are followed; a missing file or a folder is an `OSError`, as ever.
    """
    status = path.stat()
    _refuse_other_kinds(path, status.st_mode, error)
    return status.st_size


def open_regular(path: Path, error: type[PolyadError] = SceneError) -> BufferedReader:
    """Open a regular file for reading bytes; raise ``error`` for a pipe or device."""
    check_regular(path, error)
    # Looked at again once it is open, without waiting: it may have become a pipe in between
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _refuse_other_kinds(path, os.fstat(file.fileno()).st_mode, error)
    except (PolyadError, OSError):
        file.close()
        raise
    return file


def open_own(path: Path, mode: int, flags: int = 0) -> int:
    """Open a file that polyad keeps, to read and write; it is made with ``mode`` if it is missing.

    Anything but a plain file in its place is an `OSError`: a link could lead to any file of the
    user's, and a pipe could be waited for in vain.
    """
    flags |= os.O_RDWR | sum(getattr(os, n, 0) for n in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():  # Windows
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "expected a plain file")
    return file


def _refuse_other_kinds(path: Path, mode: int, error: type[PolyadError]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = next((name for matches, name in _KINDS if matches(mode)), "no file")
        raise error(f"{path}: is {kind}, expected a regular file; copy what it holds into one")
