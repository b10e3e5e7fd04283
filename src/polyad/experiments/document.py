"""The whole story in one order, for the Markdown page and the HTML report alike.

Every number in it comes from the records or from the paper's own tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from polyad.experiments import paper
from polyad.experiments.comparisons import REFERENCES, significance_table
from polyad.experiments.data_table import data_table
from polyad.experiments.figures import paper_figures
from polyad.experiments.figures_maps import map_figures
from polyad.experiments.findings import Finding, findings
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper import PAPER_MODELS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.paper_tables import (
    MISSING,
    accuracy_table,
    fixed_table,
    noise_level_table,
    parameter_table,
    protocol_table,
    score_table,
)
from polyad.experiments.records import MapStore
from polyad.experiments.results import Results
from polyad.experiments.settings import CURRENT_NAMES, NOISES, PAPER_PROTOCOL
from polyad.experiments.tables import Table

TITLE = "The paper again: Rank-R FNN on hyperspectral scenes"

NOTES = "findings.md"  # written by hand; a page that has one beside it links to it


@dataclass(frozen=True)
class Document:
    """What is reported.

    Attributes
    ----------
    how : tuple of str
        What was done, in paragraphs.
    findings : dict of str to list of Finding
        By scene.
    tables : list of Table
    figures : dict of str to (title, Figure)
    missing : mapping of str to str
        Missing scenes, and why.
    scenes : list of str
        Scenes with results.
    notes : str or None
        Name of the page beside the report that was written by hand, if there is one.
    """

    how: tuple[str, ...]
    findings: dict[str, list[Finding]]
    tables: list[Table]
    figures: dict[str, tuple[str, Figure]]
    missing: Mapping[str, str]
    scenes: list[str]
    notes: str | None = None


def make_document(
    results: Results,
    scenes: Sequence[str],
    missing: Mapping[str, str],
    *,
    samples: Sequence[int],
    noises: Sequence[str],
    runs: int,
    notes: str | None = None,
    present: Sequence[str] = (),
    maps: MapStore | None = None,
) -> Document:
    """Build tables, figures and findings from results.

    Parameters
    ----------
    results : Results
    scenes : sequence of str
        All scenes asked for; those without runs keep their columns, with empty cells.
    missing : mapping
        Scene -> why it is missing.
    samples, noises, runs
        What was asked for.
    notes : str, optional
        Name of a page written by hand.
    present : sequence of str
        Scenes whose files are on this machine: they are shown, and their sums told.
    maps : MapStore, optional
        Class maps, which are held against the ground truth of ``present`` scenes.
    """
    tables = [coverage_table(results, scenes, samples, noises, runs, missing)]
    tables.append(data_table(results, scenes, present))
    for noise in noises:
        for n in samples:
            number = 1 if noise == "none" else 4
            tables.append(
                accuracy_table(
                    results,
                    scenes,
                    name=f"table-{number}-{noise}-{n}",
                    title=_accuracy_title(number, noise, n),
                    noise=noise,
                    samples=n,
                    missing=missing,
                    runs=runs,
                )
            )
    tables.append(parameter_table(scenes, results))
    done = [scene for scene in results.scenes() if scene in scenes]
    for scene in done:
        last = max(r.settings.epochs for r in results.all() if r.settings.scene == scene)
        tables += [
            significance_table(results, scene, noise, last, samples, against)
            for noise in NOISES
            for against in REFERENCES
            if (noise, against) == ("none", "cnn")
            or (noise in noises and any(results.runs(scene, against, n, noise) for n in samples))
        ]
        tables.append(score_table(results, scene, runs))
        if (side_by_side := protocol_table(results, scene, runs)) is not None:
            tables.append(side_by_side)
        if (by_level := noise_level_table(results, scene, runs)) is not None:
            tables.append(by_level)
        if (given := fixed_table(results, scene, runs)) is not None:
            tables.append(given)
    there = [scene for scene in scenes if scene in present]
    figures = paper_figures(results, done, samples)
    drawn = {} if maps is None else map_figures(results, there, maps, samples[0])
    first = {name: drawn.pop(name) for name in ("figure-1",) if name in drawn}
    return Document(
        tuple(_how(results)),
        {scene: findings(results, scene) for scene in done},
        tables,
        first | figures | drawn,
        missing,
        done,
        notes,
    )


def coverage_table(
    results: Results,
    scenes: Sequence[str],
    samples: Sequence[int],
    noises: Sequence[str],
    runs: int,
    missing: Mapping[str, str],
) -> Table:
    """Return how many runs there are of each cell: what is not run yet is seen at once."""
    rows: list[tuple[str, ...]] = []
    columns = [(noise, n) for noise in noises for n in samples]
    for scene in scenes:
        if scene in missing and scene not in results.scenes():
            rows.append((scene_title(scene), *[MISSING] * len(columns)))
            continue
        for model in MODELS:
            counts = [len(results.runs(scene, model, n, noise)) for noise, n in columns]
            if any(counts) or model in PAPER_MODELS:
                cells = [f"{k} of {runs}" if k else "not run" for k in counts]
                rows.append((f"{scene_title(scene)}, {MODELS[model].title}", *cells))
    heads = ("runs done", *(f"{NOISES[noise]}, {n} per class" for noise, n in columns))
    note = "Every number below comes from these runs; no cell is filled with anything else."
    return Table("coverage", "What was run", heads, tuple(rows), note)


def _accuracy_title(number: int, noise: str, samples: int) -> str:
    sources = {"pixel": " (the paper's text)", "band-offset": " (the paper's code)"}
    extra = "" if samples == paper.SAMPLES[0] else " (the paper has no such table)"
    return (
        f"Table {number}: {NOISES[noise]}{sources.get(noise, '')}, {samples} samples per "
        f"class{extra}"
    )


def _how(results: Results) -> list[str]:
    """Say what was done: the protocol, the settings of each model, the evaluated epochs."""
    runs = [r.settings for r in results.all()]
    if not runs:
        return ["Nothing was run yet."]
    drawn = [run for run in runs if run.protocol == PAPER_PROTOCOL] or runs
    windows = _either({f"{run.window} x {run.window}" for run in drawn})
    counts = _either({run.samples_per_class for run in drawn})
    border = "; pixels whose patch leaves the scene are dropped" * (drawn[0].border == "drop")
    return [
        f"Protocol of the paper: patches of {windows} pixels; {counts} random pixels of each class "
        "train (half of a class that has no more, as the paper's text has it; its published code "
        "takes 80 %), all others test; every model of one seed sees the same pixels"
        f"{border}. One epoch of a Rank-R network is one sweep over all modes and "
        "the output layer. Accuracies are those after the last epoch, never the best epoch's. "
        "Standard deviations are over runs, with n - 1.",
        "Settings of the models, as the records have them:",
        *_model_settings(results),
        *_evaluated(results),
    ]


def _either(values: set[Any]) -> str:
    return " or ".join(map(str, sorted(values)))


def _model_settings(results: Results) -> list[str]:
    """Return one line per kind of model; the ranks, which differ in their rank alone, share one."""
    lines: dict[str, None] = {}
    for model in MODELS:
        for record in results.all():
            if record.settings.model == model:
                stored = record.stored["model_settings"]
                values = [
                    f"{CURRENT_NAMES.get(name, name)} {value}"
                    for name, value in stored.items()
                    if name != "rank"
                ]
                title = "Rank-R FNN" if model in RANKS else MODELS[model].title
                lines[f"- {title}: {MODELS[model].about}; {', '.join(values)}."] = None
    return list(lines)


def _evaluated(results: Results) -> list[str]:
    """Say after which epochs the runs classified the test pixels, as their records have it."""
    labels_of: dict[str, set[str]] = {}
    for record in results.all():
        if record.epochs:
            model = record.settings.model
            title = "Rank-R FNN" if model in RANKS else MODELS[model].title
            label = f"{title}, {record.settings.samples_per_class} per class"
            labels_of.setdefault(_epochs_in_words(record.epochs), set()).add(label)
    head = ["Test pixels were classified after these epochs:"] if labels_of else []
    order = sorted(labels_of.items(), key=lambda item: min(item[1]))
    return head + [f"- {words}: {'; '.join(sorted(labels))}." for words, labels in order]


def _epochs_in_words(epochs: Sequence[tuple[int, int, int]]) -> str:
    """Return folded epochs as text.

    Examples
    --------
    >>> _epochs_in_words([(1, 100, 1), (105, 500, 5)])
    '1 to 100, 105 to 500 by 5'
    """
    return ", ".join(
        f"{first}" + f" to {last}" * (last > first) + f" by {step}" * (step > 1)
        for first, last, step in epochs
    )


def wanted_runs(runs: int) -> int:
    """Return how many runs make a full cell; a report alone is measured against the paper."""
    return runs or paper.RUNS
