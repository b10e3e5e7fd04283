"""From a scene and labels to a fitted `SceneModel`.

Presets are the steps for a scene and a goal, fixed beforehand and described in one line.
``"paper"`` is the paper's model with its own solver, ``"fast"`` networks on the scene's spectra,
``"best"``, the default, the most accurate map from a few labels. What is best depends on the goal.
A map of the scene that was labeled may use where a pixel lies: labels propagate over the scene's
graphs. A map of another scene must not: the network works alone on whitened spectra, and only its
probabilities are smoothed. `docs/results/few-labels.md` has the figures.

A draft of the best preset reads nothing from the scene and fits no fold: what was chosen last is
fitted to the newest labels, from one start, on components that the scene statistics keep. The model
that comes out maps these components, not the scene's bands.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy as np
import numpy.typing as npt
import xarray as xr
from tqdm import tqdm

from polyad.codec import Fault
from polyad.errors import BudgetExceeded, InputError, PolyadError, PolyadWarning, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.defaults import WINDOWS
from polyad.estimators.parameters import PAPER
from polyad.scene.files.option_values import check_preset, check_window
from polyad.scene.learn.accuracy import HeldOutScores, held_out_scores
from polyad.scene.learn.experts import (
    FOLDS,
    MANY,
    FitContext,
    HeldOut,
    Samples,
    Tested,
    ViewSamples,
    even_out,
    fit_weights,
    log_class_shares,
    log_losses,
    progress,
    scored,
    smoothing_radius,
)
from polyad.scene.learn.folds import mean_distance, testable
from polyad.scene.learn.model import SceneModel, trained_model
from polyad.scene.learn.model_file import TrainingBands, TrainingRecord, packed
from polyad.scene.learn.outputs import Classes
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.recipe import (
    VIEWS,
    Choice,
    GuidedFilter,
    Propagation,
    PropagationSettings,
    Recipe,
    Step,
    experts_for,
    prior_choice,
)
from polyad.scene.learn.sampling import per_class
from polyad.scene.learn.scene_statistics import (
    Components,
    SceneStatistics,
    scene_statistics,
    statistics_bar,
)
from polyad.scene.learn.steps import (
    Check,
    Graph,
    log_shares,
    make_seeds,
    mean_mass,
    propagate_labels,
)
from polyad.scene.learn.whitening import NoiseWhitening, TooFewPixels
from polyad.scene.raster.bands import named_bands
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.guards import memory_budget
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import with_usable_bands
from polyad.scene.raster.windows import Border, check_window_fits, extract_patches, interior
from polyad.scene.read.classes import Colors, with_legend
from polyad.scene.read.labels import check_labels, drop_nodata
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
P = ParamSpec("P")

# Passes over a training set that does not fit in memory; each sees every pixel once.
STREAMED_EPOCHS = 10
STARTS = 3
GUIDE = 3  # components that lead the guided filter
RIDGE = 0.01
REACH = 0.4  # labels held out must lie this share as far from others as the map does
# Before any fold is seen: the log shares of propagation are mild, a network's logits are not.
PRIOR_WEIGHTS = (1.0, 0.2)
PULL = 0.06
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


@dataclass(frozen=True)
class TrainSettings:
    """How a model of classes is trained; see `polyad.scene.train`.

    Attributes
    ----------
    preset, goal, objective : str
    window : int or None
        Chosen by folds where it is not given.
    random_state : int
    max_bytes : int or None
    starts : int
        Networks of the best preset, shared out among its experts.
    folds : int
        By which experts are weighed; with 0 the prior expert is fitted.
    score : bool
        Whether time is spent on the accuracy that the model tells of its own labels.
    verbose : bool
        Whether bars are shown.
    parameters : mapping
        Of `RankRClassifier`.
    """

    preset: Literal["paper", "fast", "best"] = "best"
    goal: Literal["this-scene", "other-scenes"] = "this-scene"
    objective: str = "overall"
    window: int | None = None
    random_state: int = 0
    max_bytes: int | None = None
    starts: int = STARTS
    folds: int = FOLDS
    score: bool = True
    verbose: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, **options: Any) -> TrainSettings:
        """Return the settings among ``options``; the others are parameters of the network."""
        names = {each.name for each in fields(cls)}
        own = {name: value for name, value in options.items() if name in names}
        own["verbose"] = bool(own.get("verbose", False))
        parameters = {name: value for name, value in options.items() if name not in names}
        return cls(**own, parameters=parameters)


@timed
def train(
    scene: xr.DataArray | Scene,
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
        See `polyad.scene.learn.training`. By default best; where its statistics of the scene do not
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
        check_window_fits(window, Scene.of(scene).shape)
    known, labels = (
        with_usable_bands(Scene.of(scene)),
        with_legend(Labels.of(labels).array, merge, colors),
    )
    check_labels(known, labels)
    labeled, labels = labels, drop_nodata(known, labels)
    if labeled.values.any() and not labels.values.any():
        raise SceneError(without_data(known, labeled))
    if samples_per_class is not None:
        pixels = per_class(
            labels, samples_per_class, random_state, border=border, window=window or WINDOW
        ).train
    else:
        pixels = np.argwhere(labels.values > 0)
        if border == "drop":
            rows, cols = pixels.T
            pixels = pixels[interior(rows, cols, labels.shape, window or WINDOW)]
    model = train_on(
        known,
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
    scene: xr.DataArray | Scene,
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
        check_window_fits(window, Scene.of(scene).shape)
    scene, labels = prepared(with_usable_bands(Scene.of(scene))), Labels.of(labels).array
    pixels = np.asarray(pixels, np.intp).reshape(-1, 2)
    rows, cols = pixels.T
    y = learnable(labels, labels.values[rows, cols].astype(np.int64))
    check_preset(preset, goal, objective)
    try:
        Classes.from_data({"classes": class_table(labels)}, "labels")
    except Fault as fault:
        raise SceneError(f"labels cannot be learned from: {fault}; rename the class") from fault
    if preset not in (None, "fast") and estimator is not None:
        raise InputError(f"preset {preset} brings its own model; pass it or an estimator, not both")
    known: dict[str, Any] = {}
    if estimator is None and preset in (None, "best"):
        names = ("statistics", "choice", "check")
        known = {name: parameters.pop(name) for name in names if name in parameters}
    if preset is None and estimator is None:
        shown, statistics = bool(parameters.get("verbose", 0)), known.get("statistics")
        if statistics is None:
            statistics = default_statistics(scene, len(y), window, goal, max_bytes, shown)
        if statistics is not None:
            preset, known["statistics"] = "best", statistics
    settings: dict[str, Any] = {"goal": goal, "objective": objective, "score": score}
    settings |= {"window": window, "random_state": random_state, "max_bytes": max_bytes}
    if preset == "best":
        best = TrainSettings.of(preset="best", **settings, **parameters)
        return fit_preset(scene, labels, pixels, best, **known)
    budget = memory_budget(max_bytes, share=0.25)
    samples = Samples(scene, rows, cols, check_window(WINDOW if window is None else window))
    if preset != "paper" and estimator is None and samples.nbytes <= budget:
        fast = TrainSettings.of(preset="fast", **settings, **parameters)
        return fit_preset(scene, labels, pixels, fast)
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
    return trained_model(
        scene, labels, estimator, samples.window, pixels, fill=samples.fill, recipe=recipe
    )


def preset_parameters(preset: str) -> dict[str, Any]:
    """Return the parameters of `RankRClassifier` that a preset stands for."""
    return dict(PAPER if preset == "paper" else WINDOWS)


def paper_recipe(estimator: RankRClassifier, window: int) -> Recipe:
    """Return the recipe of the paper's model: the network and nothing else."""
    rank = estimator.network_.hidden.rank
    line = f"bands standardized > rank-{rank} network on {window} x {window} windows, "
    line += f"{estimator.solver} solver"
    return Recipe(preset="paper", goal="other-scenes", line=line)


def fit_preset(
    scene: xr.DataArray | Scene,
    labels: xr.DataArray,
    pixels: Array,
    settings: TrainSettings,
    *,
    statistics: SceneStatistics | None = None,
    choice: Choice | None = None,
    check: Check = lambda: None,
) -> SceneModel:
    """Fit the preset fast or best on the given pixels, ``(n, 2)``; see `polyad.scene.train`.

    Networks on plain and, of the best preset, on whitened spectra, on single pixels and on windows,
    are weighed by spatial folds of the labels; a few starts of each one kept are fitted and merged
    into one network on the scene's bands. The best preset also learns the scene's noise without
    labels, and has a step after the network: for ``goal="this-scene"`` labels are propagated, with
    weights from the same folds. The network of the fast preset is the same for both goals.

    To fit often on one scene, pass its ``statistics`` and an earlier ``choice``; one start and no
    folds make a draft. ``check`` is called between the steps, and may raise to end the fit. Without
    ``score``, the accuracy that the model tells is that of the folds it was chosen by, which may
    not be those of its goal.
    """
    scene = prepared(scene)
    pixels = np.asarray(pixels, np.intp).reshape(-1, 2)
    best, window = settings.preset == "best", settings.window
    experts = experts_for(
        None if window is None else check_window(window), VIEWS if best else ("plain",)
    )
    widest = max(expert.window for expert in experts)
    if not best:
        rows, cols = pixels.T
        plain = NoiseWhitening.of_spectra(Samples(scene, rows, cols, widest).spectra())
        views, fill, distance, statistics = {"plain": plain}, plain.mean_, None, None
    else:
        if statistics is None:
            with statistics_bar(settings.verbose) as bar:
                statistics = scene_statistics(
                    scene, settings.goal, settings.max_bytes, progress=bar, check=check
                )
        views = {"whitened": statistics.whitening, "plain": statistics.plain}
        fill, distance = statistics.whitening.mean_, _distance(statistics, pixels)
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    fits = FitContext(
        ViewSamples(scene, views, pixels, widest),
        views,
        pixels,
        y,
        Labels.of(labels).groups_at(pixels),
        settings.objective,
        settings.random_state,
        settings.parameters,
        check,
    )
    check()
    held: HeldOut | None = None
    starts = settings.starts if best and len(y) <= MANY else 1
    with progress(len(experts), settings.verbose, check) as done:
        if choice is None and settings.folds:
            held = fits.choose(experts, settings.folds, distance, done)
            choice = held.tested.choice
        elif choice is None:
            choice = prior_choice(experts)
        estimator = fits.fit(choice, starts, done)
    line = f"network on {choice.line}" + (f", {starts} starts" if starts > 1 else "")
    tested = None if held is None else held.tested
    logits = None if held is None else held.logits
    weights: tuple[float, float] | None = None
    steps: tuple[Step, ...] = ()
    if statistics is not None:
        if settings.goal == "this-scene":
            weights = PRIOR_WEIGHTS
            if held is not None:
                weights, tested, logits = _tested_propagation(statistics, fits, held)
                choice = tested.choice
        steps, words = _step_after(statistics, fits, weights, choice.overall)
        line += words
    check()
    scores = None
    if held is not None and tested is not None and logits is not None:
        scores = _scores(held, logits, fits, 1.0 if weights is None else weights[1])
        if settings.score:
            tested = _scored_by_goal(tested, held, fits, scene, settings, statistics, weights)
            choice = tested.choice
    return trained_model(
        scene,
        labels,
        estimator,
        choice.window,
        pixels,
        fill=tuple(fill.tolist()),
        recipe=Recipe(preset=settings.preset, goal=settings.goal, line=line, steps=steps),
        statistics=statistics,
        choice=choice,
        tested=None if tested is None else tested.labels,
        held_out=scores,
    )


def _step_after(
    statistics: SceneStatistics,
    fits: FitContext,
    weights: tuple[float, float] | None,
    accuracy: float | None,
) -> tuple[tuple[Step, ...], str]:
    """Return the step after the network, if there is one, and the same in words."""
    settings = statistics.propagation
    if weights is not None:
        targets = tuple(fits.targets.tolist())
        return (Propagation(settings=settings, targets=targets, weights=weights),), (
            f" > combined with labels propagated over {len(settings.graphs)} graphs of the"
            f" scene (weights: network {weights[1]:.2f}, propagation {weights[0]:.2f})"
        )
    # No temperature: smoothing takes away as much confidence as the network has too much
    radius = smoothing_radius(fits.pixels, fits.targets, accuracy)
    if not radius:
        return (), ""
    words = f" > probabilities smoothed by a guided filter of radius {radius}"
    return (_guide(statistics.plain, radius),), words


def _scored_by_goal(
    tested: Tested,
    held: HeldOut,
    fits: FitContext,
    scene: Scene,
    settings: TrainSettings,
    statistics: SceneStatistics | None,
    weights: tuple[float, float] | None,
) -> Tested:
    """Return the choice with its accuracy on the folds of the goal, the same for every preset.

    A preset may have to choose by other folds: the fast one has the largest blocks, and the best
    one knows the pixels of a large scene better than the sample that all presets have. Where that
    makes a difference the chosen networks are fitted once more; nothing else depends on it.
    """
    light = scene.radiometry if settings.goal == "this-scene" else None
    distance = None if light is None else mean_distance(light.places, fits.pixels)
    some = held.which
    dealt = fits.folds(some, settings.folds, distance)
    if np.array_equal(dealt.fold, held.folds.fold):
        return tested
    logits, targets = fits.hold_out(tested.choice, some, dealt.fold), fits.targets[some]
    if weights is not None and statistics is not None:
        propagator = statistics.propagator(fits.check)
        shares = propagator.held_out(fits.pixels[some], targets, dealt.fold, logits.shape[1])
        logits = np.asarray(weights[0] * shares + weights[1] * logits)
    return scored(tested.choice, logits, targets, dealt, settings.random_state)


def _tested_propagation(
    statistics: SceneStatistics, fits: FitContext, held: HeldOut
) -> tuple[tuple[float, float] | None, Tested, Array]:
    """Return the weights of propagation and network from folds, and the choice with their score.

    No weights where propagation does not help on the labels held out, or lies out of their reach;
    the prior ones where there are too few labels to hold any out. Last come the logits of the
    labels held out by these weights, ``(m, C)``.
    """
    some, dealt = fits.targets[held.which], held.folds
    tested = testable(dealt.fold, some)
    if not tested.any():
        return PRIOR_WEIGHTS, held.tested, held.logits
    pixels = fits.pixels[held.which]
    distance = _distance(statistics, fits.pixels)
    # Most of the map lies much farther from the labels than any fold could test, as fields without
    # labels do: nothing is known of what propagation does there
    if distance is not None and mean_distance(pixels, pixels, dealt.fold) < REACH * distance:
        return None, held.tested, held.logits
    propagator = statistics.propagator(fits.check)
    shares = propagator.held_out(pixels, some, dealt.fold, held.logits.shape[1])
    both, y = [shares[tested], held.logits[tested]], some[tested]
    first, second = fit_weights(both, y, PRIOR_WEIGHTS, PULL)
    (alone,) = fit_weights([held.logits[tested]], y, [0.5], PULL)
    together = first * shares + second * held.logits
    if log_losses(together[tested], y).mean() > log_losses(alone * held.logits[tested], y).mean():
        return None, held.tested, held.logits
    return (first, second), scored(held.tested.choice, together, some, dealt), together


def _scores(held: HeldOut, logits: Array, fits: FitContext, weight: float) -> HeldOutScores | None:
    """Return what prediction sets are calibrated by; ``weight`` is the network's in the logits."""
    if fits.objective == "average":
        logits = logits - weight * log_class_shares(fits.targets)
    some = held.which
    return held_out_scores(logits, fits.targets[some], fits.pixels[some], held.folds)


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


def default_statistics(
    scene: Scene,
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
        _check_windows(pixels, WINDOW if window is None else window, scene.shape[2], max_bytes)
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


def without_data(scene: Scene, labels: xr.DataArray) -> str:
    """Return the sentence on labels none of which lies on a pixel with data in every band."""
    pixels = np.argwhere(labels.values > 0)
    rows, cols = pixels[:: max(len(pixels) // 1000, 1)].T
    spectra = extract_patches(scene, rows, cols, window=1)[:, 0, 0]  # (n, bands)
    missing = ~valid_pixels(spectra[..., None], scene.nodata)
    where = " inside the mask" if scene.inside is not None else ""
    said = f"no labeled pixel of {len(pixels):,} has data in every band{where}"
    if missing.all():
        what = "the mask, where the labels lie" if where else "where the labels lie"
        return f"{said}: none has data in any band; check {what} and the scene's nodata value"
    share = missing.mean(axis=0)  # (bands,)
    worst = scene.array.isel(band=np.flatnonzero(share >= share.max() / 2))
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


# -- drafts ---------------------------------------------------------------------------------------


def fit_draft(
    statistics: SceneStatistics,
    labels: xr.DataArray,
    *,
    last: SceneModel | None = None,
    window: int | None = None,
    random_state: int = 0,
    objective: str = "overall",
    check: Check = lambda: None,
    **parameters: Any,
) -> SceneModel:
    """Fit a draft to labels, dims ``(y, x)``; those without data are left out.

    Parameters
    ----------
    statistics : SceneStatistics
        With components.
    labels : DataArray of int
    last : SceneModel, optional
        A model of the best preset, whose choice of experts and steps are taken over; without one,
        the expert and the step that serve most scenes.
    window, random_state, objective, parameters
        See `polyad.scene.train`.
    check : callable, optional
        Called after each fit, and may raise.

    Returns
    -------
    SceneModel
        Of a scene of components, see `viewed`.
    """
    components = kept_components(statistics)
    pixels = np.argwhere(labels.values > 0)
    pixels = pixels[statistics.nodes[tuple(pixels.T)] >= 0]
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    choice, recipe = _last_choice(last, window)
    experts, widest = choice.experts, max(expert.window for expert in choice.experts)
    names = {expert.view for expert in experts}
    rows, cols = pixels.T
    windows = {
        name: extract_patches(components.view((name,)), rows, cols, widest).astype(np.float32)
        for name in names
    }
    parameters.pop("verbose", 0)
    fits = FitContext(
        ViewSamples.of_components(windows, widest),
        _selections(components, viewed(choice)),
        pixels,
        y,
        objective=objective,
        random_state=random_state,
        parameters=parameters,
        check=check,
    )
    estimator = fits.fit(choice)
    known = {c.value: c for c in class_table(labels)}
    classes = tuple(known[int(value)] for value in estimator.classes_)
    bands = estimator.sample_shape_[-1]
    targets = tuple(fits.targets.tolist())
    steps = tuple(
        step.model_copy(update={"targets": targets}) if isinstance(step, Propagation) else step
        for step in recipe.steps
    )
    return SceneModel(
        estimator,
        choice.window,
        Classes.of(classes),
        TrainingBands(count=bands),
        TrainingRecord(packed_pixels=packed(pixels), choice=choice),
        recipe.model_copy(update={"steps": steps}),
    )


def viewed(choice: Choice | None) -> tuple[str, ...]:
    """Return the views of components that a draft with this choice takes, in their order."""
    names = {expert.view for expert in (() if choice is None else choice.experts)}
    return tuple(name for name in ("whitened", "plain") if name in names)


def kept_components(statistics: SceneStatistics) -> Components:
    """Return the components that scene statistics have, or say how to get them."""
    if statistics.components is None:
        raise InputError(
            "a draft wants scene statistics with components; compute them with keep_components=True"
        )
    return statistics.components


def _last_choice(last: SceneModel | None, window: int | None) -> tuple[Choice, Recipe]:
    """Return the choice and the recipe of the last model, or those to start with."""
    if last is not None and last.choice is not None and last.recipe is not None:
        return last.choice, last.recipe
    experts = experts_for(None if window is None else check_window(window))
    choice = prior_choice(experts)
    step = Propagation(settings=PropagationSettings(), targets=(), weights=PRIOR_WEIGHTS)
    line = f"network on {choice.line} > times labels propagated over the scene's graph"
    return choice, Recipe(preset="best", goal="this-scene", line=line, steps=(step,))


def _selections(components: Components, names: tuple[str, ...]) -> dict[str, NoiseWhitening]:
    """Return for each view the projection that takes it out of the components side by side."""
    spans = {name: components.columns[name] for name in names}
    first, stop = (
        min(s.start for s in spans.values()),
        max(s.stop for s in spans.values()),
    )
    chosen = {}
    for name, span in spans.items():
        view = NoiseWhitening(span.stop - span.start)
        view.mean_, view.scale_ = np.zeros(stop - first), np.ones(stop - first)
        view.projection_ = np.eye(stop - first)[:, span.start - first : span.stop - first]
        chosen[name] = view
    return chosen


class PropagatedLabels:
    """Labels propagated over a scene's graphs, class by class.

    What reaches the nodes from one class depends on that class's labels alone. A click changes
    those of one class, so all others are kept from the last time.
    """

    def __init__(self, statistics: SceneStatistics) -> None:
        self.statistics = statistics
        self._nodes: dict[int, tuple[int, ...]] = {}  # of the labels of each class
        self._mass: dict[int, list[Array]] = {}  # of each class on each graph, (nodes,)

    def log_shares(self, pixels: Array, class_ids: Array, check: Check = lambda: None) -> Array:
        """Return the log shares of the classes, in order of their ids, ``(nodes, classes)``.

        Equal to `Propagation.propagate`, but for rounding.

        Parameters
        ----------
        pixels : ndarray of int, ``(n, 2)``
            With labels.
        class_ids : ndarray of int, ``(n,)``
        check : callable, optional
            Called before each step, and may raise; what was known before is then still known.
        """
        graphs, settings = self.statistics.graphs, self.statistics.propagation
        here = self.statistics.nodes[tuple(pixels.T)]
        present = np.unique(class_ids).tolist()
        seeded = {k: tuple(np.sort(here[class_ids == k]).tolist()) for k in present}
        new = [k for k in present if self._nodes.get(k) != seeded[k]]
        if new:
            among = np.isin(class_ids, new)
            targets = np.searchsorted(new, class_ids[among])
            seeds = make_seeds(here[among], targets, graphs[0].shape[0], len(new))
            propagate = _propagate_column if len(new) == 1 else propagate_labels
            options = (settings.alpha, settings.iterations, check)
            mass = run_tasks(lambda graph: propagate(graph, seeds, *options), graphs)
            for at, k in enumerate(new):
                self._mass[k] = [np.ascontiguousarray(of_graph[:, at]) for of_graph in mass]
        self._nodes = seeded
        self._mass = {k: self._mass[k] for k in present}

        def logs(number: int) -> Array:
            mass = np.stack([self._mass[k][number] for k in present])  # (classes, nodes)
            return log_shares(mass.T, mean_mass(mass.T), settings.smoothing).T

        total: Any = sum(run_tasks(logs, range(len(graphs))))
        return np.ascontiguousarray(np.asarray(total / len(graphs)).T)


def _propagate_column(graph: Graph, seeds: Array, alpha: float, steps: int, check: Check) -> Array:
    """As `propagate_labels`, of one class ``(nodes, 1)``: for one column scipy is faster."""
    start, mass = (1 - alpha) * seeds[:, 0], seeds[:, 0]
    scaled = graph * np.float32(alpha)
    for _ in range(steps):
        check()
        mass = scaled @ mass
        mass += start
    return mass[:, None]
