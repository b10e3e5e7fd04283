"""Solvers: functions that take a network and a problem and return a fitted copy of the network."""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
