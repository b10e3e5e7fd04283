"""Names of a package that are imported when they are first used (PEP 562).

Importing torch and scikit-learn takes seconds, and ``polyad --help`` needs neither. A name that
needs a package of an extra which is not installed says which one, and how it is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lazy_loader import attach_stub

# Packages by the name under which they are imported, and the extra that brings each.
EXTRAS: dict[str, str] = {
    name: extra
    for extra, names in {
        "scene": "xarray rioxarray rasterio affine pyproj skimage h5py h5netcdf pooch matplotlib "
        "PIL typer jinja2 tensorly",
        "zarr": "numcodecs zarr",
        "vector": "pyogrio",
        "app": "fastapi starlette uvicorn h11",
        "dask": "dask distributed cryptography",
        "onnx": "onnx",
    }.items()
    for name in names.split()
}


def public_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The stub beside its ``__init__.py`` says which module each name is in, once for type checkers
    and for this: a line ``from .plan import Plan as Plan`` makes ``Plan`` public.

    Parameters
    ----------
    package, file : str
        The package's ``__name__`` and ``__file__``.

    Returns
    -------
    tuple of two functions and a list
        The first imports the package's own modules too, so that ``polyad.core.plan`` works after
        ``import polyad``.

    Examples
    --------
    >>> import polyad.core
    >>> get, _, public = public_names("polyad.core", polyad.core.__file__)
    >>> get("plan_inner").__module__
    'polyad.core.plan'
    >>> "Plan" in public
    True
    """
    named, _, public = attach_stub(package, file)

    def __getattr__(name: str) -> Any:
        with naming_extras(f"{package}.{name}"):
            if name in public:
                return named(name)
            if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return __getattr__, __dir__, public


@contextmanager
def naming_extras(asked: str) -> Iterator[None]:
    """Say which extra brings a package that is missing; ``asked`` is what needs it.

    Examples
    --------
    >>> with naming_extras("polyad.open_scene"):
    ...     raise ModuleNotFoundError("No module named 'xarray'", name="xarray")
    Traceback (most recent call last):
    ModuleNotFoundError: polyad.open_scene needs the package xarray; install it with: pip install
    'polyad[scene]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise ModuleNotFoundError(
            f"{asked} needs the package {error.name}; install it with: pip install "
            f"'polyad[{extra}]'",
            name=error.name,
        ) from error
