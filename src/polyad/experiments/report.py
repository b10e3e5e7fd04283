"""The results as ``report.html``, one file, and as a Markdown page with its figures beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from matplotlib.figure import Figure

from polyad.atomic import replacing
from polyad.experiments.document import TITLE, Document
from polyad.experiments.identity import base_name
from polyad.experiments.models import MODELS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.records import MapStore
from polyad.experiments.results import Results
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import NOISES, cell_name
from polyad.scene.assess.pages import PageFigure, PageImage, page_image, render
from polyad.scene.draw.color import class_picture
from polyad.scene.raster.classes import ClassInfo


@dataclass(frozen=True)
class Gallery:
    """The class maps of a scene, the ground truth first, and their legend."""

    maps: list[PageImage]
    classes: Sequence[ClassInfo]


def render_report(document: Document, results: Results, maps: MapStore, command: str) -> str:
    """Return the report as the text of one HTML page."""
    where = ", ".join(map(scene_title, document.scenes)) or "no scene yet"
    return render(
        "paper_report.html",
        "polyad.experiments",
        heading=TITLE,
        summary=f"Runs of {where}. Beside each number stands the paper's, with the difference in "
        "the paper's standard deviations.",
        document=document,
        figures=[_figure(title, figure) for title, figure in document.figures.values()],
        galleries={
            scene: _gallery(scene, results, maps)
            for scene in document.scenes
            if base_name(scene) not in document.missing
        },
        record={"command": command},
        scene_title=scene_title,
        blocks=_blocks,
    )


def write_report(
    document: Document,
    results: Results,
    maps: MapStore,
    command: str,
    path: str | os.PathLike[str],
) -> None:
    """Write the report."""
    with replacing(Path(path)) as temporary:
        temporary.write_text(render_report(document, results, maps, command), encoding="utf-8")


def _blocks(texts: Sequence[str]) -> list[tuple[bool, list[str]]]:
    """Return paragraphs and lists in order; texts that begin with a dash are items of a list.

    Examples
    --------
    >>> _blocks(["Two:", "- one", "- two"])
    [(False, ['Two:']), (True, ['one', 'two'])]
    """
    groups = groupby(texts, key=lambda text: text.startswith("- "))
    return [(is_list, [t.removeprefix("- ") for t in group]) for is_list, group in groups]


def _figure(title: str, figure: Figure) -> PageFigure:
    heading, _, note = title.partition(". ")
    return PageFigure(heading, note, page_image(figure, title, dpi=120))


def _gallery(scene: str, results: Results, maps: MapStore) -> Gallery:
    """Return the ground truth and the map of the first run of each cell."""
    data = load_scene(scene)
    shown = [page_image(class_picture(data.labels, data.classes), "Ground truth")]
    for noise, words in NOISES.items():
        for n in results.samples(scene):
            for model, row in MODELS.items():
                class_map = maps.load(cell_name(scene, model, n, noise))
                runs = results.runs(scene, model, n, noise)
                if class_map is None or not runs:
                    continue
                accuracy = 100 * float(runs[0].final["oa"] or 0)
                caption = f"{row.title}, {n} per class, {words}: {accuracy:.1f} %"
                shown.append(page_image(class_picture(class_map, data.classes), caption))
    return Gallery(shown, data.classes)


def render_page(document: Document, command: str) -> str:
    """Return the page; it expects ``figures/*.png`` beside it."""
    lines = [
        f"# {TITLE}",
        "",
        f"Made by `{command}` from the records beside this page (`records/`).",
        "",
    ]
    waiting = [scene for scene in document.missing if scene not in document.scenes]
    if waiting:
        there = " and ".join(map(scene_title, document.scenes)) or "nothing"
        names = " and ".join(map(scene_title, waiting))
        fetch = " and ".join(f"`polyad fetch {scene}`" for scene in waiting)
        lines += [
            f"**Measured: {there}. Waiting for their files: {names}.** The cells of the latter "
            f"stay empty. After {fetch} (or with files fetched by hand) the same command, "
            f"`{command}`, fills them.",
            "",
        ]
    if document.notes is not None:
        lines += [
            "Every number here comes from the records or from the paper's own tables; what else "
            f"there is to say is written by hand in [{document.notes}]({document.notes}).",
            "",
        ]
    first, others = document.tables[:2], document.tables[2:]
    for table in first:
        lines += [f"## {table.title}", "", table.note, "", table.markdown(), ""]
    for scene, findings in document.findings.items():
        lines += [f"## Findings, {scene_title(scene)}", ""]
        for finding in findings:
            lines += [f"### {finding.title}", "", *_paragraphs(finding.text)]
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
    with replacing(Path(path)) as temporary:
        temporary.write_text(render_page(document, command), encoding="utf-8")


def _paragraphs(texts: tuple[str, ...]) -> list[str]:
    """Return texts with empty lines between them, but not within a list."""
    lines: list[str] = []
    for text in texts:
        if lines and not (text.startswith("- ") and lines[-1].startswith("- ")):
            lines.append("")
        lines.append(text)
    return [*lines, ""]
