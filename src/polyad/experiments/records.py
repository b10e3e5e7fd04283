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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyad import durable
from polyad.atomic import replacing
from polyad.errors import PolyadWarning
from polyad.experiments.identity import Identity
from polyad.experiments.settings import RunSettings

PER = 10_000  # accuracies of a curve are stored as integers: 6512 is 65.12 %


class BrokenRecordWarning(PolyadWarning):
    """A line of a record file could not be read and was set aside."""


@dataclass(frozen=True)
class Record:
    """Outcome of one run.

    Attributes
    ----------
    settings : RunSettings
    key : str
        Hash of the settings when it was run.
    epochs : tuple of (first, last, step)
        The epochs after which the test pixels were classified; empty for a model without epochs.
    curve : tuple of int
        Overall accuracy after each of them, in hundredths of a percent.
    scores : dict
        By epoch (as text; "50" and the last): ``oa``, ``aa``, ``kappa``, ``oa_no_overlap``.
    n_train, n_test, n_test_no_overlap, parameters : int
        Parameters as Table 2 counts them: without biases for Rank-R, with them for the others.
    seconds : dict
        ``fit`` and ``evaluate``: processor time; by the clock in records that have no ``machine``.
    versions : dict
    stored : dict
        The settings, the model's own among them, as they were hashed.
    data : Identity or None
        What the data were; records before that was noted have none.
    machine : dict or None
        Processor, instruction set and threads; records before that was noted have none.
    """

    settings: RunSettings
    key: str
    epochs: tuple[tuple[int, int, int], ...]
    curve: tuple[int, ...]
    scores: dict[str, dict[str, float | None]]
    n_train: int
    n_test: int
    n_test_no_overlap: int
    parameters: int
    seconds: dict[str, float]
    versions: dict[str, str]
    stored: dict[str, Any]
    data: Identity | None = None
    machine: dict[str, str | int] | None = None

    @property
    def final(self) -> dict[str, float | None]:
        """Scores after the last epoch."""
        return self.scores[str(self.settings.epochs)]

    @property
    def curve_epochs(self) -> list[int]:
        """The epochs of the curve, one by one."""
        return unfold(self.epochs)

    def accuracies(self) -> NDArray[np.float64]:
        """Return the curve in percent, shape (number of evaluated epochs,).

        The stored curve is rounded to 0.01 points; epochs that have scores are exact.
        """
        exact = {int(epoch): row["oa"] for epoch, row in self.scores.items()}
        pairs = zip(self.curve_epochs, self.curve, strict=True)
        return np.array([100 * (exact.get(epoch) or value / PER) for epoch, value in pairs])

    def accuracy_at(self, epoch: int) -> float | None:
        """Return the overall accuracy (%) after ``epoch``; None if it was not evaluated then.

        A model without epochs has one accuracy, whatever the epoch.
        """
        if not self.curve:
            return 100 * float(self.final["oa"] or 0.0)
        epochs = self.curve_epochs
        return float(self.accuracies()[epochs.index(epoch)]) if epoch in epochs else None

    def to_line(self) -> str:
        """Return the record as one line of JSON, without its end."""
        row: dict[str, Any] = {
            "key": self.key,
            "settings": self.stored,
            "epochs": self.epochs,
            "curve": self.curve,
            "scores": self.scores,
            "n_train": self.n_train,
            "n_test": self.n_test,
            "n_test_no_overlap": self.n_test_no_overlap,
            "parameters": self.parameters,
            "seconds": self.seconds,
            "versions": self.versions,
        }
        if self.data is not None:
            row["data"] = self.data.to_stored()
        if self.machine is not None:
            row["machine"] = self.machine
        return json.dumps(row, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Read what `to_line` wrote; raise ValueError, KeyError or TypeError if it is not whole."""
        row = json.loads(line)
        epochs = tuple((int(a), int(b), int(c)) for a, b, c in row["epochs"])
        curve = tuple(int(v) for v in row["curve"])
        if len(unfold(epochs)) != len(curve):
            raise ValueError(f"{len(curve)} accuracies for {len(unfold(epochs))} epochs")
        settings = RunSettings.from_stored(row["settings"])
        if str(settings.epochs) not in row["scores"]:
            raise ValueError(f"no scores after epoch {settings.epochs}")
        plain = ("n_train", "n_test", "n_test_no_overlap", "parameters")
        return cls(
            settings,
            str(row["key"]),
            epochs,
            curve,
            row["scores"],
            **{name: int(row[name]) for name in plain},
            seconds=row["seconds"],
            versions=row["versions"],
            stored=row["settings"],
            data=Identity.from_stored(row["data"]) if "data" in row else None,
            machine=row.get("machine"),
        )


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

    def append(self, record: Record) -> None:
        """Add one record to its cell's file; on return it is on the disk."""
        with self._locked():
            path = self.folder / f"{record.settings.cell}.jsonl"
            durable.add_line(path, record.to_line().encode())

    def load(self) -> list[Record]:
        """Return all whole records; set broken lines aside, with a warning that names each."""
        files = sorted(self.folder.glob("*.jsonl"))
        return [record for path in files for record in self._load_file(path)]

    def keys(self) -> set[str]:
        """Return the names of the runs that are there."""
        return {record.key for record in self.load()}

    def _load_file(self, path: Path) -> list[Record]:
        records, broken = [], []
        for number, line in enumerate(durable.split_lines(path.read_bytes()), start=1):
            try:
                records.append(Record.from_line(line.decode(errors="replace")))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                broken.append((number, line, f"{type(error).__name__}: {error}"))
        if broken:
            self._set_aside(path, broken)
        return records

    def _set_aside(self, path: Path, broken: list[tuple[int, bytes, str]]) -> None:
        with self._locked():
            aside = durable.set_aside(path, [line for _, line, _ in broken])
        for number, _, why in broken:
            warnings.warn(
                f"{path}, line {number} is no whole record ({why}); it was set aside in "
                f"{aside.name}, and its run will be done again",
                BrokenRecordWarning,
                stacklevel=4,
            )

    def _locked(self) -> AbstractContextManager[None]:
        """Keep other processes from rewriting these records at the same time."""
        return durable.locked(self.folder / ".lock")


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
