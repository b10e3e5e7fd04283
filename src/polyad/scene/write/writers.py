"""Class maps and maps of values to files, window by window or whole, with what goes with them.

The file's ending chooses the format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import rioxarray  # noqa: F401 - gives every DataArray its ``rio``
import xarray as xr
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling

from polyad.atomic import Outputs, replacing_together
from polyad.errors import InputError
from polyad.scene.files.paths import (
    DEVIATION,
    NPY_HEAD,
    VALUES,
    check_distinct,
    check_ending,
    set_paths,
)
from polyad.scene.raster.classes import (
    UNCERTAINTIES,
    UNCERTAINTY,
    VALUE_DIMS,
    ClassInfo,
    SetRule,
    Target,
    class_dtype,
    class_table,
    set_members,
    set_sizes,
    uncertainty_bands,
    with_classes,
)
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.scene import as_labels, describe
from polyad.scene.raster.windows import BLOCK
from polyad.scene.write.cf import (
    GRID_MAPPING,
    add_dataset,
    add_netcdf_map,
    global_attributes,
    grid_mapping,
    open_zarr_map,
    pixel_coordinates,
)
from polyad.scene.write.cog import Raster, Slices, open_raster, placed
from polyad.scene.write.envi import add_envi_map
from polyad.scene.write.geotiff import (
    PROBABILITY,
    checked_ids,
    encode_probabilities,
    open_class_map,
    open_probabilities,
    open_sets,
)


def write_map(path: str | os.PathLike[str], class_map: xr.DataArray) -> None:
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
    with replacing_together() as outputs:
        add_map(outputs, path, class_map)


def add_map(outputs: Outputs, path: str | os.PathLike[str], class_map: xr.DataArray) -> None:
    """Do what `write_map` does, for a map that is to appear together with other files."""
    write = _MAP_FORMATS[check_ending(path, "map")]
    write(outputs, Path(path), as_labels(class_map))


def write_probabilities(
    path: str | os.PathLike[str], proba: xr.DataArray, dtype: str = "float32"
) -> None:
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
    with replacing_together() as outputs:
        add_probabilities(outputs, path, proba, dtype)


def add_probabilities(
    outputs: Outputs, path: str | os.PathLike[str], proba: xr.DataArray, dtype: str = "float32"
) -> None:
    """Do what `write_probabilities` does, for probabilities that appear together with their map."""
    check_ending(path, "file of probabilities")
    if set(proba.dims) != {"y", "x", "class"}:
        raise InputError(f"probabilities have dims ('y', 'x', 'class'), got {proba.dims}")
    proba = proba.transpose("y", "x", "class")
    crs, transform = georeference(proba)
    height, width = proba.sizes["y"], proba.sizes["x"]
    names = _class_names(proba)
    with open_probabilities(
        outputs, path, (height, width), names, dtype=dtype, crs=crs, transform=transform
    ) as out:
        for rows, strip in _strips(proba):
            out.write((rows, slice(None)), np.moveaxis(encode_probabilities(strip, dtype), -1, 0))


def _write_geotiff(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    crs, transform = georeference(class_map)
    shape, classes = _shape(class_map), class_table(class_map)
    options: dict[str, Any] = {"crs": crs, "transform": transform}
    options["quantity"] = class_map.attrs.get("quantity")
    with open_class_map(outputs, path, shape, classes, **options) as out:
        for rows, ids in _strips(class_map):
            out.write((rows, slice(None)), checked_ids(ids, classes)[np.newaxis])


def _write_envi(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    crs, transform = georeference(class_map)
    strips = (ids for _, ids in _strips(class_map))
    classes = class_table(class_map)
    add_envi_map(outputs, path, _shape(class_map), classes, strips, crs, transform)


def _write_png(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    from polyad.scene.draw.figures import map_figure, to_png  # matplotlib is slow to import

    outputs.temporary(path).write_bytes(to_png(map_figure(class_map)))


def _write_netcdf(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    add_netcdf_map(outputs, path, class_map, *georeference(class_map))


def _write_zarr(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    classes = class_table(class_map)
    with open_zarr_map(outputs, path, class_map, *georeference(class_map)) as out:
        for rows, ids in _strips(class_map):
            out.write((rows, slice(None)), checked_ids(ids, classes)[np.newaxis])


def _write_npy(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    ids = checked_ids(class_map.values, class_table(class_map))
    about = {"descr": ids.dtype.str, "fortran_order": False, "shape": ids.shape}
    head = str(about).encode().ljust(NPY_HEAD - 11) + b"\n"
    # Not by numpy, which tells of a full disk without saying that it is full
    with outputs.temporary(path).open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        file.write(np.ascontiguousarray(ids).data)


_MAP_FORMATS: dict[str, Callable[[Outputs, Path, xr.DataArray], None]] = {
    ".tif": _write_geotiff,
    ".tiff": _write_geotiff,
    ".hdr": _write_envi,
    ".img": _write_envi,
    ".png": _write_png,
    ".nc": _write_netcdf,
    ".zarr": _write_zarr,
    ".npy": _write_npy,
}


def _shape(raster: xr.DataArray) -> tuple[int, int]:
    return raster.sizes["y"], raster.sizes["x"]


def _strips(raster: xr.DataArray) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
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


Array = npt.NDArray[Any]


class ValueWriter:
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
        coords: Mapping[Any, Any] | None = None,
    ) -> None:
        self.path, self.shape, self.targets = Path(path), shape, tuple(targets)
        self.crs, self.transform, self.coords = crs, transform, coords
        self.uncertainty = None if uncertainty is None else Path(uncertainty)
        self.ending = check_ending(path, "map of values")
        check_distinct(self.path, self.uncertainty)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            outputs = stack.enter_context(replacing_together())
            self._map = stack.enter_context(self._open_map(outputs))
            self._deviation: _Described | None = None
            if self.uncertainty is not None:
                opened = _open_bands(outputs, self.uncertainty, self, DEVIATION, companion=True)
                self._deviation = stack.enter_context(opened)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

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
        wanted = (*mapped.shape, len(self.targets) * (1 if self._deviation is None else 2))
        if numbers is None or numbers.shape != wanted:
            got = "none" if numbers is None else f"{numbers.shape}"
            raise InputError(f"wanted numbers of shape {wanted} for a window, got {got}")
        bands = np.moveaxis(numbers.astype(np.float32), -1, 0)  # (bands, rows, columns)
        count = len(self.targets)
        self._map.write(window, bands[:count])
        if self._deviation is not None:
            self._deviation.write(window, bands[count:])

    def _open_map(self, outputs: Outputs) -> Any:
        if self.ending in (".tif", ".tiff"):
            return _open_bands(outputs, self.path, self, VALUES, companion=False)
        return self._open_whole(outputs)

    @contextmanager
    def _open_whole(self, outputs: Outputs) -> Iterator[_Whole_value_writer]:
        """Yield what keeps the windows of a map that is written at once."""
        whole = _Whole_value_writer(np.full((len(self.targets), *self.shape), np.nan, np.float32))
        yield whole
        values = np.moveaxis(whole.bands, 0, -1)  # (y, x, target)
        if self.ending == ".npy":
            _add_npy(outputs, self.path, values)
        elif self.ending == ".nc":
            self._add_netcdf(outputs, values)
        else:
            from polyad.scene.draw.figures import to_png
            from polyad.scene.draw.values import value_figure  # matplotlib is slow to import

            figure = value_figure(self._frame(values), self.targets)
            outputs.temporary(self.path).write_bytes(to_png(figure))

    def _frame(self, values: Array) -> xr.DataArray:
        raster = xr.DataArray(values, dims=VALUE_DIMS, coords=self.coords)
        if self.coords is None and (self.crs is not None or self.transform is not None):
            raster = describe(raster, crs=self.crs, transform=self.transform)
        return raster.assign_coords(target=[t.name for t in self.targets])

    def _add_netcdf(self, outputs: Outputs, values: Array) -> None:
        """Write a variable for each target after CF 1.8."""
        frame = self._frame(values)
        place = pixel_coordinates(frame, self.crs, self.transform)
        out, encoding = xr.Dataset(coords=place), {}
        for k, (target, name) in enumerate(zip(self.targets, variable_names(self.targets),
                                               strict=True)):  # fmt: skip
            about: dict[str, Any] = {"long_name": target.name}
            about |= {"units": target.units} if target.units else {}
            if target.low is not None and target.high is not None:
                about["valid_range"] = np.array([target.low, target.high], np.float32)
            out[name] = (("y", "x"), np.ascontiguousarray(values[..., k]), about)
            encoding[name] = {"_FillValue": np.float32(np.nan), "zlib": True}
        if self.crs is not None or (self.transform is not None and "x" not in out.coords):
            out[GRID_MAPPING] = grid_mapping(self.crs, self.transform)
            for name in variable_names(self.targets):
                out[name].attrs["grid_mapping"] = GRID_MAPPING
        out.attrs = global_attributes("Map of values")
        encoding |= {str(n): {"_FillValue": None} for n in out.coords}
        add_dataset(outputs, self.path, out, encoding)


def variable_names(targets: Sequence[Target]) -> list[str]:
    """Return a name for each target in the signs that CF allows, no two alike.

    Examples
    --------
    >>> variable_names([Target("cover [%]"), Target("2nd"), Target("cover (%)")])
    ['cover', 'value_2nd', 'cover_3']
    """
    names: list[str] = []
    for number, target in enumerate(targets, start=1):
        plain = "".join(c if c.isascii() and c.isalnum() else " " for c in target.name)
        name = "_".join(plain.split()) or "value"
        name = name if name[0].isalpha() else f"value_{name}"
        taken = name in (*names, "x", "y", "lat", "lon", "latitude", "longitude", GRID_MAPPING)
        names.append(f"{name}_{number}" if taken else name)
    return names


class _Described:
    """Bands of a GeoTIFF that tells their range when it is whole."""

    def __init__(self, raster: Raster, count: int) -> None:
        self._raster = raster
        self._low, self._high = np.full(count, np.inf), np.full(count, -np.inf)
        self._sums = np.zeros((3, count))  # of ones, values and squares

    def write(self, window: Slices, bands: Array) -> None:
        """Write ``bands`` (band, rows, columns) into ``window`` (rows, columns)."""
        self._raster.write(window, bands)
        known = np.isfinite(bands)
        if not known.any():
            return
        values = np.where(known, bands, 0).astype(np.float64)
        self._sums += [a.sum(axis=(1, 2)) for a in (known, values, values**2)]
        self._low = np.minimum(self._low, np.where(known, bands, np.inf).min(axis=(1, 2)))
        self._high = np.maximum(self._high, np.where(known, bands, -np.inf).max(axis=(1, 2)))

    def tell(self) -> None:
        """Put the range into the file, under the names that GDAL and a GIS look for."""
        for k, (count, total, square) in enumerate(self._sums.T.tolist()):
            if count:
                mean = total / count
                told = {"MINIMUM": self._low[k], "MAXIMUM": self._high[k], "MEAN": mean}
                told["STDDEV"] = max(square / count - mean**2, 0.0) ** 0.5
                tags = {f"STATISTICS_{name}": f"{value:.7g}" for name, value in told.items()}
                self._raster.dataset.update_tags(k + 1, **tags)


@contextmanager
def _open_bands(
    outputs: Outputs, path: Path, about: ValueWriter, quantity: str, *, companion: bool
) -> Iterator[_Described]:
    targets = about.targets
    profile = placed(about.shape, about.crs, about.transform)
    profile |= {"count": len(targets), "dtype": "float32", "nodata": np.nan, "predictor": 3}
    with open_raster(outputs, path, profile, Resampling.average, companion=companion) as raster:
        raster.dataset.descriptions = tuple(t.name for t in targets)
        raster.dataset.units = tuple(t.units for t in targets)
        raster.dataset.update_tags(quantity=quantity)
        if quantity == VALUES:
            for k, target in enumerate(targets, start=1):
                if target.low is not None and target.high is not None:
                    bounds = {"valid_min": f"{target.low:g}", "valid_max": f"{target.high:g}"}
                    raster.dataset.update_tags(k, **bounds)
        raster.flush()
        bands = _Described(raster, len(targets))
        yield bands
        bands.tell()


class _Whole_value_writer:
    def __init__(self, bands: Array) -> None:
        self.bands = bands

    def write(self, window: Slices, bands: Array) -> None:
        self.bands[(slice(None), *window)] = bands


def _add_npy(outputs: Outputs, path: Path, values: Array) -> None:
    about = {"descr": "<f4", "fortran_order": False, "shape": values.shape}
    head = str(about).encode().ljust(NPY_HEAD - 11) + b"\n"
    # Not by numpy, which tells of a full disk without saying that it is full
    with outputs.temporary(path).open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        file.write(np.ascontiguousarray(values, "<f4").data)
