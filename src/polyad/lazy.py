"""Names of a package that are imported when they are first used (PEP 562).

Importing torch and scikit-learn takes seconds, and ``polyad --help`` needs neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(
    package: str, **modules: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names live in its modules.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    **modules : str
        The names that each module gives, separated by blanks.

    Returns
    -------
    tuple of two functions
        The first imports the package's own modules too, so that ``polyad.core.plan`` works after
        ``import polyad``.

    Examples
    --------
    >>> get, names = lazy_names("polyad.core", plan="Plan plan_inner")
    >>> get("plan_inner").__module__
    'polyad.core.plan'
    >>> {"Plan", "plan_inner"} <= set(names())
    True
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(f"{package}.{homes[name]}"), name)
            setattr(sys.modules[package], name, value)  # the next use finds it at once
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
