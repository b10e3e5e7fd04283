"""Records gathered by cell: means, deviations, curves and comparisons."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyad.experiments.records import Record
from polyad.experiments.settings import AS_GIVEN, PAPER_LEVEL, PAPER_PROTOCOL, cell_name
from polyad.experiments.statistics import Comparison, Paired, compare, compare_paired

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (n - 1) over runs, in percent.

    Attributes
    ----------
    mean, deviation : float
        The deviation of a single run is NaN.
    runs : int
    """

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary | None:
        """Summarize ``values``; None if there are none.

        Examples
        --------
        >>> Summary.of([60.0, 62.0, 64.0])
        Summary(mean=62.0, deviation=2.0, runs=3)
        """
        if not len(values):
            return None
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return cls(float(np.mean(values)), spread, len(values))


@dataclass(frozen=True)
class Curve:
    """Mean and deviation of the accuracy over runs, by epoch; arrays of one length."""

    epochs: Floats
    mean: Floats
    deviation: Floats
    runs: int


class Results:
    """All records of a folder, asked by cell.

    A cell is (scene, model, samples per class, noise, protocol). Where there are runs of several
    lengths, the longest count; one seed counts once.

    Parameters
    ----------
    records : iterable of Record
    """

    def __init__(self, records: Iterable[Record]) -> None:
        cells: dict[str, dict[int, Record]] = defaultdict(dict)
        for record in records:
            runs = cells[record.settings.cell]
            other = runs.get(record.settings.seed)
            if other is None or other.settings.epochs <= record.settings.epochs:
                runs[record.settings.seed] = record
        self.cells = {cell: [runs[s] for s in sorted(runs)] for cell, runs in cells.items()}

    def runs(
        self,
        scene: str,
        model: str,
        samples: int,
        noise: str = "none",
        protocol: str = PAPER_PROTOCOL,
        noise_level: float = PAPER_LEVEL,
    ) -> list[Record]:
        """Return the records of a cell, by seed."""
        return self.cells.get(cell_name(scene, model, samples, noise, protocol, noise_level), [])

    def all(self) -> list[Record]:
        """Return every record that counts."""
        return [record for runs in self.cells.values() for record in runs]

    def accuracies(
        self, scene: str, model: str, samples: int, noise: str = "none", epoch: int | None = None
    ) -> list[float]:
        """Return the overall accuracy (%) of each run after ``epoch``, by default the last."""
        return list(self.by_seed(scene, model, samples, noise, epoch).values())

    def scores(
        self,
        scene: str,
        model: str,
        samples: int,
        noise: str,
        name: str,
        protocol: str = PAPER_PROTOCOL,
    ) -> list[float]:
        """Return one of the last epoch's scores of each run; accuracies in percent."""
        scale = 1.0 if name == "kappa" else 100.0
        scores = [r.final[name] for r in self.runs(scene, model, samples, noise, protocol)]
        return [scale * value for value in scores if value is not None]

    def curve(self, scene: str, model: str, samples: int, noise: str = "none") -> Curve | None:
        """Return the mean curve of a cell over the epochs that all its runs have."""
        runs = [r for r in self.runs(scene, model, samples, noise) if r.curve]
        if not runs:
            return None
        shared = set(runs[0].curve_epochs).intersection(*(r.curve_epochs for r in runs))
        epochs = sorted(shared)
        rows = []
        for record in runs:
            where = {epoch: k for k, epoch in enumerate(record.curve_epochs)}
            rows.append(record.accuracies()[[where[epoch] for epoch in epochs]])
        values = np.array(rows)  # (runs, epochs)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(epochs))
        return Curve(np.array(epochs, dtype=float), values.mean(axis=0), spread, len(values))

    def best(self, scene: str, model: str, samples: int, noise: str = "none") -> list[float]:
        """Return each run's best accuracy over the evaluated epochs: it looks at the test set."""
        runs = self.runs(scene, model, samples, noise)
        return [float(r.accuracies().max()) for r in runs if r.curve]

    def compare(
        self,
        scene: str,
        first: str,
        second: str,
        samples: int,
        noise: str = "none",
        epoch: int | None = None,
    ) -> Comparison | None:
        """Compare two models after ``epoch``, by default the last; None below three runs each."""
        a = self.accuracies(scene, first, samples, noise, epoch)
        b = self.accuracies(scene, second, samples, noise, epoch)
        return compare(a, b) if min(len(a), len(b)) >= 3 else None

    def compare_paired(
        self,
        scene: str,
        first: str,
        second: str,
        samples: int,
        noise: str = "none",
        epoch: int | None = None,
    ) -> Paired | None:
        """Compare two models on the seeds that both have; None below three of them."""
        a, b = (self.by_seed(scene, m, samples, noise, epoch) for m in (first, second))
        seeds = sorted(a.keys() & b.keys())
        if len(seeds) < 3:
            return None
        return compare_paired([a[s] for s in seeds], [b[s] for s in seeds])

    def by_seed(
        self, scene: str, model: str, samples: int, noise: str = "none", epoch: int | None = None
    ) -> dict[int, float]:
        """Return the overall accuracy (%) of each seed after ``epoch``, by default the last."""
        values = {
            r.settings.seed: 100 * float(r.final["oa"] or 0)
            if epoch is None
            else r.accuracy_at(epoch)
            for r in self.runs(scene, model, samples, noise)
        }
        return {seed: value for seed, value in values.items() if value is not None}

    def samples(self, scene: str) -> list[int]:
        """Return the samples per class that there are runs for; not those of a given split."""
        counts = {r.settings.samples_per_class for r in self.all() if r.settings.scene == scene}
        return sorted(counts - {AS_GIVEN})

    def scenes(self) -> list[str]:
        """Return the scenes that there are runs of, by name."""
        return sorted({r.settings.scene for r in self.all()}, key=_natural)


def _natural(name: str) -> tuple[bool, str]:
    """Sort real scenes before stand-ins."""
    return bool(re.match("standin-", name)), name
