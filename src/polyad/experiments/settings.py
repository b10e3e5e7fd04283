"""What one run is: a frozen set of settings, whose hash names the run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad.errors import InputError
from polyad.experiments.models import MODELS, known
from polyad.scene.learn.sampling import (
    Blocks,
    FixedSplit,
    Labels,
    OtherFields,
    RandomPerClass,
    Split,
)
from polyad.scene.raster.windows import Border

# Every noise, and how a heading puts it
NOISES = {"none": "no noise", "pixel": "white noise per pixel", "band-offset": "band offset"}
PAPER_PROTOCOL = "random"
PAPER_LEVEL = 0.2  # deviation of the noise, as a share of each band's maximum
AS_GIVEN = 0  # samples per class of a split that somebody else made
# What may be asked of a run. Accuracy without overlap is a score of every run, no protocol.
RUN_PROTOCOLS = {p.protocol: p for p in (RandomPerClass, OtherFields, Blocks)}
# Our name of a setting -> its name in the records, which are hashed and older than ours
STORED_NAMES = {"protocol": "sampling", "optimizer": "optimiser"}
CURRENT_NAMES = {stored: name for name, stored in STORED_NAMES.items()}


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
        A key of `polyad.experiments.models.MODELS`.
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
        asked = asdict(self)
        del asked["rasters"]
        if self.protocol == PAPER_PROTOCOL:  # the first records are older than the choice
            del asked["protocol"]
        own = _renamed(known("model", self.model, MODELS).settings, STORED_NAMES)
        return _renamed(asked, STORED_NAMES) | {"model_settings": own}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> RunSettings:
        """Undo `to_stored`; the model's own settings are left to the hash."""
        ours = _renamed(stored, CURRENT_NAMES)
        return cls(**{name: value for name, value in ours.items() if name != "model_settings"})

    def split(self, labels: Labels) -> Split:
        """Return the training and the test pixels, drawn by the seed.

        Pixels of a class without training pixels are not tested.
        """
        if self.rasters is not None:
            return self._given().split(labels, self.seed)
        protocol = known("protocol", self.protocol, RUN_PROTOCOLS)
        draw = protocol(self.samples_per_class, self.window, self.border)
        with warnings.catch_warnings():  # of classes too small for blocks: the table says so once
            warnings.simplefilter("ignore", UserWarning)
            drawn = draw.split(labels, self.seed)
        trained, tested = drawn.classes_of(labels)
        return Split(drawn.train, drawn.test[np.isin(tested, trained)])

    def labels(self, labels: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the classes that train and test: the scene's own, or those of a given split."""
        return labels if self.rasters is None else self._given().labels

    def _given(self) -> FixedSplit:
        if self.rasters is None:
            raise InputError(f"{self.protocol} wants its two rasters; give --train and --test")
        given = FixedSplit.open(*self.rasters)
        if given.name != self.protocol:
            raise InputError(
                f"{' and '.join(self.rasters)} changed since the runs were planned: {given.name} "
                f"is not {self.protocol}; run the command again"
            )
        return given

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that change with any setting."""
        text = json.dumps(self.to_stored(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def cell(self) -> str:
        """Name of the table's cell this run belongs to: all but seed and epochs."""
        return cell_name(
            self.scene,
            self.model,
            self.samples_per_class,
            self.noise,
            self.protocol,
            self.noise_level,
        )


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


def cell_name(
    scene: str,
    model: str,
    samples: int,
    noise: str,
    protocol: str = PAPER_PROTOCOL,
    noise_level: float = PAPER_LEVEL,
) -> str:
    """Return the name of a table's cell; the paper's protocol and noise level are left out.

    Examples
    --------
    >>> cell_name("indian-pines", "rank-1", 10, "none", "blocks")
    'indian-pines_rank-1_10_none_blocks'
    >>> cell_name("indian-pines", "rank-1", 10, "pixel", noise_level=0.05)
    'indian-pines_rank-1_10_pixel-0.05'
    """
    level = "" if noise_level == PAPER_LEVEL else f"-{noise_level:g}"
    extra = "" if protocol == PAPER_PROTOCOL else f"_{protocol}"
    return f"{scene}_{model}_{samples}_{noise}{level}{extra}"


def plan_runs(
    scenes: Sequence[str],
    models: Sequence[str],
    samples_per_class: Sequence[int],
    noises: Sequence[str],
    runs: int,
    epochs: int,
    protocols: Sequence[str] = (PAPER_PROTOCOL,),
    rasters: tuple[str, str] | None = None,
    noise_levels: Sequence[float] = (PAPER_LEVEL,),
) -> list[RunSettings]:
    """Return the runs of a table, cell by cell, the seeds of a cell together.

    With ``rasters``, the files of a published split, that split is the only protocol, and the
    samples per class are those it has. No pixel is dropped at the border then.

    Parameters
    ----------
    scenes, models, noises, protocols : sequence of str
    samples_per_class : sequence of int
    runs, epochs : int
    noise_levels : sequence of float
        Runs without noise are planned once, whatever the levels.

    Examples
    --------
    >>> plan = plan_runs(["indian-pines"], ["rank-1", "cnn"], [10], ["none"], runs=2, epochs=5)
    >>> [(run.model, run.seed) for run in plan]
    [('rank-1', 0), ('rank-1', 1), ('cnn', 0), ('cnn', 1)]
    """
    for model in models:
        known("model", model, MODELS)
    for noise in noises:
        known("noise", noise, NOISES)
    for protocol in protocols:
        known("protocol", protocol, RUN_PROTOCOLS)
    for what, value in [("epochs", epochs), *(("samples_per_class", n) for n in samples_per_class)]:
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    for level in noise_levels:
        if not 0 < level <= 1:
            raise InputError(
                "noise_level is a share of each band's maximum: expected above 0 and at most 1, "
                f"got {level:g}; 0.05 is 5 %"
            )
    if runs < 0:
        raise InputError(f"runs must not be negative, got {runs}; 0 writes the report alone")
    more: dict[str, Any] = {}
    if rasters is not None:
        protocols, samples_per_class = (FixedSplit.open(*rasters).name,), (AS_GIVEN,)
        more = {"rasters": rasters, "border": "reflect"}
    cells = product(scenes, protocols, noises, samples_per_class, models)
    return [
        RunSettings(scene, model, n, noise, epochs, seed, level, protocol=protocol, **more)
        for scene, protocol, noise, n, model in cells
        for level in ((PAPER_LEVEL,) if noise == "none" else noise_levels)
        for seed in range(runs)
    ]
