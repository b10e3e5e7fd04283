"""Scenes and label rasters as users bring them, with their dimensions put in order.

A scene of `polyad.scene.open_scene` has dims ``(y, x, band)``. One of rioxarray has
``(band, y, x)``, one of a climate archive ``(time, wavelength, latitude, longitude)``. Every public
function passes its scene through `as_scene` and its labels through `as_labels`, so that all orders
and the usual names give the same result, and what cannot be understood is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from numpy.typing import NDArray
from xarray.core import indexing

from polyad.errors import InputError
from polyad.scene.raster.lazy import WindowedArray
from polyad.scene.raster.sources import (
    AXES,
    DEGREES,
    WAVELENGTHS,
    Array,
    consecutive,
    representable,
)
from polyad.scene.raster.wavelengths import known_factor, to_nm

SCENE_DIMS = ("y", "x", "band")
LABEL_DIMS = ("y", "x")
_GRID_MAPPING = "spatial_ref"  # rioxarray's own name, under which a map carries it too


def as_scene(scene: Any) -> xr.DataArray:
    """Return a scene with dims ``(y, x, band)``; no pixel is read.

    Parameters
    ----------
    scene : DataArray, or Dataset of one scene
        Its dimensions may come in any order and under the usual names: ``lat``, ``latitude``,
        ``row`` and the like for y, ``lon``, ``longitude``, ``col`` for x, ``wavelength``,
        ``bands``, ``spectral`` for band. Further dimensions of length 1 are dropped.

    Returns
    -------
    DataArray, dims ``(y, x, band)``
        The same object if there is nothing to do. A lazy scene stays lazy; coordinates,
        georeference and nodata value are kept. Wavelengths, also those that were the coordinate of
        the band dimension, are the coordinate ``wavelength`` in nm.

    Raises
    ------
    InputError
        If it is no such object, as a bare array, whose axes have no names, is none.

    Examples
    --------
    >>> cube = xr.DataArray(np.zeros((3, 4, 5)), dims=("wavelength", "lat", "lon"))
    >>> as_scene(cube).sizes
    Frozen({'y': 4, 'x': 5, 'band': 3})
    """
    scene = _one_array(scene, SCENE_DIMS, "scene")
    if scene.dims != SCENE_DIMS:
        scene = _ordered(scene, _named(scene, SCENE_DIMS, "scene"), SCENE_DIMS)
    return _with_wavelength(_with_spatial_ref(scene))


def as_labels(labels: Any) -> xr.DataArray:
    """Return a label raster or class map with dims ``(y, x)``; no pixel is read.

    Parameters
    ----------
    labels : DataArray, or Dataset of one label raster
        As in `as_scene`; a band dimension of length 1, as rioxarray opens a raster, is dropped.

    Returns
    -------
    DataArray, dims ``(y, x)``
        The same object if there is nothing to do.

    Examples
    --------
    >>> as_labels(xr.DataArray(np.ones((1, 4, 5), int), dims=("band", "y", "x"))).sizes
    Frozen({'y': 4, 'x': 5})
    """
    labels = _one_array(labels, LABEL_DIMS, "label raster")
    if labels.dims != LABEL_DIMS:
        labels = _ordered(labels, _named(labels, LABEL_DIMS, "label raster"), LABEL_DIMS)
    return _with_spatial_ref(labels)


def label_values(labels: Any) -> Array:
    """Return class ids ``(rows, columns)`` of a bare array, or of a DataArray put in order.

    Examples
    --------
    >>> label_values(xr.DataArray(np.ones((5, 4), int), dims=("x", "y"))).shape
    (4, 5)
    """
    named = isinstance(labels, xr.DataArray | xr.Dataset)
    return np.asarray(as_labels(labels) if named else labels)


def _one_array(given: Any, dims: tuple[str, ...], what: str) -> xr.DataArray:
    """Return the array itself, or the only one of a Dataset that has the wanted dimensions."""
    if isinstance(given, xr.DataArray):
        return given
    if isinstance(given, xr.Dataset):
        return _only_variable(given, dims, what)
    if isinstance(given, str | PathLike):
        opener = "open_scene" if dims == SCENE_DIMS else "open_labels"
        raise InputError(
            f"wanted a {what} as a DataArray, got the path {str(given)!r}; open it first with "
            f"{opener}({str(given)!r})"
        )
    shape = getattr(given, "shape", None)
    got = type(given).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")
    remedy = (
        "scene_from_array(values), values as (rows, columns, bands)"
        if dims == SCENE_DIMS
        else 'xarray.DataArray(values, dims=("y", "x"))'
    )
    raise InputError(
        f"wanted a {what} as a DataArray with dims {_shown(dims)}, got {got}, whose axes "
        f"have no names; make one of it with {remedy}"
    )


def _only_variable(dataset: xr.Dataset, dims: tuple[str, ...], what: str) -> xr.DataArray:
    arrays = dataset.data_vars
    fitting = [n for n, a in arrays.items() if all(_matching(a, role) for role in dims)]
    if len(fitting) == 1:
        array = arrays[fitting[0]]
        mapping = array.attrs.get("grid_mapping", array.encoding.get("grid_mapping"))
        if mapping in arrays:  # opened without decode_coords="all"
            array = array.assign_coords({mapping: arrays[mapping].variable})
        return array
    if fitting:
        raise InputError(
            f"wanted one {what}, got a Dataset of {len(fitting)}: {_listed(fitting)}; pass one of "
            f"them, as in dataset[{fitting[0]!r}]"
        )
    held = _listed([f"{n} {_shown(a.dims)}" for n, a in arrays.items()])
    remedy = (
        'stack bands with dataset.to_dataarray("band")' if "band" in dims else "rename its dims"
    )
    raise InputError(
        f"wanted a Dataset with one variable of dims {_shown(dims)}, got one with "
        f"{held or 'no variable'}; {remedy}, or pass a DataArray"
    )


def _matching(array: xr.DataArray, role: str) -> list[Hashable]:
    return [d for d in array.dims if str(d).lower() in AXES[role]]


def _named(array: xr.DataArray, dims: tuple[str, ...], what: str) -> dict[str, Hashable]:
    """Return which dimension is rows, which columns and which bands, or refuse."""
    axes = {}
    for role in dims:
        names = _matching(array, role)
        if len(names) != 1:
            got = f"{len(names) or 'none'} of which can be {role}"
            raise InputError(
                f"wanted a {what} with dims {_shown(dims)}, got dims {_shown(array.dims)}, "
                f"{got}; {_remedy(array, role, names, dims)}"
            )
        axes[role] = names[0]
    for dim in array.dims:
        if dim not in axes.values() and array.sizes[dim] != 1:
            raise InputError(
                f"wanted a {what} with dims {_shown(dims)}, got dims {_shown(array.dims)} with "
                f"{array.sizes[dim]} entries along {str(dim)!r}; choose one, as with "
                f".isel({dim}=0)"
            )
    return axes


def _remedy(array: xr.DataArray, role: str, names: list[Hashable], dims: tuple[str, ...]) -> str:
    if len(names) > 1:
        return f"choose along one of them, as with .isel({names[-1]}=0)"
    if role == "band" and array.ndim == len(dims) - 1:
        return 'if it has one band, add it with .expand_dims("band", -1)'
    known = {d for known in dims for d in _matching(array, known)}
    spare = next((d for d in array.dims if d not in known), "name")
    return f"rename it, as with .rename({{{str(spare)!r}: {role!r}}})"


def _ordered(
    array: xr.DataArray, names: dict[str, Hashable], dims: tuple[str, ...]
) -> xr.DataArray:
    extra = [d for d in array.dims if d not in names.values()]
    ordered = array.isel(dict.fromkeys(extra, 0), drop=True)
    for role, old in names.items():
        if role != old:
            ordered = _renamed(ordered, old, role)
    if str(names.get("band")).lower() in WAVELENGTHS and names["band"] in ordered.coords:
        ordered = _in_nm(ordered, names["band"])
    if ordered.dims != dims:
        ordered = _transposed(ordered, dims)
    return _placed(array, ordered, names)


def _renamed(array: xr.DataArray, old: Hashable, new: str) -> xr.DataArray:
    """Give a dimension its name; the coordinate of rows and columns goes with it."""
    taken = array.coords.get(new)
    if taken is not None and taken.dims != (old,):
        raise InputError(
            f"dimension {str(old)!r} cannot be called {new!r}, which is a coordinate along "
            f"{_shown(taken.dims)}; remove that one with .drop_vars({new!r})"
        )
    # Bands may stand under another name beside wavelengths: none of the two coordinates is lost.
    if taken is not None or new == "band":
        return array.swap_dims({old: new})
    return array.rename({old: new})


@dataclass(frozen=True)
class TransposedSource:
    """Pixels of a lazy array whose axes are in another order; see `polyad.scene.raster.lazy`.

    xarray transposes a lazy array by one index for each value, which takes more room than the
    values do and cannot be read by windows.
    """

    variable: xr.Variable
    path: Path

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        y, x, band = (self.variable.sizes[d] for d in SCENE_DIMS)
        return y, x, band

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        return self.variable.dtype

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        run = slice(int(bands[0]), int(bands[-1]) + 1) if consecutive(bands) else bands
        window = self.variable.isel(y=rows, x=cols, band=run)
        axes = [window.dims.index(d) for d in SCENE_DIMS]
        return np.asarray(window.values).transpose(axes)


def _transposed(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    if dims != SCENE_DIMS or array.chunks is not None or array.variable._in_memory:
        return array.transpose(*dims)
    source = TransposedSource(array.variable, Path(str(array.encoding.get("source", "scene"))))
    lazy = indexing.LazilyIndexedArray(WindowedArray(source))
    variable = xr.Variable(dims, lazy, array.attrs, array.encoding)
    return xr.DataArray(variable, coords=array.coords, name=array.name)


def _placed(before: xr.DataArray, after: xr.DataArray, names: dict[str, Hashable]) -> xr.DataArray:
    """Return ``after`` with what only the ``rio`` of ``before`` knows, and degrees as degrees."""
    degrees = {str(names[role]).lower() for role in LABEL_DIMS} <= DEGREES
    crs = before.rio.crs
    if crs is None and degrees and {"y", "x"} <= set(after.coords):
        crs = "EPSG:4326"  # as a file with such dimensions is read
    if crs is not None and after.rio.crs is None:
        after = after.rio.write_crs(crs)
    nodata = representable(before.rio.nodata, after.dtype)
    if nodata is not None and after.rio.nodata is None:
        after = after.assign_attrs(_FillValue=nodata)
    return after


def _with_spatial_ref(array: xr.DataArray) -> xr.DataArray:
    """Call the grid mapping as rioxarray does, so that a map, which has no encoding, keeps it."""
    name = array.encoding.get("grid_mapping", array.attrs.get("grid_mapping"))
    if name is None or name == _GRID_MAPPING or name not in array.coords:
        return array
    array = array.drop_vars(_GRID_MAPPING, errors="ignore").rename({name: _GRID_MAPPING})
    named: xr.DataArray = array.rio.write_grid_mapping(_GRID_MAPPING)
    return named


def _with_wavelength(scene: xr.DataArray) -> xr.DataArray:
    """Return the scene with wavelengths that stand in another unit, or under another name, in nm.

    Without a unit, ``wavelength`` is in nm as everywhere here, and is not guessed at.
    """
    coords = scene.coords.variables  # every function passes here: no arrays are made to look
    name = next((n for n in WAVELENGTHS if n in coords), None)
    if name is None or coords[name].dims != ("band",):
        return scene
    if name == "wavelength" and known_factor(_units(scene, name)) in (None, 1.0):
        return scene
    return _in_nm(scene, name)


def _in_nm(scene: xr.DataArray, name: Hashable) -> xr.DataArray:
    """Return the scene with the coordinate ``name`` as ``wavelength``, unless it merely counts."""
    values, units = scene[name], _units(scene, name)
    scene = scene.drop_vars([name])
    if values.dtype.kind not in "iuf" or not (values > 0).all():
        return scene
    return scene.assign_coords(wavelength=("band", to_nm(values.values, units), {"units": "nm"}))


def _units(scene: xr.DataArray, name: Hashable) -> str | None:
    # rioxarray puts the unit of an ENVI header beside the pixels, not beside the wavelengths.
    units = scene.coords.variables[name].attrs.get("units", scene.attrs.get("wavelength_units"))
    return None if units is None else str(units)


def _shown(dims: tuple[Hashable, ...]) -> str:
    return f"({', '.join(map(str, dims))})"


def _listed(names: list[Any]) -> str:
    shown = [str(n) for n in names[:6]] + ([f"{len(names) - 6} more"] if len(names) > 6 else [])
    return ", ".join(shown)
