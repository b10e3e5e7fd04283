"""EMIT L1B/L2A: sensor geometry put on the map by the product's own lookup table (GLT).

Layout (NetCDF-4): ``reflectance`` (downtrack, crosstrack, bands); ``location/glt_x`` and
``location/glt_y`` (ortho_y, ortho_x) hold for each map pixel the 1-based column and row of the
sensor, 0 where there is none; ``sensor_band_parameters`` holds wavelengths and good bands; the root
attributes ``geotransform`` and ``spatial_ref`` place the map.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import xarray as xr
from affine import Affine
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.formats import guards, hdf
from polyad.scene.formats.cf import text
from polyad.scene.formats.crs import parse_crs
from polyad.scene.formats.lazy import Array, hull, lazy_scene
from polyad.scene.formats.spectral import to_nm

_CUBES = ("reflectance", "radiance")
_GLT = ("location/glt_y", "location/glt_x")
_BANDS = "sensor_band_parameters"
_FILL = -9999.0


def is_emit(file: h5py.File) -> bool:
    """Tell whether an open HDF5 file has the layout of EMIT."""
    return all(isinstance(file.get(n), h5py.Dataset) for n in _GLT) and any(
        n in file for n in _CUBES
    )


@dataclass(frozen=True)
class EmitSource:
    """Map pixels of EMIT: lookup table first, then the part of the swath it points to."""

    path: Path
    name: str
    map_shape: tuple[int, int]
    dtype: np.dtype
    keep: tuple[int, ...]
    fill: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Map rows, map columns and good bands."""
        return (*self.map_shape, len(self.keep))

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window of the map, shape ``(rows, cols, bands)``."""
        chosen = np.asarray(self.keep)[bands]
        with hdf.open_hdf5(self.path) as file:
            # A negative entry marks a pixel filled from its neighbour; its size is the place.
            line, sample = (
                np.abs(hdf.dataset(self.path, file, n)[rows, cols].astype(np.intp)) for n in _GLT
            )
            seen = (line > 0) & (sample > 0)  # (rows, cols)
            out = np.full((*seen.shape, len(chosen)), self.fill, self.dtype)
            if seen.any():
                cube = hdf.dataset(self.path, file, self.name)
                self._check_inside(cube, line, sample)
                down, at_line = hull(line[seen] - 1)
                across, at_sample = hull(sample[seen] - 1)
                span, at_band = hull(chosen)
                swath = cube[down, across, span]  # (lines, samples, bands)
                out[seen] = swath[at_line, at_sample][:, at_band]
        return out

    def _check_inside(self, cube: h5py.Dataset, line: Array, sample: Array) -> None:
        if line.max() > cube.shape[0] or sample.max() > cube.shape[1]:
            raise SceneError(
                f"{self.path}: the lookup table points to line {line.max()}, sample "
                f"{sample.max()}, the swath has {cube.shape[0]} lines of {cube.shape[1]}; the file "
                "is damaged, download it again"
            )


def open_emit(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open an EMIT scene on its map grid, bad bands left out, fill value kept as nodata."""
    guards.existing_file(path)
    with hdf.open_checked(path) as file:
        name = key or next(n for n in _CUBES if n in file)
        cube = hdf.dataset(path, file, name)
        guards.check_shape(path, cube.shape)
        tables = [hdf.dataset(path, file, n) for n in _GLT]
        for found in (cube, *tables):
            hdf.check_dataset(path, found, budget)
        if tables[0].shape != tables[1].shape or tables[0].ndim != 2:
            raise SceneError(
                f"{path}: wanted glt_x and glt_y of one 2-D shape, got {tables[1].shape} and "
                f"{tables[0].shape}; the file is damaged, download it again"
            )
        count = cube.shape[2]
        centres, widths, flags = (
            _per_band(path, file, n, count) for n in ("wavelengths", "fwhm", "good_wavelengths")
        )
        # 65535 or NaN flags have been seen for "unknown": only 1 is good.
        good = np.arange(count) if flags is None else np.flatnonzero(flags == 1)
        if not good.size:
            raise SceneError(f"{path}: no band is flagged as good; name another file or variable")
        fill = float(np.ravel(cube.attrs.get("_FillValue", _FILL))[0])
        source = EmitSource(
            path, name, tables[0].shape, cube.dtype, tuple(int(b) for b in good), fill
        )
        return lazy_scene(
            source,
            wavelength=None if centres is None else to_nm(centres[good], "nm"),
            fwhm=None if widths is None else to_nm(widths[good], "nm"),
            nodata=fill,
            crs=parse_crs(path, text(file.attrs.get("spatial_ref", ""))),
            transform=_transform(path, file),
        )


def _per_band(path: Path, file: h5py.File, name: str, count: int) -> NDArray[np.float64] | None:
    values = hdf.small(path, file, f"{_BANDS}/{name}")
    if values is None:
        return None
    if values.shape != (count,):
        raise SceneError(
            f"{path}: wanted {count} values of '{name}', one per band, got shape {values.shape}; "
            "the file is damaged, download it again"
        )
    return values.astype(np.float64)


def _transform(path: Path, file: h5py.File) -> Affine | None:
    if "geotransform" not in file.attrs:
        return None
    numbers = np.ravel(file.attrs["geotransform"]).astype(float)
    if numbers.size != 6:
        raise SceneError(
            f"{path}: wanted 6 numbers in 'geotransform', got {numbers.size}; the file is damaged"
        )
    # GDAL's order: it starts at the outer corner of the first pixel, no half pixel to add.
    return Affine.from_gdal(*numbers)
