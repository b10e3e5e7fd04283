"""MATLAB files: version 5 (read whole) and version 7.3 (HDF5, read by windows)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import xarray as xr
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.formats import guards, hdf
from polyad.scene.formats.lazy import Array, lazy_scene
from polyad.scene.formats.mat5 import list_variables
from polyad.scene.formats.spectral import to_nm

_DAMAGED = (
    OSError, ValueError, TypeError, KeyError, EOFError, NotImplementedError, MemoryError,
    OverflowError, struct.error, zlib.error, IndexError,
    scipy.io.matlab.MatReadError,
)  # fmt: skip


def _damaged(path: Path, error: BaseException) -> SceneError:
    return SceneError(
        f"{path}: wanted a MATLAB file, it cannot be read as one ({error!r}); it is "
        "truncated, damaged or of another kind, copy it again"
    )


@dataclass
class MatSource:
    """One array of a version 5 file; the format is one stream, so it is read whole, once."""

    path: Path
    key: str
    shape: tuple[int, int, int]
    dtype: np.dtype
    _pixels: Array | None = field(default=None, repr=False, compare=False)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        if self._pixels is None:
            try:
                loaded = scipy.io.loadmat(self.path, variable_names=[self.key])[self.key]
            except _DAMAGED as error:
                raise _damaged(self.path, error) from error
            if loaded.shape != self.shape or loaded.dtype.kind not in "biuf":
                raise SceneError(
                    f"{self.path}: '{self.key}' was declared as {self.dtype} {self.shape}, got "
                    f"{loaded.dtype} {loaded.shape}; the file is damaged, copy it again"
                )
            self._pixels = loaded.astype(self.dtype, copy=False)
        # A copy, so that nobody can write into the cached pixels.
        return np.array(self._pixels[rows, cols][..., bands])

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
    return lazy_scene(MatSource(path, name, (shape[0], shape[1], shape[2]), dtype))


def open_matlab73(path: Path, key: str | None, budget: int) -> xr.DataArray:
    """Open one array of a MATLAB 7.3 file, whose HDF5 axes run the other way round."""
    guards.existing_file(path)
    with hdf.open_checked(path) as file:
        # "#refs#" and "#subsystem#" hold the insides of cells and objects.
        arrays = {n: s[::-1] for n, s in hdf.cubes(file).items() if not n.startswith("#")}
        name = hdf.choose_key(path, arrays) if key is None else key
        found = hdf.dataset(path, file, name)
        guards.check_shape(path, found.shape)
        hdf.check_dataset(path, found, budget)
        # MATLAB stores columns first: (rows, columns, bands) lies as (bands, columns, rows).
        source = hdf.plain_cube(path, found, (2, 1, 0))
        centres = hdf.small(path, file, "wavelength")
        if centres is None or centres.size != source.shape[2]:
            return lazy_scene(source)
        return lazy_scene(source, wavelength=to_nm(np.ravel(centres), None))
