"""One HTML page that tells what was mapped, how, and how well; it needs no other file or network.

The page is read on a telephone and on a desk, by day and by night, and can be sent by mail.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.image import imsave

from polyad.scene.classes import ClassInfo, class_key, is_color
from polyad.scene.figures import to_png
from polyad.scene.report_style import STYLE


class Themed(NamedTuple):
    """One chart drawn twice without paper: for light pages and for dark ones."""

    light: Figure
    dark: Figure


Picture = Figure | bytes | Themed | npt.NDArray[np.uint8]

# Key of a score, its name for people, and whether it is a share (shown in percent).
_TILES = (
    ("overall_accuracy", "overall accuracy", True),
    ("overall_accuracy_no_overlap", "overall accuracy without overlap", True),
    ("average_accuracy", "average accuracy", True),
    ("kappa", "kappa", False),
    ("expected_calibration_error", "calibration error", True),
)

_CELL, _WIDE = 60, ' class="wide"'  # letters of a fact; a longer one takes a line of its own

# Heading and explanation of the figures that a report usually has; others show their own key.
_FIGURES = {
    "comparison": ("Scene, ground truth and map", ""),
    "confusion": ("Confusion matrix", ""),
    "spectra": (
        "Mean spectra of the classes",
        "Mean of the labelled pixels of each class and one standard deviation to either side; the "
        "other classes in grey. Classes whose spectra lie on each other are hard to tell apart.",
    ),
    "reliability": (
        "Can its probabilities be trusted?",
        "Of the pixels that the map calls 80 % certain, 80 % should be right: then the points lie "
        "on the dashed line. The larger the point, the more pixels.",
    ),
}


def render_report(
    *,
    title: str,
    summary: str,
    scores: Mapping[str, Any],
    classes: Sequence[ClassInfo],
    facts: Mapping[str, str],
    pictures: Mapping[str, Picture],
    figures: Mapping[str, Figure | bytes | Themed],
    command: str,
    versions: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the report as the text of one HTML page.

    Parameters
    ----------
    title : str
        Name of the scene; the accuracy is put behind it.
    summary : str
        What was done, in a few plain sentences.
    scores : mapping
        As `polyad.scene.scores.Scores.to_dict` gives them; what is missing is left out.
    classes : sequence of ClassInfo
        The legend of the pictures.
    facts : mapping of str to str
        Name and value of what matters: scene, labels, window, model, seconds.
    pictures : mapping of str to picture
        Pictures shown beside each other over the legend, by caption: false colour, ground truth
        and map as arrays of uint8, shape (y, x, 3) (see `polyad.scene.colour`), PNG bytes or
        figures.
    figures : mapping of str to Figure, PNG bytes or Themed
        Drawn below, each by itself, on white paper unless it is themed. ``spectra`` and
        ``reliability`` come with an explanation; any other key is taken as the heading.
    command : str
        The command that does it all again.
    versions : mapping of str to str, optional
        Programs and their versions.
    notes : sequence of str, optional
        What must be known of the scores, such as classes that are in none of them.

    Returns
    -------
    str
        HTML. All text is escaped, whatever the class names hold.
    """
    accuracy = scores.get("overall_accuracy")
    heading = title if accuracy is None else f"{title}: {_percent(accuracy)} right"
    sections = [
        _header(heading, summary),
        _tiles(scores, notes),
        _gallery(pictures, classes),
        _facts(facts),
        _class_table(scores.get("classes", [])),
        _confusion(scores.get("confusion_matrix"), scores.get("classes", [])),
        *(_figure(key, figure) for key, figure in figures.items()),
        _again(command, versions or {}),
    ]
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="polyad">\n'
        f"<title>{escape(heading)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _header(heading: str, summary: str) -> str:
    return f"<header>\n<h1>{escape(heading)}</h1>\n<p>{escape(summary)}</p>\n</header>"


def _tiles(scores: Mapping[str, Any], more: Sequence[str]) -> str:
    tiles = [
        f"<div><dt>{name}</dt><dd>{_percent(value) if share else f'{value:.3f}'}</dd></div>"
        for key, name, share in _TILES
        if (value := scores.get(key)) is not None
    ]
    if not tiles:
        return ""
    notes = []
    if (n := scores.get("n_test")) is not None:
        notes.append(f"Measured on {int(n):,} labelled pixels that the model has not seen.")
    overlaps = scores.get("n_test_no_overlap") != scores.get("n_test")  # not so on other scenes
    if scores.get("overall_accuracy_no_overlap") is not None and overlaps:
        apart = scores.get("n_test_no_overlap")
        those = "pixels" if apart is None else f"{int(apart):,} pixels"
        notes.append(
            "<em>Without overlap</em> counts only the "
            f"{those} whose window shares no pixel with the window of any training pixel, since a "
            "window that overlaps one has partly been seen. These pixels still lie in the same "
            "fields as the labels: expect less where nothing is labelled."
        )
    notes += [escape(sentence) for sentence in more]
    note = f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    return f'<section>\n<dl class="tiles">{"".join(tiles)}</dl>\n{note}\n</section>'


def _gallery(pictures: Mapping[str, Picture], classes: Sequence[ClassInfo]) -> str:
    if not pictures:
        return ""
    shown = "\n".join(
        f"<figure><figcaption>{escape(caption)}</figcaption>{_image(picture, caption)}</figure>"
        for caption, picture in pictures.items()
    )
    legend = "".join(f"<li>{_chip(c.color)}{escape(class_key(c))}</li>" for c in classes)
    gallery = f'<div class="gallery">{shown}</div>\n<ul class="legend">{legend}</ul>'
    return f"<section>\n{gallery}\n</section>"


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    rows = "".join(
        f"<div{_WIDE * (len(str(value)) > _CELL)}>"
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts.items()
    )
    return f'<section>\n<h2>What was done</h2>\n<dl class="facts">{rows}</dl>\n</section>'


def _class_table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = "\n".join(
        f'<tr><th scope="row">{_chip(row["color"])}{escape(_key(row))}</th>'
        f"{_bar(row['precision'])}{_bar(row['recall'])}{_bar(row['f1'])}"
        f"<td>{int(row['support']):,}</td></tr>"
        for row in rows
    )
    return f"""<section>
<h2>Class by class</h2>
<p class="note"><em>Precision</em>: of the pixels the map calls by this name, how many are it.
<em>Recall</em>: of the pixels that are it, how many the map has found. <em>F1</em> joins the
two. <em>Pixels</em>: test pixels of the class.</p>
<div class="scroll"><table class="classes">
<thead><tr><th scope="col">class</th><th scope="col">precision</th><th scope="col">recall</th>
<th scope="col">F1</th><th scope="col">pixels</th></tr></thead>
<tbody>
{lines}
</tbody>
</table></div>
</section>"""


def _confusion(confusion: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    if confusion is None or not rows:
        return ""
    counts = np.asarray(confusion, dtype=np.int64)
    names = [str(row["name"]) for row in rows]
    ids = [str(row["id"]) for row in rows]
    head = "".join(
        f'<th scope="col" title="{escape(name)}">{escape(i)}</th>'
        for i, name in zip(ids, names, strict=True)
    )
    lines = []
    for name, i, color, line in zip(names, ids, (r["color"] for r in rows), counts, strict=True):
        cells = "".join(
            _cell(int(n), int(line.sum()), name, other)
            for n, other in zip(line, names, strict=True)
        )
        label = f"{_chip(color)}{escape(name)}<small>{escape(i)}</small>"
        lines.append(f'<tr><th scope="row">{label}</th>{cells}</tr>')
    body = "\n".join(lines)
    return f"""<section>
<h2>What is taken for what</h2>
<p class="note">Each row is a true class, each column (by number) what the map says; the
stronger the colour, the larger the share of the row. Off the diagonal are the mistakes.</p>
<div class="scroll"><table class="confusion">
<thead><tr><th scope="col">true class</th>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
</section>"""


def _cell(n: int, total: int, true: str, called: str) -> str:
    if not n:
        return "<td></td>"
    share = n / total
    says = escape(f"{n:,} of {total:,} pixels of {true} are called {called}")
    dark = ' class="dark"' if share > 0.7 else ""
    return f'<td{dark} style="--share:{share:.3f}" title="{says}">{n}</td>'


def _figure(key: str, figure: Figure | bytes | Themed) -> str:
    heading, note = _FIGURES.get(key, (key, ""))
    words = f'<p class="note">{escape(note)}</p>\n' if note else ""
    image = _image(figure, heading)
    kind = "chart" if isinstance(figure, Themed) else "chart paper"
    kind += " narrow" if key == "reliability" else ""
    return (
        f"<section>\n<h2>{escape(heading)}</h2>\n{words}"
        f'<div class="scroll"><div class="{kind}">{image}</div></div>\n</section>'
    )


def _again(command: str, versions: Mapping[str, str]) -> str:
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    line = f'<p class="note">Made with {escape(used)}.</p>' if used else ""
    return (
        "<section>\n<h2>Do it again</h2>\n"
        f"<pre><code>{escape(command)}</code></pre>\n{line}\n</section>"
    )


def _image(picture: Picture, words: str) -> str:
    alt = escape(words)
    if isinstance(picture, Themed):
        light, dark = (_source(to_png(figure, transparent=True)) for figure in picture)
        media = "screen and (prefers-color-scheme: dark)"
        return (
            f'<picture><source media="{media}" srcset="{dark}">'
            f'<img alt="{alt}" src="{light}"></picture>'
        )
    if isinstance(picture, np.ndarray):
        buffer = io.BytesIO()
        imsave(buffer, picture, format="png")
        return f'<img class="pixels" alt="{alt}" src="{_source(buffer.getvalue())}">'
    data = picture if isinstance(picture, bytes) else to_png(picture)
    return f'<img alt="{alt}" src="{_source(data)}">'


def _source(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _key(row: Mapping[str, Any]) -> str:
    return class_key(ClassInfo(int(row["id"]), str(row["name"]), str(row["color"])))


def _chip(color: str) -> str:
    # Colours come from files: nothing but a colour may reach the style sheet.
    shown = color if is_color(color) else "#808080"
    return f'<span class="chip" style="background:{shown}"></span>'


def _bar(value: float | None) -> str:
    if value is None:
        return "<td>-</td>"
    return f'<td class="bar" style="--share:{value:.3f}">{_percent(value)}</td>'


def _percent(value: float) -> str:
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
