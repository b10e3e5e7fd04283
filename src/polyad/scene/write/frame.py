"""What every format of a map is told: what its pixels mean, and where they lie."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, OutputError, SceneMismatch
from polyad.scene.raster.classes import (
    UNLABELED,
    VALUE_DIMS,
    ClassInfo,
    Target,
    class_dtype,
    with_classes,
)
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.scene import describe

AnyPath = str | os.PathLike[str]
Array = npt.NDArray[Any]
Slices = tuple[slice, slice]

UNLABELED_NAME = "Unclassified"  # ENVI's word, which GDAL and QGIS show for id 0


class Windows(Protocol):
    """A file in the making."""

    def write(self, window: Slices, bands: Array) -> None:
        """Write ``bands`` (band, rows, columns) into ``window`` (rows, columns)."""


class Whole:
    """The windows of a map that is written at once.

    Attributes
    ----------
    bands : ndarray, ``(bands, y, x)``
    """

    def __init__(self, frame: MapFrame) -> None:
        if frame.targets:
            self.bands: Array = np.full((len(frame.targets), *frame.grid.shape), np.nan, np.float32)
        else:
            self.bands = np.zeros((1, *frame.grid.shape), class_dtype(frame.classes))

    def write(self, window: Slices, bands: Array) -> None:
        """Keep ``bands`` (band, rows, columns) of ``window`` (rows, columns)."""
        self.bands[(slice(None), *window)] = bands


@dataclass(frozen=True)
class MapFrame:
    """A map without its pixels.

    Attributes
    ----------
    grid : Grid
    classes : tuple of ClassInfo
        Of a class map, which has one band of ids.
    targets : tuple of Target
        Of a map of a regression target, which has one band for each.
    coords : mapping, optional
        Coordinates along y and x; by default those that the grid gives.
    attrs : mapping
        What else is known of the map: its title, source and the like.
    """

    grid: Grid
    classes: tuple[ClassInfo, ...] = ()
    targets: tuple[Target, ...] = ()
    coords: Mapping[Hashable, Any] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def raster(self, bands: Array) -> xr.DataArray:
        """Return bands ``(bands, y, x)`` as ids ``(y, x)`` or values ``(y, x, target)``."""
        grid, coords = self.grid, self.coords
        values = np.moveaxis(bands, 0, -1) if self.targets else bands[0]
        raster = xr.DataArray(values, dims=VALUE_DIMS[: values.ndim], coords=coords)
        if coords is None and (grid.crs is not None or grid.transform is not None):
            raster = describe(raster, crs=grid.crs, transform=grid.transform)
        if self.targets:
            return raster.assign_coords(target=[t.name for t in self.targets])
        return with_classes(raster, self.classes)


def check_whole(target: Path, shape: tuple[int, int], written: int) -> None:
    """Raise `OutputError` unless every pixel was written."""
    if written < math.prod(shape):
        raise OutputError(
            f"cannot finish {target}: expected {math.prod(shape):,} pixels, got {written:,}; write "
            "every window of the scene before leaving the block"
        )


def checked_ids(ids: npt.ArrayLike, classes: Sequence[ClassInfo]) -> Array:
    """Return ``ids`` (any shape) in the type of the map, or refuse ids that have no class."""
    ids = np.asarray(ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"class ids must be integers, got {ids.dtype}; use .astype('uint8')")
    dtype = class_dtype(classes)
    known = np.zeros(np.iinfo(dtype).max + 1, dtype=bool)
    known[[UNLABELED, *(c.value for c in classes)]] = True
    inside = (ids >= 0) & (ids < known.size)
    if not inside.all() or not known[ids].all():
        unknown = sorted({int(i) for i in np.unique(ids)} - set(np.flatnonzero(known).tolist()))
        raise SceneMismatch(
            f"the map holds class ids {unknown[:5]} but its class table lists "
            f"{[c.value for c in classes][:20]}; pass the classes the model was fitted on"
        )
    return ids.astype(dtype)


def category_names(classes: Sequence[ClassInfo]) -> list[str]:
    """Return one name for each id from 0 to the largest; ids without a class have none.

    Examples
    --------
    >>> category_names([ClassInfo(2, "Corn", "#4477AA")])
    ['Unclassified', '', 'Corn']
    """
    names = [""] * (1 + max((c.value for c in classes), default=0))
    names[UNLABELED] = UNLABELED_NAME
    for c in classes:
        names[c.value] = c.name
    return names
