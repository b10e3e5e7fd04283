"""A scene that is read window by window, and how it gets its coordinates.

A format supplies a `PixelSource`: shape, element type and a `read` of one window. `lazy_scene`
wraps it as an ``xarray.DataArray`` with dims ``(y, x, band)`` whose pixels stay on disk until read.
Sources hold paths and numbers only, never open files: they can be pickled, sent to a worker and
read from several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from polyad.errors import SceneError, told_as
from polyad.scene.raster import guards
from polyad.scene.raster.bands import FLAGGED, keep_bands
from polyad.scene.raster.sources import Array, PixelSource, consecutive, hull, representable


class WindowedArray(BackendArray):
    """What xarray indexes; turns its keys into windows for a `PixelSource`.

    Parameters
    ----------
    source : PixelSource
        Where the pixels lie.
    """

    def __init__(self, source: PixelSource) -> None:
        self.source = source
        self.shape = source.shape
        # Native byte order and at most doubles: torch refuses the others.
        long = source.dtype.kind == "f" and source.dtype.itemsize > 8
        self.dtype = np.dtype(np.float64) if long else source.dtype.newbyteorder("=")

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Array:
        result: Array = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._outer
        )
        return result

    def _outer(self, key: tuple[Any, ...]) -> Array:
        """Return ``array[np.ix_(*key)]``, with integer keys dropping their axis."""
        positions = [
            np.arange(n)[k if isinstance(k, slice) else np.atleast_1d(k)]
            for n, k in zip(self.shape, key, strict=True)
        ]
        rows, cols, bands = positions
        if not all(len(p) for p in positions):
            block = np.empty([len(p) for p in positions], self.dtype)
        elif consecutive(rows) and consecutive(cols):  # a plain window: no copy
            block = self._read(hull(rows)[0], hull(cols)[0], bands)
        else:
            block = self._gather(rows, cols, bands)
        dropped = tuple(0 if isinstance(k, (int, np.integer)) else slice(None) for k in key)
        with np.errstate(over="ignore"):  # a long double beyond a double is infinite: no data
            return block.astype(self.dtype, copy=False)[dropped]

    def _gather(
        self, rows: NDArray[np.intp], cols: NDArray[np.intp], bands: NDArray[np.intp]
    ) -> Array:
        out = np.empty([len(rows), len(cols), len(bands)], self.dtype)
        span, inside = hull(cols)
        for where, run in _runs(rows):
            window = self._read(run, span, bands)  # (run, span, bands)
            with np.errstate(over="ignore"):  # as above
                out[where] = window[np.ix_(rows[where] - run.start, inside)]
        return out

    def _read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        with told_as(
            SceneError,
            f"{self.source.path}: rows {rows.start} to {rows.stop - 1} cannot be read",
            "the file is damaged or has changed since it was opened",
        ):
            return self.source.read(rows, cols, bands)


def _runs(rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], slice]]:
    """Yield, for each run of neighboring rows, where its rows stand in ``rows`` and the slice.

    Scattered pixels are read run by run: their common window could be the whole scene.
    """
    order = np.argsort(rows, kind="stable")
    breaks = np.flatnonzero(np.diff(rows[order]) > 1) + 1
    for where in np.split(order, breaks):
        yield where, slice(int(rows[where[0]]), int(rows[where[-1]]) + 1)


def lazy_scene(source: PixelSource, **description: Any) -> xr.DataArray:
    """Return ``source`` as a scene that reads windows on demand; see `describe`."""
    guards.check_extent(source.path, source.shape)
    if description.get("transform") is not None:
        guards.check_place(source.path, description["transform"])
    lazy = indexing.LazilyIndexedArray(WindowedArray(source))
    scene = xr.DataArray(xr.Variable(("y", "x", "band"), lazy))
    scene.encoding["source"] = str(source.path)
    return describe(scene, **description)


def describe(
    scene: xr.DataArray,
    *,
    wavelength: NDArray[np.float64] | None = None,
    fwhm: NDArray[np.float64] | None = None,
    good: NDArray[np.bool_] | None = None,
    number: NDArray[np.intp] | None = None,
    crs: Any = None,
    transform: Affine | None = None,
    nodata: float | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.DataArray:
    """Return ``scene`` with its coordinates, in rioxarray's convention.

    Parameters
    ----------
    scene : DataArray, dims (y, x, band)
        The pixels.
    wavelength, fwhm : array of shape (bands,), optional
        Center and width of each band in nanometers.
    good : bool array of shape (bands,), optional
        Which bands hold a measurement; the others are left out, with a note. Flags that call no
        band good say nothing.
    number : int array of shape (bands,), optional
        Place of each band in its file, counted from 1, where they were put in another order.
    crs : anything rioxarray takes, optional
        Coordinate reference system.
    transform : Affine, optional
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    nodata : float, optional
        Value that stands for "no measurement"; left out when ``scene`` cannot hold it.
    attrs : mapping, optional
        Further attributes.
    """
    told = {"wavelength": wavelength, "fwhm": fwhm}
    bands = {k: None if v is None else np.where(np.isfinite(v), v, np.nan) for k, v in told.items()}
    scene = scene.assign_coords(
        {k: ("band", v, {"units": "nm"}) for k, v in bands.items() if v is not None}
    ).assign_attrs(attrs or {})
    if number is not None and (np.diff(number) != 1).any():
        scene = scene.assign_coords(number=("band", number))
    if good is not None and good.any():
        scene = keep_bands(scene, good, FLAGGED)
    if transform is not None:
        scene = _georeference(scene, transform)
    if crs is not None:
        scene = scene.rio.write_crs(crs)
    value = representable(nodata, scene.dtype)
    return scene if value is None else scene.assign_attrs(_FillValue=value)


def _georeference(scene: xr.DataArray, transform: Affine) -> xr.DataArray:
    guards.check_place("the georeference", transform)
    # A rotated grid has no coordinates per row and column: it is described by its transform alone.
    if transform.b == 0 and transform.d == 0:
        rows, cols = (np.arange(scene.sizes[d]) + 0.5 for d in ("y", "x"))  # pixel centers
        scene = scene.assign_coords(
            y=transform.f + transform.e * rows, x=transform.c + transform.a * cols
        )
    georeferenced: xr.DataArray = scene.rio.write_transform(transform)
    return georeferenced
