"""From a scene and labels to a fitted `SceneModel`, and an honest score of one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.errors import InputError, SceneError, SceneMismatch
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.classes import class_table
from polyad.scene.labels import check_labels, drop_nodata
from polyad.scene.mapping import iter_map, scene_tiles
from polyad.scene.model import SceneModel, fingerprint
from polyad.scene.patches import Border, check_window, extract_patches, interior
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
        Any classifier of patches ``(n, window, window, bands)``; with ``window=1``, of spectra
        ``(n, bands)``. By default a `RankRClassifier` with ``parameters``.
    **parameters
        Of `RankRClassifier`: ``rank``, ``hidden``, ``solver``, ``epochs`` and so on.

    Returns
    -------
    SceneModel
    """
    check_labels(scene, labels)
    labels = drop_nodata(scene, labels)
    if samples_per_class is not None:
        options: dict[str, Any] = {"border": border, "window": window}
        pixels = per_class(labels, samples_per_class, random_state, **options).train
    else:
        pixels = np.argwhere(labels.values > 0)
        if border == "drop":
            rows, cols = pixels.T
            pixels = pixels[interior(rows, cols, labels.shape, window)]
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
    rows, cols = np.asarray(pixels, np.intp).reshape(-1, 2).T
    y = _learnable(labels, labels.values[rows, cols].astype(np.int64))
    if estimator is None:
        estimator = RankRClassifier(random_state=random_state, **parameters)
    elif parameters:
        raise InputError(
            f"parameters {', '.join(parameters)} belong to the default model; set them on the "
            "estimator that was passed"
        )
    samples = Samples(scene, rows, cols, check_window(window), estimator)
    budget = memory_budget(max_bytes, share=0.25)
    if samples.nbytes <= budget:
        estimator.fit(samples.take(slice(None)), y)
    else:
        _fit_streamed(estimator, samples, y, budget, random_state)
    known = {c.value: c for c in class_table(labels)}
    wavelength = scene["wavelength"].values if "wavelength" in scene.coords else None
    return SceneModel(
        estimator,
        window,
        tuple(known[int(v)] for v in estimator.classes_),
        scene.sizes["band"],
        None if wavelength is None else tuple(float(w) for w in wavelength),
        {"scene": fingerprint(scene), "pixels": np.stack([rows, cols], axis=1).tolist()},
        fill=samples.fill,
    )


def evaluate(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    split: Split | None = None,
    progress: bool = False,
) -> Scores:
    """Score a model on labelled pixels that it did not learn from.

    Only the tiles that hold test pixels are mapped.

    Parameters
    ----------
    model : SceneModel
    scene, labels : DataArray
    split : Split, optional
        From a sampler, such as `polyad.scene.sampling.blocks` or ``from_labels``. By default, on
        the scene the model learned from, all labelled pixels but its training pixels are the test
        set; on another scene, all labelled pixels.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    Scores
        With the accuracy on all test pixels and on those whose window shares no pixel with any
        training window.
    """
    return evaluate_timed(model, scene, labels, split, progress)[0]


def evaluate_timed(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    split: Split | None = None,
    progress: bool = False,
) -> tuple[Scores, dict[str, Any]]:
    """Return the scores, and with them as one dict the pixel counts and the seconds taken."""
    model.check(scene)
    check_labels(scene, labels)
    split = held_out(model, scene, labels) if split is None else split
    true = labels.values[tuple(split.test.T)]
    _check_known(model, labels, true)
    started = time.perf_counter()
    predicted, proba = map_pixels(model, scene, split.test, progress=progress)
    seconds = time.perf_counter() - started
    apart = no_overlap(split, labels.shape, model.window)
    scores = score(true, predicted, proba, classes=model.classes, no_overlap=apart)
    history = getattr(model.estimator, "history_", None)
    return scores, scores.to_dict() | {
        "n_train": len(model.training.get("pixels", [])),
        "n_test": len(split.test),
        "fit_seconds": None if history is None else round(sum(history.seconds), 4),
        "map_seconds": round(seconds, 4),
    }


def map_pixels(
    model: SceneModel, scene: xr.DataArray, pixels: Array, *, progress: bool = False
) -> tuple[Array, Array]:
    """Classify the given pixels, ``(n, 2)``, by mapping the tiles in which they lie.

    Returns
    -------
    ids : ndarray, ``(n,)``
    proba : ndarray of float32, ``(n, classes)``
    """
    ids = np.zeros(len(pixels), np.int64)
    proba = np.empty((len(pixels), len(model.classes)), np.float32)
    place = np.full((scene.sizes["y"], scene.sizes["x"]), -1, np.int64)  # of each pixel in ids
    place[tuple(pixels.T)] = np.arange(len(pixels))
    wanted = [part for part in scene_tiles(scene) if (place[part] >= 0).any()]
    for part, found, shares in iter_map(model, scene, True, progress=progress, tiles=wanted):
        inside = place[part] >= 0
        ids[place[part][inside]] = found[inside]
        proba[place[part][inside]] = shares[inside] if shares is not None else np.nan
    return ids, proba


def held_out(model: SceneModel, scene: xr.DataArray, labels: xr.DataArray) -> Split:
    """Return the training pixels of ``model`` in ``scene``, and all other labelled pixels."""
    labelled = drop_nodata(scene, labels).values > 0
    train_pixels = np.empty((0, 2), np.intp)
    if model.learned_from(scene):
        train_pixels = np.asarray(model.training.get("pixels", []), np.intp).reshape(-1, 2)
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


@dataclass
class Samples:
    """Training samples of a scene, gathered when they are asked for.

    Attributes
    ----------
    scene : DataArray, dims ``(y, x, band)``
    rows, cols : ndarray of int, ``(n,)``
    window : int
    estimator : classifier
        Decides whether samples of a single pixel are patches or spectra.
    fill : tuple of float or None
        Put in place of pixels without data: the mean of the first samples that were taken.
    """

    scene: xr.DataArray
    rows: Array
    cols: Array
    window: int
    estimator: Any
    fill: tuple[float, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all samples as float32."""
        return len(self.rows) * self.window**2 * self.scene.sizes["band"] * 4

    def take(self, which: slice | Array) -> Array:
        """Return the asked samples as float32, ``(n, window, window, bands)``."""
        found = extract_patches(self.scene, self.rows[which], self.cols[which], self.window)
        valid = valid_pixels(found, self.scene.rio.nodata)
        patches = found.astype(np.float32, copy=False)
        if self.fill is None:
            self.fill = tuple(patches[valid].mean(axis=0, dtype=np.float64).tolist())
        if not valid.all():
            patches = np.where(valid[..., None], patches, np.asarray(self.fill, np.float32))
        if self.window == 1 and not isinstance(self.estimator, RankRClassifier):
            return patches[:, 0, 0]
        return patches


def _fit_streamed(
    estimator: Any, samples: Samples, y: Array, budget: int, random_state: int
) -> None:
    """Gather samples batch by batch, in a new order in each pass."""
    if not hasattr(estimator, "partial_fit"):
        raise SceneError(
            f"{len(y):,} training patches do not fit in {budget:,} bytes and "
            f"{type(estimator).__name__} cannot learn batch by batch; pass fewer samples_per_class"
        )
    rng, classes = np.random.default_rng(random_state), np.unique(y)
    # As read, as float32, standardised, and once more in the solver
    batch = max(1, budget * len(y) // (4 * samples.nbytes))
    passes = min(STREAMED_EPOCHS, getattr(estimator, "epochs", STREAMED_EPOCHS))
    shown = bool(getattr(estimator, "verbose", False))
    with tqdm(total=passes * len(y), desc="training", unit="pixel", disable=not shown) as bar:
        for _ in range(passes):
            order = rng.permutation(len(y))
            for start in range(0, len(y), batch):
                part = order[start : start + batch]
                estimator.partial_fit(samples.take(part), y[part], classes=classes)
                bar.update(len(part))


def _learnable(labels: xr.DataArray, y: Array) -> Array:
    """Return ``y`` if there is something to learn from it."""
    if len(y) == 0:
        raise SceneError("there is no labelled pixel to learn from; label some of each class")
    present = np.unique(y)
    if len(present) < 2:
        names = {c.value: c.name for c in class_table(labels)}
        raise SceneError(
            f"all {len(y)} training pixels are of class {names.get(int(present[0]), present[0])!r};"
            " label pixels of at least one other class"
        )
    return y


def _check_known(model: SceneModel, labels: xr.DataArray, true: Array) -> None:
    known = {c.value for c in model.classes}
    unknown = [c for c in class_table(labels) if c.value not in known and c.value in set(true)]
    if unknown:
        raise SceneMismatch(
            f"the labels hold class {unknown[0].value} {unknown[0].name!r}, which the model never "
            f"learned (it knows {', '.join(c.name for c in model.classes)}); set these labels to "
            "0, or train on them too"
        )
