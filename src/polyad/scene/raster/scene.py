"""`Scene`: what users pass as a scene, put in order once, and read window by window.

A format supplies a `PixelSource`: shape, element type and a `read` of one window. `lazy_scene`
wraps it as an ``xarray.DataArray`` with dims ``(y, x, band)`` whose pixels stay on disk until read.
Sources hold paths and numbers only, never open files: they can be pickled, sent to a worker and
read from several threads.

A scene of `polyad.scene.open_scene` has dims ``(y, x, band)``. One of rioxarray has
``(band, y, x)``, one of a climate archive ``(time, wavelength, latitude, longitude)``. `Scene.of`
takes all orders and the usual names; what it cannot understand fails with a clear error message.
"""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from affine import Affine
from numpy.typing import ArrayLike, NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from polyad.errors import InputError, SceneError, SceneMismatch, told_as, warn_user
from polyad.scene.raster import guards, sources
from polyad.scene.raster.bands import FLAGGED, Bands, keep_bands
from polyad.scene.raster.despiking import (
    HALO,
    Despiking,
    NoiseModel,
    despike,
    learn_noise,
    picked,
    undeclared_nodata,
    valid_pixels,
)
from polyad.scene.raster.grid import Grid, Tile, check_same_place, grid_of
from polyad.scene.raster.sources import Array, PixelSource, consecutive, hull, representable


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
        rows, cols, bands = (
            np.arange(n)[k if isinstance(k, slice) else np.atleast_1d(k)]
            for n, k in zip(self.shape, key, strict=True)
        )
        dropped = tuple(0 if isinstance(k, (int, np.integer)) else slice(None) for k in key)
        with np.errstate(over="ignore"):  # a long double beyond a double is infinite: no data
            if len(rows) and consecutive(rows) and len(cols) and consecutive(cols) and len(bands):
                block = self._read(hull(rows)[0], hull(cols)[0], bands)  # a plain window: no copy
                return block.astype(self.dtype, copy=False)[dropped]
            out = np.empty((len(rows), len(cols), len(bands)), self.dtype)
            if out.size:
                span, inside = hull(cols)
                for where, run in _runs(rows):
                    window = self._read(run, span, bands)  # (run, span, bands)
                    out[where] = window[np.ix_(rows[where] - run.start, inside)]
        return out[dropped]

    def _read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        with told_as(
            SceneError,
            f"{self.source.path}: rows {rows.start} to {rows.stop - 1} cannot be read",
            "the file is damaged or has changed since it was opened",
        ):
            return self.source.read(rows, cols, bands)


def _runs(rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], slice]]:
    """Yield, for each run of neighboring rows, where its rows stand in ``rows`` and the slice.

    Scattered pixels are read run by run: their common window could be the whole scene.
    """
    order = np.argsort(rows, kind="stable")
    breaks = np.flatnonzero(np.diff(rows[order]) > 1) + 1
    for where in np.split(order, breaks):
        yield where, slice(int(rows[where[0]]), int(rows[where[-1]]) + 1)


class Description(TypedDict, total=False):
    """What a file says of its scene, beside the pixels.

    Attributes
    ----------
    wavelength, fwhm : array of shape (bands,)
        Center and width of each band in nanometers.
    good : bool array of shape (bands,)
        Which bands hold a measurement; the others are left out, with a note. Flags that call no
        band good say nothing.
    number : int array of shape (bands,)
        Place of each band in its file, counted from 1, where they were put in another order.
    crs : anything rioxarray takes
        Coordinate reference system.
    transform : Affine
        From (column, row) to the map; (0, 0) is the outer corner of the first pixel.
    nodata : float
        Value that stands for "no measurement"; left out when the scene cannot hold it.
    attrs : mapping
        Further attributes.
    """

    wavelength: NDArray[np.float64] | None
    fwhm: NDArray[np.float64] | None
    good: NDArray[np.bool_] | None
    number: NDArray[np.intp] | None
    crs: Any
    transform: Affine | None
    nodata: float | None
    attrs: Mapping[str, Any] | None


def lazy_scene(source: PixelSource, **about: Unpack[Description]) -> xr.DataArray:
    """Return ``source`` as a scene that reads windows on demand; see `Description`."""
    guards.check_extent(source.path, source.shape)
    if (transform := about.get("transform")) is not None:
        guards.check_place(source.path, transform)
    lazy = indexing.LazilyIndexedArray(WindowedArray(source))
    scene = xr.DataArray(xr.Variable(SCENE_DIMS, lazy))
    scene.encoding["source"] = str(source.path)
    return describe(scene, **about)


def describe(scene: xr.DataArray, **about: Unpack[Description]) -> xr.DataArray:
    """Return ``scene`` with its coordinates, in rioxarray's convention; see `Description`."""
    told = {"wavelength": about.get("wavelength"), "fwhm": about.get("fwhm")}
    bands = {k: np.where(np.isfinite(v), v, np.nan) for k, v in told.items() if v is not None}
    scene = scene.assign_coords({k: ("band", v, {"units": "nm"}) for k, v in bands.items()})
    scene = scene.assign_attrs(about.get("attrs") or {})
    number, good, transform = about.get("number"), about.get("good"), about.get("transform")
    if number is not None and (np.diff(number) != 1).any():
        scene = scene.assign_coords(number=("band", number))
    if good is not None and good.any():
        scene = keep_bands(scene, good, FLAGGED)
    if transform is not None:
        scene = _georeference(scene, transform)
    if about.get("crs") is not None:
        scene = scene.rio.write_crs(about["crs"])
    value = representable(about.get("nodata"), scene.dtype)
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


SCENE_DIMS = ("y", "x", "band")
LABEL_DIMS = ("y", "x")
INSIDE = "inside"  # coordinate (y, x) of a masked scene
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)  # whose quantiles are taken
SAMPLE = 4096  # spectra that quantiles are taken from
KEPT = 256  # spectra that a model keeps
PLACES = 2000  # with data, to know how far the map lies from the labels
LEAST = 8  # spectra without which nothing is said
SMALL = 2**16  # pixels of a scene that is read whole
WINDOWS, SIDE = 6, 24  # of a larger one: windows along each axis, and pixels along a window
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
    return _with_wavelength(_normalized(scene, SCENE_DIMS, "scene"))


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
    return _normalized(labels, LABEL_DIMS, "label raster")


_REMEDIES = {
    "scene": "open a file with open_scene(path), make a scene of an array of rows, columns and "
    "bands with scene_from_array(values), or pass one variable of a Dataset",
    "label raster": "open a file with open_labels(path), name the axes of an array with "
    "xarray.DataArray(values, dims=('y', 'x')), or pass one variable of a Dataset",
}


def _normalized(given: Any, dims: tuple[str, ...], what: str) -> xr.DataArray:
    """Return the array itself, or the only one of a Dataset, with these dimensions in order."""
    if isinstance(given, Raster):
        return given.array
    array, got = given, type(given).__name__
    if isinstance(given, xr.Dataset):
        arrays = given.data_vars
        got += f" with {guards.listing(f'{n} {_shown(a.dims)}' for n, a in arrays.items())}"
        fitting = [a for a in arrays.values() if all(_axes(a, dims).values())]
        if len(fitting) == 1:
            array = fitting[0]
            mapping = {**array.encoding, **array.attrs}.get("grid_mapping")
            if mapping in arrays:  # opened without decode_coords="all"
                array = array.assign_coords({mapping: arrays[mapping].variable})
    elif isinstance(given, str | PathLike):
        got = f"the path {str(given)!r}"
    elif hasattr(given, "shape"):
        got += f" of shape {tuple(given.shape)}"
    if not isinstance(array, xr.DataArray):
        raise InputError(
            f"expected a {what} as a DataArray with dims {_shown(dims)}, got {got}; "
            f"{_REMEDIES[what]}"
        )
    if array.dims != dims:
        array = _ordered(array, dims, what)
    return _with_spatial_ref(array)


def _axes(array: xr.DataArray, dims: tuple[str, ...]) -> dict[str, list[Hashable]]:
    """Return which dimensions of an array may be rows, which columns and which bands."""
    return {role: [d for d in array.dims if str(d).lower() in sources.AXES[role]] for role in dims}


def _ordered(array: xr.DataArray, dims: tuple[str, ...], what: str) -> xr.DataArray:
    axes = _axes(array, dims)
    extra = [d for d in array.dims if [d] not in axes.values()]
    several = {d for found in axes.values() if len(found) > 1 for d in found}
    if not all(axes.values()) or any(array.sizes[d] > 1 or d in several for d in extra):
        raise InputError(
            f"expected a {what} with dims {_shown(dims)}, got dims {_shown(array.dims)} of lengths "
            f"{_shown(array.shape)}; name them with .rename(...), take one place of others with "
            ".isel(...), and add a missing one with .expand_dims(...)"
        )
    names = {role: found[0] for role, found in axes.items()}
    ordered = array.isel(dict.fromkeys(extra, 0), drop=True)
    for new, old in names.items():  # the coordinate of rows and columns goes with its dimension
        taken = ordered.coords.get(new) if new != old else None
        if taken is not None and taken.dims != (old,):
            ordered, taken = ordered.drop_vars(new), None
        if new != old:
            # Bands may stand under another name beside wavelengths: neither coordinate is lost
            keeps = taken is not None or new == "band"
            ordered = ordered.swap_dims({old: new}) if keeps else ordered.rename({old: new})
    if str(names.get("band")).lower() in sources.WAVELENGTHS and names["band"] in ordered.coords:
        ordered = _in_nm(ordered, names["band"])
    if ordered.dims != dims:
        ordered = _transposed(ordered, dims)
    return _placed(array, ordered, names)


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
    degrees = {str(names[role]).lower() for role in LABEL_DIMS} <= sources.DEGREES
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
    name = {**array.attrs, **array.encoding}.get("grid_mapping")
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
    name = next((n for n in sources.WAVELENGTHS if n in coords), None)
    if name is None or coords[name].dims != ("band",):
        return scene
    if name == "wavelength" and sources.known_factor(_units(scene, name)) in (None, 1.0):
        return scene
    return _in_nm(scene, name)


def _in_nm(scene: xr.DataArray, name: Hashable) -> xr.DataArray:
    """Return the scene with the coordinate ``name`` as ``wavelength``, unless it merely counts."""
    values, units = scene[name], _units(scene, name)
    scene = scene.drop_vars([name])
    if values.dtype.kind not in "iuf" or not (values > 0).all():
        return scene
    return scene.assign_coords(
        wavelength=("band", sources.to_nm(values.values, units), {"units": "nm"})
    )


def _units(scene: xr.DataArray, name: Hashable) -> str | None:
    # rioxarray puts the unit of an ENVI header beside the pixels, not beside the wavelengths.
    beside = {"units": {**scene.attrs}.get("wavelength_units")}
    units = {**beside, **scene.coords.variables[name].attrs}["units"]
    return None if units is None else str(units)


def _shown(dims: tuple[Hashable, ...]) -> str:
    return f"({', '.join(map(str, dims))})"


@dataclass(frozen=True, eq=False)
class Raster:
    """A scene, or labels, with its dimensions in order."""

    array: xr.DataArray

    @cached_property
    def grid(self) -> Grid:
        """Rows and columns, and where they lie on the map."""
        return grid_of(self.array)


@dataclass(frozen=True, eq=False)
class Scene(Raster):
    """A hyperspectral scene as the package works with it: pixels, and all that is known of them.

    Users pass and receive ``xarray.DataArray``. A public function calls `Scene.of` once, and
    everything behind it takes the `Scene`: the dimensions are in order, and grid, bands, nodata,
    mask and fingerprint are worked out once and kept. A scene is never changed; `select`, `crop`,
    `masked` and `despiked` return another one, and none of them reads a pixel. It can be pickled,
    as its array can.

    Attributes
    ----------
    array : DataArray, dims ``(y, x, band)``
        The pixels as they are stored, as a rule lazily. `read` is how they are read.
    despiking : Despiking or None
        By what `read` replaces corrupt pixels, and which it replaced; None if it does not.

    Examples
    --------
    >>> cube = xr.DataArray(np.arange(24).reshape(2, 3, 4), dims=("band", "lat", "lon"))
    >>> scene = Scene.of(cube)
    >>> scene.shape, scene.bands.count, scene.nodata
    ((3, 4, 2), 2, None)
    >>> scene.read(slice(0, 1), slice(0, 2)).tolist()
    [[[0, 12], [1, 13]]]
    >>> masked = scene.masked(np.eye(3, 4, dtype=bool))
    >>> masked.read(slice(0, 1), slice(0, 2)).tolist()  # outside the mask there is no data
    [[[0.0, 12.0], [nan, nan]]]
    """

    despiking: Despiking | None = None

    @classmethod
    def of(cls, scene: xr.DataArray | xr.Dataset | Scene) -> Scene:
        """Return what a user passed as a scene, see `as_scene`; a `Scene` is returned as it is."""
        return scene if isinstance(scene, Scene) else cls(as_scene(scene))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        rows, cols, bands = self.array.shape
        return rows, cols, bands

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type as stored; `pixel_dtype` is that of `read`."""
        return np.dtype(self.array.dtype)

    @cached_property
    def nodata(self) -> float | None:
        """Value that stands for "no measurement", None if there is none beside NaN."""
        value: float | None = self.array.rio.nodata
        return value

    @cached_property
    def bands(self) -> Bands:
        """Wavelengths, widths and numbers of the bands, and what was left out."""
        return Bands.of(self.array)

    @cached_property
    def inside(self) -> NDArray[np.bool_] | None:
        """Where the scene is looked at, ``(rows, columns)``; None if there is no mask."""
        return np.asarray(self.array[INSIDE].values) if INSIDE in self.array.coords else None

    @property
    def source(self) -> str | None:
        """The file that the scene was opened from, which no output may replace."""
        source = self.array.encoding.get("source")
        return None if source is None else str(source)

    @property
    def packed_mask(self) -> bytes | None:
        """The mask in few bytes; None if there is none. `unpack_mask` is the way back."""
        return None if self.inside is None else zlib.compress(np.packbits(self.inside).tobytes())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the scene's size and of a few of its pixels and bands, all over it.

        It is that of the stored pixels, whatever the mask.
        """
        height, width, count = self.shape
        digest = hashlib.sha256(str((height, width, count)).encode())
        bands = np.unique(np.linspace(0, count - 1, 8).astype(int))
        # The corners are left out: they often hold no data
        for y, x in ((1, 3), (3, 7), (4, 4), (5, 1), (7, 5)):
            rows, cols = (slice(n * k // 8, n * k // 8 + 2) for n, k in ((height, y), (width, x)))
            pixels = self.array.isel(y=rows, x=cols, band=bands).values
            with np.errstate(over="ignore", invalid="ignore"):  # of what is no data
                digest.update(np.ascontiguousarray(pixels, dtype=np.float32).tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def radiometry(self) -> RadiometricSample | None:
        """What a sample of the pixels tells of illumination and noise; None of too few with data.

        It is taken when it is first asked for, from the stored pixels inside the mask.
        """
        spectra, places = sample_pixels(self)
        if len(spectra) < LEAST:
            return None
        quantiles = picked(spectra.astype(np.float64), SHARES)
        return RadiometricSample(quantiles, evenly(spectra, KEPT), places, learn_noise(spectra))

    @cached_property
    def fill(self) -> float:
        """What `read` gives outside the mask: the nodata value, or NaN where none can be stored."""
        value = None if self.nodata is None else representable(self.nodata, self.dtype)
        return np.nan if value is None else value

    @cached_property
    def pixel_dtype(self) -> np.dtype[Any]:
        """Element type of what `read` returns: of a masked scene one that holds `fill`."""
        if self.inside is None or self.dtype.kind == "f" or not np.isnan(self.fill):
            return self.dtype
        return np.dtype(np.float32 if self.dtype.itemsize <= 2 else np.float64)

    def read(self, rows: slice, cols: slice) -> Array:
        """Read pixels for learning or mapping, ``(h, w, bands)``.

        Outside the mask they are `fill`, and what lies outside as a whole is not read. Of a
        `despiked` scene corrupt pixels are replaced by their neighbors, whatever the window.
        """
        if self.despiking is None:
            return self.read_stored(rows, cols)
        shape = self.shape[:2]
        tile = Tile(*(slice(*s.indices(n)[:2]) for s, n in zip((rows, cols), shape, strict=True)))
        wide = tile.grown(HALO, shape)
        pixels, replaced = despike(self.read_stored(*wide), self.nodata, self.despiking.noise)
        self.despiking.note(*tile, replaced[tile.within(wide)])
        return pixels[tile.within(wide)]

    def read_stored(self, rows: slice, cols: slice) -> Array:
        """Read pixels as they are stored, ``(h, w, bands)``, with `fill` outside the mask."""
        window = self.array.isel(y=rows, x=cols)
        if self.inside is None:
            return self._noted(np.asarray(window.values))
        inside = self.inside[rows, cols]
        if inside.all():
            return np.asarray(window.values).astype(self.pixel_dtype, copy=False)
        pixels = np.full(window.shape, self.fill, self.pixel_dtype)
        if inside.any():  # of a large window with a small part inside, that part is read
            part = extent(inside)
            within = inside[part][..., None]
            stored = window.isel(y=part[0], x=part[1]).values
            np.copyto(pixels[part], stored, "same_kind", where=within)
        return self._noted(pixels)

    def _noted(self, pixels: Array) -> Array:
        """Warn once if a value in all bands of some pixels looks like undeclared nodata."""
        value = undeclared_nodata(pixels, (self.nodata, self.fill, *self._told))
        if value is not None:
            self._told.append(value)
            warn_user(
                f"pixels of the scene have {value:g} in every band, far from all other values; if "
                f"that stands for no data, declare it with --nodata {value:g} (in Python, "
                f"open_scene(..., nodata={value:g}))"
            )
        return pixels

    @cached_property
    def _told(self) -> list[float]:
        """Values that were warned of."""
        return []

    def select(self, bands: ArrayLike) -> Scene:
        """Return the scene with the bands at these positions, in this order.

        It is not despiked: what is known of the noise is known of all bands.
        """
        return Scene(self.array.isel(band=np.asarray(bands)))

    def crop(self, rows: slice, cols: slice) -> Scene:
        """Return a rectangle of the scene, which counts its own despiked pixels."""
        cut = Scene(self.array.isel(y=rows, x=cols))
        return cut if self.despiking is None else cut.despiked(self.despiking.noise)

    def crop_to_mask(self) -> Scene:
        """Return the smallest rectangle that holds all pixels of the mask."""
        return self if self.inside is None else self.crop(*extent(self.inside))

    def masked(self, mask: xr.DataArray | xr.Dataset | ArrayLike) -> Scene:
        """Return the scene with only the pixels in ``mask``; see `polyad.scene.mask_scene`."""
        if isinstance(mask, xr.DataArray | xr.Dataset):
            mask = as_labels(mask)
            check_same_place(self.grid, grid_of(mask))
        values = np.asarray(mask)
        if values.shape != self.shape[:2] or values.dtype.kind not in "biuf":
            raise SceneMismatch(
                f"a mask must have the scene's {self.shape[0]} rows and {self.shape[1]} columns, "
                f"got shape {values.shape} of {values.dtype}; resample it to the scene's grid"
            )
        inside = (values != 0) & ~np.isnan(values) if values.dtype.kind == "f" else values != 0
        if self.inside is not None:
            inside = inside & self.inside
        if not inside.any():
            raise SceneMismatch(
                "no pixel of the scene lies inside the mask; choose one that overlaps the scene"
            )
        masked = self.array.assign_coords({INSIDE: (("y", "x"), inside)})
        return Scene(masked, self.despiking)

    def unpack_mask(self, mask: bytes | None) -> Scene:
        """Return the scene with the mask that `packed_mask` gave."""
        if mask is None:
            return self
        height, width = self.shape[:2]
        bits = np.unpackbits(np.frombuffer(zlib.decompress(mask), np.uint8), count=height * width)
        return self.masked(bits.reshape(height, width))

    def despiked(self, noise: NoiseModel | None) -> Scene:
        """Return the scene whose corrupt pixels `read` replaces; None replaces none.

        Asked for the noise model that it has, it returns itself, so that one record counts.
        """
        wanted = None if noise is None or noise.bands != self.shape[2] else noise
        if wanted is (None if self.despiking is None else self.despiking.noise):
            return self
        other = copy.copy(self)  # with all that is known of the stored pixels
        vars(other)["despiking"] = None if wanted is None else Despiking(wanted, self.shape[:2])
        return other

    @property
    def map_coords(self) -> dict[Hashable, xr.DataArray]:
        """The coordinates that a map takes over from its scene."""
        coords = self.array.coords.items()
        return {k: v for k, v in coords if set(v.dims) <= {"y", "x"} and k != INSIDE}


@dataclass(frozen=True)
class RadiometricSample:
    """What a sample of a scene tells of its illumination and its noise.

    Attributes
    ----------
    quantiles : ndarray of float64, ``(7, bands)``
        Of every band, for the shares in `SHARES`.
    spectra : ndarray of float32, ``(n, bands)``
        At most `KEPT` pixels, spread over the scene.
    places : ndarray of int, ``(m, 2)``
        Row and column of some pixels with data, all over the scene.
    noise : NoiseModel or None
    """

    quantiles: Array
    spectra: Array
    places: Array
    noise: NoiseModel | None = None


def sample_pixels(scene: Scene, most: int = SAMPLE) -> tuple[Array, Array]:
    """Return spectra ``(n, bands)`` with data spread evenly over the scene, and places with data.

    A small scene is read whole, of a larger one 36 windows are; where there is a mask, inside it.
    The same places are taken of every scene of one size. There are at most ``most`` spectra, and
    about `PLACES` rows and columns ``(m, 2)``.
    """
    corner = (0, 0) if scene.inside is None else [s.start for s in extent(scene.inside)]
    scene = scene.crop_to_mask()
    height, width = scene.shape[:2]
    if height * width <= SMALL:
        windows = [(slice(0, height), slice(0, width))]
    else:
        starts = (
            np.unique(np.linspace(0, max(n - SIDE, 0), WINDOWS).astype(int)).tolist()
            for n in (height, width)
        )
        rows, cols = ([slice(s, s + SIDE) for s in along] for along in starts)
        windows = [(r, c) for r in rows for c in cols]
    parts, places = [], []
    for r, c in windows:
        pixels = scene.read_stored(r, c)
        valid = valid_pixels(pixels, scene.nodata)
        parts.append(pixels[valid])
        places.append(np.argwhere(valid) + np.add(corner, (r.start, c.start)))
    found = np.concatenate(places)
    found = found[:: max(len(found) // PLACES, 1)]
    return evenly(np.concatenate(parts), most).astype(np.float32), found


def evenly(rows: Array, most: int) -> Array:
    """Return at most so many rows, evenly spaced."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def extent(inside: NDArray[np.bool_]) -> tuple[slice, slice]:
    """Return the rows and columns of the smallest rectangle that holds all that is True.

    Examples
    --------
    >>> extent(np.array([[False, False, False], [False, True, False]]))
    (slice(1, 2, None), slice(1, 2, None))
    """
    rows, cols = (hull(np.flatnonzero(inside.any(axis=1 - axis)))[0] for axis in (0, 1))
    return rows, cols
