"""Class maps, probabilities and scores to files; the file's ending chooses the format."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rioxarray  # noqa: F401 - gives every DataArray its ``rio``
import xarray as xr

from polyad.atomic import Outputs, replacing, replacing_together
from polyad.errors import InputError
from polyad.scene.files.own_outputs import NPY_HEAD
from polyad.scene.files.paths import check_ending
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.georeference import georeference
from polyad.scene.raster.scene import as_labels
from polyad.scene.raster.tiles import BLOCK
from polyad.scene.write.envi import add_envi_map
from polyad.scene.write.geotiff import (
    checked_ids,
    encode_probabilities,
    open_class_map,
    open_probabilities,
)
from polyad.scene.write.netcdf import add_netcdf_map
from polyad.scene.write.zarr_map import open_zarr_map


def write_map(path: str | os.PathLike[str], class_map: xr.DataArray) -> None:
    """Write a class map; nothing of an existing file is lost if that fails.

    ======== ==========================================================================
    ending   format
    ======== ==========================================================================
    .tif     cloud-optimized GeoTIFF with overviews: palette, nodata 0, georeference; class
             names in ``.tif.aux.xml``, a style for QGIS in ``.qml``
    .hdr     ENVI classification, ``.hdr`` and ``.img`` (either ending may be given)
    .png     picture with a legend
    .nc      NetCDF after CF 1.8: flags, nodata 0, georeference; names and colors beside
    .zarr    Zarr store with the same attributes
    .npy     the ids alone
    ======== ==========================================================================

    Parameters
    ----------
    path : path-like
        The file to write.
    class_map : xarray.DataArray of int, dims (y, x)
        Class ids, 0 where there is no class, with the attributes of `with_classes` and, if it has
        one, a georeference in rioxarray's convention.
    """
    with replacing_together() as outputs:
        add_map(outputs, path, class_map)


def add_map(outputs: Outputs, path: str | os.PathLike[str], class_map: xr.DataArray) -> None:
    """Do what `write_map` does, for a map that is to appear together with other files."""
    write = _MAP_FORMATS[check_ending(path, "map")]
    write(outputs, Path(path), as_labels(class_map))


def write_probabilities(
    path: str | os.PathLike[str], proba: xr.DataArray, dtype: str = "float32"
) -> None:
    """Write class probabilities as a GeoTIFF with one band for each class, named after it.

    Parameters
    ----------
    path : path-like
        The file to write, ending in ``.tif``.
    proba : xarray.DataArray of float, dims (y, x, class)
        Probabilities; NaN where the scene was not mapped. The names are those of its ``class``
        coordinate, or else of the attribute ``class_names``.
    dtype : {"float32", "uint8"}
        ``float32`` marks unmapped pixels by NaN. ``uint8`` takes a quarter of the room: it keeps
        round(254 p), with the scale 1/254 in the file, and marks unmapped pixels by 255.
    """
    with replacing_together() as outputs:
        add_probabilities(outputs, path, proba, dtype)


def add_probabilities(
    outputs: Outputs, path: str | os.PathLike[str], proba: xr.DataArray, dtype: str = "float32"
) -> None:
    """Do what `write_probabilities` does, for probabilities that appear together with their map."""
    check_ending(path, "file of probabilities")
    if set(proba.dims) != {"y", "x", "class"}:
        raise InputError(f"probabilities have dims ('y', 'x', 'class'), got {proba.dims}")
    proba = proba.transpose("y", "x", "class")
    crs, transform = georeference(proba)
    height, width = proba.sizes["y"], proba.sizes["x"]
    names = _class_names(proba)
    with open_probabilities(
        outputs, path, (height, width), names, dtype=dtype, crs=crs, transform=transform
    ) as out:
        for rows, strip in _strips(proba):
            out.write((rows, slice(None)), np.moveaxis(encode_probabilities(strip, dtype), -1, 0))


def write_scores(path: str | os.PathLike[str], scores: Mapping[str, Any]) -> None:
    """Write scores as JSON (``.json``) or as a table ``measure, class, value`` (``.csv``).

    Parameters
    ----------
    path : path-like
        The file to write.
    scores : mapping
        Numbers, strings, lists and mappings, as `polyad.scene.Scores.to_dict` gives them.
    """
    write = _SCORE_FORMATS[check_ending(path, "file of scores")]
    with replacing(path) as temporary:
        write(temporary, _plain(scores))


def _write_geotiff(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    crs, transform = georeference(class_map)
    shape, classes = _shape(class_map), class_table(class_map)
    options: dict[str, Any] = {"crs": crs, "transform": transform}
    options["quantity"] = class_map.attrs.get("quantity")
    with open_class_map(outputs, path, shape, classes, **options) as out:
        for rows, ids in _strips(class_map):
            out.write((rows, slice(None)), checked_ids(ids, classes)[np.newaxis])


def _write_envi(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    crs, transform = georeference(class_map)
    strips = (ids for _, ids in _strips(class_map))
    classes = class_table(class_map)
    add_envi_map(outputs, path, _shape(class_map), classes, strips, crs, transform)


def _write_png(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    from polyad.scene.draw.figures import map_figure, to_png  # matplotlib is slow to import

    outputs.temporary(path).write_bytes(to_png(map_figure(class_map)))


def _write_netcdf(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    add_netcdf_map(outputs, path, class_map, *georeference(class_map))


def _write_zarr(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    classes = class_table(class_map)
    with open_zarr_map(outputs, path, class_map, *georeference(class_map)) as out:
        for rows, ids in _strips(class_map):
            out.write((rows, slice(None)), checked_ids(ids, classes)[np.newaxis])


def _write_npy(outputs: Outputs, path: Path, class_map: xr.DataArray) -> None:
    ids = checked_ids(class_map.values, class_table(class_map))
    about = {"descr": ids.dtype.str, "fortran_order": False, "shape": ids.shape}
    head = str(about).encode().ljust(NPY_HEAD - 11) + b"\n"
    # Not by numpy, which tells of a full disk without saying that it is full
    with outputs.temporary(path).open("wb") as file:
        file.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        file.write(np.ascontiguousarray(ids).data)


_MAP_FORMATS: dict[str, Callable[[Outputs, Path, xr.DataArray], None]] = {
    ".tif": _write_geotiff,
    ".tiff": _write_geotiff,
    ".hdr": _write_envi,
    ".img": _write_envi,
    ".png": _write_png,
    ".nc": _write_netcdf,
    ".zarr": _write_zarr,
    ".npy": _write_npy,
}


def _shape(raster: xr.DataArray) -> tuple[int, int]:
    return raster.sizes["y"], raster.sizes["x"]


def _strips(raster: xr.DataArray) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Yield rows and values of ``raster``, one row of GeoTIFF blocks at a time."""
    for top in range(0, raster.sizes["y"], BLOCK):
        rows = slice(top, min(top + BLOCK, raster.sizes["y"]))
        yield rows, raster.isel(y=rows).values


def _class_names(proba: xr.DataArray) -> list[str]:
    given = proba["class"].values if "class" in proba.coords else proba.attrs.get("class_names")
    if given is None:
        given = [f"class {k + 1}" for k in range(proba.sizes["class"])]
    names = [str(name) for name in np.atleast_1d(given)]
    if len(names) != proba.sizes["class"]:
        raise InputError(
            f"probabilities of {proba.sizes['class']} classes carry {len(names)} class names; "
            "name each class once"
        )
    return names


def _plain(value: Any) -> Any:
    """Return ``value`` in types that JSON knows; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, ClassInfo):
        return _plain(value._asdict())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _scores_json(temporary: Path, scores: dict[str, Any]) -> None:
    text = json.dumps(scores, indent=2, ensure_ascii=False, allow_nan=False)
    temporary.write_text(text + "\n", encoding="utf-8")


def _scores_csv(temporary: Path, scores: dict[str, Any]) -> None:
    with temporary.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(["measure", "class", "value"])
        for measure, value in scores.items():
            if not isinstance(value, dict | list):
                table.writerow([measure, "", value])
        for row in scores.get("classes", []):
            for measure in ("precision", "recall", "f1", "support"):
                table.writerow([measure, row["name"], row[measure]])
        for row in scores.get("targets", []):
            for measure, value in row.items():
                ends = zip(("low", "high"), value, strict=True) if isinstance(value, list) else ()
                for end, number in ends:
                    table.writerow([f"{measure}_{end}", row["target"], number])
                if measure != "target" and not isinstance(value, list):
                    table.writerow([measure, row["target"], value])
        for row in scores.get("sets", []):
            for measure in ("coverage", "mean_set_size"):
                table.writerow([measure, row["name"], row[measure]])
        for row in scores.get("left_out", []):
            table.writerow(["left_out", row["name"], row["pixels"]])


_SCORE_FORMATS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    ".json": _scores_json,
    ".csv": _scores_csv,
}
