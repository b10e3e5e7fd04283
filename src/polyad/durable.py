r"""Files of lines that survive a kill: an added line is there whole, or it is not there.

The journal of the labeling page, the ledger of a resumable map and the records of experiments are
such files.

- `LineFile` stays open in one process, which appends to it. A line that the disk refuses is cut off
  again and never comes back.
- `add_line` is for files that several processes add to, each for a moment.
- `seal` gives a line a checksum, `unseal` checks it, and `set_aside` moves damaged lines away.

The locks are `filelock`'s. The system drops them with the process, so what a killed process leaves
behind can be used at once. A `LineFile` is locked itself; where a file is replaced by renaming, a
`LockFile` lies beside it.

Examples
--------
>>> import tempfile
>>> with LineFile(Path(tempfile.mkdtemp()) / "log") as log:
...     log.append(seal({"do": "undo"}))
...     log.read()
b'{"do":"undo","crc":"c41fbe09"}\n'
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Self

from filelock import lock_descriptor

from polyad.atomic import replacing
from polyad.errors import OutputError
from polyad.safe_open import open_own, read_at, write_at

INFLATION = 30  # parsed lines take about this many times their size in memory
BROKEN = ".broken"  # what the file of damaged lines is called, after theirs

Entry = dict[str, Any]


class InUse(OSError):
    """Another process holds the lock."""


class Torn(OSError):
    """A refused line cannot be cut off."""


class Changed(OSError):
    """Another program wrote to the file."""


class Replaced(OSError):
    """Another file has taken its place."""


class Gone(OSError):
    """The file was deleted or moved away, and cannot be written anew."""


# --- checksums -----------------------------------------------------------------------------------


class Seal(NamedTuple):
    """How a line of JSON carries the checksum of what stands before it."""

    pattern: re.Pattern[bytes]  # the covered text, the checksum
    template: bytes
    end: bytes  # the end of the JSON text, which follows the checksum


AS_MEMBER = Seal(
    re.compile(rb'(\{.+),"crc":"([0-9a-f]{8})"\}', re.DOTALL), b'%b,"crc":"%08x"}\n', b"}"
)
AFTER_TEXT = Seal(re.compile(rb"(.*) ([0-9a-f]{8})", re.DOTALL), b"%b %08x\n", b"")


def seal(entry: Mapping[str, Any], form: Seal = AS_MEMBER) -> bytes:
    r"""Return an entry as a line of JSON with its checksum.

    Examples
    --------
    >>> seal({"tile": 3}, AFTER_TEXT)
    b'{"tile":3} a0ec723e\n'
    """
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate becomes its JSON escape
    covered = text.encode(errors="backslashreplace").removesuffix(form.end)
    return form.template % (covered, zlib.crc32(covered))


def is_sealed(line: bytes, form: Seal = AS_MEMBER) -> bool:
    """Whether a line has a checksum, right or wrong."""
    return form.pattern.fullmatch(line) is not None


def unseal(line: bytes, form: Seal = AS_MEMBER) -> Entry:
    """Return the entry of a line without its end; raise ValueError if it is damaged.

    Examples
    --------
    >>> unseal(b'{"do":"undo","crc":"c41fbe09"}')
    {'do': 'undo'}
    """
    match = form.pattern.fullmatch(line)
    if match is None:
        raise ValueError("it has no checksum")
    if zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("its checksum is that of another line")
    try:
        entry = json.loads(match[1] + form.end)
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    return entry


# --- a file that one process appends to ----------------------------------------------------------


class LineFile:
    """A file that this process appends to, open until it is closed.

    Parameters
    ----------
    path : Path
        Made if it is not there. A link, pipe or device is an `OSError`.
    mode : int
        Permissions of a file that is made.
    lock : bool, default=True
        Whether other processes are kept out; raises `InUse` if one is in.
    sync : bool, default=True
        Whether `append` waits until the line is on the disk.
    """

    def __init__(
        self, path: Path, mode: int = 0o666, *, lock: bool = True, sync: bool = True
    ) -> None:
        self.path, self._lock, self._sync = path, lock, sync
        self._file = _open(path, mode, lock)
        self._size = os.fstat(self._file.fileno()).st_size
        self._torn = False

    @property
    def size(self) -> int:
        """Bytes of the file, as far as they count."""
        return self._size

    def read(self, size: int | None = None) -> bytes:
        """Return the first ``size`` bytes, or all of them."""
        return read_all(self._file.fileno(), self._size if size is None else size, 0)

    def keep(self, size: int) -> None:
        """Cut off all but the first ``size`` bytes."""
        self._size = size
        self._cut_back()

    def append(self, line: bytes) -> None:
        """Write a line; if that fails, the file is cut back to what it was."""
        self._mend()
        try:
            write_all(self._file.fileno(), line, self._size)
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError:
            self._cut_back()
            raise
        self._size += len(line)

    def check_place(self) -> None:
        """Raise an error if others wrote to the file or replaced it; write it anew if it is gone.

        Raises
        ------
        Torn, Changed, Replaced, Gone, OSError
        """
        self._mend()
        ours = os.fstat(self._file.fileno())
        if ours.st_size != self._size:
            raise Changed(
                errno.ESTALE,
                f"another program changed it: expected {self._size:,} bytes, got {ours.st_size:,}",
            )
        try:
            named = self.path.lstat()
        except FileNotFoundError:
            self._write_anew(stat.S_IMODE(ours.st_mode))
            return
        if not os.path.samestat(named, ours):
            raise Replaced(errno.ESTALE, "another file took its place")

    def close(self) -> None:
        """Close the file and let other processes in."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _mend(self) -> None:
        if self._torn:
            self._cut_back()
        if self._torn:
            raise Torn(errno.EIO, "a refused line cannot be cut off")

    def _cut_back(self) -> None:
        """Take off what lies behind the last good line, so that it never comes back."""
        self._torn = True
        with suppress(OSError):  # the next line tries again
            if os.fstat(self._file.fileno()).st_size > self._size:
                self._file.truncate(self._size)
                os.fsync(self._file.fileno())
            self._torn = False

    def _write_anew(self, mode: int) -> None:
        """Write all lines to a new file; the lost one is still open, and read."""
        try:
            with replacing(self.path) as temporary:
                temporary.chmod(mode)
                temporary.write_bytes(self.read())
            new = _open(self.path, mode, self._lock)
        except (OSError, OutputError) as error:
            raise Gone(
                errno.ENOENT, f"it is gone, and cannot be written anew: {why(error)}"
            ) from error
        self._file.close()
        self._file = new


def _open(path: Path, mode: int, lock: bool) -> FileIO:
    # Without a buffer: what a full disk refused must not be written later
    file = os.fdopen(open_own(path, mode), "r+b", buffering=0)
    try:
        if lock and not lock_descriptor(file.fileno(), blocking=False):
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


def write_all(file: int, data: bytes, position: int) -> None:
    """Write all of ``data`` at ``position``; one call of the system may take only some of it."""
    left = memoryview(data)
    while left:
        count = write_at(file, left, position)
        left, position = left[count:], position + count


def read_all(file: int, size: int, position: int) -> bytes:
    """Read up to ``size`` bytes from ``position``; one call of the system may give only some."""
    chunks = []
    while size and (chunk := read_at(file, size, position)):
        chunks.append(chunk)
        size, position = size - len(chunk), position + len(chunk)
    return b"".join(chunks)


def why(error: Exception) -> str:
    """Return what an error says, without its number."""
    return getattr(error, "strerror", None) or str(error)
