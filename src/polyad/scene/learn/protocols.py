"""Protocols: which labeled pixels train and which test, as objects with a name.

The random draw is what most papers report. It flatters a model that recognizes the field a pixel
lies in, since nearly every field has training pixels: the other protocols take that away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from typing import Protocol as TypedProtocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from polyad.errors import InputError
from polyad.scene.learn.sampling import Labels, Split, blocks, no_overlap, per_class
from polyad.scene.raster.classes import UNLABELED
from polyad.scene.raster.patches import Border, interior
from polyad.scene.raster.scene import label_values


class Protocol(TypedProtocol):
    """Draws a split of a label raster; ``name`` tells it apart in tables and records."""

    @property
    def name(self) -> str:
        """Short and unique for its settings."""

    def split(self, labels: Labels, seed: int) -> Split:
        """Return training and test pixels of ``labels``, ``(height, width)``, drawn by ``seed``."""


@dataclass(frozen=True)
class _PerClass:
    """``n`` training pixels of each class, however they are drawn.

    With ``border="drop"`` pixels whose window leaves the scene neither train nor test.
    """

    n: int = 10
    window: int = 5
    border: Border = "reflect"
    protocol: ClassVar[str]

    @property
    def name(self) -> str:
        """Short and unique for its settings."""
        return f"{self.protocol}-{self.n}"


@dataclass(frozen=True)
class RandomPerClass(_PerClass):
    """``n`` random pixels of each class train, all others test (the paper's protocol).

    Examples
    --------
    >>> RandomPerClass(10).name
    'random-10'
    """

    protocol = "random"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``; see `polyad.scene.per_class`."""
        return per_class(labels, self.n, seed, border=self.border, window=self.window)


@dataclass(frozen=True)
class NoOverlap(_PerClass):
    """As `RandomPerClass`, tested only where the window shares no pixel with a training window."""

    protocol = "no-overlap"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``."""
        drawn = RandomPerClass(self.n, self.window, self.border).split(labels, seed)
        apart = no_overlap(drawn, label_values(labels).shape, self.window)
        return Split(drawn.train, drawn.test[apart])


@dataclass(frozen=True)
class OtherFields(_PerClass):
    """``n`` pixels of one field of each class train, the class's other fields test.

    A field is a connected region of one class, corners included. Classes with a single field, or
    with no field of ``n`` pixels, are left out.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [2, 2, 0, 2, 2]])
    >>> split = OtherFields(2).split(labels, seed=0)
    >>> len(split.train), len(split.test)
    (4, 4)
    """

    protocol = "other-fields"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``."""
        rng = np.random.default_rng(seed)
        values = label_values(labels)
        if self.border == "drop":
            height, width = values.shape
            rows, cols = np.ogrid[:height, :width]
            whole = interior(rows, cols, values.shape, self.window)
            values = np.where(whole, values, UNLABELED)
        train: list[NDArray[np.intp]] = []
        test: list[NDArray[np.intp]] = []
        for value in np.unique(values[values != UNLABELED]):
            field, count = ndimage.label(values == value, np.ones((3, 3)))
            sizes = np.bincount(field.ravel(), minlength=count + 1)[1:]
            large = np.flatnonzero(sizes >= self.n) + 1
            if count < 2 or not len(large):
                continue
            chosen = rng.choice(large)
            train.append(rng.permutation(np.argwhere(field == chosen))[: self.n])
            test.append(np.argwhere((field > 0) & (field != chosen)))
        if len(train) < 2:
            raise InputError(
                f"fewer than two classes have several fields, one of them with {self.n} pixels; "
                "ask for fewer pixels, or use another protocol"
            )
        return Split(np.concatenate(train), np.concatenate(test))


@dataclass(frozen=True)
class Blocks(_PerClass):
    """Square blocks of the scene train, the others test, with a dead zone between them."""

    protocol = "blocks"
    size: int = 20
    share: float = 0.5

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``; see `polyad.scene.blocks`."""
        return blocks(
            labels,
            self.share,
            seed,
            size=self.size,
            n=self.n,
            border=self.border,
            window=self.window,
        )


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        RandomPerClass(5),
        RandomPerClass(10),
        RandomPerClass(30),
        NoOverlap(10),
        OtherFields(10),
        Blocks(10),
    )
}
