"""Try every case and print a table; exit code 1 if one found a hole."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import tempfile
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from attacks.cases import Case, all_cases
from attacks.run import Outcome, attempt, opened_by_good_files

# What commands import before they read; torch, which takes as much memory again, is left to them
_IMPORTS = (
    "polyad.cli", "polyad.scene.info", "polyad.scene.read.labels", "polyad.scene.read.scenes",
    "polyad.scene.write.writers", "encodings.utf_8_sig",
    "typer._adapters",  # brings pydantic; older versions have none
)  # fmt: skip


def main() -> None:
    """Run the cases that were asked for."""
    options = _parser().parse_args()
    cases = all_cases(options.only)
    if not cases:
        sys.exit(f"no attack has {options.only!r} in its name")
    known = opened_by_good_files() if options.trace else None
    if options.warm:
        for name in _IMPORTS:
            with suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()  # else every fork copies the memory of all modules
    outcomes = []
    with ThreadPoolExecutor(1 if options.warm else options.jobs) as pool:
        for outcome in pool.map(lambda case: _try(case, known, options.warm), cases):
            outcomes.append(outcome)
            print(_row(outcome), flush=True)
    failed = sum(bool(outcome.faults) for outcome in outcomes)
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def _try(case: Case, known: Set[str] | None, warm: bool) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return attempt(case, Path(folder), known, warm)


def _row(outcome: Outcome) -> str:
    case = outcome.case
    taken = f"{outcome.peak_bytes / 1e6:4.0f} MB {outcome.cpu_seconds:5.1f} s"
    verdict = "; ".join(outcome.faults) or "held"
    row = f"{case.kind + '/' + case.name:55s} {taken}  {verdict}"
    if outcome.faults:
        row += f"\n     polyad {outcome.command}\n     said: {outcome.said[-2000:]!r}"
    return row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose kind/name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="commands at a time")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--trace", action="store_true", help="under strace: files and sockets too")
    how.add_argument("--warm", action="store_true", help="fork commands instead of starting them")
    return parser


if __name__ == "__main__":
    main()
