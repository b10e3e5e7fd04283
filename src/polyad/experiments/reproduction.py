"""`reproduce`: from names to records, tables, figures and report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polyad.errors import InputError, SceneError
from polyad.experiments import paper
from polyad.experiments.document import NOTES, make_document, wanted_runs
from polyad.experiments.figures import write_figures
from polyad.experiments.identity import base_name
from polyad.experiments.paper import PAPER_MODELS
from polyad.experiments.records import MapStore, RecordStore
from polyad.experiments.report import write_page, write_report
from polyad.experiments.results import Results
from polyad.experiments.runs import Spread, run_all
from polyad.experiments.scenes import present_scenes
from polyad.experiments.settings import NOISES, PAPER_LEVEL, PAPER_PROTOCOL, plan_runs
from polyad.experiments.tables import write_tables

# The paper's rows, and its CNN with settings that suit it: without, the comparison is not fair
DEFAULT_MODELS = (*PAPER_MODELS, "cnn-tuned")
QUICK_MODELS = ("rank-1", "rank-2", "cnn")


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
    accept: bool = False,
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
        Keys of `polyad.experiments.models.MODELS`.
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
    accept : bool
        Run a known scene also if its files have the right shape but not the sums that are known:
        saved again, say. The report then calls it an unverified copy.
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
    if quick:
        scenes, models, samples_per_class = paper.SCENES[:1], QUICK_MODELS, paper.SAMPLES[:1]
        noises, runs, epochs, protocols = ("none",), 3, paper.EPOCHS[0], (PAPER_PROTOCOL,)
        noise_levels = (PAPER_LEVEL,)
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}; 1 runs one after the other")
    given = None if rasters is None else (os.fspath(rasters[0]), os.fspath(rasters[1]))
    present, missing = present_scenes(scenes, accept)
    plan = plan_runs(
        present, models, samples_per_class, noises, runs, epochs, protocols, given, noise_levels
    )
    if runs and not present:
        raise NothingToRun(missing)
    home = Path(out)
    records, maps = RecordStore(home / "records"), MapStore(home / "maps")
    done = run_all(plan, records, maps, jobs=jobs, progress=progress, spread=spread)
    results = Results(records.load())
    document = make_document(
        results,
        shown_scenes(scenes, present, results),
        missing,
        samples=samples_per_class,
        noises=noises,
        runs=wanted_runs(runs),
        notes=NOTES if (home / NOTES).is_file() else None,
        present=present,
        maps=maps,
    )
    command = command_line(
        scenes,
        models,
        samples_per_class,
        noises,
        wanted_runs(runs),
        epochs,
        protocols,
        noise_levels,
    )
    command += " --accept" if accept else ""
    if given is not None:
        command += f" --train {shlex.quote(given[0])} --test {shlex.quote(given[1])}"
    if quick:
        command = "polyad reproduce --quick"
    shown = home.name if home.is_absolute() else str(home)
    command += f" --out {shlex.quote(shown)}"
    write_tables(document.tables, home / "tables")
    write_figures(document.figures, home / "figures")
    write_page(document, command, home / "paper.md")
    write_report(document, results, maps, command, home / "report.html")
    return Reproduction(home, done, len(results.all()), missing)


def shown_scenes(asked: Sequence[str], present: Sequence[str], results: Results) -> list[str]:
    """Return the columns of the tables: each scene asked for, and every copy of it that was run.

    A scene that is there only as an unverified copy has no column of its own.
    """
    shown: list[str] = []
    for scene in asked:
        copies = [s for s in (*present, *results.scenes()) if base_name(s) == scene != s]
        own = scene in present or scene in results.scenes() or not copies
        shown += [scene] * own + list(dict.fromkeys(copies))
    return shown


def command_line(
    scenes: Sequence[str],
    models: Sequence[str],
    samples_per_class: Sequence[int],
    noises: Sequence[str],
    runs: int,
    epochs: int,
    protocols: Sequence[str] = (PAPER_PROTOCOL,),
    noise_levels: Sequence[float] = (PAPER_LEVEL,),
) -> str:
    """Return the command that asks for the same; what is as by default is left out."""
    asked = (
        ("scene", scenes, paper.SCENES),
        ("model", models, DEFAULT_MODELS),
        ("samples-per-class", samples_per_class, paper.SAMPLES),
        ("noise", noises, tuple(NOISES)),
        ("noise-level", noise_levels, (PAPER_LEVEL,)),
        ("protocol", protocols, (PAPER_PROTOCOL,)),
    )
    words = ["polyad", "reproduce"]
    for option, values, default in asked:
        if tuple(values) != tuple(default):
            words += [word for value in values for word in (f"--{option}", str(value))]
    words += [] if runs == paper.RUNS else ["--runs", str(runs)]
    words += [] if epochs == paper.EPOCHS[-1] else ["--epochs", str(epochs)]
    return shlex.join(words)
