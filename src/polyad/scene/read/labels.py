"""Labels of a scene: `open_labels`, the groups of labels, and the check that they fit.

A label raster is a ``uint16`` DataArray with dims ``(y, x)``; 0 means unlabeled. Names and colors
of its classes are kept in attributes, see `polyad.scene.raster.classes`. Pixels of one polygon show
one object, and training on some to test on others proves nothing: shapes are groups unless a field
says what is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from polyad.errors import SceneError, SceneMismatch, told_as, warn_user
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.files.paths import locate
from polyad.scene.raster.classes import UNLABELED, with_classes
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.grid import Grid, check_covers, check_same_place
from polyad.scene.raster.guards import listing, memory_budget
from polyad.scene.raster.labels import GROUP, NO_GROUP, NUMBERED_BY_NAME, Labels, check_groups
from polyad.scene.raster.scene import Scene, describe
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.classes import LAST_CLASS, IdColors, IdNames, complete, join_labels
from polyad.scene.read.features import (
    Annotation,
    Features,
    class_annotations,
    class_fields,
    is_number,
    read_features,
)
from polyad.scene.read.formats.kinds import feature_format
from polyad.scene.read.label_rasters import LabelRaster, read_label_raster
from polyad.scene.read.rasterize import Points, all_outside, check_work, covered, points_inside
from polyad.scene.read.scenes import open_known_labels

PIXELS = 2**16  # read at a time
NAMES = "names"  # attribute of the coordinate: of the groups from 1 on
_ID_DIGITS = 100  # no class id has as many, and Python reads no number of thousands


class _Options(NamedTuple):
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
    known = None if scene is None else Scene.of(scene)
    options = _Options(layer, field, all_touched, groups)
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise SceneError("expected at least one file of labels, got none; name one")
    names = [os.fspath(each) for each in sources]
    rasters = [name for name in names if not is_vector(name)]
    if rasters and groups is not None:
        raise SceneError(
            f"{rasters[0]}: a raster has no field {groups[:80]!r} to group labels by; leave out "
            "--groups (in Python, number the groups and pass them to with_groups)"
        )
    if options != _Options() and len(rasters) == len(names):
        unused = "leave out --layer, --field and --all-touched"
        raise SceneError(f"{names[0]}: a raster has no layers, fields or shapes; {unused}")
    opened = [_open(name, known, options, budget) for name in names]
    labels = opened[0]
    if len(opened) > 1:
        labels = _join_groups(join_labels(opened, names), opened)
    if groups is not None:
        check_groups(labels.coords[GROUP].values[labels.values > 0], f"--groups {groups[:80]}")
    return labels


def _open(source: str, scene: Scene | None, options: _Options, budget: int) -> xr.DataArray:
    """Return the labels of one source."""
    path, key = locate(source)
    remedy = "the file is truncated or damaged, copy it again"
    with told_as(SceneError, f"{path}: the labels cannot be read", remedy):
        if str(path) in KNOWN_SCENES and not path.exists():
            labels = open_known_labels(str(path))
        else:
            grid = None if scene is None else scene.grid
            labels = _read(path, key, grid, options, budget)
    if scene is None:
        return labels
    check_labels(scene, Labels(labels))
    if "spatial_ref" not in labels.coords and scene.grid.transform is not None:
        labels = describe(labels, crs=scene.grid.crs, transform=scene.grid.transform)
    return labels


def is_vector(source: str | os.PathLike[str]) -> bool:
    """Return whether labels are points, lines or polygons, by the ending or content of a file."""
    return feature_format(locate(os.fspath(source))[0]) is not None


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
    ours, labels = Scene.of(scene).grid, Labels.of(labels)
    values = labels.ids
    low, high = values.min(initial=0), values.max(initial=0)
    if values.dtype.kind not in "iu" or low < 0 or high > LAST_CLASS:
        raise SceneError(
            f"labels must hold whole numbers from 0 (unlabeled) to {LAST_CLASS}, got "
            f"{values.dtype} from {low} to {high}; put 0 where there is no label, as in "
            "labels.fillna(0).astype('uint16')"
        )
    check_covers("labels", ours.shape, labels.grid.shape)
    check_same_place(ours, labels.grid)
    if not (values != UNLABELED).any():
        raise SceneError("no pixel is labeled: all are 0; label some pixels of each class")


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
    scene, pixels = Scene.of(scene), np.asarray([rows, cols], np.intp)
    valid = np.zeros(pixels.shape[1], bool)
    for start in range(0, len(valid), PIXELS):
        batch = slice(start, start + PIXELS)
        row, col = pixels[:, batch]
        spectra = extract_patches(scene, row, col, window=1)[:, 0, 0]  # (n, bands)
        valid[batch] = valid_pixels(spectra, scene.nodata)
    return valid


def _read(
    path: Path, key: str | None, grid: Grid | None, options: _Options, budget: int
) -> xr.DataArray:
    if feature_format(path) is None:
        shape = None if grid is None else grid.shape
        return _as_array(read_label_raster(path, key, shape, budget))
    if grid is None:
        message = "points and polygons need the scene's grid, as in open_labels(path, scene)"
        raise SceneError(f"{path}: {message}")
    drawn = read_drawn(path, grid, budget, options)
    raster = LabelRaster(drawn.values, drawn.names, drawn.colors, grid.crs, grid.transform)
    labels = _as_array(raster)
    if drawn.by_name:
        labels = labels.assign_attrs({NUMBERED_BY_NAME: True})
    if options.groups is not None:
        return _with_field_groups(labels, drawn, options.groups)
    if not drawn.is_shape.any():
        return labels
    groups = np.where(drawn.is_shape[drawn.owners], drawn.owners, NO_GROUP)
    return _with(labels, groups, "polygons", ())


def _as_array(raster: LabelRaster) -> xr.DataArray:
    """Wrap ids as a DataArray with the classes that the file names."""
    labels = xr.DataArray(raster.values, dims=("y", "x"), name="class")
    labels = describe(labels, crs=raster.crs, transform=raster.transform)
    return with_classes(labels, complete(raster.values, raster.names, raster.colors))


# Features drawn onto the grid


class Drawn(NamedTuple):
    """Labels drawn onto the grid of a scene.

    Attributes
    ----------
    features : Features
    values : ndarray of uint16, shape (height, width)
    names, colors : dict
        By class id, as far as the file tells.
    owners : ndarray of int, shape (height, width)
        The feature that labels each pixel, counted from 1; 0 where none does.
    is_shape : ndarray of bool, shape (features + 1,)
        Whether a feature, counted from 1, is a line or polygon.
    by_name : bool
        Whether ids were counted from names.
    """

    features: Features
    values: NDArray[np.uint16]
    names: IdNames
    colors: IdColors
    owners: NDArray[np.int32]
    is_shape: NDArray[np.bool_]
    by_name: bool


def read_drawn(path: Path, grid: Grid, budget: int, options: _Options | None = None) -> Drawn:
    """Read points, lines and polygons with classes and draw them onto the grid of a scene.

    Features are drawn in the order of the file: a later one overrides an earlier one, with a
    warning. Labels outside the scene are left out and counted in a warning; a row or column that
    the scene does not have is an error, and so are labels all of which lie outside.
    """
    options = options or _Options()
    more = [] if options.groups is None else [options.groups]
    fields = class_fields(options.field, *more)
    features = read_features(path, budget, layer=options.layer, fields=fields)
    annotations = class_annotations(features, options.field)
    chosen = np.array([a is not None for a in annotations], bool)
    marks = features.marks(grid, chosen)
    if not marks:
        raise SceneError(f"{path}: no label in the file; label some pixels of each class")
    check_work(path, marks, grid.shape)
    ids, names, colors = _number(features, annotations)
    given = np.array([0 if a is None else ids[a.label] for a in annotations], np.uint16)
    values, owners = np.zeros(grid.shape, np.uint16), np.zeros(grid.shape, np.int32)
    drawn = Drawn(
        features, values, names, colors, owners, np.zeros(len(features) + 1, bool),
        not all(map(str.isdecimal, ids)),
    )  # fmt: skip
    clashes: list[int] = []
    outside = count = 0
    for mark in marks:
        if isinstance(mark, Points):
            over, lost = _draw_points(drawn, mark, given)
            clashes += over
            outside, count = outside + lost, count + len(mark.xy)
            continue
        count += 1
        drawn.is_shape[mark.feature + 1] = True
        box = covered(mark, grid.shape, options.all_touched)
        if box is None:
            outside += 1
            continue
        window, inside = values[box[0]], box[1]  # a view
        if (inside & (window != 0) & (window != given[mark.feature])).any():
            clashes.append(mark.feature)
        window[inside] = given[mark.feature]
        owners[box[0]][inside] = mark.feature + 1
    if count == outside:
        raise all_outside(path, f"{count:,} labels", marks, grid)
    if outside:
        warn_user(f"{path}: {outside:,} of {count:,} labels lie outside the scene and are left out")
    if clashes:
        warn_user(
            f"{path}: {len(clashes)} labels fall on pixels that another class has, the first in "
            f"{features.where(clashes[0])}; the later label wins"
        )
    return drawn


def _draw_points(drawn: Drawn, points: Points, given: NDArray[np.uint16]) -> tuple[list[int], int]:
    """Label the pixels of points.

    Returns the features whose pixel had another class already, and how many lie outside.
    """
    values, features = drawn.values, drawn.features
    inside, row, col = points_inside(points.xy, values.shape)
    if features.system == "pixel" and not inside.all():
        k = int(np.argmin(inside))
        x, y = np.floor(points.xy[k]).tolist()
        raise SceneMismatch(
            f"{features.path}, {features.where(int(points.features[k]))}: row {y:.10g}, col "
            f"{x:.10g} lies outside the scene of {values.shape[0]} rows and {values.shape[1]} "
            "columns; remove it"
        )
    index = points.features[inside]
    pixels = np.ravel_multi_index((row, col), values.shape)
    # In the order of the pixels, and of the file for each: what was there is what came before
    order = np.argsort(pixels, kind="stable")
    pixels, new = pixels[order], given[index][order]
    again = np.concatenate([[False], pixels[1:] == pixels[:-1]])[: len(pixels)]
    before = np.where(again, np.roll(new, 1), values.flat[pixels])
    last = ~np.roll(again, -1)
    values.flat[pixels[last]] = new[last]
    drawn.owners.flat[pixels[last]] = index[order][last] + 1
    clashes = np.sort(index[order[(before != 0) & (before != new)]])
    return clashes.tolist(), len(inside) - len(index)


def _number(
    features: Features, annotations: Sequence[Annotation | None]
) -> tuple[dict[str, int], IdNames, IdColors]:
    """Return label -> class id. Labels are all ids or all names; names get ids in their order."""
    names: IdNames = {}
    colors: IdColors = {}
    distinct = [a for a in dict.fromkeys(annotations) if a is not None]
    labels = sorted({annotation.label for annotation in distinct})
    if all(label.isdecimal() for label in labels):
        ids = {label: int(label) for label in labels if len(label) < _ID_DIGITS}
    else:
        # "-1" and "2.5" are invalid ids, not names.
        named = [label for label in labels if label.isdecimal() or not is_number(label)]
        ids = {label: k for k, label in enumerate(named, start=1)}
        names = {k: label for label, k in ids.items()}
    for annotation in distinct:
        value = ids.get(annotation.label)
        if value is None or value > LAST_CLASS:
            raise SceneError(
                f"{features.path}, {features.where(annotations.index(annotation))}: unknown class "
                f"{annotation.label[:40]!r}; expected class names or whole numbers from 1 to "
                f"{LAST_CLASS}; --task regression learns other numbers"
            )
        if annotation.name:
            names.setdefault(value, annotation.name)
        if annotation.color:
            colors.setdefault(value, annotation.color)
    return ids, names, colors


# Groups


def _with_field_groups(labels: xr.DataArray, drawn: Drawn, field: str) -> xr.DataArray:
    """Return labels with the groups that a field, in capitals or not, gives their features."""
    features = drawn.features
    texts = features.texts(field.strip())
    if texts is None:
        raise SceneError(
            f"{features.path}: there is no field {field[:80]!r} to group labels by; it has "
            f"{listing(c.name for c in features.columns) or 'no fields'}"
        )
    used = np.unique(drawn.owners[drawn.values > 0]) - 1
    values = {k: texts[k] for k in used.tolist()}
    empty = [k for k, text in values.items() if text.casefold() in ("", "nan", "none", "null")]
    if empty:
        raise SceneError(
            f"{features.path}: {len(empty):,} labels have no value in the group field "
            f"{field[:80]!r}, the first in {features.where(empty[0])}; fill it in or drop them"
        )
    names = sorted(set(values.values()))
    number_of = {name: k for k, name in enumerate(names, start=1)}
    lookup = np.zeros(len(features) + 1, np.int32)
    lookup[used + 1] = [number_of[text] for text in values.values()]
    groups = np.where(drawn.values > 0, lookup[drawn.owners], NO_GROUP)
    return _with(labels, groups, "groups", names)


def _join_groups(joined: xr.DataArray, rasters: Sequence[xr.DataArray]) -> xr.DataArray:
    """Return labels joined from several files with the groups of all; the later label wins.

    Groups of one name are one, whatever file they are of; shapes of different files differ.
    """
    if not any(GROUP in raster.coords for raster in rasters):
        return joined
    names: dict[str, int] = {}
    numbers = np.zeros(joined.shape, np.int32)
    first, by = 0, "polygons"
    for raster in rasters:
        new = np.zeros(joined.shape, np.int32)
        if GROUP in raster.coords:
            group = raster.coords[GROUP]
            by, new = group.attrs.get("by", by), group.values
            if group.attrs.get(NAMES):
                known = [names.setdefault(name, len(names) + 1) for name in group.attrs[NAMES]]
                new = np.array([NO_GROUP, *known])[new]
            else:
                new = np.where(new > 0, new + first, NO_GROUP)
                first = max(first, int(new.max()))
        numbers = np.where(raster.values > 0, new, numbers)
    return _with(joined, numbers, by, list(names))


def _with(
    labels: xr.DataArray, numbers: NDArray[np.integer], by: str, names: Sequence[str]
) -> xr.DataArray:
    attributes = {"by": by} | ({NAMES: list(names)} if names else {})
    return labels.assign_coords({GROUP: (("y", "x"), numbers.astype(np.int32), attributes)})
