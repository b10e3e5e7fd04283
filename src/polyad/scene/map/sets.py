"""Prediction sets of a model's maps, with a promised coverage."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.spatial import cKDTree

from polyad.errors import InputError, PolyadWarning
from polyad.scene.files.option_values import check_coverage
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.refining import active_steps
from polyad.scene.raster.prediction_sets import SetRule, set_members
from polyad.scene.raster.tiles import Tile

Array = npt.NDArray[Any]
ASKED = 20_000  # pixels of a map, about, whose distance to the labels is taken
# Labels held out must lie this share as far from others as the map does, or sets are warned of: on
# Indian Pines, seeds 100 to 103, 0.7 to 1 where promises are kept, below 0.6 in other blocks and
# below 0.4 on other fields.
NEAR = 0.6


def prediction_sets(model: SceneModel, proba: xr.DataArray, coverage: float = 0.9) -> xr.DataArray:
    """Return the classes that each pixel may be of, so that most sets hold the true one.

    Parameters
    ----------
    model : SceneModel
        Trained by preset fast or best: their spatial folds say how far to trust its probabilities.
    proba : DataArray, dims ``(y, x, class)``
        From ``map_scene(model, scene, probabilities=True)``.
    coverage : float, default=0.9
        Promised share of the sets that hold the true class, of pixels like the labels.

    Returns
    -------
    DataArray of bool, dims ``(y, x, class)``
        Whether the class is in the pixel's set. No set is empty but those of pixels that were not
        mapped.
    """
    rule = set_rule(model, coverage)
    proba = proba.transpose(..., "class")
    if proba.sizes["class"] != len(rule.least):
        raise InputError(
            f"the model has {len(rule.least)} classes, the probabilities {proba.sizes['class']}; "
            "pass those of its own map"
        )
    return proba.copy(data=set_members(np.asarray(proba.values), rule) == 1)


def set_rule(model: SceneModel, coverage: float, scene: xr.DataArray | None = None) -> SetRule:
    """Return the rule of the model's sets; refuse where nothing says what they hold.

    A merged class is in the set if its probability is as large as that of one of its parts would
    have to be, so it is in every set that holds such a part.

    Raises
    ------
    InputError
        The model keeps no scores of held-out labels, too few of them for the level, or those of
        maps with label propagation, which a map of this ``scene`` does not have.
    """
    coverage = check_coverage(coverage)
    model.check_classes("ask for --uncertainty instead of --coverage")
    if model.held_out is None:
        raise InputError(
            "the model cannot say what sets hold the true class: it keeps no scores of labels that "
            "were held out; train it with preset fast or best on labels in two places of each class"
        )
    steps = () if model.recipe is None else model.recipe.steps
    if scene is not None and len(active_steps(model, scene)) < len(steps):
        raise InputError(
            "the sets of a model for this-scene are calibrated with label propagation, which a map "
            "of another scene does not have; train with --goal other-scenes (in Python, "
            "goal='other-scenes')"
        )
    rule = model.held_out.rule(coverage, len(model.unmerged.classes))
    if model.merging is None:
        return rule
    parts: list[list[float]] = [[] for _ in model.classes]
    for position, least in zip(model.merging.positions, rule.least, strict=True):
        parts[position].append(least)
    return rule._replace(least=tuple(map(min, parts)))


class LabelDistance:
    """How far the pixels of a map lie from the labels, gathered tile by tile.

    Sets keep their promise where the map lies about as far from the labels as labels that were
    held out lay from the others, and miss it farther away.

    Parameters
    ----------
    model : SceneModel
        Whose sets are written.
    scene : DataArray
        Which is mapped.
    """

    def __init__(self, model: SceneModel, scene: xr.DataArray) -> None:
        self.tested = 0.0 if model.held_out is None else model.held_out.distance
        shape = scene.sizes["y"], scene.sizes["x"]
        self.stride = max(math.isqrt(shape[0] * shape[1] // ASKED), 1)
        self.labels = None  # they lie in another scene
        if model.learned_from(scene):
            self.labels = cKDTree(model.training_pixels(shape))
        self.sum, self.count = 0.0, 0

    def add(self, tile: Tile, class_ids: Array) -> None:
        """Take the mapped pixels of a tile, of all that lie on a grid."""
        if self.labels is None:
            return
        top, left = (-edge.start % self.stride for edge in tile)  # where the grid begins in it
        pixels = np.argwhere(class_ids[top :: self.stride, left :: self.stride]) * self.stride
        pixels += np.array([tile.rows.start + top, tile.cols.start + left])
        self.sum += float(np.sum(self.labels.query(pixels)[0]))
        self.count += len(pixels)

    def warn(self) -> None:
        """Warn if the sets can hardly keep their promise."""
        if self.labels is None:
            said = "the labels that promise it lie in another scene"
        elif self.count and self.tested < NEAR * self.sum / self.count:
            said = (
                f"pixels of the map lie {self.sum / self.count:.0f} pixels from the next label on "
                f"average, labels that were held out only {self.tested:.0f}"
            )
        else:
            return
        warnings.warn(
            "sets will hold the true class less often than promised where no label is near: "
            f"{said}; label some pixels there, or check with polyad evaluate --coverage",
            PolyadWarning,
            stacklevel=3,
        )
