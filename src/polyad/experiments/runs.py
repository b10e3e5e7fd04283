"""Runs: one at a time, or spread over processes; each leaves one record."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from torch import nn

from polyad.experiments.evaluation import SceneEvaluator
from polyad.experiments.maps import MapStore
from polyad.experiments.models import Model, known_model
from polyad.experiments.progress import Progress
from polyad.experiments.protocol import Protocol
from polyad.experiments.records import PER, Record, RecordStore, fold
from polyad.experiments.scenes import SceneData, load_scene
from polyad.scene.noise import band_offset, pixel_noise
from polyad.scene.patches import extract_patches
from polyad.scene.sampling import Split, no_overlap
from polyad.scene.scores import score
from polyad.threads import limit_threads

PACKAGES = ("polyad", "torch", "numpy", "scipy", "scikit-learn")
ALSO_AT = 50  # the paper's tables have the 50th epoch beside the last
NOISE_MAKERS = {"pixel": pixel_noise, "band-offset": band_offset}

Outcome = tuple[Record, NDArray[np.uint16] | None]
Spread = Callable[[Sequence[Protocol]], Iterator[Outcome]]


@dataclass
class _Trial:
    """What a run gathers while its model is fitted."""

    protocol: Protocol
    model: Model
    cube: NDArray[np.float32]
    truth: NDArray[np.integer]  # of the test pixels
    split: Split
    apart: NDArray[np.bool_]
    estimator: Any
    evaluator: SceneEvaluator | None = None
    network: nn.Module | None = None
    epochs: list[int] = field(default_factory=list)
    curve: list[int] = field(default_factory=list)
    scores: dict[str, dict[str, float | None]] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.wanted = frozenset(self.model.evaluated(self.protocol.epochs))

    def on_epoch(self, epoch: int, network: nn.Module) -> None:
        """Classify the test pixels, if it is time."""
        if epoch not in self.wanted:
            return
        started = time.perf_counter()
        if self.evaluator is None:  # the scaler is known once fitting has begun
            scaler, window = self.estimator.scaler_, self.protocol.window
            self.evaluator = SceneEvaluator(self.cube, self.split.test, scaler, window)
        self.network = network
        codes = self.evaluator.predict(network)
        predicted = self.estimator.classes_[codes]
        self.epochs.append(epoch)
        self.curve.append(round(PER * float((predicted == self.truth).mean())))
        if epoch in (ALSO_AT, self.protocol.epochs):
            self.scores[str(epoch)] = self._score(predicted)
        self.seconds += time.perf_counter() - started

    def after_fit(self) -> None:
        """Classify the test pixels with a model that has no epochs."""
        started = time.perf_counter()
        predicted = self.estimator.predict(self._patches(self.split.test))
        self.scores[str(self.protocol.epochs)] = self._score(predicted)
        self.seconds += time.perf_counter() - started

    def class_map(self) -> NDArray[np.uint16]:
        """Return the class of every pixel of the scene, shape (height, width)."""
        if self.evaluator is not None and self.network is not None:
            return self.estimator.classes_[self.evaluator.map(self.network)].astype(np.uint16)
        height, width = self.cube.shape[:2]
        pixels = np.argwhere(np.ones((height, width), dtype=bool))
        parts = [self.estimator.predict(self._patches(p)) for p in np.array_split(pixels, 64)]
        return np.concatenate(parts).reshape(height, width).astype(np.uint16)

    def _patches(self, pixels: NDArray[np.intp]) -> NDArray[np.float32]:
        return extract_patches(
            self.cube, pixels[:, 0], pixels[:, 1], self.protocol.window, "reflect"
        )

    def _score(self, predicted: NDArray[np.integer]) -> dict[str, float | None]:
        got = score(self.truth, predicted, no_overlap=self.apart)
        values = {
            "oa": got.overall_accuracy,
            "aa": got.average_accuracy,
            "kappa": got.kappa,
            "oa_no_overlap": got.overall_accuracy_no_overlap,
        }
        return {name: None if v is None else round(float(v), 6) for name, v in values.items()}


def run_one(
    protocol: Protocol, data: SceneData | None = None
) -> tuple[Record, NDArray[np.uint16] | None]:
    """Do one run.

    Parameters
    ----------
    protocol : Protocol
    data : SceneData, optional
        The scene; by default the one that the protocol names.

    Returns
    -------
    record : Record
    class_map : ndarray of int, shape (height, width), or None
        Class of every pixel; of the first seed only.
    """
    data = load_scene(protocol.scene) if data is None else data
    model = known_model(protocol.model)
    split = protocol.split(data.labels)
    trial = _Trial(
        protocol,
        model,
        noisy(data.cube, protocol),
        data.labels[tuple(split.test.T)],
        split,
        no_overlap(split, data.labels.shape, protocol.window),
        model.estimator(protocol.epochs, protocol.seed),
    )
    patches, classes = trial._patches(split.train), data.labels[tuple(split.train.T)]
    started = time.perf_counter()
    if model.iterative:
        trial.estimator.fit(patches, classes, on_epoch=trial.on_epoch)
        fitting = time.perf_counter() - started - trial.seconds
    else:
        trial.estimator.fit(patches, classes)
        fitting = time.perf_counter() - started
        trial.after_fit()
    record = Record(
        protocol=protocol,
        key=protocol.key,
        epochs=fold(trial.epochs),
        curve=tuple(trial.curve),
        scores=trial.scores,
        n_train=len(split.train),
        n_test=len(split.test),
        n_test_no_overlap=int(trial.apart.sum()),
        parameters=count_parameters(trial.estimator),
        seconds={"fit": round(fitting, 2), "evaluate": round(trial.seconds, 2)},
        versions={name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        settings=protocol.settings(),
    )
    return record, trial.class_map() if protocol.seed == 0 else None


def noisy(cube: NDArray[np.float32], protocol: Protocol) -> NDArray[np.float32]:
    """Return the scene with the protocol's noise."""
    if protocol.noise == "none":
        return cube
    draw = np.random.default_rng((protocol.seed, 1))  # not the stream that draws the pixels
    made = NOISE_MAKERS[protocol.noise](cube, protocol.noise_level, random_state=draw)
    return np.asarray(made, dtype=np.float32)


def count_parameters(estimator: Any) -> int:
    """Return what Table 2 counts; 0 for a support vector machine, which has no fixed number."""
    network = getattr(estimator, "network_", None)
    if network is None:
        return 0
    return int(getattr(network, "n_weights", 0)) or sum(p.numel() for p in network.parameters())


def run_all(
    protocols: Sequence[Protocol],
    records: RecordStore,
    maps: MapStore | None = None,
    *,
    jobs: int = 1,
    progress: bool = True,
    spread: Spread | None = None,
) -> int:
    """Do all runs that have no record yet; return how many that were.

    Parameters
    ----------
    protocols : sequence of Protocol
    records : RecordStore
        Appended to after every run: killed and started again, it goes on where it was.
    maps : MapStore, optional
        Takes the class map of the first seed of each cell.
    jobs : int
        Processes, one thread each.
    progress : bool
        Show runs done, expected end and last accuracies.
    spread : callable, optional
        Does the runs instead of ``jobs`` processes: takes protocols, yields the outcome of
        `run_one` for each, in any order.
    """
    there = records.keys()
    open_runs = [p for p in protocols if p.key not in there]
    with Progress(open_runs, done_before=len(protocols) - len(open_runs), show=progress) as shown:
        outcomes = _spread(open_runs, jobs) if spread is None else spread(open_runs)
        for record, class_map in outcomes:
            if maps is not None and class_map is not None:
                maps.save(record.protocol.cell, class_map)
            records.append(record)  # last: a run counts as done only when all of it is kept
            shown.update(record)
    return len(open_runs)


def _spread(protocols: Sequence[Protocol], jobs: int) -> Iterator[Outcome]:
    """Yield the outcome of each run as it ends."""
    if jobs == 1 or len(protocols) < 2:
        yield from map(run_in_one_thread, protocols)
        return
    # "loky" starts fresh processes: no forked locks, and a thread count of their own
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from pool(joblib.delayed(run_in_one_thread)(p) for p in protocols)


def run_in_one_thread(protocol: Protocol) -> Outcome:
    """Do one run with one torch thread, as it is done wherever runs are spread."""
    with limit_threads(1):
        return run_one(protocol)
