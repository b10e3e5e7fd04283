"""Drafts of the best preset: networks on components that the scene statistics keep.

Nothing is read from the scene and no fold is fitted: what was chosen last is fitted to the newest
labels, from one start. The model that comes out maps the kept components, not the scene's bands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from polyad.errors import InputError
from polyad.scene.files.option_values import check_window
from polyad.scene.learn.experts import ViewSamples, fit_experts
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.model_file import TrainingBands, TrainingRecord, packed
from polyad.scene.learn.outputs import Classes
from polyad.scene.learn.presets import PRIOR_WEIGHTS
from polyad.scene.learn.recipe import (
    Choice,
    Propagation,
    PropagationSettings,
    Recipe,
    experts_for,
    prior_choice,
)
from polyad.scene.learn.scene_statistics import Components, SceneStatistics
from polyad.scene.learn.steps import (
    Graph,
    log_shares,
    make_seeds,
    mean_mass,
    propagate_labels,
)
from polyad.scene.learn.whitening import NoiseWhitening
from polyad.scene.raster.classes import class_table
from polyad.scene.raster.windows import extract_patches
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]


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
        See `polyad.scene.learn.presets.train_best`.
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
    estimator = fit_experts(
        choice,
        ViewSamples.of_components(windows, widest),
        _selections(components, viewed(choice)),
        y,
        objective=objective,
        random_state=random_state,
        parameters=parameters,
        on_fit=check,
    )
    known = {c.value: c for c in class_table(labels)}
    classes = tuple(known[int(value)] for value in estimator.classes_)
    bands = estimator.sample_shape_[-1]
    targets = tuple(np.searchsorted(estimator.classes_, y).tolist())
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
