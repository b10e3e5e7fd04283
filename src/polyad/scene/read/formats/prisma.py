"""PRISMA L2D: two cubes of scaled integers joined into one scene ordered by wavelength.

Layout (HDF-EOS5): ``VNIR_Cube`` and ``SWIR_Cube`` (rows, bands, columns) of uint16 that stand for
``Min + stored * (Max - Min) / 65535``; the root attributes list the center of each band, in falling
order and with 0 for slots without a band, and a flag that is 0 for a band that is not to be used.
The detectors overlap between about 920 and 1010 nm, where their bands alternate once in order.

The matrices of pixel errors are not read: they mark single values (negative or saturated after the
atmospheric correction, most of them in water absorption), and a pixel that is invalid in one band
would be lost in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from affine import Affine
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, hull, to_nm
from polyad.scene.read.formats import hdf
from polyad.scene.read.formats.cf import placed
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.hdf import Hdf5File
from polyad.scene.read.formats.opening import Opened

_FIELDS = "HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields"
_DETECTORS = ("Vnir", "Swir")
_FULL_SCALE = 65535
_STRIP_BYTES = 64 * 2**20  # of all bands, held at a time to see where the acquired strip lies


def is_prisma(opened: Hdf5File) -> bool:
    """Return whether an open HDF5 file has the layout of PRISMA L2D."""
    return all(_cube(d) in opened.file for d in _DETECTORS)


def _cube(detector: str) -> str:
    return f"{_FIELDS}/{detector.upper()}_Cube"


class Band(NamedTuple):
    """One band of the joined scene: its detector, its place there, and its scale."""

    wavelength: float
    fwhm: float
    detector: str
    slot: int
    low: float
    high: float
    good: bool


@dataclass(frozen=True)
class PrismaSource:
    """Reflectance of PRISMA, float32; NaN outside the acquired strip."""

    path: Path
    grid: tuple[int, int]
    bands: tuple[Band, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        return (*self.grid, len(self.bands))

    @property
    def dtype(self) -> np.dtype:
        """Reflectance is float32."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        chosen = [self.bands[b] for b in bands]
        with hdf.open_hdf5(self.path) as file:
            stored = self._stored(file, rows, cols, chosen)
            outside = np.asarray(~stored.any(axis=2))  # (rows, cols)
            # A dark pixel may be 0 in the chosen bands; outside the strip all bands are 0.
            if outside.any() and len(bands) < len(self.bands):
                step = max(1, _STRIP_BYTES // (2 * outside.shape[1] * len(self.bands)))
                for top in range(rows.start, rows.stop, step):
                    strip = slice(top, min(top + step, rows.stop))
                    every = self._stored(file, strip, cols, list(self.bands))
                    outside[top - rows.start :][: len(every)] = ~every.any(axis=2)
        with np.errstate(over="ignore", invalid="ignore"):  # a scale beyond float32 is no data
            low = np.array([b.low for b in chosen], np.float32)
            step = np.array([(b.high - b.low) / _FULL_SCALE for b in chosen], np.float32)
            values = low + stored * step
        values[outside] = np.nan
        return values

    def _stored(self, file: h5py.File, rows: slice, cols: slice, chosen: list[Band]) -> Array:
        out = np.empty((rows.stop - rows.start, cols.stop - cols.start, len(chosen)), np.uint16)
        for detector in _DETECTORS:
            places = [i for i, b in enumerate(chosen) if b.detector == detector]
            if places:
                span, inside = hull(np.array([chosen[i].slot for i in places]))
                cube = hdf.dataset(self.path, file, _cube(detector))
                block = hdf.read_box(cube, (rows, span, cols))  # (rows, bands, cols)
                out[..., places] = block.transpose(0, 2, 1)[..., inside]
        return out


def open_prisma(opened: Hdf5File, key: str | None) -> Opened:
    """Open a PRISMA L2D scene as reflectance."""
    path = opened.path
    if key is not None:
        raise SceneError(
            f"{path}: a PRISMA scene joins its two cubes and takes no key; drop ':{key}'"
        )
    grids, bands = set(), list[Band]()
    for detector in _DETECTORS:
        cube = hdf.find(opened, _cube(detector))
        guards.check_shape(path, cube.shape)
        if cube.dtype.kind != "u" or cube.dtype.itemsize > 2:
            raise SceneError(f"{path}: expected cubes of uint16, got {cube.dtype}; not L2D data")
        hdf.check_dataset(opened, cube)
        grids.add((cube.shape[0], cube.shape[2]))
        bands += _detector_bands(opened, detector, cube.shape[1])
    if len(grids) > 1 or not bands:
        what = f"got {sorted(grids)} and {len(bands)} bands; download the file again"
        raise SceneError(f"{path}: expected two cubes of one size with named bands, {what}")
    bands.sort(key=lambda b: b.wavelength)
    source = PrismaSource(path, grids.pop(), tuple(bands))
    return Opened.of(
        source,
        wavelength=to_nm([b.wavelength for b in bands], "nm"),
        fwhm=to_nm([b.fwhm for b in bands], "nm"),
        good=np.array([b.good for b in bands]),
        nodata=np.nan,
        crs=parse_crs(path, f"EPSG:{_numbers(opened, 'Epsg_Code')[0]:.0f}"),
        transform=_transform(opened, source.grid),
    )


def _numbers(opened: Hdf5File, name: str, count: int | None = None) -> NDArray[np.float64]:
    """Return an attribute of finite numbers, at least one."""
    stored = hdf.attributes(opened.file, [name]).get(name)
    values = hdf.numbers(opened.path, name, stored, count)
    if values is None or not np.isfinite(values).all():
        got = "none" if values is None else values[~np.isfinite(values)][0]
        raise SceneError(
            f"{opened.path}: expected finite numbers in the attribute '{name}' of PRISMA L2D, got "
            f"{got}; download the file again"
        )
    return values


def _detector_bands(opened: Hdf5File, detector: str, count: int) -> list[Band]:
    names = (f"List_Cw_{detector}", f"List_Fwhm_{detector}", f"List_Cw_{detector}_Flags")
    centers, widths, flags = (
        _numbers(opened, name, count)
        if default is None or name in opened.file.attrs
        else np.full(count, default)
        for name, default in zip(names, (None, np.nan, 1.0), strict=True)
    )
    low, high = (_numbers(opened, f"L2Scale{detector}{end}")[0] for end in ("Min", "Max"))
    return [
        Band(center, width, detector, slot, low, high, bool(flag))
        for slot, (center, width, flag) in enumerate(zip(centers, widths, flags, strict=True))
        if center > 0
    ]


def _transform(opened: Hdf5File, grid: tuple[int, int]) -> Affine:
    """Return the map transform from the corner coordinates.

    The product calls them corners, yet they are the centers of the corner pixels: n pixels span
    n - 1 intervals. Reading them as outer corners shifts the scene by 15 m and shrinks its pixels.
    """
    corners = ("ULcorner_easting", "LRcorner_easting", "ULcorner_northing", "LRcorner_northing")
    west, east, north, south = (_numbers(opened, f"Product_{name}")[0] for name in corners)
    dx, dy = (east - west) / max(grid[1] - 1, 1), (north - south) / max(grid[0] - 1, 1)
    return placed(opened.path, (west - dx / 2, dx, 0.0, north + dy / 2, 0.0, -dy))
