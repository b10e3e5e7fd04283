"""A class map of any kind, its probabilities, uncertainty and sets, written window by window."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.atomic import Outputs, replacing_together
from polyad.errors import InputError
from polyad.scene.files.paths import check_distinct, set_paths
from polyad.scene.raster.classes import ClassInfo, class_dtype, with_classes
from polyad.scene.raster.prediction_sets import SetRule, set_members, set_sizes
from polyad.scene.raster.scene import describe
from polyad.scene.raster.uncertainty import UNCERTAINTIES, UNCERTAINTY, uncertainty_bands
from polyad.scene.write.cog import Raster, Slices
from polyad.scene.write.geotiff import (
    PROBABILITY,
    checked_ids,
    encode_probabilities,
    open_class_map,
    open_probabilities,
    open_sets,
)
from polyad.scene.write.writers import add_map
from polyad.scene.write.zarr_map import open_zarr_map

AnyPath = str | os.PathLike[str]


class _Windows(Protocol):
    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None: ...


class MapWriter:
    """Write a class map and, on request, what goes with it, window by window.

    The files appear under their names when the ``with`` block ends without an error, and not
    before. One thread may write at a time. A GeoTIFF (any name without another known ending) and a
    Zarr store (``.zarr``) are written as the windows come; the other kinds are kept in memory until
    the map is whole.

    Parameters
    ----------
    path : path-like
        The map. Beside a GeoTIFF go ``<path>.aux.xml`` with the class names and a ``.qml`` style.
    shape : (int, int)
        Rows and columns of the scene.
    classes : sequence of ClassInfo
        The classes of the map, in the order of the probabilities' last axis.
    crs : rasterio.crs.CRS, optional
        Coordinate reference system; None for a scene without one.
    transform : affine.Affine, optional
        From (column, row) to (x, y) of the pixel's corner; None for a scene without one.
    probabilities : path-like, optional
        Where to write the probabilities; None for no probabilities.
    probability_dtype : {"float32", "uint8"}
        See `write_probabilities`; the uncertainty has it too.
    uncertainty : path-like, optional
        Where to write how uncertain each pixel's class is, see `polyad.map_file`.
    sets : SetRule, optional
        By which to write prediction sets beside the map, see `polyad.map_file`.
    coords : mapping, optional
        Coordinates along y and x, for the kinds of map that keep them; by default those that
        ``transform`` gives.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "map.tif"
    >>> with MapWriter(path, (2, 3), [ClassInfo(1, "Corn", "#4477AA")]) as out:
    ...     out.write((slice(0, 2), slice(0, 3)), np.ones((2, 3), dtype="uint8"))
    >>> sorted(p.name for p in path.parent.iterdir())
    ['map.qml', 'map.tif', 'map.tif.aux.xml']
    """

    def __init__(
        self,
        path: AnyPath,
        shape: tuple[int, int],
        classes: Sequence[ClassInfo],
        *,
        crs: CRS | None = None,
        transform: Affine | None = None,
        probabilities: AnyPath | None = None,
        probability_dtype: str = "float32",
        uncertainty: AnyPath | None = None,
        sets: SetRule | None = None,
        coords: Mapping[Any, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.shape = shape
        self.classes = tuple(classes)
        self.crs = crs
        self.transform = transform
        self.probabilities = None if probabilities is None else Path(probabilities)
        self.probability_dtype = probability_dtype
        self.uncertainty = None if uncertainty is None else Path(uncertainty)
        self.sets = sets
        self.coords = coords
        beside = () if sets is None else set_paths(self.path).values()
        check_distinct(self.path, self.probabilities, self.uncertainty, *beside)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            outputs = stack.enter_context(replacing_together())
            self._map = stack.enter_context(self._open_map(outputs))
            self._probabilities = self._uncertainty = None
            if self.probabilities is not None:
                names = [c.name for c in self.classes]
                opened = self._open_bands(outputs, self.probabilities, names, PROBABILITY)
                self._probabilities = stack.enter_context(opened)
            if self.uncertainty is not None:
                opened = self._open_bands(outputs, self.uncertainty, UNCERTAINTIES, UNCERTAINTY)
                self._uncertainty = stack.enter_context(opened)
            self._sets = None
            if self.sets is not None:
                self._sets = stack.enter_context(self._open_sets(outputs, self.sets))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def write(
        self, window: Slices, ids: npt.ArrayLike, probabilities: npt.NDArray[Any] | None = None
    ) -> None:
        """Write one window of the map.

        Parameters
        ----------
        window : (slice, slice)
            Rows and columns of the scene.
        ids : array of int, shape (rows, columns)
            Class ids, 0 for pixels that are not mapped.
        probabilities : array of float, shape (rows, columns, classes), optional
            Wanted if and only if the writer was given a path for them or for the uncertainty, or
            a rule for sets; NaN where not mapped.
        """
        wanted = any(out is not None for out in (self._probabilities, self._uncertainty, self.sets))
        if (probabilities is not None) != wanted:
            raise InputError(
                "probabilities must be passed to write() if and only if MapWriter was given "
                "probabilities=PATH, uncertainty=PATH or sets"
            )
        self._map.write(window, checked_ids(ids, self.classes)[np.newaxis])
        if probabilities is None:
            return
        if self._probabilities is not None:
            self._write_bands(self._probabilities, window, probabilities)
        if self._uncertainty is not None:
            self._write_bands(self._uncertainty, window, uncertainty_bands(probabilities))
        if self._sets is not None and self.sets is not None:
            members = set_members(probabilities, self.sets)
            self._sets[0].write(window, set_sizes(members)[np.newaxis])
            self._sets[1].write(window, np.moveaxis(members, -1, 0))

    def _write_bands(self, out: Raster, window: Slices, values: npt.NDArray[Any]) -> None:
        bands = encode_probabilities(values, self.probability_dtype)
        out.write(window, np.moveaxis(bands, -1, 0))  # (band, rows, columns)

    def _open_bands(self, outputs: Outputs, path: Path, names: Sequence[str], quantity: str) -> Any:
        place: dict[str, Any] = {"crs": self.crs, "transform": self.transform}
        dtype = self.probability_dtype
        return open_probabilities(
            outputs, path, self.shape, names, dtype=dtype, quantity=quantity, **place
        )

    def _open_sets(self, outputs: Outputs, rule: SetRule) -> Any:
        place: dict[str, Any] = {"crs": self.crs, "transform": self.transform}
        names, paths = [c.name for c in self.classes], list(set_paths(self.path).values())
        return open_sets(outputs, paths, self.shape, names, rule, **place)

    def _open_map(self, outputs: Outputs) -> Any:
        ending = self.path.suffix.lower()
        if ending == ".zarr":
            frame = self._frame(np.broadcast_to(np.uint8(0), self.shape))
            return open_zarr_map(outputs, self.path, frame, self.crs, self.transform)
        if ending in (".hdr", ".img", ".png", ".nc", ".npy"):
            return self._open_whole(outputs)
        place: dict[str, Any] = {"crs": self.crs, "transform": self.transform}
        return open_class_map(outputs, self.path, self.shape, self.classes, **place)

    @contextmanager
    def _open_whole(self, outputs: Outputs) -> Iterator[_Windows]:
        """Yield what keeps the windows of a map that is written at once."""
        ids = np.zeros(self.shape, class_dtype(self.classes))
        yield _Whole(ids)
        add_map(outputs, self.path, self._frame(ids))

    def _frame(self, ids: npt.NDArray[Any]) -> xr.DataArray:
        raster = xr.DataArray(ids, dims=("y", "x"), coords=self.coords)
        if self.coords is None and (self.crs is not None or self.transform is not None):
            raster = describe(raster, crs=self.crs, transform=self.transform)
        return with_classes(raster, self.classes)


class _Whole:
    def __init__(self, ids: npt.NDArray[Any]) -> None:
        self.ids = ids

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        self.ids[window] = bands[0]
