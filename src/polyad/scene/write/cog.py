"""Cloud-optimized GeoTIFFs (COG), written window by window.

A COG has its directories first, then its overviews from the smallest on, then its pixels, so that a
GIS can show any part of it at any scale after a few reads. Such a file cannot be written in the
order in which a scene is mapped: windows go into a working file beside it, which gets overviews and
is then copied block by block. Memory is bounded by one window, and the order of the windows leaves
no trace in the bytes.

What was written is read back before it is given its name, because GDAL reports no error when the
disk fills up while it writes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
import rasterio.shutil
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.windows import Window

from polyad.atomic import Outputs, disk_full
from polyad.errors import InputError, OutputError, PolyadError
from polyad.scene.files.paths import SIDES
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.windows import BLOCK
from polyad.scene.write.frame import Slices

_FLUSH_BYTES = 64 * 2**20  # GDAL's cache would else grow to a twentieth of all memory
_BLOCK_BYTES = 8 * 2**20  # of one block, all bands
_LEAST_BLOCK = 16  # a TIFF's blocks have sides of multiples of it


class Raster:
    """One GeoTIFF in the making.

    Parameters
    ----------
    working, temporary : Path
        Where windows go, and where the COG that is made of them goes.
    target : Path
        The name that it will have.
    profile : mapping
        Size, type, number of bands, nodata and georeference, as rasterio names them.
    resampling : rasterio.enums.Resampling
        How overviews are made: the mode of ids, since no class lies between two others.
    """

    def __init__(
        self,
        working: Path,
        temporary: Path,
        target: Path,
        profile: Mapping[str, Any],
        resampling: Resampling,
    ) -> None:
        self._working, self._temporary, self._target = working, temporary, target
        self._resampling = resampling
        self._pending = 0
        self._written = 0
        side = block_side(profile["count"], np.dtype(profile["dtype"]).itemsize)
        # Bands lie together in a block: only then does GDAL mark the layout as that of a COG.
        self._options = {
            "tiled": True, "blockxsize": side, "blockysize": side, "compress": "deflate",
            "interleave": "pixel", "bigtiff": "IF_SAFER",
        }  # fmt: skip
        if "predictor" in profile:
            self._options["predictor"] = profile["predictor"]
        # Sparse at first: blocks exist once they are written, so a block that is missing at the
        # end is one that was never written or did not fit on the disk.
        passing = {"driver": "GTiff", "sparse_ok": True, "zlevel": 1}
        with self._explained():
            self.dataset = open_quietly(working, "w", **dict(profile) | self._options | passing)

    def write(self, window: Slices, bands: npt.NDArray[Any]) -> None:
        """Write ``bands`` (band, rows, columns) into ``window`` (rows, columns)."""
        height, width = self.dataset.shape
        top, bottom, _ = window[0].indices(height)
        left, right, _ = window[1].indices(width)
        if bands.shape != (self.dataset.count, bottom - top, right - left):
            raise InputError(
                f"window of {bottom - top} by {right - left} pixels and {self.dataset.count} "
                f"band(s) does not fit an array of shape {bands.shape}; pass (band, rows, columns)"
            )
        with self._explained():
            self.dataset.write(bands, window=Window(left, top, right - left, bottom - top))
            self._written += (bottom - top) * (right - left)
            self._pending += bands.nbytes
            if self._pending >= _FLUSH_BYTES:
                self.flush()

    def flush(self) -> None:
        """Put on the disk what GDAL holds in memory."""
        with self._explained():
            self.dataset.close()
            # Opened again the file is no longer sparse: blocks of nothing but nodata are kept.
            self.dataset = open_quietly(self._working, "r+", driver="GTiff")
        self._pending = 0

    def finish(self) -> None:
        """Make the COG and read every block of it again."""
        height, width = self.dataset.shape
        with self._explained():
            self.dataset.close()
            if self._written < height * width:
                raise OutputError(
                    f"cannot finish {self._target}: wanted {height * width:,} pixels, got "
                    f"{self._written:,}; write every window of the scene before leaving the block"
                )
            with rasterio.Env(GDAL_TIFF_OVR_BLOCKSIZE=str(self._options["blockxsize"])):
                self._add_overviews((height, width))
                self._check(self._working)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotGeoreferencedWarning)
                    rasterio.shutil.copy(
                        self._working.absolute(),
                        self._temporary.absolute(),
                        driver="GTiff",
                        copy_src_overviews=True,
                        **self._options,
                    )
            self._working.unlink()
            self._check(self._temporary)

    def discard(self) -> None:
        """Close the file whatever state it is in; it will be removed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not self.dataset.closed:
                self.dataset.close()
        for made in (self._working, self._temporary):
            made.with_name(made.name + ".aux.xml").unlink(missing_ok=True)

    def _add_overviews(self, shape: tuple[int, int]) -> None:
        factors = overview_factors(shape)
        if factors:
            with open_quietly(self._working, "r+", driver="GTiff") as dataset:
                dataset.build_overviews(factors, self._resampling)

    def _check(self, path: Path) -> None:
        if not _is_whole(path):
            raise disk_full(self._target)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        # GDAL's errors carry no errno: its own words are given together with the free space.
        try:
            with rasterio.Env():  # what GDAL says beside its errors goes to logging
                yield
        except (PolyadError, MemoryError):
            raise
        except Exception as error:  # not all of GDAL's errors have a public base
            raise disk_full(self._target, got=f"'{error.__cause__ or error}'") from error


@contextmanager
def open_raster(
    outputs: Outputs,
    path: str | os.PathLike[str],
    profile: Mapping[str, Any],
    resampling: Resampling,
    *,
    companion: bool = False,
) -> Iterator[Raster]:
    """Yield a `Raster` that becomes the file at ``path`` when the block ends without an error."""
    target = Path(path)
    outputs.withdraw(*stale_files(target))
    temporary = outputs.temporary(target, companion=companion)
    raster = Raster(outputs.scratch(target), temporary, target, profile, resampling)
    try:
        yield raster
        raster.finish()
    finally:
        raster.discard()


def overview_factors(shape: tuple[int, int]) -> list[int]:
    """Return by how much overviews are reduced, until one is no larger than a block.

    Examples
    --------
    >>> overview_factors((256, 100)), overview_factors((1000, 900))
    ([], [2, 4])
    """
    factors: list[int] = []
    while max(shape) > BLOCK * 2 ** len(factors):
        factors.append(2 ** (len(factors) + 1))
    return factors


def block_side(bands: int, itemsize: int) -> int:
    """Return the side of a block: smaller for very many bands, since a block holds them all.

    Examples
    --------
    >>> block_side(1, 1), block_side(16, 4), block_side(1000, 4)
    (256, 256, 32)
    """
    side = BLOCK
    while side > _LEAST_BLOCK and side**2 * bands * itemsize > _BLOCK_BYTES:
        side //= 2
    return side


def placed(grid: Grid) -> dict[str, Any]:
    """Return size and georeference of a raster as entries of a rasterio profile."""
    if min(grid.shape) < 1:
        raise InputError(f"a raster needs at least one row and one column, got shape {grid.shape}")
    profile: dict[str, Any] = {"height": grid.shape[0], "width": grid.shape[1]}
    place = {"crs": grid.crs, "transform": grid.transform}
    return profile | {key: value for key, value in place.items() if value is not None}


def stale_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that GDAL and QGIS may have put beside an earlier raster at ``path``."""
    return [Path(f"{os.fspath(path)}{suffix}") for suffix in SIDES]


def open_quietly(path: Path, mode: str, **options: Any) -> Any:
    """Return ``rasterio.open(...)`` without its warning that a raster has no georeference."""
    with warnings.catch_warnings():  # a scene without georeference is no fault of the user's
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        # Absolute, so that no name such as "GTIFF_DIR:1:x.tif" means another file
        return rasterio.open(path.absolute(), mode, **options)


def _is_whole(path: Path) -> bool:
    """Return whether every block of a GeoTIFF and of its overviews exists and can be read."""
    with open_quietly(path, "r", driver="GTiff") as dataset:
        levels = len(dataset.overviews(1))
        if levels < len(overview_factors(dataset.shape)):
            return False
    return all(_is_whole_level(path, level) for level in (None, *range(levels)))


def _is_whole_level(path: Path, level: int | None) -> bool:
    options = {} if level is None else {"overview_level": level}
    blocks, first = 1, 0
    while first < blocks:  # opened anew every so often, for the sake of GDAL's cache
        with open_quietly(path, "r", driver="GTiff", **options) as dataset:
            windows = list(dataset.block_windows(1))
            side = dataset.block_shapes[0][0]
            block_bytes = dataset.count * side**2 * np.dtype(dataset.dtypes[0]).itemsize
            blocks, last = len(windows), first + max(1, _FLUSH_BYTES // block_bytes)
            if not all(_block_is_whole(dataset, *window) for window in windows[first:last]):
                return False
        first = last
    return True


def _block_is_whole(dataset: Any, index: tuple[int, int], window: Window) -> bool:
    row, column = index
    if dataset.get_tag_item(f"BLOCK_OFFSET_{column}_{row}", "TIFF", bidx=1) is None:
        return False
    dataset.read(window=window)  # a block cut short by a full disk cannot be inflated
    return True
