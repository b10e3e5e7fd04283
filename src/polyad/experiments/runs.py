"""Runs: one at a time, or spread over processes; each leaves one record.

The curves need networks applied to the test pixels as often as they have epochs, and patch by patch
ten thousand test pixels cost more than the epoch they are to judge. A Rank-R weight is separable,
so that `SceneEvaluator` projects the scene once onto the spectral factors and then correlates it
with the short spatial ones. The CNN's first layer is computed once for each pixel that a test
pixel's window needs, and no other: a fifth of the work of sliding it over Pavia University. Same
numbers as patch by patch, up to rounding; a test ties them.
"""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear
from tqdm import tqdm

from polyad.core.network import ACTIVATIONS, RankRNet
from polyad.estimators.scaler import ModeStandardScaler
from polyad.experiments.baselines import KERNEL, ConvolutionalNet
from polyad.experiments.records import PER, MapStore, RecordStore, RunRecord, RunScores, fold
from polyad.experiments.scenes import SceneData, load_scene
from polyad.experiments.settings import MODELS, RunSettings, known
from polyad.scene.assess.scores import score
from polyad.scene.learn.sampling import no_overlap
from polyad.scene.raster.windows import extract_patches, halo_index
from polyad.threads import limit_threads

PACKAGES = ("polyad", "torch", "numpy", "scipy", "scikit-learn")
ALSO_AT = 50  # the paper's tables have the 50th epoch beside the last
STRIP_PIXELS = 6_000  # worked on at a time: what a strip needs stays in the cache
GATHERED = 1024  # windows that are gathered at a time, for the same reason

Outcome = tuple[RunRecord, NDArray[np.uint16] | None]
Spread = Callable[[Sequence[RunSettings]], Iterator[Outcome]]


class _Trial:
    """What a run gathers while its model is fitted."""

    def __init__(self, settings: RunSettings, data: SceneData) -> None:
        self.settings, self.model = settings, known("model", settings.model, MODELS)
        self.split, self.labels = settings.split(data.labels), settings.labels(data.labels)
        self.cube = noisy(data.cube, settings)
        self.truth = self.labels[tuple(self.split.test.T)]
        self.apart = no_overlap(self.split, self.labels.shape, settings.window)
        self.estimator = self.model.estimator(settings.epochs, settings.seed)
        self.evaluated = frozenset(self.model.evaluated(settings.epochs))
        self.evaluator: SceneEvaluator | None = None
        self.network: nn.Module | None = None
        self.epochs: list[int] = []
        self.curve: list[int] = []
        self.scores: dict[str, RunScores] = {}
        self.seconds = {"fit": 0.0, "evaluate": 0.0}

    def fit(self) -> None:
        """Fit the model, and classify the test pixels after the epochs of its curve."""
        patches, classes = self.patches(self.split.train), self.labels[tuple(self.split.train.T)]
        started = time.process_time()
        hook = {"on_epoch": self.on_epoch} if self.model.iterative else {}
        self.estimator.fit(patches, classes, **hook)
        fitted = time.process_time()
        self.seconds["fit"] = fitted - started - self.seconds["evaluate"]
        if not self.model.iterative:
            predicted = self.estimator.predict(self.patches(self.split.test))
            self.keep_scores(self.settings.epochs, predicted)
            self.seconds["evaluate"] = time.process_time() - fitted

    def on_epoch(self, epoch: int, network: nn.Module) -> None:
        """Classify the test pixels, if it is time."""
        if epoch not in self.evaluated:
            return
        started = time.process_time()
        if self.evaluator is None:  # the scaler is known once fitting has begun
            scaler, window = self.estimator.scaler_, self.settings.window
            self.evaluator = SceneEvaluator(self.cube, self.split.test, scaler, window)
        self.network = network
        predicted = self.estimator.classes_[self.evaluator.predict(network)]
        self.epochs.append(epoch)
        self.curve.append(round(PER * float((predicted == self.truth).mean())))
        if epoch in (ALSO_AT, self.settings.epochs):
            self.keep_scores(epoch, predicted)
        self.seconds["evaluate"] += time.process_time() - started

    def keep_scores(self, epoch: int, predicted: NDArray[np.integer]) -> None:
        """Score the classes of the test pixels."""
        scores = score(self.truth, predicted, no_overlap=self.apart)
        apart = scores.overall_accuracy_no_overlap
        self.scores[str(epoch)] = RunScores(
            oa=round(float(scores.overall_accuracy), 6),
            aa=round(float(scores.average_accuracy), 6),
            kappa=round(float(scores.kappa), 6),
            oa_no_overlap=None if apart is None else round(float(apart), 6),
        )

    def class_map(self) -> NDArray[np.uint16]:
        """Return the class of every pixel of the scene, shape (height, width)."""
        shape = self.labels.shape
        pixels = np.argwhere(np.ones(shape, dtype=bool))
        if self.network is None:
            chunks = np.array_split(pixels, 64)
            found = np.concatenate([self.estimator.predict(self.patches(c)) for c in chunks])
        else:
            scaler, window = self.estimator.scaler_, self.settings.window
            everywhere = SceneEvaluator(self.cube, pixels, scaler, window)
            found = self.estimator.classes_[everywhere.predict(self.network)]
        return found.reshape(shape).astype(np.uint16)

    def patches(self, pixels: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the windows around ``pixels``, (n, s, s, bands)."""
        return extract_patches(self.cube, pixels[:, 0], pixels[:, 1], self.settings.window)


def run_one(settings: RunSettings, data: SceneData | None = None) -> Outcome:
    """Do one run.

    Parameters
    ----------
    settings : RunSettings
    data : SceneData, optional
        The scene; by default the one that the settings name.

    Returns
    -------
    record : RunRecord
    class_map : ndarray of int, shape (height, width), or None
        Class of every pixel; of the first seed only.
    """
    data = load_scene(settings.scene) if data is None else data
    trial = _Trial(settings, data)
    trial.fit()
    record = RunRecord(
        key=settings.key,
        settings=settings.to_stored(),
        epochs=fold(trial.epochs),
        curve=tuple(trial.curve),
        scores=trial.scores,
        n_train=len(trial.split.train),
        n_test=len(trial.split.test),
        n_test_no_overlap=int(trial.apart.sum()),
        parameters=count_parameters(trial.estimator),
        seconds={name: round(seconds, 2) for name, seconds in trial.seconds.items()},
        versions={name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        data=data.identity,
        machine=describe_machine(),
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
    r"""Return the scene with the noise of a run, one of the two called "20 % white noise".

    The paper's text speaks of white noise in every band of each pixel: ``"pixel"``. Its published
    code draws one number per band and adds it to every pixel alike: ``"band-offset"``.
    Standardizing each band, as the paper does, removes the second one exactly. In both, the
    deviation is the published code's: ``level`` times the maximum of the band over the scene.
    """
    if settings.noise == "none":
        return cube
    rng = np.random.default_rng((settings.seed, 1))  # not the stream that draws the pixels
    scale = np.float32(settings.noise_level) * np.abs(cube.max(axis=(0, 1)))  # (bands,)
    if settings.noise == "band-offset":
        return cube + rng.standard_normal(len(scale), dtype=np.float32) * scale
    values = cube.copy()
    for row in values:  # row by row: the draws stay small
        row += rng.standard_normal(row.shape, dtype=np.float32) * scale
    return values


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
        Show runs done, expected time left and last accuracies.
    spread : callable, optional
        Does the runs instead of ``jobs`` processes: takes settings, yields the outcome of
        `run_one` for each, in any order.
    """
    recorded = {record.key for record in records.load()}
    pending = [run for run in plan if run.key not in recorded]
    last: deque[str] = deque(maxlen=3)
    with tqdm(
        total=len(plan),
        initial=len(plan) - len(pending),
        disable=not (progress and pending),
        bar_format="{n_fmt}/{total_fmt} runs |{bar}| {elapsed} gone, {remaining} left{postfix}",
    ) as bar:
        outcomes = _spread(pending, jobs) if spread is None else spread(pending)
        for record, class_map in outcomes:
            if maps is not None and class_map is not None:
                maps.save(record.run.cell, class_map)
            records.append(record)  # last: a run counts as done only when all of it is kept
            last.append(f"{record.run.model} {100 * record.final.oa:.1f}")
            bar.set_postfix_str(f"last {', '.join(last)}")
            bar.update()
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


def slide_rank_r(network: RankRNet, scene: Tensor, window: int) -> Tensor:
    """Return logits ``(C, h - s + 1, w - s + 1)`` of a standardized scene ``(bands, h, w)``."""
    rows, cols, spectral = network.hidden.factors  # (Q, R, s), (Q, R, s), (Q, R, bands)
    units, rank, bands = spectral.shape
    height, width = scene.shape[1:]
    projected = spectral.reshape(-1, bands) @ scene.reshape(bands, -1)  # (Q R, pixels)
    taps = (rows[..., :, None] * cols[..., None, :]).reshape(-1, 1, window, window)
    image = projected.reshape(1, -1, height, width)
    terms = conv2d(image, taps, groups=len(taps))[0]  # (Q R, h - s + 1, w - s + 1)
    before = terms.reshape(units, rank, *terms.shape[1:]).sum(dim=1)
    if network.hidden.bias is not None:
        before += network.hidden.bias[:, None, None]
    hidden = ACTIVATIONS[network.activation].value(before)
    layer = network.output
    logits = (layer.weight @ hidden.flatten(1)).reshape(-1, *hidden.shape[1:])
    return logits if layer.bias is None else logits + layer.bias[:, None, None]


class SceneEvaluator:
    """Classify the same pixels of one scene again and again.

    Parameters
    ----------
    cube : ndarray, shape (height, width, bands)
    pixels : ndarray of int, shape (n, 2)
        Row and column of the pixels to classify.
    scaler : ModeStandardScaler
        Fitted on the training patches.
    window : int
        Side s of the patches. The scene is mirrored at its border.
    """

    def __init__(
        self,
        cube: NDArray[np.floating],
        pixels: NDArray[np.intp],
        scaler: ModeStandardScaler,
        window: int = 5,
    ) -> None:
        self.pixels, self.window = pixels, window
        self.height, self.width, self.bands = cube.shape
        self.mean, self.scale = (v.astype(np.float32) for v in (scaler.mean_, scaler.scale_))
        self.cube = cube.astype(np.float32, copy=False)
        half = window // 2
        self.rows, self.cols = (
            halo_index(slice(0, n), half, n) for n in (self.height, self.width)
        )  # of the mirrored scene, in the cube
        corner = _offsets(window, len(self.cols))
        windows = pixels @ (len(self.cols), 1) + corner[:, None]  # (s * s, n), in the mirrored one
        needed, index = np.unique(windows.T, return_inverse=True)
        self.needed = needed  # flat positions in the mirrored scene
        self.index = torch.from_numpy(index.reshape(len(pixels), window**2))
        # Few pixels in a large scene: their patches together are smaller than the scene.
        self.sparse = len(pixels) * window**2 < self.height * self.width

    @cached_property
    def spectra(self) -> Tensor:
        """Standardized spectra of the pixels that some test pixel's window has, (n, bands)."""
        down, across = np.divmod(self.needed, len(self.cols))
        values = self.cube[self.rows[down], self.cols[across]]
        return torch.from_numpy((values - self.mean) / self.scale)

    @cached_property
    def scene(self) -> Tensor:
        """The standardized scene, mirrored at its border, (bands, height + s - 1, ...)."""
        flat = (self.cube.reshape(-1, self.bands) - self.mean) / self.scale
        cube = flat.reshape(self.cube.shape)
        padded = cube[self.rows[:, None], self.cols].transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(padded))

    @cached_property
    def layers(self) -> tuple[Tensor, Tensor]:
        """Which pixels each 3 x 3 window of the CNN's two convolutions is made of.

        Positions in `spectra`, ``(n_1, 9)``, and positions among the ``n_1``, ``(n, 9)``.
        """
        width = len(self.cols)
        inner = _offsets(KERNEL, width)
        corners = self.needed[self.index[:, 0].numpy()]
        first, second = np.unique(corners[:, None] + inner, return_inverse=True)
        where = np.searchsorted(self.needed, first[:, None] + inner)
        return torch.from_numpy(where), torch.from_numpy(second.reshape(-1, KERNEL**2))

    def predict(self, network: nn.Module) -> NDArray[np.intp]:
        """Return the code (position in ``classes_``) of each of ``pixels``, shape (n,)."""
        with torch.no_grad():
            if isinstance(network, ConvolutionalNet) and self.window == 2 * KERNEL - 1:
                return self._convolve(network).argmax(dim=1).numpy()
            if isinstance(network, RankRNet) and not self.sparse:
                return self.map(network)[tuple(self.pixels.T)]
            shape = (-1, self.window, self.window, self.bands)
            codes = [
                network(self.spectra[batch].reshape(shape)).argmax(dim=1)
                for batch in torch.split(self.index, GATHERED)
            ]
        return torch.cat(codes).numpy()

    def _convolve(self, network: ConvolutionalNet) -> Tensor:
        """Return the logits of the CNN, (n, C), no pixel's first layer computed twice."""
        hidden = self.spectra
        for layer, index in zip((network.first, network.second), self.layers, strict=True):
            weight = layer.weight.permute(0, 2, 3, 1).flatten(1)
            windows = (hidden[batch].flatten(1) for batch in torch.split(index, GATHERED))
            outputs = [network.activation(linear(w, weight, layer.bias)) for w in windows]
            hidden = torch.cat(outputs)
        dense, output = network.dense, network.output
        hidden = network.activation(linear(hidden, dense.weight.flatten(1), dense.bias))
        return linear(hidden, output.weight.flatten(1), output.bias)

    def map(self, network: RankRNet) -> NDArray[np.intp]:
        """Return the code of every pixel of the scene, shape (height, width)."""
        step = max(1, STRIP_PIXELS // self.width)
        extra = self.window - 1
        with torch.no_grad():
            strips = [
                slide_rank_r(network, self.scene[:, top : top + step + extra], self.window).argmax(
                    dim=0
                )
                for top in range(0, self.height, step)
            ]
        return torch.cat(strips).numpy()


def _offsets(side: int, width: int) -> NDArray[np.intp]:
    """Return the flat positions of a square's pixels after its first, in rows of ``width``."""
    down, across = np.divmod(np.arange(side**2), side)
    return down * width + across
