"""`Labels`: class ids of pixels, what the ids mean, and which labels belong together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.groups import GROUP, LabelGroups, groups_of
from polyad.scene.raster.scene import Raster, as_labels

NUMBERED_BY_NAME = "class_ids_numbered_by_name"
"""Attribute of labels whose file has names alone, so that their ids mean nothing outside it."""


@dataclass(frozen=True, eq=False)
class Labels(Raster):
    """A label raster or class map as the package works with it.

    Users pass and receive ``xarray.DataArray``. A public function calls `Labels.of` once, and
    everything behind it takes the `Labels`, whose ids, classes and groups are worked out once.

    Attributes
    ----------
    array : DataArray of int, dims ``(y, x)``
        Class ids, 0 where there is no label.

    Examples
    --------
    >>> labels = Labels.of(xr.DataArray([[[0, 3], [1, 3]]], dims=("band", "y", "x")))
    >>> labels.ids.tolist(), [c.name for c in labels.classes], labels.groups
    ([[0, 3], [1, 3]], ['class 1', 'class 3'], None)
    """

    @classmethod
    def of(cls, labels: xr.DataArray | xr.Dataset | Labels) -> Labels:
        """Return what a user passed as labels, see `as_labels`; `Labels` are returned as such."""
        return labels if isinstance(labels, Labels) else cls(as_labels(labels))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, cols = self.array.shape
        return rows, cols

    @cached_property
    def ids(self) -> NDArray[Any]:
        """Class ids in memory, ``(rows, columns)``."""
        return np.asarray(self.array.values)

    @cached_property
    def classes(self) -> tuple[ClassInfo, ...]:
        """The classes in the order of their ids; see `polyad.scene.class_table`."""
        return class_table(self.array)

    @cached_property
    def groups(self) -> NDArray[np.int32] | None:
        """The group of each pixel, 0 where there is none; None if the labels have no groups."""
        held = self.array.coords.get(GROUP)
        return None if held is None or held.dims != ("y", "x") else np.asarray(held.values)

    @property
    def numbered_by_name(self) -> bool:
        """Whether the ids were counted from names, so that they mean nothing elsewhere."""
        return bool(self.array.attrs.get(NUMBERED_BY_NAME, False))

    def groups_at(self, pixels: NDArray[Any]) -> LabelGroups | None:
        """Return the groups of labeled pixels, ``(n, 2)``; None if the labels have no groups."""
        return groups_of(self.array, pixels)
