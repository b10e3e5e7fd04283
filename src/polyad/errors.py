"""What polyad raises: errors that say what, expected, got and remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 1000  # characters; a file can put a name of any length into a sentence

__all__ = [
    "BudgetExceeded",
    "ClusterError",
    "Diverged",
    "InputError",
    "ModelFileError",
    "OutputError",
    "PolyadError",
    "PolyadWarning",
    "SceneError",
    "SceneMismatch",
]


class PolyadError(Exception):
    """Base of every error that polyad raises on purpose."""

    def __init__(self, sentence: object = "") -> None:
        text = str(sentence)
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST - 300]} ... {text[-280:]}"
        super().__init__(text)


class PolyadWarning(UserWarning):
    """Base of every warning that polyad gives on purpose; the command line prints its sentence."""


class InputError(PolyadError, ValueError):
    """A value the caller passed cannot be used: wrong shape, range or type."""


class Diverged(PolyadError, ArithmeticError):
    """The training loss became NaN or infinite."""


class ModelFileError(PolyadError):
    """A model file is damaged, inconsistent, too new, or not a model file."""


class OutputError(PolyadError):
    """A file cannot be written: no such folder, no permission, no room."""


class SceneError(PolyadError):
    """A scene or label file cannot be read."""


class SceneMismatch(SceneError, ValueError):
    """Two things that must fit do not: scene and labels, or scene and model."""


class BudgetExceeded(SceneError):
    """More bytes would be read or held at once than the memory budget allows."""


class ClusterError(PolyadError):
    """A Dask cluster cannot be reached, was lost, or its workers cannot do the work."""


def warn_user(message: str) -> None:
    """Give a `PolyadWarning` whose place is the line outside of polyad that called it."""
    place, level, frame = 2, 1, sys._getframe()
    while frame is not None:
        level += 1
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "polyad":
            place = level
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(message, PolyadWarning, stacklevel=place)


@contextmanager
def told_as(kind: type[PolyadError], what: str, remedy: str) -> Iterator[None]:
    """Turn whatever a library raises inside the block into one sentence of ours.

    A library fails on a damaged file in more ways than can be listed. Our own errors pass, and so
    does a lack of memory.

    Examples
    --------
    >>> with told_as(SceneError, "x.npy: the header cannot be read", "copy it again"):
    ...     raise KeyError("shape")
    Traceback (most recent call last):
    polyad.errors.SceneError: x.npy: the header cannot be read ('shape'); copy it again
    """
    try:
        yield
    except (PolyadError, MemoryError):
        raise
    except Exception as error:
        raise kind(f"{what} ({reason(error)}); {remedy}") from error


def reason(error: BaseException) -> str:
    """Return what an error says, in one short line: libraries like to write paragraphs."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 200 else f"{line[:197]}..."
