"""Figures of scenes, maps and values. Each function returns a new matplotlib ``Figure``.

Nothing here touches pyplot or its global state, so servers and threads may draw too.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from polyad.errors import SceneMismatch
from polyad.scene.draw.charts import LIGHT, Theme, shortened
from polyad.scene.draw.color import BLANK, class_picture, color_bands, false_color
from polyad.scene.raster.classes import UNLABELED, ClassInfo, Target, class_key
from polyad.scene.raster.grid import Grid
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Raster, Scene

_SMALL, _NORMAL, _LARGE = 8, 9.5, 11  # points
_LEGEND = 1.6  # inches
_LISTED_CLASSES = 40  # a legend has no more entries than this
_SHOWN_PIXELS = 1500  # a picture shows no more rows or columns than this
Shown = TypeVar("Shown", bound=Raster)


def to_png(figure: Figure, dpi: int = 150, transparent: bool = False) -> bytes:
    """Return ``figure`` as the bytes of a PNG file; its paper is white unless ``transparent``.

    Characters that the font lacks, as Chinese names may have, are drawn as boxes.
    """
    buffer = io.BytesIO()
    FigureCanvasAgg(figure)
    about = {"Software": "polyad"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from")
        figure.savefig(buffer, format="png", dpi=dpi, transparent=transparent, metadata=about)
    return buffer.getvalue()


def map_figure(class_map: xr.DataArray, title: str | None = None) -> Figure:
    """Draw one class map with its legend and, if it is georeferenced in meters, a scale bar.

    Parameters
    ----------
    class_map : xarray.DataArray of int, dims (y, x)
        A class map or label raster.
    title : str, optional
        Title above the map.
    """
    shown = _thinned(Labels.of(class_map))
    figure, (axes,) = _panels(shown.array, 1)
    _show(axes, class_picture(shown.ids, shown.classes), title)
    _scale_bar(axes, shown.grid)
    _legend(figure, shown.classes, bool((shown.ids == UNLABELED).any()))
    return figure


def comparison(
    scene: xr.DataArray,
    truth: xr.DataArray,
    class_map: xr.DataArray,
    *,
    map_title: str = "Map",
    truth_title: str = "Ground truth",
) -> Figure:
    """Draw a scene in false color, its ground truth and its map side by side, with one legend.

    Wide scenes are stacked instead.

    Parameters
    ----------
    scene : xarray.DataArray, dims (y, x, band)
        The scene.
    truth, class_map : xarray.DataArray of int, dims (y, x)
        Known and predicted class ids.
    map_title, truth_title : str
        Titles, for example with the number of labels or the accuracy.
    """
    whole, known, mapped = Scene.of(scene), Labels.of(truth), Labels.of(class_map)
    for what, raster in (("ground truth", known), ("map", mapped)):
        if raster.shape != whole.shape[:2]:
            raise SceneMismatch(
                f"expected a {what} of the scene's {whole.shape[:2]} rows and columns, got "
                f"{raster.shape}; pass rasters of the same scene"
            )
    shown, known, mapped = _thinned(whole), _thinned(known), _thinned(mapped)
    classes = tuple(sorted({*known.classes, *mapped.classes}))
    figure, panels = _panels(shown.array, 3)
    bands = color_bands(shown)
    _show(panels[0], false_color(shown, bands), "False color")
    panels[0].set_xlabel(_caption(whole, bands), fontsize=_SMALL, color=LIGHT.soft)
    _show(panels[1], class_picture(known.ids, classes), truth_title)
    _show(panels[2], class_picture(mapped.ids, classes), map_title)
    _scale_bar(panels[0], shown.grid)
    _legend(figure, classes, any((r.ids == UNLABELED).any() for r in (known, mapped)))
    return figure


def _panels(raster: xr.DataArray, count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels of the shape of ``raster``, in a row or a column."""
    height, width = raster.sizes["y"], raster.sizes["x"]
    stacked = count > 1 and width > 2 * height
    widest, highest = (9.0, 3.0) if stacked else (3.5 if count > 1 else 6.5, 7.0)  # inches
    scale = min(widest / width, highest / height)
    panel_width, panel_height = max(2.2, scale * width), max(0.8, scale * height)
    across, down = (1, count) if stacked else (count, 1)
    size = (max(6.0, across * panel_width + 0.4), down * (panel_height + 0.4) + _LEGEND)
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(down, across, squeeze=False).ravel())


def _show(axes: Axes, picture: npt.NDArray[np.uint8], title: str | None) -> None:
    axes.imshow(picture, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#CCCCCC")
    if title:
        axes.set_title(title, fontsize=_LARGE, color=LIGHT.ink, pad=6)


def _color_bar(
    figure: Figure,
    axes: Axes,
    image: ScalarMappable,
    theme: Theme,
    label: str = "",
    extend: str = "neither",
) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, extend=extend)
    bar.set_label(label, fontsize=_SMALL, color=theme.ink)
    bar.ax.tick_params(labelsize=_SMALL, colors=theme.ink)
    bar.outline.set_visible(False)


def _legend(figure: Figure, classes: Sequence[ClassInfo], blank: bool) -> None:
    listed = classes[:_LISTED_CLASSES]
    names = [shortened(class_key(c), 32) for c in listed]
    patches = [Patch(facecolor=c.color, label=n) for c, n in zip(listed, names, strict=True)]
    if len(classes) > len(listed):
        patches.append(Patch(alpha=0, label=f"and {len(classes) - len(listed)} more"))
    if blank:
        gray = "#{:02X}{:02X}{:02X}".format(*BLANK)
        patches.append(Patch(facecolor=gray, edgecolor="#BBBBBB", label="no class"))
    # About 0.075 inch for each letter, and the chip; each column is as wide as its longest name.
    longest = 0.7 * max((len(n) for n in names), default=8)
    columns = int(np.clip(figure.get_figwidth() // (0.075 * longest + 0.6), 1, 6))
    rows = -(-len(patches) // columns)
    figure.set_figheight(figure.get_figheight() - _LEGEND + 0.2 * rows + 0.25)
    figure.legend(
        handles=patches, loc="outside lower center", ncols=columns, frameon=False,
        fontsize=_SMALL, labelcolor=LIGHT.ink, handlelength=1.2, handleheight=1.0,
        columnspacing=1.4,
    )  # fmt: skip


def _scale_bar(axes: Axes, grid: Grid) -> None:
    """Draw a bar of a round length, about a quarter of the width, if the map is in meters."""
    crs, transform, (height, width) = grid.crs, grid.transform, grid.shape
    if crs is None or transform is None or not crs.is_projected:
        return
    meters = float(np.hypot(transform.a, transform.d)) * crs.linear_units_factor[1]
    wanted = 0.25 * width * meters
    step = 10.0 ** np.floor(np.log10(wanted))
    length = max(s * step for s in (1, 2, 5) if s * step <= wanted)
    text = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    left, bottom = 0.05 * width, 0.94 * height
    right = left + length / meters
    for color, thick in (("white", 5.0), ("black", 2.0)):
        axes.plot([left, right], [bottom, bottom], color=color, linewidth=thick)
    axes.text((left + right) / 2, bottom - 0.02 * height, text, ha="center", va="bottom",
              fontsize=_SMALL, color="black",
              bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1})  # fmt: skip


def _caption(scene: Scene, bands: Sequence[int]) -> str:
    rows, columns, _ = scene.shape
    if scene.bands.wavelength is not None:
        shown = ", ".join(f"{scene.bands.wavelength[b]:.0f}" for b in bands) + " nm"
    else:
        shown = "bands " + ", ".join(str(b + 1) for b in bands)
    return f"{rows} rows x {columns} columns; {shown}"


def _thinned(raster: Shown) -> Shown:
    """Return every k-th pixel of a large raster: more than a figure can show is not read."""
    side = max(raster.array.sizes[d] for d in ("y", "x"))
    step = slice(None, None, max(1, side // _SHOWN_PIXELS))
    return replace(raster, array=raster.array.isel(y=step, x=step))


Array = npt.NDArray[np.floating]
COLORS = "viridis"  # even in lightness, and for those who see no red or green
MANY = 3000  # points; more are drawn as counts
_SIDE = 4.2  # inches of a panel


def value_figure(values: xr.DataArray, targets: Sequence[Target]) -> Figure:
    """Draw a map of a regression target with its colors explained, a panel for each target.

    Parameters
    ----------
    values : DataArray of float, dims (y, x, target)
        NaN where there is none, which is left white.
    targets : sequence of Target
        Bounds are the ends of the colors; else the 2nd and 98th percentile.
    """
    shown = _thinned(Raster(values))
    values = shown.array
    height, width = values.sizes["y"], values.sizes["x"]
    tall = min(max(_SIDE * height / width, 1.5), 9.0)
    across = min(len(targets), 3)
    down = math.ceil(len(targets) / across)
    size = (across * (_SIDE + 0.9), down * (tall + 0.5))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(targets) :]:
        axes.set_axis_off()
    for k, (axes, target) in enumerate(zip(panels, targets, strict=False)):
        numbers = values.isel(target=k).values
        low, high = _range(numbers, target)
        image = axes.imshow(numbers, cmap=COLORS, vmin=low, vmax=high, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color(LIGHT.axis)
        axes.set_title(target.title, fontsize=_NORMAL, color=LIGHT.ink, loc="left")
        below, above = bool((numbers < low).any()), bool((numbers > high).any())  # not NaN
        extend = ("neither", "max", "min", "both")[2 * below + above]
        _color_bar(figure, axes, image, LIGHT, extend=extend)
        _scale_bar(axes, shown.grid)
    return figure


def scatter_figure(
    measured: Array, predicted: Array, target: Target, *, note: str = "", theme: Theme = LIGHT
) -> Figure:
    """Draw predicted against measured values, with the line on which they would be equal.

    Parameters
    ----------
    measured, predicted : ndarray, ``(n,)``
    target : Target
    note : str
        A few words in the corner, such as R2.
    theme : Theme
    """
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.axis)
    axes.tick_params(labelsize=_SMALL, colors=theme.ink, color=theme.axis, length=3)
    axes.grid(color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    ends = np.concatenate([measured, predicted])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.04 * ((high - low) or 1.0)
    low, high = low - margin, high + margin
    axes.plot([low, high], [low, high], color=theme.soft, linewidth=1, zorder=1)
    if len(measured) > MANY:
        drawn = axes.hexbin(
            measured, predicted, gridsize=50, bins="log", mincnt=1, cmap=COLORS,
            extent=(low, high, low, high),
        )  # fmt: skip
        _color_bar(figure, axes, drawn, theme, "pixels")
    else:
        axes.scatter(
            measured, predicted, s=22, color=theme.accent, alpha=0.7, linewidths=0, zorder=2
        )
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set_xlabel(f"measured {target.title}", fontsize=_NORMAL, color=theme.ink)
    axes.set_ylabel(f"predicted {target.title}", fontsize=_NORMAL, color=theme.ink)
    where = axes.transAxes
    axes.text(0.03, 0.97, note, transform=where, va="top", fontsize=_SMALL, color=theme.ink)
    return figure


def _range(numbers: Array, target: Target) -> tuple[float, float]:
    if target.low is not None and target.high is not None:
        return target.low, target.high
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, [0.02, 0.98])
    return (float(low), float(high)) if high > low else (float(low), float(low) + 1.0)
