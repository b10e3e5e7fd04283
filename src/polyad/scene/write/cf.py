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
import os
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
import numpy.typing as npt
import rioxarray  # noqa: F401  (registers the .rio accessor)
import xarray as xr
from affine import Affine
from rasterio.crs import CRS
from xarray.backends import H5NetCDFStore

from polyad.atomic import Outputs, check_room
from polyad.errors import OutputError
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_table, with_classes
from polyad.scene.write.cog import Slices
from polyad.scene.write.geotiff import checked_ids
from polyad.text import clean_name

CONVENTIONS = "CF-1.8"
MAP_NAME, GRID_MAPPING = "class_map", "spatial_ref"
_GLOBAL = ("title", "institution", "source", "references", "comment")
# Names of the coordinates of a swath, which has a position for each pixel and no grid.
_SWATH = {
    "lat": "latitude", "latitude": "latitude", "lon": "longitude", "longitude": "longitude",
}  # fmt: skip
_DEGREES = {"latitude": "degrees_north", "longitude": "degrees_east"}


def add_netcdf_map(
    outputs: Outputs,
    path: str | os.PathLike[str],
    class_map: xr.DataArray,
    crs: CRS | None = None,
    transform: Affine | None = None,
) -> None:
    """Write a class map as CF NetCDF.

    Parameters
    ----------
    outputs : Outputs
        What the map appears together with.
    path : path-like
        The file, by custom ending in ``.nc``.
    class_map : DataArray of int, dims (y, x)
        Class ids, 0 where there is no class, with the attributes of `polyad.scene.raster.classes`.
    crs : rasterio.crs.CRS, optional
        Coordinate reference system.
    transform : affine.Affine, optional
        From (column, row) to (x, y) of the pixel's corner. A rotated one is kept as GDAL keeps it,
        in the ``GeoTransform`` of the grid mapping: CF has no words for it.
    """
    out = cf_dataset(class_map, crs, transform)
    encoding: dict[str, dict[str, Any]] = {str(n): {"_FillValue": None} for n in out.coords}
    ids = out[MAP_NAME]
    encoding[MAP_NAME] = {"_FillValue": ids.dtype.type(UNLABELED), "zlib": True}
    add_dataset(outputs, path, out, encoding)


def add_dataset(
    outputs: Outputs, path: str | os.PathLike[str], out: xr.Dataset, encoding: dict[str, Any]
) -> None:
    """Write a dataset as NetCDF-4."""
    # In memory: HDF5 brings the whole process down when the disk fills up under it.
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        out.dump_to_store(H5NetCDFStore(file), encoding=encoding)
    check_room(Path(path), buffer.getbuffer().nbytes)
    outputs.temporary(path).write_bytes(buffer.getbuffer())


def cf_dtype(classes: Sequence[ClassInfo]) -> np.dtype[Any]:
    """Return the smaller of int16 and int32 that holds every class id."""
    return np.dtype(np.int16 if max((c.value for c in classes), default=0) < 2**15 else np.int32)


def cf_dataset(
    class_map: xr.DataArray,
    crs: CRS | None = None,
    transform: Affine | None = None,
    ids: npt.NDArray[Any] | None = None,
) -> xr.Dataset:
    """Return what is written: ids, coordinates, grid mapping, and their attributes.

    The ids are those of ``class_map`` unless ``ids`` are given in their place.
    """
    classes = class_table(class_map)
    dtype = cf_dtype(classes)
    if ids is None:
        ids = checked_ids(class_map.values, classes).astype(dtype)
    raster = xr.DataArray(ids, dims=("y", "x"), coords=pixel_coordinates(class_map, crs, transform))
    raster = with_classes(raster, classes).assign_attrs(
        long_name="class",
        flag_values=np.array([c.value for c in classes], dtype),
        flag_meanings=" ".join(flag_meanings(classes)),
        class_values=np.array([c.value for c in classes], dtype),
    )
    out = raster.to_dataset(name=MAP_NAME)
    # Without a reference system the coordinates say it all, unless the grid is rotated.
    if crs is not None or (transform is not None and "x" not in out.coords):
        out[GRID_MAPPING] = grid_mapping(crs, transform)
        out[MAP_NAME].attrs["grid_mapping"] = GRID_MAPPING
    told = {k: clean_name(str(class_map.attrs[k]), 2000) for k in _GLOBAL if k in class_map.attrs}
    out.attrs = global_attributes("Class map", told)
    return out


def global_attributes(title: str, told: dict[str, str] | None = None) -> dict[str, str]:
    """Return the attributes of a file; what is ``told`` of the map comes before our own words."""
    program = f"polyad {version('polyad')}"
    # No date: the same map gives the same bytes.
    own = {"Conventions": CONVENTIONS, "title": title, "source": program}
    return own | (told or {}) | {"history": f"written by {program}"}


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


def pixel_coordinates(
    class_map: xr.DataArray, crs: CRS | None, transform: Affine | None
) -> dict[str, xr.Variable]:
    """Return x and y of the pixels' centers, or the positions of a swath, as CF describes them."""
    coordinates = {}
    for dim in ("y", "x"):
        values = _centers(class_map, dim, transform)
        if values is not None:
            coordinates[dim] = xr.Variable(dim, values, _described(dim, crs, transform))
    for name, standard in _SWATH.items():
        if name in class_map.coords and class_map[name].dims == ("y", "x"):
            about = {"standard_name": standard, "units": _DEGREES[standard], "long_name": standard}
            coordinates[name] = xr.Variable(("y", "x"), class_map[name].values.astype(float), about)
    return coordinates


def _centers(class_map: xr.DataArray, dim: str, transform: Affine | None) -> Any:
    if dim in class_map.coords and class_map[dim].dtype.kind in "iuf":
        return class_map[dim].values.astype(np.float64)
    if transform is None or transform.b or transform.d:
        return None
    start, step = (transform.c, transform.a) if dim == "x" else (transform.f, transform.e)
    return start + step * (np.arange(class_map.sizes[dim]) + 0.5)


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


def grid_mapping(crs: CRS | None, transform: Affine | None) -> xr.DataArray:
    """Return the variable that holds the reference system, for CF and for GDAL."""
    blank = xr.DataArray(np.zeros((1, 1), np.uint8), dims=("y", "x"))
    if crs is not None:
        blank = blank.rio.write_crs(crs)
    if transform is not None:
        blank = blank.rio.write_transform(transform)
    return blank[GRID_MAPPING].drop_vars(GRID_MAPPING).astype(np.int32)


CHUNK = 512  # pixels: half a megabyte of ids, few files of a large map
_LEVEL = 6  # of zlib


class ZarrMap:
    """The array of ids in a store that is being written.

    Parameters
    ----------
    temporary : Path
        Folder of the array.
    target : Path
        The name that the store will have.
    shape : (int, int)
    dtype : dtype
    """

    def __init__(
        self, temporary: Path, target: Path, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        self._temporary, self._target = temporary, target
        self._shape, self._dtype = shape, dtype
        self._chunks = _chunks(shape)
        self._written = 0

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        """Write ``bands`` (1, rows, columns) into ``window`` (rows, columns)."""
        sides = [range(*side.indices(n)) for side, n in zip(window, self._shape, strict=True)]
        spans = [
            range(side.start // size, -(-side.stop // size))
            for side, size in zip(sides, self._chunks, strict=True)
        ]
        for index in itertools.product(*spans):
            inside, outside = [], []
            for number, size, side in zip(index, self._chunks, sides, strict=True):
                first, last = max(number * size, side.start), min((number + 1) * size, side.stop)
                inside.append(slice(first - number * size, last - number * size))
                outside.append(slice(first - side.start, last - side.start))
            self._put(index, (inside[0], inside[1]), bands[0][tuple(outside)])
        self._written += bands[0].size

    def finish(self) -> None:
        """Raise `OutputError` unless every pixel was written."""
        wanted = self._shape[0] * self._shape[1]
        if self._written < wanted:
            raise OutputError(
                f"cannot finish {self._target}: wanted {wanted:,} pixels, got {self._written:,}; "
                "write every window of the scene before leaving the block"
            )

    def _put(self, index: tuple[int, ...], inside: Slices, ids: npt.NDArray[Any]) -> None:
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
def open_zarr_map(
    outputs: Outputs,
    path: str | os.PathLike[str],
    frame: xr.DataArray,
    crs: CRS | None = None,
    transform: Affine | None = None,
) -> Iterator[ZarrMap]:
    """Yield a Zarr store of class ids, to be written window by window; it appears when whole.

    Parameters
    ----------
    outputs : Outputs
        What the map appears together with.
    path : path-like
        The folder, by custom ending in ``.zarr``.
    frame : DataArray, dims (y, x)
        Size, coordinates and classes of the map; its values are not looked at.
    crs, transform
        See `polyad.scene.write.cf.add_netcdf_map`.
    """
    blank = np.broadcast_to(cf_dtype(class_table(frame)).type(UNLABELED), frame.shape)
    dataset = cf_dataset(frame, crs, transform, blank)
    if positions := [str(name) for name in dataset.coords if name not in ("y", "x")]:
        dataset[MAP_NAME].attrs["coordinates"] = " ".join(positions)  # of a swath
    if crs is not None:
        dataset[MAP_NAME].attrs["_CRS"] = {"wkt": crs.to_wkt()}  # where GDAL before 3.10 looks
    temporary = outputs.temporary(path, folder=True)
    temporary.mkdir()
    told: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": dict(dataset.attrs)}
    for name, variable in dataset.variables.items():
        (temporary / str(name)).mkdir()
        told |= _description(str(name), variable)
        if name != MAP_NAME:
            packed = zlib.compress(_plain_order(variable.values).tobytes(), _LEVEL)
            first = ".".join("0" * max(variable.ndim, 1))
            (temporary / str(name) / first).write_bytes(packed)
    told[".zmetadata"] = {"metadata": dict(told), "zarr_consolidated_format": 1}
    for name, content in told.items():
        text = json.dumps(content, indent=2, allow_nan=False)
        (temporary / name).write_text(text + "\n", encoding="utf-8")
    dtype = dataset[MAP_NAME].dtype.newbyteorder("<")
    shape = frame.sizes["y"], frame.sizes["x"]
    out = ZarrMap(temporary / MAP_NAME, Path(path), shape, dtype)
    yield out
    out.finish()


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


def _plain_order(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(values.dtype.newbyteorder("<"))
