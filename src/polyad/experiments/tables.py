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
from polyad.experiments.statistics import (
    LEVEL,
    Cell,
    Results,
    Summary,
    compare,
    compare_paired,
    holm,
)
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.learn.sampling import BLOCK_SIDE
from polyad.text import csv_text

REFERENCES = ("cnn", "cnn-tuned")  # what Rank-R networks are compared with
FAR = tuple(name for name in RUN_PROTOCOLS if name != PAPER_PROTOCOL)  # not in the paper
MISSING, NOT_RUN = "\N{EN DASH}", "not run"


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
    full : int
        Runs of a full cell; an entry with fewer says so.
    digits : int
    """

    ours: Summary | None
    theirs: paper.Reported | None = None
    absent: str = NOT_RUN
    full: int = paper.RUNS
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's, in the paper's standard deviations."""
        if self.ours is None or self.theirs is None or self.theirs.deviation == 0:
            return None
        return (self.ours.mean - self.theirs.mean) / self.theirs.deviation

    def text(self) -> str:
        """Return the entry as text: ours, then the paper's and the difference in brackets."""
        text = self.absent
        if self.ours is not None:
            text = f"{self.ours.mean:.{self.digits}f}"
            if not math.isnan(self.ours.deviation):
                text += f" ± {self.ours.deviation:.{self.digits}f}"
            if self.ours.runs < self.full:
                text += f", {self.ours.runs} run{'s' if self.ours.runs > 1 else ''}"
        if self.theirs is None:
            return text
        gap = "" if self.difference is None else f", {signed(self.difference, 1)} sd"
        return f"{text} (paper {self.theirs.mean:.2f} ± {self.theirs.deviation:.2f}{gap})"

    def fields(self) -> list[str]:
        """Return ours (mean, deviation, runs), the paper's (mean, deviation) and the difference."""
        ours = ["", "", "0"]
        if self.ours is not None:
            ours = [f"{self.ours.mean:.4f}", f"{self.ours.deviation:.4f}", str(self.ours.runs)]
        theirs = ["", ""] if self.theirs is None else [f"{v:.2f}" for v in self.theirs]
        return [*ours, *theirs, "" if self.difference is None else f"{self.difference:.3f}"]


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
    shown : int or None
        How many of the first rows stand on the page; None: all. The files have all.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    shown: int | None = None

    def texts(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[c.text() if isinstance(c, Entry) else c for c in row] for row in self.rows]

    def markdown(self, shown: int | None = None) -> str:
        """Return the table, or its first rows, as Markdown, without title and note."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self.texts()[:shown]]
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
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


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
    Column("best epoch", {"score": "best"}, absent=MISSING),
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
    results: Results, rows: Mapping[str, Cell], columns: Sequence[Column], runs: int
) -> tuple[TableRow, ...]:
    """Return the rows of a table whose entries are cells; rows without a single run are left out.

    Parameters
    ----------
    results : Results
    rows : mapping
        Name of a row -> its cell.
    columns : sequence of Column
    runs : int
        Of a full cell.
    """
    found: list[TableRow] = []
    for label, row in rows.items():
        values = [results.values(row._replace(**column.where)) for column in columns]
        if any(v for v, column in zip(values, columns, strict=True) if not column.aside):
            entries = (
                Entry(Summary.of(v), None, column.absent, runs, column.digits)
                for v, column in zip(values, columns, strict=True)
            )
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
    shown = [m for m in MODELS if m in paper.PAPER_MODELS or any(r.run.model == m for r in done)]
    rows: list[TableRow] = []
    note = "Overall accuracy in %."
    for epoch in sorted({min(paper.EPOCHS[0], last), last}):
        for model in shown:
            if MODELS[model].iterative or epoch == last:
                entries = []
                for scene in scenes:
                    cell = Cell(scene, model, samples, noise, epoch)
                    summary, theirs = Summary.of(results.values(cell)), paper.reported(*cell[:5])
                    absent = MISSING if scene in missing else NOT_RUN
                    entries.append(Entry(summary, theirs, absent, runs))
                    if theirs and not note.endswith("deviations."):
                        note += " sd: the paper's standard deviations."
                label = MODELS[model].title + f", {epoch} epochs" * MODELS[model].iterative
                rows.append((label, *entries))
    number = 1 if noise == "none" else 4
    source = {"pixel": " (the paper's text)", "band-offset": " (the paper's code)"}.get(noise, "")
    extra = " (the paper has no such table)" * (samples != paper.SAMPLES[0])
    return Table(
        f"table-{number}-{noise}-{samples}",
        f"Table {number}: {NOISES[noise]}{source}, {samples} samples per class{extra}",
        ("", *map(scene_title, scenes)),
        tuple(rows),
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
    noisy = {
        label: cell for label, cell in rows.items() if len(levels) > 1 and cell.noise != "none"
    }
    declared: dict[str, tuple[str, Mapping[str, Cell], Sequence[Column], str]] = {
        "scores": ("What the paper does not show", rows, SCORES, SCORES_NOTE),
        "protocols": ("Every protocol side by side", rows, PROTOCOLS, PROTOCOLS_NOTE),
        "noise-levels": ("Noise levels", noisy, by_level, LEVELS_NOTE),
        "fixed": ("Splits made by others", given, FIXED, FIXED_NOTE),
    }
    return [
        Table(
            f"{name}-{scene}",
            f"{title}, {scene_title(scene)}",
            ("", *(column.title for column in columns)),
            entries,
            note,
        )
        for name, (title, cells, columns, note) in declared.items()
        if (entries := grid(results, cells, columns, runs))
    ]


# --- tables of other kinds -----------------------------------------------------------------------


def parameter_table(scenes: Sequence[str]) -> Table:
    """Return Table 2: trainable parameters by formula, and as the paper prints them."""

    def text(scene: str, model: str) -> str:
        if scene not in KNOWN_SCENES:
            return ""
        row, printed = KNOWN_SCENES[scene], paper.reported_parameters(scene, model)
        count = expected_parameters(model, row.shape[2], len(row.class_names))
        return f"{count:,}" + ("" if printed is None else f" (paper ~{printed}K)")

    rows = tuple(
        (MODELS[model].title, *(text(scene, model) for scene in scenes))
        for model in paper.PAPER_MODELS
    )
    note = "Without biases for the Rank-R networks and with them for the CNN, as the paper counts."
    columns = ("", *map(scene_title, scenes))
    return Table("table-2", "Table 2: trainable parameters", columns, rows, note)


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
    for both tests alike. Cells with fewer than three seeds in common are not compared. The page
    shows the rows of the first ``samples``, and none for noise that is a band offset: it changes
    nothing.
    """
    epochs = sorted({min(paper.EPOCHS[0], last), last})
    cells = [Cell(scene, m, n, noise, epoch) for n in samples for epoch in epochs for m in RANKS]
    done = {}
    for cell in cells:
        a, b = (results.by_seed(c) for c in (cell, cell._replace(model=against)))
        if len(shared := sorted(a.keys() & b.keys())) >= 3:
            paired = compare_paired([a[s] for s in shared], [b[s] for s in shared])
            done[cell] = compare([*a.values()], [*b.values()]), paired
    p_unpaired = dict(zip(done, holm([test.p for test, _ in done.values()]), strict=True))
    p_paired = dict(zip(done, holm([test.p for _, test in done.values()]), strict=True))

    def better(sign: float, p: float) -> str:
        return f", {'Rank-R' if sign > 0 else 'CNN'} better" if p < LEVEL else ""

    rows: list[TableRow] = []
    for cell in cells:
        label = f"{MODELS[cell.model].title}, {cell.samples} per class, {cell.epoch} epochs"
        p = paper.reported_p(scene, cell.model, cell.samples, cell.epoch)
        theirs = "" if p is None or noise != "none" or against != "cnn" else f"{p:.3f}"
        if cell not in done:
            rows.append((label, NOT_RUN, theirs, *[""] * 4))
            continue
        unpaired, paired = done[cell]
        mean, low, high = (signed(v, 2) for v in (paired.mean, paired.low, paired.high))
        rows.append(
            (
                label,
                f"{unpaired.p:.3g}",
                theirs,
                f"{p_unpaired[cell]:.3g}{better(unpaired.sign, p_unpaired[cell])}",
                "; ".join(unpaired.path),
                f"{mean} [{low}, {high}]",
                f"{p_paired[cell]:.3g}{better(paired.mean, p_paired[cell])} "
                f"({paired.test}, {paired.n} pairs)",
            )
        )
    tuned = "" if against == "cnn" else ", tuned"
    note = (
        "Path as in the paper: Shapiro-Wilk on both; if normal, Levene (deviations from the "
        "median), then Student or Welch; else Mann-Whitney. The paired test, on the differences of "
        "runs with one seed, is the sharper one: t if Shapiro-Wilk finds them normal, else "
        "Wilcoxon's signed ranks; with a 95 % interval. Holm's correction over all samples per "
        f"class; the better model is named where the corrected p is below {100 * LEVEL:.0f} %. "
        "The runs are draws of labels on one scene: a small p says nothing of other scenes."
    )
    columns = (
        f"null hypothesis: same as CNN{tuned}",
        "p",
        "p in the paper",
        "p by Holm",
        "path",
        "difference in points, paired",
        "paired p by Holm",
    )
    suffix = ("" if noise == "none" else f"-{noise}") + ("-tuned" if tuned else "")
    title = f"Table 3: Rank-R against CNN{tuned}, {scene_title(scene)}, {NOISES[noise]}"
    shown = 0 if noise == "band-offset" else len(epochs) * len(RANKS)
    return Table(f"table-3-{scene}{suffix}", title, columns, tuple(rows), note, shown)


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
    scenes, samples, runs = plan.scene, plan.samples_per_class, plan.full
    tables = [
        accuracy_table(results, scenes, noise, n, missing, runs)
        for noise, n in product(plan.noise, samples)
    ]
    tables.append(parameter_table(scenes))
    for scene in [scene for scene in results.scenes() if scene in scenes]:
        last = max(r.run.epochs for r in results.all() if r.run.scene == scene)
        for noise, against in product(NOISES, REFERENCES):
            run = any(results.runs(Cell(scene, against, n, noise)) for n in samples)
            if (noise, against) == ("none", "cnn") or (noise in plan.noise and run):
                tables.append(significance_table(results, scene, noise, last, samples, against))
        tables += scene_tables(results, scene, runs)
    return tables
