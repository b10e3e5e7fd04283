"""The one place where the command line prints: text or JSON, and nothing that steers a terminal.

What is printed holds names of files and words out of them, which strangers may have chosen.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn, TextIO

from polyad.errors import PolyadWarning
from polyad.text import printable, printable_line, printable_sentence


def put(text: str, file: TextIO | None = None) -> None:
    """Print lines, spelled in signs that the terminal has."""
    out = sys.stdout if file is None else file
    encoding = getattr(out, "encoding", None) or "utf-8"
    spelled = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    print(spelled, file=out, flush=True)


def say(result: Mapping[str, Any], as_json: bool, text: str) -> None:
    """Print the result of a command."""
    put(json.dumps(result) if as_json else text)


def fail(sentence: str) -> NoReturn:
    """Print what is wrong and end with exit code 2."""
    put(f"polyad: {printable_sentence(sentence)}", sys.stderr)
    sys.exit(2)


def misuse(error: Any) -> NoReturn:
    """Print what Typer says of wrong arguments, which may be names of files too, and end."""
    text = io.StringIO()
    error.show(file=text)
    put(text.getvalue().rstrip("\n"), sys.stderr)
    sys.exit(error.exit_code)


def warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of ours as one line; those of libraries say nothing to a user.

    Whoever runs ``python -W default -m polyad`` sees them all, with their place in the code.
    """
    if issubclass(category, PolyadWarning):
        put(f"polyad: warning: {printable_sentence(str(message))}", file or sys.stderr)
    elif sys.warnoptions:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        put(text.rstrip("\n"), file or sys.stderr)


def brief(value: Any) -> str:
    """Return a value as words on one line.

    Examples
    --------
    >>> brief({"Corn": 1200, "Oats": [3, None]})
    'Corn 1,200, Oats 3, unknown'
    >>> brief([-3.4e38, 0.1 + 0.2])
    '-3.4e+38, 0.3'
    """
    if isinstance(value, dict):
        return ", ".join(f"{printable_line(name)} {brief(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(brief, value))
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return "unknown" if value is None else printable_line(str(value))


def steps(line: str | None) -> str:
    """Return the line that names the steps of a preset; nothing for a preset without any."""
    return "" if line is None else f"steps: {line}\n"


def replaced_line(count: int | None) -> str:
    r"""Return the line on corrupt pixels; nothing where there are none, or none were counted.

    Examples
    --------
    >>> replaced_line(1200)
    '1,200 pixels looked corrupt and were replaced by their neighbors\n'
    """
    if not count:
        return ""
    one = count == 1
    pixels = (
        "1 pixel looked corrupt and was" if one else f"{count:,} pixels looked corrupt and were"
    )
    return f"{pixels} replaced by {'its' if one else 'their'} neighbors\n"


def report_line(report: object | None) -> str:
    r"""Return the line that names a report, apart from what stands above; nothing without one.

    Examples
    --------
    >>> report_line("page.html")
    '\n\nreport: page.html'
    """
    return "" if report is None else f"\n\nreport: {report}"


def on_terminal() -> bool:
    """Whether somebody is looking at the progress: a terminal, or a program that says so.

    A program that runs polyad and shows its bars sets POLYAD_PROGRESS to 1.
    """
    return sys.stderr.isatty() or os.environ.get("POLYAD_PROGRESS") == "1"
