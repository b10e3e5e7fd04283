"""EMIT L1B/L2A: sensor geometry put on the map by the product's own lookup table (GLT).

Layout (NetCDF-4): ``reflectance`` (downtrack, crosstrack, bands); ``location/glt_x`` and
``location/glt_y`` (ortho_y, ortho_x) hold for each map pixel the 1-based column and row of the
sensor, 0 where there is none; ``sensor_band_parameters`` holds wavelengths and good bands; the root
attributes ``geotransform`` and ``spatial_ref`` place the map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, hull, to_nm
from polyad.scene.read.formats import hdf
from polyad.scene.read.formats.cf import number, placed, text
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.hdf import (
    Hdf5File,
    attributes,
    dataset,
    open_hdf5,
    read_box,
    small,
)
from polyad.scene.read.formats.opening import Opened

_CUBES = ("reflectance", "radiance")
_GLT = ("location/glt_y", "location/glt_x")
_BANDS = "sensor_band_parameters"
_FILL = -9999.0


# How many times the pixels of a window may be read of the swath, unless they fit in the budget: on
# a turned grid, a row of the map crosses many lines, of which whole blocks are read.
_SCATTER = 64
_BOX_BYTES = 64 * 2**20  # of the swath, held at a time
_BOX_SIDE = 64  # lines and samples of a box, at least; whole chunks where these are larger


def is_emit(opened: Hdf5File) -> bool:
    """Return whether an open HDF5 file has the layout of EMIT."""
    file = opened.file
    return all(isinstance(file.get(n), h5py.Dataset) for n in _GLT) and any(
        n in file for n in _CUBES
    )


@dataclass(frozen=True)
class EmitSource:
    """Map pixels of EMIT: lookup table first, then the boxes of the swath it points to.

    Parameters
    ----------
    path : Path
    name : str
        Of the cube.
    shape : (rows, columns, bands)
        Of the map.
    dtype : dtype
    fill : float
        Put where no pixel was seen.
    budget : int
        Bytes of the swath that may be held at once.
    """

    path: Path
    name: str
    shape: tuple[int, int, int]
    dtype: np.dtype
    fill: float
    budget: int

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window of the map, shape ``(rows, cols, bands)``."""
        with open_hdf5(self.path) as file:
            # A negative entry marks a pixel filled from its neighbor; its size is the place.
            line, sample = (np.abs(self._box(file, n, (rows, cols)).astype(np.intp)) for n in _GLT)
            seen = (line > 0) & (sample > 0)  # (rows, cols)
            out = np.full((*seen.shape, len(bands)), self.fill, self.dtype)
            if seen.any():
                cube = dataset(self.path, file, self.name)
                self._check_inside(cube, line, sample)
                out[seen] = self._spectra(file, cube, line[seen] - 1, sample[seen] - 1, bands)
        return out

    def _spectra(
        self,
        file: h5py.File,
        cube: h5py.Dataset,
        line: NDArray[np.intp],
        sample: NDArray[np.intp],
        chosen: NDArray[np.intp],
    ) -> Array:
        """Return the spectra at places of the swath, ``(n, bands)``, read box by box."""
        span, at_band = hull(chosen)
        spectrum = (span.stop - span.start) * self.dtype.itemsize  # bytes
        boxes = list(_boxes(line, sample, _sides(cube, spectrum, min(self.budget, _BOX_BYTES))))
        pixels = sum((d.stop - d.start) * (a.stop - a.start) for _, d, a in boxes)
        if pixels > _SCATTER * len(line):
            what = "a window whose lookup table points all over the swath"
            guards.check_budget(self.path, pixels * spectrum, self.budget, what)
        out = np.empty((len(line), len(chosen)), self.dtype)
        for places, down, across in boxes:
            swath = self._box(file, self.name, (down, across, span))  # (lines, samples, bands)
            spectra = swath[line[places] - down.start, sample[places] - across.start]
            out[places] = spectra[:, at_band]
        return out

    def _box(self, file: h5py.File, name: str, box: tuple[slice, ...]) -> Array:
        return read_box(dataset(self.path, file, name), box)

    def _check_inside(self, cube: h5py.Dataset, line: Array, sample: Array) -> None:
        if line.max() > cube.shape[0] or sample.max() > cube.shape[1]:
            raise SceneError(
                f"{self.path}: the lookup table points to line {line.max()}, sample "
                f"{sample.max()}, the swath has {cube.shape[0]} lines of {cube.shape[1]}; the file "
                "is damaged, download it again"
            )


def _sides(cube: h5py.Dataset, spectrum: int, most: int) -> tuple[int, int]:
    """Return lines and samples of a box: whole chunks if they fit in ``most`` bytes."""
    chunks = (1, 1) if cube.chunks is None else cube.chunks[:2]
    down, across = (-(-_BOX_SIDE // n) * n for n in chunks)
    while down * across * spectrum > most and max(down, across) > 1:
        down, across = (-(-down // 2), across) if down >= across else (down, -(-across // 2))
    return down, across


def _boxes(
    line: NDArray[np.intp], sample: NDArray[np.intp], sides: tuple[int, int]
) -> Iterator[tuple[NDArray[np.intp], slice, slice]]:
    """Yield, for each box of the swath, the places inside and its lines and samples."""
    cell = np.stack([line // sides[0], sample // sides[1]])
    order = np.lexsort(cell)
    breaks = np.flatnonzero(np.diff(cell[:, order], axis=1).any(axis=0)) + 1
    for places in np.split(order, breaks):
        yield places, hull(line[places])[0], hull(sample[places])[0]


def open_emit(opened: Hdf5File, key: str | None) -> Opened:
    """Open an EMIT scene on its map grid, bad bands left out, fill value kept as nodata."""
    path, file = opened.path, opened.file
    name = key or next(n for n in _CUBES if n in file)
    cube = hdf.find(opened, name)
    guards.check_shape(path, cube.shape)
    tables = [hdf.find(opened, n) for n in _GLT]
    if tables[0].shape != tables[1].shape or any(
        t.ndim != 2 or t.dtype.kind not in "iu" for t in tables
    ):
        raise SceneError(
            f"{path}: expected glt_x and glt_y of one 2-D shape in whole numbers, got "
            f"{tables[1].shape} of {tables[1].dtype} and {tables[0].shape} of {tables[0].dtype}; "
            "the file is damaged, download it again"
        )
    for array in (cube, *tables):
        hdf.check_dataset(opened, array)
    count = cube.shape[2]
    centers, widths, flags = (
        _per_band(opened, n, count) for n in ("wavelengths", "fwhm", "good_wavelengths")
    )
    # 65535 or NaN flags have been seen for "unknown": only 1 is good.
    good = None if flags is None else flags == 1
    if good is not None and not good.any():
        raise SceneError(f"{path}: no band is flagged as good; name another file or variable")
    fill = number(attributes(cube, ["_FillValue"]), "_FillValue")
    fill = _FILL if fill is None else fill
    shape = (*tables[0].shape, count)
    source = EmitSource(path, name, shape, cube.dtype, fill, opened.budget)
    return Opened.of(
        source,
        wavelength=None if centers is None else to_nm(centers, "nm"),
        fwhm=None if widths is None else to_nm(widths, "nm"),
        good=good,
        nodata=fill,
        **_place(opened),
    )


def _per_band(opened: Hdf5File, name: str, count: int) -> NDArray[np.float64] | None:
    values = small(opened, f"{_BANDS}/{name}")
    if values is None:
        return None
    if values.shape != (count,):
        raise SceneError(
            f"{opened.path}: expected {count} values of '{name}', one per band, got shape "
            f"{values.shape}; the file is damaged, download it again"
        )
    return values.astype(np.float64)


def _place(opened: Hdf5File) -> dict[str, Any]:
    root = attributes(opened.file, ["spatial_ref", "geotransform"])
    place = {"crs": parse_crs(opened.path, text(root.get("spatial_ref", "")))}
    if "geotransform" not in root:
        return place
    numbers = np.ravel(root["geotransform"])
    if numbers.size != 6 or numbers.dtype.kind not in "iuf":
        raise SceneError(
            f"{opened.path}: expected 6 numbers in 'geotransform', got {numbers.size} of "
            f"{numbers.dtype}; the file is damaged, download it again"
        )
    # GDAL's order: it starts at the outer corner of the first pixel, no half pixel to add.
    return place | {"transform": placed(opened.path, numbers)}
