r"""Files of lines that survive a kill: an added line is there whole, or it is not there.

The journal of a page (`polyad.app.journal`) and the records of experiments are such files.

- `seal` gives a line a checksum, `unseal` checks it.
- `add_line` is for files that several processes add to, each for a moment, and `set_aside` moves
  damaged lines away.

The locks are `filelock`'s. The system drops them with the process, so what a killed process leaves
behind can be used at once.

Examples
--------
>>> seal({"do": "undo"})
b'{"do":"undo","crc":"c41fbe09"}\n'
"""

from __future__ import annotations

import errno
import json
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from polyad.atomic import replacing
from polyad.safe_open import open_own

INFLATION = 30  # parsed lines take about this many times their size in memory
BROKEN = ".broken"  # what the file of damaged lines is called, after theirs
_SEALED = re.compile(
    rb'(\{.+),"crc":"([0-9a-f]{8})"\}', re.DOTALL
)  # the covered text, its checksum

Entry = dict[str, Any]


class InUse(OSError):
    """Another process holds the lock."""


# --- checksums -----------------------------------------------------------------------------------


def seal(entry: Mapping[str, object]) -> bytes:
    """Return an entry as a line of JSON with its checksum."""
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate becomes its JSON escape
    covered = text.encode(errors="backslashreplace").removesuffix(b"}")
    return b'%b,"crc":"%08x"}\n' % (covered, zlib.crc32(covered))


def is_sealed(line: bytes) -> bool:
    """Whether a line has a checksum, right or wrong."""
    return _SEALED.fullmatch(line) is not None


def unseal(line: bytes) -> Entry:
    """Return the entry of a line without its end; raise ValueError if it is damaged.

    Examples
    --------
    >>> unseal(b'{"do":"undo","crc":"c41fbe09"}')
    {'do': 'undo'}
    """
    match = _SEALED.fullmatch(line)
    if match is None:
        raise ValueError("it has no checksum")
    if zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("its checksum is that of another line")
    try:
        entry: Entry = json.loads(match[1] + b"}")
    except RecursionError as error:
        raise ValueError(str(error)) from error
    return entry


def open_locked(path: Path, mode: int) -> FileIO:
    """Open a file to read and write, made with ``mode`` if it is not there; others are kept out.

    Raises
    ------
    InUse
        Another process has it open.
    OSError
        It is a link, pipe or device, or cannot be opened.
    """
    # Without a buffer: what a full disk refused must not be written later
    file = os.fdopen(open_own(path, mode), "r+b", buffering=0)
    try:
        if not lock_descriptor(file.fileno(), blocking=False):
            raise InUse(errno.EAGAIN, "another process is writing to it")
    except OSError:
        file.close()
        raise
    return file


# --- files that several processes add to ---------------------------------------------------------


class LockFile:
    """An empty file whose lock stands for something else: a folder, or files that are renamed.

    Parameters
    ----------
    path : Path
        Made if it is not there. A link, pipe or device is an `OSError`.
    wait : bool, default=True
        Wait for another process to let go; else raise `InUse`.
    """

    def __init__(self, path: Path, *, wait: bool = True) -> None:
        self.path = path
        while True:
            try:
                self._file = open_own(path, 0o666)
            except FileExistsError:  # another process has made it in this moment
                continue
            try:
                if not lock_descriptor(self._file, blocking=wait):
                    raise InUse(errno.EAGAIN, "another process holds the lock")
                if self._is_there():
                    return
            except BaseException:
                self.close()
                raise
            self.close()  # its last holder removed it: it keeps nobody out

    def close(self) -> None:
        """Let other processes in, and leave the file where it is."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def remove(self) -> None:
        """Remove the file, unless somebody wrote to it, and let other processes in."""
        if self._file < 0:
            return
        ours = not os.fstat(self._file).st_size
        if os.name == "nt":  # pragma: no cover - there an open file cannot be removed
            self.close()
        if ours:
            with suppress(OSError):
                self.path.unlink()
        self.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(self.path.lstat(), os.fstat(self._file))
        except FileNotFoundError:
            return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out that lock the same file; it is removed in the end."""
    lock = LockFile(path)
    try:
        yield
    finally:
        lock.remove()


def add_line(path: Path, line: bytes) -> None:
    """Add a line to a file that other processes add to; call it with the file `locked`.

    The file is written anew and renamed, so that a kill leaves the old lines or all of them.
    """
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):  # a line somebody else left open stays one line
        content += b"\n"
    with replacing(path) as temporary:
        temporary.write_bytes(content + line + b"\n")


def set_aside(path: Path, broken: Collection[bytes]) -> Path:
    """Move damaged lines to ``<name>.broken``; return its path."""
    aside = path.with_name(path.name + BROKEN)
    before = aside.read_bytes() if aside.exists() else b""
    with replacing(aside) as temporary:  # first the copy, then the removal
        temporary.write_bytes(before + b"".join(line + b"\n" for line in broken))
    kept = [line for line in split_lines(path.read_bytes()) if line not in broken]
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in kept))
    return aside


# --- bytes ---------------------------------------------------------------------------------------


def split_lines(content: bytes) -> list[bytes]:
    r"""Return lines without their ends; the last one may have none.

    Examples
    --------
    >>> split_lines(b"a\n\nb")
    [b'a', b'', b'b']
    """
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def why(error: Exception) -> str:
    """Return what an error says, without its number."""
    return getattr(error, "strerror", None) or str(error)
