"""The tables: what stands in each, declared over cells, and how they are written.

Most tables are a grid: a row and a column together name a `Cell`, and the entry is the mean and the
deviation of its runs, the paper's beside it where it has one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from polyad.atomic import replacing
from polyad.experiments import paper
from polyad.experiments.scenes import scene_title
from polyad.experiments.settings import (
    AS_GIVEN,
    MODELS,
    NOISES,
    PAPER_LEVEL,
    PAPER_PROTOCOL,
    RANKS,
    RUN_PROTOCOLS,
    Plan,
)
from polyad.experiments.statistics import LEVEL, Cell, Comparison, Paired, Results, Summary, holm
from polyad.scene.assess.pages import render
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.learn.sampling import BLOCK_SIDE
from polyad.text import csv_text

REFERENCES = ("cnn", "cnn-tuned")  # what Rank-R networks are compared with
FURTHER = tuple(model for model in MODELS if model not in paper.PAPER_MODELS)
FAR = tuple(name for name in RUN_PROTOCOLS if name != PAPER_PROTOCOL)  # not in the paper
MISSING, NOT_RUN = "missing scene", "not run"
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Entry:
    """Our value and the paper's.

    Attributes
    ----------
    ours : Summary or None
        None if it was not run.
    theirs : Reported or None
    absent : str
        What stands there if it was not run.
    wanted : int
        Runs of a full cell; an entry with fewer says so.
    digits : int
    """

    ours: Summary | None
    theirs: paper.Reported | None = None
    absent: str = NOT_RUN
    wanted: int = paper.RUNS
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's, in the paper's standard deviations."""
        if self.ours is None or self.theirs is None or self.theirs.deviation == 0:
            return None
        return (self.ours.mean - self.theirs.mean) / self.theirs.deviation

    def text(self) -> str:
        """Return the entry as text: ours, then the paper's and the difference in brackets."""
        if self.ours is None:
            ours = self.absent
        else:
            ours = f"{self.ours.mean:.{self.digits}f}"
            if not math.isnan(self.ours.deviation):
                ours += f" ± {self.ours.deviation:.{self.digits}f}"
            if self.ours.runs < self.wanted:
                ours += f", {self.ours.runs} run{'s' if self.ours.runs > 1 else ''}"
        if self.theirs is None:
            return ours
        text = f"paper {self.theirs.mean:.2f} ± {self.theirs.deviation:.2f}"
        if self.difference is not None:
            text += f", {signed(self.difference, 1)} sd"
        return f"{ours} ({text})"

    def fields(self) -> list[str]:
        """Return ours (mean, deviation, runs), the paper's (mean, deviation) and the difference."""
        ours = ["", "", "0"]
        if self.ours is not None:
            ours = [f"{self.ours.mean:.4f}", f"{self.ours.deviation:.4f}", str(self.ours.runs)]
        theirs = ["", ""] if self.theirs is None else [f"{v:.2f}" for v in self.theirs]
        gap = "" if self.difference is None else f"{self.difference:.3f}"
        return [*ours, *theirs, gap]


FIELDS = ("mean", "sd", "runs", "paper mean", "paper sd", "difference in paper sd")
TableRow = tuple[str | Entry, ...]


@dataclass(frozen=True)
class Table:
    """A table with a title, a note, and cells of text or numbers.

    Attributes
    ----------
    name : str
        Of its files.
    title, note : str
    columns : tuple of str
    rows : tuple of rows
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    note: str = ""

    def texts(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[c.text() if isinstance(c, Entry) else c for c in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table as Markdown, without title and note."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self.texts()]
        return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in lines)

    def csv(self) -> str:
        """Return the table as CSV, each number in a column of its own."""
        split = {k for row in self.rows for k, cell in enumerate(row) if isinstance(cell, Entry)}
        heads: list[str] = []
        for k, name in enumerate(self.columns):
            heads += [f"{name}: {field}" for field in FIELDS] if k in split else [name]
        rows = [
            [f for cell in row for f in (cell.fields() if isinstance(cell, Entry) else [cell])]
            for row in self.rows
        ]
        return csv_text([heads, *rows])

    def html(self) -> str:
        """Return the table as HTML; all text is escaped."""
        return render("table.html", "polyad.experiments", table=self)


def write_tables(tables: Sequence[Table], folder: str | os.PathLike[str]) -> None:
    """Write each table as ``.md`` and ``.csv``."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for table in tables:
        whole = f"**{table.title}.** {table.note}\n\n{table.markdown()}\n"
        for ending, text in (("md", whole), ("csv", table.csv())):
            with replacing(home / f"{table.name}.{ending}") as temporary:
                temporary.write_text(text, encoding="utf-8")


def signed(value: float, digits: int) -> str:
    """Return a number with its sign.

    Examples
    --------
    >>> signed(1.25, 1), signed(0.0, 2)
    ('+1.2', '+0.00')
    """
    return f"{value:+.{digits}f}".replace("-", _MINUS)


# --- grids of cells ------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a grid.

    Attributes
    ----------
    title : str
    where : mapping
        Fields of `Cell` that are the column's, the others being the row's.
    digits : int
    absent : str
        What stands in a cell that was not run.
    aside : bool
        Whether it only stands beside others, so that a row with this alone is left out.
    """

    title: str
    where: Mapping[str, Any]
    digits: int = 2
    absent: str = NOT_RUN
    aside: bool = False


SCORES = (
    Column("overall accuracy", {"score": "oa"}),
    Column("best epoch", {"score": "best"}, absent="has no epochs"),
    Column("no overlap", {"score": "oa_no_overlap"}),
    Column("average accuracy", {"score": "aa"}),
    Column("kappa", {"score": "kappa"}, digits=3),
)
SCORES_NOTE = (
    "After the last epoch. Best: the best of the evaluated epochs, chosen by looking at the test "
    "pixels, as the published code prints it. No overlap: test pixels whose window shares no pixel "
    "with any training window."
)
PROTOCOLS = (
    Column(PAPER_PROTOCOL, {}, aside=True),
    Column("no overlap", {"score": "oa_no_overlap"}, aside=True),
    *(Column(name.replace("-", " "), {"protocol": name}) for name in FAR),
)
PROTOCOLS_NOTE = (
    "Overall accuracy in % after the last epoch. No overlap: test pixels of the random draw whose "
    "window shares no pixel with a training window. Other fields: one field of each class trains, "
    "its other fields test; classes with a single field are left out. Blocks: squares of "
    f"{BLOCK_SIDE} x {BLOCK_SIDE} pixels train or test, no window in common; a class too "
    "small to lie in both is not tested. Runs of the last two are added by "
    f"--protocol {' '.join(FAR)}."
)
LEVELS_NOTE = (
    "Overall accuracy in % after the last epoch. Level: standard deviation of the noise as a share "
    "of each band's maximum."
)
FIXED = (SCORES[0], *SCORES[3:], SCORES[2])
FIXED_NOTE = (
    "After the last epoch, on the training and test pixels of the rasters given by --train and "
    "--test, with their numbers; the digits of a split's name are the sum of both. Runs differ in "
    "their starts alone, and their deviation says nothing of other splits. No overlap: test pixels "
    "whose window shares no pixel with a training window."
)


def grid(
    results: Results,
    rows: Mapping[str, Cell],
    columns: Sequence[Column],
    runs: int,
    missing: Collection[str] = (),
    keep: bool = False,
) -> tuple[TableRow, ...]:
    """Return the rows of a table whose entries are cells.

    Parameters
    ----------
    results : Results
    rows : mapping
        Name of a row -> its cell.
    columns : sequence of Column
    runs : int
        Of a full cell.
    missing : collection of str
        Scenes that are not on the machine; their entries say so.
    keep : bool
        Keep rows without a single run.
    """
    found: list[TableRow] = []
    for label, row in rows.items():
        cells = [row._replace(**column.where) for column in columns]
        values = [results.values(cell) for cell in cells]
        if keep or any(v for v, column in zip(values, columns, strict=True) if not column.aside):
            entries = [
                Entry(
                    Summary.of(v),
                    paper.reported(*cell[:5]) if keep else None,
                    MISSING if cell.scene in missing else column.absent,
                    runs,
                    column.digits,
                )
                for v, cell, column in zip(values, cells, columns, strict=True)
            ]
            found.append((label, *entries))
    return tuple(found)


def accuracy_table(
    results: Results,
    scenes: Sequence[str],
    noise: str,
    samples: int,
    missing: Collection[str] = (),
    runs: int = paper.RUNS,
) -> Table:
    """Return accuracies after 50 epochs and after the last, as the paper's Tables 1 and 4.

    Models that the paper does not have are further rows, where they were run.
    """
    done = [r for s, m in product(scenes, MODELS) for r in results.runs(Cell(s, m, samples, noise))]
    epochs = [r.run.epochs for r in done if r.run.model in paper.PAPER_MODELS]
    last = max(epochs, default=paper.EPOCHS[-1])
    shown = [*paper.PAPER_MODELS, *(m for m in FURTHER if any(r.run.model == m for r in done))]
    rows = {
        MODELS[model].title + f", {epoch} epochs" * MODELS[model].iterative: Cell(
            "", model, samples, noise, epoch
        )
        for epoch in sorted({min(paper.EPOCHS[0], last), last})
        for model in shown
        if MODELS[model].iterative or epoch == last
    }
    columns = [Column(scene_title(scene), {"scene": scene}) for scene in scenes]
    entries = grid(results, rows, columns, runs, missing, keep=True)
    number = 1 if noise == "none" else 4
    source = {"pixel": " (the paper's text)", "band-offset": " (the paper's code)"}.get(noise, "")
    extra = " (the paper has no such table)" * (samples != paper.SAMPLES[0])
    note = "Overall accuracy in %."
    if any(isinstance(entry, Entry) and entry.theirs for row in entries for entry in row):
        note += " sd: the paper's standard deviations."
    return Table(
        f"table-{number}-{noise}-{samples}",
        f"Table {number}: {NOISES[noise]}{source}, {samples} samples per class{extra}",
        ("", *(column.title for column in columns)),
        entries,
        note,
    )


def scene_tables(results: Results, scene: str, runs: int = paper.RUNS) -> list[Table]:
    """Return what the paper does not show of a scene.

    Other scores, other protocols, other levels of noise and published splits, where they were run.
    """
    every = [r for r in results.all() if r.run.scene == scene]
    levels = {r.run.noise_level for r in every} | {PAPER_LEVEL}
    by_level = [Column("no noise", {"noise": "none"}, aside=True)] + [
        Column(f"{100 * level:g} %", {"level": level}) for level in sorted(levels)
    ]
    sizes = {
        r.run.protocol: f"{r.n_train:,} and {r.n_test:,}"
        for r in every
        if r.run.samples_per_class == AS_GIVEN
    }
    given = {
        f"{MODELS[model].title}, {split}, {NOISES[noise]} ({sizes[split]} pixels)": Cell(
            scene, model, AS_GIVEN, noise, protocol=split
        )
        for split, noise, model in product(sorted(sizes), NOISES, MODELS)
    }
    rows = {
        f"{MODELS[model].title}, {n} per class, {NOISES[noise]}": Cell(scene, model, n, noise)
        for noise, n, model in product(NOISES, results.samples(scene), MODELS)
    }
    several = len(levels) > 1
    noisy = {label: cell for label, cell in rows.items() if several and cell.noise != "none"}
    declared: list[tuple[str, str, Mapping[str, Cell], Sequence[Column], str]] = [
        ("scores", "What the paper does not show", rows, SCORES, SCORES_NOTE),
        ("protocols", "Every protocol side by side", rows, PROTOCOLS, PROTOCOLS_NOTE),
        (
            "noise-levels",
            "Noise levels",
            noisy if levels > {PAPER_LEVEL} else {},
            by_level,
            LEVELS_NOTE,
        ),
        ("fixed", "Splits made by others", given, FIXED, FIXED_NOTE),
    ]
    return [
        Table(
            f"{name}-{scene}",
            f"{title}, {scene_title(scene)}",
            ("", *(column.title for column in columns)),
            entries,
            note,
        )
        for name, title, cells, columns, note in declared
        if (entries := grid(results, cells, columns, runs))
    ]


# --- tables of other kinds -----------------------------------------------------------------------


def parameter_table(scenes: Sequence[str]) -> Table:
    """Return Table 2: trainable parameters by formula, and as the paper prints them."""
    rows = []
    for model in paper.PAPER_MODELS:
        texts = [MODELS[model].title]
        for scene in scenes:
            text = ""
            if scene in KNOWN_SCENES:
                known = KNOWN_SCENES[scene]
                text = f"{expected_parameters(model, known.shape[2], len(known.class_names)):,}"
                printed = paper.reported_parameters(scene, model)
                text += "" if printed is None else f" (paper ~{printed}K)"
            texts.append(text)
        rows.append(tuple(texts))
    note = "Without biases for the Rank-R networks and with them for the CNN, as the paper counts."
    columns = ("", *map(scene_title, scenes))
    return Table("table-2", "Table 2: trainable parameters", columns, tuple(rows), note)


def expected_parameters(model: str, bands: int, classes: int, window: int = 5) -> int:
    """Return the parameters of a model, by the paper's formula.

    Examples
    --------
    >>> expected_parameters("rank-1", 200, 16), expected_parameters("cnn", 103, 9)
    (16950, 567759)
    """
    if model == "cnn":
        left = (window - 4) ** 2
        first, second = 9 * bands * 150 + 150, 9 * 150 * 300 + 300
        return first + second + (300 * left + 1) * 75 + 76 * classes
    rank = int(MODELS[model].settings["rank"])
    return rank * 75 * (2 * window + bands) + 75 * classes


def significance_table(
    results: Results,
    scene: str,
    noise: str,
    last: int,
    samples: Sequence[int] = paper.SAMPLES,
    against: str = "cnn",
) -> Table:
    """Return Table 3 of one scene: each Rank-R network against a CNN, with the path taken.

    Both models saw the same pixels, seed by seed, so there is a paired test beside the paper's
    path, which takes the runs for independent. Holm's correction goes over all rows of the table,
    for both tests alike. Rows with fewer than three seeds in common come last.
    """
    epochs = sorted({min(paper.EPOCHS[0], last), last})
    asked = [Cell(scene, m, n, noise, epoch) for epoch in epochs for n in samples for m in RANKS]
    done: dict[Cell, tuple[Comparison, Paired]] = {}
    for cell in asked:
        unpaired = results.compare(cell, cell._replace(model=against))
        paired = results.compare_paired(cell, cell._replace(model=against))
        if unpaired is not None and paired is not None:
            done[cell] = unpaired, paired
    corrected = holm([unpaired.p for unpaired, _ in done.values()])
    paired_corrected = holm([paired.p for _, paired in done.values()])
    rows: list[TableRow] = [
        _significance_row(cell, against, *tests, *p)
        for (cell, tests), *p in zip(done.items(), corrected, paired_corrected, strict=True)
    ]
    rows += [
        (_label(cell), NOT_RUN, _theirs(cell, against), *[""] * 5)
        for cell in asked
        if cell not in done
    ]
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


def _significance_row(
    cell: Cell, against: str, unpaired: Comparison, paired: Paired, p: float, paired_p: float
) -> TableRow:
    effect = unpaired.effect
    sizes = f"n = {unpaired.n[0]} and {unpaired.n[1]}"
    if unpaired.df is not None:
        sizes += f", df = {unpaired.df:.4g}"
    df = "" if paired.df is None else f", df = {paired.df}"
    return (
        _label(cell),
        f"{unpaired.p:.3g}",
        _theirs(cell, against),
        f"{p:.3g}{_better(effect.value, p)}",
        f"{effect.name} {_interval(effect.value, effect.low, effect.high)}",
        "; ".join([*unpaired.path, sizes]),
        _interval(paired.mean, paired.low, paired.high),
        f"{paired_p:.3g}{_better(paired.mean, paired_p)} ({paired.test}, n = {paired.n}{df})",
    )


def _label(cell: Cell) -> str:
    return f"{MODELS[cell.model].title}, {cell.samples} per class, {cell.epoch} epochs"


def _interval(value: float, low: float, high: float) -> str:
    return f"{signed(value, 2)} [{signed(low, 2)}, {signed(high, 2)}]"


def _better(value: float, p: float) -> str:
    return f", {'Rank-R' if value > 0 else 'CNN'} better" if p < LEVEL else ""


def _theirs(cell: Cell, against: str) -> str:
    p = paper.reported_p(cell.scene, cell.model, cell.samples, cell.epoch)
    return "" if p is None or cell.noise != "none" or against != "cnn" else f"{p:.3f}"


def all_tables(results: Results, plan: Plan, missing: Collection[str]) -> list[Table]:
    """Return every table of the report, in its order.

    Parameters
    ----------
    results : Results
    plan : Plan
        What was asked for; scenes without runs keep their columns, with empty cells.
    missing : collection of str
        Scenes that are not on the machine.
    """
    scenes, samples, runs = plan.scenes, plan.samples_per_class, plan.full
    tables = [
        accuracy_table(results, scenes, noise, n, missing, runs)
        for noise, n in product(plan.noises, samples)
    ]
    tables.append(parameter_table(scenes))
    for scene in [scene for scene in results.scenes() if scene in scenes]:
        last = max(r.run.epochs for r in results.all() if r.run.scene == scene)
        for noise, against in product(NOISES, REFERENCES):
            run = any(results.runs(Cell(scene, against, n, noise)) for n in samples)
            if (noise, against) == ("none", "cnn") or (noise in plan.noises and run):
                tables.append(significance_table(results, scene, noise, last, samples, against))
        tables += scene_tables(results, scene, runs)
    return tables
