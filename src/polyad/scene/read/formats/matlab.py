"""MATLAB files: up to version 7 (read whole, by SciPy) and version 7.3 (HDF5, read by windows)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from polyad import sandbox
from polyad.errors import SceneError, reason
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, pick, to_nm
from polyad.scene.read.formats import cf, hdf
from polyad.scene.read.formats.hdf import Hdf5File, open_listed, small
from polyad.scene.read.formats.opening import Opened

_WHOLE = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_NUMERIC = {"double", "single", "logical", *_WHOLE}


@dataclass(frozen=True)
class MatSource:
    """One array of a MATLAB 5 file; the format is one stream, so it is read whole, once."""

    path: Path
    pixels: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        rows, cols, bands = self.pixels.shape
        return rows, cols, bands

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self.pixels.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        # A copy, so that nobody can write into these pixels.
        return np.array(pick(self.pixels[rows, cols], bands))


def open_matlab5(path: Path, key: str | None, budget: int) -> Opened:
    """Open one array of a MATLAB 5 file."""
    variables = list_variables(path)
    cubes = {name: shape for name, shape in variables.items() if len(shape) == 3}
    if key is None and len(cubes) > 1:  # SciPy lists complex arrays as real ones
        arrays = sandbox.load("scipy.io").loadmat(path, variable_names=[*cubes])
        cubes = {n: shape for n, shape in cubes.items() if arrays[n].dtype.kind != "c"}
    name = hdf.choose_key(path, cubes) if key is None else key
    if name not in variables:
        raise SceneError(f"{path}: no array '{name}'; its 3-D arrays are {', '.join(cubes)}")
    guards.check_shape(path, variables[name])
    return Opened.of(MatSource(path, read_variable(path, name, variables[name], budget)))


def list_variables(path: Path) -> dict[str, tuple[int, ...]]:
    """Return name and shape of the plain arrays of a MATLAB 5 file."""
    guards.existing_file(path)
    matlab = sandbox.load("scipy.io")
    try:
        listed = matlab.whosmat(path)
    except Exception as error:  # SciPy fails on a damaged file in more ways than can be listed
        raise SceneError(
            f"{path}: the MATLAB variables cannot be listed ({reason(error)}); the file is "
            "truncated, damaged or of another kind, save it again with save -v7"
        ) from error
    return {str(n): shape for n, shape, kind in listed if kind in _NUMERIC and math.prod(shape) > 0}


def read_variable(path: Path, name: str, shape: tuple[int, ...], budget: int) -> Array:
    """Return the values of a plain array, in this machine's byte order."""
    what, least = f"the MATLAB array '{name}'", math.prod(shape)  # a byte for each element
    guards.check_inflation(path, least, path.stat().st_size)
    guards.check_budget(path, least, budget, what)
    values: Array = sandbox.load("scipy.io").loadmat(path, variable_names=[name])[name]
    guards.check_budget(path, values.nbytes, budget, what)
    if values.dtype.kind not in "biuf":
        raise SceneError(
            f"{path}: '{name}' is a MATLAB cell, struct, text or complex array, expected real "
            "numbers; save it as a plain array"
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def list_here(path: Path, budget: int) -> dict[str, tuple[int, ...]]:
    """List the arrays of a MATLAB file in this process, which ought to be a confined one."""
    if h5py.is_hdf5(path):
        with open_listed(path, budget) as opened:
            return {name: shape[::-1] for name, shape in opened.arrays.items()}
    return list_variables(path)


def is_matlab73(opened: Hdf5File) -> bool:
    """Return whether an open HDF5 file comes from MATLAB: it says so in front, or is called so."""
    with opened.path.open("rb") as file:
        return file.read(6) == b"MATLAB" or opened.path.suffix.lower() == ".mat"


def open_matlab73(opened: Hdf5File, key: str | None) -> Opened:
    """Open one array of a MATLAB 7.3 file, whose HDF5 axes run the other way round."""
    arrays = {n: s[::-1] for n, s in opened.cubes.items()}
    array = hdf.find(opened, hdf.choose_key(opened.path, arrays) if key is None else key)
    guards.check_shape(opened.path, array.shape)
    # MATLAB stores columns first: (rows, columns, bands) lies as (bands, columns, rows).
    source = hdf.plain_cube(opened, array, (2, 1, 0))
    centers = small(opened, "wavelength")
    if centers is None or centers.size != source.shape[2] or not cf.are_wavelengths(centers):
        return Opened.of(source)
    return Opened.of(source, wavelength=to_nm(np.ravel(centers), None))
