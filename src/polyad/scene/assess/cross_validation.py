"""Accuracy from the labels one has: whole trainings on folds of them, tested on the rest.

Every fold trains the preset anew, its choice of settings included, and maps the labels that it did
not see as a map would be made. Statistics of the scene see no labels and are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.errors import InputError
from polyad.scene.assess.evaluation import map_pixels
from polyad.scene.files.option_values import check_folds_by
from polyad.scene.learn.accuracy import NOT_TESTED, CrossValidation, HeldOutLabels, cross_validation
from polyad.scene.learn.folds import (
    SpatialFolds,
    mean_distance,
    pixel_folds,
    spatial_folds,
    testable,
)
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import check_preset
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics
from polyad.scene.learn.training import default_statistics, learnable, train_on
from polyad.scene.raster.band_choice import usable_bands
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.dims import as_labels
from polyad.scene.raster.groups import groups_of
from polyad.scene.raster.patches import extract_patches
from polyad.scene.raster.pixels import valid_pixels
from polyad.scene.raster.tiles import plan_tiles
from polyad.scene.read.colors import with_legend
from polyad.scene.read.labels import check_labels, drop_nodata

Array = npt.NDArray[Any]
FOLDS = 5
SOME_PIXELS = 2000  # of the map, to know how far it lies from the labels
TILE = 32  # side of the tiles round labels of a scene that need not be mapped whole


def cross_validate(
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    pixels: Array | None = None,
    folds: int = FOLDS,
    by: str = "blocks",
    pixelwise: bool = True,
    random_state: int = 0,
    preset: str | None = None,
    goal: str = "this-scene",
    merge: str | Sequence[str] = (),
    estimator: Any = None,
    statistics: SceneStatistics | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
    **parameters: Any,
) -> CrossValidation:
    """Estimate the accuracy of a map from the labels that it is made of.

    Labels are held out by spatial folds. The preset is trained as a whole on the others, its choice
    of settings included, and those held out are tested on the map it makes. Groups of the labels,
    see `polyad.scene.with_groups` and ``groups`` of `polyad.open_labels`, are held out as they are;
    polygons are never split.

    Parameters
    ----------
    scene, labels : DataArray
        As for `polyad.train`.
    pixels : ndarray of int, ``(n, 2)``, optional
        Rows and columns of the labels to use; all when not given.
    folds : int, default=5
    by : {"blocks", "clusters"}, default="blocks"
        What is held out together where the labels have no groups: square blocks of the scene, or
        clusters of blocks that touch. For ``goal="this-scene"`` they are as large as to put labels
        held out about as far from the others as the map's pixels are; else as large as can be.
    pixelwise : bool, default=True
        Whether the figure by folds dealt pixel by pixel is estimated too, for as much time again.
    random_state, preset, goal, merge, estimator, max_bytes, **parameters
        As for `polyad.train`.
    statistics : SceneStatistics, optional
        Of the scene, if they are known; for the best preset.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    CrossValidation

    Raises
    ------
    SceneError
        There are no labels, one class only, or one group only.

    Examples
    --------
    >>> rng, fields = np.random.default_rng(0), np.indices((24, 24)).sum(axis=0) // 6 % 2 + 1
    >>> pixels = fields[..., None] + rng.normal(0, 0.5, (24, 24, 6))
    >>> scene = xr.DataArray(pixels, dims=("y", "x", "band"))
    >>> labels = xr.DataArray(np.where(rng.random((24, 24)) < 0.1, fields, 0), dims=("y", "x"))
    >>> found = cross_validate(scene, labels, folds=2, pixelwise=False, epochs=20, hidden=4)
    >>> found.spatial.overall > 0.8, found.spatial.labels == int((labels > 0).sum())
    (True, True)
    """
    check_folds_by(by)
    if folds < 2:
        raise InputError(f"folds must be 2 or more, got {folds}; a label is held out or trained on")
    check_preset(preset, goal, parameters.get("objective", "overall"))
    scene, labels = prepared(usable_bands(scene)), with_legend(as_labels(labels), merge)
    check_labels(scene, labels)
    labels = drop_nodata(scene, labels)
    pixels = np.argwhere(labels.values > 0) if pixels is None else np.asarray(pixels, np.intp)
    y = learnable(labels, labels.values[tuple(pixels.T)].astype(np.int64))
    ids, targets = np.unique(y, return_inverse=True)
    groups = groups_of(labels, pixels)
    distance = None
    if goal == "this-scene":
        mapped = _some_pixels(scene)
        distance = mean_distance(mapped, pixels) if len(mapped) else None
    if preset is None and estimator is None:
        if statistics is None:
            window = parameters.get("window")
            statistics = default_statistics(scene, len(pixels), window, goal, max_bytes)
        preset = "fast" if statistics is None else "best"
    if preset == "best":
        if statistics is None:
            statistics = scene_statistics(scene, goal, max_bytes)
        parameters["statistics"] = statistics
    dealt = [
        spatial_folds(pixels, targets, folds, random_state, distance, groups=groups, by=by),
        *([pixel_folds(targets, folds, random_state)] if pixelwise else []),
    ]
    options = {"random_state": random_state, "preset": preset, "goal": goal, "max_bytes": max_bytes}
    options |= {name: value for name, value in parameters.items() if name != "verbose"}
    options["score"] = False
    total = sum(len(np.unique(split.fold)) for split in dealt)
    with tqdm(total=total, desc="folds", unit="fold", disable=not progress) as bar:
        tested = [
            _tested(scene, labels, pixels, targets, ids, split, estimator, options, bar)
            for split in dealt
        ]
    known = {c.value: c.name for c in class_table(labels)}
    names = [known[int(v)] for v in ids]
    return cross_validation(
        tested[0], names, tested[1] if pixelwise else None, random_state=random_state
    )


def _tested(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    targets: Array,
    ids: Array,
    split: SpatialFolds,
    estimator: Any,
    options: dict[str, Any],
    bar: Any,
) -> HeldOutLabels:
    """Train on all folds but one and test on that one, for each in turn."""
    predicted = np.full(len(targets), NOT_TESTED, np.intp)
    able = testable(split.fold, targets)
    for k in np.unique(split.fold):
        out, rest = (split.fold == k) & able, split.fold != k
        if out.any() and len(np.unique(targets[rest])) > 1:
            fresh = None if estimator is None else _fresh(estimator)
            model = train_on(scene, labels, pixels[rest], estimator=fresh, **options)
            found = map_labels(model, scene, pixels[out])
            predicted[out] = np.searchsorted(ids, found)
        bar.update()
    folds = len(np.unique(split.fold))
    return HeldOutLabels(targets, predicted, split.group, folds, *split[2:])


def map_labels(model: SceneModel, scene: xr.DataArray, pixels: Array) -> Array:
    """Return the class ids of pixels, ``(n,)``, as a map of the scene has them.

    Only small tiles round them are mapped; a pixel's class does not depend on its tile.
    """
    shape = scene.sizes["y"], scene.sizes["x"]
    return map_pixels(model, scene, pixels, tiles=plan_tiles(shape, (TILE, TILE)))[0]


def _fresh(estimator: Any) -> Any:
    from sklearn.base import clone  # here: it takes a while to import

    return clone(estimator)


def _some_pixels(scene: xr.DataArray) -> Array:
    """Return some pixels with data, ``(m, 2)``, all over the scene."""
    height, width, _ = scene.shape
    step = max(height * width // SOME_PIXELS, 1)
    index = np.arange(step // 2, height * width, step)
    rows, cols = np.unravel_index(index, (height, width))
    spectra = extract_patches(scene, rows, cols, window=1)[:, 0, 0]  # (m, bands)
    valid = valid_pixels(spectra, scene.rio.nodata)
    return np.stack([rows, cols], axis=1)[valid]
