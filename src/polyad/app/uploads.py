"""Uploaded label files, read in a separate process so that labeling never waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from polyad.app.upload_worker import SHAPEFILE
from polyad.errors import InputError
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.grid import Grid, grid_of
from polyad.scene.raster.guards import human_bytes

# Endings of the files that --labels reads, and of those that may come with them: the other files of
# a Shapefile, a style of QGIS, the data of an ENVI header.
UPLOADS = (
    "csv", "tsv", "txt", "geojson", "json", "gpkg", "shp", "zip", "fgb", "kml",
    "tif", "tiff", "png", "npy", "mat", "nc", "h5", "hdr",
)  # fmt: skip
BESIDE = (*SHAPEFILE[1:], "img", "dat", "bin", "raw", "bsq", "bil", "bip")
MEMORY = 2**30  # bytes, plus some for each pixel of the scene
SECONDS = 20  # of CPU time
WALL_FACTOR = 3  # times as many seconds on the clock, since the CPU is shared with training
MAX_PROCESSES = 2

_BYTES_PER_PIXEL = 40  # for ids, masks and copies
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "GDAL_NUM_THREADS": "1",
    "GDAL_CACHEMAX": "64",
    "PROJ_NETWORK": "OFF",
}
_SCRIPT = "import sys; sys.path[:] = {!r}; from polyad.app.upload_worker import main; main()"
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
        with tempfile.TemporaryDirectory(prefix="polyad-") as folder:
            path = Path(folder) / f"upload.{kind}"
            for ending, part in files.items():
                path.with_suffix(f".{ending}").write_bytes(part)
            grid = grid_of(scene)
            line, _, raster = _run_worker(path, grid).partition(b"\n")
            return _labels(line, raster, grid.shape, folder)
    finally:
        _slots.release()


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


def _run_worker(path: Path, grid: Grid) -> bytes:
    """Return the answer of `polyad.app.upload_worker`, which reads the file."""
    request = {
        "path": str(path),
        "shape": grid.shape,
        "crs": None if grid.crs is None else grid.crs.to_wkt(),
        "transform": None if grid.transform is None else list(grid.transform)[:6],
        "memory": MEMORY + _BYTES_PER_PIXEL * grid.shape[0] * grid.shape[1],
        "seconds": SECONDS,
    }
    # The same module path as here, but never the current folder
    command = [sys.executable, "-I", "-c", _SCRIPT.format([*filter(None, sys.path)])]
    answer_path = path.with_name("answer")
    with answer_path.open("wb") as answer:
        try:
            process = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd=path.parent,
                env=os.environ | _ENVIRONMENT,
                timeout=SECONDS * WALL_FACTOR,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _unreadable() from None
    if process.returncode:
        raise _unreadable()
    return answer_path.read_bytes()


def _unreadable() -> InputError:
    return InputError(
        f"the file could not be read within {human_bytes(MEMORY)} of memory and {SECONDS} s; "
        "it is damaged or too large, give it to polyad label with --labels"
    )


def _labels(line: bytes, raster: bytes, shape: tuple[int, int], folder: str) -> xr.DataArray:
    """Return the answer as labels; a hostile file may have written it, so it is checked."""
    try:
        answer: Any = json.loads(line)
        error = answer.get("error")
        if error is None:
            classes = [ClassInfo(int(v), str(n), str(c)) for v, n, c in answer["classes"]]
            values = np.frombuffer(raster, "<u2").reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _unreadable() from None
    if error is not None:
        # The temporary folder means nothing to the user
        raise InputError(str(error).replace(f"{folder}/", "").replace(folder, "")[:1000])
    return with_classes(xr.DataArray(values.astype(np.uint16), dims=("y", "x")), classes)
