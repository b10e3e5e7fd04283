"""Uploaded label files, read in a confined process so that labeling never waits."""

from __future__ import annotations

import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad import sandbox
from polyad.errors import InputError, PolyadError, SceneError
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.grid import Grid, check_same_place, grid_of
from polyad.scene.raster.guards import human_bytes
from polyad.scene.read.classes import complete
from polyad.scene.read.label_rasters import read_label_raster
from polyad.scene.read.labels import read_drawn

VECTORS = {".csv", ".tsv", ".txt", ".geojson", ".json", ".gpkg", ".shp", ".zip", ".fgb", ".kml"}
SHAPEFILE = ("shp", "shx", "dbf", "prj", "cpg", "qml")  # the first three must be there
# Endings of the files that --labels reads, and of those that may come with them: the other files of
# a Shapefile, a style of QGIS, the data of an ENVI header.
UPLOADS = (
    "csv", "tsv", "txt", "geojson", "json", "gpkg", "shp", "zip", "fgb", "kml",
    "tif", "tiff", "png", "npy", "mat", "nc", "h5", "hdr",
)  # fmt: skip
BESIDE = (*SHAPEFILE[1:], "img", "dat", "bin", "raw", "bsq", "bil", "bip")
MEMORY = 2**30  # bytes, plus some for each pixel of the scene
SECONDS = 20  # of CPU time
MAX_PROCESSES = 2

_BYTES_PER_PIXEL = 40  # for ids, masks and copies
_UNPACKED = 64 * 2**20  # bytes of all files in a zip
_slots = threading.BoundedSemaphore(MAX_PROCESSES)


def read_upload(content: bytes, kind: str, scene: xr.DataArray, beside: str = "") -> xr.DataArray:
    """Read an uploaded label file of a known kind; its own name is never used.

    Parameters
    ----------
    content : bytes
        The file, followed by those that belong to it.
    kind : str
        Its ending, one of `UPLOADS`.
    scene : DataArray
    beside : str
        Endings and sizes of the files that follow, as ``"dbf:120,shx:108"``.

    Raises
    ------
    InputError
        The file is of another kind, does not fit the scene, or takes too much memory or time.
    """
    if kind not in UPLOADS:
        raise InputError(
            f"expected labels in a file ending in {', '.join(UPLOADS)}, got {kind[:20]!r}; convert "
            "it, as to GeoPackage or GeoTIFF"
        )
    files = _split(content, kind, beside)
    missing = [f".{end}" for end in SHAPEFILE[:3] if end not in files] if kind == "shp" else []
    if missing:
        raise InputError(
            f"a Shapefile is several files, {' and '.join(missing)} missing; choose all of them "
            "together (.shp, .shx, .dbf, .prj), or a zip of them"
        )
    if not _slots.acquire(blocking=False):
        raise InputError("other label files are being read; load this one when they are done")
    try:
        with tempfile.TemporaryDirectory(prefix="polyad-") as name:
            folder = Path(name).resolve()
            for ending, part in files.items():
                (folder / f"upload.{ending}").write_bytes(part)
            grid = grid_of(scene)
            memory = MEMORY + _BYTES_PER_PIXEL * grid.shape[0] * grid.shape[1]
            try:
                values, classes = sandbox.run(
                    f"{__name__}:read_file", folder / f"upload.{kind}", grid, memory // 2,
                    name="the file", limits=sandbox.Limits(memory, SECONDS, written=_UNPACKED),
                    files=[folder], scratch=folder,
                )  # fmt: skip
            except (PolyadError, RuntimeError) as error:
                # The temporary folder means nothing to the user
                text = str(error).replace(f"{folder}/", "").replace(str(folder), "")
                if not isinstance(error, PolyadError):
                    text = f"the file cannot be read ({text[:200]}); save it again"
                raise InputError(text[:1000]) from error
    finally:
        _slots.release()
    return with_classes(xr.DataArray(values, dims=("y", "x")), classes)


def _split(content: bytes, kind: str, beside: str) -> dict[str, bytes]:
    """Return the files of a request by their endings."""
    try:
        named = [part.split(":") for part in beside.split(",") if part]
        sizes = {ending: int(size) for ending, size in named}
    except ValueError:
        raise InputError(f"expected endings and sizes, got {beside[:40]!r}") from None
    start = len(content) - sum(sizes.values())
    if start < 0 or min(sizes.values(), default=0) < 0 or not set(sizes) <= set(BESIDE):
        raise InputError(f"expected files that belong to a .{kind}, got {beside[:40]!r}")
    files = {kind: content[:start]}
    for ending, size in sizes.items():
        files[ending] = content[start : start + size]
        start += size
    return files


def read_file(
    path: Path, grid: Grid, budget: int
) -> tuple[NDArray[np.uint16], tuple[ClassInfo, ...]]:
    """Return class ids on the scene's grid, and the classes (in the confined process)."""
    if path.suffix in VECTORS:
        drawn = read_drawn(unpacked(path), grid, budget)
        values, names, colors = drawn.values, drawn.names, drawn.colors
    else:
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
