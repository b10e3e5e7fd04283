"""Records gathered by cell, and whether two cells differ.

A `Cell` names what one number of a table is made of; `Results` has the values of its runs, seed by
seed. Two cells are compared along the paper's path of tests, and seed by seed.

The paper's path: Shapiro-Wilk on both samples; if both may be normal, Levene's test and then
Student's t test (equal variances) or Welch's; otherwise the Mann-Whitney U test; all at 5 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from polyad.experiments.records import RunRecord
from polyad.experiments.settings import AS_GIVEN, PAPER_LEVEL, PAPER_PROTOCOL, RunSettings

LEVEL = 0.05
Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """What one number of a table is made of.

    Attributes
    ----------
    scene, model : str
    samples : int
        Per class.
    noise : str
    epoch : int or None
        None is the last.
    protocol : str
    level : float
        Of the noise.
    score : str
        See `RunRecord.value`.
    """

    scene: str
    model: str
    samples: int
    noise: str = "none"
    epoch: int | None = None
    protocol: str = PAPER_PROTOCOL
    level: float = PAPER_LEVEL
    score: str = "oa"

    @property
    def name(self) -> str:
        """Of the files of its records and its map."""
        level, protocol = self.level, self.protocol
        return RunSettings(
            self.scene, self.model, self.samples, self.noise, noise_level=level, protocol=protocol
        ).cell


class Summary(NamedTuple):
    """Mean and standard deviation (n - 1) over runs; the deviation of a single run is NaN."""

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Summary | None:
        """Summarize ``values``; None if there are none.

        Examples
        --------
        >>> Summary.of([60.0, 62.0, 64.0])
        Summary(mean=62.0, deviation=2.0, runs=3)
        """
        found = list(values)
        if not found:
            return None
        spread = float(np.std(found, ddof=1)) if len(found) > 1 else float("nan")
        return cls(float(np.mean(found)), spread, len(found))


class Curve(NamedTuple):
    """Mean and deviation of the accuracy over runs, by epoch; arrays of one length."""

    epochs: Floats
    mean: Floats
    deviation: Floats
    runs: int


class Results:
    """All records of a folder, asked by cell.

    Where there are runs of several lengths, the longest count; one seed counts once.

    Parameters
    ----------
    records : iterable of RunRecord
    """

    def __init__(self, records: Iterable[RunRecord]) -> None:
        cells: dict[str, dict[int, RunRecord]] = defaultdict(dict)
        for record in records:
            runs, run = cells[record.run.cell], record.run
            if run.seed not in runs or runs[run.seed].run.epochs <= run.epochs:
                runs[run.seed] = record
        self.cells = {cell: [runs[s] for s in sorted(runs)] for cell, runs in cells.items()}

    def runs(self, cell: Cell) -> list[RunRecord]:
        """Return the records of a cell, by seed."""
        return self.cells.get(cell.name, [])

    def all(self) -> list[RunRecord]:
        """Return every record that counts."""
        return [record for runs in self.cells.values() for record in runs]

    def by_seed(self, cell: Cell) -> dict[int, float]:
        """Return the score of each run that has it, by seed."""
        values = {r.run.seed: r.value(cell.score, cell.epoch) for r in self.runs(cell)}
        return {seed: value for seed, value in values.items() if value is not None}

    def values(self, cell: Cell) -> list[float]:
        """Return the score of each run that has it."""
        return list(self.by_seed(cell).values())

    def curve(self, cell: Cell) -> Curve | None:
        """Return the mean curve of a cell over the epochs that all its runs have."""
        runs = [r for r in self.runs(cell) if r.curve]
        if not runs:
            return None
        epochs = sorted(set(runs[0].curve_epochs).intersection(*(r.curve_epochs for r in runs)))
        rows = [r.accuracies()[np.isin(r.curve_epochs, epochs)] for r in runs]
        values = np.array(rows)  # (runs, epochs)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(epochs))
        return Curve(np.array(epochs, dtype=float), values.mean(axis=0), spread, len(values))

    def samples(self, scene: str) -> list[int]:
        """Return the samples per class that there are runs for; not those of a given split."""
        counts = {r.run.samples_per_class for r in self.all() if r.run.scene == scene}
        return sorted(counts - {AS_GIVEN})

    def scenes(self) -> list[str]:
        """Return the scenes that there are runs of, by name, stand-ins last."""
        names = {r.run.scene for r in self.all()}
        return sorted(names, key=lambda name: (name.startswith("standin-"), name))


@dataclass(frozen=True)
class Comparison:
    """Outcome of `compare`.

    Attributes
    ----------
    p : float
    path : tuple of str
        Each test made; the last one gives ``p``.
    sign : float
        Above zero if the first sample has the larger values.
    """

    p: float
    path: tuple[str, ...]
    sign: float


def compare(first: ArrayLike, second: ArrayLike) -> Comparison:
    """Compare two samples of accuracies, of at least three values each, along the paper's path.

    Examples
    --------
    >>> compare([1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 2.9, 3.9]).path
    ('Shapiro-Wilk 0.972, 0.995', 'Levene 0.815', 'Student (df 6)')
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    # a constant sample is not normal, and scipy has no p-value for it
    normal = [float(stats.shapiro(x).pvalue) if np.ptp(x) else 0.0 for x in (a, b)]
    path = f"Shapiro-Wilk {normal[0]:.3f}, {normal[1]:.3f}"
    if min(normal) < LEVEL:
        ranked = stats.mannwhitneyu(a, b, alternative="two-sided")
        # ranks say nothing where all values are equal; scipy 1.18 gives NaN
        p = float(ranked.pvalue) if np.ptp([*a, *b]) else 1.0
        sign = float(ranked.statistic) - a.size * b.size / 2
        return Comparison(p, (path, "Mann-Whitney"), sign)
    # deviations from the median (Brown-Forsythe): the paper does not name its center
    spread = float(stats.levene(a, b, center="median").pvalue)
    outcome = stats.ttest_ind(a, b, equal_var=spread >= LEVEL)
    test = f"{'Student' if spread >= LEVEL else 'Welch'} (df {outcome.df:.4g})"
    path_taken = path, f"Levene {spread:.3f}", test
    return Comparison(float(outcome.pvalue), path_taken, float(outcome.statistic))


@dataclass(frozen=True)
class Paired:
    """Outcome of `compare_paired`.

    Attributes
    ----------
    p : float
    test : {"paired t", "Wilcoxon"}
    mean, low, high : float
        Mean difference, first minus second, and its 95 % interval by Student's t.
    n : int
        Pairs.
    """

    p: float
    test: str
    mean: float
    low: float
    high: float
    n: int


def compare_paired(first: ArrayLike, second: ArrayLike) -> Paired:
    """Compare two models on the same seeds, three or more, by their differences pair by pair.

    Examples
    --------
    >>> found = compare_paired([61.0, 63.5, 66.1, 64.2], [60.0, 62.4, 65.2, 63.0])
    >>> found.test, found.n, round(found.mean, 2)
    ('paired t', 4, 1.05)
    """
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    gaps = gaps.round(9)  # equal but for rounding is equal
    n, mean = len(gaps), float(gaps.mean())
    half = float(stats.t.ppf(0.975, n - 1)) * float(gaps.std(ddof=1)) / math.sqrt(n)
    if np.ptp(gaps) > 0 and float(stats.shapiro(gaps).pvalue) >= LEVEL:
        test, p = "paired t", float(stats.ttest_1samp(gaps, 0.0).pvalue)
    else:
        test, p = "Wilcoxon", float(stats.wilcoxon(gaps).pvalue) if np.any(gaps) else 1.0
    return Paired(p, test, mean, mean - half, mean + half, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    steps = np.arange(len(values), 0, -1) * values[order]
    corrected[order] = np.maximum.accumulate(steps.clip(max=1.0))
    return corrected.tolist()
