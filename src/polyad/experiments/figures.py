"""The figures of the paper, and where each model is wrong.

Figures 2 to 5 are accuracy against epochs, mean line and deviation area. Colors are Paul Tol's
"bright" scheme, told apart by color-blind readers; line styles differ too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from polyad.atomic import replacing
from polyad.experiments import paper
from polyad.experiments.records import MapStore
from polyad.experiments.scenes import SceneData, load_scene, scene_title
from polyad.experiments.settings import MODELS, NOISES, PAPER_LEVEL, RANKS, RunSettings
from polyad.experiments.statistics import Cell, Curve, Results
from polyad.scene.draw.color import class_picture, false_color
from polyad.scene.files.benchmark_scenes import KNOWN_SCENES
from polyad.scene.raster.classes import UNLABELED, rgb
from polyad.scene.read.scenes import open_known

Picture = NDArray[np.uint8]
Drawn = dict[str, tuple[str, Figure]]  # file name -> title and figure
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
INK, SOFT = "#333333", "#8a8a8a"
RIGHT, WRONG, TRAINED, NONE = "#c8d6e5", "#b2182b", "#222222", "#ffffff"
TALL = 2.5  # a scene this many times as high as wide is shown lying on its side
CNNS = ("cnn", "cnn-tuned")


STYLES: dict[str, tuple[str, tuple[float, ...]]] = {  # color and dashes of a line
    "rank-1": ("#4477AA", ()),
    "rank-2": ("#EE6677", (6, 2)),
    "rank-3": ("#228833", (2, 1.5)),
    "rank-4": ("#CCBB44", (6, 1.5, 1.5, 1.5)),
    "rank-5": ("#AA3377", (3, 1)),
    "cnn": ("#222222", (8, 2, 2, 2)),
    "cnn-tuned": ("#888888", (4, 1.5)),
    "dense": ("#66CCEE", (4, 2)),
}


class Panel(NamedTuple):
    """One plot of a figure: a title and its curves; without curves its place stays empty."""

    title: str
    curves: dict[Cell, Curve]


def make_panel(
    results: Results, scene: str, models: Sequence[str], samples: int, noise: str
) -> Panel:
    """Return the panel of several models, those that were run."""
    cells = [Cell(scene, model, samples, noise) for model in models]
    curves = {cell: curve for cell in cells if (curve := results.curve(cell)) is not None}
    counts = {curve.runs for curve in curves.values()} or {0}
    runs = "-".join(map(str, sorted({min(counts), max(counts)})))
    return Panel(f"{scene_title(scene)}, {samples} per class, {NOISES[noise]}, {runs} runs", curves)


def curves_figure(panels: Sequence[Sequence[Panel]]) -> Figure | None:
    """Draw accuracy against epochs, one panel in each place of the grid.

    The paper's means after 50 and 500 epochs are crosses of the same color, with its standard
    deviation as a bar. Rows without a single run are left out; None if none is left.
    """
    rows = [row for row in panels if any(panel.curves for panel in row)]
    if not rows:
        return None
    down, across = len(rows), len(rows[0])
    width = max(7.4, 4.6 * across + 1.2)
    figure = Figure(figsize=(width, 3.2 * down + 0.9), layout="constrained")
    places = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes, panel in zip(places.flat, chain(*rows), strict=True):
        if panel.curves:
            _draw_panel(axes, panel)
        else:
            axes.set_axis_off()
    low, high = places[0][0].get_ylim()
    places[0][0].set_ylim(max(low, 0), min(high, 100))
    figure.supylabel("overall accuracy, test pixels (%)", fontsize=9, color=INK)
    figure.legend(
        handles=_handles([cell for panel in chain(*rows) for cell in panel.curves]),
        loc="outside lower center",
        ncols=int(width // 3.4),  # inches: the longest label
        fontsize=8.5,
        frameon=False,
        handlelength=3,
    )
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    last = max([2.0, *(curve.epochs[-1] for curve in panel.curves.values())])
    for place, (cell, curve) in enumerate(panel.curves.items()):
        color, dashes = STYLES[cell.model]
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.epochs, low, high, color=color, alpha=0.15, linewidth=0)
        (line,) = axes.plot(curve.epochs, curve.mean, color=color, linewidth=1.6)
        line.set_dashes(dashes or (None, None))
        aside = 1 + 0.05 * (place - (len(panel.curves) - 1) / 2)  # crosses beside each other
        for epoch in paper.EPOCHS:
            theirs = paper.reported(*cell[:4], epoch)
            if theirs is not None and epoch <= curve.epochs[-1]:
                axes.errorbar(
                    epoch * aside, theirs.mean, theirs.deviation, fmt="x", color=color,
                    markersize=5.5, elinewidth=0.9, capsize=2,
                )  # fmt: skip
    axes.set_title(panel.title, fontsize=9.5, color=INK, loc="left")
    axes.set_xscale("log")
    axes.set_xlabel("epoch (logarithmic)", fontsize=9, color=INK)
    ticks = [tick for tick in _TICKS if tick <= last]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(1, last * 1.25)
    axes.tick_params(labelsize=8.5, colors=INK)
    axes.grid(color="#e6e6e6", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _handles(cells: Sequence[Cell]) -> list[Artist]:
    """Return what the legend explains: each line once, the area, and the paper's crosses."""
    handles: list[Artist] = []
    for model in sorted({cell.model for cell in cells}, key=list(MODELS).index):
        color, dashes = STYLES[model]
        line = Line2D([], [], color=color, linewidth=1.6, label=MODELS[model].title)
        line.set_dashes(dashes or (None, None))
        handles.append(line)
    handles.append(Patch(color=SOFT, alpha=0.3, label="mean ± one standard deviation over runs"))
    if any(paper.reported(*cell[:4], epoch) for cell in cells for epoch in paper.EPOCHS):
        cross = Line2D([], [], color=SOFT, marker="x", linestyle="none")
        cross.set_label("the paper's mean ± its standard deviation")
        handles.append(cross)
    return handles


def paper_figures(results: Results, scenes: Sequence[str], samples: Sequence[int]) -> Drawn:
    """Return Figures 2 to 5 that there are runs for: scenes are columns; noises, samples rows."""
    level, first = f"{100 * PAPER_LEVEL:.0f} % noise", samples[0]
    noises = ("pixel", "band-offset")
    sources = "white noise per pixel (the paper's text) and band offset (its code)"
    declared: tuple[tuple[str, bool, Iterable[tuple[str, int]]], ...] = (
        ("Rank-R networks, no noise", True, [("none", first)]),
        ("Rank-R network and CNNs, no noise", False, product(["none"], samples)),
        (f"Rank-R networks with {level}: {sources}", True, product(noises, [first])),
        (f"Rank-R network and CNNs with {level}", False, product(noises, samples)),
    )
    drawn: Drawn = {}
    for number, (title, ranks, rows) in enumerate(declared, start=2):
        panels = []
        for noise, n in rows:
            models = [RANKS if ranks else (paper.rank_beside_cnn(s, noise), *CNNS) for s in scenes]
            pairs = zip(scenes, models, strict=True)
            panels.append([make_panel(results, scene, shown, n, noise) for scene, shown in pairs])
        if (figure := curves_figure(panels)) is not None:
            legend = "Areas: one standard deviation. Crosses: the paper's means and deviations."
            drawn[f"figure-{number}"] = f"Figure {number}: {title}. {legend}", figure
    return drawn


def write_figures(figures: Drawn, folder: str | os.PathLike[str]) -> None:
    """Write each figure as SVG and PNG."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for name, (_, figure) in figures.items():
        FigureCanvasAgg(figure)
        for ending, stamp in (("svg", {"Date": None}), ("png", {"Software": "polyad"})):
            with replacing(home / f"{name}.{ending}") as temporary:
                figure.savefig(temporary, format=ending, dpi=120, metadata=stamp)


def scenes_figure(scenes: Sequence[str]) -> Drawn:
    """Return Figure 1: each scene in false color beside its ground truth and its classes."""
    if not scenes:
        return {}
    figure = Figure(figsize=(10.5, 3.4 * len(scenes)), layout="constrained")
    places = figure.subplots(len(scenes), 3, squeeze=False, width_ratios=(1, 1, 0.85))
    for (left, middle, right), name in zip(places, scenes, strict=True):
        data = load_scene(name)
        cube = xr.DataArray(data.cube, dims=("y", "x", "band"))
        # a known scene has wavelengths, which say what bands are shown
        image = false_color(open_known(name) if name in KNOWN_SCENES else cube)
        truth = class_picture(data.labels, data.classes)
        truth[data.labels == UNLABELED] = 255
        note = ", turned by 90 degrees" if _is_tall(image) else ""
        _show(left, image, f"{scene_title(name)}{note}")
        _show(middle, truth, "ground truth")
        right.set_axis_off()
        right.legend(
            handles=[Patch(color=c.color, label=c.name) for c in data.classes], loc="center left",
            fontsize=7.5, frameon=False, ncols=1, labelspacing=0.25, borderaxespad=0,
        )  # fmt: skip
    title = "Figure 1: scenes in false color, and their ground truth (white: unlabeled)."
    return {"figure-1": (title, figure)}


def errors_figure(results: Results, scene: str, maps: MapStore, samples: int) -> Drawn:
    """Return where the first run of each model is right and wrong; nothing if there is no map."""
    data, pictures = load_scene(scene), []
    for model, row in MODELS.items():
        cell = Cell(scene, model, samples)
        class_map = maps.load(cell.name)
        runs = [r for r in results.runs(cell) if r.run.seed == 0]
        if class_map is not None and runs:
            picture = errors_picture(data, class_map, runs[0].run)
            pictures.append((f"{row.title}: {100 * runs[0].final.oa:.1f} %", picture))
    if not pictures:
        return {}
    tall = _is_tall(pictures[0][1])
    across = 2 if tall else min(4, len(pictures))
    down = -(-len(pictures) // across)
    figure = Figure(figsize=(11, (1.5 if tall else 2.95) * down + 0.4), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (title, picture) in zip(places, pictures, strict=False):
        _show(axes, picture, title)
    for axes in places[len(pictures) :]:
        axes.set_axis_off()
    names = {RIGHT: "right", WRONG: "wrong", TRAINED: "trained"}
    handles = [Patch(color=color, label=name) for color, name in names.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    title = (
        f"Where each model is wrong, {scene_title(scene)}. The first run, {samples} per class, no "
        "noise: pale is right, red is wrong, black trained, white is not tested."
    )
    return {f"errors-{scene}": (title, figure)}


def errors_picture(
    data: SceneData, class_map: NDArray[np.uint16], settings: RunSettings
) -> Picture:
    """Return the test pixels in the colors of right and wrong, the training pixels in theirs."""
    split, labels = settings.split(data.labels), settings.labels(data.labels)
    picture = np.full((*labels.shape, 3), rgb(NONE), dtype=np.uint8)
    test = tuple(split.test.T)
    right = (class_map == labels)[test]
    picture[test] = np.where(right[:, None], rgb(RIGHT), rgb(WRONG))
    picture[tuple(split.train.T)] = rgb(TRAINED)
    return picture


def _is_tall(picture: Picture) -> bool:
    return picture.shape[0] > TALL * picture.shape[1]


def _show(axes: Axes, picture: Picture, title: str) -> None:
    axes.imshow(np.rot90(picture) if _is_tall(picture) else picture, interpolation="nearest")
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#cccccc")
