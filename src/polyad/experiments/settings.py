"""What is run: the models with all their settings, one run, and the plan of many.

A run is named by the hash of everything that decides its outcome. The settings of the models are
part of it, so that they are spelled out here and not taken from the estimators' defaults: a new
default would otherwise silently make old records mean something else.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyad.errors import InputError
from polyad.estimators import RankRClassifier
from polyad.experiments import paper
from polyad.experiments.baselines import CNNClassifier, DenseClassifier, PatchSVC
from polyad.scene.learn import sampling
from polyad.scene.raster.windows import Border

T = TypeVar("T")

# First epoch, last epoch and step of the epochs after which the test pixels are classified. Curves
# are drawn over the logarithm of the epoch. Classifying the 42,000 test pixels of Pavia University
# costs ten epochs of a Rank-R network: after each of 500 that would be most of a run.
CURVE = ((1, 10, 1), (12, 20, 2), (25, 50, 5), (60, 100, 10), (125, 10**9, 25))

# Every noise, and how a heading puts it
NOISES = {"none": "no noise", "pixel": "white noise per pixel", "band-offset": "band offset"}
PAPER_PROTOCOL = "random"
PAPER_LEVEL = 0.2  # deviation of the noise, as a share of each band's maximum
AS_GIVEN = 0  # samples per class of a published split
# Accuracy without overlap is a score of every run, no protocol
RUN_PROTOCOLS = {name: sampling.DRAWS[name] for name in ("random", "other-fields", "blocks")}
# Our name of a setting -> its name in the records, which are hashed and older than ours
STORED_NAMES = {"protocol": "sampling", "optimizer": "optimiser"}


@dataclass(frozen=True)
class Model:
    """One model of the tables.

    Attributes
    ----------
    title : str
    make : callable
        Makes the estimator from the settings, ``random_state`` and, if iterative, ``epochs``.
    settings : mapping
    iterative : bool
        Whether it has epochs, and a curve.
    """

    title: str
    make: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    iterative: bool = True

    def estimator(self, epochs: int, seed: int) -> Any:
        """Return a fresh estimator."""
        count = {"epochs": epochs} if self.iterative else {}
        return self.make(**self.settings, **count, random_state=seed)

    def evaluated(self, epochs: int) -> list[int]:
        """Return the epochs after which the test pixels are classified; the last always is.

        Examples
        --------
        >>> MODELS["rank-1"].evaluated(4)
        [1, 2, 3, 4]
        >>> MODELS["cnn"].evaluated(33)[9:]
        [10, 12, 14, 16, 18, 20, 25, 30, 33]
        """
        if not self.iterative:
            return []
        steps = [range(first, min(last, epochs) + 1, step) for first, last, step in CURVE]
        return sorted({epochs, *(epoch for at in steps for epoch in at)})


# Algorithm 1 as the published code runs it; the paper's text names hidden units and window only.
_PAPER = {
    "hidden": 75,
    "solver": "alternating",
    "activation": "tanh",
    "start": "xavier",
    "hidden_bias": False,
    "learning_rate": 5e-4,
    "weight_decay": 0.0,
    "batch_size": 65,
    "inner_steps": 10,
    "standardize": -1,
    "patience": None,
}
# The paper names neither activation nor optimizer: set to learn as slowly as its CNN
_CNN = {
    "kernels": [150, 300],
    "hidden": 75,
    "activation": "tanh",
    "optimizer": "sgd",
    "learning_rate": 0.001,
    "batch_size": 65,
}
# Chosen on folds of training labels: `python -m benchmarks.cnn_tuning`, docs/results/cnn-tuning.md
_CNN_TUNED = _CNN | {"activation": "relu", "optimizer": "adam", "learning_rate": 0.002}
_DENSE = {name: _CNN[name] for name in ("hidden", "activation", "batch_size")}
_DENSE |= {"optimizer": "adam", "learning_rate": 5e-4}

MODELS: dict[str, Model] = {
    **{
        f"rank-{rank}": Model(f"Rank-{rank} FNN", RankRClassifier, {"rank": rank, **_PAPER})
        for rank in range(1, 6)
    },
    "cnn": Model("CNN, as the paper describes it", CNNClassifier, _CNN),
    "cnn-tuned": Model("CNN, tuned", CNNClassifier, _CNN_TUNED),
    "dense": Model("Dense FNN", DenseClassifier, _DENSE),
    **{
        f"svm-{seen}": Model(f"SVM, {seen.replace('-', ' ')}", PatchSVC, {"features": seen}, False)
        for seen in ("spectrum", "patch-mean")
    },
}
RANKS = tuple(name for name in MODELS if name.startswith("rank-"))
# The paper's rows, and its CNN with settings that suit it: without, the comparison is not fair
DEFAULT_MODELS = (*paper.PAPER_MODELS, "cnn-tuned")


def known(what: str, name: str, table: Mapping[str, T]) -> T:
    """Return the row called ``name`` of a table, or list the names there are.

    Examples
    --------
    >>> known("model", "cnn-tuned", MODELS).title
    'CNN, tuned'
    """
    if name not in table:
        raise InputError(f"{name!r} is no known {what}; known are {', '.join(table)}")
    return table[name]


@dataclass(frozen=True)
class RunSettings:
    """One run of one cell: scene, model, labels, noise, seed.

    The seed draws the training pixels, the noise and the model's start, so that all models of one
    seed are trained and tested on the same pixels of the same image.

    Attributes
    ----------
    scene : str
        A known scene or a stand-in.
    model : str
        A key of `polyad.experiments.settings.MODELS`.
    samples_per_class : int
        The paper's alpha; a class that has no more pixels than that trains with half of them.
    noise : {"none", "pixel", "band-offset"}
    epochs, seed : int
    noise_level : float
        Deviation of the noise as a share of each band's maximum.
    window : int
        Side of the patch.
    border : {"drop", "reflect"}
        The published code drops pixels whose window leaves the scene.
    protocol : {"random", "other-fields", "blocks"}
        Which pixels train and which test; the paper draws at random. A published split is called
        ``fixed-`` and its sum; its samples per class are 0.
    rasters : (str, str) or None
        Files of the training and the test pixels of a published split. Where they lie does not
        decide the outcome, so that it is neither hashed nor stored.

    Examples
    --------
    >>> run = RunSettings("indian-pines", "rank-1", samples_per_class=10)
    >>> run.cell
    'indian-pines_rank-1_10_none'
    >>> run.key == RunSettings("indian-pines", "rank-1", samples_per_class=10, seed=1).key
    False
    """

    scene: str
    model: str
    samples_per_class: int
    noise: str = "none"
    epochs: int = 500
    seed: int = 0
    noise_level: float = PAPER_LEVEL
    window: int = 5
    border: Border = "drop"
    protocol: str = PAPER_PROTOCOL
    rasters: tuple[str, str] | None = field(default=None, compare=False)

    def to_stored(self) -> dict[str, Any]:
        """Return everything that decides the outcome, by the names that the records have for it."""
        values = asdict(self)
        del values["rasters"]
        if self.protocol == PAPER_PROTOCOL:  # the first records are older than the choice
            del values["protocol"]
        model = _renamed(known("model", self.model, MODELS).settings, STORED_NAMES)
        return _renamed(values, STORED_NAMES) | {"model_settings": model}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> RunSettings:
        """Undo `to_stored`; the model's own settings are left to the hash."""
        values = _renamed(stored, {stored: name for name, stored in STORED_NAMES.items()})
        values.pop("model_settings", None)
        return cls(**values)

    def split(self, labels: sampling.Labels) -> sampling.Split:
        """Return the training and the test pixels, drawn by the seed.

        Pixels of a class without training pixels are not tested.
        """
        if self.rasters is not None:
            return self._given(self.rasters).split(labels, self.seed)
        known("protocol", self.protocol, RUN_PROTOCOLS)
        draw = sampling.Protocol(self.protocol, self.samples_per_class, self.window, self.border)
        with warnings.catch_warnings():  # of classes too small for blocks: the table says so once
            warnings.simplefilter("ignore", UserWarning)
            drawn = draw.split(labels, self.seed)
        trained, tested = drawn.classes_of(labels)
        return sampling.Split(drawn.train, drawn.test[np.isin(tested, trained)])

    def labels(self, labels: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the classes that train and test: the scene's own, or those of a given split."""
        return labels if self.rasters is None else self._given(self.rasters).labels

    def _given(self, rasters: tuple[str, str]) -> sampling.FixedSplit:
        given = sampling.FixedSplit.open(*rasters)
        if given.name != self.protocol:
            raise InputError(
                f"{' and '.join(rasters)} changed since the runs were planned: expected "
                f"{self.protocol}, got {given.name}; run the command again"
            )
        return given

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that change with any setting."""
        text = json.dumps(self.to_stored(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def cell(self) -> str:
        """Name of the table's cell this run belongs to: all but seed and epochs.

        The paper's protocol and noise level are left out.

        Examples
        --------
        >>> RunSettings("indian-pines", "rank-1", 10, protocol="blocks").cell
        'indian-pines_rank-1_10_none_blocks'
        >>> RunSettings("indian-pines", "rank-1", 10, "pixel", noise_level=0.05).cell
        'indian-pines_rank-1_10_pixel-0.05'
        """
        level = "" if self.noise_level == PAPER_LEVEL else f"-{self.noise_level:g}"
        extra = "" if self.protocol == PAPER_PROTOCOL else f"_{self.protocol}"
        return f"{self.scene}_{self.model}_{self.samples_per_class}_{self.noise}{level}{extra}"


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


@dataclass(frozen=True)
class Plan:
    """The runs to do: those of the paper's tables, unless told otherwise.

    The names are those of the options of ``polyad reproduce``.

    Attributes
    ----------
    scene, model, noise, protocol : sequence of str
    samples_per_class : sequence of int
    runs, epochs : int
        Seeds 0, 1, ...; 0 runs plan nothing.
    noise_level : sequence of float
        Runs without noise are planned once, whatever the levels.
    train, test : str, optional
        Rasters of a published split, which is then the only protocol: the samples per class are
        those it has, and no pixel is dropped at the border.

    Examples
    --------
    >>> plan = Plan(["indian-pines"], ["rank-1", "cnn"], [10], ["none"], runs=2, epochs=5)
    >>> [(run.model, run.seed) for run in plan.settings(plan.scene)]
    [('rank-1', 0), ('rank-1', 1), ('cnn', 0), ('cnn', 1)]
    >>> Plan(runs=2).command()
    'polyad reproduce --runs 2'
    """

    scene: Sequence[str] = paper.SCENES
    model: Sequence[str] = DEFAULT_MODELS
    samples_per_class: Sequence[int] = paper.SAMPLES
    noise: Sequence[str] = tuple(NOISES)
    runs: int = paper.RUNS
    epochs: int = paper.EPOCHS[-1]
    protocol: Sequence[str] = (PAPER_PROTOCOL,)
    noise_level: Sequence[float] = (PAPER_LEVEL,)
    train: str | None = None
    test: str | None = None

    def __post_init__(self) -> None:
        for what, table in (("model", MODELS), ("noise", NOISES), ("protocol", RUN_PROTOCOLS)):
            for name in getattr(self, what):
                known(what, name, table)
        for what, valid, expected in (
            ("epochs", self.epochs >= 1, "at least 1"),
            ("runs", self.runs >= 0, "at least 0, which writes the report alone"),
            ("samples_per_class", min(self.samples_per_class) >= 1, "at least 1"),
            (
                "noise_level",
                all(0 < level <= 1 for level in self.noise_level),
                "above 0 and at most 1, a share of each band's maximum (0.05 is 5 %)",
            ),
            ("train", bool(self.train) == bool(self.test), "given together with test"),
        ):
            if not valid:
                raise InputError(f"{what} must be {expected}, got {getattr(self, what)}")

    @property
    def full(self) -> int:
        """Runs of a full cell; a report alone is measured against the paper."""
        return self.runs or paper.RUNS

    def settings(self, scenes: Sequence[str]) -> list[RunSettings]:
        """Return the runs of ``scenes``, cell by cell, the seeds of a cell together."""
        protocols, samples, rasters = self.protocol, self.samples_per_class, None
        border: Border = "drop"
        if self.train is not None and self.test is not None:
            rasters = self.train, self.test
            protocols, samples = (sampling.FixedSplit.open(*rasters).name,), (AS_GIVEN,)
            border = "reflect"
        return [
            RunSettings(
                scene, model, n, noise, self.epochs, seed, level, border=border,
                protocol=protocol, rasters=rasters,
            )
            for scene, protocol, noise, n, model in product(
                scenes, protocols, self.noise, samples, self.model
            )
            for level in ((PAPER_LEVEL,) if noise == "none" else self.noise_level)
            for seed in range(self.runs)
        ]  # fmt: skip

    def command(self) -> str:
        """Return the command for these runs, without the options that are as by default."""
        words = ["polyad", "reproduce"]
        for option in fields(self):
            value = getattr(self, option.name)
            values = (value,) if isinstance(value, (int, str, NoneType)) else tuple(value)
            if value and values not in ((option.default,), option.default):
                name = "--" + option.name.replace("_", "-")
                words += [word for one in values for word in (name, str(one))]
        return shlex.join(words)


QUICK = Plan(paper.SCENES[:1], ("rank-1", "rank-2", "cnn"), (10,), ("none",), 3, paper.EPOCHS[0])
