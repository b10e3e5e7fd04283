"""Tables of results: the paper's value beside ours, as Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyad.atomic import replacing
from polyad.experiments.paper import Reported
from polyad.experiments.results import Summary
from polyad.scene.assess.pages import render

_MINUS = "\N{MINUS SIGN}"
_ESCAPES = {"%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", _MINUS: "$-$", "±": r"$\pm$"}


@dataclass(frozen=True)
class Cell:
    """Our value and the paper's.

    Attributes
    ----------
    ours : Summary or None
        None if it was not run.
    paper : Reported or None
    absent : str
        What stands there if it was not run.
    wanted : int
        Runs of a full cell; a cell with fewer says so.
    digits : int
    """

    ours: Summary | None
    paper: Reported | None = None
    absent: str = "not run"
    wanted: int = 10
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's, in the paper's standard deviations."""
        if self.ours is None or self.paper is None or self.paper.deviation == 0:
            return None
        return (self.ours.mean - self.paper.mean) / self.paper.deviation

    def text(self) -> str:
        """Return the cell as text: ours, then the paper's and the difference in brackets."""
        if self.ours is None:
            ours = self.absent
        else:
            ours = f"{self.ours.mean:.{self.digits}f}"
            if not math.isnan(self.ours.deviation):
                ours += f" ± {self.ours.deviation:.{self.digits}f}"
            if self.ours.runs < self.wanted:
                ours += f", {self.ours.runs} run{'s' if self.ours.runs > 1 else ''}"
        if self.paper is None:
            return ours
        theirs = f"paper {self.paper.mean:.2f} ± {self.paper.deviation:.2f}"
        if self.difference is not None:
            theirs += f", {signed(self.difference, 1)} sd"
        return f"{ours} ({theirs})"

    def fields(self) -> list[str]:
        """Return ours (mean, deviation, runs), the paper's (mean, deviation) and the difference."""
        ours = (
            ["", "", "0"]
            if self.ours is None
            else [f"{self.ours.mean:.4f}", f"{self.ours.deviation:.4f}", str(self.ours.runs)]
        )
        theirs = ["", ""] if self.paper is None else [f"{v:.2f}" for v in self.paper]
        gap = "" if self.difference is None else f"{self.difference:.3f}"
        return [*ours, *theirs, gap]


FIELDS = ("mean", "sd", "runs", "paper mean", "paper sd", "difference in paper sd")


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
    rows: tuple[tuple[str | Cell, ...], ...]
    note: str = ""

    def texts(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[c.text() if isinstance(c, Cell) else c for c in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table as Markdown, without title and note."""
        lines = [list(self.columns), ["---"] * len(self.columns), *self.texts()]
        return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in lines)

    def latex(self) -> str:
        """Return the table as a LaTeX ``table`` with its caption."""
        spec = "l" + "c" * (len(self.columns) - 1)
        body = [" & ".join(map(_tex, row)) + r" \\" for row in [list(self.columns), *self.texts()]]
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(self.title)}. {_tex(self.note)}}}",
            rf"\begin{{tabular}}{{{spec}}}",
            r"\hline",
            body[0],
            r"\hline",
            *body[1:],
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Return the table as CSV, each number in a column of its own."""
        split = {k for row in self.rows for k, cell in enumerate(row) if isinstance(cell, Cell)}
        heads: list[str] = []
        for k, name in enumerate(self.columns):
            heads += [f"{name}: {field}" for field in FIELDS] if k in split else [name]
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(heads)
        for row in self.rows:
            fields: list[str] = []
            for k, cell in enumerate(row):
                if isinstance(cell, Cell):
                    fields += cell.fields()
                else:
                    fields += [cell] + [""] * (len(FIELDS) - 1 if k in split else 0)
            writer.writerow(fields)
        return stream.getvalue()

    def html(self) -> str:
        """Return the table as HTML; all text is escaped."""
        return render("table.html", "polyad.experiments", table=self)


def write_tables(tables: Sequence[Table], folder: str | os.PathLike[str]) -> None:
    """Write each table as ``.md``, ``.tex`` and ``.csv``."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for table in tables:
        whole = f"**{table.title}.** {table.note}\n\n{table.markdown()}\n"
        for ending, text in (("md", whole), ("tex", table.latex()), ("csv", table.csv())):
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


def _tex(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)
