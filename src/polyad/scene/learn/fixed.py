"""A published split as a protocol: one raster of training pixels, one of test pixels."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from polyad.errors import InputError, SceneMismatch
from polyad.scene.learn.sampling import Labels, Split
from polyad.scene.raster.classes import UNLABELED
from polyad.scene.raster.scene import label_values
from polyad.scene.read.labels import open_labels


@dataclass(frozen=True, eq=False)
class FixedSplit:
    """Training and test pixels as somebody published them; a seed changes nothing.

    Parameters
    ----------
    train, test : ndarray or DataArray of int, shape (height, width)
        Class ids of the training and of the test pixels, 0 elsewhere. No pixel is in both, and
        every class of the test raster has training pixels.

    Examples
    --------
    >>> given = FixedSplit(np.array([[1, 2], [0, 0]]), np.array([[0, 0], [1, 2]]))
    >>> split = given.split(given.labels, seed=0)
    >>> split.train.tolist(), split.test.tolist()
    ([[0, 0], [0, 1]], [[1, 0], [1, 1]])
    """

    train: Labels
    test: Labels
    protocol: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        train, test = self._values()
        if train.shape != test.shape:
            raise SceneMismatch(
                f"the training raster is {_size(train.shape)}, the test raster {_size(test.shape)} "
                "pixels; give two rasters of one scene"
            )
        both = int(((train != UNLABELED) & (test != UNLABELED)).sum())
        if both:
            raise InputError(
                f"{both} pixels are in the training and in the test raster; set them to 0 in one "
                "of the two"
            )
        for name, values in (("training", train), ("test", test)):
            if not values.any():
                raise InputError(f"the {name} raster has no labeled pixel, only 0")
        alien = np.setdiff1d(test, np.append(train, UNLABELED))
        if len(alien):
            listed = ", ".join(map(str, alien))
            raise InputError(
                f"the test raster has classes without a training pixel: {listed}; set their "
                "pixels to 0, or add training pixels"
            )

    @classmethod
    def open(cls, train: str | os.PathLike[str], test: str | os.PathLike[str]) -> FixedSplit:
        """Read both rasters; see `polyad.scene.open_labels` for the formats."""
        return cls(open_labels(train), open_labels(test))

    @property
    def labels(self) -> NDArray[np.uint16]:
        """Both rasters in one, shape (height, width)."""
        train, test = self._values()
        return np.where(train != UNLABELED, train, test).astype(np.uint16)

    @property
    def name(self) -> str:
        """``fixed-`` and eight digits that change with any pixel of either raster."""
        whole = b"".join(np.ascontiguousarray(v, dtype="<u2").tobytes() for v in self._values())
        return f"{self.protocol}-{hashlib.sha256(whole).hexdigest()[:8]}"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split; ``labels`` of the scene must have the rasters' shape."""
        del seed
        train, test = self._values()
        shape = label_values(labels).shape
        if shape != train.shape:
            raise SceneMismatch(
                f"the rasters of the split are {_size(train.shape)}, the scene is {_size(shape)} "
                "pixels; give rasters of this scene"
            )
        return Split(np.argwhere(train != UNLABELED), np.argwhere(test != UNLABELED))

    def _values(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        return label_values(self.train), label_values(self.test)


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
