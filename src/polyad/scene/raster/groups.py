"""Groups of labels: which labeled pixels belong together and are held out together.

They are a coordinate ``group`` of the labels, dims ``(y, x)``, whole numbers, 0 where there is
none. Whatever crops or renumbers labels keeps it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneError, SceneMismatch
from polyad.scene.raster.scene import as_labels

Array = npt.NDArray[Any]
GROUP = "group"
NO_GROUP = 0


class LabelGroups(NamedTuple):
    """The groups of some labels.

    Attributes
    ----------
    ids : ndarray of int, ``(n,)``
        A label without a group is a group of its own.
    by : {"groups", "polygons"}
        Given by the user, and then held out as they are; or the shapes that labels were drawn as,
        which are held out whole, together with others of their block.
    """

    ids: Array
    by: str


def with_groups(labels: xr.DataArray, groups: Any, by: str = "groups") -> xr.DataArray:
    """Return labels with groups, which are held out together when accuracy is estimated.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    groups : DataArray or ndarray of int, dims (y, x)
        Such as the number of a plot, a field or a day; every labeled pixel must have one.
    by : {"groups", "polygons"}, default="groups"

    Examples
    --------
    >>> labels = xr.DataArray([[1, 1, 2, 2]], dims=("y", "x"))
    >>> with_groups(labels, [[7, 7, 8, 9]])["group"].values.tolist()
    [[7, 7, 8, 9]]
    """
    labels = as_labels(labels)
    values = np.asarray(groups.values if isinstance(groups, xr.DataArray) else groups)
    if values.shape != labels.shape:
        raise SceneMismatch(
            f"groups must cover the labels' {labels.shape[0]} rows and {labels.shape[1]} columns, "
            f"got {values.shape}; give one number for each pixel"
        )
    labeled = labels.values > 0
    if values.dtype.kind == "f" and np.isfinite(values[labeled]).all():
        whole = np.where(labeled, values, NO_GROUP)
        values = whole.astype(np.int64) if (whole % 1 == 0).all() else values
    if values.dtype.kind not in "iub":
        raise SceneError(
            f"groups must be whole numbers, got {values.dtype} with missing or broken ones; number "
            "the groups, and give every labeled pixel one"
        )
    if by == "groups":
        check_groups(values[labeled])
    # Numbers may be as long as those of parcels are: what counts is which are the same
    distinct = np.unique(values[labeled & (values != NO_GROUP)])
    if len(distinct) and (distinct[0] < 0 or distinct[-1] >= 2**31):
        values = np.searchsorted(distinct, values) + 1
    numbers = np.where(labeled, values, NO_GROUP).astype(np.int32)
    return labels.assign_coords({GROUP: (("y", "x"), numbers, {"by": by})})


def check_groups(ids: Array, name: str = "groups") -> None:
    """Raise `SceneError` unless every label has a group and there are two groups at least."""
    missing = int(np.count_nonzero(ids == NO_GROUP))
    if missing:
        raise SceneError(
            f"{name}: {missing:,} of {len(ids):,} labeled pixels have no group (0), so what they "
            "belong to cannot be held out; give every label a group"
        )
    if len(ids) and (ids == ids[0]).all():
        raise SceneError(
            f"{name}: all {len(ids):,} labels are of one group, so none is left to train on when "
            "it is held out; wanted two groups at least"
        )


def groups_of(labels: xr.DataArray, pixels: Array) -> LabelGroups | None:
    """Return the groups of labeled pixels, ``(n, 2)``; None if the labels have no groups.

    Examples
    --------
    >>> labels = xr.DataArray([[1, 1, 2, 2]], dims=("y", "x"))
    >>> drawn = with_groups(labels, [[7, 7, 0, 0]], by="polygons")
    >>> groups_of(drawn, np.array([[0, 0], [0, 1], [0, 2], [0, 3]])).ids.tolist()
    [7, 7, 8, 9]
    """
    if GROUP not in labels.coords or labels.coords[GROUP].dims != ("y", "x"):
        return None
    ids = labels.coords[GROUP].values[tuple(pixels.T)].astype(np.int64)
    if not ids.any():
        return None
    alone = ids == NO_GROUP
    ids[alone] = ids.max() + 1 + np.arange(np.count_nonzero(alone))
    return LabelGroups(ids, str(labels.coords[GROUP].attrs.get("by", "groups")))
