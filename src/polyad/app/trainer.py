"""The thread that turns labels into maps; a fit to outdated labels is dropped.

Each round has two stages. The *draft* is quick. The *final* model is fitted from scratch, exactly
as ``polyad train`` does with the same settings and seed, once no label has come in for a moment. A
new label ends the round within one step of the solver, or of the best preset.

The best preset needs statistics of the scene, which are computed once, before the first label; its
draft is one network instead of several. A scene too large for it gets the fast preset, whose draft
starts from the last model if the classes are the same.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import xarray as xr

from polyad.app.advice import CANDIDATES, Candidates, advise
from polyad.app.maps import (
    TILE_SIDE,
    MapVersion,
    map_window,
    score_against,
    shares,
    tiles_from,
)
from polyad.app.session import Session, Snapshot
from polyad.errors import PolyadError, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.presets import (
    preset_parameters,
    train_best,
    train_fast,
)
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.steps.recipe import check_preset
from polyad.scene.learn.steps.statistics import SceneStatistics
from polyad.scene.learn.training import WINDOW, train
from polyad.scene.raster.patches import check_window_fits, extract_patches
from polyad.scene.read.labels import drop_nodata
from polyad.threads import limit_threads

Array = npt.NDArray[Any]
Publish = Callable[[str, dict[str, Any]], None]

COLD_START = {"epochs": 40, "learning_rate": 0.02}  # a draft from scratch
WARM_EPOCHS, WARM_RATE = 10, 0.003  # a draft from the last model
BEST_MAX_PIXELS = 60_000  # label propagation over more takes longer than a click may
DRAFT_PROPAGATION_STEPS = 40  # the best preset's 100 gain half a point
DRAFT_MAX_PIXELS = 500_000  # mapping more takes longer than the final fit, so there is no draft
MAX_INTERRUPTED = 2.0  # seconds of labels without a pause, after which a draft is finished
FINAL_DELAY = 1.0  # seconds without a label before the final model is fitted
PARTIAL_INTERVAL = 0.3  # seconds between two partial maps shown

_log = logging.getLogger("polyad.app")


@dataclass(frozen=True)
class Settings:
    """How models are fitted: the options of ``polyad train``."""

    window: int | None = None
    random_state: int = 0
    preset: str = "best"
    goal: str = "this-scene"
    parameters: dict[str, Any] = field(default_factory=dict)

    def for_scene(self, scene: xr.DataArray) -> Settings:
        """Return the settings for ``scene``: the fast preset if it is too large for the best."""
        check_preset(self.preset, self.goal)
        if self.window is not None:
            check_window_fits(self.window, scene.shape)
        large = scene.sizes["y"] * scene.sizes["x"] > BEST_MAX_PIXELS
        return replace(self, preset="fast") if self.preset == "best" and large else self


class Outdated(Exception):
    """The labels changed while a model was fitted to the old ones."""


class InterruptibleClassifier:
    """A classifier that `train` can fit and that calls ``check`` after every step of its fit.

    Parameters
    ----------
    classifier : RankRClassifier
    check : callable
        Raises `Outdated` to end the fit.
    warm_epochs : int
        Continue from where the classifier is for this many epochs; 0 fits from scratch.
    """

    def __init__(
        self, classifier: RankRClassifier, check: Callable[[], None], warm_epochs: int = 0
    ) -> None:
        self.classifier = classifier
        self._check = check
        self._warm_epochs = warm_epochs

    def fit(self, X: Array, y: Array) -> Self:
        """Fit from scratch or continue."""
        if not self._warm_epochs:
            self.classifier.fit(X, y, on_epoch=lambda *_: self._check())
        for _ in range(self._warm_epochs):
            self.classifier.partial_fit(X, y)
            self._check()
        return self

    @property
    def classes_(self) -> Array:
        """Class ids."""
        return self.classifier.classes_


class Trainer(threading.Thread):
    """Fits and maps in the background.

    Parameters
    ----------
    scene : DataArray
    session : Session
        Holds the labels.
    publish : callable
        Called with ``("map", about)``, ``("progress", about)`` and ``("problem", about)``.
    truth : DataArray, optional
        Labels to score against.
    settings : Settings
    threads : int, optional
        Of torch for a draft; on a small machine it is best to leave a core to the browser. The
        final model is always fitted with torch's own number, since another number rounds sums
        differently.

    Attributes
    ----------
    newest_map : MapVersion
    means : dict
        Mean spectrum and number of labels of each class.
    focus : tuple of float
        Row and column that mapping starts from.
    """

    def __init__(
        self,
        scene: xr.DataArray,
        session: Session,
        publish: Publish,
        truth: xr.DataArray | None = None,
        settings: Settings | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(name="polyad-trainer", daemon=True)
        self.scene, self.session, self.truth = prepared(scene), session, truth
        self.settings = (settings or Settings()).for_scene(scene)
        self.focus = (scene.sizes["y"] / 2, scene.sizes["x"] / 2)
        self.newest_map = MapVersion.empty((scene.sizes["y"], scene.sizes["x"]))
        self.means: dict[str, Any] = {}
        self._statistics: SceneStatistics | None = None
        self._publish = publish
        self._threads = {"final": torch.get_num_threads()}
        self._threads["draft"] = threads or self._threads["final"]
        self._wake = threading.Condition()
        self._outdated = True
        self._stopped = self._final_wanted = False
        self._failure: str | None = None  # why the last round made no map
        self._interrupted_since = 0.0
        session.listen(lambda change, _: self.wake() if change.labels else None)

    # -- called from outside --------------------------------------------------------------------

    def wake(self) -> None:
        """Start a new round: the labels have changed."""
        with self._wake:
            self._outdated = True
            self._wake.notify_all()

    def stop(self) -> None:
        """End the thread; a running fit is dropped."""
        with self._wake:
            self._stopped = self._outdated = True
            self._wake.notify_all()

    def final_model(self, timeout: float = 120.0) -> SceneModel | None:
        """Wait for the model that ``polyad train`` gives on the newest labels, and return it.

        Raises
        ------
        SceneError
            The fit failed, or takes longer than ``timeout`` seconds.
        """
        with self._wake:
            self._final_wanted = True
            if self._failure is not None:  # asking again tries again
                self._failure, self._outdated = None, True
            self._wake.notify_all()
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.is_alive():
            current, snapshot = self.newest_map, self.session.snapshot()
            if len(set(snapshot.labels.values())) < 2:
                return None
            if current.stage == "final" and current.revision == snapshot.revision:
                return _with_classes(current.model, snapshot)
            failure = self._failure
            if failure is not None:
                raise SceneError(failure)
            time.sleep(0.05)
        if self.is_alive():
            raise SceneError(f"the fit takes longer than {timeout:g} s; save again in a while")
        return None

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Wait for labels; fit and map."""
        _warm_up()
        try:
            if self.settings.preset == "best":
                self._statistics = scene_statistics(self.scene, self.settings.goal)
        except (PolyadError, OSError, MemoryError, ValueError) as error:
            self._publish("problem", {"message": f"no best map, the fast one instead: {error}"})
            self.settings = replace(self.settings, preset="fast")
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._outdated)
                self._outdated, self._failure = False, None
                if self._stopped:
                    return
            try:
                self._round(self.session.snapshot())
                self._interrupted_since = 0.0
            except Outdated:
                self._interrupted_since = self._interrupted_since or time.monotonic()
            except (PolyadError, OSError, MemoryError, ValueError, RuntimeError) as error:
                _log.debug("no map", exc_info=True)
                self._failure = f"no map could be made: {error}"
                self._publish("problem", {"message": self._failure})

    def _round(self, snapshot: Snapshot) -> None:
        if len(set(snapshot.labels.values())) < 2:
            self.means = self._class_means(snapshot)[0]
            if self.newest_map.stage != "none":
                shape = self.newest_map.ids.shape
                self._show(MapVersion.empty(shape, self.newest_map.version + 1))
            return
        if self.scene.sizes["y"] * self.scene.sizes["x"] <= DRAFT_MAX_PIXELS:
            self._stage(snapshot, "draft")
            self._interrupted_since = 0.0
            self._wait_for_pause()
        self._stage(snapshot, "final")
        self._final_wanted = False

    def _wait_for_pause(self) -> None:
        """Wait until no label comes in for a moment, or somebody asks for the final model."""
        with self._wake:
            self._wake.wait_for(lambda: self._outdated or self._final_wanted, FINAL_DELAY)
        self._check_labels()

    def _stage(self, snapshot: Snapshot, stage: str) -> None:
        """Fit a model to the labels, map the scene with it and show the map."""
        interrupted = time.monotonic() - (self._interrupted_since or time.monotonic())
        finish = stage == "draft" and interrupted > MAX_INTERRUPTED
        check = self._check_stopped if finish else self._check_labels
        self._publish("progress", {"stage": stage, "share": 0.0, "labels": len(snapshot.labels)})
        started = time.perf_counter()
        with limit_threads(self._threads[stage]):
            model = self._fit(snapshot, stage, check)
            fitted = time.perf_counter()
            self.means, spectra = self._class_means(snapshot)
            ids, uncertainty, candidates = self._map(snapshot, model, check)
            mapped = time.perf_counter()
            about = {
                "share": 1.0,
                "labels": len(snapshot.labels),
                "shares": shares(ids, model.classes),
                "score": None if self.truth is None else score_against(self.truth, ids, model),
                "advice": advise(candidates, spectra),
                "fit_seconds": round(fitted - started, 4),
                "map_seconds": round(mapped - fitted, 4),
                "steps": "" if model.recipe is None else model.recipe.line,
            }
        version = self.newest_map.version + 1
        self._show(MapVersion(version, snapshot.revision, stage, ids, uncertainty, model, about))

    def _fit(self, snapshot: Snapshot, stage: str, check: Callable[[], None]) -> SceneModel:
        if self._statistics is not None:
            return self._fit_best(snapshot, stage, self._statistics, check)
        settings, warm_epochs, window = self.settings, 0, self.settings.window
        if stage == "final" and settings.preset == "fast":
            return self._fit_fast(snapshot, check)
        parameters = preset_parameters(settings.preset) | settings.parameters
        classifier = RankRClassifier(random_state=settings.random_state, **parameters)
        if stage == "draft":
            last = self.newest_map.model
            class_ids = set(snapshot.labels.values())
            if last is not None and {c.value for c in last.classes} == class_ids:
                classifier, warm_epochs = copy.deepcopy(last.estimator), WARM_EPOCHS
                window = last.window
                classifier.set_params(learning_rate=WARM_RATE)
            else:
                classifier.set_params(**COLD_START)
        model = train(
            self.scene,
            snapshot.raster(self.scene),
            window=window,
            random_state=settings.random_state,
            estimator=InterruptibleClassifier(classifier, check, warm_epochs),
        )
        return replace(model, estimator=classifier)

    def _fit_fast(self, snapshot: Snapshot, check: Callable[[], None]) -> SceneModel:
        settings = self.settings
        raster = drop_nodata(self.scene, snapshot.raster(self.scene))
        options: dict[str, Any] = {"window": settings.window, "check": check}
        options |= {"random_state": settings.random_state, **settings.parameters}
        return train_fast(self.scene, raster, np.argwhere(raster.values > 0), **options)

    def _fit_best(
        self, snapshot: Snapshot, stage: str, statistics: SceneStatistics, check: Callable[[], None]
    ) -> SceneModel:
        settings = self.settings
        raster = drop_nodata(self.scene, snapshot.raster(self.scene))
        quick: dict[str, Any] = {}
        if stage == "draft":
            quick = {"starts": 1, "folds": 0, "iterations": DRAFT_PROPAGATION_STEPS}
            last = self.newest_map.model
            if last is not None and last.recipe is not None:
                # By what folds chose last; the final fit chooses anew
                steps = [step["step"] for step in last.recipe.steps]
                quick |= {"choice": last.choice, "propagation": "propagate" in steps}
        return train_best(
            self.scene,
            raster,
            np.argwhere(raster.values > 0),
            goal=settings.goal,
            window=settings.window,
            random_state=settings.random_state,
            statistics=statistics,
            check=check,
            **quick,
            **settings.parameters,
        )

    def _map(
        self, snapshot: Snapshot, model: SceneModel, check: Callable[[], None]
    ) -> tuple[Array, Array, list[Candidates]]:
        """Map the scene tile by tile, and show a partial map now and then."""
        ids, uncertainty = self.newest_map.ids.copy(), self.newest_map.uncertainty.copy()
        # The best preset maps the whole scene at once.
        side = TILE_SIDE if self._statistics is None else max(ids.shape)
        tiles = tiles_from(ids.shape, self.focus, side)
        candidates: list[Candidates] = []
        shown = time.monotonic()
        for k, tile in enumerate(tiles):
            ids[tile], uncertainty[tile], uncertain_pixels = map_window(
                model, self.scene, tile, max(16, CANDIDATES // len(tiles))
            )
            candidates.append(uncertain_pixels)
            check()
            if k + 1 < len(tiles) and time.monotonic() - shown > PARTIAL_INTERVAL:
                shown = time.monotonic()
                about = {**self.newest_map.about, "share": (k + 1) / len(tiles)}
                version = self.newest_map.version + 1
                self._show(
                    MapVersion(version, snapshot.revision, "draft", ids, uncertainty, model, about)
                )
        return ids, uncertainty, candidates

    def _show(self, new_map: MapVersion) -> None:
        self.newest_map = new_map
        self._publish("map", new_map.describe())

    def _class_means(self, snapshot: Snapshot) -> tuple[dict[str, Any], Array]:
        """Return the mean spectrum of each class, and every label's spectrum for the advice."""
        if not snapshot.labels:
            return {}, np.empty((0, self.scene.sizes["band"]))
        pixels = np.array(sorted(snapshot.labels))
        window = self.settings.window or WINDOW
        patches = extract_patches(self.scene, pixels[:, 0], pixels[:, 1], window).astype(np.float32)
        center = patches[:, window // 2, window // 2]  # (labels, bands)
        values = np.array([snapshot.labels[tuple(p)] for p in pixels.tolist()])
        means = {
            str(v): {
                "count": int((values == v).sum()),
                "mean": plain_floats(center[values == v].mean(axis=0)),
            }
            for v in np.unique(values)
        }
        return means, np.nan_to_num(patches.mean(axis=(1, 2)))

    def _check_labels(self) -> None:
        if self._outdated:
            raise Outdated

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Outdated


def _warm_up() -> None:
    """Fit something tiny, so that no click waits for what torch loads at the first fit."""
    X = np.arange(24, dtype=np.float32).reshape(4, 1, 1, 6)
    tiny = RankRClassifier(hidden=2, epochs=1, random_state=0).fit(X, np.array([1, 2, 1, 2]))
    copy.deepcopy(tiny).partial_fit(X, np.array([1, 2, 1, 2]))


def plain_floats(values: Array) -> list[float | None]:
    """Return numbers for JSON, with None for NaN and infinity.

    Examples
    --------
    >>> plain_floats(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]


def _with_classes(model: SceneModel | None, snapshot: Snapshot) -> SceneModel | None:
    """Return the model with the newest names and colors of its classes."""
    if model is None:
        return None
    known = {c.value: c for c in snapshot.classes}
    return replace(model, classes=tuple(known.get(c.value, c) for c in model.classes))
