"""``report.html``: findings, tables, figures and class maps in one file."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from polyad.atomic import replacing
from polyad.experiments.document import TITLE, Document
from polyad.experiments.maps import MapStore
from polyad.experiments.models import MODELS
from polyad.experiments.paper_tables import NOISES, scene_title
from polyad.experiments.protocol import cell_name
from polyad.experiments.results import Results
from polyad.experiments.scenes import load_scene
from polyad.experiments.tables import Table
from polyad.scene.classes import ClassInfo
from polyad.scene.colour import class_picture
from polyad.scene.figures import to_png
from polyad.scene.report_style import STYLE

_MORE_STYLE = """
.results { width: 100%; }
.results th, .results td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
.results td, .results th { vertical-align: top; }
.results th[scope=row] { white-space: nowrap; }
.results small { display: block; color: var(--soft); }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 1rem; }
.maps figure { display: flex; flex-direction: column; justify-content: flex-end; }
.maps img { width: 100%; border: 1px solid var(--line); border-radius: 4px; }
.warn { border-left: 4px solid #EE7733; }
ul { padding-left: 1.2rem; } p { max-width: 52rem; }
"""


def render_report(document: Document, results: Results, maps: MapStore, command: str) -> str:
    """Return the report as the text of one HTML page."""
    first, *others = document.tables
    sections = [
        _header(document),
        _missing(document),
        _table(first),
        *(_findings(scene, document) for scene in document.findings),
        *(_figure(title, to_png(f, dpi=120)) for title, f in document.figures.values()),
        *(_table(table) for table in others),
        *(_maps(scene, results, maps) for scene in document.scenes),
        _section("How it was done", _texts(document.how)),
        _section("Do it again", f"<pre><code>{escape(command)}</code></pre>"),
    ]
    body = "\n".join(part for part in sections if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="polyad">\n'
        f"<title>{escape(TITLE)}</title>\n<style>{STYLE}{_MORE_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def write_report(
    document: Document,
    results: Results,
    maps: MapStore,
    command: str,
    path: str | os.PathLike[str],
) -> None:
    """Write the report."""
    with replacing(Path(path)) as part:
        part.write_text(render_report(document, results, maps, command), encoding="utf-8")


def _header(document: Document) -> str:
    where = ", ".join(map(scene_title, document.scenes)) or "no scene yet"
    return (
        f"<header><h1>{escape(TITLE)}</h1>\n<p>Runs of {escape(where)}; {document.hours:.1f} hours "
        "by the clock in all, one thread each. Beside each number stands the paper's, with "
        "the difference in the paper's standard deviations.</p></header>"
    )


def _missing(document: Document) -> str:
    if not document.missing:
        return ""
    items = "".join(
        f"<li><strong>{escape(scene_title(scene))}</strong>: {escape(why)}</li>"
        for scene, why in document.missing.items()
    )
    return (
        '<section class="warn"><h2>Scenes that were not there</h2>\n'
        f"<p>Their cells stay empty.</p><ul>{items}</ul></section>"
    )


def _findings(scene: str, document: Document) -> str:
    parts = "\n".join(
        f"<h3>{escape(part.title)}</h3>\n{_texts(part.text)}" for part in document.findings[scene]
    )
    return _section(f"Findings, {scene_title(scene)}", parts) if parts else ""


def _texts(texts: Sequence[str]) -> str:
    """Return paragraphs; texts that begin with a dash become a list."""
    parts = []
    for listed, group in groupby(texts, key=lambda text: text.startswith("- ")):
        if listed:
            items = "".join(f"<li>{escape(text[2:])}</li>" for text in group)
            parts.append(f"<ul>{items}</ul>")
        else:
            parts += [f"<p>{escape(text)}</p>" for text in group]
    return "\n".join(parts)


def _table(table: Table) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return _section(table.title, f'{note}<div class="scroll">{table.html()}</div>')


def _figure(title: str, png: bytes) -> str:
    heading, _, rest = title.partition(". ")
    note = f'<p class="note">{escape(rest)}</p>' if rest else ""
    image = f'<div class="scroll"><div class="paper">{_image(png, title)}</div></div>'
    return _section(heading, note + image)


def _maps(scene: str, results: Results, maps: MapStore) -> str:
    """Show the map of the first run of each cell, the ground truth first."""
    data = load_scene(scene)
    shown = [_map_figure("Ground truth", data.labels, data.classes)]
    for noise, words in NOISES.items():
        for n in results.samples(scene):
            for model, row in MODELS.items():
                class_map = maps.load(cell_name(scene, model, n, noise, "random"))
                runs = results.runs(scene, model, n, noise)
                if class_map is None or not runs:
                    continue
                accuracy = 100 * float(runs[0].final["oa"] or 0)
                caption = f"{row.title}, {n} per class, {words}: {accuracy:.1f} %"
                shown.append(_map_figure(caption, class_map, data.classes))
    legend = "".join(
        f'<li><span class="chip" style="background:{info.color}"></span>{escape(info.name)}</li>'
        for info in data.classes
    )
    return _section(
        f"Class maps, {scene_title(scene)}",
        '<p class="note">The first run of each cell. Ground truth: light grey is unlabelled.</p>'
        f'<div class="maps">{"".join(shown)}</div><ul class="legend">{legend}</ul>',
    )


def _map_figure(caption: str, class_map: NDArray[np.integer], classes: Sequence[ClassInfo]) -> str:
    buffer = io.BytesIO()
    imsave(buffer, class_picture(class_map, classes), format="png")
    image = _image(buffer.getvalue(), caption, "pixels")
    return f"<figure><figcaption>{escape(caption)}</figcaption>{image}</figure>"


def _image(png: bytes, words: str, kind: str = "") -> str:
    source = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    return f'<img class="{kind}" alt="{escape(words)}" src="{source}">'


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"
