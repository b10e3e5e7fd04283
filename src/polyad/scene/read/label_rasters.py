"""Rasters of class ids, read whole from any of the file kinds a scene comes in, and PNG.

A label raster is held in memory, so its declared size is checked against the budget before it is
read. Unlike a scene it may be nearly empty and compress a thousandfold: a high ratio is no sign of
a hostile file here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad import sandbox
from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.read.formats.kinds import companions, load

Shape = tuple[int, int]
Convert = Callable[[Path, NDArray[Any], float | None], NDArray[np.uint16]]

_STRIP_PIXELS = 2**20  # checked at a time
_SECONDS = 20  # of the processor
# Read in a confined process
_CONFINED = {
    ".tif", ".tiff", ".png", ".mat", ".nc", ".nc4", ".h5", ".hdf5", ".he5", ".hdf",
}  # fmt: skip


@dataclass(frozen=True)
class LabelRaster:
    """The contents of a label file.

    Attributes
    ----------
    values : ndarray of uint16, shape (height, width)
    names, colors : dict
        By class id, as far as the file tells.
    crs, transform
        Georeference, None where the file has none.
    """

    values: NDArray[np.uint16]
    names: dict[int, str] = field(default_factory=dict)
    colors: dict[int, str] = field(default_factory=dict)
    crs: Any = None
    transform: Any = None


@dataclass(frozen=True)
class StoredRaster:
    """A 2-D array as a file stores it, and what the file says of it.

    Attributes
    ----------
    values : ndarray, shape (height, width)
    nodata : float, optional
    attrs : dict
        In which class names and colors may be told.
    colormap : dict
        Of the raster's palette, by value.
    crs, transform
        Georeference, None where the file has none.
    """

    values: NDArray[Any]
    nodata: float | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    colormap: dict[int, tuple[int, ...]] = field(default_factory=dict)
    crs: Any = None
    transform: Any = None


def read_label_raster(
    path: Path,
    key: str | None = None,
    shape: Shape | None = None,
    budget: int | None = None,
    convert: Convert | None = None,
) -> LabelRaster:
    """Read a raster of class ids.

    Parameters
    ----------
    path : Path
        ``.tif``, ENVI (either file of the pair), ``.png``, ``.mat``, ``.npy``, NetCDF-4, HDF5, or a
        Zarr store of ids ``(y, x)`` or of one band.
    key : str, optional
        Which array of a MAT, NetCDF or HDF5 file or Zarr store; by default the only 2-D one.
    shape : (height, width), optional
        Of the scene; chooses among several 2-D arrays, and another size is refused unread.
    budget : int, optional
        Bytes that may be read; half the machine's memory by default.
    convert : callable, optional
        From path, stored values and nodata value to ``values``: `as_ids`, or `as_mask`.
    """
    if not path.is_dir():  # a Zarr store is a folder
        guards.existing_file(path)
    budget = guards.memory_budget(budget)
    from polyad.scene.read import classes  # brings xarray, which reading does not need

    suffix, arguments = path.suffix.lower(), (path, key, shape, budget)
    confined = suffix in _CONFINED or path.is_dir()
    stored: StoredRaster
    if confined:
        stored = sandbox.run(
            "polyad.scene.read.label_arrays:read_stored",
            *arguments,
            name=path,
            limits=sandbox.Limits(budget, _SECONDS),
            files=companions(path),
        )
    else:  # a text and raw numbers
        stored = import_module("polyad.scene.read.label_arrays").read_stored(*arguments)
    names, colors = classes.from_attributes(stored.attrs)
    palette = classes.from_colormap(stored.colormap)
    if suffix in (".tif", ".tiff", ".png"):
        side_names, side_colors = classes.from_pam(path)
        names, colors = side_names | names, palette | side_colors | colors
    elif not confined and (header := load("envi:find_envi")(path)):
        names, colors = classes.from_envi(load("envi:read_header")(header[0]))
    values = (convert or as_ids)(path, stored.values, stored.nodata)
    return LabelRaster(values, names, colors, stored.crs, stored.transform)


def _strips(values: NDArray[Any]) -> Iterator[slice]:
    """Yield parts of the rows: the values themselves may fill the budget."""
    step = max(1, _STRIP_PIXELS // max(1, values.shape[1]))
    return (slice(top, top + step) for top in range(0, len(values), step))


def as_ids(path: Path, values: NDArray[Any], nodata: float | None = None) -> NDArray[np.uint16]:
    """Return ``values`` (height, width) as uint16 class ids; ``nodata`` and NaN become 0."""
    ids = np.empty(values.shape, np.uint16)
    for rows in _strips(values):
        strip = values[rows]
        empty = _empty(strip, nodata)
        bad = ~empty & _no_id(strip)
        if bad.any():
            row, col = np.argwhere(bad)[0]
            raise SceneError(
                f"{path}: class ids must be whole numbers from 0 (unlabeled) to 65535, got "
                f"{strip[row, col]} at row {rows.start + row}, col {col}; is this the image, or a "
                "map of a regression target?"
            )
        ids[rows] = np.where(empty, 0, strip)
    return ids


def as_mask(path: Path, values: NDArray[Any], nodata: float | None = None) -> NDArray[np.uint16]:
    """Return 1 inside and 0 outside of a mask (height, width): 0, ``nodata`` and NaN are outside.

    Class ids are inside, whichever they are. Other numbers, such as -1, must all be the same one.
    """
    inside = np.empty(values.shape, np.uint16)
    low, high, odd = np.inf, -np.inf, False
    for rows in _strips(values):
        inside[rows] = marked = ~_empty(values[rows], nodata) & (values[rows] != 0)
        if marked.any():
            numbers = values[rows][marked]
            low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
            odd = odd or bool(_no_id(numbers).any())
    if odd and low != high:
        raise SceneError(
            f"{path}: a mask is 0 outside and another value inside, got values from {low:g} to "
            f"{high:g}, which are no class ids; is this the image, not its mask?"
        )
    return inside


def _empty(values: NDArray[Any], nodata: float | None) -> NDArray[np.bool_]:
    empty = np.zeros(values.shape, dtype=bool)
    if nodata is not None and not np.isnan(nodata):
        empty |= values == nodata
    if values.dtype.kind == "f":
        empty |= np.isnan(values)
    return empty


def _no_id(values: NDArray[Any]) -> NDArray[np.bool_]:
    bad: NDArray[np.bool_] = (values < 0) | (values > 65535)
    if values.dtype.kind == "f":
        bad = bad | (values != np.floor(values))  # MATLAB keeps whole numbers as doubles
    return bad
