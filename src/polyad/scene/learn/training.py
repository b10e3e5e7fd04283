"""From a scene and labels to a fitted `SceneModel`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.codec import Fault
from polyad.errors import BudgetExceeded, InputError, PolyadError, PolyadWarning, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.files.option_values import check_preset, check_window
from polyad.scene.learn.experts import Samples, even_out
from polyad.scene.learn.model import SceneModel, trained_model
from polyad.scene.learn.outputs import Classes
from polyad.scene.learn.presets import (
    paper_recipe,
    preset_parameters,
    train_best,
    train_fast,
)
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import Recipe
from polyad.scene.learn.sampling import per_class
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics, statistics_bar
from polyad.scene.learn.whitening import TooFewPixels
from polyad.scene.raster.bands import named_bands
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.scene import INSIDE, as_labels, as_scene
from polyad.scene.raster.selection import usable_bands
from polyad.scene.raster.windows import Border, check_window_fits, extract_patches, interior
from polyad.scene.read.classes import Colors, with_legend
from polyad.scene.read.labels import check_labels, drop_nodata

Array = npt.NDArray[Any]
P = ParamSpec("P")

# Passes over a training set that does not fit in memory; each sees every pixel once.
STREAMED_EPOCHS = 10
WINDOW = 5  # of the paper, where none is asked for or chosen
CANNOT = (BudgetExceeded, TooFewPixels)  # what keeps the default preset from being best


def timed(fit: Callable[P, SceneModel]) -> Callable[P, SceneModel]:
    """Record in the model how long its whole training took: statistics, folds and every start."""

    @wraps(fit)
    def measured(*args: P.args, **kwargs: P.kwargs) -> SceneModel:
        started = time.perf_counter()
        model = fit(*args, **kwargs)
        seconds = round(time.perf_counter() - started, 4)
        return model.with_training(seconds=seconds)

    return measured


@timed
def train(
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    window: int | None = None,
    samples_per_class: int | None = None,
    border: Border = "reflect",
    random_state: int = 0,
    max_bytes: int | None = None,
    estimator: Any = None,
    preset: str | None = None,
    goal: str = "this-scene",
    objective: str = "overall",
    merge: str | Sequence[str] = (),
    colors: Colors | None = None,
    **parameters: Any,
) -> SceneModel:
    """Fit a model on labeled pixels of a scene.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    labels : DataArray, dims ``(y, x)``
        Class ids, 0 where unlabeled; see `polyad.scene.open_labels`.
    window : int, optional
        Side of the square of pixels the model looks at; odd, and no wider than the scene. By
        default the presets fast and best choose it by spatial folds of the labels, and others
        have 5.
    samples_per_class : int, optional
        Draw this many pixels of each class; all labeled pixels when not given.
    border : {"reflect", "drop"}, default="reflect"
        What happens to pixels whose window leaves the scene.
    random_state : int, default=0
    max_bytes : int, optional
        Memory that training patches, and what the best preset learns of the scene, may take; by
        default a quarter of the machine's. A larger training set is gathered batch by batch.
    estimator : classifier, optional
        Any classifier of patches ``(n, window, window, bands)``; with ``window=1``, of spectra
        ``(n, bands)``. By default a `RankRClassifier` with ``parameters``.
    preset : {"best", "fast", "paper"}, optional
        See `polyad.scene.learn.presets`. By default best; where its statistics of the scene do not
        fit in memory, fast with a warning. The model's ``recipe`` has the one that was used. A
        preset that is asked for is never replaced: best raises `polyad.errors.BudgetExceeded`.
    goal : {"this-scene", "other-scenes"}, default="this-scene"
        What the model is for: the map of this scene, or of others, which are then adapted to their
        light. It also decides how far from each other labels are that are held out for the score.
    objective : {"overall", "average"}, default="overall"
        Which accuracy counts: of all pixels, or the mean of the classes', where rare classes count
        as much as common ones.
    merge : str or sequence of str, optional
        Rules by which classes are merged before they are learned, see `polyad.scene.merge_labels`.
    colors : path-like or mapping, optional
        Colors that the classes have in all maps, see `polyad.scene.read_colors`.
    **parameters
        Of `RankRClassifier`: ``rank``, ``hidden``, ``solver``, ``epochs`` and so on.

    Returns
    -------
    SceneModel
    """
    if window is not None:
        check_window_fits(window, as_scene(scene).shape)
    scene, labels = usable_bands(scene), with_legend(as_labels(labels), merge, colors)
    check_labels(scene, labels)
    labeled, labels = labels, drop_nodata(scene, labels)
    if labeled.values.any() and not labels.values.any():
        raise SceneError(without_data(scene, labeled))
    if samples_per_class is not None:
        options: dict[str, Any] = {"border": border, "window": window or WINDOW}
        pixels = per_class(labels, samples_per_class, random_state, **options).train
    else:
        pixels = np.argwhere(labels.values > 0)
        if border == "drop":
            rows, cols = pixels.T
            pixels = pixels[interior(rows, cols, labels.shape, window or WINDOW)]
    model = train_on(
        scene,
        labels,
        pixels,
        window=window,
        random_state=random_state,
        max_bytes=max_bytes,
        estimator=estimator,
        preset=preset,
        goal=goal,
        objective=objective,
        **parameters,
    )
    lost = int(np.count_nonzero(labeled.values) - np.count_nonzero(labels.values))
    return model.with_training(without_data=lost)


@timed
def train_on(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    *,
    window: int | None = None,
    random_state: int = 0,
    max_bytes: int | None = None,
    estimator: Any = None,
    preset: str | None = None,
    goal: str = "this-scene",
    objective: str = "overall",
    score: bool = True,
    **parameters: Any,
) -> SceneModel:
    """Fit a model on the given pixels, ``(n, 2)`` rows and columns; see `train`.

    Without ``score`` no time is spent on the accuracy that the model tells of its own labels.
    """
    if window is not None:
        check_window_fits(window, as_scene(scene).shape)
    scene, labels = prepared(usable_bands(scene)), as_labels(labels)
    rows, cols = np.asarray(pixels, np.intp).reshape(-1, 2).T
    y = learnable(labels, labels.values[rows, cols].astype(np.int64))
    check_preset(preset, goal, objective)
    try:
        Classes.from_data({"classes": class_table(labels)}, "labels")
    except Fault as fault:
        raise SceneError(f"labels cannot be learned from: {fault}; rename the class") from fault
    if preset not in (None, "fast") and estimator is not None:
        raise InputError(f"preset {preset} brings its own model; pass it or an estimator, not both")
    pixels = np.stack([rows, cols], axis=1)
    options: dict[str, Any] = {"random_state": random_state, "objective": objective, "goal": goal}
    options["score"] = score
    if preset is None and estimator is None:
        shown = bool(parameters.get("verbose", 0))
        statistics = parameters.pop("statistics", None)
        if statistics is None:
            statistics = default_statistics(scene, len(y), window, goal, max_bytes, shown)
        if statistics is not None:
            preset, parameters["statistics"] = "best", statistics
    if preset == "best":
        options |= {"window": window, "max_bytes": max_bytes}
        return train_best(scene, labels, pixels, **options, **parameters)
    budget = memory_budget(max_bytes, share=0.25)
    samples = Samples(scene, rows, cols, check_window(WINDOW if window is None else window))
    if preset != "paper" and estimator is None and samples.nbytes <= budget:
        return train_fast(scene, labels, pixels, window=window, **options, **parameters)
    streamed = estimator is None
    if estimator is None:
        parameters = preset_parameters(preset or "fast") | parameters
        estimator = RankRClassifier(random_state=random_state, **parameters)
    elif parameters:
        raise InputError(
            f"parameters {', '.join(parameters)} belong to the default model; set them on the "
            "estimator that was passed"
        )
    if samples.nbytes <= budget:
        estimator.fit(samples.take(slice(None)), y)
    else:
        _fit_streamed(estimator, samples, y, budget, random_state)
    if objective == "average" and isinstance(estimator, RankRClassifier):
        even_out(estimator, y)
    recipe: Recipe | None = None
    if preset == "paper":
        recipe = paper_recipe(estimator, samples.window)
    elif streamed:
        side = samples.window
        line = f"network on {side} x {side} windows, learned in batches"
        recipe = Recipe.from_data({"preset": "fast", "goal": goal, "line": line}, "recipe")
    made: dict[str, Any] = {"fill": samples.fill, "recipe": recipe}
    return trained_model(scene, labels, estimator, samples.window, pixels, **made)


def default_statistics(
    scene: xr.DataArray,
    pixels: int,
    window: int | None,
    goal: str,
    max_bytes: int | None,
    shown: bool = False,
) -> SceneStatistics | None:
    """Return what the best preset learns of a scene; None, with a warning, where that cannot be.

    The fast preset is then the default: where the scene's graphs, or ``pixels`` training windows,
    do not fit in memory, and where the scene has next to no pixels.
    """
    try:
        _check_windows(
            pixels, WINDOW if window is None else window, as_scene(scene).sizes["band"], max_bytes
        )
        with statistics_bar(shown) as bar:
            return scene_statistics(scene, goal, max_bytes, progress=bar)
    except CANNOT as error:
        warn_of_fast(error)
    return None


def warn_of_fast(error: PolyadError) -> None:
    """Warn that the fast preset is used, since ``error`` keeps the default one from being so."""
    told = f"the preset fast is used instead of best, the default; best would have failed: {error}"
    warnings.warn(told, PolyadWarning, stacklevel=6)


def _check_windows(pixels: int, window: int, bands: int, max_bytes: int | None) -> None:
    """Raise `BudgetExceeded` where the training windows do not fit in memory, in two views."""
    needed, budget = 2 * pixels * window**2 * bands * 4, memory_budget(max_bytes, share=0.25)
    if needed > budget:
        raise BudgetExceeded(
            f"preset best holds {pixels:,} training windows twice, about {needed:,} bytes where "
            f"{budget:,} may be used; raise --max-bytes (in Python, max_bytes), or draw fewer with "
            "--samples-per-class (samples_per_class)"
        )


def _fit_streamed(
    estimator: Any, samples: Samples, y: Array, budget: int, random_state: int
) -> None:
    """Gather samples batch by batch, in a new order in each pass."""
    if not hasattr(estimator, "partial_fit"):
        raise SceneError(
            f"{len(y):,} training patches do not fit in {budget:,} bytes and "
            f"{type(estimator).__name__} cannot learn batch by batch; train on fewer samples per "
            "class"
        )
    rng, classes = np.random.default_rng(random_state), np.unique(y)
    # As read, as float32, standardized, and once more in the solver
    batch = max(1, budget * len(y) // (4 * samples.nbytes))
    passes = min(STREAMED_EPOCHS, getattr(estimator, "epochs", STREAMED_EPOCHS))
    shown = bool(getattr(estimator, "verbose", False))
    with tqdm(total=passes * len(y), desc="training", unit="pixel", disable=not shown) as bar:
        for _ in range(passes):
            order = rng.permutation(len(y))
            for start in range(0, len(y), batch):
                chosen = order[start : start + batch]
                estimator.partial_fit(samples.take(chosen), y[chosen], classes=classes)
                bar.update(len(chosen))


def without_data(scene: xr.DataArray, labels: xr.DataArray) -> str:
    """Return the sentence on labels none of which lies on a pixel with data in every band."""
    pixels = np.argwhere(labels.values > 0)
    rows, cols = pixels[:: max(len(pixels) // 1000, 1)].T
    spectra = extract_patches(scene, rows, cols, window=1)[:, 0, 0]  # (n, bands)
    missing = ~valid_pixels(spectra[..., None], scene.rio.nodata)
    where = " inside the mask" if INSIDE in scene.coords else ""
    said = f"no labeled pixel of {len(pixels):,} has data in every band{where}"
    if missing.all():
        what = "the mask, where the labels lie" if where else "where the labels lie"
        return f"{said}: none has data in any band; check {what} and the scene's nodata value"
    share = missing.mean(axis=0)  # (bands,)
    worst = scene.isel(band=np.flatnonzero(share >= share.max() / 2))
    return (
        f"{said}: bands {named_bands(worst)} have none there; leave them out with --drop-nm (in "
        "Python, select_bands), or check the scene's nodata value"
    )


def learnable(labels: xr.DataArray, y: Array) -> Array:
    """Return the classes ``y`` of training pixels if there is something to learn from them."""
    if len(y) == 0:
        raise SceneError("there is no labeled pixel to learn from; label some of each class")
    present = np.unique(y)
    if len(present) < 2:
        names = {c.value: c.name for c in class_table(labels)}
        raise SceneError(
            f"all {len(y)} training pixels are of class {names.get(int(present[0]), present[0])!r};"
            " label pixels of at least one other class"
        )
    return y
