"""polyad: Rank-R networks for tensors of any order, and maps from a few labeled pixels."""

from polyad.lazy import public_names

_named, __dir__, __all__ = public_names(__name__, __file__)


def __getattr__(name):
    if name == "__version__":
        from importlib.metadata import version

        return version("polyad")
    return _named(name)
