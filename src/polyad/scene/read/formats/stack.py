"""A scene that is split into one TIFF or JPEG 2000 file for each band: a folder, or a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polyad.errors import SceneError
from polyad.scene.raster import guards
from polyad.scene.read.formats.band_tags import columns
from polyad.scene.read.formats.mosaic import (
    MosaicSource,
    Piece,
    RasterFile,
    common,
    describe_raster,
)
from polyad.scene.read.formats.opening import Opened, check_beside

_ENDINGS = (".tif", ".tiff", ".jp2", ".j2k")
MOST_FILES = 10_000  # bands of a scene


def split_files(folder: Path) -> list[Path]:
    """Return the image files of a folder, in the natural order of their names."""
    if not folder.is_dir():
        return []
    files = [p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS]
    return sorted(files, key=lambda p: natural(p.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers in names by their value.

    Examples
    --------
    >>> sorted(["B10.tif", "B9.tif", "B1.tif"], key=natural)
    ['B1.tif', 'B9.tif', 'B10.tif']
    """
    words = re.findall(r"\d+|\D+", name.lower())
    return [
        (0, int(word), "") if word.isdecimal() and len(word) < 19 else (1, 0, word)
        for word in words
    ]


def open_folder(path: Path, key: str | None, budget: int) -> Opened:
    """Open a folder of single-band files as one scene."""
    if key is not None:
        raise SceneError(f"{path}: a folder of bands takes no key, got ':{key}'; leave it out")
    return open_bands(path, [check_beside(path, file) for file in split_files(path)], budget)


def open_bands(path: Path, files: Sequence[Path], budget: int) -> Opened:
    """Open single-band files as one scene, named ``path`` in messages.

    The bands are ordered by wavelength if every file tells one, else as given.
    """
    guards.check_count(path, len(files), MOST_FILES, "files of bands")
    rasters = [describe_raster(file, budget) for file in files]
    for raster in rasters:
        if raster.source.shape[2] != 1:
            raise SceneError(
                f"{raster.source.path}: wanted files of one band each, got "
                f"{raster.source.shape[2]} bands; open that file alone, or move it elsewhere"
            )
    order = _by_wavelength(rasters)
    rasters = [rasters[i] for i in order]
    height, width, _ = common(path, "size", [r.source.shape for r in rasters])
    dtype = common(path, "type", [r.source.dtype for r in rasters])
    crs = common(path, "reference system", [r.crs for r in rasters])
    transform = common(path, "place on the map", [r.transform for r in rasters])
    nodata = common(path, "nodata value", [r.nodata for r in rasters])
    pieces = tuple((Piece(r.source, 0, (0, 0), (0, 0), (height, width)),) for r in rasters)
    return Opened.of(
        MosaicSource(path, (height, width, len(rasters)), dtype, pieces, 0),
        **columns([r.bands[0] for r in rasters]),
        number=np.array(order) + 1,
        crs=crs,
        transform=transform,
        nodata=nodata,
    )


def _by_wavelength(rasters: Sequence[RasterFile]) -> list[int]:
    centers = [r.bands[0][0] for r in rasters]
    if None in centers:
        return list(range(len(rasters)))
    return sorted(range(len(rasters)), key=lambda i: centers[i] or 0.0)
