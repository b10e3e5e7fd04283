"""What one run is: a frozen set of settings, whose hash names the run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from polyad.errors import InputError
from polyad.experiments.models import MODELS, known_model
from polyad.scene.patches import Border
from polyad.scene.protocols import Blocks, OtherFields, RandomPerClass
from polyad.scene.sampling import Labels, Split

NOISES = ("none", "pixel", "band-offset")
# Accuracy without overlap is a score of every run, and no sampling of its own
SAMPLINGS = {kind.kind: kind for kind in (RandomPerClass, OtherFields, Blocks)}


@dataclass(frozen=True)
class Protocol:
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
    sampling : {"random", "other-fields", "blocks"}
        Which pixels train and which test; the paper draws at random.

    Examples
    --------
    >>> run = Protocol("indian-pines", "rank-1", samples_per_class=10)
    >>> run.cell
    'indian-pines_rank-1_10_none'
    >>> run.key == Protocol("indian-pines", "rank-1", samples_per_class=10, seed=1).key
    False
    """

    scene: str
    model: str
    samples_per_class: int
    noise: str = "none"
    epochs: int = 500
    seed: int = 0
    noise_level: float = 0.2
    window: int = 5
    border: Border = "drop"
    sampling: str = "random"

    def settings(self) -> dict[str, Any]:
        """Return everything that decides the outcome, the model's own settings among it."""
        asked = asdict(self)
        if self.sampling == "random":  # the records are older than the choice: their hash stays
            del asked["sampling"]
        return asked | {"model_settings": dict(known_model(self.model).settings)}

    def split(self, labels: Labels) -> Split:
        """Return the pixels that train and test, drawn by the seed.

        Pixels of a class that nobody was taught are not asked.
        """
        kind = SAMPLINGS[self.sampling]
        with warnings.catch_warnings():  # of classes too small for blocks: the table says so once
            warnings.simplefilter("ignore", UserWarning)
            drawn = kind(self.samples_per_class, self.window, self.border).split(labels, self.seed)
        trained, tested = drawn.classes_of(labels)
        return Split(drawn.train, drawn.test[np.isin(tested, trained)])

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that change with any setting."""
        text = json.dumps(self.settings(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def cell(self) -> str:
        """Name of the table's cell this run belongs to: all but seed and epochs."""
        return cell_name(self.scene, self.model, self.samples_per_class, self.noise, self.sampling)

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Protocol:
        """Return the protocol of `settings`; the model's own settings are left to the hash."""
        return cls(**{name: v for name, v in settings.items() if name != "model_settings"})


def cell_name(scene: str, model: str, samples: int, noise: str, sampling: str) -> str:
    """Return the name of a table's cell; the paper's own sampling goes without saying.

    Examples
    --------
    >>> cell_name("indian-pines", "rank-1", 10, "none", "blocks")
    'indian-pines_rank-1_10_none_blocks'
    """
    extra = "" if sampling == "random" else f"_{sampling}"
    return f"{scene}_{model}_{samples}_{noise}{extra}"


def check_choice(what: str, name: str, known: Sequence[str]) -> None:
    """Refuse a name that is not known, and list those that are."""
    if name not in known:
        raise InputError(f"{name!r} is no known {what}; known are {', '.join(known)}")


def plan_runs(
    scenes: Sequence[str],
    models: Sequence[str],
    samples_per_class: Sequence[int],
    noises: Sequence[str],
    runs: int,
    epochs: int,
    samplings: Sequence[str] = ("random",),
) -> list[Protocol]:
    """Return the runs of a table, cell by cell, the seeds of a cell together.

    Parameters
    ----------
    scenes, models, noises, samplings : sequence of str
    samples_per_class : sequence of int
    runs, epochs : int

    Examples
    --------
    >>> plan = plan_runs(["indian-pines"], ["rank-1", "cnn"], [10], ["none"], runs=2, epochs=5)
    >>> [(p.model, p.seed) for p in plan]
    [('rank-1', 0), ('rank-1', 1), ('cnn', 0), ('cnn', 1)]
    """
    for model in models:
        check_choice("model", model, tuple(MODELS))
    for noise in noises:
        check_choice("noise", noise, NOISES)
    for sampling in samplings:
        check_choice("protocol", sampling, tuple(SAMPLINGS))
    for what, value in [("epochs", epochs), *(("samples_per_class", n) for n in samples_per_class)]:
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    if runs < 0:
        raise InputError(f"runs must not be negative, got {runs}; 0 writes the report alone")
    cells = product(scenes, samplings, noises, samples_per_class, models)
    return [
        Protocol(scene, model, n, noise, epochs, seed, sampling=sampling)
        for scene, sampling, noise, n, model in cells
        for seed in range(runs)
    ]
