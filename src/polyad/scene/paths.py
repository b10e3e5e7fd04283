"""What can be said of a path before any library is imported: it is there, it can be written.

The command line asks here first, so that a mistyped path is answered at once; the functions that
open and write ask the same questions again for everybody else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from polyad.atomic import check_room
from polyad.errors import OutputError, SceneError
from polyad.scene.kinds import is_ours
from polyad.scene.known import KNOWN_SCENES, nearest_known

ENDINGS: dict[str, tuple[str, ...]] = {
    "map": (".tif", ".tiff", ".hdr", ".img", ".png", ".nc", ".npy"),
    "file of probabilities": (".tif", ".tiff"),
    "file of scores": (".json", ".csv"),
}


def split_key(source: str) -> tuple[str, str | None]:
    r"""Split ``file.mat:key`` into the file and the key; without a key the second is None.

    A drive letter (``C:\data``) and an address (``https://...``) are no file with a key.

    Examples
    --------
    >>> split_key("pavia.mat:paviaU"), split_key("pavia.mat")
    (('pavia.mat', 'paviaU'), ('pavia.mat', None))
    >>> split_key(r"C:\data\scene.nc:/group/reflectance")
    ('C:\\data\\scene.nc', '/group/reflectance')
    >>> split_key(r"C:\data\scene.nc")
    ('C:\\data\\scene.nc', None)
    """
    head, colon, tail = source.rpartition(":")
    drive = re.fullmatch(r"[A-Za-z]", head) is not None
    if not (colon and head and tail) or drive or tail.startswith("//"):
        return source, None
    return head, tail


def locate(source: str) -> tuple[Path, str | None]:
    """Return path and key; a colon may also be part of the file's own name."""
    if Path(source).exists():
        return Path(source), None
    name, key = split_key(source)
    return Path(name), key


def check_scene(source: str) -> None:
    """Raise `SceneError` unless ``source`` is a path that exists or the name of a known scene."""
    if source and (locate(source)[0].exists() or source in KNOWN_SCENES):
        return
    near = nearest_known(source)
    remedy = f"did you mean {near!r}? Otherwise check the path" if near else "check the path"
    raise SceneError(
        f"{source}: no such file and no known scene; {remedy}, or use one of "
        f"{', '.join(KNOWN_SCENES)}"
    )


def check_labels_path(source: str) -> None:
    """Raise `SceneError` unless ``source`` is a path that exists or the name of a known scene."""
    path, _ = locate(source)
    if not path.exists() and str(path) not in KNOWN_SCENES:
        raise no_file(path)


def no_file(path: Path) -> SceneError:
    """Return the error that says that there is no file at ``path``."""
    return SceneError(f"{path}: no such file; check the path")


def check_output(path: str | os.PathLike[str], what: str) -> None:
    """Raise `OutputError` before hours of work, if their result could not be written.

    Parameters
    ----------
    path : path-like
        The file to be written later.
    what : {"map", "file of probabilities", "file of scores", "model", "report"}
        Decides which endings are known; a model and a report may have any.
    """
    if what in ENDINGS:
        check_ending(path, what)
    check_room(Path(path), 0)
    folder = Path(path).absolute().parent
    if not os.access(folder, os.W_OK):
        raise OutputError(
            f"cannot write {os.fspath(path)}: wanted a folder that may be written to, {folder} "
            "may not; change its permissions or choose another folder"
        )


def check_apart(output: str | os.PathLike[str], sources: Iterable[str]) -> None:
    """Raise `OutputError` if writing ``output`` would write over one of ``sources``.

    Links are followed; header and data of an ENVI file count as one.
    """
    for source in sources:
        path = locate(source)[0]
        if path.exists() and not _written_with(Path(output)).isdisjoint(_written_with(path)):
            raise OutputError(
                f"cannot write {os.fspath(output)}: it is the input {path}, which would be lost; "
                "choose another name"
            )


def check_kind(path: str | os.PathLike[str], what: str) -> None:
    """Raise `OutputError` if something else than an earlier output of polyad would be lost.

    An empty file, or an empty folder, is nothing that could be lost. Links are followed.

    Parameters
    ----------
    path, what
        See `check_output`; ``path`` may also be the folder of a Zarr store.
    """
    for there in sorted(_written_with(Path(path))):
        # Data of ENVI have no mark of their own: the header speaks for both
        marked = there.with_suffix(".hdr") if there.suffix.lower() == ".img" else there
        if _holds_something(there) and not is_ours(marked, what):
            raise OutputError(
                f"cannot write {os.fspath(path)}: {there.name} is there, is no {what} of polyad "
                "and would be lost; choose another name, or replace it with --force"
            )


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


def _written_with(path: Path) -> set[Path]:
    """Return the file itself and the one that belongs to it, links resolved."""
    pair = {path}
    if path.suffix.lower() in (".hdr", ".img"):
        pair = {path.with_suffix(ending) for ending in (".hdr", ".img")}
    return {one.resolve() for one in pair}


def check_ending(path: str | os.PathLike[str], what: str) -> str:
    """Return the ending of ``path``, or raise `OutputError` if no such file is written.

    Examples
    --------
    >>> check_ending("Map.TIF", "map")
    '.tif'
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS[what]:
        raise OutputError(
            f"cannot write the {what} {os.fspath(path)}: wanted a name ending in "
            f"{', '.join(ENDINGS[what])}, got {ending or 'no ending'!r}; rename the output"
        )
    return ending


def make_folder(path: Path) -> None:
    """Make a folder for results unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path}: {error.strerror}") from error
