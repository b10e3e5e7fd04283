"""Records gathered by cell, and whether two cells differ.

A `Cell` names what one number of a table is made of; `Results` has the values of its runs, seed by
seed. Two cells are compared along the paper's path of tests, and seed by seed.

The paper's path: Shapiro-Wilk on both samples; if both may be normal, Levene's test and then
Student's t test (equal variances) or Welch's; otherwise the Mann-Whitney U test; all at 5 %.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

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

    def compare(self, first: Cell, second: Cell) -> Comparison | None:
        """Compare two cells along the paper's path; None below three runs each."""
        a, b = self.values(first), self.values(second)
        return compare(a, b) if min(len(a), len(b)) >= 3 else None

    def compare_paired(self, first: Cell, second: Cell) -> Paired | None:
        """Compare two cells on the seeds that both have; None below three of them."""
        a, b = self.by_seed(first), self.by_seed(second)
        seeds = sorted(a.keys() & b.keys())
        if len(seeds) < 3:
            return None
        return compare_paired([a[s] for s in seeds], [b[s] for s in seeds])

    def samples(self, scene: str) -> list[int]:
        """Return the samples per class that there are runs for; not those of a given split."""
        counts = {r.run.samples_per_class for r in self.all() if r.run.scene == scene}
        return sorted(counts - {AS_GIVEN})

    def scenes(self) -> list[str]:
        """Return the scenes that there are runs of, by name, stand-ins last."""
        names = {r.run.scene for r in self.all()}
        return sorted(names, key=lambda name: (name.startswith("standin-"), name))


@dataclass(frozen=True)
class Effect:
    """How large a difference is, with its 95 % confidence interval.

    Attributes
    ----------
    name : {"Hedges' g", "Cliff's delta"}
    value, low, high : float
        Positive if the first sample is the larger one.
    """

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Outcome of `compare`.

    Attributes
    ----------
    p : float
    path : tuple of str
        Each test made, with its p-value, the last one giving ``p``.
    test : {"Student", "Welch", "Mann-Whitney"}
    effect : Effect
    n : (int, int)
        Sizes of the samples.
    df : float or None
        Degrees of freedom; None of the Mann-Whitney test, which has none.
    """

    p: float
    path: tuple[str, ...]
    test: str
    effect: Effect
    n: tuple[int, int]
    df: float | None = None


def compare(first: ArrayLike, second: ArrayLike) -> Comparison:
    """Compare two samples of accuracies along the paper's path.

    Parameters
    ----------
    first, second : array_like, shape (n,) and (m,)
        At least three values each.

    Examples
    --------
    >>> same = compare([1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 2.9, 3.9])
    >>> same.test, same.p > 0.05
    ('Student', True)
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    path = []
    normal = True
    for name, sample in (("first", a), ("second", b)):
        if np.ptp(sample) == 0:
            path.append(f"{name} sample constant")
            normal = False
            continue
        p = float(stats.shapiro(sample).pvalue)
        path.append(f"Shapiro-Wilk {name} p={p:.3f}")
        normal &= p >= LEVEL
    if not normal:
        tied = np.ptp([*a, *b]) == 0  # ranks say nothing; scipy 1.18 gives NaN
        p = 1.0 if tied else float(stats.mannwhitneyu(a, b, alternative="two-sided").pvalue)
        path.append(f"Mann-Whitney p={p:.3g}")
        return Comparison(p, tuple(path), "Mann-Whitney", cliffs_delta(a, b), (len(a), len(b)))
    # deviations from the median (Brown-Forsythe): the paper does not name its center
    spread = float(stats.levene(a, b, center="median").pvalue)
    path.append(f"Levene p={spread:.3f}")
    test = "Student" if spread >= LEVEL else "Welch"
    outcome = stats.ttest_ind(a, b, equal_var=test == "Student")
    p = float(outcome.pvalue)
    path.append(f"{test} p={p:.3g}")
    sizes = len(a), len(b)
    return Comparison(p, tuple(path), test, hedges_g(a, b), sizes, float(outcome.df))


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
    df : int or None
        Degrees of freedom; None of Wilcoxon's test, which has none.
    """

    p: float
    test: str
    mean: float
    low: float
    high: float
    n: int
    df: int | None


def compare_paired(first: ArrayLike, second: ArrayLike) -> Paired:
    """Compare two models on the same seeds by their differences, pair by pair.

    Parameters
    ----------
    first, second : array_like, shape (n,)
        At least three pairs.

    Examples
    --------
    >>> got = compare_paired([61.0, 63.5, 66.1, 64.2], [60.0, 62.4, 65.2, 63.0])
    >>> got.test, got.df, round(got.mean, 2)
    ('paired t', 3, 1.05)
    """
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    gaps = gaps.round(9)  # equal but for rounding is equal
    n, mean = len(gaps), float(gaps.mean())
    half = float(stats.t.ppf(0.975, n - 1)) * float(gaps.std(ddof=1)) / math.sqrt(n)
    interval = mean - half, mean + half
    if np.ptp(gaps) > 0 and float(stats.shapiro(gaps).pvalue) >= LEVEL:
        p = float(stats.ttest_1samp(gaps, 0.0).pvalue)
        return Paired(p, "paired t", mean, *interval, n, n - 1)
    p = float(stats.wilcoxon(gaps).pvalue) if np.any(gaps) else 1.0
    return Paired(p, "Wilcoxon", mean, *interval, n, None)


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


def hedges_g(first: ArrayLike, second: ArrayLike) -> Effect:
    r"""Return Hedges' g, the difference in pooled deviations, free of small-sample bias.

    .. math:: g = J \frac{\bar a - \bar b}{s_p}, \qquad J = 1 - \frac{3}{4 (n + m - 2) - 1}

    The interval inverts the noncentral t distribution.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    free = n + m - 2
    pooled = math.sqrt(((n - 1) * a.var(ddof=1) + (m - 1) * b.var(ddof=1)) / free)
    if pooled == 0:
        gap = float(a.mean() - b.mean())
        edge = math.copysign(math.inf, gap) if gap else 0.0
        return Effect("Hedges' g", edge, edge, edge)
    shrink = 1 - 3 / (4 * free - 1)
    per_t = math.sqrt(1 / n + 1 / m)  # d = t * per_t
    t = float(a.mean() - b.mean()) / pooled / per_t
    low, high = (shrink * per_t * _noncentrality(t, free, tail) for tail in (0.975, 0.025))
    return Effect("Hedges' g", shrink * per_t * t, low, high)


def _noncentrality(t: float, free: int, tail: float) -> float:
    """Return the noncentrality for which ``t`` is the quantile ``tail``."""
    spread = math.sqrt(1 + t * t / (2 * free))

    def miss(center: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # far out in the tail the series fails
            below = float(stats.nct.cdf(t, free, center))
        if not math.isfinite(below):
            below = float(stats.norm.cdf((t - center) / spread))  # its large-sample form
        return below - tail

    reach = 5 * spread
    if not miss(t - reach) > 0 > miss(t + reach):
        return t + spread * float(stats.norm.ppf(1 - tail))
    return float(optimize.brentq(miss, t - reach, t + reach, xtol=1e-6))


def cliffs_delta(first: ArrayLike, second: ArrayLike) -> Effect:
    r"""Return Cliff's delta, :math:`P(a > b) - P(a < b)`, with Cliff's asymmetric interval.

    Where all values of one sample exceed all of the other, the interval is that of Feng and Cliff
    (2004).
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = len(a), len(b)
    signs = np.sign(a[:, None] - b)  # (n, m)
    d = float(signs.mean())
    z = float(stats.norm.ppf(0.975))
    if abs(d) == 1:
        small = min(n, m)
        inner = (small - z**2) / (small + z**2)
        low, high = (inner, 1.0) if d > 0 else (-1.0, -inner)
        return Effect("Cliff's delta", d, low, high)
    by_row, by_col = signs.mean(axis=1) - d, signs.mean(axis=0) - d
    raw = m**2 * (by_row**2).sum() + n**2 * (by_col**2).sum() - ((signs - d) ** 2).sum()
    variance = max(float(raw) / (n * m * (n - 1) * (m - 1)), (1 - d**2) / (n * m - 1))
    half = z * math.sqrt(variance) * math.sqrt((1 - d**2) ** 2 + z**2 * variance)
    below = 1 - d**2 + z**2 * variance
    low, high = ((d - d**3 + sign * half) / below for sign in (-1, 1))
    return Effect("Cliff's delta", d, max(low, -1.0), min(high, 1.0))
