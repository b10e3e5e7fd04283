"""From a scene and measured numbers to a fitted `SceneModel` of values.

Regressors on single pixels and on windows, on plain and (preset ``"best"``) on whitened spectra,
are weighed by spatial folds of what was measured: the error of each on values held out says what it
is worth here, as for classes (`polyad.scene.learn.experts`). Their weighted mean is one
network on the scene's bands. Bounded targets are clipped: what is measured lies within the bounds,
so no prediction gets worse by it, where a logit has no value for the fractions 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, SceneError
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.files.option_values import check_preset, check_window
from polyad.scene.learn import experts, training
from polyad.scene.learn.folds import SpatialFolds, spatial_folds
from polyad.scene.learn.model import SceneModel, scene_model
from polyad.scene.learn.networks import Member, joined
from polyad.scene.learn.outputs import Targets, score_values
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import Expert, Recipe
from polyad.scene.learn.whitening import NoiseWhitening
from polyad.scene.raster.classes import Target, as_values, clipped, size_fault, target_table
from polyad.scene.raster.grid import check_covers, check_same_place, grid_of
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import with_usable_bands
from polyad.scene.raster.windows import check_window_fits
from polyad.scene.read.labels import drop_nodata

Array = npt.NDArray[Any]
LEAST = 10  # values; fewer say nothing of how well they are predicted
FOLDS = 5
STARTS = {"fast": 1, "best": 3}
PLAIN = tuple(Expert("plain", side, 0) for side in (1, 3, 5))
EXPERTS = {"fast": PLAIN, "best": (*PLAIN, Expert("whitened", 1, 0), Expert("whitened", 3, 0))}


@training.timed
def train_regression(
    scene: xr.DataArray,
    values: xr.DataArray,
    *,
    bounds: Sequence[float] | None = None,
    preset: str | None = None,
    goal: str = "this-scene",
    **options: Any,
) -> SceneModel:
    """Fit a model of numbers measured at some pixels of a scene.

    Parameters
    ----------
    scene : DataArray, dims ``(y, x, band)``
    values : DataArray of float, dims ``(y, x, target)`` or ``(y, x)``
        NaN where nothing was measured; see `polyad.scene.open_values`. Pixels that lack one of
        several targets are left out.
    bounds : (float, float), optional
        Between which all targets lie, as 0 and 1 of a fraction; predictions are clipped to them.
    preset : {"best", "fast"}, optional
        ``"best"`` also tries spectra whitened by the scene's noise, and fits several starts. By
        default best; where the scene's noise cannot be learned in the memory there is, fast with a
        warning. The model's ``recipe`` has the one that was used.
    goal : {"this-scene", "other-scenes"}, default="this-scene"
        Whether maps of other scenes are adapted to their light by default. Both presets predict
        each pixel by its own window; nothing is propagated over the scene.
    window : int, optional
        Side of the square of pixels the model looks at; odd. By default chosen by spatial folds.
    random_state : int, default=0
    max_bytes : int, optional
        Memory that training windows may take, by default a quarter of the machine's. Of more
        values than fit, a random part is learned, with a warning.
    **options
        Parameters of `RankRRegressor`: ``rank``, ``hidden``, ``epochs`` and so on.

    Returns
    -------
    SceneModel
        Its ``values`` say how well targets were predicted where they were held out.

    Raises
    ------
    SceneError
        Too few values, all the same, or outside the bounds.
    """
    check_preset(preset, goal)
    if preset is not None and preset not in EXPERTS:
        raise InputError(
            f"regression has the presets {' and '.join(EXPERTS)}, got {preset!r}, which is for "
            "classes"
        )
    settings = experts.TrainSettings.of(preset=preset, goal=goal, **options)
    if settings.window is not None:
        check_window_fits(settings.window, Scene.of(scene).shape)
    known, values = with_usable_bands(Scene.of(scene)), as_values(values)
    targets = target_table(values, bounds)
    pixels, numbers, counts = _measured(known, values, targets)
    known = prepared(known)
    some = training.labels_that_fit(known, np.zeros(len(pixels), np.intp), settings, LEAST)
    pixels, numbers, statistics = pixels[some], numbers[some], None
    if preset != "fast":
        statistics = training.default_statistics(known, replace(settings, goal="other-scenes"))
    preset = "fast" if statistics is None else "best"
    candidates: Sequence[Expert] = EXPERTS[preset]
    if settings.window is not None:
        side, names = check_window(settings.window), {each.view: None for each in candidates}
        candidates = [Expert(view, side, 0) for view in names]
    rows, cols = pixels.T
    widest = max(expert.window for expert in candidates)
    samples = experts.Samples(known, rows, cols, widest)
    windows = samples.take().reshape(len(rows), widest, widest, -1)
    views = {"plain": None, "whitened": None if statistics is None else statistics.whitening}
    fits = _Fits(pixels, windows, views, numbers, targets, settings)
    estimator, output = _fit_experts(fits, candidates, STARTS[preset])
    line = f"regression on {output.line}"
    line += f", {STARTS[preset]} starts" if STARTS[preset] > 1 else ""
    if bounds is not None:
        line += f" > clipped to {output.targets[0].low:g} to {output.targets[0].high:g}"
    recipe = Recipe.from_data({"preset": preset, "goal": goal, "line": line}, "recipe")
    more: dict[str, Any] = {"recipe": recipe, "fill": samples.fill}
    model = scene_model(known, estimator, output.window, output, pixels, **more)
    return model.with_training(**counts)


def check_values(scene: xr.DataArray | Scene, values: xr.DataArray) -> None:
    """Raise an error unless values lie on the grid of ``scene``."""
    grid, other = Scene.of(scene).grid, grid_of(values)
    check_covers("values", grid.shape, other.shape)
    check_same_place(grid, other)


def _measured(
    scene: Scene, values: xr.DataArray, targets: tuple[Target, ...]
) -> tuple[Array, Array, dict[str, int]]:
    """Return pixels ``(n, 2)`` and numbers ``(n, targets)`` to learn from, and counts left out.

    `SceneError` is raised where nothing can be learned.
    """
    check_values(scene, values)
    stored = values.values
    if np.isinf(stored).any():
        raise SceneError("values must be finite, got infinity; put NaN where nothing is known")
    finite = np.isfinite(stored)
    complete = finite.all(axis=2)
    incomplete = int(np.count_nonzero(finite.any(axis=2) & ~complete))
    marks = values.isel(target=0, drop=True).copy(data=complete.astype(np.uint8))
    marks.attrs = {}
    pixels = (
        np.argwhere(drop_nodata(scene, marks).values > 0) if complete.any() else np.empty((0, 2))
    )
    if complete.any() and not len(pixels):
        message = training.without_data(scene, marks)
        raise SceneError(message.replace("labeled pixel", "measured pixel"))
    lost = int(np.count_nonzero(complete)) - len(pixels)
    if len(pixels) < LEAST:
        message = f"expected at least {LEAST} pixels with a value, got {len(pixels)}"
        message += f" ({lost} more lie where the scene has no data)" if lost else ""
        message += f" ({incomplete} more lack one of the targets)" if incomplete else ""
        raise SceneError(f"{message}; measure some more, in other places of the scene")
    numbers = stored[tuple(pixels.T)].astype(np.float64)  # (n, targets)
    for column, target in zip(numbers.T, targets, strict=True):
        what, low, high = f"values of {target.name!r}", float(column.min()), float(column.max())
        fault = size_fault(column)
        if fault is not None:
            raise SceneError(f"{what} cannot be learned in single precision: {fault}")
        if high - low <= 1e-7 * max(abs(low), abs(high)):
            raise SceneError(
                f"all {len(column)} {what} are {low:g}: there is nothing to learn; expected values "
                "that differ, check --field"
            )
        if target.low is None or target.high is None:
            continue
        outside = np.count_nonzero((column < target.low) | (column > target.high))
        if outside:
            raise SceneError(
                f"{outside} of {len(column)} {what} lie outside the bounds {target.low:g} to "
                f"{target.high:g}: they reach from {low:g} to {high:g}; correct them, or give "
                "other --bounds"
            )
    return pixels, numbers, {"without_data": lost, "incomplete": incomplete}


@dataclass(frozen=True)
class _Fits:
    """What all regressors of one training share.

    Attributes
    ----------
    pixels : ndarray of int, ``(n, 2)``
    windows : ndarray, ``(n, window, window, bands)``
    views : mapping of str to NoiseWhitening or None
        None are the bands as they are.
    numbers : ndarray, ``(n, targets)``
    targets : tuple of Target
    settings : TrainSettings
    """

    pixels: Array
    windows: Array
    views: Mapping[str, NoiseWhitening | None]
    numbers: Array
    targets: tuple[Target, ...]
    settings: experts.TrainSettings

    def take(self, expert: Expert) -> Array:
        """Return samples ``(n, window, window, features)``, of single pixels ``(n, features)``."""
        margin = (self.windows.shape[1] - expert.window) // 2
        inner = slice(margin, self.windows.shape[1] - margin)
        windows, view = self.windows[:, inner, inner], self.views[expert.view]
        windows = windows if view is None else view.transform(windows)
        return windows[:, 0, 0] if expert.window == 1 else np.ascontiguousarray(windows)

    def fit(self, X: Array, y: Array, seed: int, **defaults: Any) -> RankRRegressor:
        """Return a regressor fitted to some of the samples."""
        defaults = {"rank": 1, "activation": "tanh", **defaults, **self.settings.parameters}
        return RankRRegressor(random_state=seed, **defaults).fit(X, y)

    def hold_out(
        self, expert: Expert, some: Array, folds: SpatialFolds
    ) -> tuple[list[RankRRegressor], Array]:
        """Return a regressor for each fold that never saw it, and their predictions of it."""
        X, y = self.take(expert)[some], self.numbers[some]
        fitted, predicted, seed = [], np.zeros(y.shape), self.settings.random_state
        for k in np.unique(folds.fold):
            out = folds.fold == k
            fitted.append(self.fit(X[~out], y[~out], seed, epochs=experts.FOLD_EPOCHS))
            predicted[out] = fitted[-1].predict(X[out])
        return fitted, predicted


def _fit_experts(
    fits: _Fits, candidates: Sequence[Expert], starts: int
) -> tuple[RankRRegressor, Targets]:
    """Return the experts that folds chose as one regressor, and how it came about."""
    numbers, targets, seed = fits.numbers, fits.targets, fits.settings.random_state
    some = experts.draw_labels(np.zeros(len(numbers), np.intp), seed)
    folds = spatial_folds(fits.pixels[some], np.zeros_like(some), FOLDS, seed)
    held, fitted, members = [], [], []
    with experts.progress(len(candidates), fits.settings.verbose) as step:
        for expert in candidates:
            of_folds, predicted = fits.hold_out(expert, some, folds)
            held.append(clipped(predicted, targets))
            fitted.append(of_folds)
            step()
        scale = numbers[some].var(axis=0)
        losses = [((each - numbers[some]) ** 2 / scale).mean(axis=1) for each in held]
        worth = experts.expert_weights(np.stack(losses), folds.group, np.ones(len(some)))
        weights, kept = experts.heaviest(worth)
        for k, weight in zip(kept, weights.tolist(), strict=True):
            view, X = fits.views[candidates[k].view], fits.take(candidates[k])
            # The starts on all values share the weight; those of the folds tell deviations
            count = max(round(starts * weight), 1)
            for start in np.random.SeedSequence(seed).generate_state(count):
                members.append(Member(fits.fit(X, numbers, int(start)), view, weight / count, 0))
            members += [Member(each, view, weight, 1 + i) for i, each in enumerate(fitted[k])]
            step()
    mixed = np.tensordot(weights, np.stack([held[k] for k in kept]), axes=1)
    output = Targets(
        experts=tuple(candidates[k] for k in kept),
        weights=tuple(weights.tolist()),
        targets=targets,
        folds=len(np.unique(folds.fold)),
        noise=(0.0,) * len(targets),
        scores=score_values(numbers[some], mixed, targets, folds.group, seed),
        side=folds.side,
        points=len(some),
    )
    scaler = ModeStandardScaler(-1).fit(fits.take(Expert("plain", 1, 0)))
    # All outputs of the first block first, so that a map of targets alone can drop the rest
    members.sort(key=lambda member: member.group)
    estimator = joined(members, scaler, output.window)
    found = estimator.predict(fits.take(Expert("plain", output.window, 0)))
    missed = ((mixed - numbers[some]) ** 2).mean(axis=0)
    spread = output.spread(found.reshape(len(found), -1)[some]).mean(axis=0)
    noise = np.maximum(missed - spread, 0)
    return estimator, output.model_copy(update={"noise": tuple(noise.tolist())})
