"""The hostile files, one module for each promise of docs/security.md; `case` puts one on the list.

A maker gets an empty folder, writes what a stranger could send into it, and returns the arguments
of the ``polyad`` command that a user would then run there. Beside the folder lies `SECRET`, a file
that no command has any business with.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Maker = Callable[[Path], list[str]]

BUDGET = 200_000_000  # bytes; what commands that take --max-bytes are told
EITHER = ""  # what a case says that may be refused or read: only the bounds matter
SECRET = "secret.txt"  # lies beside the folder of a case: ../secret.txt


@dataclass(frozen=True)
class Case:
    """One hostile file and the answer that it must get.

    Attributes
    ----------
    kind, name : str
        The module here that it stands in, and its own name.
    make : callable
        Writes it and returns the command's arguments.
    says : str or None
        Pattern that the one sentence of the refusal must match; None for a file that is read (or
        written over) harmlessly, with exit code 0; `EITHER` where both will do.
    """

    kind: str
    name: str
    make: Maker
    says: str | None


_CASES: dict[str, Case] = {}


def case(says: str | None, name: str | None = None) -> Callable[[Maker], Maker]:
    """Put a maker on the list, under its own name if none is given."""

    def add(make: Maker) -> Maker:
        kind = make.__module__.rpartition(".")[2]
        key = f"{kind}/{name or make.__name__}".replace("_", "-")
        if key in _CASES:
            raise ValueError(f"two attacks are called {key}")
        _CASES[key] = Case(kind, key.partition("/")[2], make, says)
        return make

    return add


def kinds() -> list[str]:
    """Return the names of the modules here."""
    return [module.name for module in pkgutil.iter_modules(__path__)]


def all_cases(only: str = "") -> list[Case]:
    """Return every case that has ``only`` in its kind and name."""
    for module in kinds():
        importlib.import_module(f"{__name__}.{module}")
    return [_CASES[key] for key in sorted(_CASES) if only in key]
