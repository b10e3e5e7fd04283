"""Pages of the reference, made from what the package says of itself.

One page for each public name, from its docstring, a list of them for each package, and a page for
each command, from its own help.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from polyad.cli.program import COMMANDS, command, make_app
from tools.public_interface import packages

PACKAGES = {
    "polyad": "What most users need: estimators, layer, model files, scenes, maps.",
    "polyad.core": "CP algebra on torch, for tensors of any order.",
    "polyad.estimators": "What stands around the estimators.",
    "polyad.scene": "Scenes, labels, training, maps, accuracy, areas.",
    "polyad.fitting": "Solvers as functions: networks in, fitted networks out.",
    "polyad.experiments": "The paper's runs, tables and figures.",
    "polyad.distributed": "Maps and runs on a Dask cluster.",
    "polyad.app": "The labeling page.",
    "polyad.errors": "What is raised.",
}


def homes() -> dict[str, list[str]]:
    """Return each package with the names that are at home in it: the shallowest that lists them."""
    seen: set[int] = set()
    found: dict[str, list[str]] = {}
    for package in sorted(packages(), key=lambda name: (name.count("."), name)):
        module = importlib.import_module(package)
        own = [
            name for name in getattr(module, "__all__", ()) if id(getattr(module, name)) not in seen
        ]
        seen |= {id(getattr(module, name)) for name in own}
        if own and package != "polyad.cli":  # the command line has pages of its own
            found[package] = sorted(own, key=lambda name: (name.lower(), name))
    return found


def first_sentence(value: Any) -> str:
    """Return the first line of a docstring, or nothing for a constant."""
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return ""
    return (inspect.getdoc(value) or "").split("\n", 1)[0]


def name_page(package: str, name: str) -> str:
    """Return the page of one public name; a constant is listed by its keys."""
    title = f"{package}.{name}"
    value = getattr(importlib.import_module(package), name)
    head = f"{title}\n{'=' * len(title)}\n\n"
    if inspect.isclass(value):
        return f"{head}.. autoclass:: {title}\n   :members:\n"
    if inspect.isroutine(value):
        return f"{head}.. autofunction:: {title}\n"
    keys = ", ".join(f"``{key}``" for key in value) if isinstance(value, Mapping) else ""
    return f"{head}.. data:: {title}\n\n   {type(value).__name__}: {keys}\n"


def package_page(package: str, names: list[str]) -> str:
    """Return the list of a package's names, each with its first sentence."""
    module = importlib.import_module(package)
    rows = [
        f"* - :doc:`{name} <{package}.{name}>`\n     - {first_sentence(getattr(module, name))}"
        for name in names
    ]
    listed = "\n   ".join(f"{package}.{name}" for name in names)
    return (
        f"{package}\n{'=' * len(package)}\n\n{PACKAGES[package]}\n\n"
        f".. list-table::\n   :widths: 35 65\n\n   " + "\n   ".join(rows) + "\n\n"
        f".. toctree::\n   :hidden:\n\n   {listed}\n"
    )


def help_of(*words: str) -> str:
    """Return what ``polyad COMMAND --help`` prints."""
    ended = CliRunner(env={"COLUMNS": "96", "TERMINAL_WIDTH": "96"}).invoke(
        make_app(), [*words, "--help"], prog_name="polyad"
    )
    if ended.exit_code:
        raise ValueError(f"polyad {' '.join(words)} --help ended with {ended.exit_code}")
    return ended.output.strip()


def command_page(name: str, example: str) -> str:
    """Return the page of one command: its example, and its own help."""
    return f"# polyad {name}\n\n```sh\npolyad {example}\n```\n\n```text\n{help_of(name)}\n```\n"


def write_reference(folder: Path) -> None:
    """Write the pages of the packages and of the commands into ``folder``."""
    python, program = folder / "python", folder / "commands"
    for made in (python, program):
        made.mkdir(parents=True)
    own = homes()
    if set(own) != set(PACKAGES):
        raise ValueError(f"the reference describes {set(PACKAGES)}, and there are {set(own)}")
    for package in PACKAGES:
        (python / f"{package}.rst").write_text(package_page(package, own[package]))
        for name in own[package]:
            (python / f"{package}.{name}.rst").write_text(name_page(package, name))
    listed = "\n".join(f"{package}" for package in PACKAGES)
    table = "\n".join(
        f"| [`{package}`]({package}.rst) | {what} |" for package, what in PACKAGES.items()
    )
    (python / "index.md").write_text(
        "# Python\n\nEvery public name, from its docstring; the examples in them are run by the "
        "tests.\n\n| package | what is in it |\n|---|---|\n"
        f"{table}\n\n:::{{toctree}}\n:hidden:\n\n{listed}\n:::\n"
    )
    for name, (_, example) in COMMANDS.items():
        (program / f"{name}.md").write_text(command_page(name, example))
    table = "\n".join(
        f"| [`polyad {name}`]({name}.md) | {first_sentence(command(name))} |" for name in COMMANDS
    )
    listed = "\n".join(COMMANDS)
    (program / "index.md").write_text(
        "# Command line\n\nEach page is what `polyad COMMAND --help` prints.\n\n"
        f"| command | what it does |\n|---|---|\n{table}\n\n"
        "Exit code 0: done. 2: failed, with an error message. 130: interrupted.\n\n"
        f":::{{toctree}}\n:hidden:\n\n{listed}\n:::\n"
    )
    index = folder / "index.md"  # in the repository these pages do not exist
    if index.exists():
        text = index.read_text().replace("| Python |", "| [Python](python/index.md) |")
        index.write_text(text.replace("| Command line |", "| [Command line](commands/index.md) |"))
