"""A scene that is read window by window, and how it gets its coordinates.

A format supplies a `PixelSource`: shape, element type and a `read` of one window. `lazy_scene`
wraps it as an ``xarray.DataArray`` with dims ``(y, x, band)`` whose pixels stay on disk until read.
Sources hold paths and numbers only, never open files: they can be pickled, sent to a worker and
read from several threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from affine import Affine
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from polyad.errors import InputError, SceneError, told_as
from polyad.scene.raster import guards
from polyad.scene.raster.bands import FLAGGED, keep_bands
from polyad.scene.raster.wavelengths import known_factor, to_nm

Array = NDArray[Any]


class PixelSource(Protocol):
    """Where the pixels of a scene lie."""

    @property
    def path(self) -> Path | str:
        """The file, or an address, for error messages."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""

    @property
    def dtype(self) -> np.dtype:
        """Element type of what `read` returns."""

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``; the slices have start, stop, step 1."""


class WindowedArray(BackendArray):
    """What xarray indexes; turns its keys into windows for a `PixelSource`.

    Parameters
    ----------
    source : PixelSource
        Where the pixels lie.
    """

    def __init__(self, source: PixelSource) -> None:
        self.source = source
        self.shape = source.shape
        # Native byte order and at most doubles: torch refuses the others.
        long = source.dtype.kind == "f" and source.dtype.itemsize > 8
        self.dtype = np.dtype(np.float64) if long else source.dtype.newbyteorder("=")

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Array:
        result: Array = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._outer
        )
        return result

    def _outer(self, key: tuple[Any, ...]) -> Array:
        """Return ``array[np.ix_(*key)]``, with integer keys dropping their axis."""
        positions = [
            np.arange(n)[k if isinstance(k, slice) else np.atleast_1d(k)]
            for n, k in zip(self.shape, key, strict=True)
        ]
        rows, cols, bands = positions
        if not all(len(p) for p in positions):
            block = np.empty([len(p) for p in positions], self.dtype)
        elif consecutive(rows) and consecutive(cols):  # a plain window: no copy
            block = self._read(hull(rows)[0], hull(cols)[0], bands)
        else:
            block = self._gather(rows, cols, bands)
        dropped = tuple(0 if isinstance(k, (int, np.integer)) else slice(None) for k in key)
        with np.errstate(over="ignore"):  # a long double beyond a double is infinite: no data
            return block.astype(self.dtype, copy=False)[dropped]

    def _gather(
        self, rows: NDArray[np.intp], cols: NDArray[np.intp], bands: NDArray[np.intp]
    ) -> Array:
        out = np.empty([len(rows), len(cols), len(bands)], self.dtype)
        span, inside = hull(cols)
        for where, run in _runs(rows):
            window = self._read(run, span, bands)  # (run, span, bands)
            with np.errstate(over="ignore"):  # as above
                out[where] = window[np.ix_(rows[where] - run.start, inside)]
        return out

    def _read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        with told_as(
            SceneError,
            f"{self.source.path}: rows {rows.start} to {rows.stop - 1} cannot be read",
            "the file is damaged or has changed since it was opened",
        ):
            return self.source.read(rows, cols, bands)


def consecutive(positions: NDArray[np.intp]) -> bool:
    """Return whether each position follows the one before it."""
    return bool(np.all(np.diff(positions) == 1))


def _runs(rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], slice]]:
    """Yield, for each run of neighboring rows, where its rows stand in ``rows`` and the slice.

    Scattered pixels are read run by run: their common window could be the whole scene.
    """
    order = np.argsort(rows, kind="stable")
    breaks = np.flatnonzero(np.diff(rows[order]) > 1) + 1
    for where in np.split(order, breaks):
        yield where, slice(int(rows[where[0]]), int(rows[where[-1]]) + 1)


def hull(positions: NDArray[np.intp]) -> tuple[slice, NDArray[np.intp]]:
    """Return the smallest slice over ``positions`` and where they stand inside it.

    Examples
    --------
    >>> hull(np.array([5, 3]))
    (slice(3, 6, None), array([2, 0]))
    """
    start = int(positions.min())
    return slice(start, int(positions.max()) + 1), positions - start


def pick(window: Array, bands: NDArray[np.intp]) -> Array:
    """Return the ``bands`` of a window, shape ``(rows, cols, bands)``; all of them cost nothing."""
    if len(bands) == window.shape[2] and consecutive(bands):
        return window
    return window[..., bands]


def lazy_scene(source: PixelSource, **description: Any) -> xr.DataArray:
    """Return ``source`` as a scene that reads windows on demand; see `describe`."""
    guards.check_extent(source.path, source.shape)
    if description.get("transform") is not None:
        guards.check_place(source.path, description["transform"])
    lazy = indexing.LazilyIndexedArray(WindowedArray(source))
    scene = xr.DataArray(xr.Variable(("y", "x", "band"), lazy))
    scene.encoding["source"] = str(source.path)
    return describe(scene, **description)


def describe(
    scene: xr.DataArray,
    *,
    wavelength: NDArray[np.float64] | None = None,
    fwhm: NDArray[np.float64] | None = None,
    good: NDArray[np.bool_] | None = None,
    number: NDArray[np.intp] | None = None,
    crs: Any = None,
    transform: Affine | None = None,
    nodata: float | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.DataArray:
    """Return ``scene`` with its coordinates, in rioxarray's convention.

    Parameters
    ----------
    scene : DataArray, dims (y, x, band)
        The pixels.
    wavelength, fwhm : array of shape (bands,), optional
        Center and width of each band in nanometers.
    good : bool array of shape (bands,), optional
        Which bands hold a measurement; the others are left out, with a note. Flags that call no
        band good say nothing.
    number : int array of shape (bands,), optional
        Place of each band in its file, counted from 1, where they were put in another order.
    crs : anything rioxarray takes, optional
        Coordinate reference system.
    transform : Affine, optional
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    nodata : float, optional
        Value that stands for "no measurement"; left out when ``scene`` cannot hold it.
    attrs : mapping, optional
        Further attributes.
    """
    told = {"wavelength": wavelength, "fwhm": fwhm}
    bands = {k: None if v is None else np.where(np.isfinite(v), v, np.nan) for k, v in told.items()}
    scene = scene.assign_coords(
        {k: ("band", v, {"units": "nm"}) for k, v in bands.items() if v is not None}
    ).assign_attrs(attrs or {})
    if number is not None and (np.diff(number) != 1).any():
        scene = scene.assign_coords(number=("band", number))
    if good is not None and good.any():
        scene = keep_bands(scene, good, FLAGGED)
    if transform is not None:
        scene = _georeference(scene, transform)
    if crs is not None:
        scene = scene.rio.write_crs(crs)
    value = representable(nodata, scene.dtype)
    return scene if value is None else scene.assign_attrs(_FillValue=value)


def _georeference(scene: xr.DataArray, transform: Affine) -> xr.DataArray:
    guards.check_place("the georeference", transform)
    # A rotated grid has no coordinates per row and column: it is described by its transform alone.
    if transform.b == 0 and transform.d == 0:
        rows, cols = (np.arange(scene.sizes[d]) + 0.5 for d in ("y", "x"))  # pixel centers
        scene = scene.assign_coords(
            y=transform.f + transform.e * rows, x=transform.c + transform.a * cols
        )
    georeferenced: xr.DataArray = scene.rio.write_transform(transform)
    return georeferenced


def representable(value: float | None, dtype: np.dtype) -> Any:
    """Return ``value`` as an element of ``dtype``, or None if no element can equal it.

    Examples
    --------
    >>> int(representable(-9999, np.dtype("int16")))
    -9999
    >>> representable(-9999, np.dtype("uint16")) is None
    True
    """
    if value is None:
        return None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            element = dtype.type(value)
        return None if np.isfinite(value) and not np.isfinite(element) else element
    if dtype.kind not in "iu" or not np.isfinite(value) or value != int(value):
        return None
    limits = np.iinfo(dtype)
    return dtype.type(int(value)) if limits.min <= value <= limits.max else None


# Scenes and label rasters as users bring them, with their dimensions put in order.
#
# A scene of `polyad.scene.open_scene` has dims ``(y, x, band)``. One of rioxarray has
# ``(band, y, x)``, one of a climate archive ``(time, wavelength, latitude, longitude)``. Every public
# function passes its scene through `as_scene` and its labels through `as_labels`, so that all orders
# and the usual names give the same result, and what cannot be understood is refused in one sentence.


# Names of the three axes met in products and in files that people write themselves.
AXES = {
    "y": {"y", "lat", "latitude", "northing", "row", "rows", "line", "lines", "downtrack"},
    "x": {"x", "lon", "longitude", "easting", "col", "cols", "column", "columns", "sample",
          "samples", "crosstrack"},
    "band": {"band", "bands", "wavelength", "wavelengths", "wl", "lambda", "channel", "channels",
             "spectral", "number_of_bands"},
}  # fmt: skip
WAVELENGTHS = ("wavelength", "wavelengths", "wl", "lambda", "center_wavelength")
DEGREES = {"lat", "latitude", "lon", "longitude"}
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
    """Pixels of a lazy array whose axes are in another order; see `polyad.scene.raster.scene`.

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
