"""The journal: one line of JSON for each command, on the disk before the command is answered."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from polyad.app.journal_lines import (
    BEGINNING,
    FORMAT,
    check_header,
    check_is_journal,
    read_entries,
    seal,
)
from polyad.atomic import replacing
from polyad.errors import OutputError, SceneError
from polyad.regular import open_own
from polyad.scene.formats import guards
from polyad.scene.known import KNOWN_SCENES
from polyad.scene.readers import split_key
from polyad.scene.sources import data_folder

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_INFLATION = 30  # parsed lines take about this many times their size in memory


class Journal:
    """An append-only file of commands.

    Opening reads what is there and cuts off a last line that a crash left half written; see
    `polyad.app.journal_lines`. The file is locked, so that no two servers write to one journal.

    Parameters
    ----------
    path : Path
    about : mapping
        What the journal must belong to: the scene's ``shape`` and ``scene`` (fingerprint).

    Attributes
    ----------
    commands : list of dict
        What was found, oldest first; the command at ``k`` stands in line ``k + 2``.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self._file = _open(path)
        try:
            content = _read(self._file, path)
            entries, good = read_entries(content, path)
            if entries:
                check_header(entries[0], about, path)
            self._size = good
            self._cut_back()
            if not entries:
                self.append({"polyad journal": FORMAT, **about})
                _sync_folder(path.parent)
            elif content[good - 1 : good] != b"\n":  # whole but for its end, as its checksum says
                self._write(b"\n")
        except BaseException:
            self._file.close()
            raise
        self.commands = entries[1:]

    def append(self, command: Mapping[str, Any]) -> None:
        """Write one command and wait until it is on the disk.

        If that fails, the file is cut back to what it was and an `OutputError` says so. A journal
        that was deleted or moved away meanwhile is written anew, whole, in its place.
        """
        self._check_unchanged()
        self._write(seal(command))

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        try:
            self._file.seek(self._size)
            _write_all(self._file, line)
        except OSError as error:
            self._cut_back()
            raise self._refusal(_why(error), "Free some space and click again") from error
        self._size += len(line)

    def _cut_back(self) -> None:
        """Take off what lies behind the last answered line, so that it never comes back."""
        self._torn = True
        with suppress(OSError):  # the next command tries again
            if os.fstat(self._file.fileno()).st_size > self._size:
                self._file.truncate(self._size)
                os.fsync(self._file.fileno())
            self._torn = False

    def _check_unchanged(self) -> None:
        """Refuse to write to a file that others wrote to; make one anew that is gone."""
        if self._torn:
            self._cut_back()
        if self._torn:
            raise self._refusal("a refused label cannot be cut off", "Free some space, click again")
        ours = os.fstat(self._file.fileno())
        if ours.st_size != self._size:
            raise self._refusal(
                f"another program changed it: wanted {self._size:,} bytes, got {ours.st_size:,}",
                "Save the labels from the page, move the journal away and start again with them",
            )
        try:
            named = self.path.lstat()
        except FileNotFoundError:
            self._make_anew()
            return
        except OSError as error:
            raise self._refusal(_why(error), "Put it back and click again") from error
        if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino):
            raise self._refusal(
                "another file took its place",
                "Move that file away and click again: the journal is then written anew, whole",
            )

    def _make_anew(self) -> None:
        """Write all that was answered to a new file; the lost one is still open, and read."""
        try:
            self._file.seek(0)
            with replacing(self.path) as part:
                part.chmod(0o600)
                part.write_bytes(self._file.read(self._size))
            new = _open(self.path)
        except (OSError, OutputError) as error:
            raise self._refusal(
                f"it is gone, and cannot be written anew: {_why(error)}", "Then click again"
            ) from error
        self._file.close()
        self._file = new

    def _refusal(self, why: str, remedy: str) -> OutputError:
        return OutputError(
            f"cannot write to the journal {self.path} ({why}); the label was not taken. {remedy}"
        )


def journal_path(source: str | None, fingerprint: str) -> Path:
    """Return where the journal of a scene lies: beside its file, or in the user's data folder.

    Parameters
    ----------
    source : str or None
        The scene's file, ``file:key`` or known name; None for an array in memory.
    fingerprint : str
        Of the scene; names the journal where there is no file.
    """
    folder = data_folder() / "labels"
    if source is None:
        return folder / f"{fingerprint}.jsonl"
    if source in KNOWN_SCENES and not Path(source).exists():
        return folder / f"{source}.jsonl"
    name, key = (source, None) if Path(source).exists() else split_key(source)
    path = Path(name).absolute()
    ending = ".labels.jsonl" if key is None else f".{re.sub('[^A-Za-z0-9]', '-', key)}.labels.jsonl"
    beside = path.with_name(path.name + ending)
    if os.access(beside if beside.exists() else path.parent, os.W_OK):
        return beside
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return folder / f"{path.name}-{digest}{ending}"


def _open(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_own(path, 0o600)
    except OSError as error:
        raise OutputError(
            f"cannot open the journal {path} ({_why(error)}); choose another place with --journal"
        ) from error
    # Without a buffer: what a full disk refused must not be written later
    file = os.fdopen(descriptor, "r+b", buffering=0)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise OutputError(
                f"the journal {path} is in use: this scene is being labelled by another polyad; "
                "open its page in a second tab, or stop it"
            ) from error
    return file


def _read(file: FileIO, path: Path) -> bytes:
    """Return the content of a journal, once its first bytes say that it is one."""
    check_is_journal(file.read(len(BEGINNING)), path)
    size = os.fstat(file.fileno()).st_size
    if size * _INFLATION > guards.memory_budget():
        raise SceneError(
            f"{path}: a journal is read at once, and its {guards.human_bytes(size)} do not fit in "
            "half of this machine's memory; move it away to start anew"
        )
    file.seek(0)
    return file.readall()


def _write_all(file: FileIO, content: bytes) -> None:
    """Write from where the file stands and wait for the disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # pragma: no cover - Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
