"""Raw arrays on disk, read by windows: NumPy's ``.npy`` files, and what ENVI shares with them.

A memory map would do the same in one line, but its pages count as the process's own memory: with
large pages a window of 26 MB of a BSQ file was seen to take 430 MB. Plain reads take the window.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from polyad.errors import SceneError, reason
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, PixelSource, hull, pick
from polyad.scene.read.formats.opening import Opened

SCALING = "scaling"  # attribute of a scene: what was done to the stored values
_HEADER_BYTES = 2**16  # numpy itself parses no more than 10,000
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# A row is read whole and cropped if at most this many times more is read than needed, or if less
# lies between two runs of elements than one more read costs: microseconds, or a page of a disk.
_OVERREAD, _GAP_BYTES = 4, 16 * 2**10


def read_box(
    path: Path,
    offset: int,
    shape: tuple[int, int, int],
    dtype: np.dtype,
    box: tuple[slice, slice, slice],
) -> Array:
    """Return ``array[box]`` of the C-ordered array that starts at byte ``offset`` of a file.

    Parameters
    ----------
    path : Path
        The file.
    offset : int
        Where the array starts, in bytes.
    shape : tuple of int
        Its shape, axes as in the file.
    dtype : dtype
        Its element type.
    box : tuple of slice
        Start and stop along each axis, step 1.
    """
    size = [s.stop - s.start for s in box]
    out = np.empty(size, dtype)
    near = (shape[2] - size[2]) * dtype.itemsize <= _GAP_BYTES
    whole = near or size[2] * _OVERREAD >= shape[2]
    lane = np.empty((size[1], shape[2]), dtype) if whole else None
    with path.open("rb", buffering=0) as file:
        for i in range(size[0]):
            # Element number of (i, 0, 0) of the box without its last axis.
            start = ((box[0].start + i) * shape[1] + box[1].start) * shape[2]
            if size[2] == shape[2]:
                _fill(file, offset + start * dtype.itemsize, out[i])
            elif lane is not None:
                _fill(file, offset + start * dtype.itemsize, lane)
                out[i] = lane[:, box[2]]
            else:
                for j in range(size[1]):
                    element = start + j * shape[2] + box[2].start
                    _fill(file, offset + element * dtype.itemsize, out[i, j])
    return out


def _fill(file: RawIOBase, position: int, target: Array) -> None:
    """Fill the contiguous ``target`` from ``position``; one read may give less than requested."""
    view = target.data.cast("B")
    file.seek(position)
    while view:
        count = file.readinto(view)
        if not count:
            raise EOFError(f"the file ends {len(view)} bytes too early")
        view = view[count:]


@dataclass(frozen=True)
class NpySource:
    """Pixels of a .npy file, axes (rows, columns, bands)."""

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype
    offset: int
    fortran: bool

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        span, inside = hull(bands)
        if self.fortran:  # the same bytes in C order, axes the other way round
            shape, box = self.shape[::-1], (span, cols, rows)
            window = read_box(self.path, self.offset, shape, self.dtype, box).T
        else:
            box = (rows, cols, span)
            window = read_box(self.path, self.offset, self.shape, self.dtype, box)
        return pick(window, inside)


def open_npy(path: Path, budget: int) -> Opened:  # noqa: ARG001
    """Open a .npy array (rows, columns, bands); pickled objects are never loaded."""
    offset, shape, dtype, fortran = read_npy_header(path)
    guards.check_shape(path, shape)
    height, width, bands = shape
    return Opened.of(NpySource(path, (height, width, bands), dtype, offset, fortran))


def read_npy_header(path: Path) -> tuple[int, tuple[int, ...], np.dtype, bool]:
    """Return offset, shape, element type and whether columns lie first; refuse what is no array."""
    size = guards.existing_file(path)
    with open_regular(path) as file:
        head = io.BytesIO(file.read(_HEADER_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran, dtype = _HEADERS[npy.read_magic(head)](head)
        if min(shape, default=0) < 0:
            raise ValueError(f"its shape is {shape}")
    except Exception as error:  # the header is Python text: a deep one is a MemoryError
        raise SceneError(
            f"{path}: expected an array saved by numpy.save, its header cannot be read "
            f"({reason(error)}); it is truncated, damaged or of another kind, save it again"
        ) from error
    if dtype.hasobject:
        raise SceneError(
            f"{path}: holds pickled Python objects, which can run code when loaded, expected plain "
            "numbers; refused, save a numeric array"
        )
    guards.check_numeric(path, dtype)
    guards.check_stored(path, head.tell() + guards.declared_bytes(shape, dtype), size)
    return head.tell(), shape, dtype, fortran


@dataclass(frozen=True)
class ScaledSource:
    """``gain * stored + offset`` of another source, float32; NaN where that has nodata.

    Parameters
    ----------
    stored : PixelSource
        The pixels as they are in the file.
    order : tuple of int
        Which band of the file each band is.
    gain, offset : tuple of float
        Of each band, in the same order as ``order``.
    nodata : float, optional
        Stored value for "no measurement".
    """

    stored: PixelSource
    order: tuple[int, ...]
    gain: tuple[float, ...]
    offset: tuple[float, ...]
    nodata: float | None

    @property
    def path(self) -> Path | str:
        """The file."""
        return self.stored.path

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and bands."""
        return (*self.stored.shape[:2], len(self.order))

    @property
    def dtype(self) -> np.dtype:
        """Physical values are float32."""
        return np.dtype(np.float32)

    def read(self, rows: slice, cols: slice, bands: NDArray[np.intp]) -> Array:
        """Return one window, shape ``(rows, cols, bands)``."""
        stored = self.stored.read(rows, cols, np.asarray(self.order)[bands])
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 there is no data
            gain, offset = (np.asarray(v, np.float32)[bands] for v in (self.gain, self.offset))
            values = stored.astype(np.float32) * gain + offset
        if self.nodata is not None:
            values[stored == self.nodata] = np.nan
        return values
