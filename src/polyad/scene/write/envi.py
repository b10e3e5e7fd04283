"""Class maps in ENVI's classification format: plain bytes (``.img``) and a text header (``.hdr``).

The header is ours, because GDAL's own ENVI writer knows no palette and no class names. Where the
map lies is described in GDAL's words, since it knows every projection and rotation that ENVI knows.

Two files cannot be replaced in one step, and neither is of use without the other. So where a map
with another header is replaced, the data go through forms that two headers can read, because a
header says where its data begin (``header offset``):

====  ======================  ==================  ==========================================
step  data                    header              a reader, or who comes after a kill, meets
====  ======================  ==================  ==========================================
0     old                     old                 the old map
1     old, then new           old                 the old map
2     old, then new           new, with offset    the new map
3     new, then new again     new, with offset    the new map
4     new, then new again     new                 the new map
5     new                     new                 the new map
====  ======================  ==================  ==========================================
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polyad.atomic import Outputs
from polyad.scene.raster.classes import EXACT_NAMES, UNLABELED, ClassInfo, class_dtype, rgb
from polyad.scene.raster.grid import Grid
from polyad.scene.write.frame import MapFrame, Whole, category_names
from polyad.scene.write.geotiff import open_quietly, placed, stale_files

_DATA_TYPES = {"uint8": 1, "uint16": 12}
_LARGEST_OFFSET = 2**31 - 1  # GDAL reads it into an int
_GEOREFERENCE = ("map info", "projection info", "coordinate system string")


@contextmanager
def open_envi(outputs: Outputs, path: Path, frame: MapFrame) -> Iterator[Whole]:
    """Yield an ENVI classification; ``path`` may be either file of the pair."""
    ids = Whole(frame)
    data, header = path.with_suffix(".img"), path.with_suffix(".hdr")
    dtype, georeference = class_dtype(frame.classes), _georeference_lines(frame.grid)
    header_from = partial(_header, frame.grid.shape, dtype, frame.classes, georeference)
    offset = _shared_offset(data, header, header_from(0), ids.bands.nbytes)
    outputs.withdraw(*stale_files(data))
    if offset is None:
        data_temporary = outputs.temporary(data)
        header_temporary = outputs.temporary(header, companion=True)
    else:
        steps = (data, header, data, header, data)
        temporaries = map(outputs.temporary, steps)
        both, shifted_temporary, twice, header_temporary, data_temporary = temporaries
    yield ids
    # not numpy's tofile: it tells of a full disk without saying that it is full
    data_temporary.write_bytes(ids.bands.astype(dtype.newbyteorder("<"), copy=False).data)
    header_temporary.write_text(header_from(0), encoding="utf-8")
    if offset is not None:
        _join(data, data_temporary, offset, both)
        shifted_temporary.write_text(header_from(offset), encoding="utf-8")
        _join(data_temporary, data_temporary, offset, twice)


def _shared_offset(data: Path, header: Path, text: str, size: int) -> int | None:
    """Return where the new data begin in a file with the old; None if one rename is enough."""
    if not (data.is_file() and header.is_file()):
        return None  # there is no map to be kept
    if header.read_bytes() == text.encode():
        return None  # the existing header reads the new data as the new map
    offset = max(data.stat().st_size, size)
    return offset if offset <= _LARGEST_OFFSET else None


def _join(first: Path, second: Path, offset: int, temporary: Path) -> None:
    """Write ``first``, and ``second`` from ``offset`` on."""
    with temporary.open("r+b") as out:
        for source, start in ((first, 0), (second, offset)):
            out.seek(start)
            with source.open("rb") as content:
                shutil.copyfileobj(content, out, 2**20)


def _header(
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    classes: Sequence[ClassInfo],
    georeference: Sequence[str],
    offset: int,
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
        f"header offset = {offset}",
        "file type = ENVI Classification",
        f"data type = {_DATA_TYPES[dtype.name]}",
        "interleave = bsq",
        "byte order = 0",
        f"data ignore value = {UNLABELED}",
        f"classes = {len(names)}",
        f"class names = {{{', '.join(map(_list_item, names))}}}",
        f"class lookup = {{{', '.join(map(str, lookup))}}}",
        "band names = {class}",
        *_exact_names(names),
        *georeference,
    ]
    return "\n".join(lines) + "\n"


def _list_item(name: str) -> str:
    # A list in an ENVI header has no way to escape the signs it is made of.
    for sign, stand_in in ((",", ";"), ("{", "("), ("}", ")")):
        name = name.replace(sign, stand_in)
    return " ".join(name.split())


def _exact_names(names: Sequence[str]) -> list[str]:
    """Return a line of our own with the names as they are, if the list cannot hold them."""
    if list(map(_list_item, names)) == list(names):
        return []
    text = json.dumps(names).replace("{", r"\u007b").replace("}", r"\u007d")
    return [f"{EXACT_NAMES} = {text}"]


def _georeference_lines(grid: Grid) -> list[str]:
    """Return the header lines that place the map: those GDAL writes for one pixel placed so."""
    if grid.transform is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        pixel = Path(folder) / "pixel.img"
        profile = placed(replace(grid, shape=(1, 1)))
        open_quietly(pixel, "w", driver="ENVI", count=1, dtype="uint8", **profile).close()
        lines = pixel.with_suffix(".hdr").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(_GEOREFERENCE)]
