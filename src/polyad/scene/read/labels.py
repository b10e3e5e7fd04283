"""Labels of a scene: `open_labels`, the groups of labels, and the check that they fit.

A label raster is a ``uint16`` DataArray with dims ``(y, x)``; 0 means unlabeled. Names and colors
of its classes are kept in attributes, see `polyad.scene.raster.classes`. Pixels of one polygon show
one object, and training on some to test on others proves nothing: shapes are groups unless a field
says what is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import SceneError, told_as
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.files.paths import locate
from polyad.scene.raster.classes import UNLABELED, with_classes
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import Grid, check_covers, check_same_place
from polyad.scene.raster.guards import listing, memory_budget
from polyad.scene.raster.labels import GROUP, NO_GROUP, NUMBERED_BY_NAME, Labels, check_groups
from polyad.scene.raster.scene import Scene, describe
from polyad.scene.raster.windows import iter_patches
from polyad.scene.read.class_tables import complete
from polyad.scene.read.classes import join_labels
from polyad.scene.read.features import (
    Features,
    class_annotations,
    class_fields,
    feature_format,
    read_features,
)
from polyad.scene.read.label_rasters import LabelRaster, read_label_raster
from polyad.scene.read.rasterize import Mark, Points, annotations_of, draw
from polyad.scene.read.scenes import open_known_labels

NAMES = "names"  # attribute of the coordinate: of the groups from 1 on


@dataclass(frozen=True)
class _Ways:
    """How features become labels; see `open_labels`."""

    layer: str | None = None
    field: str | None = None
    all_touched: bool = False
    groups: str | None = None


def open_labels(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    scene: xr.DataArray | None = None,
    *,
    layer: str | None = None,
    field: str | None = None,
    all_touched: bool = False,
    groups: str | None = None,
    max_bytes: int | None = None,
) -> xr.DataArray:
    """Open labels of any kind as a raster of class ids.

    Classes given by name alone are numbered in the alphabetical order of their names. Of several
    sources, classes are joined by name, or by id where there are no names; where two of them label
    one pixel differently, the later one wins, with a warning.

    Parameters
    ----------
    source : str or path, or a sequence of them
        A raster of class ids (GeoTIFF, ENVI, PNG, ``.npy``, ``file.mat:key``, ``file.nc:var``); a
        GeoPackage, Shapefile, FlatGeobuf or KML (with ``polyad[vector]``) or a GeoJSON of points,
        lines and polygons; a CSV with columns ``row,col,class``, ``x,y,class`` (or
        ``easting,northing``) or ``lon,lat,class`` (or ``longitude,latitude``); or the name of a
        known scene.
    scene : DataArray with dims y, x, ..., optional
        The scene the labels belong to; all but rasters need it. If given, labels are checked
        against it and take over its georeference where they have none.
    layer : str, optional
        Which layer of a file that has several.
    field : str, optional
        Which field of the features is the class; by default the only one of text or whole numbers
        whose values repeat. Features without a value are skipped, with a warning.
    all_touched : bool, default=False
        Label every pixel that a line or polygon touches, not only those whose centers lie in a
        polygon or that a line passes.
    groups : str, optional
        Which field says what labels belong together, such as a plot or a day; `cross_validate`
        and `train` then hold out whole groups. By default each line or polygon is a group.
    max_bytes : int, optional
        Most bytes that may be read at once; half of the machine's memory if not given.

    Returns
    -------
    DataArray of uint16, dims (y, x)
        0 is unlabeled.

    Raises
    ------
    SceneError, SceneMismatch
    BudgetExceeded
        The labels take more than ``max_bytes``.

    Examples
    --------
    >>> labels = open_labels("indian-pines")
    >>> labels.shape, Labels.of(labels).classes[8].name
    ((145, 145), 'Oats')
    """
    budget = memory_budget(max_bytes)
    grid = None if scene is None else Scene.of(scene).grid
    ways = _Ways(layer, field, all_touched, groups)
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise SceneError("expected at least one file of labels, got none; name one")
    if groups is not None and not all(map(is_vector, sources)):
        raster = next(each for each in sources if not is_vector(each))
        raise SceneError(
            f"{os.fspath(raster)}: a raster has no field {groups[:80]!r} to group labels by; leave "
            "out --groups (in Python, number the groups and pass them to with_groups)"
        )
    if ways != _Ways() and not any(map(is_vector, sources)):
        raise SceneError(
            f"{os.fspath(sources[0])}: a raster has no layers, fields or shapes; leave out --layer,"
            " --field and --all-touched"
        )
    rasters = [_open(each, grid, ways, budget) for each in sources]
    names = [os.fspath(each) for each in sources]
    labels = rasters[0]
    if len(rasters) > 1:
        labels = join_groups(join_labels(rasters, names), rasters)
    if groups is not None:
        check_field_groups(labels, groups)
    return labels


def _open(
    source: str | os.PathLike[str], grid: Grid | None, ways: _Ways, budget: int
) -> xr.DataArray:
    """Return the labels of one source."""
    path, key = locate(os.fspath(source))
    if str(path) in KNOWN_SCENES and not path.exists():
        labels = open_known_labels(str(path))
    else:
        remedy = "the file is truncated or damaged, copy it again"
        with told_as(SceneError, f"{path}: the labels cannot be read", remedy):
            labels = _read(path, key, grid, ways, budget)
    if grid is None:
        return labels
    check_place(grid, Labels(labels))
    if "spatial_ref" not in labels.coords and grid.transform is not None:
        labels = describe(labels, crs=grid.crs, transform=grid.transform)
    return labels


def is_vector(source: str | os.PathLike[str]) -> bool:
    """Return whether labels are points, lines or polygons, by the ending or content of a file."""
    path, _ = locate(os.fspath(source))
    return feature_format(path) is not None


def check_labels(scene: xr.DataArray | Scene, labels: xr.DataArray | Labels) -> None:
    """Raise an error unless ``labels`` lie on the grid of ``scene`` and hold at least one label.

    Parameters
    ----------
    scene : Scene, or DataArray with dims y, x, ...
    labels : Labels, or DataArray of int, dims (y, x)

    Raises
    ------
    SceneMismatch
        If sizes, reference systems or positions differ.
    SceneError
        If no pixel is labeled.
    """
    check_place(Scene.of(scene).grid, Labels.of(labels))


def check_place(ours: Grid, labels: Labels) -> None:
    """Raise an error unless there are labels, on the grid of their scene; see `check_labels`."""
    values, theirs = labels.ids, labels.grid
    if values.dtype.kind not in "iu" or values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise SceneError(
            f"labels must hold whole numbers from 0 (unlabeled) to 65535, got {values.dtype} from "
            f"{values.min(initial=0)} to {values.max(initial=0)}; put 0 where there is no label, "
            "as in labels.fillna(0).astype('uint16')"
        )
    check_covers("labels", ours.shape, theirs.shape)
    check_same_place(ours, theirs)
    if not (values != UNLABELED).any():
        raise SceneError(
            "no pixel is labeled: all labels are 0 (unlabeled); label some pixels of each class"
        )


def drop_nodata(scene: xr.DataArray | Scene, labels: xr.DataArray | Labels) -> xr.DataArray:
    """Return ``labels`` with 0 where the scene has no data in any band.

    Only the labeled pixels are read, a bounded number at a time.

    Examples
    --------
    >>> scene = xr.DataArray(np.array([[[1.0], [np.nan]]]), dims=("y", "x", "band"))
    >>> drop_nodata(scene, xr.DataArray(np.array([[1, 2]]), dims=("y", "x"))).values
    array([[1, 0]])
    """
    known = Labels.of(labels)
    rows, cols = np.nonzero(known.ids)
    lost = ~has_data(scene, rows, cols)
    values = known.ids.copy()
    values[rows[lost], cols[lost]] = UNLABELED
    return known.array.copy(data=values)


def has_data(scene: xr.DataArray | Scene, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.bool_]:
    """Return which pixels have a measurement in every band, shape (n,).

    Only these pixels are read, a bounded number at a time.

    Examples
    --------
    >>> scene = xr.DataArray(np.array([[[1.0], [np.nan]]]), dims=("y", "x", "band"))
    >>> has_data(scene, [0, 0], [0, 1])
    array([ True, False])
    """
    scene, valid = Scene.of(scene), np.zeros(len(np.asarray(rows)), bool)
    for chosen, patches in iter_patches(scene, rows, cols, window=1):  # (n, 1, 1, bands)
        valid[chosen] = valid_pixels(patches[:, 0, 0], scene.nodata)
    return valid


def _read(path: Path, key: str | None, grid: Grid | None, ways: _Ways, budget: int) -> xr.DataArray:
    if feature_format(path) is None:
        shape = None if grid is None else grid.shape
        return _as_array(read_label_raster(path, key, shape, budget))
    if grid is None:
        raise SceneError(
            f"{path}: labels as points or polygons are drawn onto a scene's grid; pass the scene, "
            f"as in open_labels(path, scene)"
        )
    fields = class_fields(ways.field, *filter(None, [ways.groups]))
    features = read_features(path, budget, layer=ways.layer, fields=fields)
    marks = features.marks(class_annotations(features, ways.field), grid)
    if ways.groups is None and all(isinstance(mark, Points) for mark in marks):
        return _drawn(path, marks, grid, ways.all_touched)
    owners = np.zeros(grid.shape, np.int32)
    labels = _drawn(path, marks, grid, ways.all_touched, owners)
    if ways.groups is None:
        return shape_groups(labels, marks, owners)
    return field_groups(labels, features, ways.groups, owners)


def _drawn(
    path: Path,
    marks: list[Mark],
    grid: Grid,
    all_touched: bool,
    owners: NDArray[np.int32] | None = None,
) -> xr.DataArray:
    if not marks:
        raise SceneError(f"{path}: no label in the file; label some pixels of each class")
    values, names, colors = draw(path, marks, grid, all_touched=all_touched, owners=owners)
    labels = _as_array(LabelRaster(values, names, colors, grid.crs, grid.transform))
    by_name = not all(a.label.isdecimal() for a in annotations_of(marks))
    return labels.assign_attrs({NUMBERED_BY_NAME: True}) if by_name else labels


def _as_array(raster: LabelRaster) -> xr.DataArray:
    """Wrap ids as a DataArray with the classes that the file names."""
    labels = xr.DataArray(raster.values, dims=("y", "x"), name="class")
    labels = describe(labels, crs=raster.crs, transform=raster.transform)
    return with_classes(labels, complete(raster.values, raster.names, raster.colors))


def shape_groups(
    labels: xr.DataArray, marks: Sequence[Mark], owners: NDArray[np.int32]
) -> xr.DataArray:
    """Return labels with a group for each line or polygon; points have none."""
    shapes = [mark.number for mark in marks if not isinstance(mark, Points)]
    if not shapes:
        return labels
    drawn = np.zeros(int(owners.max()) + 1, bool)
    drawn[[number for number in shapes if number < len(drawn)]] = True
    numbers = np.where(drawn[owners], owners, NO_GROUP)
    return _with(labels, numbers, "polygons", ())


def field_groups(
    labels: xr.DataArray, features: Features, field: str, owners: NDArray[np.int32]
) -> xr.DataArray:
    """Return labels with the groups that a field gives the features they come from.

    Parameters
    ----------
    labels : DataArray of int, dims (y, x)
    features : Features
    field : str
        Which column, property or field holds the group, in capitals or not.
    owners : ndarray of int, shape (height, width)
        Number of the line or feature that labels each pixel, 0 where none does.
    """
    texts = features.texts(field.strip())
    if texts is None:
        raise SceneError(
            f"{features.path}: there is no field {field[:80]!r} to group labels by; it has "
            f"{listing(c.name for c in features.columns) or 'no fields'}"
        )
    given = zip(features.numbers, texts, strict=True)
    values = {k: text for k, text in given if text.casefold() not in ("", "nan", "none", "null")}
    used = np.unique(owners[labels.values > 0])
    missing = [int(number) for number in used if int(number) not in values]
    if missing:
        raise SceneError(
            f"{features.path}: {len(missing):,} labels have no value in {field[:80]!r}, by which "
            f"labels are grouped, the first in line or feature {missing[0]}; fill it in, or leave "
            "them out"
        )
    names = sorted({values[int(number)] for number in used})
    number_of = {name: k for k, name in enumerate(names, start=1)}
    lookup = np.zeros(int(used.max()) + 1, np.int32)
    lookup[used] = [number_of[values[int(number)]] for number in used]
    groups = np.where(labels.values > 0, lookup[np.minimum(owners, len(lookup) - 1)], NO_GROUP)
    return _with(labels, groups, "groups", names)


def join_groups(joined: xr.DataArray, rasters: Sequence[xr.DataArray]) -> xr.DataArray:
    """Return labels joined from several files with the groups of all; the later label wins.

    Groups of one name are one, whatever file they are of; shapes of different files differ.
    """
    if not any(GROUP in raster.coords for raster in rasters):
        return joined
    names: dict[str, int] = {}
    numbers: NDArray[Any] = np.zeros(joined.shape, np.int32)
    first, by = 0, "polygons"
    for raster in rasters:
        own: NDArray[Any] = np.zeros(joined.shape, np.int32)
        if GROUP in raster.coords:
            group = raster.coords[GROUP]
            about = {"by": by, NAMES: (), **group.attrs}
            by, own = str(about["by"]), group.values.copy()
            if len(about[NAMES]):
                known = [names.setdefault(name, len(names) + 1) for name in about[NAMES]]
                own = np.array([NO_GROUP, *known])[own]
            else:
                own = np.where(own > 0, own + first, NO_GROUP)
                first = max(first, int(own.max()))
        numbers = np.where(raster.values > 0, own, numbers)
    return _with(joined, numbers, by, list(names))


def check_field_groups(labels: xr.DataArray, field: str) -> None:
    """Raise `SceneError` unless the groups of a field are two at least."""
    check_groups(labels.coords[GROUP].values[labels.values > 0], f"--groups {field[:80]}")


def _with(
    labels: xr.DataArray, numbers: NDArray[Any], by: str, names: Sequence[str]
) -> xr.DataArray:
    attributes = {"by": by} | ({NAMES: list(names)} if names else {})
    return labels.assign_coords({GROUP: (("y", "x"), numbers.astype(np.int32), attributes)})
