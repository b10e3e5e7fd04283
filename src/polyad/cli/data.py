"""``polyad info``, ``scenes`` and ``fetch``: what is in a file, and known scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyad.cli import options as opt
from polyad.cli.options import DATA, option
from polyad.scene.files.benchmark_scenes import known_scene
from polyad.terminal import brief, on_terminal, say

MOST_FIELDS = 24  # of a table that are listed in text; in JSON all of them


def info(
    file: Annotated[
        str, typer.Argument(help="Scene, class map, labels, spectral library or model.")
    ],
    max_bytes: opt.MaxBytes = None,
    remote: opt.Remote = False,
    as_json: opt.AsJson = False,
) -> None:
    """Show what a file holds: scene, map, labels, spectra or a model."""
    from polyad.scene.info import describe

    description = describe(file, max_bytes=max_bytes, remote=remote)
    width = max(map(len, description)) + 2
    flat = {name: value for name, value in description.items() if name != "cross_validation"}
    if len(flat.get("fields", ())) > MOST_FIELDS:
        rest = len(flat["fields"]) - MOST_FIELDS
        flat["fields"] = [*flat["fields"][:MOST_FIELDS], f"{rest:,} more"]
    lines = [f"{name.replace('_', ' '):<{width}}{brief(v)}" for name, v in flat.items()]
    if "cross_validation" in description and not as_json:
        from polyad.scene import CrossValidation

        lines += ["", str(CrossValidation.from_data(description["cross_validation"], "accuracy"))]
    say(description, as_json, "\n".join(lines))


def scenes(as_json: opt.AsJson = False) -> None:
    """List the known scenes, and whether they are on this machine."""
    from polyad.scene.files.benchmark_scenes import list_known

    rows = list_known()
    lines = [
        f"{row['name']:<18}{row['size']:<38}{row['classes']:>3} classes   "
        f"{'ready' if row['here'] else 'polyad fetch ' + row['name']}"
        for row in rows
    ]
    say({"scenes": rows}, as_json, "\n".join(lines))


def fetch(
    name: Annotated[str, typer.Argument(help="A name listed by polyad scenes.")],
    from_file: Annotated[
        list[Path] | None,
        option(DATA, "Use a file downloaded by hand. Repeatable.", "FILE", "--from"),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Download a known scene, or use files downloaded by hand."""
    known_scene(name)
    from polyad.scene.read.scenes import fetch as fetch_scene

    paths = fetch_scene(name, from_file, progress=on_terminal())
    say(
        {"name": name, "files": [str(p) for p in paths]},
        as_json,
        "\n".join(f"{p} is in place" for p in paths) or f"{name} ships with polyad: nothing to do",
    )
