"""Figures 2 to 5 of the paper: accuracy against epochs, mean line and deviation area.

Colors are Paul Tol's "bright" scheme, told apart by color-blind readers; line styles differ too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from polyad.atomic import replacing
from polyad.experiments import paper
from polyad.experiments.models import MODELS, RANKS
from polyad.experiments.paper_tables import scene_title
from polyad.experiments.results import Results
from polyad.experiments.settings import NOISES

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_INK, _SOFT = "#333333", "#8a8a8a"


Panel = tuple[str, Sequence[str], int, str]  # scene, models, samples per class, noise


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
    "dense": Style("#66CCEE", (4, 2)),
}


def curves_figure(results: Results, panels: Sequence[Panel], columns: int) -> Figure | None:
    """Draw accuracy against epochs, one panel for each (scene, models, samples, noise).

    The paper's means after 50 and 500 epochs are crosses of the same color. Panels without a
    single run are left out; None if none is left.
    """
    filled = [p for p in panels if any(results.curve(p[0], m, p[2], p[3]) for m in p[1])]
    if not filled:
        return None
    across = min(columns, len(filled))
    down = -(-len(filled) // across)
    figure = Figure(figsize=(5.6 * across + 0.4, 3.7 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (scene, models, samples, noise) in zip(grid, filled, strict=False):
        for model in models:
            _draw(axes, results, scene, model, samples, noise)
        title = f"{scene_title(scene)}, {samples} samples per class, {NOISES[noise]}"
        axes.set_title(title, fontsize=10, color=_INK, loc="left")
        axes.set_xlabel("epoch (logarithmic)", fontsize=9, color=_INK)
        axes.set_ylabel("overall accuracy on test pixels (%)", fontsize=9, color=_INK)
        axes.set_xscale("log")
        last = max(line.get_xdata()[-1] for line in axes.get_lines())
        ticks = [tick for tick in _TICKS if tick <= last]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(1, max(last, 2))
        axes.tick_params(labelsize=8.5, colors=_INK)
        axes.grid(color="#e6e6e6", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_SOFT)
        axes.legend(fontsize=8, frameon=False, loc="lower right", handlelength=3.2)
    for axes in grid[len(filled) :]:
        axes.set_visible(False)
    return figure


def _draw(axes: Axes, results: Results, scene: str, model: str, samples: int, noise: str) -> None:
    curve = results.curve(scene, model, samples, noise)
    if curve is None:
        return
    style = STYLES[model]
    low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
    axes.fill_between(curve.epochs, low, high, color=style.color, alpha=0.15, linewidth=0)
    label = f"{MODELS[model].title} ({curve.runs} run{'s' if curve.runs > 1 else ''})"
    (line,) = axes.plot(curve.epochs, curve.mean, color=style.color, linewidth=1.6, label=label)
    if style.dashes:
        line.set_dashes(style.dashes)
    for epoch in paper.EPOCHS:
        theirs = paper.reported(scene, model, samples, noise, epoch)
        if theirs is not None and epoch <= curve.epochs[-1]:
            axes.plot(epoch, theirs.mean, "x", color=style.color, markersize=6, clip_on=False)


def paper_figures(
    results: Results, scenes: Sequence[str], samples: Sequence[int] = paper.SAMPLES
) -> dict[str, tuple[str, Figure]]:
    """Return the paper's figures that there are runs for: file name -> (title, figure)."""
    first = samples[0]
    crosses = "Crosses: the paper's means."
    level = f"{100 * results.noise_level():.0f} % noise"
    plans: dict[str, tuple[str, list[Panel]]] = {
        "figure-2": (
            f"Figure 2: Rank-R networks, no noise. {crosses}",
            [(scene, RANKS, first, "none") for scene in scenes],
        ),
        "figure-3": (
            f"Figure 3: Rank-R network and CNN, no noise. {crosses}",
            [
                (scene, (paper.rank_beside_cnn(scene, "none"), "cnn"), n, "none")
                for n in samples
                for scene in scenes
            ],
        ),
        "figure-4": (
            f"Figure 4: Rank-R networks with {level}: white noise per pixel (the paper's text) "
            f"and band offset (its code). {crosses}",
            [
                (scene, RANKS, first, noise)
                for scene in scenes
                for noise in ("pixel", "band-offset")
            ],
        ),
        "figure-5": (
            f"Figure 5: Rank-R network and CNN with {level}. {crosses}",
            [
                (scene, (paper.rank_beside_cnn(scene, noise), "cnn"), n, noise)
                for noise in ("pixel", "band-offset")
                for n in samples
                for scene in scenes
            ],
        ),
    }
    drawn = {}
    for name, (title, panels) in plans.items():
        columns = 2 if name != "figure-2" else 3
        figure = curves_figure(results, panels, columns)
        if figure is not None:
            drawn[name] = (title, figure)
    return drawn


def write_figures(figures: dict[str, tuple[str, Figure]], folder: str | os.PathLike[str]) -> None:
    """Write each figure as SVG and PNG."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for name, (_, figure) in figures.items():
        FigureCanvasAgg(figure)
        for ending, stamp in (("svg", {"Date": None}), ("png", {"Software": "polyad"})):
            with replacing(home / f"{name}.{ending}") as temporary:
                figure.savefig(temporary, format=ending, dpi=120, metadata=stamp)
