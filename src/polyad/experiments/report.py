"""`reproduce`: from names to records, tables, figures and report.

The results are written as ``report.html``, one file, and as a Markdown page with its figures beside
it. Every number comes from the records or from the paper's own tables. Remarks are written by hand,
in a page of their own.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from polyad.atomic import replacing
from polyad.errors import InputError, SceneError
from polyad.experiments import paper
from polyad.experiments.figures import (
    Drawn,
    errors_figure,
    paper_figures,
    scenes_figure,
    write_figures,
)
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.runs import Spread, run_all
from polyad.experiments.scenes import load_scene, present_scenes, scene_title
from polyad.experiments.settings import (
    DEFAULT_MODELS,
    MODELS,
    NOISES,
    PAPER_LEVEL,
    PAPER_PROTOCOL,
    QUICK,
    Plan,
)
from polyad.experiments.statistics import Cell, Results
from polyad.experiments.tables import Table, all_tables, write_tables
from polyad.scene.assess.pages import PageFigure, PageImage, page_image, render
from polyad.scene.draw.color import class_picture
from polyad.scene.raster.classes import ClassInfo

TITLE = "The paper again: Rank-R FNN on hyperspectral scenes"
NOTES = "findings.md"  # written by hand; a page that has one beside it links to it
METHOD = (
    "Protocol of the paper: patches of 5 x 5 pixels; random pixels of each class train (half of a "
    "class that has no more than asked for, as the paper's text has it; its published code takes "
    "80 %), all others test; every model of one seed sees the same pixels; pixels whose patch "
    "leaves the scene are dropped. One epoch of a Rank-R network is one sweep over all modes and "
    "the output layer. Accuracies are those after the last epoch, never the best epoch's. Standard "
    "deviations are over runs, with n - 1. A cell with fewer runs than asked for says how many it "
    "has."
)


class NothingToRun(SceneError):
    """None of the scenes asked for can be run.

    Attributes
    ----------
    missing : dict of str to str
        Scenes, and why each cannot be run: which files to fetch.
    """

    def __init__(self, missing: dict[str, str]) -> None:
        super().__init__("nothing was run: " + "; ".join(missing.values()))
        self.missing = missing


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` did.

    Attributes
    ----------
    out : Path
        Holds ``report.html``, ``paper.md``, ``tables``, ``figures``, ``maps`` and ``records``.
    runs_done : int
        Runs of this call.
    runs_there : int
        Runs in the report.
    missing : dict of str to str
        Scenes that are not on this machine, and why.
    """

    out: Path
    runs_done: int
    runs_there: int
    missing: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON wants them."""
        return asdict(self) | {"out": str(self.out), "report": str(self.report)}

    @property
    def report(self) -> Path:
        """The report's file."""
        return self.out / "report.html"


def reproduce(
    scenes: Sequence[str] = paper.SCENES,
    models: Sequence[str] = DEFAULT_MODELS,
    samples_per_class: Sequence[int] = paper.SAMPLES,
    noises: Sequence[str] = tuple(NOISES),
    runs: int = paper.RUNS,
    epochs: int = paper.EPOCHS[-1],
    jobs: int = 1,
    out: str | os.PathLike[str] = "polyad-paper",
    quick: bool = False,
    progress: bool = True,
    spread: Spread | None = None,
    protocols: Sequence[str] = (PAPER_PROTOCOL,),
    rasters: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    noise_levels: Sequence[float] = (PAPER_LEVEL,),
) -> Reproduction:
    """Run the paper's experiments and write the report; killed, it resumes where it stopped.

    Parameters
    ----------
    scenes : sequence of str
        Known scenes or stand-ins. One whose files are not on this machine is left out, and the
        report says so.
    models : sequence of str
        Keys of `polyad.experiments.settings.MODELS`.
    samples_per_class : sequence of int
    noises : sequence of str
        ``none``, ``pixel`` (the paper's text), ``band-offset`` (its published code).
    runs : int
        Seeds 0, 1, ...; 0 writes the report of the records that are there.
    epochs : int
    jobs : int
        Processes of one thread each.
    out : path-like
    quick : bool
        Indian Pines, ranks 1 and 2 and the CNN, 10 samples per class, no noise, 3 runs, 50 epochs,
        whatever else is asked: a few minutes.
    progress : bool
        Show a live line.
    spread : callable, optional
        See `polyad.experiments.runs.run_all`; `polyad.distributed.reproduce_on` has one for a
        cluster.
    protocols : sequence of str
        Which pixels train and test: ``random`` (the paper), ``other-fields``, ``blocks``; see
        `polyad.scene.learn.sampling`.
    rasters : (path-like, path-like), optional
        Training and test pixels of a published split, which is then the only protocol; see
        `polyad.scene.FixedSplit`.
    noise_levels : sequence of float
        Standard deviation of the noise as a share of each band's maximum.

    Returns
    -------
    Reproduction

    Raises
    ------
    NothingToRun
        No scene is on this machine; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> done = reproduce(["standin-tiny"], ["rank-1"], [5], ["none"], runs=1, epochs=2,
    ...                  out=tempfile.mkdtemp(), progress=False)
    >>> done.runs_done, done.report.name
    (1, 'report.html')
    """
    given = None if rasters is None else (os.fspath(rasters[0]), os.fspath(rasters[1]))
    plan = Plan(
        scenes, models, samples_per_class, noises, runs, epochs, protocols, noise_levels, given
    )
    if quick:
        plan = QUICK
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}; 1 runs one after the other")
    present, missing = present_scenes(plan.scenes)
    pending = plan.settings(present)
    if plan.runs and not present:
        raise NothingToRun(missing)
    home = Path(out)
    records, maps = RecordStore(home / "records"), MapStore(home / "maps")
    done = run_all(pending, records, maps, jobs=jobs, progress=progress, spread=spread)
    results = Results(records.load())
    command = "polyad reproduce --quick" if quick else plan.command()
    shown = home.name if home.is_absolute() else str(home)
    report = Report(
        results,
        plan,
        f"{command} --out {shlex.quote(shown)}",
        missing,
        present,
        maps,
        NOTES if (home / NOTES).is_file() else None,
    )
    write_tables(report.tables, home / "tables")
    write_figures(report.figures, home / "figures")
    for name, text in (("paper.md", report.markdown()), ("report.html", report.html())):
        with replacing(home / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return Reproduction(home, done, len(results.all()), missing)


class Report:
    """Tables and figures of all results, for the Markdown page and the HTML report alike.

    Parameters
    ----------
    results : Results
    plan : Plan
        What was asked for; scenes without runs keep their columns, with empty cells.
    command : str
        What makes it.
    missing : mapping
        Scene -> why it is missing.
    present : sequence of str
        Scenes whose files are on this machine: they are shown.
    maps : MapStore
        Class maps, which are held against the ground truth of ``present`` scenes.
    notes : str, optional
        Name of the page beside the report that was written by hand.
    """

    def __init__(
        self,
        results: Results,
        plan: Plan,
        command: str,
        missing: Mapping[str, str],
        present: Sequence[str],
        maps: MapStore,
        notes: str | None = None,
    ) -> None:
        self.results, self.command, self.missing, self.notes = results, command, missing, notes
        self.maps = maps
        self.scenes = [scene for scene in results.scenes() if scene in plan.scenes]
        counts = Counter((r.run.scene, r.data) for r in results.all())
        self.data = [
            f"{scene_title(scene)}, {count} runs: SHA-256 of the values of the cube "
            f"{data.cube[:16]}..., of the labels {data.labels[:16]}..., {data.status}"
            for (scene, data), count in counts.items()
            if data is not None and scene in self.scenes
        ]
        self.tables: list[Table] = all_tables(results, plan, missing)
        shown = [scene for scene in plan.scenes if scene in present]
        first = plan.samples_per_class[0]
        self.figures: Drawn = scenes_figure(shown)
        self.figures |= paper_figures(results, self.scenes, plan.samples_per_class)
        for scene in shown:
            self.figures |= errors_figure(results, scene, maps, first)

    def markdown(self) -> str:
        """Return the page; it expects ``figures/*.png`` beside it."""
        lines = [f"# {TITLE}", ""]
        lines += [f"Made by `{self.command}` from the records beside this page (`records/`).", ""]
        if self.missing:
            names = " and ".join(map(scene_title, self.missing))
            fetch = " and ".join(f"`polyad fetch {scene}`" for scene in self.missing)
            lines += [f"**{names} wait for their files:** {fetch}, then the same command.", ""]
        if self.notes is not None:
            lines += [
                f"What follows from it is written by hand in [{self.notes}]({self.notes}).",
                "",
            ]
        lines += [METHOD, "", *(f"- {line}" for line in self.data), "", "## Figures", ""]
        for name, (title, _) in self.figures.items():
            lines += [f"![{title}](figures/{name}.png)", "", f"*{title}*", ""]
        lines += ["## Tables", ""]
        for table in self.tables:
            note = [table.note, ""] if table.note else []
            lines += [f"### {table.title}", "", *note, table.markdown(), ""]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the report as the text of one HTML page."""
        where = ", ".join(map(scene_title, self.scenes)) or "no scene yet"
        return render(
            "paper_report.html",
            "polyad.experiments",
            heading=TITLE,
            summary=f"Runs of {where}. Beside each number stands the paper's, with the difference "
            "in the paper's standard deviations.",
            report=self,
            method=METHOD,
            figures=[
                PageFigure(title.partition(". ")[0], title.partition(". ")[2], picture)
                for title, figure in self.figures.values()
                for picture in [page_image(figure, title, dpi=120)]
            ],
            galleries=[
                (scene_title(scene), *self._gallery(scene))
                for scene in self.scenes
                if scene not in self.missing
            ],
            record={"command": self.command},
            scene_title=scene_title,
        )

    def _gallery(self, scene: str) -> tuple[list[PageImage], Sequence[ClassInfo]]:
        """Return the ground truth and the map of the first run of each cell, and the classes."""
        data = load_scene(scene)
        shown = [page_image(class_picture(data.labels, data.classes), "Ground truth")]
        for noise, n, model in product(NOISES, self.results.samples(scene), MODELS):
            cell = Cell(scene, model, n, noise)
            class_map, runs = self.maps.load(cell.name), self.results.runs(cell)
            if class_map is not None and runs:
                caption = f"{MODELS[model].title}, {n} per class, {NOISES[noise]}: "
                caption += f"{100 * runs[0].final.oa:.1f} %"
                shown.append(page_image(class_picture(class_map, data.classes), caption))
        return shown, data.classes
