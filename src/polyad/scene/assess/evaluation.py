"""Evaluation: a model's predictions on labeled pixels that it did not learn from."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import PolyadWarning, SceneError, SceneMismatch
from polyad.scene.assess.scores import INVENTED, RENUMBERED, Scores, score
from polyad.scene.assess.set_scores import SetScores, score_sets
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.radiometry import corrupt_pixels
from polyad.scene.learn.sampling import Split, no_overlap
from polyad.scene.map.mapping import iter_map, scene_tiles, set_rule
from polyad.scene.raster.classes import class_key
from polyad.scene.raster.dims import as_labels, as_scene
from polyad.scene.raster.inside import note_read_whole
from polyad.scene.raster.tiles import Tile
from polyad.scene.read.class_matching import in_model_ids
from polyad.scene.read.labels import check_labels, drop_nodata

Array = npt.NDArray[Any]


def evaluate(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    split: Split | None = None,
    adapt: bool | None = None,
    progress: bool = False,
) -> Scores:
    """Score a model on labeled pixels that it did not learn from.

    Only the tiles that hold test pixels are mapped. Classes are matched by name where model and
    labels both have names, else by id. Test pixels of classes that the model does not know are left
    out and counted in `Scores.left_out`.

    Parameters
    ----------
    model : SceneModel
    scene, labels : DataArray
    split : Split, optional
        From a sampler, such as `polyad.scene.blocks` or ``from_labels``. By default, on
        the scene the model learned from, all labeled pixels but its training pixels are the test
        set; on another scene, all labeled pixels.
    adapt : bool, optional
        Whether the model is adapted to the scene's light, see `polyad.scene.adapt_model`.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    Scores
        With the accuracy on all test pixels and on those whose window shares no pixel with any
        training window.
    """
    return examine(model, scene, labels, split, adapt=adapt, progress=progress).scores


@dataclass(frozen=True)
class Examination:
    """A model's predictions on the test pixels, and their scores.

    Attributes
    ----------
    scores : Scores
    split : Split
        Without the test pixels of classes that the model does not know.
    labels : DataArray
        In the model's ids, names and colors; classes that it does not know follow its own.
    confidence : ndarray, ``(n_test,)``
        Probability of the class predicted.
    right : ndarray of bool, ``(n_test,)``
    fit_seconds : float or None
        Of the whole training; None if the model does not say.
    map_seconds : float
        For the tiles that were mapped.
    adapted : str or None
        How the model was adapted to the scene's light, in words.
    sets : SetScores or None
        How often prediction sets hold the true class, if asked for.
    replaced : int or None
        Corrupt pixels of the scene, read as their neighbors; None of a large scene of which only
        a part was mapped.
    """

    scores: Scores
    split: Split
    labels: xr.DataArray
    confidence: Array
    right: Array
    n_train: int
    fit_seconds: float | None
    map_seconds: float
    adapted: str | None = None
    sets: SetScores | None = None
    replaced: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings."""
        return (
            self.scores.to_dict()
            | {
                "n_train": self.n_train,
                "n_test": len(self.split.test),
                "fit_seconds": None if self.fit_seconds is None else round(self.fit_seconds, 4),
                "map_seconds": round(self.map_seconds, 4),
                "pixels_replaced": self.replaced,
            }
            | ({} if self.adapted is None else {"adapted": self.adapted})
            | ({} if self.sets is None else self.sets.to_dict())
        )


def examine(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    split: Split | None = None,
    *,
    whole: Array | None = None,
    adapt: bool | None = None,
    coverage: float | None = None,
    progress: bool = False,
) -> Examination:
    """Map the test pixels and compare; see `evaluate`, and for ``whole`` see `map_pixels`.

    With ``coverage``, prediction sets of that level are scored too.
    """
    model.check_classes("compare it with values by polyad.scene.examine_values")
    model = adapt_model(model, scene, adapt)
    scene, labels = model.view(scene), as_labels(labels)
    rule = None if coverage is None else set_rule(model, coverage, scene)
    check_labels(scene, labels)
    split = held_out(model, scene, labels) if split is None else split
    known, split, matched = known_pixels(model, labels, split)
    true = known.values[tuple(split.test.T)]
    started = time.perf_counter()
    predicted, proba = map_pixels(model, scene, split.test, whole=whole, progress=progress)
    seconds = time.perf_counter() - started
    apart = no_overlap(split, labels.shape, model.window)
    scores = score(true, predicted, proba, classes=model.classes, no_overlap=apart)
    scores = replace(scores, **matched)
    # Names that came without ids were numbered by their alphabet: others hardly number them so
    invented = bool(model.training.get("numbered_by_name"))
    if scores.renumbering_gain >= (INVENTED if invented else RENUMBERED):
        warnings.warn(
            "classes were matched by id, but the labels seem to number them otherwise than the "
            "model does; give the labels class names, or train on labels with the same ids",
            PolyadWarning,
            stacklevel=2,
        )
    return Examination(
        scores,
        split,
        known,
        proba.max(axis=1),
        predicted == true,
        len(model.training.get("pixels", [])),
        model.fit_seconds,
        seconds,
        model.adapted,
        None if rule is None else score_sets(true, proba, rule, model.classes),
        corrupt_pixels(scene),
    )


def map_pixels(
    model: SceneModel,
    scene: xr.DataArray,
    pixels: Array,
    *,
    whole: Array | None = None,
    progress: bool = False,
    tiles: Sequence[Tile] | None = None,
) -> tuple[Array, Array]:
    """Classify the given pixels, ``(n, 2)``, by mapping the tiles in which they lie.

    Parameters
    ----------
    model, scene, progress
        See `polyad.scene.map_scene`.
    pixels : ndarray of int, ``(n, 2)``
    whole : ndarray of int, ``(y, x)``, optional
        Filled with the ids of all pixels: every tile is mapped then.
    tiles : sequence of Tile, optional
        To choose from; by default those that a scene is mapped by.

    Returns
    -------
    ids : ndarray, ``(n,)``
    proba : ndarray of float32, ``(n, classes)``
    """
    scene = as_scene(scene)
    ids = np.zeros(len(pixels), np.int64)
    proba = np.empty((len(pixels), len(model.classes)), np.float32)
    place = np.full((scene.sizes["y"], scene.sizes["x"]), -1, np.int64)  # of each pixel in ids
    place[tuple(pixels.T)] = np.arange(len(pixels))
    some = scene_tiles(scene, model=model) if tiles is None else tiles
    wanted = [tile for tile in some if whole is not None or (place[tile] >= 0).any()]
    for tile, class_ids, shares in iter_map(model, scene, True, progress=progress, tiles=wanted):
        if whole is not None:
            whole[tile] = class_ids
        inside = place[tile] >= 0
        ids[place[tile][inside]] = class_ids[inside]
        proba[place[tile][inside]] = shares[inside] if shares is not None else np.nan
    if tiles is None and len(wanted) == len(some):
        note_read_whole(scene)
    return ids, proba


def held_out(model: SceneModel, scene: xr.DataArray, labels: xr.DataArray) -> Split:
    """Return the training pixels of ``model`` in ``scene``, and all other labeled pixels."""
    scene, labels = model.view(scene), as_labels(labels)
    labeled = drop_nodata(scene, labels).values > 0
    train_pixels = np.empty((0, 2), np.intp)
    if model.learned_from(scene):
        train_pixels = model.training_pixels(labels.shape)
        labeled = labeled.copy()
        labeled[tuple(train_pixels.T)] = False
    test = np.argwhere(labeled)
    if len(test) == 0:
        raise SceneError(
            "every labeled pixel was used for training, none is left to test on; "
            "train with --samples-per-class or bring more labels"
        )
    return Split(train_pixels, test)


def known_pixels(
    model: SceneModel, labels: xr.DataArray, split: Split
) -> tuple[xr.DataArray, Split, dict[str, Any]]:
    """Return labels and split as the model knows them, and what `Scores` say about that.

    Returns
    -------
    labels : DataArray
        In the model's ids, names and colors.
    split : Split
        Without the test pixels of classes that the model does not know.
    matched : dict
        ``matched_by`` and ``left_out`` of the `Scores`.

    Raises
    ------
    SceneMismatch
        If the model knows none of the test pixels' classes.
    """
    renumbered, match = in_model_ids(labels, model.classes)
    true = labels.values[tuple(split.test.T)]
    strange = np.isin(true, [c.value for c in match.unknown])
    if len(true) and strange.all():
        theirs = ", ".join(class_key(c) for c in match.unknown if c.value in true)
        ours = ", ".join(class_key(c) for c in model.classes)
        raise SceneMismatch(
            f"none of the {len(true)} test pixels is of a class that the model knows: matched by "
            f"{match.by}, the labels hold {theirs}, the model knows {ours}; name or number the "
            "labels' classes as the model's"
        )
    left_out = tuple((c, n) for c in match.unknown if (n := int((true == c.value).sum())))
    kept = Split(split.train, split.test[~strange])
    return renumbered, kept, {"matched_by": match.by, "left_out": left_out}
