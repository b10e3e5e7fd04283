"""Class maps in ENVI's classification format: plain bytes (``.img``) and a text header (``.hdr``).

The header is ours, because GDAL's own ENVI writer knows no palette and no class names. Where the
map lies is said in GDAL's words, since it knows every projection and rotation that ENVI knows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.crs import CRS

from polyad.atomic import replacing_all
from polyad.scene.classes import UNLABELLED, ClassInfo
from polyad.scene.geotiff_map import checked_ids, class_dtype, open_quietly, placed, stale_files
from polyad.scene.pam import category_names, rgb

_DATA_TYPES = {"uint8": 1, "uint16": 12}
_GEOREFERENCE = ("map info", "projection info", "coordinate system string")


def write_envi_map(
    path: str | os.PathLike[str],
    shape: tuple[int, int],
    classes: Sequence[ClassInfo],
    strips: Iterable[npt.NDArray[Any]],
    crs: CRS | None = None,
    transform: Affine | None = None,
) -> None:
    """Write an ENVI classification.

    Parameters
    ----------
    path : path-like
        Either file of the pair: ``map.hdr`` or ``map.img``.
    shape : (int, int)
        Rows and columns.
    classes : sequence of ClassInfo
        The classes of the map.
    strips : iterable of int arrays, each of shape (rows, columns)
        The class ids from top to bottom.
    crs : rasterio.crs.CRS, optional
        Coordinate reference system.
    transform : affine.Affine, optional
        From (column, row) to (x, y) of the pixel's corner.
    """
    data, header = Path(path).with_suffix(".img"), Path(path).with_suffix(".hdr")
    dtype = class_dtype(classes)
    text = _header(shape, dtype, classes, _georeference_lines(crs, transform))
    # The header goes last: data without a header is no map, data under another header is a lie.
    with replacing_all([data, header], stale=stale_files(data)) as (data_part, header_part):
        with data_part.open("wb") as out:
            for ids in strips:
                # not numpy's tofile: it tells of a full disk without saying that it is full
                out.write(checked_ids(ids, classes).astype(dtype.newbyteorder("<")).tobytes())
        header_part.write_text(text, encoding="utf-8")


def _header(
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    classes: Sequence[ClassInfo],
    georeference: Sequence[str],
) -> str:
    names = category_names(classes)
    colors = {c.value: rgb(c.color) for c in classes}
    lookup = [channel for value in range(len(names)) for channel in colors.get(value, (0, 0, 0))]
    lines = [
        "ENVI",
        "description = {class map written by polyad}",
        f"samples = {shape[1]}",
        f"lines = {shape[0]}",
        "bands = 1",
        "header offset = 0",
        "file type = ENVI Classification",
        f"data type = {_DATA_TYPES[dtype.name]}",
        "interleave = bsq",
        "byte order = 0",
        f"data ignore value = {UNLABELLED}",
        f"classes = {len(names)}",
        f"class names = {{{', '.join(map(_list_item, names))}}}",
        f"class lookup = {{{', '.join(map(str, lookup))}}}",
        "band names = {class}",
        *georeference,
    ]
    return "\n".join(lines) + "\n"


def _list_item(name: str) -> str:
    # A list in an ENVI header has no way to escape the signs it is made of.
    for sign, stand_in in ((",", ";"), ("{", "("), ("}", ")")):
        name = name.replace(sign, stand_in)
    return " ".join(name.split())


def _georeference_lines(crs: CRS | None, transform: Affine | None) -> list[str]:
    """Return the header lines that place the map: those GDAL writes for one pixel placed so."""
    if transform is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        pixel = Path(folder) / "pixel.img"
        profile = placed((1, 1), crs, transform)
        open_quietly(pixel, "w", driver="ENVI", count=1, dtype="uint8", **profile).close()
        lines = pixel.with_suffix(".hdr").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(_GEOREFERENCE)]
