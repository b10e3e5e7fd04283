"""The thread that turns labels into maps: newest labels win, an outdated fit is dropped.

Each round has two stages. The *draft* is quick. The *final* model is fitted anew, exactly as
``polyad train`` does with the same settings and seed, once no label has come in for a moment. A
label that comes in meanwhile ends the round within one step of the solver, or of the best preset.

The best preset needs a survey of the scene, which is made once, before the first label. Its draft
is one network in place of several. A scene too large for it gets the fast preset, whose draft goes
on from the last model if the classes are the same.
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

from polyad.app.mapped import (
    CANDIDATES,
    SIDE,
    Candidates,
    Mapped,
    advise,
    map_window,
    score_against,
    shares,
    tiles_from,
)
from polyad.app.session import Session, Snapshot
from polyad.errors import PolyadError, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.labels import drop_nodata
from polyad.scene.model import SceneModel
from polyad.scene.patches import extract_patches
from polyad.scene.presets import preset_parameters, survey_scene, train_best
from polyad.scene.steps.recipe import check_preset
from polyad.scene.steps.survey import Survey
from polyad.scene.training import train
from polyad.threads import limit_threads

Array = npt.NDArray[Any]
Publish = Callable[[str, dict[str, Any]], None]

COLD = {"epochs": 40, "learning_rate": 0.02}  # a draft from nothing
WARM_EPOCHS, WARM_RATE = 10, 0.003  # a draft from the last model
BEST_UP_TO = 60_000  # pixels; on a larger scene labels spread for longer than a click may take
DRAFT_WALK = 40  # steps that labels spread by in a draft; the best preset's 100 gain half a point
DRAFT_UP_TO = 500_000  # pixels; mapping a larger scene takes longer than the fit that it waits for
PATIENCE = 2.0  # seconds of labels coming in without a pause, after which a draft is let through
SETTLE = 1.0  # seconds without a label before the final model is fitted
PARTIAL = 0.3  # seconds between two looks at a map that is being made

_log = logging.getLogger("polyad.app")


@dataclass(frozen=True)
class Settings:
    """How models are fitted: the options of ``polyad train``."""

    window: int = 5
    random_state: int = 0
    preset: str = "best"
    goal: str = "this-scene"
    parameters: dict[str, Any] = field(default_factory=dict)

    def fitting(self, scene: xr.DataArray) -> Settings:
        """Return the settings that ``scene`` is fitted with: fast if it is too large for best."""
        check_preset(self.preset, self.goal)
        large = scene.sizes["y"] * scene.sizes["x"] > BEST_UP_TO
        return replace(self, preset="fast") if self.preset == "best" and large else self


class Outdated(Exception):
    """The labels changed while a model was fitted to the old ones."""


class Watched:
    """A classifier that looks up after every step of its fit; what `train` is given to fit."""

    def __init__(self, classifier: RankRClassifier, look: Callable[[], None], warm: int = 0):
        self.classifier = classifier
        self._look = look
        self._warm = warm

    def fit(self, X: Array, y: Array) -> Self:
        """Fit anew, or take some more steps from where the classifier is."""
        if not self._warm:
            self.classifier.fit(X, y, on_epoch=lambda *_: self._look())
        for _ in range(self._warm):
            self.classifier.partial_fit(X, y)
            self._look()
        return self

    @property
    def classes_(self) -> Array:
        """Class ids."""
        return self.classifier.classes_


class Fitter(threading.Thread):
    """Fits and maps in the background.

    Parameters
    ----------
    scene : DataArray
    session : Session
        Where the labels are.
    publish : callable
        Is told ``("map", about)``, ``("progress", about)`` and ``("problem", about)``.
    truth : DataArray, optional
        Labels to score against.
    settings : Settings
    threads : int, optional
        Of torch while it makes a draft; on a small machine one core is best left to the browser.
        The final model is always fitted with torch's own number, since sums are rounded otherwise
        with another one.
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
        super().__init__(name="polyad-fitter", daemon=True)
        self.scene, self.session, self.truth = scene, session, truth
        self.settings = (settings or Settings()).fitting(scene)
        self._survey: Survey | None = None
        self.focus = (scene.sizes["y"] / 2, scene.sizes["x"] / 2)
        self.mapped = Mapped.empty((scene.sizes["y"], scene.sizes["x"]))
        self.means: dict[str, Any] = {}
        self._publish = publish
        self._threads = {"final": torch.get_num_threads()}
        self._threads["draft"] = threads or self._threads["final"]
        self._wake = threading.Condition()
        self._wanted = True
        self._stopped = self._hurried = False
        self._failed: str | None = None  # why the last round made no map
        self._dropping_since = 0.0
        session.listen(lambda change, _: self.wake() if change.labels else None)

    # -- called from outside --------------------------------------------------------------------

    def wake(self) -> None:
        """Tell that there are new labels."""
        with self._wake:
            self._wanted = True
            self._wake.notify_all()

    def stop(self) -> None:
        """End the thread; a running fit is dropped."""
        with self._wake:
            self._stopped = self._wanted = True
            self._wake.notify_all()

    def final_model(self, timeout: float = 120.0) -> SceneModel | None:
        """Return the model that ``polyad train`` gives on the newest labels; wait until it is.

        Raises
        ------
        SceneError
            The fit failed, or takes longer than ``timeout`` seconds.
        """
        with self._wake:
            self._hurried = True
            if self._failed is not None:  # whoever asks again has it tried again
                self._failed, self._wanted = None, True
            self._wake.notify_all()
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.is_alive():
            mapped, newest = self.mapped, self.session.snapshot()
            if len(set(newest.labels.values())) < 2:
                return None
            if mapped.stage == "final" and mapped.revision == newest.revision:
                return _with_classes(mapped.model, newest)
            failed = self._failed
            if failed is not None:
                raise SceneError(failed)
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
                self._survey = survey_scene(self.scene, self.settings.goal)
        except (PolyadError, OSError, MemoryError, ValueError) as error:
            self._publish("problem", {"message": f"no best map, the fast one instead: {error}"})
            self.settings = replace(self.settings, preset="fast")
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._wanted)
                self._wanted, self._failed = False, None
                if self._stopped:
                    return
            try:
                self._round(self.session.snapshot())
                self._dropping_since = 0.0
            except Outdated:
                self._dropping_since = self._dropping_since or time.monotonic()
            except (PolyadError, OSError, MemoryError, ValueError, RuntimeError) as error:
                _log.debug("no map", exc_info=True)
                self._failed = f"no map could be made: {error}"
                self._publish("problem", {"message": self._failed})

    def _round(self, labels: Snapshot) -> None:
        if len(set(labels.labels.values())) < 2:
            self.means = self._class_means(labels)[0]
            if self.mapped.stage != "none":
                self._show(Mapped.empty(self.mapped.ids.shape, self.mapped.version + 1))
            return
        if self.scene.sizes["y"] * self.scene.sizes["x"] <= DRAFT_UP_TO:
            self._stage(labels, "draft")
            self._dropping_since = 0.0
            self._settle()
        self._stage(labels, "final")
        self._hurried = False

    def _settle(self) -> None:
        """Wait for a pause in the labels, unless somebody waits for the final model."""
        with self._wake:
            self._wake.wait_for(lambda: self._wanted or self._hurried, SETTLE)
        self._look()

    def _stage(self, labels: Snapshot, stage: str) -> None:
        patient = stage == "draft" and 0 < self._dropping_since < time.monotonic() - PATIENCE
        look = self._look_stopped if patient else self._look
        self._publish("progress", {"stage": stage, "share": 0.0, "labels": len(labels.labels)})
        started = time.perf_counter()
        with limit_threads(self._threads[stage]):
            model = self._fit(labels, stage, look)
            fitted = time.perf_counter()
            self.means, spectra = self._class_means(labels)
            self._map(labels, model, stage, look, spectra, started, fitted)

    def _fit(self, labels: Snapshot, stage: str, look: Callable[[], None]) -> SceneModel:
        settings, warm = self.settings, 0
        if self._survey is not None:
            return self._fit_best(labels, stage, self._survey, look)
        parameters = preset_parameters(settings.preset) | settings.parameters
        classifier = RankRClassifier(random_state=settings.random_state, **parameters)
        if stage == "draft":
            last = self.mapped.model
            if last is not None and {c.value for c in last.classes} == set(labels.labels.values()):
                classifier, warm = copy.deepcopy(last.estimator), WARM_EPOCHS
                classifier.set_params(learning_rate=WARM_RATE)
            else:
                classifier.set_params(**COLD)
        watched = Watched(classifier, look, warm)
        model = train(self.scene, labels.raster(self.scene), window=settings.window,
                      random_state=settings.random_state, estimator=watched)  # fmt: skip
        return replace(model, estimator=classifier)

    def _fit_best(
        self, labels: Snapshot, stage: str, survey: Survey, look: Callable[[], None]
    ) -> SceneModel:
        settings = self.settings
        raster = drop_nodata(self.scene, labels.raster(self.scene))
        quick: dict[str, Any] = {}
        if stage == "draft":
            quick = {"starts": 1, "folds": 0, "walk": DRAFT_WALK}
        return train_best(
            self.scene,
            raster,
            np.argwhere(raster.values > 0),
            goal=settings.goal,
            window=settings.window,
            random_state=settings.random_state,
            survey=survey,
            look=look,
            **quick,
            **settings.parameters,
        )

    def _map(
        self,
        labels: Snapshot,
        model: SceneModel,
        stage: str,
        look: Callable[[], None],
        spectra: Array,
        started: float,
        fitted: float,
    ) -> None:
        before = self.mapped
        ids, uncertainty = before.ids.copy(), before.uncertainty.copy()
        # The best preset looks at the whole scene at once
        tiles = tiles_from(ids.shape, self.focus, SIDE if self._survey is None else max(ids.shape))
        unsure: list[Candidates] = []
        shown = time.monotonic()
        for k, tile in enumerate(tiles):
            ids[tile], uncertainty[tile], found = map_window(
                model, self.scene, tile, max(16, CANDIDATES // len(tiles))
            )
            unsure.append(found)
            look()
            if k + 1 < len(tiles) and time.monotonic() - shown > PARTIAL:
                shown = time.monotonic()
                about = {**self.mapped.about, "share": (k + 1) / len(tiles)}
                version = self.mapped.version + 1
                partial = Mapped(version, labels.revision, "draft", ids, uncertainty, model, about)
                self._show(partial)
        done = time.perf_counter()
        about = {
            "share": 1.0,
            "labels": len(labels.labels),
            "shares": shares(ids, model.classes),
            "score": None if self.truth is None else score_against(self.truth, ids, model),
            "advice": advise(unsure, spectra),
            "fit_seconds": round(fitted - started, 4),
            "map_seconds": round(done - fitted, 4),
            "steps": "" if model.recipe is None else model.recipe.line,
        }
        version = self.mapped.version + 1
        self._show(Mapped(version, labels.revision, stage, ids, uncertainty, model, about))

    def _show(self, mapped: Mapped) -> None:
        self.mapped = mapped
        self._publish("map", mapped.describe())

    def _class_means(self, labels: Snapshot) -> tuple[dict[str, Any], Array]:
        """Return the mean spectrum of each class, and every label's spectrum for the advice."""
        if not labels.labels:
            return {}, np.empty((0, self.scene.sizes["band"]))
        pixels = np.array(sorted(labels.labels))
        window = self.settings.window
        patches = extract_patches(self.scene, pixels[:, 0], pixels[:, 1], window).astype(np.float32)
        centre = patches[:, window // 2, window // 2]  # (labels, bands)
        values = np.array([labels.labels[tuple(p)] for p in pixels.tolist()])
        means = {
            str(v): {
                "count": int((values == v).sum()),
                "mean": plain_floats(centre[values == v].mean(axis=0)),
            }
            for v in np.unique(values)
        }
        return means, np.nan_to_num(patches.mean(axis=(1, 2)))

    def _look(self) -> None:
        if self._wanted:
            raise Outdated

    def _look_stopped(self) -> None:
        if self._stopped:
            raise Outdated


def _warm_up() -> None:
    """Fit something tiny: torch loads what it needs at the first fit, and a click need not wait."""
    X = np.arange(24, dtype=np.float32).reshape(4, 1, 1, 6)
    tiny = RankRClassifier(hidden=2, epochs=1, random_state=0).fit(X, np.array([1, 2, 1, 2]))
    copy.deepcopy(tiny).partial_fit(X, np.array([1, 2, 1, 2]))


def plain_floats(values: Array) -> list[float | None]:
    """Return numbers for JSON, with None where there is none.

    Examples
    --------
    >>> plain_floats(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]


def _with_classes(model: SceneModel | None, newest: Snapshot) -> SceneModel | None:
    """Return the model with the newest names and colours of its classes."""
    if model is None:
        return None
    known = {c.value: c for c in newest.classes}
    return replace(model, classes=tuple(known.get(c.value, c) for c in model.classes))
