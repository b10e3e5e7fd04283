"""Class ids, names and colors of a label raster or class map.

A class raster is an integer ``xarray.DataArray`` with dims ``(y, x)`` in which 0 means "no class".
Its table of classes lies in three plain attributes of equal length, which survive every file
format: ``class_values`` (ids), ``class_names`` and ``class_colors`` (``#rrggbb``).
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from polyad.errors import InputError
from polyad.text import clean_name

if TYPE_CHECKING:
    import xarray as xr

UNLABELED = 0
EXACT_NAMES = "polyad class names"  # in an ENVI header, whose lists cannot hold a comma

# Color-blind-safe: Paul Tol's "muted" and "vibrant" hues, interleaved so that neighbors differ.
_PALETTE = (
    "#4477AA", "#EE7733", "#117733", "#CC3311", "#88CCEE", "#DDCC77", "#AA4499", "#44AA99",
    "#882255", "#999933", "#332288", "#EE3377", "#009988", "#CC6677", "#33BBEE", "#BBBBBB",
)  # fmt: skip


class _Row(NamedTuple):
    value: int
    name: str
    color: str


class ClassInfo(_Row):
    r"""One class: its id in the raster, its name, its color as ``#rrggbb``.

    Names and colors may come from untrusted files and go into XML, web pages and terminals. So a
    class always has a name of plain characters and a valid color, whatever it is made from.

    Examples
    --------
    >>> ClassInfo(1, "Corn\x1b\n", "red; } body { display: none")
    ClassInfo(value=1, name='Corn', color='#4477AA')
    """

    __slots__ = ()

    def __new__(cls, value: int, name: str, color: str) -> Self:
        """Return the class, its name cleaned and an invalid color replaced."""
        named = clean_name(name) or default_name(value)
        return super().__new__(cls, value, named, color if is_color(color) else class_color(value))


def is_color(text: str) -> bool:
    """Whether ``text`` is a color as ``#rrggbb``."""
    return re.fullmatch(r"#[0-9a-fA-F]{6}", text) is not None


def class_color(value: int) -> str:
    """Return the default color of a class, as ``#rrggbb``: it depends on the id alone.

    So a class keeps its color when another has no label. Ids 1 to 16 suit color-blind readers.

    Examples
    --------
    >>> class_color(1), class_color(5)
    ('#4477AA', '#88CCEE')
    """
    if 1 <= value <= len(_PALETTE):
        return _PALETTE[value - 1]
    k = value - len(_PALETTE) - 1
    golden = 0.618033988749895  # successive multiples of it are spread evenly round the hue circle
    light = (0.35, 0.55, 0.75)[k % 3]
    r, g, b = colorsys.hls_to_rgb((k * golden) % 1.0, light, 0.6)
    return f"#{round(255 * r):02X}{round(255 * g):02X}{round(255 * b):02X}"


def palette(n: int) -> list[str]:
    """Return the colors of classes 1 to ``n``, all distinct; see `class_color`.

    Examples
    --------
    >>> palette(2)
    ['#4477AA', '#EE7733']
    >>> len(set(palette(40)))
    40
    """
    return [class_color(k) for k in range(1, n + 1)]


def default_name(value: int) -> str:
    """Return the name of a class that has none."""
    return f"class {value}"


def has_own_name(info: ClassInfo) -> bool:
    """Whether a class has a name of its own, not the default for its id."""
    return info.name != default_name(info.value)


def class_key(info: ClassInfo) -> str:
    """Return how a legend calls a class: by id and name.

    Examples
    --------
    >>> class_key(ClassInfo(9, "Oats", "#882255")), class_key(ClassInfo(9, "class 9", "#882255"))
    ('9 Oats', 'class 9')
    """
    return f"{info.value} {info.name}" if has_own_name(info) else info.name


def class_table(raster: xr.DataArray) -> tuple[ClassInfo, ...]:
    """Return the classes of ``raster``, in the order of their ids.

    Names and colors that the raster does not carry are filled in from the ids, as ``class 3``.
    """
    attrs = raster.attrs
    if "class_values" in attrs:
        values = [int(v) for v in np.atleast_1d(attrs["class_values"])]
    else:
        values = [int(v) for v in np.unique(raster.values) if v != UNLABELED]
    names = list(np.atleast_1d(attrs.get("class_names", [default_name(v) for v in values])))
    colors = list(np.atleast_1d(attrs.get("class_colors", [class_color(v) for v in values])))
    rows = zip(values, names, colors, strict=True)
    return tuple(sorted(ClassInfo(v, str(n), str(c)) for v, n, c in rows))


def with_classes(raster: xr.DataArray, classes: Sequence[ClassInfo]) -> xr.DataArray:
    """Return ``raster`` carrying ``classes`` in its attributes."""
    return raster.assign_attrs(
        class_values=[c.value for c in classes],
        class_names=[c.name for c in classes],
        class_colors=[c.color for c in classes],
    )


def rgb(color: str) -> tuple[int, int, int]:
    """Return the red, green and blue of ``#rrggbb``.

    Examples
    --------
    >>> rgb("#4477AA")
    (68, 119, 170)
    """
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def class_dtype(classes: Sequence[ClassInfo]) -> np.dtype[Any]:
    """Return the smallest of uint8 and uint16 that holds every class id.

    Examples
    --------
    >>> class_dtype([ClassInfo(255, "Corn", "#4477AA")]).name
    'uint8'
    """
    largest = max((c.value for c in classes), default=0)
    smallest = min((c.value for c in classes), default=1)
    if smallest <= UNLABELED or largest > 65535:
        raise InputError(
            f"class ids of a map must lie between 1 and 65535, got {smallest} to {largest}; "
            "renumber the classes"
        )
    return np.dtype(np.uint8 if largest <= 255 else np.uint16)
