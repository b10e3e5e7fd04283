"""Outputs that are either whole or not there: written beside their place, then renamed into it.

A process killed while writing leaves the old file untouched and, next to it, a hidden left-over
called ``.<name>.part-<pid>-<token>``, which the next writer of the same file sweeps away.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from polyad.errors import OutputError

# A writer touches its file far more often than this, even from another machine on a shared disk.
_ABANDONED_AFTER = 24 * 3600.0  # seconds

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    >>> with replacing(target) as part:
    ...     _ = part.write_text("{}")
    >>> target.read_text()
    '{}'
    """
    with replacing_all([path]) as parts:
        yield parts[0]


@contextmanager
def replacing_all(
    paths: Sequence[str | os.PathLike[str]], *, stale: Sequence[str | os.PathLike[str]] = ()
) -> Iterator[list[Path]]:
    """Yield temporary paths for files that belong together; on success rename them all.

    The first of ``paths`` is the one that stands alone (or is useless without the others); the
    rest are its companions. Companions of the old file are withdrawn first and the new ones put
    in place last, so that a reader can meet a file without its companions for an instant, but
    never a file with the companions of another.

    Parameters
    ----------
    paths : sequence of path-like
        The files to be made or replaced, main file first.
    stale : sequence of path-like
        Files that described the old content (overviews, statistics) and are removed with it.

    Yields
    ------
    list of pathlib.Path
        One empty file for each of ``paths``, in the same folder.
    """
    # A symbolic link stays a link: what it points to is replaced.
    targets = [Path(os.path.realpath(path)) for path in paths]
    for target in targets:
        _check_target(target)
    parts: list[Path] = []
    try:
        for target in targets:
            parts.append(_create_part(target))
        yield parts
        for part, target in zip(parts, targets, strict=True):
            _sync(part, target)
        for old in [*(Path(path) for path in stale), *targets[1:]]:
            old.unlink(missing_ok=True)
        for part, target in zip(parts, targets, strict=True):
            part.replace(target)
        _sync_folder(targets[0].parent)
    except OSError as error:
        # Only what surely concerns the output is reworded; the block may have read files too.
        if error.errno in _FULL:
            raise disk_full(targets[0]) from error
        raise
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def check_room(path: Path, nbytes: int) -> None:
    """Refuse to begin a file of ``nbytes`` bytes that the disk has no room for."""
    _check_target(path)
    if shutil.disk_usage(path.parent).free < nbytes:
        raise disk_full(path)


def disk_full(path: Path, got: str = "a full disk or quota") -> OutputError:
    """Return the error that says that ``path`` could not be written whole."""
    free = shutil.disk_usage(path.parent).free
    return OutputError(
        f"cannot write {path}: wanted room for the whole file, got {got} "
        f"({free:,} bytes free in {path.parent}); free some space or choose another folder. "
        "What was there before is untouched"
    )


def _check_target(target: Path) -> None:
    folder = target.parent
    if not folder.is_dir():
        got = "a file of that name" if folder.exists() else "no such folder"
        raise OutputError(
            f"cannot write {target}: wanted the folder {folder}, got {got}; "
            "create it or choose another output"
        )
    if target.is_dir():
        raise OutputError(
            f"cannot write {target}: wanted a file name, got an existing folder; "
            f"name a file in it, such as {target / 'map.tif'}"
        )
    if target.exists() and not target.is_file():  # renaming over /dev/null would destroy it
        raise OutputError(
            f"cannot write {target}: wanted a regular file, got a device or pipe; "
            "choose a file name and copy it from there"
        )


def _create_part(target: Path) -> Path:
    _sweep(target)
    part = target.with_name(f".{target.name}.part-{os.getpid()}-{secrets.token_hex(3)}")
    try:
        part.touch(exist_ok=False)
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(target) from error
        raise OutputError(
            f"cannot write {target}: wanted a folder that may be written to, got "
            f"'{error.strerror}'; change its permissions or choose another folder"
        ) from error
    return part


def _sweep(target: Path) -> None:
    """Remove what killed writers of ``target`` left behind long ago."""
    prefix = f".{target.name}.part-"
    for left_over in target.parent.iterdir():
        if left_over.name.startswith(prefix):
            with suppress(OSError):  # another writer may sweep at the same time
                if time.time() - left_over.stat().st_mtime > _ABANDONED_AFTER:
                    left_over.unlink()


def _sync(part: Path, target: Path) -> None:
    """Put the bytes on the disk before the name points to them; a full disk may show only here."""
    if not part.exists():
        raise OutputError(f"cannot write {target}: nothing was written; this is a fault of polyad")
    descriptor = os.open(part, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # pragma: no cover - Windows cannot open a folder
        return
    with suppress(OSError):  # some network file systems refuse; the rename itself is done
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
