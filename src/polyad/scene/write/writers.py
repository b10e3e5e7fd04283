"""Class maps and maps of values to files, window by window or whole, with what goes with them.

The file's ending chooses the format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.atomic import Outputs, replacing_together
from polyad.errors import InputError
from polyad.scene.files.paths import NPY_HEAD, check_distinct, check_ending, set_paths
from polyad.scene.raster.classes import (
    UNCERTAINTIES,
    UNCERTAINTY,
    ClassInfo,
    SetRule,
    Target,
    set_members,
    set_sizes,
    uncertainty_bands,
)
from polyad.scene.raster.grid import Grid, grid_of
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.windows import BLOCK
from polyad.scene.write.cf import open_netcdf, open_zarr
from polyad.scene.write.envi import open_envi
from polyad.scene.write.frame import AnyPath, Array, MapFrame, Slices, Whole, Windows, checked_ids
from polyad.scene.write.geotiff import (
    Bands,
    encode_probabilities,
    open_bands,
    open_geotiff,
    open_values,
    probability_bands,
    set_bands,
)


def write_map(path: AnyPath, class_map: xr.DataArray) -> None:
    """Write a class map; nothing of an existing file is lost if that fails.

    ======== ==========================================================================
    ending   format
    ======== ==========================================================================
    .tif     cloud-optimized GeoTIFF with overviews: palette, nodata 0, georeference; class
             names in ``.tif.aux.xml``, a style for QGIS in ``.qml``
    .hdr     ENVI classification, ``.hdr`` and ``.img`` (either ending may be given)
    .png     picture with a legend
    .nc      NetCDF after CF 1.8: flags, nodata 0, georeference; names and colors beside
    .zarr    Zarr store with the same attributes
    .npy     the ids alone
    ======== ==========================================================================

    Parameters
    ----------
    path : path-like
        The file to write.
    class_map : xarray.DataArray of int, dims (y, x)
        Class ids, 0 where there is no class, with the attributes of `with_classes` and, if it has
        one, a georeference in rioxarray's convention.
    """
    check_ending(path, "map")
    labels = Labels.of(class_map)
    array = labels.array
    frame = MapFrame(labels.grid, labels.classes, coords=array.coords, attrs=array.attrs)
    with replacing_together() as outputs, open_map(outputs, Path(path), frame) as out:
        for rows, ids in _strips(array):
            out.write((rows, slice(None)), checked_ids(ids, labels.classes)[np.newaxis])


def write_probabilities(path: AnyPath, proba: xr.DataArray, dtype: str = "float32") -> None:
    """Write class probabilities as a GeoTIFF with one band for each class, named after it.

    Parameters
    ----------
    path : path-like
        The file to write, ending in ``.tif``.
    proba : xarray.DataArray of float, dims (y, x, class)
        Probabilities; NaN where the scene was not mapped. The names are those of its ``class``
        coordinate, or else of the attribute ``class_names``.
    dtype : {"float32", "uint8"}
        ``float32`` marks unmapped pixels by NaN. ``uint8`` takes a quarter of the room: it keeps
        round(254 p), with the scale 1/254 in the file, and marks unmapped pixels by 255.
    """
    check_ending(path, "file of probabilities")
    if set(proba.dims) != {"y", "x", "class"}:
        raise InputError(f"probabilities have dims ('y', 'x', 'class'), got {proba.dims}")
    proba = proba.transpose("y", "x", "class")
    bands = probability_bands(_class_names(proba), dtype)
    with (
        replacing_together() as outputs,
        open_bands(outputs, path, grid_of(proba), bands) as out,
    ):
        for rows, strip in _strips(proba):
            out.write((rows, slice(None)), np.moveaxis(encode_probabilities(strip, dtype), -1, 0))


def open_map(outputs: Outputs, path: Path, frame: MapFrame) -> AbstractContextManager[Windows]:
    """Return a map of any format, to be written window by window in a ``with`` block.

    A GeoTIFF (any name without another known ending) and a Zarr store are written as the windows
    come; the other formats are kept in memory until the map is whole.
    """
    return _FORMATS.get(path.suffix.lower(), open_geotiff)(outputs, path, frame)


class _Writer(ABC):
    """Files that are written window by window and appear together when the block ends."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._outputs = stack.enter_context(replacing_together())
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Open every file."""


class MapWriter(_Writer):
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
        coords: Mapping[Hashable, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.frame = MapFrame(Grid(shape, crs, transform), tuple(classes), coords=coords)
        self.probabilities = None if probabilities is None else Path(probabilities)
        self.probability_dtype = probability_dtype
        self.uncertainty = None if uncertainty is None else Path(uncertainty)
        self.sets = sets
        self._set_paths = [] if sets is None else list(set_paths(self.path).values())
        check_distinct(self.path, self.probabilities, self.uncertainty, *self._set_paths)

    def _open(self, stack: ExitStack) -> None:
        def bands_at(path: Path, bands: Bands) -> Windows:
            return stack.enter_context(open_bands(self._outputs, path, self.frame.grid, bands))

        names, dtype = [c.name for c in self.frame.classes], self.probability_dtype
        self._map = stack.enter_context(open_map(self._outputs, self.path, self.frame))
        self._probabilities = self._uncertainty = None
        if self.probabilities is not None:
            self._probabilities = bands_at(self.probabilities, probability_bands(names, dtype))
        if self.uncertainty is not None:
            bands = probability_bands(UNCERTAINTIES, dtype, UNCERTAINTY)
            self._uncertainty = bands_at(self.uncertainty, bands)
        if self.sets is not None:
            both = zip(self._set_paths, set_bands(names, self.sets), strict=True)
            self._sizes, self._members = (bands_at(path, bands) for path, bands in both)

    def write(self, window: Slices, ids: npt.ArrayLike, probabilities: Array | None = None) -> None:
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
        self._map.write(window, checked_ids(ids, self.frame.classes)[np.newaxis])
        if probabilities is None:
            return
        if self._probabilities is not None:
            self._write_bands(self._probabilities, window, probabilities)
        if self._uncertainty is not None:
            self._write_bands(self._uncertainty, window, uncertainty_bands(probabilities))
        if self.sets is not None:
            members = set_members(probabilities, self.sets)
            self._sizes.write(window, set_sizes(members)[np.newaxis])
            self._members.write(window, np.moveaxis(members, -1, 0))

    def _write_bands(self, out: Windows, window: Slices, values: Array) -> None:
        bands = encode_probabilities(values, self.probability_dtype)
        out.write(window, np.moveaxis(bands, -1, 0))  # (band, rows, columns)


class ValueWriter(_Writer):
    """Write a map of values and, on request, their standard deviations, window by window.

    The files appear under their names when the ``with`` block ends without an error. A GeoTIFF has
    one band of float32 for each target: its name, units, range and bounds are in the band's tags,
    and NaN is nodata. It is written as the windows come; the other kinds are kept in memory until
    the map is whole.

    Parameters
    ----------
    path : path-like
        ``.tif``, ``.nc`` (a variable for each target), ``.png`` or ``.npy`` (y, x, target).
    shape : (int, int)
        Rows and columns of the scene.
    targets : sequence of Target
    crs, transform, coords
        See `polyad.scene.MapWriter`.
    uncertainty : path-like, optional
        A GeoTIFF of standard deviations, one band for each target.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cover.tif"
    >>> with ValueWriter(path, (2, 3), [Target("cover", "%")]) as out:
    ...     out.write((slice(0, 2), slice(0, 3)), np.ones((2, 3)), np.full((2, 3, 1), 40.0))
    >>> import rasterio, warnings
    >>> with warnings.catch_warnings(action="ignore"), rasterio.open(path) as file:
    ...     file.descriptions, file.units, file.nodata, file.tags(1)["STATISTICS_MAXIMUM"]
    (('cover',), ('%',), nan, '40')
    """

    def __init__(
        self,
        path: AnyPath,
        shape: tuple[int, int],
        targets: Sequence[Target],
        *,
        crs: CRS | None = None,
        transform: Affine | None = None,
        uncertainty: AnyPath | None = None,
        coords: Mapping[Hashable, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.frame = MapFrame(Grid(shape, crs, transform), (), tuple(targets), coords)
        self.uncertainty = None if uncertainty is None else Path(uncertainty)
        check_ending(path, "map of values")
        check_distinct(self.path, self.uncertainty)

    def _open(self, stack: ExitStack) -> None:
        self._map = stack.enter_context(open_map(self._outputs, self.path, self.frame))
        self._deviation: Windows | None = None
        if self.uncertainty is not None:
            opened = open_values(self._outputs, self.uncertainty, self.frame, deviation=True)
            self._deviation = stack.enter_context(opened)

    def write(self, window: Slices, mapped: Array, numbers: Array | None) -> None:
        """Write one window of the map.

        Parameters
        ----------
        window : (slice, slice)
        mapped : array, shape (rows, columns)
            0 where there is no value.
        numbers : array of float, shape (rows, columns, targets)
            NaN where there is no value; with standard deviations after the values of all targets,
            if they are written.
        """
        count = len(self.frame.targets)
        wanted = (*mapped.shape, count * (1 if self._deviation is None else 2))
        if numbers is None or numbers.shape != wanted:
            got = "none" if numbers is None else f"{numbers.shape}"
            raise InputError(f"expected numbers of shape {wanted} for a window, got {got}")
        bands = np.moveaxis(numbers.astype(np.float32), -1, 0)  # (bands, rows, columns)
        self._map.write(window, bands[:count])
        if self._deviation is not None:
            self._deviation.write(window, bands[count:])


@contextmanager
def _open_png(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Whole]:
    temporary, whole = outputs.temporary(path), Whole(frame)
    yield whole
    from polyad.scene.draw.figures import (  # matplotlib is slow to import
        map_figure,
        to_png,
        value_figure,
    )

    raster = frame.raster(whole.bands)
    figure = value_figure(raster, frame.targets) if frame.targets else map_figure(raster)
    temporary.write_bytes(to_png(figure))


@contextmanager
def _open_npy(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Whole]:
    temporary, whole = outputs.temporary(path), Whole(frame)
    yield whole
    values = whole.bands[0]
    if frame.targets:
        values = np.ascontiguousarray(np.moveaxis(whole.bands, 0, -1))  # (y, x, target)
    about = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape}
    head = str(about).encode().ljust(NPY_HEAD - 11) + b"\n"
    # Not by numpy, which tells of a full disk without saying that it is full
    with temporary.open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        file.write(values.data)


_FORMATS: dict[str, Callable[[Outputs, Path, MapFrame], AbstractContextManager[Windows]]] = {
    ".tif": open_geotiff,
    ".tiff": open_geotiff,
    ".hdr": open_envi,
    ".img": open_envi,
    ".png": _open_png,
    ".nc": open_netcdf,
    ".zarr": open_zarr,
    ".npy": _open_npy,
}


def _strips(raster: xr.DataArray) -> Iterator[tuple[slice, Array]]:
    """Yield rows and values of ``raster``, one row of GeoTIFF blocks at a time."""
    for top in range(0, raster.sizes["y"], BLOCK):
        rows = slice(top, min(top + BLOCK, raster.sizes["y"]))
        yield rows, raster.isel(y=rows).values


def _class_names(proba: xr.DataArray) -> list[str]:
    given = proba["class"].values if "class" in proba.coords else proba.attrs.get("class_names")
    if given is None:
        given = [f"class {k + 1}" for k in range(proba.sizes["class"])]
    names = [str(name) for name in np.atleast_1d(given)]
    if len(names) != proba.sizes["class"]:
        raise InputError(
            f"probabilities of {proba.sizes['class']} classes carry {len(names)} class names; "
            "name each class once"
        )
    return names
