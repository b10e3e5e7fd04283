"""Pixels as points on a picture, as paths of SVG: they keep their size when the page is zoomed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_POINTS = 4000  # more hide the picture, and make a page heavy
_DENSE = 600  # more points than this are drawn smaller


class Overlay(NamedTuple):
    """Points on a picture of ``height`` by ``width`` pixels.

    ``paths`` are a color and the path of all points that have it; ``shown`` of ``total`` points
    are drawn.
    """

    height: int
    width: int
    paths: tuple[tuple[str, str], ...]
    shown: int
    total: int

    @property
    def dense(self) -> bool:
        """Whether points must be small."""
        return self.shown > _DENSE


def overlay_points(
    pixels: npt.ArrayLike,
    ids: npt.ArrayLike,
    colors: Mapping[int, str],
    shape: tuple[int, int],
    most: int = MOST_POINTS,
) -> Overlay | None:
    """Return points at the centers of pixels; None if there are none.

    Parameters
    ----------
    pixels : array of int, shape (n, 2)
        Rows and columns.
    ids : array of int, shape (n,)
    colors : mapping of int to str
        Color of each id, as ``#rrggbb``.
    shape : (int, int)
        Rows and columns of the whole picture.
    most : int
        Of more points than this every k-th of each color is drawn.

    Examples
    --------
    >>> overlay_points([[0, 4], [2, 1]], [1, 1], {1: "#4477AA"}, (3, 5)).paths
    (('#4477AA', 'M4.5 0.5h0M1.5 2.5h0'),)
    """
    places, owners = np.asarray(pixels, np.int64).reshape(-1, 2), np.asarray(ids).ravel()
    step = max(1, -(-len(places) // most))
    paths, shown = [], 0
    for value in np.unique(owners).tolist():
        kept = places[owners == value][::step]
        shown += len(kept)
        path = "".join(f"M{col}.5 {row}.5h0" for row, col in kept.tolist())
        paths.append((colors.get(value, "#808080"), path))
    return Overlay(*shape, tuple(paths), shown, len(places)) if paths else None
