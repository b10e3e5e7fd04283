"""How a command shows its help: options in panels, in plain text.

Typer draws panels with rich, which takes longer to import than the help takes to read, and whose
boxes do not survive being copied or put on a page.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

from polyad.cli.options import ADVANCED, PANELS

WIDEST = 27  # signs of an option's name and metavar; the text of a longer one begins below it
WIDTH = {"max_content_width": 100}  # context settings: the help of a wide terminal
_EXTRA = re.compile(r"(.*?)  \[(.*)\]")  # what Typer adds to a text


class Command(TyperCommand):
    """A command whose help has the panels of `polyad.cli.options.PANELS`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return arguments in capitals, as the help calls them, and then the options."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [*map(_argument, arguments), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each panel's in the order of the function's parameters."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in ("Arguments", *PANELS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            name, text = record
            panel = getattr(parameter, "rich_help_panel", None) or ADVANCED
            if parameter.param_type_name == "argument":
                name, panel = _argument(parameter), "Arguments"
            panels[panel].append((name, _in_words(text)))
        longest = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    width = min(longest, WIDEST)
                    formatter.write_dl([(n.ljust(width), text) for n, text in rows], WIDEST)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the example on one line, so that it can be copied."""
        formatter.write_paragraph()
        formatter.write(f"  {self.epilog}\n")


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return name + "..." * (parameter.nargs == -1)


def _in_words(text: str) -> str:
    """Return a text with its default and its limit as a sentence each.

    Examples
    --------
    >>> _in_words("Port to listen on.  [default: 0; x<=65535]")
    'Port to listen on. Default: 0. At most 65535.'
    """
    found = _EXTRA.fullmatch(text)
    if found is None:
        return text
    said = [found[1]]
    for extra in found[2].split("; "):
        what, _, value = extra.partition(": ")
        if what == "default":
            said.append(f"Default: {value}.")
        if extra.startswith("x<="):  # the range of seeds limits nobody
            said.append(f"At most {extra.removeprefix('x<=')}.")
    return " ".join(said)
