"""The results as a Markdown page."""

from __future__ import annotations

import os
from pathlib import Path

from polyad.atomic import replacing
from polyad.experiments.document import TITLE, Document
from polyad.experiments.paper_tables import scene_title


def render_page(document: Document, command: str) -> str:
    """Return the page; it expects ``figures/*.png`` beside it."""
    lines = [
        f"# {TITLE}",
        "",
        f"Made by `{command}` from the records beside this page (`records/`). All runs together "
        f"took {document.hours:.1f} hours by the clock, one thread each, beside other work.",
        "",
    ]
    if document.missing:
        names = ", ".join(scene_title(scene) for scene in document.missing)
        fetch = " and ".join(f"`polyad fetch {scene}`" for scene in document.missing)
        lines += [
            f"**Not there:** {names}. Their files were not on the machine, and their cells stay "
            f"empty. After {fetch} (or with files fetched by hand) the same command fills them.",
            "",
        ]
    first, *others = document.tables
    lines += [f"## {first.title}", "", first.note, "", first.markdown(), ""]
    for scene, parts in document.findings.items():
        lines += [f"## Findings, {scene_title(scene)}", ""]
        for part in parts:
            lines += [f"### {part.title}", "", *_paragraphs(part.text)]
    lines += ["## How it was done", "", *_paragraphs(document.how)]
    lines += ["## Figures", ""]
    for name, (title, _) in document.figures.items():
        lines += [f"![{title}](figures/{name}.png)", "", f"*{title}*", ""]
    lines += ["## Tables", ""]
    for table in others:
        lines += [f"### {table.title}", "", table.note, "", table.markdown(), ""]
    return "\n".join(lines)


def write_page(document: Document, command: str, path: str | os.PathLike[str]) -> None:
    """Write the page."""
    with replacing(Path(path)) as part:
        part.write_text(render_page(document, command), encoding="utf-8")


def _paragraphs(texts: tuple[str, ...]) -> list[str]:
    """Return texts with empty lines between them, but not within a list."""
    lines: list[str] = []
    for text in texts:
        if lines and not (text.startswith("- ") and lines[-1].startswith("- ")):
            lines.append("")
        lines.append(text)
    return [*lines, ""]
