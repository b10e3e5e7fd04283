"""Outputs that are either whole or missing: written beside their place, then renamed into it.

A process killed while writing leaves the old file untouched and, next to it, a hidden left-over
called ``.<name>.part-<place>-<pid>-<token>``, which the next writer of the same file removes: at
once if the process is gone, and after a day if it may run elsewhere, on another machine or in
another container, as its ``place`` says.

Files that belong together are renamed one right after the other, in an order
in which no moment shows a file with what belongs to another; see `Outputs`.
"""

from __future__ import annotations

import errno
import filecmp
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from polyad.errors import OutputError

# A writer touches its file far more often than this, even from another machine on a shared disk.
ABANDONED_AFTER = 24 * 3600.0  # seconds
_WRITER = re.compile(r"\.part-([0-9a-f]{8})-([0-9]+)-")  # place and process

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Undo = list[tuple[Path, Path | None]]  # a name, and where its old content is

_SMALL = 2**20  # bytes of a companion that is compared with the one that is there


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success rename it over ``path``.

    If the block raises, the temporary file is removed and ``path`` is as it was before.

    Parameters
    ----------
    path : path-like
        The file to be made or replaced. Its folder must exist.

    Yields
    ------
    pathlib.Path
        An empty file in the same folder, to be written by the block.

    Raises
    ------
    OutputError
        The folder is missing or not writable, ``path`` is not a file, or the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "scores.json"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("{}")
    >>> target.read_text()
    '{}'
    """
    with replacing_together() as outputs:
        yield outputs.temporary(path)


@contextmanager
def replacing_together() -> Iterator[Outputs]:
    """Yield an empty `Outputs`; what was added to it appears when the block ends without error."""
    outputs = Outputs()
    try:
        yield outputs
        outputs._commit()
    except OSError as error:
        # Only what surely concerns the output is reworded; the block may have read files too.
        if error.errno in _FULL and outputs._steps:
            raise disk_full(outputs._steps[0][1]) from error
        raise
    finally:
        outputs._close()


class Outputs:
    """Files that appear together, each at a temporary path until then.

    They are renamed in the order in which they were added. Companions of what was there before,
    and what is withdrawn, go first: so a reader, or whoever comes after a kill, can find a file
    without its companions, but never a file with the companions of another. A companion that would
    not change stays where it is.

    If a step fails, those before it are undone: what was there before is there again. A file that
    is replaced hands on its permissions, and no more than those are given while it is written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing_together() as outputs:
    ...     _ = outputs.temporary(folder / "map.tif").write_text("ids")
    ...     _ = outputs.temporary(folder / "shares.tif", companion=True).write_text("probabilities")
    >>> sorted(path.name for path in folder.iterdir())
    ['map.tif', 'shares.tif']
    """

    def __init__(self) -> None:
        self._token = f"{_place()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._steps: list[tuple[Path, Path]] = []  # temporary and target, in the order of renames
        self._companions: set[Path] = set()
        self._withdrawn: list[Path] = []
        self._hidden: list[Path] = []  # all names that must be gone in the end

    def temporary(
        self, path: str | os.PathLike[str], *, companion: bool = False, folder: bool = False
    ) -> Path:
        """Return an empty file beside ``path``, which will be renamed to it.

        Parameters
        ----------
        path : path-like
            The file to be made or replaced. It may be given again: then it passes through every
            one of its contents, in this order and among the renames of the others.
        companion : bool, default=False
            Whether it says something about the files before it.
        folder : bool, default=False
            Whether a folder is written; it is not made.
        """
        target = _checked(path, folder)
        if target not in self._companions and companion:
            self._companions.add(target)
            self._withdrawn.append(target)
        temporary = self._hide(target)
        if not folder:
            _create(temporary, target)
        self._steps.append((temporary, target))
        return temporary

    def scratch(self, path: str | os.PathLike[str]) -> Path:
        """Return an empty file beside ``path`` that is of use only until the end of the block."""
        target = Path(os.path.realpath(path))
        hidden = self._hide(target)
        _create(hidden, target)
        return hidden

    def withdraw(self, *paths: str | os.PathLike[str]) -> None:
        """Remove files that describe what is being replaced."""
        self._withdrawn += [Path(path) for path in paths]

    def _hide(self, target: Path) -> Path:
        """Return a hidden name beside ``target`` that this writer alone has."""
        sweep_abandoned(target)
        number = len(self._hidden)
        hidden = target.with_name(
            f".{target.name}.part-{self._token}{f'.{number}' if number else ''}"
        )
        self._hidden.append(hidden)
        return hidden

    def _commit(self) -> None:
        for temporary, target in self._steps:
            _sync(temporary, target)
        same = {
            target
            for temporary, target in self._steps
            if target in self._companions
            and target.is_file()
            and temporary.stat().st_size <= _SMALL
            and filecmp.cmp(temporary, target, shallow=False)
        }
        undo: Undo = []
        try:
            # A companion may be known by the name of a link to it
            real = {path: Path(os.path.realpath(path)) for path in self._withdrawn}
            for old in dict.fromkeys(r if r in self._companions else w for w, r in real.items()):
                if os.path.lexists(old) and old not in same:
                    aside = self._hide(old)
                    undo.append((old, aside))
                    old.rename(aside)
            # Within one folder the order of renames is kept as it is
            sync_folders({old.parent for old, _ in undo} - {self._steps[0][1].parent})
            for temporary, target in self._steps:
                if target not in same:
                    self._replace(temporary, target, undo)
            sync_folders({target.parent for _, target in self._steps})
        except BaseException:
            for name, kept in reversed(undo):
                _restore(name, kept)
            raise

    def _replace(self, temporary: Path, target: Path, undo: Undo) -> None:
        known = any(name == target for name, _ in undo)
        if not target.exists():
            undo += [] if known else [(target, None)]
            _move(temporary, target)
        elif temporary.is_dir():
            if _exchange(temporary, target):
                undo.append((target, temporary))
                return
            kept = self._hide(target)
            undo.append((target, kept))
            target.rename(kept)
            temporary.rename(target)
        else:
            if not known:
                kept = self._hide(target)
                try:  # a second name, or where that cannot be a second copy
                    os.link(target, kept)
                except (OSError, AttributeError):
                    shutil.copy2(target, kept)
                undo.append((target, kept))
            _move(temporary, target)

    def _close(self) -> None:
        for path in self._hidden:
            remove_quietly(path)


def check_room(path: Path, nbytes: int, *, folder: bool = False) -> None:
    """Refuse to begin a file (or folder) of ``nbytes`` bytes that the disk has no room for."""
    _checked(path, folder)
    if shutil.disk_usage(path.parent).free < nbytes:
        raise disk_full(path)


def disk_full(path: Path, got: str = "a full disk or quota") -> OutputError:
    """Return the error that says that ``path`` could not be written whole."""
    free = shutil.disk_usage(path.parent).free
    got = f"{got} ({free:,} bytes free in {path.parent})"
    remedy = "free some space or choose another folder. What was there before is untouched"
    return _cannot_write(path, "room for the whole file", got, remedy)


def _cannot_write(path: str | Path, expected: str, got: str, remedy: str) -> OutputError:
    return OutputError(f"cannot write {path}: expected {expected}, got {got}; {remedy}")


def _checked(path: str | os.PathLike[str], as_folder: bool = False) -> Path:
    """Return the real place of an output, at which a file or a folder may be written."""
    if "\0" in os.fspath(path):
        got, name = "one with a NUL in it", repr(os.fspath(path))
        raise _cannot_write(name, "a file name", got, "choose another name")
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    folder = target.parent
    if not folder.is_dir():
        got = "a file of that name" if folder.exists() else "no such folder"
        refusal = f"the folder {folder}", got, "create it or choose another output"
    elif as_folder and target.exists() and not target.is_dir():
        refusal = f"a new folder in {folder}", "a file of that name", "choose another output"
    elif target.is_dir() and not as_folder:
        remedy = f"name a file in it, such as {target / 'name'}"
        refusal = "a file name", "an existing folder", remedy
    elif target.exists() and not as_folder and not target.is_file():  # such as /dev/null
        remedy = "choose a file name and copy it from there"
        refusal = "a regular file", "a device or pipe", remedy
    else:
        return target
    raise _cannot_write(target, *refusal)


def _create(temporary: Path, target: Path) -> None:
    """Make an empty file that nobody may read who may not read ``target``."""
    try:
        temporary.touch(exist_ok=False)
        mode = _mode(target)
        if mode is not None:
            _set_mode(temporary, mode | stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(target) from error
        remedy = "change its permissions or choose another folder"
        expected, got = "a folder that may be written to", f"'{error.strerror}'"
        raise _cannot_write(target, expected, got, remedy) from error


def _mode(target: Path) -> int | None:
    return stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else None


def _set_mode(path: Path, mode: int) -> None:
    if _mode(path) != mode:  # some file systems know one mode only, and refuse to be told it
        path.chmod(mode)


def _sync(temporary: Path, target: Path) -> None:
    """Put the bytes on the disk before the name points to them; a full disk may show only here."""
    if not temporary.exists():
        raise OutputError(
            f"cannot write {target}: nothing was written; this is a bug, please report it"
        )
    if temporary.is_dir():
        for path in [p for p in temporary.rglob("*") if p.is_file()]:
            _sync_path(path)
        return
    _sync_path(temporary)
    mode = _mode(target)
    if mode is not None:
        _set_mode(temporary, mode)


def sync_folders(folders: set[Path]) -> None:
    """Put the names of the folders' files on the disk."""
    for folder in folders if os.name != "nt" else ():  # Windows cannot open a folder
        with suppress(OSError):  # some network file systems refuse; the rename itself is done
            _sync_path(folder, os.O_RDONLY)


def _sync_path(path: Path, flags: int = os.O_RDWR) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(temporary: Path, target: Path) -> None:
    """Rename over ``target``, which Windows refuses while another program has it open."""
    try:
        temporary.replace(target)
    except PermissionError as error:
        expected, got = "a file that can be replaced", f"'{error.strerror}'"
        remedy = "close it in other programs, or choose another name"
        raise _cannot_write(target, expected, got, remedy) from error


def _restore(name: Path, kept: Path | None) -> None:
    """Give ``name`` its old content again, or nothing if it had none."""
    if kept is None:
        remove_quietly(name)
    elif os.path.lexists(kept):
        if kept.is_dir():
            remove_quietly(name)
        with suppress(OSError):
            kept.replace(name)


def _exchange(first: Path, second: Path) -> bool:
    """Let two names change places in one step; return whether the system can do that."""
    if sys.platform != "linux":  # pragma: no cover
        return False
    import ctypes  # rarely needed

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # pragma: no cover - a C library before 2018
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0)


# -- temporary files of writers that were killed ------------------------------------------------


def sweep_abandoned(target: Path) -> None:
    """Remove what killed writers of ``target`` left behind."""
    start = f".{target.name}.part-"
    for path in [p for p in target.parent.iterdir() if p.name.startswith(start)]:
        with suppress(OSError):  # another writer may sweep at the same time
            writer = _WRITER.search(path.name)
            gone = writer and writer[1] == _place() and _has_ended(int(writer[2]))
            if gone or time.time() - path.lstat().st_mtime > ABANDONED_AFTER:
                remove_quietly(path)


def remove_quietly(path: Path) -> None:
    """Remove a file or a folder that may be there; one that cannot be removed is left to others."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@cache
def _place() -> str:
    """Return what tells the processes of this running system from those that have equal numbers."""
    try:
        system = Path("/proc/sys/kernel/random/boot_id").read_text()
        system += os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - it is no path
    except OSError:  # pragma: no cover - other systems than Linux
        system = platform.node()
    return f"{zlib.crc32(system.encode()):08x}"


def _has_ended(process: int) -> bool:
    if os.name == "nt":  # there, to ask is to interrupt
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # of another user
        return False
    return False
