"""Figures 2 to 5 of the paper: accuracy against epochs, mean line and deviation area.

Colors are Paul Tol's "bright" scheme, told apart by color-blind readers; line styles differ too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from polyad.atomic import replacing
from polyad.experiments import paper
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper_names import scene_title
from polyad.experiments.results import Results
from polyad.experiments.settings import NOISES, PAPER_LEVEL

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
INK, SOFT = "#333333", "#8a8a8a"
CNNS = ("cnn", "cnn-tuned")


class Panel(NamedTuple):
    """One curve plot: what is drawn in it."""

    scene: str
    models: Sequence[str]
    samples: int
    noise: str


class Style(NamedTuple):
    """Color and dashes of a model's line."""

    color: str
    dashes: tuple[float, ...] = ()


STYLES: dict[str, Style] = {
    "rank-1": Style("#4477AA"),
    "rank-2": Style("#EE6677", (6, 2)),
    "rank-3": Style("#228833", (2, 1.5)),
    "rank-4": Style("#CCBB44", (6, 1.5, 1.5, 1.5)),
    "rank-5": Style("#AA3377", (3, 1)),
    "cnn": Style("#222222", (8, 2, 2, 2)),
    "cnn-tuned": Style("#888888", (4, 1.5)),
    "dense": Style("#66CCEE", (4, 2)),
}


def curves_figure(results: Results, grid: Sequence[Sequence[Panel]]) -> Figure | None:
    """Draw accuracy against epochs, one panel in each place of the grid.

    All panels share their axes. The paper's means after 50 and 500 epochs are crosses of the same
    color, with its standard deviation as a bar. Places without a single run stay empty, rows and
    columns without any are left out; None if none is left.
    """
    filled = [[panel if _has_runs(results, panel) else None for panel in row] for row in grid]
    filled = [row for row in filled if any(row)]
    if not filled:
        return None
    kept = [k for k in range(len(filled[0])) if any(row[k] for row in filled)]
    down, across = len(filled), len(kept)
    width = max(7.4, 4.6 * across + 1.2)
    figure = Figure(figsize=(width, 3.2 * down + 0.9), layout="constrained")
    places = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for row, line in enumerate(filled):
        for column, k in enumerate(kept):
            axes, panel = places[row][column], line[k]
            if panel is None:
                axes.set_axis_off()
                continue
            _draw_panel(axes, results, panel)
            if row == down - 1 or filled[row + 1][k] is None:
                axes.set_xlabel("epoch (logarithmic)", fontsize=9, color=INK)
                axes.tick_params(labelbottom=True)
            if column == 0 or line[kept[column - 1]] is None:
                axes.set_ylabel("overall accuracy, test pixels (%)", fontsize=9, color=INK)
                axes.tick_params(labelleft=True)
    low, high = places[0][0].get_ylim()
    places[0][0].set_ylim(max(low, 0), min(high, 100))
    handles = _handles(results, [p for line in filled for p in line if p])
    _legend(figure, handles)
    return figure


def _legend(figure: Figure, handles: Sequence[Artist]) -> None:
    columns = int(figure.get_figwidth() // 3.4)  # inches: the longest label
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        fontsize=8.5,
        frameon=False,
        handlelength=3,
    )


def epochs_figure(results: Results, scenes: Sequence[str], samples: int) -> Figure | None:
    """Draw Rank-1 under both readings of the paper's "epochs"; None without runs."""
    model = RANKS[0]
    inner = int(MODELS[model].settings["inner_steps"])
    curves = {scene: results.curve(scene, model, samples) for scene in scenes}
    there = {scene: curve for scene, curve in curves.items() if curve is not None}
    if not there:
        return None
    width = max(7.4, 4.6 * len(there) + 1.2)
    figure = Figure(figsize=(width, 4.1), layout="constrained")
    places = figure.subplots(1, len(there), squeeze=False, sharex=True, sharey=True)[0]
    readings = ((1, "epochs are sweeps", ()), (inner, f"epochs are steps, {inner} a sweep", (4, 2)))
    color = STYLES[model].color
    for axes, (scene, curve) in zip(places, there.items(), strict=True):
        for steps, _, dashes in readings:
            shown = steps * curve.epochs <= curve.epochs[-1]
            mean, spread = curve.mean[shown], curve.deviation[shown]
            x = steps * curve.epochs[shown]
            axes.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
            (line,) = axes.plot(x, mean, color=color, linewidth=1.6)
            line.set_dashes(dashes or (None, None))
        _paper_crosses(axes, Panel(scene, (model,), samples, "none"), model, curve.epochs[-1])
        _frame(axes, f"{scene_title(scene)}, {MODELS[model].title}, {samples} per class, no noise",
               curve.epochs[-1])  # fmt: skip
        axes.set_xlabel("the paper's epoch (logarithmic)", fontsize=9, color=INK)
    places[0].set_ylabel("overall accuracy, test pixels (%)", fontsize=9, color=INK)
    lines: list[Artist] = []
    for _, label, dashes in readings:
        line = Line2D([], [], color=color, linewidth=1.6, label=label)
        line.set_dashes(dashes or (None, None))
        lines.append(line)
    _legend(
        figure, [*lines, _area(), *_cross([Panel(s, (model,), samples, "none") for s in there])]
    )
    return figure


def _has_runs(results: Results, panel: Panel) -> bool:
    cells = (results.curve(panel.scene, m, panel.samples, panel.noise) for m in panel.models)
    return any(curve is not None for curve in cells)


def _draw_panel(axes: Axes, results: Results, panel: Panel) -> None:
    last, runs = 2.0, set()
    for place, model in enumerate(panel.models):
        curve = results.curve(panel.scene, model, panel.samples, panel.noise)
        if curve is None:
            continue
        style = STYLES[model]
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.epochs, low, high, color=style.color, alpha=0.15, linewidth=0)
        (line,) = axes.plot(curve.epochs, curve.mean, color=style.color, linewidth=1.6)
        if style.dashes:
            line.set_dashes(style.dashes)
        last = max(last, curve.epochs[-1])
        runs.add(curve.runs)
        aside = 1 + 0.05 * (place - (len(panel.models) - 1) / 2)  # crosses beside each other
        _paper_crosses(axes, panel, model, curve.epochs[-1], aside)
    counts = "-".join(map(str, sorted({min(runs), max(runs)})))
    title = f"{scene_title(panel.scene)}, {panel.samples} per class, {NOISES[panel.noise]}"
    _frame(axes, f"{title}, {counts} runs", last)


def _paper_crosses(axes: Axes, panel: Panel, model: str, last: float, aside: float = 1.0) -> None:
    for epoch in paper.EPOCHS:
        theirs = paper.reported(panel.scene, model, panel.samples, panel.noise, epoch)
        if theirs is not None and epoch <= last:
            axes.errorbar(
                epoch * aside, theirs.mean, theirs.deviation, fmt="x", color=STYLES[model].color,
                markersize=5.5, elinewidth=0.9, capsize=2,
            )  # fmt: skip


def _frame(axes: Axes, title: str, last: float) -> None:
    axes.set_title(title, fontsize=9.5, color=INK, loc="left")
    axes.set_xscale("log")
    ticks = [tick for tick in _TICKS if tick <= last]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(1, last * 1.25)
    axes.tick_params(labelsize=8.5, colors=INK)
    axes.grid(color="#e6e6e6", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _handles(results: Results, panels: Sequence[Panel]) -> list[Artist]:
    """Return what the legend explains: each line once, the area, and the paper's crosses."""
    shown = [m for p in panels for m in p.models if results.curve(p.scene, m, p.samples, p.noise)]
    lines: list[Artist] = []
    for model in sorted(set(shown), key=list(MODELS).index):
        color, dashes = STYLES[model]
        line = Line2D([], [], color=color, linewidth=1.6, label=MODELS[model].title)
        if dashes:
            line.set_dashes(dashes)
        lines.append(line)
    return [*lines, _area(), *_cross(panels)]


def _area() -> Artist:
    return Patch(color=SOFT, alpha=0.3, label="mean ± one standard deviation over runs")


def _cross(panels: Sequence[Panel]) -> list[Artist]:
    """Return the legend's cross, if a panel has one."""
    asked = ((p.scene, m, p.samples, p.noise) for p in panels for m in p.models)
    if not any(paper.reported(*cell, epoch) for cell in asked for epoch in paper.EPOCHS):
        return []
    cross = Line2D([], [], color=SOFT, marker="x", linestyle="none")
    cross.set_label("the paper's mean ± its standard deviation")
    return [cross]


def paper_figures(
    results: Results, scenes: Sequence[str], samples: Sequence[int] = paper.SAMPLES
) -> dict[str, tuple[str, Figure]]:
    """Return the paper's figures that there are runs for: file name -> (title, figure).

    Scenes are columns; noises and samples per class are rows.
    """
    first = samples[0]
    level = f"{100 * PAPER_LEVEL:.0f} % noise"
    noises = ("pixel", "band-offset")
    legend = "Areas: one standard deviation. Crosses and bars: the paper's means and deviations."

    def row(models: Sequence[str] | None, n: int, noise: str) -> list[Panel]:
        return [
            Panel(scene, models or (paper.rank_beside_cnn(scene, noise), *CNNS), n, noise)
            for scene in scenes
        ]

    plans = {
        "figure-2": (
            f"Figure 2: Rank-R networks, no noise. {legend}",
            [row(RANKS, first, "none")],
        ),
        "figure-3": (
            f"Figure 3: Rank-R network and CNNs, no noise. {legend}",
            [row(None, n, "none") for n in samples],
        ),
        "figure-4": (
            f"Figure 4: Rank-R networks with {level}: white noise per pixel (the paper's text) "
            f"and band offset (its code). {legend}",
            [row(RANKS, first, noise) for noise in noises],
        ),
        "figure-5": (
            f"Figure 5: Rank-R network and CNNs with {level}. {legend}",
            [row(None, n, noise) for noise in noises for n in samples],
        ),
    }
    drawn = {name: (title, curves_figure(results, grid)) for name, (title, grid) in plans.items()}
    readings = 'What "500 epochs" may mean: Rank-1, epochs read as sweeps and as steps'
    drawn["epochs"] = (f"{readings}. {legend}", epochs_figure(results, scenes, first))
    return {name: (title, figure) for name, (title, figure) in drawn.items() if figure is not None}


def write_figures(figures: dict[str, tuple[str, Figure]], folder: str | os.PathLike[str]) -> None:
    """Write each figure as SVG and PNG."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for name, (_, figure) in figures.items():
        FigureCanvasAgg(figure)
        for ending, stamp in (("svg", {"Date": None}), ("png", {"Software": "polyad"})):
            with replacing(home / f"{name}.{ending}") as temporary:
                figure.savefig(temporary, format=ending, dpi=120, metadata=stamp)
