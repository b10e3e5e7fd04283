"""`reproduce`: from names to records, tables, figures and report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polyad.experiments.document import make_document, wanted_runs
from polyad.experiments.figures import write_figures
from polyad.experiments.maps import MapStore
from polyad.experiments.models import RANKS
from polyad.experiments.page import write_page
from polyad.experiments.protocol import NOISES, plan_runs
from polyad.experiments.records import RecordStore
from polyad.experiments.report import write_report
from polyad.experiments.results import Results
from polyad.experiments.runs import Spread, run_all
from polyad.experiments.scenes import present_scenes
from polyad.experiments.tables import write_tables

SCENES = ("indian-pines", "botswana", "pavia-university")
MODELS = (*RANKS, "cnn")
SAMPLINGS = ("random",)
QUICK_MODELS = ("rank-1", "rank-2", "cnn")


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
        Scenes that were not on this machine, and why.
    hours : float
        All runs of the report together, on one thread.
    """

    out: Path
    runs_done: int
    runs_there: int
    missing: dict[str, str]
    hours: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON wants them."""
        return asdict(self) | {"out": str(self.out), "report": str(self.report)}

    @property
    def report(self) -> Path:
        """The report's file."""
        return self.out / "report.html"


def reproduce(
    scenes: Sequence[str] = SCENES,
    models: Sequence[str] = MODELS,
    samples_per_class: Sequence[int] = (10, 50),
    noises: Sequence[str] = NOISES,
    runs: int = 10,
    epochs: int = 500,
    jobs: int = 1,
    out: str | os.PathLike[str] = "polyad-paper",
    quick: bool = False,
    progress: bool = True,
    spread: Spread | None = None,
    samplings: Sequence[str] = SAMPLINGS,
) -> Reproduction:
    """Run the paper's experiments and write the report; killed, it goes on where it was.

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
    samplings : sequence of str
        Which pixels train and test: ``random`` (the paper), ``other-fields``, ``blocks``; see
        `polyad.scene.protocols`.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import tempfile
    >>> done = reproduce(["standin-tiny"], ["rank-1"], [5], ["none"], runs=1, epochs=2,
    ...                  out=tempfile.mkdtemp(), progress=False)
    >>> done.runs_done, done.report.name
    (1, 'report.html')
    """
    if quick:
        scenes, models, samples_per_class = SCENES[:1], QUICK_MODELS, (10,)
        noises, runs, epochs, samplings = NOISES[:1], 3, 50, SAMPLINGS
    here, missing = present_scenes(scenes)
    plan = plan_runs(here, models, samples_per_class, noises, runs, epochs, samplings)
    home = Path(out)
    records, maps = RecordStore(home / "records"), MapStore(home / "maps")
    done = run_all(plan, records, maps, jobs=jobs, progress=progress, spread=spread)
    results = Results(records.load())
    document = make_document(
        results,
        scenes,
        missing,
        samples=samples_per_class,
        noises=noises,
        runs=wanted_runs(runs),
    )
    command = command_line(
        scenes, models, samples_per_class, noises, wanted_runs(runs), epochs, samplings
    )
    if quick:
        command = "polyad reproduce --quick"
    shown = home.name if home.is_absolute() else str(home)
    command += f" --out {shlex.quote(shown)}"
    write_tables(document.tables, home / "tables")
    write_figures(document.figures, home / "figures")
    write_page(document, command, home / "paper.md")
    write_report(document, results, maps, command, home / "report.html")
    return Reproduction(home, done, len(results.all()), missing, document.hours)


def command_line(
    scenes: Sequence[str],
    models: Sequence[str],
    samples_per_class: Sequence[int],
    noises: Sequence[str],
    runs: int,
    epochs: int,
    samplings: Sequence[str] = SAMPLINGS,
) -> str:
    """Return the command that asks for the same; what is as by default is left out."""
    asked = (
        ("scene", scenes, SCENES),
        ("model", models, MODELS),
        ("samples-per-class", samples_per_class, (10, 50)),
        ("noise", noises, NOISES),
        ("protocol", samplings, SAMPLINGS),
    )
    words = ["polyad", "reproduce"]
    for option, values, usual in asked:
        if tuple(values) != tuple(usual):
            words += [word for value in values for word in (f"--{option}", str(value))]
    words += [] if runs == 10 else ["--runs", str(runs)]
    words += [] if epochs == 500 else ["--epochs", str(epochs)]
    return shlex.join(words)
