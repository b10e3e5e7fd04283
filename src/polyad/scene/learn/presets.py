"""Presets: the steps for a scene and a goal, fixed beforehand and described in one line.

``"paper"`` is the paper's model with its own solver, ``"fast"`` the package's default,
``"best"`` the most accurate map from a few labels. What is best depends on the goal. A map of the
scene that was labeled may use where a pixel lies: labels propagate over the scene's graphs. A map
of another scene must not: the network works alone on whitened spectra, and only its probabilities
are smoothed. `docs/results/few-labels.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import SceneError
from polyad.estimators.base import PAPER
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.model import SceneModel, trained_model
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.steps.calibration import deal_folds, fit_weights
from polyad.scene.learn.steps.ensemble import RankREnsemble
from polyad.scene.learn.steps.folding import fold_whitening
from polyad.scene.learn.steps.propagation import Propagation
from polyad.scene.learn.steps.recipe import Recipe
from polyad.scene.learn.steps.statistics import SceneStatistics
from polyad.scene.learn.steps.whitening import NoiseWhitening
from polyad.scene.raster.dims import as_labels
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.inside import cropped_to_mask, packed, read_pixels
from polyad.scene.raster.patches import check_window, extract_patches
from polyad.scene.raster.pixels import valid_pixels
from polyad.threads import limit_threads, threads_for

Array = npt.NDArray[Any]

COMPONENTS = 20
STARTS = 3
FOLDS = 3
GUIDE = 3  # components that lead the guided filter
RADIUS, RIDGE = 5, 0.01
# Before any fold is seen: the log shares of propagation are mild, a network's logits are not.
PRIOR_WEIGHTS = (1.0, 0.2)
PULL = 0.06
SAMPLE_ROWS, SAMPLE_PIXELS = 8, 200_000  # of a scene too large to learn its noise from whole


def preset_parameters(preset: str) -> dict[str, Any]:
    """Return the parameters of `RankRClassifier` that a preset stands for."""
    return dict(PAPER) if preset == "paper" else {}


def paper_recipe(estimator: RankRClassifier, window: int) -> Recipe:
    """Return the recipe of the paper's model: the network and nothing else."""
    line = f"bands standardized > rank-{estimator.rank} network on {window} x {window} windows, "
    return Recipe("paper", "other-scenes", line + f"{estimator.solver} solver")


def scene_statistics(
    scene: xr.DataArray, goal: str = "this-scene", max_bytes: int | None = None
) -> SceneStatistics:
    """Learn the scene's noise and, for ``goal="this-scene"``, build the graphs of its pixels."""
    scene = prepared(scene)
    cube, valid = _readable(scene, goal, memory_budget(max_bytes, share=0.25))
    with limit_threads(threads_for(2.0 * valid.size * cube.shape[-1] ** 2)):
        whitening = NoiseWhitening(COMPONENTS).fit(cube, valid)
        if goal == "other-scenes":
            return SceneStatistics(whitening, [])
        z = whitening.transform(cube) * valid[..., None]
    return SceneStatistics(whitening, Propagation().graphs_of_whitened(z, valid), packed(scene))


def train_best(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    *,
    goal: str = "this-scene",
    window: int = 5,
    random_state: int = 0,
    max_bytes: int | None = None,
    statistics: SceneStatistics | None = None,
    starts: int = STARTS,
    folds: int = FOLDS,
    iterations: int = Propagation.iterations,
    check: Callable[[], None] = lambda: None,
    **parameters: Any,
) -> SceneModel:
    """Fit the best preset on the given pixels, ``(n, 2)``; see `polyad.scene.train`.

    The scene's noise is learned without labels, and spectra are whitened by it; a few starts of a
    Rank-R network are fitted on windows of them and merged into one network on the scene's bands;
    for ``goal="this-scene"`` the weights of network and propagation come from folds of the
    training pixels. To fit often on one scene, pass its ``statistics``; one start, no folds and
    fewer iterations make a good draft. ``check`` is called between the steps, and may raise to end
    the fit.
    """
    scene, labels = prepared(scene), as_labels(labels)
    pixels = np.asarray(pixels, np.intp).reshape(-1, 2)
    check_window(window)
    statistics = scene_statistics(scene, goal, max_bytes) if statistics is None else statistics
    whitening = statistics.whitening
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    samples, unit = _samples(scene, whitening, pixels, window)
    options = {"standardize": None} | parameters
    ensemble = RankREnsemble(starts, random_state, options).fit(samples, y)
    check()
    line = f"spectra whitened by the scene's noise ({len(whitening.ratio_)} components)"
    line += f" > rank-{ensemble.members_[0].rank} network on {window} x {window} windows"
    line += f", {starts} starts merged" if starts > 1 else ""
    if goal == "other-scenes":
        # No temperature: smoothing takes away as much confidence as the network has too much
        step = _guide(whitening)
        line += f" > probabilities smoothed by a guided filter of radius {RADIUS}"
    else:
        settings = Propagation(iterations=iterations)
        targets = np.unique(y, return_inverse=True)[1]
        weights = list(PRIOR_WEIGHTS)
        if folds:
            fold = deal_folds(targets, folds, random_state)
            held = held_out_logits(samples, targets, fold, random_state, options)
            check()
            shape = scene.sizes["y"], scene.sizes["x"]
            propagated = settings.propagate_folds(
                statistics.graphs, pixels, targets, fold, shape, int(targets.max()) + 1
            )
            weights = fit_weights([propagated, held], targets, PRIOR_WEIGHTS, PULL)
        step = _propagate(settings, targets, weights)
        line += f" > times labels propagated over the scene's graph ({len(settings.graphs)} graphs,"
        line += f" weights {weights[1]:.2f} and {weights[0]:.2f})"
    estimator = fold_whitening(ensemble.merged(), whitening, unit)
    return trained_model(
        scene,
        labels,
        estimator,
        window,
        pixels,
        fill=tuple(whitening.mean_.tolist()),
        recipe=Recipe("best", goal, line, (step,)),
        statistics=statistics,
    )


def _readable(scene: xr.DataArray, goal: str, budget: int) -> tuple[Array, Array]:
    """Return the pixels that the noise is learned from, and which of them have data."""
    if goal == "other-scenes":  # strips of a large scene would miss a small mask
        scene = cropped_to_mask(scene)
    height, width, bands = scene.shape
    nodata = scene.rio.nodata
    needed = height * width * (3 * bands * 4 + 2000)  # whitening's copies; a graph's edges
    if goal == "this-scene" or height * width <= SAMPLE_PIXELS:
        if needed > budget:
            whole = goal == "this-scene"
            raise SceneError(
                f"{'goal this-scene' if whole else 'learning the noise of a scene this small'} "
                f"holds the whole scene in memory, about {needed:,} bytes where {budget:,} may be "
                "used; crop the scene, raise --max-bytes (in Python, max_bytes)"
                + (", or train with --goal other-scenes" if whole else "")
            )
        cube = read_pixels(scene, slice(None), slice(None))
        valid = valid_pixels(cube, nodata)
        return (cube if valid.all() else np.where(valid[..., None], cube, 0)), valid
    count = max(SAMPLE_PIXELS // (SAMPLE_ROWS * width), 1)
    starts = np.linspace(0, height - SAMPLE_ROWS, count).astype(int)
    strips, masks = [], []
    for start in np.unique(starts):
        strip = read_pixels(scene, slice(start, start + SAMPLE_ROWS), slice(None))
        good = valid_pixels(strip, nodata)
        # An empty row keeps pixels of different strips from being neighbors
        strips += [np.where(good[..., None], strip, 0), np.zeros((1, width, bands), strip.dtype)]
        masks += [good, np.zeros((1, width), bool)]
    return np.concatenate(strips), np.concatenate(masks)


def _samples(
    scene: xr.DataArray, whitening: NoiseWhitening, pixels: Array, window: int
) -> tuple[Array, float]:
    """Return whitened windows ``(n, window, window, components)`` and the unit they are in."""
    rows, cols = pixels.T
    windows = extract_patches(scene, rows, cols, window)
    valid = valid_pixels(windows, scene.rio.nodata)
    z = whitening.transform(np.where(valid[..., None], windows, whitening.mean_))
    unit = float(z[valid].std()) or 1.0
    return z / np.float32(unit), unit


def held_out_logits(
    samples: Array, targets: Array, fold: Array, random_state: int, options: dict[str, Any]
) -> Array:
    """Return log-probabilities ``(n, C)`` of each sample from a network that never saw its fold."""
    n_classes = int(targets.max()) + 1
    logits = np.full((len(targets), n_classes), np.log(1e-6))
    for k in np.unique(fold):
        rest, out = fold != k, fold == k
        if len(np.unique(targets[rest])) < 2:
            continue
        member = RankRClassifier(random_state=random_state, **options)
        member.fit(samples[rest], targets[rest])
        logits[np.ix_(out, member.classes_)] = member.predict_log_proba(samples[out])
    return logits


def _guide(whitening: NoiseWhitening) -> dict[str, Any]:
    """Return the guided filter's step; its guide has unit variance over the training scene."""
    # A component that does not vary leads nothing; the clearest varies, or there was no fit
    kept = max(int((whitening.ratio_[:GUIDE] > 1e-6).sum()), 1)
    projection = whitening.projection_[:, :kept] / np.sqrt(whitening.ratio_[:kept])
    projection = projection / whitening.scale_[:, None]
    return {
        "step": "guided",
        "radius": RADIUS,
        "ridge": RIDGE,
        "mean": whitening.mean_.tolist(),
        "projection": projection.tolist(),
    }


def _propagate(settings: Propagation, targets: Array, weights: list[float]) -> dict[str, Any]:
    return {
        "step": "propagate",
        "settings": settings.to_dict(),
        "targets": targets.tolist(),
        "weights": weights,
    }
