"""The hostile files, one module for each kind; `case` puts a maker of one on the list.

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
    point : int
        Of the list in docs/security.md.
    about : str
        What the file is, one line.
    make : callable
        Writes it and returns the command's arguments.
    says : str or None
        Pattern that the one sentence of the refusal must match; None for a file that is read (or
        written over) harmlessly, with exit code 0; `EITHER` where both will do.
    """

    kind: str
    name: str
    point: int
    about: str
    make: Maker
    says: str | None


_CASES: dict[str, Case] = {}


def case(point: int, says: str | None) -> Callable[[Maker], Maker]:
    """Put a maker on the list; its name and docstring name and describe the attack."""

    def add(make: Maker) -> Maker:
        name = make.__name__.replace("_", "-")
        if name in _CASES:
            raise ValueError(f"two attacks are called {name}")
        kind = make.__module__.rpartition(".")[2]
        _CASES[name] = Case(kind, name, point, (make.__doc__ or "").strip(), make, says)
        return make

    return add


def kinds() -> list[str]:
    """Return the names of the modules here."""
    return [module.name for module in pkgutil.iter_modules(__path__)]


def all_cases(only: str = "") -> list[Case]:
    """Return every case that has ``only`` in its kind and name, by point and name.

    Of ``hdf5/`` the other kinds are not imported: some hold megabytes of text, which would count as
    memory of the cases.
    """
    kind = only.partition("/")[0]
    for module in [kind] if "/" in only and kind in kinds() else kinds():
        importlib.import_module(f"{__name__}.{module}")
    chosen = (c for c in _CASES.values() if only in f"{c.kind}/{c.name}")
    return sorted(chosen, key=lambda one: (one.point, one.name))
