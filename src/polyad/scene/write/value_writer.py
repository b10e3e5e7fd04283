"""A map of values of any kind, and its standard deviations, written window by window."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling

from polyad.atomic import Outputs, replacing_together
from polyad.errors import InputError
from polyad.scene.files.own_outputs import DEVIATION, NPY_HEAD, VALUES
from polyad.scene.files.paths import check_distinct, check_ending
from polyad.scene.raster.scene import describe
from polyad.scene.raster.targets import VALUE_DIMS, Target
from polyad.scene.write.cog import Raster, Slices, open_raster, placed
from polyad.scene.write.netcdf import (
    GRID_MAPPING,
    add_dataset,
    global_attributes,
    grid_mapping,
    pixel_coordinates,
)

AnyPath = str | os.PathLike[str]
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
    def _open_whole(self, outputs: Outputs) -> Iterator[_Whole]:
        """Yield what keeps the windows of a map that is written at once."""
        whole = _Whole(np.full((len(self.targets), *self.shape), np.nan, np.float32))
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


class _Whole:
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
