"""Hyperspectral scenes: read, learn from, mapped, written and assessed.

A scene is an ``xarray.DataArray`` with dims ``(y, x, band)``; labels and maps have dims ``(y, x)``.
The rooms, each of which imports only those before it: ``files``, ``raster``, ``draw``, ``read``,
``write``, ``learn``, ``map``, ``assess``. What is listed here is public; the rest may change.
"""

from polyad.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
