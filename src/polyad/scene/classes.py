"""Class ids, names and colours of a label raster or class map.

A class raster is an integer ``xarray.DataArray`` with dims ``(y, x)`` in which 0 means "no class".
Its table of classes lies in three plain attributes of equal length, which survive every file
format: ``class_values`` (ids), ``class_names`` and ``class_colors`` (``#rrggbb``).
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

UNLABELLED = 0

# Colour-blind-safe: Paul Tol's "muted" and "vibrant" hues, interleaved so that neighbours differ.
_PALETTE = (
    "#4477AA", "#EE7733", "#117733", "#CC3311", "#88CCEE", "#DDCC77", "#AA4499", "#44AA99",
    "#882255", "#999933", "#332288", "#EE3377", "#009988", "#CC6677", "#33BBEE", "#BBBBBB",
)  # fmt: skip


class ClassInfo(NamedTuple):
    """One class: its id in the raster, its name, its colour as ``#rrggbb``."""

    value: int
    name: str
    color: str


def palette(n: int) -> list[str]:
    """Return ``n`` distinct colours as ``#rrggbb``; the first sixteen suit colour-blind readers.

    Examples
    --------
    >>> palette(2)
    ['#4477AA', '#EE7733']
    >>> len(set(palette(40)))
    40
    """
    colors = list(_PALETTE[:n])
    golden = 0.618033988749895  # successive multiples of it are spread evenly round the hue circle
    for k in range(n - len(colors)):
        light = (0.35, 0.55, 0.75)[k % 3]
        r, g, b = colorsys.hls_to_rgb((k * golden) % 1.0, light, 0.6)
        colors.append(f"#{round(255 * r):02X}{round(255 * g):02X}{round(255 * b):02X}")
    return colors


def class_table(raster: xr.DataArray) -> tuple[ClassInfo, ...]:
    """Return the classes of ``raster``, in the order of their ids.

    Names and colours that the raster does not carry are filled in: ``class 3`` and a palette.
    """
    attrs = raster.attrs
    if "class_values" in attrs:
        values = [int(v) for v in np.atleast_1d(attrs["class_values"])]
    else:
        values = [int(v) for v in np.unique(raster.values) if v != UNLABELLED]
    names = list(np.atleast_1d(attrs.get("class_names", [f"class {v}" for v in values])))
    colors = list(np.atleast_1d(attrs.get("class_colors", palette(len(values)))))
    rows = zip(values, names, colors, strict=True)
    return tuple(sorted(ClassInfo(v, str(n), str(c)) for v, n, c in rows))


def with_classes(raster: xr.DataArray, classes: Sequence[ClassInfo]) -> xr.DataArray:
    """Return ``raster`` carrying ``classes`` in its attributes."""
    return raster.assign_attrs(
        class_values=[c.value for c in classes],
        class_names=[c.name for c in classes],
        class_colors=[c.color for c in classes],
    )
