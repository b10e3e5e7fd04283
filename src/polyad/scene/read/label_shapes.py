"""From shapes in map coordinates to marks in pixels of the scene's grid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from affine import Affine
from rasterio.crs import CRS
from rasterio.warp import transform as transform_points

from polyad.errors import SceneMismatch
from polyad.scene.raster.grid import Grid, move
from polyad.scene.read.formats.geometry import Part
from polyad.scene.read.label_marks import Annotation, Array, Mark, Points, Shape

# A single point that no map holds costs about twenty transformations of parts of a file; of more
# such points than this, the rest of their neighbors are taken to be as lost as they are.
_MOST_FAILURES = 20_000


Labeled = tuple[int, Annotation, Part]
"""Number of the feature, its class, and a part of its geometry."""


def marks_of(path: Path, parts: Sequence[Labeled], crs: CRS | None, grid: Grid) -> list[Mark]:
    """Return marks in pixels; points that follow each other in the file come in one run."""
    if not parts:
        return []
    # All corners of all shapes are moved in one call: one each would take minutes.
    rings = [ring for _, _, part in parts for ring in part.rings]
    moved = to_pixels(path, np.concatenate(rings), crs, grid)
    pixels = iter(np.split(moved, np.cumsum([len(ring) for ring in rings])[:-1]))
    marks: list[Mark] = []
    for is_point, run in groupby(parts, key=lambda item: item[2].kind == "Point"):
        items = list(run)
        if is_point:
            xy = np.concatenate([next(pixels) for _ in items])
            marks.append(Points("feature", [n for n, _, _ in items], [k for _, k, _ in items], xy))
            continue
        for number, annotation, part in items:
            corners = tuple(next(pixels) for _ in part.rings)
            marks.append(Shape(number, annotation, corners, part.kind == "LineString"))
    return marks


def to_pixels(path: Path, points: Array, crs: CRS | None, grid: Grid) -> Array:
    """Return map points in ``crs`` as (column, row) of the grid, infinite where there is none."""
    inverse = ~(grid.transform or Affine.identity())  # without georeference, x and y are pixels
    if crs is not None and grid.transform is not None and crs != grid.crs:
        if grid.crs is None:
            raise SceneMismatch(
                f"{path}: labels are in {crs}, but the scene does not say its reference system; "
                f"write it into the scene, or give labels as a CSV of row,col,class"
            )
        points = _reproject(points, crs, grid.crs, [_MOST_FAILURES])
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN lie outside the scene
        return np.stack(move(inverse, points[:, 0], points[:, 1]), axis=1)


def _reproject(points: Array, source: CRS, target: CRS, left: list[int]) -> Array:
    """Return points in another reference system, infinite where one has no place there.

    Such a point makes the whole call fail, and is found by bisection.
    """
    if left[0] <= 0:
        return np.full_like(points, np.inf)
    try:
        xs, ys = transform_points(source, target, points[:, 0], points[:, 1])
    except Exception:  # GDAL's errors have no public base
        left[0] -= 1
        half = len(points) // 2
        if not half:
            return np.full((1, 2), np.inf)
        pieces = points[:half], points[half:]
        return np.concatenate([_reproject(piece, source, target, left) for piece in pieces])
    return np.stack([xs, ys], axis=1)
