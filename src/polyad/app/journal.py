"""The journal: one line of JSON for each command, on the disk before the command is answered.

An unfinished last line was therefore never answered and may go; any other line that is not as it
was written is damage, and is reported. Each line has its checksum.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from polyad import durable
from polyad.atomic import replacing, sync_folders
from polyad.durable import Entry, is_sealed, seal, unseal
from polyad.errors import OutputError, PolyadError, SceneError, SceneMismatch
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES, data_folder
from polyad.scene.files.paths import split_key
from polyad.scene.raster import guards

Json = Entry  # an object that a page sends or gets
FORMAT = 2
BEGINNING = b'{"polyad journal":'  # of every journal; anything else is somebody else's file


class Journal:
    """An append-only file of commands.

    Opening reads what is there and cuts off a last line that a crash left half written. The file
    is locked, so that no two servers write to one journal.

    Parameters
    ----------
    path : Path
    about : mapping
        What the journal must belong to: the scene's ``shape`` and ``scene`` (fingerprint), and
        ``sample`` (digest of its pixels) where the points of one are checked.

    Attributes
    ----------
    commands : list of dict
        What was found, oldest first; the command at ``k`` stands in line ``k + 2``.
    """

    def __init__(self, path: Path, about: Mapping[str, object]) -> None:
        self.path = path
        self._torn = False  # whether a refused line is still to be cut off
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = durable.open_locked(path, 0o600)
        except durable.InUse as error:
            raise OutputError(
                f"the journal {path} is in use: this scene is being labeled by another polyad; "
                "open its page in a second tab, or stop it"
            ) from error
        except OSError as error:
            raise OutputError(
                f"cannot open the journal {path} ({durable.why(error)}); choose another place with "
                "--journal"
            ) from error
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            content = self._read()
            entries, self._size = read_entries(content, path)
            if entries:
                self._check_header(entries[0], about)
            self._torn = True  # a line that a crash left half written may follow
            self._cut_back()
            if not entries:
                self.append({"polyad journal": FORMAT, **about})
                sync_folders({path.parent})
            elif content[self._size - 1 : self._size] != b"\n":  # whole but for its end
                self._append(b"\n")
        except BaseException:
            self.close()
            raise
        self.commands = entries[1:]

    def append(self, command: Mapping[str, object]) -> None:
        """Write one command and wait until it is on the disk.

        If that fails, the file is cut back to what it was and an `OutputError` says so. A journal
        that was deleted or moved away meanwhile is written anew, whole, in its place.
        """
        self._append(seal(command))

    def replay(self, apply: Callable[[Entry], object], what: str, remedy: str) -> None:
        """Call ``apply`` with every command found, and forget them.

        Raises
        ------
        SceneError
            One is not as ``apply`` wants it; the message names its line, ``what`` and ``remedy``.
        """
        for line, command in enumerate(self.commands, start=2):
            try:
                apply(command)
            except (PolyadError, LookupError, TypeError, ValueError) as error:
                reason = str(error)[:200] if isinstance(error, PolyadError) else "malformed"
                raise SceneError(
                    f"{self.path}, line {line}: the journal holds {what} ({reason}) and was left "
                    f"as it is; {remedy}, or move the file away to start anew"
                ) from error
        self.commands.clear()

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _append(self, line: bytes) -> None:
        try:
            self._cut_back()
            self._check_place()
            self._torn = True
            self._file.seek(self._size)
            left = memoryview(line)
            while left:  # one call of the system may take only some of it
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
            self._torn = False
        except OSError as error:
            with suppress(OSError):  # the next line tries again
                self._cut_back()
            raise self._refused(durable.why(error), "Free some space and click again") from error
        self._size += len(line)

    def _cut_back(self) -> None:
        """Take off what lies behind the last good line, so that it never comes back."""
        if self._torn and os.fstat(self._file.fileno()).st_size > self._size:
            self._file.truncate(self._size)
            os.fsync(self._file.fileno())
        self._torn = False

    def _check_place(self) -> None:
        """Raise an error if others changed or replaced the file; write it anew if it is gone."""
        ours = os.fstat(self._file.fileno())
        if ours.st_size != self._size:
            raise self._refused(
                f"another program changed it: expected {self._size:,} bytes, got {ours.st_size:,}",
                "Save the labels from the page, move the journal away and start again with them",
            )
        if not os.path.lexists(self.path):
            try:
                with replacing(self.path) as temporary:
                    temporary.chmod(0o600)
                    temporary.write_bytes(self._read())  # what is lost is still open
                new = durable.open_locked(self.path, 0o600)
            except (OSError, OutputError) as error:
                reason = f"it is gone, and cannot be written anew: {durable.why(error)}"
                raise self._refused(reason, "Put it back and click again") from error
            self._file.close()
            self._file = new
        elif not os.path.samestat(self.path.lstat(), ours):
            raise self._refused(
                "another file took its place",
                "Move that file away and click again: the journal is then written anew, whole",
            )

    def _refused(self, reason: str, remedy: str) -> OutputError:
        return OutputError(
            f"cannot write to the journal {self.path} ({reason}); the label was not saved. {remedy}"
        )

    def _check_header(self, header: Entry, about: Mapping[str, object]) -> None:
        """Raise an error unless the journal is of this format and was written for this scene."""
        found, sample = str(header.get("polyad journal"))[:20], header.get("sample")
        if header.get("polyad journal") != FORMAT:
            raise SceneError(
                f"{self.path} is a journal of format {found}, expected {FORMAT}; use the polyad "
                "that wrote it, or move it away to start anew"
            )
        if sample != about.get("sample"):
            raise SceneMismatch(
                f"{self.path} is the journal of {'another sample' if sample else 'labels'}; move "
                "it away, or name another file with --journal"
            )
        if any(header.get(key) != value for key, value in about.items()):
            raise SceneMismatch(
                f"{self.path} belongs to another scene of {str(header.get('shape'))[:40]} pixels, "
                f"this one has {about.get('shape')}; move the journal away to start anew"
            )

    def _read(self) -> bytes:
        """Return the content, once its first bytes say that it is a journal.

        A crash at the very first write leaves the beginning of a journal's first line, or nothing.
        """
        self._file.seek(0)
        start = self._file.read(len(BEGINNING))
        if not (start.startswith(BEGINNING) or BEGINNING.startswith(start)):
            raise SceneError(
                f"{self.path} is no journal of polyad; it was left as it is, name another file "
                "with --journal"
            )
        if self._size * durable.INFLATION > guards.memory_budget():
            raise SceneError(
                f"{self.path}: a journal is read at once, and its {guards.human_bytes(self._size)} "
                "do not fit in half of this machine's memory; move it away to start anew"
            )
        return start + self._file.read()


def read_entries(content: bytes, path: Path) -> tuple[list[Entry], int]:
    r"""Return the entries of a journal and the number of bytes that hold them.

    Examples
    --------
    >>> read_entries(seal({"do": "undo"}) + b'{"do":"re', Path("x"))
    ([{'do': 'undo'}], 31)
    """
    entries: list[Entry] = []
    good = 0
    for line in durable.split_lines(content):
        if good + len(line) == len(content) and not is_sealed(line):
            break  # unfinished: never answered, so nobody relies on it
        try:
            entries.append(unseal(line))
        except ValueError as error:
            raise SceneError(
                f"{path}, line {len(entries) + 1}: the journal is damaged ({error}) and was left "
                "as it is; take this line out with an editor to go on without its label, or move "
                "the file away to start anew"
            ) from error
        good += len(line) + 1
    return entries, min(good, len(content))


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
