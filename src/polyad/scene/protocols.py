"""How a map is put to the test: which pixels teach and which are asked, as objects with a name.

The random draw is what most papers report. It flatters whoever recognises the field a pixel stands
in, since nearly every field is among the training pixels: the other protocols take that away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from typing import Protocol as TypedProtocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from polyad.errors import InputError
from polyad.scene.classes import UNLABELLED
from polyad.scene.order import label_values
from polyad.scene.patches import Border, interior
from polyad.scene.sampling import Labels, Split, blocks, no_overlap, per_class


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

    With ``border="drop"`` pixels whose window leaves the scene are neither taught nor asked.
    """

    n: int = 10
    window: int = 5
    border: Border = "reflect"
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Short and unique for its settings."""
        return f"{self.kind}-{self.n}"


@dataclass(frozen=True)
class RandomPerClass(_PerClass):
    """``n`` random pixels of each class teach, all others are asked (the paper's protocol).

    Examples
    --------
    >>> RandomPerClass(10).name
    'random-10'
    """

    kind = "random"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``; see `polyad.scene.sampling.per_class`."""
        return per_class(labels, self.n, seed, border=self.border, window=self.window)


@dataclass(frozen=True)
class NoOverlap(_PerClass):
    """As `RandomPerClass`, asking only pixels whose window shares none with a training window."""

    kind = "no-overlap"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``."""
        found = RandomPerClass(self.n, self.window, self.border).split(labels, seed)
        return Split(
            found.train, found.test[no_overlap(found, label_values(labels).shape, self.window)]
        )


@dataclass(frozen=True)
class OtherFields(_PerClass):
    """``n`` pixels of one field of each class teach, the class's other fields are asked.

    A field is a connected region of one class, corners included. Classes with a single field, or
    with no field of ``n`` pixels, are left out.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [2, 2, 0, 2, 2]])
    >>> split = OtherFields(2).split(labels, seed=0)
    >>> len(split.train), len(split.test)
    (4, 4)
    """

    kind = "other-fields"

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``."""
        rng = np.random.default_rng(seed)
        values = label_values(labels)
        if self.border == "drop":
            height, width = values.shape
            rows, cols = np.ogrid[:height, :width]
            whole = interior(rows, cols, values.shape, self.window)
            values = np.where(whole, values, UNLABELLED)
        train: list[NDArray[np.intp]] = []
        test: list[NDArray[np.intp]] = []
        for value in np.unique(values[values != UNLABELLED]):
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
    """Square blocks of the scene teach, the others are asked, with a dead zone between them."""

    kind = "blocks"
    size: int = 20
    share: float = 0.5

    def split(self, labels: Labels, seed: int) -> Split:
        """Return the split drawn by ``seed``; see `polyad.scene.sampling.blocks`."""
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
