"""From a scene and labels to a fitted `SceneModel`, and an honest score of one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.classes import class_table
from polyad.scene.labels import check_labels, drop_nodata
from polyad.scene.mapping import map_scene
from polyad.scene.model import SceneModel, fingerprint
from polyad.scene.patches import Border, extract_patches, iter_patches
from polyad.scene.readers import memory_budget, valid_pixels
from polyad.scene.sampling import Split, no_overlap, per_class
from polyad.scene.scores import Scores, score

Array = npt.NDArray[Any]

# Passes over a training set that does not fit in memory; each sees every pixel once.
STREAMED_EPOCHS = 10


def train(
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    window: int = 5,
    samples_per_class: int | None = None,
    border: Border = "reflect",
    random_state: int = 0,
    max_bytes: int | None = None,
    estimator: Any = None,
    **parameters: Any,
) -> SceneModel:
    """Fit a model on labelled pixels of a scene.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    labels : DataArray, dims ``(y, x)``
        Class ids, 0 where unlabelled; see `polyad.scene.labels.open_labels`.
    window : int, default=5
        Side of the square of pixels the model looks at; odd.
    samples_per_class : int, optional
        Draw this many pixels of each class; all labelled pixels when not given.
    border : {"reflect", "drop"}, default="reflect"
        What happens to pixels whose window leaves the scene.
    random_state : int, default=0
    max_bytes : int, optional
        Memory that training patches may take, by default a quarter of the machine's. A larger
        training set is gathered batch by batch.
    estimator : classifier, optional
        Any classifier of patches; by default a `RankRClassifier` with ``parameters``.
    **parameters
        Of `RankRClassifier`: ``rank``, ``hidden``, ``solver``, ``epochs`` and so on.

    Returns
    -------
    SceneModel
    """
    check_labels(scene, labels)
    labels = drop_nodata(scene, labels)
    if samples_per_class is None:
        pixels = np.argwhere(labels.values > 0)
    else:
        options: dict[str, Any] = {"border": border, "window": window}
        pixels = per_class(labels, samples_per_class, random_state, **options).train
    return train_on(
        scene,
        labels,
        pixels,
        window=window,
        random_state=random_state,
        max_bytes=max_bytes,
        estimator=estimator,
        **parameters,
    )


def train_on(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    *,
    window: int = 5,
    random_state: int = 0,
    max_bytes: int | None = None,
    estimator: Any = None,
    **parameters: Any,
) -> SceneModel:
    """Fit a model on the given pixels, ``(n, 2)`` rows and columns; see `train`."""
    if len(pixels) == 0:
        raise SceneError("there is no labelled pixel to learn from; label at least one")
    rows, cols = pixels.T
    y = labels.values[rows, cols].astype(np.int64)
    if estimator is None:
        estimator = RankRClassifier(random_state=random_state, **parameters)
    elif parameters:
        raise InputError(
            f"parameters {', '.join(parameters)} belong to the default model; set them on the "
            "estimator that was passed"
        )
    needed = len(pixels) * window**2 * scene.sizes["band"] * 4
    budget = memory_budget(max_bytes, share=0.25)
    if needed <= budget:
        X = _filled(scene, extract_patches(scene, rows, cols, window))
        estimator.fit(X, y)
    else:
        _fit_streamed(estimator, scene, pixels, y, window, budget, random_state)
    known = {c.value: c for c in class_table(labels)}
    wavelength = scene["wavelength"].values if "wavelength" in scene.coords else None
    return SceneModel(
        estimator,
        window,
        tuple(known[int(v)] for v in estimator.classes_),
        scene.sizes["band"],
        None if wavelength is None else tuple(float(w) for w in wavelength),
        {"scene": fingerprint(scene), "pixels": pixels.tolist()},
    )


def evaluate(
    model: SceneModel, scene: xr.DataArray, labels: xr.DataArray, *, split: Split | None = None
) -> Scores:
    """Score a model on labelled pixels that it did not learn from.

    Parameters
    ----------
    model : SceneModel
    scene, labels : DataArray
    split : Split, optional
        By default, on the scene the model learned from, all labelled pixels but its training
        pixels are the test set; on another scene, all labelled pixels.

    Returns
    -------
    Scores
        With the accuracy on all test pixels and on those whose window shares no pixel with any
        training window.
    """
    return evaluate_timed(model, scene, labels, split)[0]


def evaluate_timed(
    model: SceneModel, scene: xr.DataArray, labels: xr.DataArray, split: Split | None = None
) -> tuple[Scores, dict[str, Any]]:
    """Return the scores, and with them as one dict the pixel counts and the seconds taken."""
    check_labels(scene, labels)
    split = held_out(model, scene, labels) if split is None else split
    started = time.perf_counter()
    class_map, proba = map_scene(model, scene, probabilities=True)
    seconds = time.perf_counter() - started
    scores = score_map(model, class_map, proba, labels, split)
    return scores, scores.to_dict() | {
        "n_train": len(model.training.get("pixels", [])),
        "n_test": len(split.test),
        "fit_seconds": round(sum(model.estimator.history_.seconds), 4),
        "map_seconds": round(seconds, 4),
    }


def held_out(model: SceneModel, scene: xr.DataArray, labels: xr.DataArray) -> Split:
    """Return the training pixels of ``model`` in ``scene``, and all other labelled pixels."""
    labelled = drop_nodata(scene, labels).values > 0
    train_pixels = np.empty((0, 2), np.intp)
    if model.learned_from(scene):
        train_pixels = np.asarray(model.training["pixels"], np.intp).reshape(-1, 2)
        labelled = labelled.copy()
        labelled[tuple(train_pixels.T)] = False
    test = np.argwhere(labelled)
    if len(test) == 0:
        raise SceneError(
            "every labelled pixel was used for training, none is left to test on; "
            "train with --samples-per-class or bring more labels"
        )
    return Split(train_pixels, test)


def score_map(
    model: SceneModel,
    class_map: xr.DataArray,
    proba: xr.DataArray | None,
    labels: xr.DataArray,
    split: Split,
) -> Scores:
    """Score a class map on the test pixels of ``split``."""
    rows, cols = split.test.T
    return score(
        labels.values[rows, cols],
        class_map.values[rows, cols],
        None if proba is None else proba.values[rows, cols],
        classes=model.classes,
        no_overlap=no_overlap(split, class_map.shape, model.window),
    )


def _fit_streamed(
    estimator: Any,
    scene: xr.DataArray,
    pixels: Array,
    y: Array,
    window: int,
    budget: int,
    random_state: int,
) -> None:
    """Gather patches batch by batch, in a new order in each pass."""
    if not hasattr(estimator, "partial_fit"):
        raise SceneError(
            f"{len(pixels):,} training patches do not fit in {budget:,} bytes and "
            f"{type(estimator).__name__} cannot learn batch by batch; pass fewer samples_per_class"
        )
    rng = np.random.default_rng(random_state)
    for _ in range(min(STREAMED_EPOCHS, getattr(estimator, "epochs", STREAMED_EPOCHS))):
        order = rng.permutation(len(pixels))
        rows, cols = pixels[order].T
        for part, patches in iter_patches(scene, rows, cols, window, max_bytes=budget):
            estimator.partial_fit(_filled(scene, patches), y[order][part], classes=np.unique(y))


def _filled(scene: xr.DataArray, patches: Array) -> Array:
    """Put the mean spectrum where a patch reaches over pixels without data.

    Mapping does the same with the mean that the model learned, which is this one.
    """
    patches = patches.astype(np.float32, copy=False)
    valid = valid_pixels(patches, scene.rio.nodata)
    if valid.all():
        return patches
    return np.where(valid[..., None], patches, patches[valid].mean(axis=0))
