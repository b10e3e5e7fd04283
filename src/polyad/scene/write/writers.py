"""Class maps and maps of regression targets to files, window by window or whole.

The file's ending chooses the format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from affine import Affine
from rasterio.crs import CRS

from polyad.atomic import Outputs, replacing_together
from polyad.errors import InputError
from polyad.scene.files.paths import NPY_HEAD, check_ending, check_names_differ, set_paths
from polyad.scene.raster import classes as class_tables
from polyad.scene.raster.classes import ClassInfo, Target
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.windows import BLOCK
from polyad.scene.write import geotiff
from polyad.scene.write.cf import open_netcdf, open_zarr
from polyad.scene.write.envi import open_envi
from polyad.scene.write.frame import AnyPath, Array, MapFrame, Slices, Whole, Windows, checked_ids

Encode = Callable[[Array], Array]


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
        for top in range(0, array.sizes["y"], BLOCK):  # one row of GeoTIFF blocks at a time
            rows = slice(top, min(top + BLOCK, array.sizes["y"]))
            ids = checked_ids(array.isel(y=rows).values, labels.classes)
            out.write((rows, slice(None)), ids[np.newaxis])


def open_map(outputs: Outputs, path: Path, frame: MapFrame) -> AbstractContextManager[Windows]:
    """Return a map of any format, to be written window by window in a ``with`` block.

    A GeoTIFF (any name without another known ending) and a Zarr store are written as the windows
    come; the other formats are kept in memory until the map is whole.
    """
    return _FORMATS.get(path.suffix.lower(), geotiff.open_geotiff)(outputs, path, frame)


class MapWriter:
    """Write a map of classes or values and, on request, what goes with it, window by window.

    The files appear together under their names when the ``with`` block ends without an error, and
    not before. One thread may write at a time. A GeoTIFF (any name without another known ending)
    and a Zarr store (``.zarr``) are written as the windows come; the other kinds are kept in memory
    until the map is whole.

    Parameters
    ----------
    path : path-like
        The map. Beside a GeoTIFF of classes go ``<path>.aux.xml`` with their names and a ``.qml``
        style; one of values has a band of float32 for each target, NaN where there is none.
    shape : (int, int)
        Rows and columns of the scene.
    output : sequence of ClassInfo or of Target
        The classes of the map, in the order of the probabilities' last axis; or what is predicted.
    crs : rasterio.crs.CRS, optional
        Coordinate reference system; None for a scene without one.
    transform : affine.Affine, optional
        From (column, row) to (x, y) of the pixel's corner; None for a scene without one.
    probabilities : path-like, optional
        Where to write the probabilities; None for no probabilities.
    probability_dtype : {"float32", "uint8"}
        Of the probabilities and the uncertainty of classes: ``float32`` marks unmapped pixels by
        NaN; ``uint8`` takes a quarter of the room: it keeps round(254 p), with the scale 1/254 in
        the file, and marks unmapped pixels by 255.
    uncertainty : path-like, optional
        Where to write how uncertain each pixel's class is, see `polyad.map_file`, or the standard
        deviations of values.
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
    >>> path = Path(tempfile.mkdtemp()) / "cover.tif"
    >>> with MapWriter(path, (2, 3), [Target("cover", "%")]) as out:
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
        output: Sequence[ClassInfo] | Sequence[Target],
        *,
        crs: CRS | None = None,
        transform: Affine | None = None,
        probabilities: AnyPath | None = None,
        probability_dtype: str = "float32",
        uncertainty: AnyPath | None = None,
        sets: class_tables.SetRule | None = None,
        coords: Mapping[Hashable, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        classes = tuple(c for c in output if isinstance(c, ClassInfo))
        targets = tuple(t for t in output if isinstance(t, Target))
        self.frame = MapFrame(Grid(shape, crs, transform), classes, targets, coords)
        self.probabilities = None if probabilities is None else Path(probabilities)
        self.probability_dtype = probability_dtype
        self.uncertainty = None if uncertainty is None else Path(uncertainty)
        self.sets = sets
        self._set_paths = [] if sets is None else list(set_paths(self.path).values())
        if targets:
            check_ending(path, "map of a regression target")
        files = (self.path, self.probabilities, self.uncertainty, *self._set_paths)
        check_names_differ(("output", path) for path in files if path is not None)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            outputs = stack.enter_context(replacing_together())
            self._map = stack.enter_context(open_map(outputs, self.path, self.frame))
            beside = self._values_beside if self.frame.targets else self._classes_beside
            self._beside = [(stack.enter_context(out), encode) for out, encode in beside(outputs)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def _classes_beside(
        self, outputs: Outputs
    ) -> Iterator[tuple[AbstractContextManager[Windows], Encode]]:
        """Yield each file that goes with a class map, and what it keeps of probabilities."""
        names, dtype = [c.name for c in self.frame.classes], self.probability_dtype
        open_bands = partial(geotiff.open_bands, outputs, grid=self.frame.grid)
        encode = partial(geotiff.encode_probabilities, dtype=dtype)
        if self.probabilities is not None:
            bands = geotiff.probability_bands(names, dtype)
            yield open_bands(self.probabilities, bands=bands), encode
        if self.uncertainty is not None:
            quantity = class_tables.UNCERTAINTY
            bands = geotiff.probability_bands(class_tables.UNCERTAINTIES, dtype, quantity)
            yield (
                open_bands(self.uncertainty, bands=bands),
                lambda proba: encode(class_tables.uncertainty_bands(proba)),
            )
        if self.sets is not None:
            sizes, members = geotiff.set_bands(names, self.sets)
            in_set = partial(class_tables.set_members, rule=self.sets)
            yield (
                open_bands(self._set_paths[0], bands=sizes),
                lambda proba: class_tables.set_sizes(in_set(proba))[..., np.newaxis],
            )
            yield open_bands(self._set_paths[1], bands=members), in_set

    def _values_beside(
        self, outputs: Outputs
    ) -> Iterator[tuple[AbstractContextManager[Windows], Encode]]:
        """Yield the file of standard deviations, and what it keeps of values and deviations."""
        if self.uncertainty is not None:
            count = len(self.frame.targets)
            bands = geotiff.value_bands(self.frame.targets, deviation=True)
            out = geotiff.open_bands(outputs, self.uncertainty, self.frame.grid, bands)
            yield out, lambda numbers: numbers[..., count:].astype(np.float32)

    def write(self, window: Slices, mapped: npt.ArrayLike, numbers: Array | None = None) -> None:
        """Write one window of the map.

        Parameters
        ----------
        window : (slice, slice)
            Rows and columns of the scene.
        mapped : array of int, shape (rows, columns)
            Class ids, 0 for pixels that are not mapped; not kept of a map of a regression target.
        numbers : array of float, shape (rows, columns, bands), optional
            NaN where not mapped. Of classes their probabilities, wanted if and only if the writer
            was given a path for them or for the uncertainty, or a rule for sets. Else values,
            and then their standard deviations if these are written.
        """
        if self.frame.targets:
            count = len(self.frame.targets)
            expected = (*np.shape(mapped), count * (1 + len(self._beside)))
            if numbers is None or numbers.shape != expected:
                got = "none" if numbers is None else f"{numbers.shape}"
                raise InputError(f"expected numbers of shape {expected} for a window, got {got}")
            self._map.write(window, np.moveaxis(numbers[..., :count].astype(np.float32), -1, 0))
        else:
            if (numbers is not None) != bool(self._beside):
                raise InputError(
                    "probabilities must be passed to write() if and only if MapWriter was given "
                    "probabilities=PATH, uncertainty=PATH or sets"
                )
            self._map.write(window, checked_ids(mapped, self.frame.classes)[np.newaxis])
        if numbers is not None:
            for out, encode in self._beside:
                out.write(window, np.moveaxis(encode(numbers), -1, 0))  # (band, rows, columns)


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
    ".tif": geotiff.open_geotiff,
    ".tiff": geotiff.open_geotiff,
    ".hdr": open_envi,
    ".img": open_envi,
    ".png": _open_png,
    ".nc": open_netcdf,
    ".zarr": open_zarr,
    ".npy": _open_npy,
}
