"""Runs: one at a time, or spread over processes; each leaves one record."""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm import tqdm

from polyad.experiments.evaluation import SceneEvaluator
from polyad.experiments.models import MODELS, Model, known
from polyad.experiments.records import PER, MapStore, Record, RecordStore, fold
from polyad.experiments.scenes import SceneData, load_scene
from polyad.experiments.settings import RunSettings
from polyad.scene.assess.scores import score
from polyad.scene.learn.noise import band_offset, pixel_noise
from polyad.scene.learn.sampling import Split, no_overlap
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

PACKAGES = ("polyad", "torch", "numpy", "scipy", "scikit-learn")
ALSO_AT = 50  # the paper's tables have the 50th epoch beside the last
NOISE_MAKERS = {"pixel": pixel_noise, "band-offset": band_offset}

Outcome = tuple[Record, NDArray[np.uint16] | None]
Spread = Callable[[Sequence[RunSettings]], Iterator[Outcome]]


@dataclass
class _Trial:
    """What a run gathers while its model is fitted."""

    settings: RunSettings
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
        self.wanted = frozenset(self.model.evaluated(self.settings.epochs))

    def on_epoch(self, epoch: int, network: nn.Module) -> None:
        """Classify the test pixels, if it is time."""
        if epoch not in self.wanted:
            return
        started = time.process_time()
        if self.evaluator is None:  # the scaler is known once fitting has begun
            scaler, window = self.estimator.scaler_, self.settings.window
            self.evaluator = SceneEvaluator(self.cube, self.split.test, scaler, window)
        self.network = network
        codes = self.evaluator.predict(network)
        predicted = self.estimator.classes_[codes]
        self.epochs.append(epoch)
        self.curve.append(round(PER * float((predicted == self.truth).mean())))
        if epoch in (ALSO_AT, self.settings.epochs):
            self.scores[str(epoch)] = self._score(predicted)
        self.seconds += time.process_time() - started

    def after_fit(self) -> None:
        """Classify the test pixels with a model that has no epochs."""
        started = time.process_time()
        predicted = self.estimator.predict(self._patches(self.split.test))
        self.scores[str(self.settings.epochs)] = self._score(predicted)
        self.seconds += time.process_time() - started

    def class_map(self) -> NDArray[np.uint16]:
        """Return the class of every pixel of the scene, shape (height, width)."""
        if self.evaluator is not None and self.network is not None:
            return self.estimator.classes_[self.evaluator.map(self.network)].astype(np.uint16)
        height, width = self.cube.shape[:2]
        pixels = np.argwhere(np.ones((height, width), dtype=bool))
        chunks = np.array_split(pixels, 64)
        class_ids = [self.estimator.predict(self._patches(chunk)) for chunk in chunks]
        return np.concatenate(class_ids).reshape(height, width).astype(np.uint16)

    def _patches(self, pixels: NDArray[np.intp]) -> NDArray[np.float32]:
        return extract_patches(
            self.cube, pixels[:, 0], pixels[:, 1], self.settings.window, "reflect"
        )

    def _score(self, predicted: NDArray[np.integer]) -> dict[str, float | None]:
        scores = score(self.truth, predicted, no_overlap=self.apart)
        values = {
            "oa": scores.overall_accuracy,
            "aa": scores.average_accuracy,
            "kappa": scores.kappa,
            "oa_no_overlap": scores.overall_accuracy_no_overlap,
        }
        return {name: None if v is None else round(float(v), 6) for name, v in values.items()}


def run_one(
    settings: RunSettings, data: SceneData | None = None
) -> tuple[Record, NDArray[np.uint16] | None]:
    """Do one run.

    Parameters
    ----------
    settings : RunSettings
    data : SceneData, optional
        The scene; by default the one that the settings name.

    Returns
    -------
    record : Record
    class_map : ndarray of int, shape (height, width), or None
        Class of every pixel; of the first seed only.
    """
    data = load_scene(settings.scene) if data is None else data
    model = known("model", settings.model, MODELS)
    split, labels = settings.split(data.labels), settings.labels(data.labels)
    trial = _Trial(
        settings,
        model,
        noisy(data.cube, settings),
        labels[tuple(split.test.T)],
        split,
        no_overlap(split, labels.shape, settings.window),
        model.estimator(settings.epochs, settings.seed),
    )
    patches, classes = trial._patches(split.train), labels[tuple(split.train.T)]
    started = time.process_time()
    if model.iterative:
        trial.estimator.fit(patches, classes, on_epoch=trial.on_epoch)
        fitting = time.process_time() - started - trial.seconds
    else:
        trial.estimator.fit(patches, classes)
        fitting = time.process_time() - started
        trial.after_fit()
    record = Record(
        settings=settings,
        key=settings.key,
        epochs=fold(trial.epochs),
        curve=tuple(trial.curve),
        scores=trial.scores,
        n_train=len(split.train),
        n_test=len(split.test),
        n_test_no_overlap=int(trial.apart.sum()),
        parameters=count_parameters(trial.estimator),
        seconds={"fit": round(fitting, 2), "evaluate": round(trial.seconds, 2)},
        machine=describe_machine(),
        versions={name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        stored=settings.to_stored(),
        data=data.identity,
    )
    return record, trial.class_map() if settings.seed == 0 else None


def describe_machine() -> dict[str, str | int]:
    """Return processor, instruction set and threads: they decide how sums are rounded."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):  # Linux alone has this file, and no name of the processor elsewhere
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    return {
        "processor": processor,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def noisy(cube: NDArray[np.float32], settings: RunSettings) -> NDArray[np.float32]:
    """Return the scene with the noise of a run."""
    if settings.noise == "none":
        return cube
    rng = np.random.default_rng((settings.seed, 1))  # not the stream that draws the pixels
    noisy_cube = NOISE_MAKERS[settings.noise](cube, settings.noise_level, random_state=rng)
    return np.asarray(noisy_cube, dtype=np.float32)


def count_parameters(estimator: Any) -> int:
    """Return what Table 2 counts; 0 for a support vector machine, which has no fixed number."""
    network = getattr(estimator, "network_", None)
    if network is None:
        return 0
    return int(getattr(network, "n_weights", 0)) or sum(p.numel() for p in network.parameters())


def run_all(
    plan: Sequence[RunSettings],
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
    plan : sequence of RunSettings
    records : RecordStore
        Appended to after every run: killed and started again, it resumes where it stopped.
    maps : MapStore, optional
        Takes the class map of the first seed of each cell.
    jobs : int
        Processes, one thread each.
    progress : bool
        Show runs done, expected end and last accuracies.
    spread : callable, optional
        Does the runs instead of ``jobs`` processes: takes settings, yields the outcome of
        `run_one` for each, in any order.
    """
    recorded = records.keys()
    pending = [run for run in plan if run.key not in recorded]
    with Progress(pending, done_before=len(plan) - len(pending), show=progress) as shown:
        outcomes = _spread(pending, jobs) if spread is None else spread(pending)
        for record, class_map in outcomes:
            if maps is not None and class_map is not None:
                maps.save(record.settings.cell, class_map)
            records.append(record)  # last: a run counts as done only when all of it is kept
            shown.update(record)
    return len(pending)


def _spread(plan: Sequence[RunSettings], jobs: int) -> Iterator[Outcome]:
    """Yield the outcome of each run as it ends."""
    if jobs == 1 or len(plan) < 2:
        yield from map(run_in_one_thread, plan)
        return
    # "loky" starts fresh processes: no forked locks, and a thread count of their own
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from pool(joblib.delayed(run_in_one_thread)(run) for run in plan)


def run_in_one_thread(settings: RunSettings) -> Outcome:
    """Do one run with one torch thread, as it is done wherever runs are spread."""
    with limit_threads(1):
        return run_one(settings)


def cost(run: RunSettings) -> float:
    """Return about how long a run takes, in any unit: only shares of it are used."""
    model = MODELS[run.model]
    return model.cost * (run.epochs if model.iterative else 100) * (run.samples_per_class or 50)


class Progress:
    """A live display of the runs.

    Parameters
    ----------
    runs : sequence of RunSettings
        The runs to come.
    done_before : int
        Runs that have their record already.
    show : bool
    """

    def __init__(self, runs: Sequence[RunSettings], done_before: int, show: bool = True) -> None:
        self.left = sum(cost(run) for run in runs)
        self.spent = 0.0
        self.started = time.monotonic()
        self.last: deque[str] = deque(maxlen=3)
        self.bar = tqdm(
            total=done_before + len(runs),
            initial=done_before,
            unit="run",
            disable=not (show and runs),
            bar_format="{n_fmt}/{total_fmt} runs |{bar}| {elapsed} gone{postfix}",
        )

    def update(self, record: Record) -> None:
        """Count one run as done."""
        used = cost(record.settings)
        self.spent, self.left = self.spent + used, self.left - used
        accuracy = 100 * float(record.final["oa"] or 0.0)
        self.last.append(f"{record.settings.model} {accuracy:.1f}")
        self.bar.set_postfix_str(f"done {self.expected_end()}; last {', '.join(self.last)}")
        self.bar.update()

    def expected_end(self) -> str:
        """Return the time at which the last run will be done, if all goes on like this."""
        if self.spent <= 0:
            return "?"
        seconds = (time.monotonic() - self.started) * self.left / self.spent
        end = datetime.now() + timedelta(seconds=seconds)
        return end.strftime("%H:%M" if seconds < 12 * 3600 else "%a %H:%M")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()
