"""Windows of raw arrays on disk, by plain reads.

A memory map would do the same in one line, but its pages count as the process's own memory: with
large pages a window of 26 MB of a BSQ file was seen to take 430 MB. Plain reads take the window.
"""

from __future__ import annotations

from io import RawIOBase
from pathlib import Path

import numpy as np

from polyad.scene.raster.sources import Array

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
