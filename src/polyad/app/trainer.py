"""The thread that turns labels into maps; a fit to outdated labels is dropped.

Each round has two stages. The *draft* is quick. The *final* model is fitted from scratch, exactly
as ``polyad train`` does with the same settings and seed, once no label has come in for a moment. A
new label ends the round within one step of the solver, or of the best preset.

The best preset needs statistics of the scene, which are computed once, before the first label. Its
draft fits the experts that the last final model chose, from one start each, on components kept in
memory; only the final fit weighs experts anew. Statistics of a large scene are computed in a thread
of their own, while maps are made by the fast preset. Of a large scene, what is in view is mapped
first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import xarray as xr

from polyad.app.journal import Json
from polyad.app.labels import Pixel, Session, Snapshot
from polyad.app.maps import Drawing, MapVersion, View, advise, draft_mapper, score_against, shares
from polyad.errors import PolyadError, SceneError
from polyad.estimators.classifier import RankRClassifier
from polyad.scene.files.option_values import check_preset
from polyad.scene.learn.experts import TrainSettings as TrainSettings
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.radiometry import prepared
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics
from polyad.scene.learn.training import (
    WINDOW,
    PropagatedLabels,
    fit_draft,
    fit_preset,
    preset_parameters,
    train,
)
from polyad.scene.map.tile_mapper import Mapper
from polyad.scene.raster.scene import Scene
from polyad.scene.raster.windows import Tile, check_window_fits, extract_patches, plan_tiles
from polyad.scene.read.labels import drop_nodata
from polyad.threads import limit_threads, run_tasks

Array = npt.NDArray[Any]
Check = Callable[[], None]
Publish = Callable[[str, Json], None]

LARGE_PIXELS = 60_000  # a scene of more is learned in the background and mapped view first
DRAFT_MAX_PIXELS = 500_000  # mapping more bands takes longer than the final fit: no such draft
LARGE_HIDDEN = 40  # units of a large scene's drafts, mapped in two thirds of the time of 75
VIEW_PIXELS = 200_000  # of a draft that are mapped before it is shown; of a larger view, every few
MAX_INTERRUPTED = 2.0  # seconds of labels without a pause, after which a draft is finished
FINAL_DELAY = 1.0  # seconds without a label before the final model is fitted
PARTIAL_INTERVAL = 0.3  # seconds between two partial maps shown
LEARNING_INTERVAL = 0.5  # seconds between two reports of how much of a scene is learned
LONGEST_PAUSE = 20.0  # seconds that maps may hold up the learning at a time
TILE = (256, 256)  # pixels of the tiles that are mapped one after another
BEST_TILE = (128, 256)  # of the best preset: a new label waits until one is mapped at most

_log = logging.getLogger("polyad.app")


class Outdated(Exception):
    """The labels changed while a model was fitted to the old ones."""


class InterruptibleClassifier:
    """A classifier that `train` can fit and that calls ``check`` after every epoch."""

    def __init__(self, classifier: RankRClassifier, check: Check) -> None:
        self.classifier, self.check = classifier, check

    def fit(self, X: Array, y: Array) -> Self:
        """Fit from scratch."""
        self.classifier.fit(X, y, on_epoch=lambda *_: self.check())
        self.classes_ = self.classifier.classes_
        return self


class LabelSpectra:
    """The spectra of labels, read once: of the pixel, and mean over a window around it."""

    def __init__(self, scene: Scene, window: int) -> None:
        self._scene, self.window = scene, window
        self._known: dict[Pixel, tuple[Array, Array]] = {}

    def class_means(self, snapshot: Snapshot) -> Json:
        """Return the mean spectrum and the number of labels of each class, as JSON types."""
        spectra: dict[int, list[Array]] = {}
        for pixel, (center, _) in self._read(snapshot):
            spectra.setdefault(snapshot.labels[pixel], []).append(center)
        return {
            str(value): {"count": len(some), "mean": plain_floats(np.mean(some, axis=0))}
            for value, some in sorted(spectra.items())
        }

    def window_means(self, snapshot: Snapshot) -> Array:
        """Return the mean spectrum around each label, ``(labels, bands)``."""
        return np.nan_to_num(np.array([mean for _, (_, mean) in self._read(snapshot)]))

    def _read(self, snapshot: Snapshot) -> list[tuple[Pixel, tuple[Array, Array]]]:
        """Read what is not known yet, and forget what is no longer labeled."""
        known = {pixel: self._known[pixel] for pixel in snapshot.labels if pixel in self._known}
        new = sorted(snapshot.labels.keys() - known.keys())
        if new:
            rows, cols = np.array(new).T
            patches = extract_patches(self._scene, rows, cols, self.window).astype(np.float32)
            middle = self.window // 2
            center, mean = patches[:, middle, middle], patches.mean(axis=(1, 2))
            known |= {pixel: (center[k].copy(), mean[k]) for k, pixel in enumerate(new)}
        self._known = known
        return sorted(known.items(), key=lambda item: item[0])


def plain_floats(values: Array) -> list[float | None]:
    """Return numbers for JSON, with None for NaN and infinity.

    Examples
    --------
    >>> plain_floats(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]


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
    settings : TrainSettings
    threads : int, optional
        Of torch for a draft; on a small machine it is best to leave a core to the browser. The
        final model is always fitted with torch's own number, since another number rounds sums
        differently.

    Attributes
    ----------
    newest_map : MapVersion
    means : dict
        Mean spectrum and number of labels of each class.
    large : bool
        Whether the scene is learned in the background and mapped view first.
    view : View
        What is on the screen.
    learned : float or None
        How much of a large scene has been learned; None before and after.
    """

    def __init__(
        self,
        scene: xr.DataArray,
        session: Session,
        publish: Publish,
        truth: xr.DataArray | None = None,
        settings: TrainSettings | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(name="polyad-trainer", daemon=True)
        # A copy: what it loads is its own, and the tiles of the page are read from the file
        self.scene = prepared(scene.copy(deep=False))
        self.session, self.truth, self._publish = session, truth, publish
        self.settings = settings or TrainSettings(preset="best")
        check_preset(self.settings.preset, self.settings.goal)
        if self.settings.window is not None:
            check_window_fits(self.settings.window, scene.shape)
        shape = scene.sizes["y"], scene.sizes["x"]
        self.view = View.whole(shape)
        self.newest_map = MapVersion.empty(shape)
        self.means: Json = {}
        self._spectra = LabelSpectra(self.scene, self.settings.window or WINDOW)
        self._pixels = shape[0] * shape[1]
        self.large = self._pixels > LARGE_PIXELS
        # Of a large scene nothing is left for the browser to do until the draft is there.
        most = torch.get_num_threads()
        self._threads = {"final": most, "draft": most if self.large else threads or most}
        self.learned: float | None = None
        self._reported = 0.0  # when the page last heard how much is learned
        self._may_learn = threading.Event()
        self._may_learn.set()
        self._learned: SceneStatistics | str | None = None  # not yet adopted, or why there are none
        self._statistics: SceneStatistics | None = None
        self._propagated: PropagatedLabels | None = None  # if there are components
        self._last_best: SceneModel | None = None  # the last final model of the best preset
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
        self._may_learn.set()

    @property
    def failed(self) -> bool:
        """Whether the last round made no map."""
        return self._failure is not None

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
                known = {c.value: c for c in snapshot.classes}  # names and colors may be newer
                model = current.model
                return model and model.renamed([known.get(c.value, c) for c in model.classes])
            if self._failure is not None:
                raise SceneError(self._failure)
            time.sleep(0.05)
        if not self.is_alive():
            return None
        what = f"the fit takes longer than {timeout:g} s"
        if self.learned is not None:
            what = f"the scene is still being learned ({self.learned:.0%})"
        raise SceneError(f"{what}; save again in a while")

    # -- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        """Wait for labels; fit and map."""
        # Something tiny, so that no click waits for what torch loads at the first fit
        X = np.arange(24, dtype=np.float32).reshape(4, 1, 1, 6)
        RankRClassifier(hidden=2, epochs=1, random_state=0).fit(X, np.array([1, 2, 1, 2]))
        if not self.large:
            with suppress(PolyadError, OSError, MemoryError, ValueError):  # a fit will say it
                self.scene.array.load()  # a few dozen megabytes: no click waits for a file
        if self.settings.preset == "best" and self.large:
            self._publish_learned(0.0)
            threading.Thread(target=self._learn, name="polyad-learning", daemon=True).start()
        elif self.settings.preset == "best":
            self._learn()
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._outdated)
                self._outdated, self._failure = False, None
                if self._stopped:
                    return
                self._adopt()
            try:
                self._round(self.session.snapshot())
                self._interrupted_since = 0.0
            except Outdated:
                self._interrupted_since = self._interrupted_since or time.monotonic()
            except (PolyadError, OSError, MemoryError, ValueError, RuntimeError) as error:
                _log.debug("no map", exc_info=True)
                self._failure = f"no map could be made: {error}"
                self._publish("problem", {"message": self._failure})

    def _learn(self) -> None:
        """Compute scene statistics; map by the best preset from then on, or say why not."""
        result: SceneStatistics | str
        watch: Json = {"progress": self._tell_learned, "check": self._check_learning}
        try:
            result = scene_statistics(self.scene, self.settings.goal, keep_components=True, **watch)
        except Outdated:
            return
        except (PolyadError, OSError, MemoryError, ValueError, RuntimeError) as error:
            _log.debug("no scene statistics", exc_info=True)
            reason = str(error) or "there is not enough memory"
            result = f"no best map, the fast one instead: {reason}"
        with self._wake:
            if self._stopped:
                return
            self._learned, self._outdated = result, True  # the round under way is of the fast one
            self._publish_learned(None)
            self._wake.notify_all()
        if isinstance(result, str):
            self._publish("problem", {"message": result})

    def _tell_learned(self, _: str, share: float) -> None:
        if time.monotonic() - self._reported > LEARNING_INTERVAL:
            self._reported = time.monotonic()
            self._publish_learned(share)

    def _publish_learned(self, share: float | None) -> None:
        if self.large:  # a small scene is learned before anybody could look
            self.learned = share
            self._publish("learning", {"share": share})

    def _check_learning(self) -> None:
        """Give way while a draft is made; end if nobody waits for the statistics any longer."""
        self._may_learn.wait(LONGEST_PAUSE)
        self._check_stopped()

    def _adopt(self) -> None:
        """Take what was learned of the scene; only between two rounds."""
        learned, self._learned = self._learned, None
        if isinstance(learned, str):
            self.settings = replace(self.settings, preset="fast")
        elif learned is not None:
            self._statistics = learned
            if learned.components is not None:
                self._propagated = PropagatedLabels(learned)

    def _round(self, snapshot: Snapshot) -> None:
        if len(set(snapshot.labels.values())) < 2:
            self.means = self._spectra.class_means(snapshot)
            if self.newest_map.stage != "none":
                shape = self.newest_map.ids.shape
                self._show(MapVersion.empty(shape, self.newest_map.version + 1))
            return
        # A draft from components takes no reading; one from bands maps a large scene's view only.
        mapped = self._pixels if self._pixels <= DRAFT_MAX_PIXELS else self.view.pixels
        if self._propagated is not None or mapped <= DRAFT_MAX_PIXELS:
            self._stage(snapshot, "draft")
            self._interrupted_since = 0.0
            with self._wake:  # for a pause of the labels, or somebody who asks for the final model
                self._wake.wait_for(lambda: self._outdated or self._final_wanted, FINAL_DELAY)
            self._check_labels()
        self._stage(snapshot, "final")
        self._final_wanted = False

    def _stage(self, snapshot: Snapshot, stage: str) -> None:
        """Fit a model to the labels, map the scene with it and show the map."""
        interrupted = time.monotonic() - (self._interrupted_since or time.monotonic())
        finish = stage == "draft" and interrupted > MAX_INTERRUPTED
        check = self._check_stopped if finish else self._check_labels
        self._tell_progress(snapshot, stage, 0.0)
        started = time.perf_counter()
        if stage == "draft" and not self._stopped:
            self._may_learn.clear()  # the statistics of the scene wait for a draft
        try:
            with limit_threads(self._threads[stage]):
                model = self._fit(snapshot, stage, check)
                fitted = time.perf_counter()
                drawing = self._map(snapshot, model, stage, check)
                mapped = time.perf_counter()
                self.means = self._spectra.class_means(snapshot)
                if self.large:
                    self._check_labels()
                truth = self.truth
                score = None if truth is None else score_against(truth, drawing.ids, model)
                if self.large:
                    self._check_labels()
                about = {
                    "share": 1.0,
                    "labels": len(snapshot.labels),
                    "shares": shares(drawing.ids, model.classes),
                    "score": score,
                    "advice": advise(drawing.candidates, self._labeled_means(snapshot)),
                    "fit_seconds": round(fitted - started, 4),
                    "map_seconds": round(mapped - fitted, 4),
                    "steps": "" if model.recipe is None else model.recipe.line,
                }
        finally:
            self._may_learn.set()
        if stage == "final" and self._statistics is not None:
            self._last_best = model
        # What the fast preset gives meanwhile is not what was asked for.
        self._show_drawing(snapshot, "draft" if self.learned is not None else stage,
                           drawing, model, about)  # fmt: skip

    def _fit(self, snapshot: Snapshot, stage: str, check: Check) -> SceneModel:
        settings, labels = self.settings, snapshot.raster(self.scene)
        window, seed, parameters = settings.window, settings.random_state, settings.parameters
        if stage == "final" and settings.preset == "paper":
            both = preset_parameters("paper") | dict(parameters)
            classifier = RankRClassifier(random_state=seed, **both)
            estimator = InterruptibleClassifier(classifier, check)
            model = train(self.scene, labels, window=window, random_state=seed, estimator=estimator)
            return replace(model, estimator=classifier)
        last, known = self._last_best, self._statistics
        if stage == "draft" and known is not None and self._propagated is not None:
            both = ({"hidden": LARGE_HIDDEN} if self.large else {}) | dict(parameters)
            options: Json = {"last": last, "window": window, "random_state": seed, "check": check}
            return fit_draft(known, labels, **options, **both)
        labels, choice = drop_nodata(self.scene, labels), None
        settings = replace(settings, preset="fast" if known is None else "best")
        if stage == "draft":  # by what folds chose last; the final fit chooses anew
            settings = replace(settings, starts=1, folds=0)
            choice = None if last is None else last.training.choice
        check()
        pixels = np.argwhere(labels.values > 0)
        return fit_preset(
            self.scene, labels, pixels, settings, statistics=known, choice=choice, check=check
        )

    def _map(self, snapshot: Snapshot, model: SceneModel, stage: str, check: Check) -> Drawing:
        """Map the scene tile by tile, what is in view first, and show partial maps."""
        height, width = self.newest_map.ids.shape
        tiles = plan_tiles((height, width), TILE if self._statistics is None else BEST_TILE)
        view, together = self.view, 1
        components = None if stage == "final" else self._propagated
        if stage == "draft" and components is None and self._pixels > DRAFT_MAX_PIXELS:
            tiles = [tile for tile in tiles if view.shows(tile)]
        drawing = Drawing(self.newest_map, tiles)
        if components is not None:
            mapper = draft_mapper(model, components, check)
            if self.large:
                drawing.draw_view(model, mapper, view, view.stride(VIEW_PIXELS), check)
                self._show_partial(snapshot, drawing, model)
                check = self._check_labels  # a map of what is in view has been shown
            probabilities: Callable[[Tile], Array] = mapper.probabilities
            together = 2 * self._threads[stage]
        else:
            map_tile = Mapper(model, self.scene, numbers=True, check=check)
            probabilities = lambda tile: np.asarray(map_tile(tile)[1])  # noqa: E731
        draw = drawing.drawer(model, probabilities, self._window_means, check)
        shown = time.monotonic()
        while batch := drawing.take(self.view, together):
            if together > 1:
                run_tasks(draw, batch)
            else:
                draw(batch[0])
            check()
            if drawing.share < 1 and time.monotonic() - shown > PARTIAL_INTERVAL:
                shown = time.monotonic()
                if any(map(self.view.shows, drawing.unseen)):
                    self._show_partial(snapshot, drawing, model)
                self._tell_progress(snapshot, stage, drawing.share)
        return drawing

    def _tell_progress(self, snapshot: Snapshot, stage: str, share: float) -> None:
        count = len(snapshot.labels)
        self._publish("progress", {"stage": stage, "share": share, "labels": count})

    def _show_partial(self, snapshot: Snapshot, drawing: Drawing, model: SceneModel) -> None:
        about = {**self.newest_map.about, "labels": len(snapshot.labels), "share": drawing.share}
        drawing.unseen.clear()
        self._show_drawing(snapshot, "draft", drawing, model, about)

    def _show_drawing(
        self, snapshot: Snapshot, stage: str, drawing: Drawing, model: SceneModel, about: Json
    ) -> None:
        number, rasters = self.newest_map.version + 1, (drawing.ids, drawing.uncertainty)
        self._show(MapVersion(number, snapshot.revision, stage, *rasters, model, about))

    def _show(self, new_map: MapVersion) -> None:
        self.newest_map = new_map
        self._publish("map", new_map.describe())

    def _labeled_means(self, snapshot: Snapshot) -> Array:
        """Return every label's spectrum for the advice, mean over the window."""
        if self._propagated is not None:
            return self._window_means(np.array(sorted(snapshot.labels)), self._spectra.window)
        return self._spectra.window_means(snapshot)

    def _window_means(self, pixels: Array, window: int) -> Array:
        """Return spectra of pixels ``(n, 2)``, mean over the window; of components if there are."""
        statistics = self._statistics
        components = None if statistics is None else statistics.components
        source = self.scene if components is None else components.values
        patches = extract_patches(source, pixels[:, 0], pixels[:, 1], window).astype(np.float32)
        return np.nan_to_num(patches.mean(axis=(1, 2)))

    def _check_labels(self) -> None:
        if self._outdated:
            raise Outdated

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Outdated
