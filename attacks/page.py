"""Turns the outcomes into docs/attacks.md."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attacks.cases import BUDGET
from attacks.run import ALLOWED_ABOVE_BUDGET, Outcome
from attacks.search import RECORD

_HEAD = """# Attacks, and what became of them

Written by `python -m attacks --write`, which makes each file, runs the command that a user would
run on it, and holds the outcome against what [security.md](security.md) promises: the exit code
and one sentence, no traceback, no control character on the terminal, no file changed or left
behind, and at most {limit:.0f} MB of memory with a budget of {budget:.0f} MB (Python, its
libraries and torch, where a command needs it, take 170 to 430 MB of that). With `--trace` it runs
under strace, and no file may be opened and no socket made that a good file does not need as well;
with `--warm` commands are forked with their imports done.

**{held} of {count} held.** The most memory that one took was {most:.0f} MB.

| point | attack | command | memory | computing | answer |
|---:|---|---|---:|---:|---|
"""


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the whole page."""
    return (
        _HEAD.format(
            limit=(BUDGET + ALLOWED_ABOVE_BUDGET) / 1e6,
            budget=BUDGET / 1e6,
            held=sum(not o.faults for o in outcomes),
            count=len(outcomes),
            most=max(o.peak_bytes for o in outcomes) / 1e6,
        )
        + "".join(map(_row, outcomes))
        + _search()
    )


def _row(outcome: Outcome) -> str:
    answer = "; ".join(outcome.faults) or ("refused" if outcome.case.says else "harmless")
    said = _plain(outcome.said.removeprefix("polyad: "))
    cells = (
        str(outcome.case.point),
        _plain(outcome.case.about),
        f"`polyad {outcome.command}`",
        f"{outcome.peak_bytes / 1e6:.0f} MB",
        f"{outcome.cpu_seconds:.1f} s",
        f"{answer}: {said[:140]}{'...' if len(said) > 140 else ''}" if said else answer,
    )
    return f"| {' | '.join(cells)} |\n"


def _plain(text: str) -> str:
    """Return text that stands in a table as it is."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _search() -> str:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    hours = sum(row["seconds"] for row in record.values()) / 3600
    tries = sum(row["tries"] for row in record.values())
    rows = "".join(
        f"| {name} | {row['seconds'] / 60:.0f} min | {row['tries']:,} |\n"
        for name, row in sorted(record.items())
    )
    return (
        f"\n## The search\n\n`make fuzz` has run for {hours:.1f} hours in all and tried {tries:,} "
        "inputs. What it found is told in [security.md](security.md); each finding is an input in "
        "`attacks/corpus` that `make test` tries again.\n\n| target | time | inputs |\n"
        f"|---|---:|---:|\n{rows}"
    )
