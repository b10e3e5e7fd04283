"""NumPy ``.npy`` files, read window by window."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from polyad.errors import SceneError, told_as
from polyad.safe_open import open_regular
from polyad.scene.raster import guards
from polyad.scene.raster.sources import Array, hull, pick
from polyad.scene.read.formats.opening import Opened
from polyad.scene.read.formats.raw import read_box

_HEADER_BYTES = 2**16  # numpy itself parses no more than 10,000
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


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


def open_npy(path: Path, key: str | None, budget: int) -> Opened:  # noqa: ARG001
    """Open a .npy array (rows, columns, bands); pickled objects are never loaded."""
    size = guards.existing_file(path)
    if key is not None:
        raise SceneError(f"{path}: a .npy file holds one array and no key, got ':{key}'; drop it")
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that Python 2 wrote
        what = f"{path}: wanted a .npy file of version 1 or 2, its header cannot be read"
        remedy = "it is truncated or damaged, save it again with numpy.save"
        check_header(path)
        with told_as(SceneError, what, remedy):
            shape, fortran, dtype = _HEADERS[npy.read_magic(file)](file)
        offset = file.tell()
    if dtype.hasobject:
        raise SceneError(
            f"{path}: holds pickled Python objects, which can run code when loaded, wanted plain "
            "numbers; refused, save the scene as a numeric array"
        )
    guards.check_numeric(path, dtype)
    guards.check_shape(path, shape)
    height, width, bands = shape
    guards.check_stored(path, offset + guards.declared_bytes(shape, dtype), size)
    source = NpySource(path, (height, width, bands), dtype, offset, fortran)
    return Opened.of(source)


def check_header(path: Path) -> None:
    """Refuse a file that is no .npy or declares a long header, which numpy reads unchecked."""
    with open_regular(path) as file:
        start = file.read(12)
    if start.startswith(b"PK"):
        raise SceneError(f"{path}: wanted one array (.npy), got an archive; save the array alone")
    width = 2 if start[6:7] == b"\x01" else 4
    length = int.from_bytes(start[8 : 8 + width], "little")
    if not start.startswith(npy.MAGIC_PREFIX) or length > _HEADER_BYTES:
        raise SceneError(
            f"{path}: wanted a plain NumPy array with a header of at most "
            f"{guards.human_bytes(_HEADER_BYTES)}, got none; it is another kind of file or "
            "damaged, save it again with numpy.save"
        )
