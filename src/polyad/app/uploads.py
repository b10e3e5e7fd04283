"""Uploaded label files, read by a process of their own so that labelling never waits for one."""

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

from polyad.errors import InputError
from polyad.scene.classes import ClassInfo, with_classes
from polyad.scene.formats.guards import human_bytes
from polyad.scene.grid import Grid, grid_of

UPLOADS = {"csv": ".csv", "geojson": ".geojson", "tif": ".tif"}
MEMORY = 2**30  # bytes, and some for each pixel of the scene
SECONDS = 20  # of a processor
PATIENCE = 3  # times as many on the clock: the processor is shared with the fitting
AT_ONCE = 2

_BYTES_PER_PIXEL = 40  # ids as stored, masks and copies
_ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "GDAL_NUM_THREADS": "1",
    "GDAL_CACHEMAX": "64",
    "PROJ_NETWORK": "OFF",
}
_RUN = "import sys; sys.path[:] = {!r}; from polyad.app.upload_worker import main; main()"
_free = threading.BoundedSemaphore(AT_ONCE)


def read_upload(content: bytes, kind: str, scene: xr.DataArray) -> xr.DataArray:
    """Read an uploaded label file of a known kind; its name is never used.

    Raises
    ------
    InputError
        The file is no such file, does not fit the scene, or takes too much memory or time.
    """
    if kind not in UPLOADS:
        raise InputError(f"labels are read from {', '.join(UPLOADS)}, got {kind[:20]!r}")
    if not _free.acquire(blocking=False):
        raise InputError("other label files are being read; load this one when they are done")
    try:
        with tempfile.TemporaryDirectory(prefix="polyad-") as folder:
            path = Path(folder) / f"upload{UPLOADS[kind]}"
            path.write_bytes(content)
            grid = grid_of(scene)
            line, _, raster = _answer(path, grid).partition(b"\n")
            return _labels(line, raster, grid.shape, folder)
    finally:
        _free.release()


def _answer(path: Path, grid: Grid) -> bytes:
    """Return what the process that reads the file has to say."""
    request = {
        "path": str(path),
        "shape": grid.shape,
        "crs": None if grid.crs is None else grid.crs.to_wkt(),
        "transform": None if grid.transform is None else list(grid.transform)[:6],
        "memory": MEMORY + _BYTES_PER_PIXEL * grid.shape[0] * grid.shape[1],
        "seconds": SECONDS,
    }
    # As this process finds its modules, and never from the folder it was started in
    command = [sys.executable, "-I", "-c", _RUN.format([*filter(None, sys.path)])]
    result = path.with_name("answer")
    with result.open("wb") as answer:
        try:
            done = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd=path.parent,
                env=os.environ | _ALONE,
                timeout=SECONDS * PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _given_up() from None
    if done.returncode:
        raise _given_up()
    return result.read_bytes()


def _given_up() -> InputError:
    return InputError(
        f"the file could not be read within {human_bytes(MEMORY)} of memory and {SECONDS} s; "
        "it is damaged or too large, give it to polyad label with --labels"
    )


def _labels(line: bytes, raster: bytes, shape: tuple[int, int], folder: str) -> xr.DataArray:
    """Return the answer as labels; it comes from where the file was, so it is checked."""
    try:
        answer: Any = json.loads(line)
        error = answer.get("error")
        if error is None:
            classes = [ClassInfo(int(v), str(n), str(c)) for v, n, c in answer["classes"]]
            values = np.frombuffer(raster, "<u2").reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _given_up() from None
    if error is not None:
        # The name of the temporary folder means nothing to anyone
        raise InputError(str(error).replace(f"{folder}/", "").replace(folder, "")[:1000])
    return with_classes(xr.DataArray(values.astype(np.uint16), dims=("y", "x")), classes)
