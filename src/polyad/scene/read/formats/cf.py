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

from polyad.scene.raster import guards
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
from polyad.scene.read.formats.raw import ScaledSource

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
    dtype : dtype
        Element type as in the file.
    axes : tuple of int
        Which axis of the file holds rows, columns and bands.
    """

    path: Path
    box: Callable[[tuple[slice, slice, slice]], Array]
    file_shape: tuple[int, ...]
    dtype: np.dtype
    axes: tuple[int, int, int]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        y, x, band = (int(self.file_shape[a]) for a in self.axes)
        return y, x, band

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        span, inside = hull(bands)
        box = dict(zip(self.axes, (rows, cols, span), strict=True))
        return pick(self.box((box[0], box[1], box[2])).transpose(self.axes), inside)


def is_cube(shape: tuple[int, ...]) -> bool:
    """Return whether an array has three axes, or more of which all but three have length 1.

    Examples
    --------
    >>> is_cube((5, 4, 3)), is_cube((1, 5, 4, 3)), is_cube((2, 5, 4, 3))
    (True, True, False)
    """
    return len(shape) == 3 or (len(shape) > 3 and sum(n != 1 for n in shape) <= 3)


def three_axes(node: Node) -> tuple[int, ...]:
    """Return the three axes of a cube: surplus ones, such as time, have length 1.

    These are dropped from the front, those first whose names are of no row, column or band.
    """
    known = set().union(*AXES.values())
    dims = node.dims or ("",) * len(node.shape)
    single = [axis for axis, n in enumerate(node.shape) if n == 1]
    surplus = sorted(single, key=lambda axis: dims[axis].lower() in known)[: len(node.shape) - 3]
    return tuple(axis for axis in range(len(node.shape)) if axis not in surplus)


def open_cube(node: Node, look: Neighbors, read: Callable[[tuple[slice, ...]], Array]) -> Opened:
    """Return the scene of ``node``; ``look`` finds variables beside it, ``read`` its values."""
    if is_cube(node.shape):
        kept, ndim, whole = three_axes(node), len(node.shape), read

        def along_kept(box: tuple[slice, ...]) -> Array:
            along = dict(zip(kept, box, strict=True))
            values = whole(tuple(along.get(axis, slice(0, 1)) for axis in range(ndim)))
            return values.reshape([values.shape[axis] for axis in kept])

        read = along_kept
        dims = tuple(node.dims[a] for a in kept) if node.dims else ()
        node = replace(node, shape=tuple(node.shape[a] for a in kept), dims=dims)
    guards.check_shape(node.path, node.shape)
    axes = find_axes(node, look)
    fill = number(node.attrs, "_FillValue", "missing_value")
    scale, offset = number(node.attrs, "scale_factor"), number(node.attrs, "add_offset") or 0.0
    scale = 1.0 if scale is None else scale
    cube = CubeSource(node.path, read, node.shape, node.dtype, axes)
    packed = (scale, offset) != (1.0, 0.0)
    count = cube.shape[2]
    scaled = ScaledSource(cube, (*range(count),), (scale,) * count, (offset,) * count, fill)
    wavelength, fwhm = _bands(count, node.dims[axes[2]] if node.dims else "", look)
    return Opened.of(
        scaled if packed else cube,
        wavelength=wavelength,
        fwhm=fwhm,
        nodata=np.nan if packed and fill is not None else fill,
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


def _bands(
    count: int, dim: str, look: Neighbors
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return centers and widths of the bands in nm, None each unless each band has one."""

    def per_band(name: str) -> tuple[NDArray[np.float64], str | None] | None:
        values, attrs = look(name) or (np.empty(0), {})
        # A NetCDF dimension without values still has a variable of its name, full of zeros.
        if values.shape != (count,) or not are_wavelengths(values):
            return None
        return values.astype(np.float64), text(attrs["units"]) if "units" in attrs else None

    names = ([dim] if dim.lower() in WAVELENGTHS else []) + list(WAVELENGTHS)
    centers = next(filter(None, map(per_band, names)), None)
    if centers is None:
        return None, None
    widths = per_band("fwhm")
    if widths is None:
        return to_nm(*centers), None
    # Widths share the unit of the centers, also where that had to be guessed, unless they say one.
    own = known_factor(widths[1])
    factor = nm_factor(*centers) if own is None else own
    return to_nm(*centers), np.round(widths[0] * factor, 6)


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
    guards.check_place(path, transform)
    return transform


def _grid_mapping(node: Node, look: Neighbors) -> Mapping[str, Any]:
    named = [text(node.attrs["grid_mapping"])] if "grid_mapping" in node.attrs else []
    found = next(filter(None, map(look, (*named, *_GRID_MAPPINGS))), None)
    return found[1] if found else {}


def _coordinate(name: str, length: int, look: Neighbors) -> tuple[float, float] | None:
    """Return the first pixel center and the spacing of an evenly spaced coordinate, else None."""
    values, _ = (look(name) if name else None) or (np.empty(0), {})
    if values.shape != (length,) or length < 2 or values.dtype.kind not in "iuf":
        return None
    with np.errstate(all="ignore"):  # infinite ones are not even
        values = values.astype(np.float64)
        step = (values[-1] - values[0]) / (length - 1)
        even = np.abs(np.diff(values) - step).max() <= _EVEN * abs(step)
    return (float(values[0]), float(step)) if step and even else None
