"""A scene whose bands lie in several rasters, or in several pieces of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray

from polyad.errors import SceneError
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats import jpeg2000
from polyad.scene.read.formats.band_tags import Facts
from polyad.scene.read.formats.geotiff import TiffSource, open_tiff, tiff_bands, tiff_source
from polyad.scene.read.formats.sidecars import georeference

TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


@dataclass(frozen=True)
class RasterFile:
    """A raster that is part of a scene: where its pixels lie, and what it says of itself."""

    source: TiffSource
    bands: tuple[Facts, ...]
    nodata: float | None
    crs: Any
    transform: Affine | None


def describe_raster(path: Path, budget: int) -> RasterFile:
    """Check the header of a TIFF or JPEG 2000 file and return what it says."""
    guards.existing_file(path)
    with open_regular(path) as file:
        head = file.read(16)
    with _opened(path, head, budget) as dataset:
        tiff = head.startswith(TIFF_MAGIC)
        source = tiff_source(path, dataset, budget) if tiff else jpeg2000.jp2_source(path, dataset)
        place = georeference(path, dataset)
        return RasterFile(source, tuple(tiff_bands(path, dataset)), dataset.nodata, **place)


def _opened(path: Path, head: bytes, budget: int) -> AbstractContextManager[Any]:
    if head.startswith(TIFF_MAGIC):
        return open_tiff(path, budget)
    if head.startswith(jpeg2000.MAGIC):
        return jpeg2000.open_jp2(path, budget)
    raise SceneError(f"{path}: wanted a TIFF or JPEG 2000 file, got another kind; convert it")


@dataclass(frozen=True)
class Piece:
    """A rectangle of one band of a file, and where its first pixel lies in the scene.

    Parameters
    ----------
    source : TiffSource
    band : int
        Of the file, from 0.
    here, there : (row, column)
        Of the first pixel in the scene and in the file.
    size : (rows, columns)
    nodata : float, optional
        Values that are not put into the scene.
    """

    source: TiffSource
    band: int
    here: tuple[int, int]
    there: tuple[int, int]
    size: tuple[int, int]
    nodata: float | None = None


@dataclass(frozen=True)
class MosaicSource:
    """Pixels from pieces, the later over the earlier ones.

    Parameters
    ----------
    path : Path
        Of the whole, for messages.
    shape : (rows, columns, bands)
    dtype : dtype
    pieces : tuple of tuple of Piece
        Of each band.
    fill : float
        Where no piece lies.
    """

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype
    pieces: tuple[tuple[Piece, ...], ...]
    fill: float

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        out = np.full(
            (rows.stop - rows.start, cols.stop - cols.start, len(bands)), self.fill, self.dtype
        )
        for turn in range(max((len(self.pieces[b]) for b in bands), default=0)):
            for (source, here, there, size, nodata), pairs in self._alike(bands, turn).items():
                spans = [
                    _overlap(span, start, length)
                    for span, start, length in zip((rows, cols), here, size, strict=True)
                ]
                if any(span.stop <= span.start for span in spans):
                    continue
                window = [
                    slice(span.start - h + t, span.stop - h + t)
                    for span, h, t in zip(spans, here, there, strict=True)
                ]
                found = source.read(window[0], window[1], np.array([b for _, b in pairs]))
                target = out[
                    spans[0].start - rows.start : spans[0].stop - rows.start,
                    spans[1].start - cols.start : spans[1].stop - cols.start,
                ]
                places = [place for place, _ in pairs]
                kept = target[..., places]
                target[..., places] = (
                    found if nodata is None else np.where(found == nodata, kept, found)
                )
        return out

    def _alike(self, bands: NDArray[np.intp], turn: int) -> dict[Any, list[tuple[int, int]]]:
        """Group the pieces of one turn that are read together: place in the window, file band."""
        groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        for place, band in enumerate(bands):
            if turn < len(self.pieces[band]):
                p = self.pieces[band][turn]
                groups[p.source, p.here, p.there, p.size, p.nodata].append((place, p.band))
        return groups


def _overlap(span: slice, start: int, length: int) -> slice:
    return slice(max(span.start, start), min(span.stop, start + length))


def common(path: Path, what: str, values: Sequence[Any]) -> Any:
    """Return the one value that all parts of a scene have; refuse parts that differ."""
    first = values[0]
    for value in values:
        nan = value != value and first != first  # noqa: PLR0124  (nodata may be NaN)
        if value != first and not nan:
            raise SceneError(
                f"{path}: wanted one {what} in all files of the scene, got {first} and {value}; "
                "write the files on one grid with one type"
            )
    return first
