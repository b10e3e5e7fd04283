"""The journal: one line of JSON for each command, on the disk before the command is answered."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from polyad.errors import OutputError, SceneError, SceneMismatch
from polyad.scene.known import KNOWN_SCENES
from polyad.scene.readers import split_key
from polyad.scene.sources import data_folder

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
BEGINNING = b'{"polyad journal":'  # of every journal; anything else is somebody else's file


class Journal:
    """An append-only file of commands.

    Opening reads what is there and cuts off a last line that a crash left half written. The file
    is locked, so that no two servers write to one journal.

    Parameters
    ----------
    path : Path
    about : mapping
        What the journal must belong to: the scene's ``shape`` and ``scene`` (fingerprint).

    Attributes
    ----------
    commands : list of dict
        What was found, oldest first.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self._file = _open(path)
        try:
            content = self._file.read()
            check_is_journal(content, path)
            entries, good = read_entries(content, path)
            if good < len(content):
                self._file.truncate(good)
            self._size = good
            if entries:
                check_header(entries[0], about, path)
            else:
                self.append({"polyad journal": FORMAT, **about})
                _sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise
        self.commands = entries[1:]

    def append(self, command: Mapping[str, Any]) -> None:
        """Write one command and wait until it is on the disk.

        If that fails, the file is cut back to what it was and an `OutputError` says so.
        """
        line = json.dumps(command, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        try:
            self._file.seek(self._size)
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._cut_back()
            raise OutputError(
                f"cannot write to the journal {self.path} ({error.strerror or error}); the label "
                "was not taken. Free some space and click again"
            ) from error
        self._size += len(line)

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _cut_back(self) -> None:
        with suppress(OSError):  # the next start ignores the half line
            self._file.truncate(self._size)


def read_entries(content: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    r"""Return the entries of a journal and the length of its good part.

    Examples
    --------
    >>> read_entries(b'{"do":"undo"}\n{"do":"re', Path("x"))
    ([{'do': 'undo'}], 14)
    """
    entries: list[dict[str, Any]] = []
    good = 0
    while (end := content.find(b"\n", good)) >= 0:
        try:
            entry = json.loads(content[good:end])
            if not isinstance(entry, dict):
                raise ValueError("not an object")
        except ValueError as error:
            if content.find(b"\n", end + 1) < 0 and not content[end + 1 :]:
                break  # the very last line: never answered, so nobody relies on it
            raise SceneError(
                f"{path}, line {len(entries) + 1}: the journal is damaged ({error}); take the line "
                "out, or move the file away to start anew"
            ) from error
        entries.append(entry)
        good = end + 1
    return entries, good


def check_is_journal(content: bytes, path: Path) -> None:
    r"""Refuse a file that is no journal before anything of it is changed.

    A crash at the very first write leaves the beginning of a journal's first line, or nothing.

    Examples
    --------
    >>> check_is_journal(b'{"polyad jou', Path("x"))
    >>> check_is_journal(b"row,col,class\n", Path("labels.csv"))
    Traceback (most recent call last):
    polyad.errors.SceneError: labels.csv is no journal of polyad; it was left as it is, ...
    """
    if not (content.startswith(BEGINNING) or BEGINNING.startswith(content)):
        raise SceneError(
            f"{path} is no journal of polyad; it was left as it is, name another file with "
            "--journal"
        )


def check_header(header: Mapping[str, Any], about: Mapping[str, Any], path: Path) -> None:
    """Raise an error unless the journal was written by this version for this scene."""
    if header.get("polyad journal") != FORMAT:
        raise SceneError(f"{path} is no journal of polyad; move it away to start anew")
    if any(header.get(key) != value for key, value in about.items()):
        raise SceneMismatch(
            f"{path} belongs to another scene of {header.get('shape')} pixels, this one has "
            f"{about.get('shape')}; move the journal away to start anew"
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
        # A link could lead to any file of the user's, a pipe could be waited for in vain
        flags = os.O_RDWR | sum(getattr(os, n, 0) for n in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "wanted a plain file")
    except OSError as error:
        raise OutputError(
            f"cannot open the journal {path} ({error.strerror or error}); choose another place "
            "with --journal"
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


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # pragma: no cover - Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
