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
from typing import Any, NamedTuple

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
    measured = _measured(known, values, target_table(values, bounds))
    known = prepared(known)
    some = training.labels_that_fit(known, np.zeros(len(measured.pixels), np.intp), settings, LEAST)
    measured = measured._replace(pixels=measured.pixels[some], numbers=measured.numbers[some])
    statistics = None
    if preset != "fast":
        statistics = training.default_statistics(known, replace(settings, goal="other-scenes"))
    preset = "fast" if statistics is None else "best"
    candidates = _experts(preset, settings.window)
    rows, cols = measured.pixels.T
    widest = max(expert.window for expert in candidates)
    samples = experts.Samples(known, rows, cols, widest)
    windows = samples.take(slice(None)).reshape(len(rows), widest, widest, -1)
    views = {"plain": None, "whitened": None if statistics is None else statistics.whitening}
    fits = _Fits(windows, views, measured.numbers, settings)
    estimator, output = _fit_experts(fits, measured, candidates, STARTS[preset])
    line = f"regression on {output.line}"
    line += f", {STARTS[preset]} starts" if STARTS[preset] > 1 else ""
    if bounds is not None:
        line += f" > clipped to {output.targets[0].low:g} to {output.targets[0].high:g}"
    recipe = Recipe.from_data({"preset": preset, "goal": goal, "line": line}, "recipe")
    model = scene_model(
        known, estimator, output.window, output, measured.pixels, recipe=recipe, fill=samples.fill
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
    pixels = np.argwhere(known)
    if len(pixels):
        pixels = np.argwhere(drop_nodata(scene, marks).values > 0)
    if known.any() and not len(pixels):
        message = training.without_data(scene, marks)
        raise SceneError(message.replace("labeled pixel", "measured pixel"))
    lost = int(np.count_nonzero(known)) - len(pixels)
    if len(pixels) < LEAST:
        message = f"expected at least {LEAST} pixels with a value, got {len(pixels)}"
        message += f" ({lost} more lie where the scene has no data)" if lost else ""
        message += f" ({incomplete} more lack one of the targets)" if incomplete else ""
        raise SceneError(f"{message}; measure some more, in other places of the scene")
    numbers = stored[tuple(pixels.T)].astype(np.float64)  # (n, targets)
    for column, target in zip(numbers.T, targets, strict=True):
        _check_target(column, target)
    return Measured(pixels, numbers, targets, lost, incomplete)


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


@dataclass(frozen=True)
class _Fits:
    """What all regressors of one training share.

    Attributes
    ----------
    windows : ndarray, ``(n, window, window, bands)``
    views : mapping of str to NoiseWhitening or None
        None are the bands as they are.
    numbers : ndarray, ``(n, targets)``
    settings : TrainSettings
    """

    windows: Array
    views: Mapping[str, NoiseWhitening | None]
    numbers: Array
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
    fits: _Fits, measured: Measured, candidates: Sequence[Expert], starts: int
) -> tuple[RankRRegressor, Targets]:
    """Return the experts that folds chose as one regressor, and how it came about."""
    numbers, targets, seed = fits.numbers, measured.targets, fits.settings.random_state
    some = experts.draw_labels(np.zeros(len(numbers), np.intp), seed)
    folds = spatial_folds(measured.pixels[some], np.zeros_like(some), FOLDS, seed)
    held, fitted, members = [], [], []
    with experts.progress(len(candidates), fits.settings.verbose) as step:
        for expert in candidates:
            of_folds, predicted = fits.hold_out(expert, some, folds)
            held.append(clipped(predicted, targets))
            fitted.append(of_folds)
            step()
        weights, kept = _weights(held, numbers[some], folds)
        for k, weight in zip(kept, weights.tolist(), strict=True):
            view, X = fits.views[candidates[k].view], fits.take(candidates[k])
            # The starts on all values share the weight; those of the folds tell deviations
            count = max(round(starts * weight), 1)
            for start in np.random.SeedSequence(seed).generate_state(count):
                members.append(Member(fits.fit(X, numbers, int(start)), view, weight / count, 0))
            members += [Member(own, view, weight, 1 + i) for i, own in enumerate(fitted[k])]
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
    return experts.heaviest(experts.expert_weights(losses, folds.group, np.ones(len(numbers))))
