"""Reads one uploaded label file in a separate process, with limits on memory and time.

The request is JSON on standard input. The answer on standard output is a line of JSON with either
``classes``, followed by the raster of class ids, or an ``error``. Whatever a hostile file does to
the libraries that read it happens here: the page sees only the answer, or that there is none.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS

from polyad.errors import PolyadError, SceneError
from polyad.scene.raster.classes import ClassInfo
from polyad.scene.raster.grid import Grid, check_same_place
from polyad.scene.raster.guards import human_bytes
from polyad.scene.read.class_tables import complete
from polyad.scene.read.features import read_labeled
from polyad.scene.read.rasterize import draw

try:
    import resource
except ImportError:  # pragma: no cover - Windows: the page limits the time
    resource = None  # type: ignore[assignment]

VECTORS = {
    ".csv", ".tsv", ".txt", ".geojson", ".json", ".gpkg", ".shp", ".zip", ".fgb", ".kml",
}  # fmt: skip
SHAPEFILE = ("shp", "shx", "dbf", "prj", "cpg", "qml")  # the first three must be there

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # Linux' CLONE_NEWUSER and CLONE_NEWNET
_OPEN_FILES = 64
_SLACK = 32 * 2**20  # bytes of an answer beside its raster
_UNPACKED = 64 * 2**20  # bytes of all files in a zip


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    path, budget = Path(request["path"]), int(request["memory"])
    transform = None if request["transform"] is None else Affine(*request["transform"])
    crs = None if request["crs"] is None else CRS.from_wkt(request["crs"])
    grid = Grid((request["shape"][0], request["shape"][1]), crs, transform)
    if path.suffix not in VECTORS:
        import polyad.scene.read.label_rasters  # noqa: F401  (before the limits; takes a second)
    written = 2 * grid.shape[0] * grid.shape[1] + _SLACK
    confine(budget, int(request["seconds"]), max(written, _UNPACKED))
    warnings.simplefilter("ignore")  # the page shows the labels themselves
    answer: Mapping[str, Any]
    values = np.empty((0, 0), np.uint16)
    try:
        values, classes = read(path, grid, budget // 2)
        answer = {"classes": [list(info) for info in classes]}
    except PolyadError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": f"reading the file takes more than {human_bytes(budget)} of memory"}
    except Exception as error:  # of a library that reads the file
        answer = {"error": f"the file cannot be read ({type(error).__name__}); save it again"}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.write(values.astype("<u2").tobytes() if "classes" in answer else b"")


def read(path: Path, grid: Grid, budget: int) -> tuple[NDArray[np.uint16], tuple[ClassInfo, ...]]:
    """Return class ids on the scene's grid, and the classes."""
    if path.suffix in VECTORS:
        values, names, colors = draw(path, read_labeled(unpacked(path), grid, budget), grid)
    else:
        from polyad.scene.read.label_rasters import read_label_raster

        raster = read_label_raster(path, None, grid.shape, budget)
        values, names, colors = raster.values, raster.names, raster.colors
        check_same_place(grid, Grid(grid.shape, raster.crs, raster.transform))
    if not values.any():
        raise SceneError(f"{path}: no label in the file; label some pixels of each class")
    return values, complete(values, names, colors)


def unpacked(path: Path) -> Path:
    """Unpack the Shapefile in a zip, beside it and under its name; return the ``.shp``."""
    if path.suffix != ".zip":
        return path
    with zipfile.ZipFile(path) as archive:
        members = {member.filename.lower(): member for member in archive.infolist()}
        # macOS puts a file "._NAME" beside each, or into a folder of its own
        shapes = [n for n in members if n.endswith(".shp") and not Path(n).name.startswith("._")]
        if len(shapes) != 1:
            raise SceneError(
                f"{path}: expected a zip of one Shapefile, got {len(shapes)}; zip the .shp, .shx, "
                ".dbf and .prj of one, or load another format"
            )
        stem = shapes[0].removesuffix("shp")
        files = {end: members[stem + end] for end in SHAPEFILE if stem + end in members}
        if sum(member.file_size for member in files.values()) > _UNPACKED:
            raise SceneError(
                f"{path}: expected at most {human_bytes(_UNPACKED)} when unpacked, got more; give "
                "the Shapefile to polyad label with --labels"
            )
        for ending, member in files.items():
            path.with_suffix(f".{ending}").write_bytes(archive.read(member))
    return path.with_suffix(".shp")


def confine(memory: int, seconds: int, output: int) -> None:
    """Drop the network, and limit memory, CPU time and output from here on."""
    with suppress(OSError, AttributeError, TypeError, ValueError):  # not Linux, or not allowed here
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)
    if resource is None:  # pragma: no cover - Windows
        return
    limits = {
        "RLIMIT_AS": _address_space() + memory,
        "RLIMIT_CPU": int(time.process_time()) + seconds + 1,
        "RLIMIT_FSIZE": output,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_CORE": 0,
    }
    for name, limit in limits.items():
        with suppress(OSError, AttributeError, ValueError):  # a lower limit holds already
            resource.setrlimit(getattr(resource, name), (limit, limit))


def _address_space() -> int:
    """Return the bytes this process has mapped so far, mostly libraries."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 2 * 2**30  # not Linux


if __name__ == "__main__":
    main()
