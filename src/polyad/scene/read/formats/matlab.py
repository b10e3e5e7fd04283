"""MATLAB files: version 5 (read whole) and version 7.3 (HDF5, read by windows)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.raster.bands import to_nm
from polyad.scene.raster.scene import Array, lazy_scene, pick
from polyad.scene.read.formats import cf, hdf
from polyad.scene.read.formats.hdf_file import Hdf5File, open_checked
from polyad.scene.read.formats.hdf_values import small
from polyad.scene.read.formats.mat5 import MatVariable, list_variables, read_variable


@dataclass
class MatSource:
    """One array of a version 5 file; the format is one stream, so it is read whole, once."""

    path: Path
    variable: MatVariable
    shape: tuple[int, int, int]
    dtype: np.dtype
    _pixels: Array | None = field(default=None, repr=False, compare=False)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        if self._pixels is None:
            self._pixels = read_variable(self.path, self.variable)
        # A copy, so that nobody can write into the cached pixels.
        return np.array(pick(self._pixels[rows, cols], bands))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the pixels behind: a worker reads the file itself."""
        return {**self.__dict__, "_pixels": None}


def open_matlab5(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open one array of a MATLAB 5 file; its declared size is checked before it is inflated."""
    variables = {v.name: v for v in list_variables(path)}
    cubes = {n: v.shape for n, v in variables.items() if v.dtype is not None and len(v.shape) == 3}
    name = hdf.choose_key(path, cubes) if key is None else key
    if name not in variables:
        raise SceneError(f"{path}: no array '{name}'; its 3-D arrays are {', '.join(cubes)}")
    shape, dtype = variables[name].shape, variables[name].dtype
    guards.check_shape(path, shape)
    if dtype is None:
        raise SceneError(
            f"{path}: '{name}' is a MATLAB cell, struct, text or complex array, wanted real "
            "numbers; save it as a plain array"
        )
    declared = guards.declared_bytes(shape, dtype)
    guards.check_budget(path, declared, budget, f"the MATLAB array '{name}'")
    return lazy_scene(MatSource(path, variables[name], (shape[0], shape[1], shape[2]), dtype))


def list_arrays(path: Path, budget: int) -> dict[str, tuple[int, ...]]:
    """Return the arrays of real numbers in a MATLAB file of either version, with their shapes."""
    if h5py.is_hdf5(path):
        with open_checked(path, budget) as opened:
            return {name: shape[::-1] for name, shape in opened.tree.arrays.items()}
    return {v.name: v.shape for v in list_variables(path) if v.dtype is not None}


def is_matlab73(opened: Hdf5File) -> bool:
    """Return whether an open HDF5 file comes from MATLAB: it says so in front, or is called so."""
    opened.bytes.seek(0)
    head = bytearray(6)
    opened.bytes.readinto(memoryview(head))
    return head == b"MATLAB" or opened.path.suffix.lower() == ".mat"


def open_matlab73(opened: Hdf5File, key: str | None) -> xr.DataArray:
    """Open one array of a MATLAB 7.3 file, whose HDF5 axes run the other way round."""
    arrays = {n: s[::-1] for n, s in opened.tree.cubes.items()}
    array = hdf.find(opened, hdf.choose_key(opened.path, arrays) if key is None else key)
    guards.check_shape(opened.path, array.shape)
    # MATLAB stores columns first: (rows, columns, bands) lies as (bands, columns, rows).
    source = hdf.plain_cube(opened, array, (2, 1, 0))
    centers = small(opened, "wavelength")
    if centers is None or centers.size != source.shape[2] or not cf.are_wavelengths(centers):
        return lazy_scene(source)
    return lazy_scene(source, wavelength=to_nm(np.ravel(centers), None))
