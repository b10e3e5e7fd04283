"""One JSON line per run, whole or absent: what was asked, and what came out.

The runs of one cell share a file ``<cell>.jsonl``. It is written beside its place and renamed, so
that a process killed at any moment leaves either the old lines or the old lines and the new one.
A line that cannot be read (a hand's edit, a bad disk) is reported with its number and set aside in
``<cell>.jsonl.broken``; its run is then simply done again. While a file is written, ``.lock`` in
its folder keeps other processes from writing; a killed process leaves it behind, unlocked.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from polyad import durable
from polyad.atomic import replacing
from polyad.codec import Fixed, Record, Row
from polyad.errors import PolyadWarning
from polyad.experiments.scenes import Identity
from polyad.experiments.settings import RunSettings

PER = 10_000  # accuracies of a curve are stored as integers: 6512 is 65.12 %


class BrokenRecordWarning(PolyadWarning):
    """A line of a record file could not be read and was set aside."""


class RunScores(Record):
    """Overall accuracy, average accuracy, kappa, and accuracy without overlap, as shares of 1."""

    oa: float
    aa: float
    kappa: float
    oa_no_overlap: float | None


class RunRecord(Record):
    """Outcome of one run.

    Attributes
    ----------
    key : str
        Hash of the settings when it was run.
    settings : dict
        The settings, the model's own among them, as they were hashed; `run` has them as an object.
    epochs : tuple of (first, last, step)
        The epochs after which the test pixels were classified; empty for a model without epochs.
    curve : tuple of int
        Overall accuracy after each of them, in hundredths of a percent.
    scores : dict of str to RunScores
        By epoch (as text): "50" and the last.
    n_train, n_test, n_test_no_overlap, parameters : int
        Parameters as Table 2 counts them: without biases for Rank-R, with them for the others.
    seconds : dict
        ``fit`` and ``evaluate``: processor time; by the clock in records that have no ``machine``.
    versions : dict
    data : Identity or None
        What the data were; records before that was noted have none.
    machine : dict or None
        Processor, instruction set and threads; records before that was noted have none.
    """

    key: str
    settings: dict[str, Any]
    epochs: Row[Annotated[tuple[int, int, int], Fixed]]
    curve: Row[int]
    scores: dict[str, RunScores]
    n_train: int
    n_test: int
    n_test_no_overlap: int
    parameters: int
    seconds: dict[str, float]
    versions: dict[str, str]
    data: Identity | None = None
    machine: dict[str, str | int] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            last = str(self.run.epochs)
        except TypeError as error:
            raise ValueError(f"settings must be those of a run, got {error}") from None
        if len(self.curve_epochs) != len(self.curve):
            raise ValueError(
                f"curve must have an accuracy for each of {len(self.curve_epochs)} epochs, got "
                f"{len(self.curve)}"
            )
        if last not in self.scores:
            raise ValueError(f"scores must have the epoch {last}, got {', '.join(self.scores)}")
        return self

    @cached_property
    def run(self) -> RunSettings:
        """What was asked for."""
        return RunSettings.from_stored(self.settings)

    @property
    def final(self) -> RunScores:
        """Scores after the last epoch."""
        return self.scores[str(self.run.epochs)]

    @property
    def curve_epochs(self) -> list[int]:
        """The epochs of the curve, one by one."""
        return unfold(self.epochs)

    def accuracies(self) -> NDArray[np.float64]:
        """Return the curve in percent, shape (number of evaluated epochs,).

        The stored curve is rounded to 0.01 points; epochs that have scores are exact.
        """
        exact = {int(epoch): row.oa for epoch, row in self.scores.items()}
        pairs = zip(self.curve_epochs, self.curve, strict=True)
        return np.array([100 * (exact.get(epoch) or value / PER) for epoch, value in pairs])

    def value(self, score: str = "oa", epoch: int | None = None) -> float | None:
        """Return a score, accuracies in percent; None where it was not measured.

        Parameters
        ----------
        score : {"oa", "aa", "kappa", "oa_no_overlap", "best"}
            ``best``: the best accuracy over the evaluated epochs, which looks at the test pixels.
        epoch : int, optional
            Overall accuracy after this epoch; by default all scores are those after the last. A
            model without epochs has one accuracy, whatever the epoch.
        """
        if score == "best":
            return float(self.accuracies().max()) if self.curve else None
        if epoch is not None and self.curve:
            epochs = self.curve_epochs
            return float(self.accuracies()[epochs.index(epoch)]) if epoch in epochs else None
        value: float | None = getattr(self.final, score)
        return value if value is None or score == "kappa" else 100 * value

    def to_line(self) -> str:
        """Return the record as one line of JSON, without its end."""
        optional = ("data", "machine")
        row = {k: v for k, v in self.to_data().items() if v is not None or k not in optional}
        return json.dumps(row, separators=(",", ":"), allow_nan=False)


def fold(epochs: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Write increasing epochs as runs of (first, last, step).

    Examples
    --------
    >>> fold([1, 2, 3, 5, 10, 15, 17])
    ((1, 3, 1), (5, 15, 5), (17, 17, 1))
    """
    runs: list[tuple[int, int, int]] = []
    left = list(epochs)
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        size = 1
        while size < len(left) and left[size] - left[size - 1] == step:
            size += 1
        if size == 2 and len(left) > 2:  # rather the start of the next run than a run of two
            size, step = 1, 1
        runs.append((left[0], left[size - 1], step))
        left = left[size:]
    return tuple(runs)


def unfold(runs: Sequence[tuple[int, int, int]]) -> list[int]:
    """Undo `fold`."""
    return [epoch for first, last, step in runs for epoch in range(first, last + 1, step)]


class RecordStore:
    """The records of a folder.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def append(self, record: RunRecord) -> None:
        """Add one record to its cell's file; on return it is on the disk."""
        with durable.locked(self.folder / ".lock"):
            path = self.folder / f"{record.run.cell}.jsonl"
            durable.add_line(path, record.to_line().encode())

    def load(self) -> list[RunRecord]:
        """Return all whole records; set broken lines aside, with a warning that names each."""
        records = []
        for path in sorted(self.folder.glob("*.jsonl")):
            broken = []
            for number, line in enumerate(durable.split_lines(path.read_bytes()), start=1):
                try:
                    text = line.decode(errors="replace")
                    records.append(RunRecord.from_json(text, "record"))
                except ValueError as error:
                    broken.append((number, line, error))
            if broken:
                with durable.locked(self.folder / ".lock"):
                    aside = durable.set_aside(path, [line for _, line, _ in broken])
            for number, _, why in broken:
                warnings.warn(
                    f"{path}, line {number} is no whole record ({why}); it was set aside in "
                    f"{aside.name}, and its run will be done again",
                    BrokenRecordWarning,
                    stacklevel=2,
                )
        return records


class MapStore:
    """Class maps in a folder, one compressed array per cell.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, cell: str, class_map: NDArray[np.uint16]) -> None:
        """Keep the map of ``cell``, shape (height, width)."""
        small = class_map.astype(np.uint8) if class_map.max(initial=0) < 256 else class_map
        with replacing(self.folder / f"{cell}.npz") as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, classes=small)

    def load(self, cell: str) -> NDArray[np.uint16] | None:
        """Return the map of ``cell``, or None if there is none."""
        path = self.folder / f"{cell}.npz"
        if not path.exists():
            return None
        with np.load(path) as stored:
            return stored["classes"].astype(np.uint16)
