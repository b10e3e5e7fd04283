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
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.codec import Fault
from polyad.errors import BudgetExceeded, InputError, PolyadWarning, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.defaults import WINDOWS
from polyad.estimators.parameters import PAPER
from polyad.scene.files.option_values import check_preset, check_window
from polyad.scene.learn import experts, steps
from polyad.scene.learn.accuracy import HeldOutLabels, held_out_scores
from polyad.scene.learn.experts import FitContext, HeldOut, TrainSettings, ViewSamples
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
from polyad.scene.learn.steps import Check, Propagator
from polyad.scene.learn.whitening import NoiseWhitening, TooFewPixels
from polyad.scene.raster.bands import named_bands
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.guards import human_bytes, memory_budget
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.selection import with_usable_bands
from polyad.scene.raster.windows import Border, check_window_fits, extract_patches, interior
from polyad.scene.read.classes import Colors, with_legend
from polyad.scene.read.labels import check_labels, drop_nodata
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
P = ParamSpec("P")

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
        return model.with_training(seconds=round(time.perf_counter() - started, 4))

    return measured


@timed
def train(
    scene: xr.DataArray | Scene,
    labels: xr.DataArray,
    *,
    samples_per_class: int | None = None,
    border: Border = "reflect",
    merge: str | Sequence[str] = (),
    colors: Colors | None = None,
    window: int | None = None,
    random_state: int = 0,
    max_bytes: int | None = None,
    estimator: Any = None,
    preset: str | None = None,
    goal: str = "this-scene",
    objective: str = "overall",
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
        Memory that training windows, and what the best preset learns of the scene, may take; by
        default a quarter of the machine's. Of more labels than fit, a random part of each class is
        learned, with a warning.
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
    known = with_usable_bands(Scene.of(scene))
    labeled = with_legend(Labels.of(labels).array, merge, colors)
    check_labels(known, labeled)
    labels = drop_nodata(known, labeled)
    if labeled.values.any() and not labels.values.any():
        raise SceneError(without_data(known, labeled))
    side, pixels = WINDOW if window is None else window, np.argwhere(labels.values > 0)
    if samples_per_class is not None:
        drawn = per_class(labels, samples_per_class, random_state, border=border, window=side)
        pixels = drawn.train
    elif border == "drop":
        pixels = pixels[interior(pixels[:, 0], pixels[:, 1], labels.shape, side)]
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
    estimator: Any = None,
    statistics: SceneStatistics | None = None,
    **options: Any,
) -> SceneModel:
    """Fit a model on the given pixels, ``(n, 2)`` rows and columns.

    Parameters
    ----------
    scene, labels, estimator
        See `train`.
    pixels : ndarray of int, ``(n, 2)``
    statistics : SceneStatistics, optional
        Of the scene, if they are known; for the best preset.
    **options
        Other options of `train`. With ``score=False`` no time is spent on the accuracy of the
        model by spatial cross-validation.
    """
    settings = TrainSettings.of(**options)
    check_preset(settings.preset, settings.goal, settings.objective)
    if settings.preset not in (None, "fast") and estimator is not None:
        raise InputError(
            f"preset {settings.preset} brings its own model; pass it or an estimator, not both"
        )
    if settings.window is not None:
        check_window_fits(settings.window, Scene.of(scene).shape)
    scene, labels = prepared(with_usable_bands(Scene.of(scene))), Labels.of(labels).array
    pixels = np.asarray(pixels, np.intp).reshape(-1, 2)
    y = learnable(labels, labels.values[tuple(pixels.T)].astype(np.int64))
    try:
        Classes.from_data({"classes": class_table(labels)}, "labels")
    except Fault as fault:
        raise SceneError(f"labels cannot be learned from: {fault}; rename the class") from fault
    some = labels_that_fit(scene, y, settings)
    pixels, y = pixels[some], y[some]
    if estimator is None and settings.preset != "paper":
        return fit_preset(scene, labels, pixels, settings, statistics=statistics)
    window = check_window(WINDOW if settings.window is None else settings.window)
    if estimator is None:
        options = {"verbose": int(settings.verbose), **PAPER, **settings.parameters}
        estimator = RankRClassifier(random_state=settings.random_state, **options)
    elif settings.parameters:
        raise InputError(
            f"parameters {', '.join(settings.parameters)} belong to the default model; set them on "
            "the estimator that was passed"
        )
    rows, cols = pixels.T
    samples = experts.Samples(scene, rows, cols, window)
    estimator.fit(samples.take(), y)
    if settings.objective == "average" and isinstance(estimator, RankRClassifier):
        experts.even_out(estimator, y)
    recipe: Recipe | None = None
    if settings.preset == "paper":
        rank, solver = estimator.network_.hidden.rank, estimator.solver
        line = f"bands standardized > rank-{rank} network on {window} x {window} windows, "
        recipe = Recipe(preset="paper", goal="other-scenes", line=f"{line}{solver} solver")
    return trained_model(scene, labels, estimator, window, pixels, fill=samples.fill, recipe=recipe)


def preset_parameters(preset: str) -> dict[str, Any]:
    """Return the parameters of `RankRClassifier` that a preset stands for."""
    return dict(PAPER if preset == "paper" else WINDOWS)


def labels_that_fit(scene: Scene, y: Array, settings: TrainSettings, least: int = 1) -> Array:
    """Return which labels are learned: all, or those whose windows fit in memory, with a warning.

    Windows are held twice, as they are and as components. `BudgetExceeded` is raised where not even
    ``least`` of each class fit.
    """
    side = WINDOW if settings.window is None else settings.window
    needed = 2 * len(y) * side**2 * scene.shape[2] * 4
    budget = memory_budget(settings.max_bytes, share=0.25)
    if needed <= budget:
        return np.arange(len(y))
    limit = f"the budget of {human_bytes(budget)}; raise --max-bytes (in Python, max_bytes)"
    most = len(y) * budget // needed
    if most < least * len(np.unique(y)):
        what = f"the windows of {least} labeled pixels of each class do not fit in"
        raise BudgetExceeded(f"{what} {limit}")
    some = experts.draw_labels(y, settings.random_state, most=most, least=least)
    warnings.warn(
        f"{len(some):,} of {len(y):,} labeled pixels are learned, drawn at random from each class: "
        f"the windows of all take {human_bytes(needed)}, more than {limit} to learn more",
        PolyadWarning,
        stacklevel=4,
    )
    return some


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
    ``score``, the accuracy is that of the folds that the model was chosen by, which may not be
    those of its goal.
    """
    scene, pixels = prepared(scene), np.asarray(pixels, np.intp).reshape(-1, 2)
    if settings.preset == "fast":
        statistics = None
    elif statistics is None:
        statistics = default_statistics(scene, settings, check)
    preset: Literal["fast", "best"] = "fast" if statistics is None else "best"
    window = None if settings.window is None else check_window(settings.window)
    candidates = experts_for(window, ("plain",) if statistics is None else VIEWS)
    widest, distance = max(expert.window for expert in candidates), None
    if statistics is None:
        rows, cols = pixels.T
        spectra = experts.Samples(scene, rows, cols, widest).spectra()
        views = {"plain": NoiseWhitening.of_spectra(spectra)}
    else:
        views = {"whitened": statistics.whitening, "plain": statistics.plain}
        distance = _distance(statistics, pixels)
    fits = FitContext(
        ViewSamples.of_scene(scene, views, pixels, widest),
        views,
        pixels,
        labels.values[tuple(pixels.T)].astype(np.int64),
        settings,
        Labels.of(labels).groups_at(pixels),
        check,
    )
    check()
    held: HeldOut | None = None
    starts = settings.starts if preset == "best" and len(pixels) <= experts.MANY else 1
    with experts.progress(len(candidates), settings.verbose, check) as done:
        if choice is None and settings.folds:
            choice, held = fits.choose(candidates, distance, done)
        elif choice is None:
            choice = prior_choice(candidates)
        estimator = fits.fit(choice, starts, done)
    line = f"network on {choice.line}" + (f", {starts} starts" if starts > 1 else "")
    weights: tuple[float, float] | None = None
    after: tuple[Step, ...] = ()
    if statistics is not None:
        if settings.goal == "this-scene":
            weights = PRIOR_WEIGHTS
            if held is not None:
                weights, held = tested_propagation(statistics.propagator(check), held, distance)
        if weights is not None:
            targets = tuple(fits.targets.tolist())
            settled = statistics.propagation
            after = (Propagation(settings=settled, targets=targets, weights=weights),)
            line += (
                f" > combined with labels propagated over {len(statistics.propagation.graphs)} "
                f"graphs of the scene (weights: network {weights[1]:.2f}, propagation "
                f"{weights[0]:.2f})"
            )
        # No temperature: smoothing takes away as much confidence as the network has too much
        elif radius := experts.smoothing_radius(pixels, fits.targets, choice.overall):
            after = (_guide(statistics.plain, radius),)
            line += f" > probabilities smoothed by a guided filter of radius {radius}"
    check()
    scores, tested = None, None
    if held is not None:
        logits = held.logits
        if settings.objective == "average":
            share = 1.0 if weights is None else weights[1]
            logits = logits - share * experts.log_class_shares(fits.targets)
        scores = held_out_scores(logits, held.targets, held.pixels, held.folds)
        tested = held.labels
        if settings.score:
            tested = _labels_by_goal(held, fits, choice, scene, statistics, weights)
    return trained_model(
        scene,
        labels,
        estimator,
        choice.window,
        pixels,
        fill=tuple(views["plain"].mean_.tolist()),
        recipe=Recipe(preset=preset, goal=settings.goal, line=line, steps=after),
        statistics=statistics,
        choice=choice,
        tested=tested,
        held_out=scores,
    )


def _distance(statistics: SceneStatistics, pixels: Array) -> float | None:
    """Return how far the pixels of the map lie from the labels on average."""
    return None if statistics.pixels is None else mean_distance(statistics.pixels, pixels)


def _labels_by_goal(
    held: HeldOut,
    fits: FitContext,
    choice: Choice,
    scene: Scene,
    statistics: SceneStatistics | None,
    weights: tuple[float, float] | None,
) -> HeldOutLabels:
    """Return the labels held out by the folds of the goal, the same for every preset.

    A preset may have to choose by other folds: the fast one has the largest blocks, and the best
    one knows the pixels of a large scene better than the sample that all presets have. Where that
    makes a difference the chosen networks are fitted once more; nothing else depends on it.
    """
    sample = scene.radiometry if fits.settings.goal == "this-scene" else None
    folds = fits.folds(None if sample is None else mean_distance(sample.places, fits.pixels))
    if np.array_equal(folds.fold, held.folds.fold):
        return held.labels
    held = fits.hold_out(choice, folds)
    if weights is not None and statistics is not None:
        shares = held_out_shares(statistics.propagator(fits.check), held)
        held = held._replace(logits=weights[0] * shares + weights[1] * held.logits)
    return held.labels


def held_out_shares(propagator: Propagator, held: HeldOut) -> Array:
    """Return log shares of the labels held out, ``(m, C)``, by propagation of the others."""
    classes = held.logits.shape[1]
    return propagator.held_out(held.pixels, held.targets, held.folds.fold, classes)


def tested_propagation(
    propagator: Propagator, held: HeldOut, distance: float | None
) -> tuple[tuple[float, float] | None, HeldOut]:
    """Return the weights of propagation and network from folds, and what both say together.

    No weights where propagation does not help on the labels held out, or lies out of their reach;
    the prior ones where there are too few labels to hold any out.

    Parameters
    ----------
    propagator : Propagator
    held : HeldOut
    distance : float or None
        How far the map's pixels lie from the labels.
    """
    tested = testable(held.folds.fold, held.targets)
    if not tested.any():
        return PRIOR_WEIGHTS, held
    # Most of the map lies much farther from the labels than any fold could test, as fields without
    # labels do: nothing is known of what propagation does there
    apart = mean_distance(held.pixels, held.pixels, held.folds.fold)
    if distance is not None and apart < REACH * distance:
        return None, held
    shares, logits = held_out_shares(propagator, held), held.logits
    y = held.targets[tested]
    first, second = experts.fit_weights([shares[tested], logits[tested]], y, PRIOR_WEIGHTS, PULL)
    (alone,) = experts.fit_weights([logits[tested]], y, [0.5], PULL)
    both = first * shares + second * logits
    losses = [experts.log_losses(each[tested], y).mean() for each in (both, alone * logits)]
    return ((first, second), held._replace(logits=both)) if losses[0] <= losses[1] else (None, held)


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
    scene: Scene, settings: TrainSettings, check: Check = lambda: None
) -> SceneStatistics | None:
    """Return what the best preset learns of a scene.

    Where that does not fit in memory, or the scene has next to no pixels, a preset that was asked
    for raises an error. As the default, None is returned with a warning: the fast preset is used.
    """
    try:
        with statistics_bar(settings.verbose) as bar:
            return scene_statistics(
                scene, settings.goal, settings.max_bytes, progress=bar, check=check
            )
    except CANNOT as error:
        if settings.preset is not None:
            raise
        what = "the preset fast is used instead of best, the default; best would have failed"
        warnings.warn(f"{what}: {error}", PolyadWarning, stacklevel=5)
        return None


def without_data(scene: Scene, labels: xr.DataArray) -> str:
    """Return the sentence on labels none of which lies on a pixel with data in every band."""
    pixels = np.argwhere(labels.values > 0)
    rows, cols = pixels[:: max(len(pixels) // 1000, 1)].T
    spectra = extract_patches(scene, rows, cols, window=1)[:, 0, 0]  # (n, bands)
    missing = ~valid_pixels(spectra[..., None], scene.nodata)
    inside, place = "", "where the labels lie"
    if scene.inside is not None:
        inside, place = " inside the mask", "the mask, where the labels lie"
    message = f"no labeled pixel of {len(pixels):,} has data in every band{inside}"
    if missing.all():
        return f"{message}: none has data in any band; check {place} and the scene's nodata value"
    share = missing.mean(axis=0)  # (bands,)
    worst = named_bands(scene.array.isel(band=np.flatnonzero(share >= share.max() / 2)))
    remedy = "leave them out with --drop-nm (in Python, select_bands)"
    return f"{message}: bands {worst} have none there; {remedy}, or check the scene's nodata value"


def learnable(labels: xr.DataArray, y: Array) -> Array:
    """Return the classes ``y`` of training pixels if there is something to learn from them."""
    if len(y) == 0:
        raise SceneError("there is no labeled pixel to learn from; label some of each class")
    present = np.unique(y).tolist()
    if len(present) < 2:
        name = {c.value: c.name for c in class_table(labels)}.get(present[0], present[0])
        raise SceneError(
            f"all {len(y)} training pixels are of class {name!r}; label pixels of at least one "
            "other class"
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
        Of a scene of components, those of the views that its choice has.
    """
    components = kept_components(statistics)
    pixels = np.argwhere(labels.values > 0)
    pixels = pixels[statistics.nodes[tuple(pixels.T)] >= 0]
    y = labels.values[tuple(pixels.T)].astype(np.int64)
    if last is not None and last.training.choice is not None and last.recipe is not None:
        choice, recipe = last.training.choice, last.recipe
    else:
        choice = prior_choice(experts_for(None if window is None else check_window(window)))
        step = Propagation(settings=PropagationSettings(), targets=(), weights=PRIOR_WEIGHTS)
        line = f"network on {choice.line} > times labels propagated over the scene's graph"
        recipe = Recipe(preset="best", goal="this-scene", line=line, steps=(step,))
    widest, (rows, cols) = choice.window, pixels.T
    windows = {
        name: extract_patches(components.view((name,)), rows, cols, widest).astype(np.float32)
        for name in choice.views
    }
    settings = TrainSettings.of(random_state=random_state, objective=objective, **parameters)
    samples, views = ViewSamples(windows, widest), _selections(components, choice.views)
    fits = FitContext(samples, views, pixels, y, settings, check=check)
    estimator = fits.fit(choice)
    known = {c.value: c for c in class_table(labels)}
    targets = {"targets": tuple(fits.targets.tolist())}
    after = tuple(
        step.model_copy(update=targets) if isinstance(step, Propagation) else step
        for step in recipe.steps
    )
    return SceneModel(
        estimator,
        choice.window,
        Classes.of(known[int(value)] for value in estimator.classes_),
        TrainingBands(count=estimator.sample_shape_[-1]),
        TrainingRecord(packed_pixels=packed(pixels), choice=choice),
        recipe.model_copy(update={"steps": after}),
    )


def kept_components(statistics: SceneStatistics) -> Components:
    """Return the components that scene statistics have, or say how to get them."""
    if statistics.components is None:
        raise InputError(
            "a draft wants scene statistics with components; compute them with keep_components=True"
        )
    return statistics.components


def _selections(components: Components, names: tuple[str, ...]) -> dict[str, NoiseWhitening]:
    """Return for each view the projection that takes it out of the components side by side."""
    spans = {name: components.columns[name] for name in names}
    first = min(span.start for span in spans.values())
    width = max(span.stop for span in spans.values()) - first
    chosen = {}
    for name, span in spans.items():
        chosen[name] = view = NoiseWhitening(span.stop - span.start)
        view.mean_, view.scale_ = np.zeros(width), np.ones(width)
        view.projection_ = np.eye(width)[:, span.start - first : span.stop - first]
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
            seeds = steps.make_seeds(here[among], targets, graphs[0].shape[0], len(new))
            options = (settings.alpha, settings.iterations, check)
            mass = run_tasks(lambda graph: steps.propagate_labels(graph, seeds, *options), graphs)
            for at, k in enumerate(new):
                self._mass[k] = [np.ascontiguousarray(of_graph[:, at]) for of_graph in mass]
        self._nodes = seeded
        self._mass = {k: self._mass[k] for k in present}

        def logs(number: int) -> Array:
            mass = np.stack([self._mass[k][number] for k in present])  # (classes, nodes)
            return steps.log_shares(mass.T, steps.mean_mass(mass.T), settings.smoothing).T

        total: Any = sum(run_tasks(logs, range(len(graphs))))
        return np.ascontiguousarray(np.asarray(total / len(graphs)).T)
