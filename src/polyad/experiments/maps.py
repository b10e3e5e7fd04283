"""Class maps of the first run of each cell, kept for the report."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyad.atomic import replacing


class MapStore:
    """Class maps in a folder, one compressed array per cell.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, cell: str, class_map: NDArray[np.uint16]) -> None:
        """Keep the map of ``cell``, shape (height, width)."""
        small = class_map.astype(np.uint8) if class_map.max(initial=0) < 256 else class_map
        with replacing(self.folder / f"{cell}.npz") as part, part.open("wb") as stream:
            np.savez_compressed(stream, classes=small)

    def load(self, cell: str) -> NDArray[np.uint16] | None:
        """Return the map of ``cell``, or None if there is none."""
        path = self.folder / f"{cell}.npz"
        if not path.exists():
            return None
        with np.load(path) as stored:
            return stored["classes"].astype(np.uint16)
