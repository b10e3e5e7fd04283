"""`reproduce`: from names to records, tables, figures and report.

The results are written as a Markdown page with its figures and tables beside it. Every number
comes from the records or from the paper's own tables. Remarks are written by hand, in a page of
their own.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from polyad.atomic import replacing
from polyad.errors import InputError, SceneError
from polyad.experiments import figures
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.runs import Spread, run_all
from polyad.experiments.scenes import present_scenes, scene_title
from polyad.experiments.settings import Plan
from polyad.experiments.statistics import Results
from polyad.experiments.tables import all_tables, write_tables

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
FILES = (
    "The files in `tables/` have all rows and all tables, also those of Table 3 that are not shown "
    "here."
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
        Holds ``paper.md``, ``tables``, ``figures``, ``maps`` and ``records``.
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

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON wants them."""
        return asdict(self) | {"out": str(self.out), "report": str(self.report)}

    @property
    def report(self) -> Path:
        """The report's file."""
        return self.out / "paper.md"


def reproduce(
    plan: Plan | None = None,
    *,
    out: str | os.PathLike[str] = "polyad-paper",
    jobs: int = 1,
    progress: bool = True,
    spread: Spread | None = None,
) -> Reproduction:
    """Run the paper's experiments and write the report; killed, it resumes where it stopped.

    Parameters
    ----------
    plan : Plan, optional
        The runs; by default those of the paper. A scene whose files are not on this machine is
        left out, and the report says so. With 0 runs, only the report is written, of the records
        that are there.
    out : path-like
    jobs : int
        Processes of one thread each.
    progress : bool
        Show a live line.
    spread : callable, optional
        See `polyad.experiments.runs.run_all`; `polyad.distributed.reproduce_on` has one for a
        cluster.

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
    >>> plan = Plan(["standin-tiny"], ["rank-1"], [5], ["none"], runs=1, epochs=2)
    >>> done = reproduce(plan, out=tempfile.mkdtemp(), progress=False)
    >>> done.runs_done, done.report.name
    (1, 'paper.md')
    """
    plan = Plan() if plan is None else plan
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}; 1 runs one after the other")
    present, missing = present_scenes(plan.scene)
    pending = plan.settings(present)
    if plan.runs and not present:
        raise NothingToRun(missing)
    home = Path(out)
    records, maps = RecordStore(home / "records"), MapStore(home / "maps")
    done = run_all(pending, records, maps, jobs=jobs, progress=progress, spread=spread)
    report = Report(home, plan, missing)
    write_tables(report.tables, home / "tables")
    figures.write_figures(report.figures, home / "figures")
    with replacing(home / "paper.md") as temporary:
        temporary.write_text(report.markdown(), encoding="utf-8")
    return Reproduction(home, done, len(report.results.all()), missing)


class Report:
    """Tables and figures of all results, and the page that shows them.

    Parameters
    ----------
    home : Path
        Folder of the records and of the class maps, which are held against the ground truth.
    plan : Plan
        What was asked for; scenes without runs keep their columns, with empty cells.
    missing : mapping
        Scene -> why its files are not on this machine; the others are shown.
    """

    def __init__(self, home: Path, plan: Plan, missing: Mapping[str, str]) -> None:
        self.missing, maps = missing, MapStore(home / "maps")
        self.results = results = Results(RecordStore(home / "records").load())
        shown = home.name if home.is_absolute() else str(home)
        self.command = f"{plan.command()} --out {shlex.quote(shown)}"
        self.notes = NOTES if (home / NOTES).is_file() else None
        self.scenes = [scene for scene in results.scenes() if scene in plan.scene]
        counts = Counter((r.run.scene, r.data) for r in results.all())
        self.data = [
            f"{scene_title(scene)}, {count} runs: SHA-256 of the values of the cube "
            f"{data.cube[:16]}..., of the labels {data.labels[:16]}..., {data.status}"
            for (scene, data), count in counts.items()
            if data is not None and scene in self.scenes
        ]
        self.tables = all_tables(results, plan, missing)
        present = [scene for scene in plan.scene if scene not in missing]
        self.figures = figures.scenes_figure(present)
        self.figures |= figures.paper_figures(results, self.scenes, plan.samples_per_class)
        for scene in present:
            first = plan.samples_per_class[0]
            self.figures |= figures.errors_figure(results, scene, maps, first)

    def markdown(self) -> str:
        """Return the page; it expects ``figures/*.png`` beside it."""
        made = f"Made by `{self.command}` from the records beside this page (`records/`)."
        lines = [f"# {TITLE}", "", made, ""]
        if self.missing:
            names = " and ".join(map(scene_title, self.missing))
            fetch = " and ".join(f"`polyad fetch {scene}`" for scene in self.missing)
            lines += [f"**{names} wait for their files:** {fetch}, then the same command.", ""]
        if self.notes is not None:
            lines += [f"Remarks are written by hand in [{self.notes}]({self.notes}).", ""]
        lines += [METHOD, "", *(f"- {line}" for line in self.data), "", "## Figures", ""]
        for name, (title, _) in self.figures.items():
            lines += [f"![{title.partition('. ')[0]}](figures/{name}.png)", "", f"*{title}*", ""]
        lines += ["## Tables", "", FILES, ""]
        for table in self.tables:
            if table.shown != 0:
                note = [table.note, ""] if table.note else []
                lines += [f"### {table.title}", "", *note, table.markdown(table.shown), ""]
        return "\n".join(lines)
