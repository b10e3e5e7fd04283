"""From a scene and measured numbers to a fitted `SceneModel` of values.

Regressors on single pixels and on windows, on plain and (preset ``"best"``) on whitened spectra,
are weighed by spatial folds of what was measured: the error of each on values held out says what it
is worth here, as for classes (`polyad.scene.learn.experts`). Their weighted mean is one
network on the scene's bands. Bounded targets are clipped: what is measured lies within the bounds,
so no prediction gets worse by it, where a logit has no value for the fractions 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError, SceneError
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler
from polyad.scene.files.option_values import check_preset, check_window
from polyad.scene.learn.experts import (
    FOLD_EPOCHS,
    LEAST_SHARE,
    Samples,
    expert_weights,
    fold_subset,
    progress,
)
from polyad.scene.learn.folds import SpatialFolds, spatial_folds
from polyad.scene.learn.model import SceneModel, scene_model
from polyad.scene.learn.networks import Member, joined
from polyad.scene.learn.outputs import Targets, score_values
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import Expert, Recipe
from polyad.scene.learn.scene_statistics import scene_statistics, statistics_bar
from polyad.scene.learn.training import CANNOT, TrainSettings, timed, warn_of_fast, without_data
from polyad.scene.learn.whitening import NoiseWhitening
from polyad.scene.raster.classes import Target, as_values, clipped, size_fault, target_table
from polyad.scene.raster.grid import check_covers, check_same_place, grid_of
from polyad.scene.raster.guards import human_bytes, memory_budget
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


@timed
def train_regression(
    scene: xr.DataArray,
    values: xr.DataArray,
    *,
    bounds: Sequence[float] | None = None,
    window: int | None = None,
    preset: str | None = None,
    goal: str = "this-scene",
    random_state: int = 0,
    max_bytes: int | None = None,
    **parameters: Any,
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
    window : int, optional
        Side of the square of pixels the model looks at; odd. By default chosen by spatial folds.
    preset : {"best", "fast"}, optional
        ``"best"`` also tries spectra whitened by the scene's noise, and fits several starts. By
        default best; where the scene's noise cannot be learned in the memory there is, fast with a
        warning. The model's ``recipe`` has the one that was used.
    goal : {"this-scene", "other-scenes"}, default="this-scene"
        Whether maps of other scenes are adapted to their light by default. Both presets predict
        each pixel by its own window; nothing is propagated over the scene.
    random_state : int, default=0
    max_bytes : int, optional
        Memory that training windows may take, by default a quarter of the machine's.
    **parameters
        Of `RankRRegressor`: ``rank``, ``hidden``, ``epochs`` and so on.

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
            f"values are predicted by the presets {' and '.join(EXPERTS)}, got {preset!r}, which "
            "is a model of classes"
        )
    if window is not None:
        check_window_fits(window, Scene.of(scene).shape)
    known, values = with_usable_bands(Scene.of(scene)), as_values(values)
    measured = _measured(known, values, target_table(values, bounds))
    known = prepared(known)
    settings = TrainSettings.of(
        preset=preset or "best",
        goal=goal,
        window=window,
        random_state=random_state,
        max_bytes=max_bytes,
        **parameters,
    )
    try:
        fitting = _Fitting(known, measured, settings)
    except CANNOT as error:
        if preset is not None:
            raise
        warn_of_fast(error)
        settings = replace(settings, preset="fast")
        fitting = _Fitting(known, measured, settings)
    estimator, fit = fitting.run()
    starts = STARTS[settings.preset]
    line = f"regression on {fit.line}" + (f", {starts} starts" if starts > 1 else "")
    if bounds is not None:
        line += f" > clipped to {fit.targets[0].low:g} to {fit.targets[0].high:g}"
    model = scene_model(
        known,
        estimator,
        fit.window,
        fit,
        measured.pixels,
        recipe=Recipe.from_data({"preset": settings.preset, "goal": goal, "line": line}, "recipe"),
        fill=fitting.fill,
    )
    return model.with_training(without_data=measured.without_data, incomplete=measured.incomplete)


class Measured(NamedTuple):
    """Pixels ``(n, 2)`` and numbers ``(n, targets)`` to learn from, and what was left out."""

    pixels: Array
    numbers: Array
    targets: tuple[Target, ...]
    without_data: int = 0
    incomplete: int = 0


def check_values(scene: xr.DataArray | Scene, values: xr.DataArray) -> None:
    """Raise an error unless values lie on the grid of ``scene``."""
    ours, theirs = Scene.of(scene).grid, grid_of(values)
    check_covers("values", ours.shape, theirs.shape)
    check_same_place(ours, theirs)


def _measured(scene: Scene, values: xr.DataArray, targets: tuple[Target, ...]) -> Measured:
    """Return what can be learned from; raise `SceneError` where that is nothing."""
    check_values(scene, values)
    stored = values.values
    if np.isinf(stored).any():
        raise SceneError("values must be finite, got infinity; put NaN where nothing is known")
    there = np.isfinite(stored)
    known = there.all(axis=2)
    incomplete = int(np.count_nonzero(there.any(axis=2) & ~known))
    marks = values.isel(target=0, drop=True).copy(data=known.astype(np.uint8))
    marks.attrs = {}
    if not known.any():
        raise SceneError(_too_few(0, incomplete))
    kept = drop_nodata(scene, marks)
    pixels = np.argwhere(kept.values > 0)
    if not len(pixels):
        raise SceneError(without_data(scene, marks).replace("labeled pixel", "measured pixel"))
    lost = int(np.count_nonzero(known)) - len(pixels)
    if len(pixels) < LEAST:
        raise SceneError(_too_few(len(pixels), incomplete, lost))
    numbers = stored[tuple(pixels.T)].astype(np.float64)  # (n, targets)
    for k, target in enumerate(targets):
        _check_target(numbers[:, k], target)
    return Measured(pixels, numbers, targets, lost, incomplete)


def _too_few(n: int, incomplete: int = 0, lost: int = 0) -> str:
    said = f"expected at least {LEAST} pixels with a value, got {n}"
    said += f" ({lost} more lie where the scene has no data)" if lost else ""
    said += f" ({incomplete} more lack one of the targets)" if incomplete else ""
    return f"{said}; measure some more, in other places of the scene"


def _check_target(numbers: Array, target: Target) -> None:
    fault = size_fault(numbers)
    if fault is not None:
        raise SceneError(
            f"values of {target.name!r} cannot be learned in single precision: {fault}"
        )
    low, high = float(numbers.min()), float(numbers.max())
    if high - low <= 1e-7 * max(abs(low), abs(high)):
        raise SceneError(
            f"all {len(numbers)} values of {target.name!r} are {low:g}: there is nothing to learn; "
            "expected values that differ, check --field"
        )
    outside = np.zeros(len(numbers), bool)
    if target.low is not None and target.high is not None:
        outside = (numbers < target.low) | (numbers > target.high)
    if outside.any():
        raise SceneError(
            f"{np.count_nonzero(outside)} of {len(numbers)} values of {target.name!r} lie outside "
            f"the bounds {target.low:g} to {target.high:g}: they reach from {low:g} to {high:g}; "
            "correct them, or give other --bounds"
        )


class _Fitting:
    """One fit: its samples in each view, its folds, and the regressors that they choose."""

    def __init__(self, scene: Scene, measured: Measured, settings: TrainSettings) -> None:
        self.measured, self.settings = measured, settings
        self.experts = _experts(settings.preset, settings.window)
        widest = max(expert.window for expert in self.experts)
        rows, cols = measured.pixels.T
        samples = Samples(scene, rows, cols, widest)
        budget = memory_budget(settings.max_bytes, share=0.25)
        if samples.nbytes > budget:
            raise SceneError(
                f"{len(measured.pixels):,} windows of {widest} x {widest} pixels take "
                f"{human_bytes(samples.nbytes)}, more than the budget of {human_bytes(budget)}; "
                "raise --max-bytes (in Python, max_bytes), ask for --window 1, or use fewer values"
            )
        windows = samples.take(slice(None))
        self.windows = windows[:, None, None] if widest == 1 else windows  # (n, w, w, bands)
        self.fill = samples.fill
        self.views: dict[str, NoiseWhitening | None] = {"plain": None}
        if any(expert.view == "whitened" for expert in self.experts):
            with statistics_bar(settings.verbose) as bar:
                found = scene_statistics(scene, "other-scenes", settings.max_bytes, progress=bar)
            self.views["whitened"] = found.whitening

    def run(self) -> tuple[RankRRegressor, Targets]:
        """Return the joined regressor, and how it came about."""
        numbers, targets = self.measured.numbers, self.measured.targets
        seed = self.settings.random_state
        some = fold_subset(np.zeros(len(numbers), np.intp), seed)
        folds = spatial_folds(self.measured.pixels[some], np.zeros_like(some), FOLDS, seed)
        held, fitted, members = [], [], []
        with progress(len(self.experts), self.settings.verbose) as step:
            for expert in self.experts:
                own, predicted = self._held_out(expert, some, folds)
                held.append(clipped(predicted, targets))
                fitted.append(own)
                step()
            weights, kept = _weights(held, numbers[some], folds)
            for k, weight in zip(kept, weights.tolist(), strict=True):
                expert, view = self.experts[k], self.views[self.experts[k].view]
                # The starts on all values share the weight; those of the folds tell deviations
                count = max(round(STARTS[self.settings.preset] * weight), 1)
                seeds, X = np.random.SeedSequence(seed).generate_state(count), self._samples(expert)
                whole = [self._fit(X, numbers, int(start)) for start in seeds]
                members += [Member(own, view, weight / count, 0) for own in whole]
                members += [Member(own, view, weight, 1 + i) for i, own in enumerate(fitted[k])]
                step()
        experts = tuple(self.experts[k] for k in kept)
        mixed = np.tensordot(weights, np.stack([held[k] for k in kept]), axes=1)
        fit = Targets(
            experts=experts,
            weights=tuple(weights.tolist()),
            targets=targets,
            folds=len(np.unique(folds.fold)),
            noise=(0.0,) * len(targets),
            scores=score_values(numbers[some], mixed, targets, folds.group, seed),
            side=folds.side,
            points=len(some),
        )
        scaler = ModeStandardScaler(-1).fit(self._samples(Expert("plain", 1, 0)))
        # All outputs of the first block first, so that a map of values alone can drop the rest
        members.sort(key=lambda member: member.group)
        estimator = joined(members, scaler, fit.window)
        outputs = estimator.predict(self._samples(Expert("plain", fit.window, 0)))
        missed = ((mixed - numbers[some]) ** 2).mean(axis=0)
        spread = fit.spread(outputs.reshape(len(outputs), -1)[some]).mean(axis=0)
        noise = np.maximum(missed - spread, 0)
        return estimator, fit.model_copy(update={"noise": tuple(noise.tolist())})

    def _held_out(
        self, expert: Expert, some: Array, folds: SpatialFolds
    ) -> tuple[list[RankRRegressor], Array]:
        """Return a regressor for each fold that never saw it, and what they say of their folds."""
        X, y = self._samples(expert)[some], self.measured.numbers[some]
        fitted, predicted = [], np.zeros(y.shape)
        for k in np.unique(folds.fold):
            out = folds.fold == k
            own = self._fit(X[~out], y[~out], self.settings.random_state, epochs=FOLD_EPOCHS)
            predicted[out] = own.predict(X[out])
            fitted.append(own)
        return fitted, predicted

    def _fit(self, X: Array, y: Array, seed: int, **defaults: Any) -> RankRRegressor:
        options: dict[str, Any] = {"rank": 1, "activation": "tanh"}
        options |= defaults | dict(self.settings.parameters)
        return RankRRegressor(random_state=seed, **options).fit(X, y)

    def _samples(self, expert: Expert) -> Array:
        """Return samples ``(n, window, window, features)``, of single pixels ``(n, features)``."""
        margin = (self.windows.shape[1] - expert.window) // 2
        inner = slice(margin, self.windows.shape[1] - margin)
        windows, view = self.windows[:, inner, inner], self.views[expert.view]
        windows = windows if view is None else view.transform(windows)
        return windows[:, 0, 0] if expert.window == 1 else np.ascontiguousarray(windows)


def _experts(preset: str, window: int | None) -> list[Expert]:
    """Return the experts to choose from; a window that was asked for is kept to."""
    if window is None:
        return list(EXPERTS[preset])
    views = dict.fromkeys(expert.view for expert in EXPERTS[preset])
    return [Expert(view, check_window(window), 0) for view in views]


def _weights(held: Sequence[Array], numbers: Array, folds: SpatialFolds) -> tuple[Array, list[int]]:
    """Return the weights of the experts that are kept, and which these are."""
    scale = numbers.var(axis=0)
    losses = np.stack([((p - numbers) ** 2 / scale).mean(axis=1) for p in held])  # (E, n)
    weights = expert_weights(losses, folds.group, np.ones(len(numbers)))
    kept = np.flatnonzero(weights >= LEAST_SHARE * weights.sum()).tolist()
    return weights[kept] / weights[kept].sum(), kept
