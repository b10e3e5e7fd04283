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

import h5py
import numpy as np
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, hull, to_nm
from polyad.scene.read.formats import cf, hdf
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.hdf import Hdf5File
from polyad.scene.read.formats.opening import Opened

Places = NDArray[np.intp]
_CUBES = ("reflectance", "radiance")
_GLT = ("location/glt_y", "location/glt_x")
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
        Bytes of a swath that may be read for a window whose places lie all over it.
    """

    path: Path
    name: str
    shape: tuple[int, int, int]
    dtype: np.dtype
    fill: float
    budget: int

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window of the map, shape ``(rows, cols, bands)``."""
        with hdf.open_hdf5(self.path) as file:
            tables = (hdf.read_box(hdf.dataset(self.path, file, n), (rows, cols)) for n in _GLT)
            # A negative entry marks a pixel filled from its neighbor; its size is the place.
            line, sample = (np.abs(table.astype(np.intp)) for table in tables)
            seen = (line > 0) & (sample > 0)  # (rows, cols)
            out = np.full((*seen.shape, len(bands)), self.fill, self.dtype)
            if seen.any():
                cube = hdf.dataset(self.path, file, self.name)
                place, (lines, samples) = (line.max(), sample.max()), cube.shape[:2]
                if place[0] > lines or place[1] > samples:
                    raise SceneError(
                        f"{self.path}: the lookup table points to line {place[0]}, sample "
                        f"{place[1]}, the swath has {lines} lines of {samples}; copy it again"
                    )
                out[seen] = self._spectra(cube, line[seen] - 1, sample[seen] - 1, bands)
        return out

    def _spectra(self, cube: h5py.Dataset, line: Places, sample: Places, bands: Places) -> Array:
        """Return the spectra at places of the swath, ``(n, bands)``, read box by box."""
        span, at_band = hull(bands)
        spectrum = (span.stop - span.start) * cube.dtype.itemsize  # bytes
        boxes = list(_boxes(line, sample, _sides(cube, spectrum)))
        pixels = sum((d.stop - d.start) * (a.stop - a.start) for _, d, a in boxes)
        if pixels > _SCATTER * len(line):
            what = "a window whose lookup table points all over the swath"
            guards.check_budget(self.path, pixels * spectrum, self.budget, what)
        out = np.empty((len(line), len(bands)), cube.dtype)
        for places, down, across in boxes:
            swath = hdf.read_box(cube, (down, across, span))  # (lines, samples, bands)
            spectra = swath[line[places] - down.start, sample[places] - across.start]
            out[places] = spectra[:, at_band]
        return out


def _sides(cube: h5py.Dataset, spectrum: int) -> tuple[int, int]:
    """Return lines and samples of a box: whole chunks if they fit in memory for it."""
    chunks = (1, 1) if cube.chunks is None else cube.chunks[:2]
    down, across = (-(-_BOX_SIDE // n) * n for n in chunks)
    while down * across * spectrum > _BOX_BYTES and max(down, across) > 1:
        down, across = (-(-down // 2), across) if down >= across else (down, -(-across // 2))
    return down, across


def _boxes(
    line: Places, sample: Places, sides: tuple[int, int]
) -> Iterator[tuple[Places, slice, slice]]:
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
    cube, *tables = arrays = [hdf.find(opened, n) for n in (name, *_GLT)]
    guards.check_shape(path, cube.shape)
    found = {(table.shape, str(table.dtype)) for table in tables}
    shapes = {table.shape for table in tables}
    if len(shapes) > 1 or any(t.ndim != 2 or t.dtype.kind not in "iu" for t in tables):
        raise SceneError(
            f"{path}: expected glt_x and glt_y of one 2-D shape in whole numbers, got "
            f"{sorted(found)}; download the file again"
        )
    for array in arrays:
        hdf.check_dataset(opened, array)
    centers, widths, flags = (
        hdf.numbers(path, n, hdf.small(opened, f"sensor_band_parameters/{n}"), cube.shape[2])
        for n in ("wavelengths", "fwhm", "good_wavelengths")
    )
    # 65535 or NaN flags have been seen for "unknown": only 1 is good.
    good = None if flags is None else flags == 1
    if good is not None and not good.any():
        raise SceneError(f"{path}: no band is flagged as good; name another file or variable")
    fill = cf.number(hdf.attributes(cube, ["_FillValue"]), "_FillValue")
    fill = _FILL if fill is None else fill
    root = hdf.attributes(file, ["spatial_ref", "geotransform"])
    # In GDAL's order: it starts at the outer corner of the first pixel, no half pixel to add.
    place = hdf.numbers(path, "geotransform", root.get("geotransform"), 6)
    return Opened.of(
        EmitSource(path, name, (*tables[0].shape, cube.shape[2]), cube.dtype, fill, opened.budget),
        wavelength=None if centers is None else to_nm(centers, "nm"),
        fwhm=None if widths is None else to_nm(widths, "nm"),
        good=good,
        nodata=fill,
        crs=parse_crs(path, cf.text(root.get("spatial_ref", ""))),
        transform=None if place is None else cf.placed(path, place),
    )
