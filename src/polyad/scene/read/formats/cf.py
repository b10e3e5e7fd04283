"""Which axis is which, wavelengths and georeference of a NetCDF-like cube (HDF5 or Zarr).

The conventions are those of CF and of rioxarray: dimension names, ``grid_mapping``, coordinates at
pixel centers, ``_FillValue``, ``scale_factor`` and ``add_offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.scene.raster.sources import (
    AXES,
    DEGREES,
    WAVELENGTHS,
    Array,
    hull,
    known_factor,
    nm_factor,
    pick,
    to_nm,
)
from polyad.scene.read.formats.crs import parse_crs
from polyad.scene.read.formats.opening import Opened

# All that is read of the attributes of an array and of the variables beside it.
ATTRIBUTES = (
    "_FillValue", "missing_value", "scale_factor", "add_offset", "grid_mapping", "units", "crs_wkt",
    "spatial_ref", "GeoTransform",
)  # fmt: skip
_GRID_MAPPINGS = ("spatial_ref", "crs", "transverse_mercator")
_EVEN = 1e-3  # share of a pixel by which spacings may differ; float32 coordinates need this much

Neighbors = Callable[[str], tuple[Array, Mapping[str, Any]] | None]


@dataclass(frozen=True)
class Node:
    """An array in a file, before its axes are known."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    attrs: Mapping[str, Any]
    dims: tuple[str, ...]


@dataclass(frozen=True)
class CubeSource:
    """A 3-D array on disk with its axes put in the order (rows, columns, bands).

    Parameters
    ----------
    path : Path
        The file.
    box : callable
        From three slices, axes as in the file, to the values there.
    file_shape : tuple of int
        Shape as in the file.
    stored : dtype
        Element type as in the file.
    axes : tuple of int
        Which axis of the file holds rows, columns and bands.
    scale, offset : float
        Value = scale * stored + offset (CF packing); 1 and 0 leave the stored type alone.
    fill : float, optional
        Stored value for "no measurement", turned into NaN when the values are unpacked.
    """

    path: Path
    box: Callable[[tuple[slice, slice, slice]], Array]
    file_shape: tuple[int, ...]
    stored: np.dtype
    axes: tuple[int, int, int]
    scale: float = 1.0
    offset: float = 0.0
    fill: float | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        y, x, band = (int(self.file_shape[a]) for a in self.axes)
        return y, x, band

    @property
    def packed(self) -> bool:
        """Whether the stored values must be scaled."""
        return (self.scale, self.offset) != (1.0, 0.0)

    @property
    def dtype(self) -> np.dtype:
        """Element type of the scene."""
        return np.dtype(np.float32) if self.packed else self.stored

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        span, inside = hull(bands)
        wanted = dict(zip(self.axes, (rows, cols, span), strict=True))
        values = self.box((wanted[0], wanted[1], wanted[2])).transpose(self.axes)
        values = pick(values, inside)
        if not self.packed:
            return values
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 there is no data
            real = values.astype(np.float32) * np.float32(self.scale) + np.float32(self.offset)
        if self.fill is not None:
            real[values == self.fill] = np.nan
        return real


@dataclass(frozen=True)
class KeptAxes:
    """Reads a box along three axes of an array whose other axes, such as time, have length 1.

    Parameters
    ----------
    box : callable
        From slices along all axes to the values there.
    kept : tuple of int
        The three axes.
    n : int
        How many axes there are.
    """

    box: Callable[[tuple[slice, ...]], Array]
    kept: tuple[int, ...]
    n: int

    def __call__(self, box: tuple[slice, ...]) -> Array:
        """Return the values of ``box`` along the three axes."""
        asked = dict(zip(self.kept, box, strict=True))
        values = self.box(tuple(asked.get(axis, slice(0, 1)) for axis in range(self.n)))
        return values.reshape([values.shape[axis] for axis in self.kept])


def is_cube(shape: tuple[int, ...]) -> bool:
    """Return whether an array has three axes, or more of which all but three have length 1.

    Examples
    --------
    >>> is_cube((5, 4, 3)), is_cube((1, 5, 4, 3)), is_cube((2, 5, 4, 3))
    (True, True, False)
    """
    return len(shape) == 3 or (len(shape) > 3 and sum(n != 1 for n in shape) <= 3)


def three_axes(node: Node) -> tuple[Node, tuple[int, ...]]:
    """Return ``node`` along three axes only, and which of its axes these are.

    Axes of length 1 are dropped from the front, those first whose names are of no row, column or
    band.
    """
    surplus = len(node.shape) - 3
    if surplus <= 0 or not is_cube(node.shape):
        return node, tuple(range(len(node.shape)))
    known = set().union(*AXES.values())
    dims = node.dims or ("",) * len(node.shape)
    single = [axis for axis, n in enumerate(node.shape) if n == 1]
    dropped = set(sorted(single, key=lambda axis: dims[axis].lower() in known)[:surplus])
    kept = tuple(axis for axis in range(len(node.shape)) if axis not in dropped)
    shape, names = tuple(node.shape[a] for a in kept), tuple(dims[a] for a in kept)
    return replace(node, shape=shape, dims=names), kept


def open_cube(node: Node, look: Neighbors, box: Callable[[tuple[slice, ...]], Array]) -> Opened:
    """Return the scene of ``node``; ``look`` finds variables beside it, ``box`` reads it."""
    axes = find_axes(node, look)
    fill = number(node.attrs, "_FillValue", "missing_value")
    scale = number(node.attrs, "scale_factor")
    offset = number(node.attrs, "add_offset") or 0.0
    scale = 1.0 if scale is None else scale
    source = CubeSource(node.path, box, node.shape, node.dtype, axes, scale, offset, fill)
    wavelength, units = _wavelength(node, axes[2], look)
    return Opened.of(
        source,
        wavelength=None if wavelength is None else to_nm(wavelength, units),
        fwhm=None if wavelength is None else _widths(node, axes[2], look, wavelength, units),
        nodata=np.nan if source.packed and fill is not None else fill,
        **georeference(node, axes, look),
    )


def find_axes(node: Node, look: Neighbors) -> tuple[int, int, int]:
    """Return which axes hold rows, columns and bands.

    By dimension names; failing these, the band axis is the one as long as the wavelengths;
    failing that too, the order is taken to be (rows, columns, bands).
    """
    lower = [d.lower() for d in node.dims]
    places = {role: [i for i, d in enumerate(lower) if d in names] for role, names in AXES.items()}
    if all(len(axes) == 1 for axes in places.values()):
        return places["y"][0], places["x"][0], places["band"][0]
    centers = next((v for v in map(look, WAVELENGTHS) if v is not None), None)
    as_long = [i for i, n in enumerate(node.shape) if centers is not None and n == centers[0].size]
    candidates = places["band"] if len(places["band"]) == 1 else as_long
    band = candidates[0] if len(candidates) == 1 else 2
    y, x = (i for i in range(3) if i != band)
    return y, x, band


def text(value: Any) -> str:
    """Return an attribute as text: HDF5 gives bytes, arrays of one, or str."""
    first = np.ravel(np.asarray(value, dtype=object))
    item = first[0] if first.size else ""
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def number(attrs: Mapping[str, Any], *names: str) -> float | None:
    """Return the first number of the first attribute that has any."""
    for name in names:
        value = np.ravel(attrs[name]) if name in attrs else np.empty(0)
        if value.size and value.dtype.kind in "biuf":
            return float(value[0])
    return None


def _wavelength(
    node: Node, band: int, look: Neighbors
) -> tuple[NDArray[np.float64] | None, str | None]:
    dim = node.dims[band].lower() if node.dims else ""
    names = ([node.dims[band]] if dim in WAVELENGTHS else []) + list(WAVELENGTHS)
    for name in names:
        variable = look(name)
        # A NetCDF dimension without values still has a variable of its name, full of zeros.
        if (
            variable is not None
            and variable[0].shape == (node.shape[band],)
            and are_wavelengths(variable[0])
        ):
            units = variable[1].get("units")
            return variable[0].astype(np.float64), None if units is None else text(units)
    return None, None


def _widths(
    node: Node,
    band: int,
    look: Neighbors,
    wavelength: NDArray[np.float64],
    units: str | None,
) -> NDArray[np.float64] | None:
    """Return the widths of the bands in nm, None unless each band has one."""
    variable = look("fwhm")
    if (
        variable is None
        or variable[0].shape != (node.shape[band],)
        or not are_wavelengths(variable[0])
    ):
        return None
    # Widths share the unit of the centers, also where that had to be guessed, unless they say one.
    own = known_factor(text(variable[1].get("units", "")))
    factor = nm_factor(wavelength, units) if own is None else own
    return np.round(variable[0].astype(np.float64) * factor, 6)


def are_wavelengths(values: Array) -> bool:
    """Return whether all values are finite numbers above zero, as wavelengths are."""
    return values.dtype.kind in "iuf" and bool(np.all((values > 0) & (values < np.inf)))


def georeference(node: Node, axes: tuple[int, ...], look: Neighbors) -> dict[str, Any]:
    """Return ``crs`` and ``transform`` as far as the file tells; ``axes`` begins with y and x."""
    names = [node.dims[a] if node.dims else "" for a in axes[:2]]
    mapping = _grid_mapping(node, look)
    stated = next((text(mapping[k]) for k in ("crs_wkt", "spatial_ref") if k in mapping), None)
    crs = None if stated is None else parse_crs(node.path, stated)
    rows, cols = (_coordinate(n, node.shape[a], look) for n, a in zip(names, axes[:2], strict=True))
    if rows is not None and cols is not None:
        (y0, dy), (x0, dx) = rows, cols
        # Coordinates are pixel centers; the transform starts at the outer corner.
        transform = placed(node.path, (x0 - dx / 2, dx, 0.0, y0 - dy / 2, 0.0, dy))
        if crs is None and {n.lower() for n in names} <= DEGREES:
            crs = parse_crs(node.path, "EPSG:4326")
        return {"crs": crs, "transform": transform}
    if "GeoTransform" in mapping:
        numbers = [float(v) for v in text(mapping["GeoTransform"]).replace(",", " ").split()]
        if len(numbers) == 6:
            return {"crs": crs, "transform": placed(node.path, numbers)}
    return {"crs": crs}


def placed(path: Path, numbers: Iterable[float]) -> Affine:
    """Return the transform of six numbers in GDAL's order; refuse one that places no pixel."""
    transform = Affine.from_gdal(*(float(v) for v in numbers))
    area = transform.a * transform.e - transform.b * transform.d
    if not (np.isfinite(transform[:6]).all() and np.isfinite(area) and area != 0):
        raise SceneError(
            f"{path}: expected a place on the map in finite numbers and pixels of some size, got "
            f"the transform {tuple(transform[:6])}; the file is damaged, copy it again"
        )
    return transform


def _grid_mapping(node: Node, look: Neighbors) -> Mapping[str, Any]:
    named = [text(node.attrs["grid_mapping"])] if "grid_mapping" in node.attrs else []
    for name in [*named, *_GRID_MAPPINGS]:
        variable = look(name)
        if variable is not None:
            return variable[1]
    return {}


def _coordinate(name: str, length: int, look: Neighbors) -> tuple[float, float] | None:
    """Return the first pixel center and the spacing of an evenly spaced coordinate, else None."""
    variable = look(name) if name else None
    if (
        variable is None
        or variable[0].shape != (length,)
        or length < 2
        or variable[0].dtype.kind not in "iuf"
    ):
        return None
    with np.errstate(all="ignore"):  # infinite ones are not even
        values = variable[0].astype(np.float64)
        step = (values[-1] - values[0]) / (length - 1)
        even = np.abs(np.diff(values) - step).max() <= _EVEN * abs(step)
    return (float(values[0]), float(step)) if step and even else None
