"""Rank-R networks against a CNN: every row of Table 3, corrected for their number.

The paper's CNN and the tuned one are compared with in tables of their own. Within a table, Holm's
correction goes over all its rows, for the unpaired tests of the paper's path and for the paired
ones alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyad.experiments import paper
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.results import Results
from polyad.experiments.settings import NOISES
from polyad.experiments.statistics import LEVEL, Comparison, Paired, holm
from polyad.experiments.tables import Cell, Table, signed

REFERENCES = ("cnn", "cnn-tuned")  # what Rank-R networks are compared with


@dataclass(frozen=True)
class Contrast:
    """One row: a Rank-R network against a CNN, on the same seeds.

    Attributes
    ----------
    model : str
    samples, epoch : int
    unpaired : Comparison
        Along the paper's path, which takes the runs for independent.
    paired : Paired
        On the differences seed by seed: both models saw the same pixels.
    p_holm, paired_p_holm : float
        Corrected over all rows of the table.
    """

    model: str
    samples: int
    epoch: int
    unpaired: Comparison
    paired: Paired
    p_holm: float
    paired_p_holm: float

    @property
    def label(self) -> str:
        """The row's name."""
        return row_label(self.model, self.samples, self.epoch)


def row_label(model: str, samples: int, epoch: int) -> str:
    """Return the name of a row of Table 3."""
    return f"{MODELS[model].title}, {samples} per class, {epoch} epochs"


def contrasts(
    results: Results,
    scene: str,
    noise: str,
    last: int,
    samples: Sequence[int],
    against: str = "cnn",
) -> list[Contrast]:
    """Return the rows that there are enough runs for: at least three seeds in common."""
    found = []
    for epoch in sorted({min(paper.EPOCHS[0], last), last}):
        for n in samples:
            for model in RANKS:
                unpaired = results.compare(scene, model, against, n, noise, epoch)
                paired = results.compare_paired(scene, model, against, n, noise, epoch)
                if unpaired is not None and paired is not None:
                    found.append((model, n, epoch, unpaired, paired))
    corrected = holm([unpaired.p for *_, unpaired, _ in found])
    paired_corrected = holm([paired.p for *_, paired in found])
    rows = zip(found, corrected, paired_corrected, strict=True)
    return [Contrast(*row, p, q) for row, p, q in rows]


def significance_table(
    results: Results,
    scene: str,
    noise: str,
    last: int,
    samples: Sequence[int] = paper.SAMPLES,
    against: str = "cnn",
) -> Table:
    """Return Table 3 of one scene: each Rank-R network against a CNN, with the path taken."""
    there = contrasts(results, scene, noise, last, samples, against)
    rows: list[tuple[str | Cell, ...]] = [_row(c, scene, noise, against) for c in there]
    done = {(c.model, c.samples, c.epoch) for c in there}
    for epoch in sorted({min(paper.EPOCHS[0], last), last}):
        for n in samples:
            for model in RANKS:
                if (model, n, epoch) not in done:
                    theirs = _theirs(scene, model, n, noise, epoch, against)
                    rows.append((row_label(model, n, epoch), "not run", theirs, *[""] * 5))
    words = "" if against == "cnn" else ", tuned"
    note = (
        "Path as in the paper: Shapiro-Wilk on both; if normal, Levene (deviations from the "
        "median), then Student or Welch; else Mann-Whitney; n and degrees of freedom (df) behind "
        "it. Models share their splits, seed by seed, so the paired test is the sharper one: t on "
        "the differences if Shapiro-Wilk finds them normal, else Wilcoxon's signed ranks. Holm's "
        "correction over all rows of this table; the better model is named where the corrected p "
        f"is below {100 * LEVEL:.0f} %. Effect and difference are positive where the Rank-R "
        "network is better, with their 95 % intervals. The runs are draws of labels on one scene: "
        "a small p says nothing of other scenes."
    )
    columns = (
        f"null hypothesis: same as CNN{words}",
        "p",
        "p in the paper",
        "p by Holm",
        "effect",
        "path",
        "difference in points, paired",
        "paired p by Holm",
    )
    suffix = ("" if noise == "none" else f"-{noise}") + ("" if against == "cnn" else "-tuned")
    title = f"Table 3: Rank-R against CNN{words}, {scene_title(scene)}, {NOISES[noise]}"
    return Table(f"table-3-{scene}{suffix}", title, columns, tuple(rows), note)


def _row(c: Contrast, scene: str, noise: str, against: str) -> tuple[str | Cell, ...]:
    effect, paired = c.unpaired.effect, c.paired
    sizes = f"n = {c.unpaired.n[0]} and {c.unpaired.n[1]}"
    if c.unpaired.df is not None:
        sizes += f", df = {c.unpaired.df:.4g}"
    df = "" if paired.df is None else f", df = {paired.df}"
    return (
        c.label,
        f"{c.unpaired.p:.3g}",
        _theirs(scene, c.model, c.samples, noise, c.epoch, against),
        f"{c.p_holm:.3g}{_better(effect.value, c.p_holm)}",
        f"{effect.name} {signed(effect.value, 2)} "
        f"[{signed(effect.low, 2)}, {signed(effect.high, 2)}]",
        "; ".join([*c.unpaired.path, sizes]),
        f"{signed(paired.mean, 2)} [{signed(paired.low, 2)}, {signed(paired.high, 2)}]",
        f"{c.paired_p_holm:.3g}{_better(paired.mean, c.paired_p_holm)} ({paired.test}, n = "
        f"{paired.n}{df})",
    )


def _better(value: float, p: float) -> str:
    return f", {'Rank-R' if value > 0 else 'CNN'} better" if p < LEVEL else ""


def _theirs(scene: str, model: str, samples: int, noise: str, epoch: int, against: str) -> str:
    p = paper.reported_p(scene, model, samples, epoch)
    return "" if p is None or noise != "none" or against != "cnn" else f"{p:.3f}"
