"""Class maps after the CF conventions, version 1.8: NetCDF-4 files and Zarr stores.

CF 1.8 knows no unsigned integers and only a few signs in the meaning of a flag. So ids are signed,
meanings are the class names spelled with those signs, and the names themselves stand beside them in
``class_names``, with ``class_values`` and ``class_colors``.

A Zarr store holds what a NetCDF file would: ids, coordinates and a grid mapping, each an array.
Chunks are squares, whatever the windows in which the map comes, so that the same map gives the same
store. The layout is that of Zarr version 2 with plain zlib: GDAL, and with it a GIS, reads that
since version 3.4; version 3 as it was specified in the end, 3.10 does not. It is files of JSON and
of packed numbers, which are written here: the package zarr writes by tasks of its own, which go on,
and make the folder anew, after one of them has failed.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from affine import Affine
from rasterio.crs import CRS
from xarray.backends import H5NetCDFStore

from polyad.atomic import Outputs, check_room
from polyad.scene.raster.classes import UNLABELED, ClassInfo, Target, with_classes
from polyad.scene.raster.grid import Grid, Tile
from polyad.scene.write.frame import Array, MapFrame, Slices, Whole, check_whole
from polyad.text import clean_name

CONVENTIONS = "CF-1.8"
MAP_NAME, GRID_MAPPING = "class_map", "spatial_ref"
_GLOBAL = ("title", "institution", "source", "references", "comment")
# Names of the coordinates of a swath, which has a position for each pixel and no grid.
_SWATH = {
    "lat": "latitude", "latitude": "latitude", "lon": "longitude", "longitude": "longitude",
}  # fmt: skip
_DEGREES = {"latitude": "degrees_north", "longitude": "degrees_east"}


@contextmanager
def open_netcdf(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Whole]:
    """Yield a map as CF NetCDF: a variable of class ids, or one for each target.

    A rotated grid is kept as GDAL keeps it, in the ``GeoTransform`` of the grid mapping: CF has no
    words for it.
    """
    temporary, whole = outputs.temporary(path), Whole(frame)
    yield whole
    bands = whole.bands
    out = value_dataset(frame, bands) if frame.targets else class_dataset(frame, bands[0])
    encoding: dict[str, dict[str, Any]] = {str(n): {"_FillValue": None} for n in out.coords}
    for name, variable in out.data_vars.items():
        if name != GRID_MAPPING:
            blank = np.nan if frame.targets else UNLABELED
            encoding[str(name)] = {"_FillValue": variable.dtype.type(blank), "zlib": True}
    # In memory: HDF5 brings the whole process down when the disk fills up under it.
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        out.dump_to_store(H5NetCDFStore(file), encoding=encoding)
    check_room(path, buffer.getbuffer().nbytes)
    temporary.write_bytes(buffer.getbuffer())


def cf_dtype(classes: Sequence[ClassInfo]) -> np.dtype[Any]:
    """Return the smaller of int16 and int32 that holds every class id."""
    return np.dtype(np.int16 if max((c.value for c in classes), default=0) < 2**15 else np.int32)


def class_dataset(frame: MapFrame, ids: Array) -> xr.Dataset:
    """Return what is written of a class map: ids, coordinates, grid mapping, their attributes."""
    classes, dtype = frame.classes, cf_dtype(frame.classes)
    raster = with_classes(xr.DataArray(ids.astype(dtype, copy=False), dims=("y", "x")), classes)
    values = np.array([c.value for c in classes], dtype)
    about = {
        "long_name": "class",
        "flag_values": values,
        "flag_meanings": " ".join(flag_meanings(classes)),
        "class_values": values,
    }
    title = {k: clean_name(str(frame.attrs[k]), 2000) for k in _GLOBAL if k in frame.attrs}
    variables = {MAP_NAME: raster.assign_attrs(about).variable}
    return _dataset(frame, variables, {"title": "Class map"} | title)


def value_dataset(frame: MapFrame, bands: Array) -> xr.Dataset:
    """Return what is written of a map of a regression target: a variable for each target."""
    variables = {}
    names = variable_names(frame.targets)
    for values, target, name in zip(bands, frame.targets, names, strict=True):
        about: dict[str, Any] = {"long_name": target.name}
        if target.units:
            about["units"] = target.units
        if target.low is not None and target.high is not None:
            about["valid_range"] = np.array([target.low, target.high], np.float32)
        variables[name] = xr.Variable(("y", "x"), values, about)
    return _dataset(frame, variables, {"title": "Map of regression targets"})


def _dataset(
    frame: MapFrame, variables: dict[str, xr.Variable], title: dict[str, str]
) -> xr.Dataset:
    grid, program = frame.grid, f"polyad {version('polyad')}"
    out = xr.Dataset(coords=pixel_coordinates(frame)).assign(variables)
    # Without a reference system the coordinates say it all, unless the grid is rotated.
    if grid.crs is not None or (grid.transform is not None and "x" not in out.coords):
        out[GRID_MAPPING] = grid_mapping(grid)
        for name in variables:
            out[name].attrs["grid_mapping"] = GRID_MAPPING
    # No date: the same map gives the same bytes.
    about = {"Conventions": CONVENTIONS, "title": "", "source": program} | title
    return out.assign_attrs(about | {"history": f"written by {program}"})


def flag_meanings(classes: Sequence[ClassInfo]) -> list[str]:
    """Return a word for each class in the signs that CF allows, no two alike.

    Examples
    --------
    >>> flag_meanings([ClassInfo(1, "Corn, no till", "#4477AA"), ClassInfo(2, "Forêt", "#EE7733")])
    ['Corn_no_till', 'Foret']
    >>> flag_meanings([ClassInfo(7, "森林", "#4477AA")])
    ['class_7']
    """
    words: list[str] = []
    for info in classes:
        spelled = unicodedata.normalize("NFKD", info.name.replace("ß", "ss"))
        plain = "".join(c for c in spelled if not unicodedata.combining(c))
        word = re.sub(r"[^0-9A-Za-z.+@-]+", "_", plain).strip("_") or f"class_{info.value}"
        words.append(word if word not in words else f"{word}_{info.value}")
    return words


def variable_names(targets: Sequence[Target]) -> list[str]:
    """Return a name for each target in the signs that CF allows, no two alike.

    Examples
    --------
    >>> variable_names([Target("cover [%]"), Target("2nd"), Target("cover (%)")])
    ['cover', 'value_2nd', 'cover_3']
    """
    names: list[str] = []
    for number, target in enumerate(targets, start=1):
        name = re.sub("[^0-9A-Za-z]+", "_", target.name).strip("_") or "value"
        name = name if name[0].isalpha() else f"value_{name}"
        taken = name in (*names, "x", "y", *_SWATH, GRID_MAPPING)
        names.append(f"{name}_{number}" if taken else name)
    return names


def pixel_coordinates(frame: MapFrame) -> dict[str, xr.Variable]:
    """Return x and y of the pixels' centers, or the positions of a swath, as CF describes them."""
    coordinates, grid = {}, frame.grid
    known = xr.DataArray(np.broadcast_to(0, grid.shape), dims=("y", "x"), coords=frame.coords)
    transform = grid.transform
    for axis, dim in enumerate(("y", "x")):
        values: Array | None = None
        if dim in known.coords and known[dim].dtype.kind in "iuf":
            values = known[dim].values.astype(np.float64)
        elif transform is not None and not (transform.b or transform.d):
            start, step = [(transform.f, transform.e), (transform.c, transform.a)][axis]
            values = start + step * (np.arange(grid.shape[axis]) + 0.5)
        if values is not None:
            about = _described(dim, grid.crs, transform)
            coordinates[dim] = xr.Variable(dim, values, about)
    for name, standard in _SWATH.items():
        if name in known.coords and known[name].dims == ("y", "x"):
            about = {"standard_name": standard, "units": _DEGREES[standard], "long_name": standard}
            coordinates[name] = xr.Variable(("y", "x"), known[name].values.astype(float), about)
    return coordinates


def _described(dim: str, crs: CRS | None, transform: Affine | None) -> dict[str, str]:
    """Return standard name, units and axis of a coordinate; one that counts pixels has none."""
    if crs is None and transform is None:
        return {"long_name": f"{dim} coordinate of the pixel's center"}
    if crs is not None and crs.is_geographic:
        name = "longitude" if dim == "x" else "latitude"
        about = {"standard_name": name, "long_name": name, "units": _DEGREES[name]}
    else:
        # An unknown reference system is taken to be in meters: without these words GDAL would
        # neither place the map nor know that its first row is the northernmost.
        unit = "metre" if crs is None or not crs.is_projected else crs.linear_units
        about = {
            "standard_name": f"projection_{dim}_coordinate",
            "long_name": f"{dim} coordinate of projection",
            "units": "m" if unit in ("metre", "meter") else unit.replace(" ", "_"),
        }
    return about | {"axis": dim.upper()}


def grid_mapping(grid: Grid) -> xr.DataArray:
    """Return the variable that holds the reference system, for CF and for GDAL."""
    blank = xr.DataArray(np.zeros((1, 1), np.uint8), dims=("y", "x"))
    if grid.crs is not None:
        blank = blank.rio.write_crs(grid.crs)
    if grid.transform is not None:
        blank = blank.rio.write_transform(grid.transform)
    return blank[GRID_MAPPING].drop_vars(GRID_MAPPING).astype(np.int32)


# --- Zarr ----------------------------------------------------------------------------------------

CHUNK = 512  # pixels: half a megabyte of ids, few files of a large map
_LEVEL = 6  # of zlib


class ZarrMap:
    """The array of ids in a store that is being written.

    Parameters
    ----------
    temporary : Path
        Folder of the array.
    shape : (int, int)
    dtype : dtype
    """

    def __init__(self, temporary: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self._temporary, self._shape, self._dtype = temporary, shape, dtype
        self._chunks = _chunks(shape)
        self.written = 0

    def write(self, window: Slices, bands: Array) -> None:
        """Write ``bands`` (1, rows, columns) into ``window`` (rows, columns)."""
        sides = [side.indices(n) for side, n in zip(window, self._shape, strict=True)]
        own = Tile(*(slice(start, stop) for start, stop, _ in sides))
        spans = [
            range(start // size, -(-stop // size))
            for (start, stop, _), size in zip(sides, self._chunks, strict=True)
        ]
        for index in itertools.product(*spans):
            corners = zip(index, self._chunks, strict=True)
            chunk = Tile(*(slice(k * size, (k + 1) * size) for k, size in corners))
            common = own.common(chunk)
            self._put(index, common.within(chunk), bands[0][common.within(own)])
        self.written += bands[0].size

    def _put(self, index: tuple[int, ...], inside: Slices, ids: Array) -> None:
        temporary = self._temporary / ".".join(map(str, index))
        if temporary.exists():
            known = zlib.decompress(temporary.read_bytes())
            chunk = np.frombuffer(known, self._dtype).reshape(self._chunks).copy()
        elif not ids.any():
            return  # a chunk that is missing has no class
        else:
            chunk = np.zeros(self._chunks, self._dtype)
        chunk[inside] = ids
        temporary.write_bytes(zlib.compress(chunk.tobytes(), _LEVEL))


@contextmanager
def open_zarr(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[ZarrMap]:
    """Yield a Zarr store of class ids, to be written window by window; it appears when whole."""
    blank = np.broadcast_to(cf_dtype(frame.classes).type(UNLABELED), frame.grid.shape)
    dataset = class_dataset(frame, blank)
    ids = dataset[MAP_NAME]
    if positions := [str(name) for name in dataset.coords if name not in ("y", "x")]:
        ids.attrs["coordinates"] = " ".join(positions)  # of a swath
    if frame.grid.crs is not None:
        ids.attrs["_CRS"] = {"wkt": frame.grid.crs.to_wkt()}  # where GDAL before 3.10 looks
    temporary = outputs.temporary(path, folder=True)
    temporary.mkdir()
    metadata: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": dict(dataset.attrs)}
    for name, variable in dataset.variables.items():
        (temporary / str(name)).mkdir()
        metadata |= _description(str(name), variable)
        if name != MAP_NAME:
            values = variable.values.astype(variable.dtype.newbyteorder("<"))
            first = ".".join("0" * max(variable.ndim, 1))
            packed = zlib.compress(values.tobytes(), _LEVEL)
            (temporary / str(name) / first).write_bytes(packed)
    metadata[".zmetadata"] = {"metadata": dict(metadata), "zarr_consolidated_format": 1}
    for name, content in metadata.items():
        text = json.dumps(content, indent=2, allow_nan=False)
        (temporary / name).write_text(text + "\n", encoding="utf-8")
    dtype = ids.dtype.newbyteorder("<")
    out = ZarrMap(temporary / MAP_NAME, frame.grid.shape, dtype)
    yield out
    check_whole(path, frame.grid.shape, out.written)


def _description(name: str, variable: xr.Variable) -> dict[str, Any]:
    """Return the two files that describe an array; a coordinate is one chunk without nodata."""
    ids = name == MAP_NAME
    about = {str(k): v.tolist() if hasattr(v, "tolist") else v for k, v in variable.attrs.items()}
    array = {
        "zarr_format": 2,
        "shape": list(variable.shape),
        "chunks": list(_chunks(variable.shape) if ids else variable.shape),
        "dtype": variable.dtype.newbyteorder("<").str,
        "compressor": {"id": "zlib", "level": _LEVEL},
        "fill_value": UNLABELED if ids else None,
        "order": "C",
        "filters": None,
    }
    dims = {"_ARRAY_DIMENSIONS": [str(dim) for dim in variable.dims]}  # where xarray and GDAL look
    return {f"{name}/.zarray": array, f"{name}/.zattrs": about | dims}


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(CHUNK, length) for length in shape)
