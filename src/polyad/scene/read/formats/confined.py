"""What the confined process does with a scene: it opens it and reads its windows.

`kinds.Confined` asks. All formats are imported before that process is confined, once for all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyad import sandbox
from polyad.scene.raster.sources import Array
from polyad.scene.read.formats import emit, hdf, kinds, matlab, prisma, rasters, tanager
from polyad.scene.read.formats.opening import Opened

# Layouts of HDF5 files, the most particular first; they are told apart in the open file.
_LAYOUTS: tuple[
    tuple[Callable[[hdf.Hdf5File], bool], Callable[[hdf.Hdf5File, str | None], Opened]], ...
] = (
    (prisma.is_prisma, prisma.open_prisma),
    (emit.is_emit, emit.open_emit),
    (tanager.is_tanager, tanager.open_tanager),
    (matlab.is_matlab73, matlab.open_matlab73),
    (lambda _: True, hdf.open_hdf),
)


def open_hdf5(path: Path, key: str | None, budget: int) -> Opened:
    """Open a scene in an HDF5 file of any layout."""
    with hdf.open_listed(path, budget) as opened:
        return next(opener for fits, opener in _LAYOUTS if fits(opened))(opened, key)


for _kind in kinds.KINDS:
    kinds.load(_kind.open)


def describe(
    scene: kinds.Confined, identity: list[list[int]]
) -> tuple[Path | str, tuple[int, int, int], np.dtype, dict[str, object]]:
    """Return file, shape, element type and description of a scene."""
    opened = _opened(scene, str(identity))
    source = opened.source
    return source.path, source.shape, source.dtype, opened.description


def read_window(
    scene: kinds.Confined,
    identity: list[list[int]],
    rows: slice,
    cols: slice,
    bands: NDArray[np.intp],
) -> Array:
    """Return one window of a scene."""
    return _opened(scene, str(identity)).source.read(rows, cols, bands)


@functools.lru_cache(maxsize=2)
def _opened(scene: kinds.Confined, _identity: str) -> Opened:
    if isinstance(scene.path, str):  # urllib and TLS: only when asked
        remote = sandbox.load(f"{__package__}.remote")
        opened: Opened = remote.open_remote(scene.path, scene.budget)
        return opened
    if len(scene.parts) > 1:
        return rasters.open_bands(scene.path, scene.parts, scene.budget)
    return kinds.open_kind(kinds.kind_of(scene.path), scene.path, scene.key, scene.budget)
