"""Presets: the steps for a scene and a goal, fixed beforehand and described in one line.

``"paper"`` is the paper's model with its own solver, ``"fast"`` networks on the scene's spectra,
``"best"``, the default, the most accurate map from a few labels. What is best depends on the goal.
A map of the scene that was labeled may use where a pixel lies: labels propagate over the scene's
graphs. A map of another scene must not: the network works alone on whitened spectra, and only its
probabilities are smoothed. `docs/results/few-labels.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.defaults import WINDOWS
from polyad.estimators.parameters import PAPER
from polyad.scene.files.option_values import check_window
from polyad.scene.learn.accuracy import HeldOutScores, held_out_scores
from polyad.scene.learn.experts import (
    FOLDS,
    MANY,
    HeldOut,
    Samples,
    Tested,
    ViewSamples,
    choice_folds,
    choose_experts,
    fit_experts,
    fit_weights,
    hold_out,
    log_class_shares,
    log_losses,
    progress,
    scored,
    smoothing_radius,
)
from polyad.scene.learn.folds import mean_distance, testable
from polyad.scene.learn.model import SceneModel, trained_model
from polyad.scene.learn.radiometry import light_of, prepared
from polyad.scene.learn.recipe import (
    Choice,
    GuidedFilter,
    Propagation,
    Recipe,
    Step,
    experts_for,
    prior_choice,
)
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics, statistics_bar
from polyad.scene.learn.steps import Propagator
from polyad.scene.learn.whitening import NoiseWhitening
from polyad.scene.raster.labels import groups_of
from polyad.scene.raster.scene import as_labels

Array = npt.NDArray[Any]

STARTS = 3
GUIDE = 3  # components that lead the guided filter
RIDGE = 0.01
REACH = 0.4  # labels held out must lie this share as far from others as the map does
# Before any fold is seen: the log shares of propagation are mild, a network's logits are not.
PRIOR_WEIGHTS = (1.0, 0.2)
PULL = 0.06


def preset_parameters(preset: str) -> dict[str, Any]:
    """Return the parameters of `RankRClassifier` that a preset stands for."""
    return dict(PAPER if preset == "paper" else WINDOWS)


def paper_recipe(estimator: RankRClassifier, window: int) -> Recipe:
    """Return the recipe of the paper's model: the network and nothing else."""
    rank = estimator.network_.hidden.rank
    line = f"bands standardized > rank-{rank} network on {window} x {window} windows, "
    line += f"{estimator.solver} solver"
    return Recipe(preset="paper", goal="other-scenes", line=line)


def train_best(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    *,
    goal: str = "this-scene",
    window: int | None = None,
    objective: str = "overall",
    random_state: int = 0,
    max_bytes: int | None = None,
    statistics: SceneStatistics | None = None,
    choice: Choice | None = None,
    starts: int = STARTS,
    folds: int = FOLDS,
    score: bool = True,
    check: Callable[[], None] = lambda: None,
    **parameters: Any,
) -> SceneModel:
    """Fit the best preset on the given pixels, ``(n, 2)``; see `polyad.scene.train`.

    The scene's noise is learned without labels. Networks on plain and on whitened spectra, on
    single pixels and on windows, are weighed by spatial folds of the labels; a few starts of each
    one kept are fitted and merged into one network on the scene's bands. For
    ``goal="this-scene"`` the weights of network and propagation come from the same folds.

    To fit often on one scene, pass its ``statistics`` and an earlier ``choice``; one start and no
    folds make a draft. ``check`` is called between the steps, and may raise to end the fit. Without
    ``score``, the accuracy that the model tells is that of the folds it was chosen by, which may
    not be those of its goal.
    """
    scene, labels = prepared(scene), as_labels(labels)
    pixels = np.asarray(pixels, np.intp).reshape(-1, 2)
    if statistics is None:
        with statistics_bar(bool(parameters.get("verbose", 0))) as bar:
            statistics = scene_statistics(scene, goal, max_bytes, progress=bar, check=check)
    views = {"whitened": statistics.whitening, "plain": statistics.plain}
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    targets = np.unique(y, return_inverse=True)[1]
    experts = experts_for(None if window is None else check_window(window))
    samples = ViewSamples(scene, views, pixels, max(expert.window for expert in experts))
    check()
    options: dict[str, Any] = {
        "objective": objective,
        "random_state": random_state,
        "parameters": parameters,
        "on_fit": check,
    }
    held: HeldOut | None = None
    tested: Tested | None = None
    starts = starts if len(y) <= MANY else 1
    with progress(len(experts), bool(parameters.pop("verbose", 0)), check) as options["check"]:
        if choice is None and folds:
            distance = _distance(statistics, pixels)
            dealt: dict[str, Any] = {"folds": folds, "distance": distance}
            dealt["groups"] = groups_of(labels, pixels)
            held = choose_experts(experts, samples, pixels, targets, **dealt, **options)
            tested = held.tested
            choice = tested.choice
        elif choice is None:
            choice = prior_choice(experts)
        estimator = fit_experts(choice, samples, views, y, starts=starts, **options)
    line = f"network on {choice.line}" + (f", {starts} starts" if starts > 1 else "")
    steps: list[Step] = []
    settings = statistics.propagation
    weights: tuple[float, float] | None = None
    scores = None if held is None else _scores(held, held.logits, pixels, targets, objective)
    if goal == "this-scene":
        weights = PRIOR_WEIGHTS
        if held is not None:
            weights, tested, together = _tested_propagation(
                statistics.propagator(check), statistics, pixels, targets, held
            )
            choice = tested.choice
            if weights is not None:
                scores = _scores(held, together, pixels, targets, objective, weights[1])
    if weights is not None:
        steps.append(
            Propagation(settings=settings, targets=tuple(targets.tolist()), weights=weights)
        )
        line += f" > combined with labels propagated over {len(settings.graphs)} graphs of the"
        line += f" scene (weights: network {weights[1]:.2f}, propagation {weights[0]:.2f})"
    else:
        # No temperature: smoothing takes away as much confidence as the network has too much
        radius = smoothing_radius(pixels, targets, choice.overall)
        if radius:
            steps.append(_guide(statistics.plain, radius))
            line += f" > probabilities smoothed by a guided filter of radius {radius}"
    check()
    if held is not None and tested is not None and score:

        def combined(fold: Array, logits: Array) -> Array:
            if weights is None:
                return logits
            some, count = held.which, logits.shape[1]
            propagator = statistics.propagator(check)
            shares = propagator.held_out(pixels[some], targets[some], fold, count)
            return np.asarray(weights[0] * shares + weights[1] * logits)

        given = (scene, labels, pixels, targets, samples)
        tested = _scored_by_goal(tested, held, goal, *given, folds, options, combined)
        choice = tested.choice
    return trained_model(
        scene,
        labels,
        estimator,
        choice.window,
        pixels,
        fill=tuple(statistics.whitening.mean_.tolist()),
        recipe=Recipe.from_data(
            {"preset": "best", "goal": goal, "line": line, "steps": tuple(steps)}, "recipe"
        ),
        statistics=statistics,
        choice=choice,
        tested=None if tested is None else tested.labels,
        held_out=scores,
    )


def train_fast(
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    *,
    goal: str = "this-scene",
    window: int | None = None,
    objective: str = "overall",
    random_state: int = 0,
    score: bool = True,
    check: Callable[[], None] = lambda: None,
    **parameters: Any,
) -> SceneModel:
    """Fit the fast preset on the given pixels, ``(n, 2)``; see `polyad.scene.train`.

    As `train_best` without what is learned from the rest of the scene: networks on plain spectra
    alone, one start each, and no step after them. The goal says whether its maps of other scenes
    are adapted to their light, and by which folds its accuracy is estimated; the network is the
    same.
    """
    scene, labels = prepared(scene), as_labels(labels)
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    targets = np.unique(y, return_inverse=True)[1]
    experts = experts_for(None if window is None else check_window(window), ["plain"])
    rows, cols = pixels.T
    windows = Samples(scene, rows, cols, max(expert.window for expert in experts))
    view = NoiseWhitening.of_spectra(windows.spectra())
    views = {"plain": view}
    samples = ViewSamples(scene, views, pixels, windows.window)
    options: dict[str, Any] = {
        "objective": objective,
        "random_state": random_state,
        "parameters": parameters,
        "on_fit": check,
    }
    with progress(len(experts), bool(parameters.pop("verbose", 0)), check) as options["check"]:
        given = (experts, samples, pixels, targets)
        held = choose_experts(*given, groups=groups_of(labels, pixels), **options)
        tested, choice = held.tested, held.tested.choice
        estimator = fit_experts(choice, samples, views, y, **options)
    recipe = Recipe.from_data(
        {"preset": "fast", "goal": goal, "line": f"network on {choice.line}"}, "recipe"
    )
    made: dict[str, Any] = {"fill": tuple(view.mean_.tolist()), "recipe": recipe}
    made["held_out"] = _scores(held, held.logits, pixels, targets, objective)
    if score:
        about = (scene, labels, pixels, targets, samples)
        tested = _scored_by_goal(tested, held, goal, *about, FOLDS, options)
    made |= {"choice": tested.choice, "tested": tested.labels}
    return trained_model(scene, labels, estimator, choice.window, pixels, **made)


def _scored_by_goal(
    tested: Tested,
    held: HeldOut,
    goal: str,
    scene: xr.DataArray,
    labels: xr.DataArray,
    pixels: Array,
    targets: Array,
    samples: ViewSamples,
    folds: int,
    options: Mapping[str, Any],
    combined: Callable[[Array, Array], Array] = lambda fold, logits: logits,  # noqa: ARG005
) -> Tested:
    """Return the choice with its accuracy on the folds of the goal, the same for every preset.

    A preset may have to choose by other folds: the fast one has the largest blocks, and the best
    one knows the pixels of a large scene better than the sample that all presets have. Where that
    makes a difference the chosen networks are fitted once more; nothing else depends on it.
    ``combined`` takes folds and the networks' logits ``(m, C)`` to those of the whole preset.
    """
    light = light_of(scene) if goal == "this-scene" else None
    distance = None if light is None else mean_distance(light.places, pixels)
    some, seed = held.which, options["random_state"]
    groups = groups_of(labels, pixels)
    own = None if groups is None else groups._replace(ids=groups.ids[some])
    dealt = choice_folds(pixels[some], targets[some], folds, seed, distance, own)
    if np.array_equal(dealt.fold, held.folds.fold):
        return tested
    fitting = (seed, options["parameters"], options["on_fit"])
    choice = tested.choice
    logits = hold_out(choice, samples, some, targets, dealt.fold, *fitting)
    return scored(choice, combined(dealt.fold, logits), targets[some], dealt, seed)


def _tested_propagation(
    propagator: Propagator,
    statistics: SceneStatistics,
    pixels: Array,
    targets: Array,
    held: HeldOut,
) -> tuple[tuple[float, float] | None, Tested, Array]:
    """Return the weights of propagation and network from folds, and the choice with their score.

    No weights where propagation does not help on the labels held out, or lies out of their reach;
    the prior ones where there are too few labels to hold any out. Last come the logits of the
    labels held out by these weights, ``(m, C)``.
    """
    some, dealt = targets[held.which], held.folds
    tested = testable(dealt.fold, some)
    if not tested.any():
        return PRIOR_WEIGHTS, held.tested, held.logits
    if _out_of_reach(statistics, pixels, held):
        return None, held.tested, held.logits
    shares = propagator.held_out(pixels[held.which], some, dealt.fold, held.logits.shape[1])
    both, y = [shares[tested], held.logits[tested]], some[tested]
    first, second = fit_weights(both, y, PRIOR_WEIGHTS, PULL)
    weights = first, second
    (alone,) = fit_weights([held.logits[tested]], y, [0.5], PULL)
    together = weights[0] * shares + weights[1] * held.logits
    if log_losses(together[tested], y).mean() > log_losses(alone * held.logits[tested], y).mean():
        return None, held.tested, held.logits
    return weights, scored(held.tested.choice, together, some, dealt), together


def _scores(
    held: HeldOut,
    logits: Array,
    pixels: Array,
    targets: Array,
    objective: str,
    weight: float = 1.0,
) -> HeldOutScores | None:
    """Return what prediction sets are calibrated by; ``weight`` is the network's in the logits."""
    if objective == "average":
        logits = logits - weight * log_class_shares(targets)
    return held_out_scores(logits, targets[held.which], pixels[held.which], held.folds)


def _out_of_reach(statistics: SceneStatistics, pixels: Array, held: HeldOut) -> bool:
    """Whether most of the map lies much farther from the labels than any fold could test.

    Then nothing is known of what propagation does there, as in fields without labels.
    """
    distance, some = _distance(statistics, pixels), pixels[held.which]
    tested = mean_distance(some, some, held.folds.fold)
    return distance is not None and tested < REACH * distance


def _distance(statistics: SceneStatistics, pixels: Array) -> float | None:
    """Return how far the pixels of the map lie from the labels on average."""
    return None if statistics.pixels is None else mean_distance(statistics.pixels, pixels)


def _guide(whitening: NoiseWhitening, radius: int) -> GuidedFilter:
    """Return the guided filter's step; its guide has unit variance over the training scene."""
    # A component that does not vary leads nothing; the clearest varies, or there was no fit
    kept = max(int((whitening.ratio_[:GUIDE] > 1e-6).sum()), 1)
    projection = whitening.projection_[:, :kept] / np.sqrt(whitening.ratio_[:kept])
    projection = projection / whitening.scale_[:, None]
    return GuidedFilter(
        radius=radius,
        ridge=RIDGE,
        mean=tuple(whitening.mean_.tolist()),
        projection=tuple(map(tuple, projection.tolist())),
    )
