"""Figures of scenes, maps and scores. Each function returns a new matplotlib ``Figure``.

Nothing here touches pyplot or its global state, so servers and threads may draw too.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from polyad.errors import InputError, SceneMismatch
from polyad.scene.draw.charts import (
    LIGHT,
    Theme,
    class_spectra,
    reliability_bins,
    shortened,
)
from polyad.scene.draw.color import BLANK, class_picture, color_bands, false_color
from polyad.scene.raster.classes import UNLABELED, ClassInfo, class_key, class_table
from polyad.scene.raster.grid import georeference
from polyad.scene.raster.scene import as_labels, as_scene

_INK, _SOFT = LIGHT.ink, LIGHT.soft
_SMALL, _NORMAL, _LARGE = 8, 9.5, 11  # points
_LISTED_CLASSES = 40  # a legend has no more entries than this
_SHOWN_PIXELS = 1500  # a picture shows no more rows or columns than this


def to_png(figure: Figure, dpi: int = 150, transparent: bool = False) -> bytes:
    """Return ``figure`` as the bytes of a PNG file; its paper is white unless ``transparent``."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure)
    about = {"Software": "polyad"}
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
    class_map = _thinned(as_labels(class_map))
    classes = class_table(class_map)
    figure, (axes,) = _panels(class_map, 1)
    _show(axes, class_picture(class_map.values, classes), title)
    _scale_bar(axes, class_map)
    _legend(figure, classes, _any_blank(class_map))
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
    scene, truth, class_map = as_scene(scene), as_labels(truth), as_labels(class_map)
    for what, raster in (("ground truth", truth), ("map", class_map)):
        if _size(raster) != _size(scene):
            raise SceneMismatch(
                f"the scene has {_size(scene)} rows and columns, the {what} has {_size(raster)}; "
                "pass rasters of the same scene"
            )
    truth, class_map = (_thinned(r.transpose("y", "x")) for r in (truth, class_map))
    classes = tuple(sorted({*class_table(truth), *class_table(class_map)}))
    whole = scene
    scene = _thinned(scene)
    figure, panels = _panels(scene, 3)
    bands = color_bands(scene)
    _show(panels[0], false_color(scene, bands), "False color")
    panels[0].set_xlabel(_caption(whole, bands), fontsize=_SMALL, color=_SOFT)
    _show(panels[1], class_picture(truth.values, classes), truth_title)
    _show(panels[2], class_picture(class_map.values, classes), map_title)
    _scale_bar(panels[0], scene)
    _legend(figure, classes, _any_blank(truth) or _any_blank(class_map))
    return figure


def spectra_figure(scene: xr.DataArray, labels: xr.DataArray) -> Figure:
    """Draw the mean spectrum of each class, with a band of one standard deviation.

    Each class has its own panel, with the other means in gray behind it.

    Parameters
    ----------
    scene : xarray.DataArray, dims (y, x, band)
        The scene, with a ``wavelength`` coordinate in nm if known.
    labels : xarray.DataArray of int, dims (y, x)
        Class ids.
    """
    classes, axis, means, spreads, name = class_spectra(scene, labels)
    columns = min(4, len(classes))
    rows = -(-len(classes) // columns)
    figure = Figure(
        figsize=(2.4 * columns + 0.8, max(1.55 * rows + 0.7, 2.9)), layout="constrained"
    )
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for k, (axes, info) in enumerate(zip(panels, classes, strict=False)):
        axes.plot(axis, np.delete(means, k, axis=0).T, color=LIGHT.faint, linewidth=0.6)
        color = info.color
        low, high = means[k] - spreads[k], means[k] + spreads[k]
        axes.fill_between(axis, low, high, color=color, alpha=0.4, linewidth=0)
        axes.plot(axis, means[k], color=color, linewidth=1.2)
        title = shortened(class_key(info), 34)
        axes.set_title(title, fontsize=_SMALL, color=_INK, loc="left", pad=3)
        _plain(axes, LIGHT)
    for axes in panels[len(classes) :]:
        axes.set_visible(False)
    figure.supxlabel(name, fontsize=_NORMAL, color=_INK)
    figure.supylabel("value (mean ± standard deviation)", fontsize=_NORMAL, color=_INK)
    return figure


def confusion_figure(confusion: npt.ArrayLike, names: Sequence[str]) -> Figure:
    """Draw a confusion matrix: counts, colored by the share of the true class.

    Parameters
    ----------
    confusion : array of int, shape (C, C)
        Test pixels; rows are true classes, columns are predicted ones.
    names : sequence of str, length C
        Class names.
    """
    counts = np.asarray(confusion, dtype=np.int64)
    n = len(names)
    if counts.shape != (n, n):
        raise InputError(f"{n} class names do not fit a confusion matrix of shape {counts.shape}")
    totals = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    side = 0.4 * n + 2.6
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    labels = [shortened(name, 28) for name in names]
    axes.set_xticks(range(n), labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), labels)
    axes.tick_params(labelsize=_SMALL, length=0, colors=_INK)
    axes.set_xlabel("predicted class", fontsize=_NORMAL, color=_INK)
    axes.set_ylabel("true class", fontsize=_NORMAL, color=_INK)
    axes.set_xticks(np.arange(n + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    for row, column in zip(*np.nonzero(counts), strict=True):
        color = "white" if share[row, column] > 0.55 else _INK
        text = f"{counts[row, column]}"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=color)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label("share of the true class", fontsize=_SMALL, color=_INK)
    bar.ax.tick_params(labelsize=_SMALL, colors=_INK)
    bar.outline.set_visible(False)
    return figure


def reliability_figure(
    confidence: npt.ArrayLike, right: npt.ArrayLike, bins: int = 10, theme: Theme = LIGHT
) -> Figure:
    """Draw how often the map is right against its confidence (a reliability diagram).

    Parameters
    ----------
    confidence : array of float, shape (n,)
        Probability of the predicted class of each test pixel.
    right : array of bool, shape (n,)
        Whether that class is the true one.
    bins : int
        Equally wide bins of confidence.
    theme : Theme
    """
    count, mean_sure, accuracy = reliability_bins(confidence, right, bins)
    filled, total = count > 0, count.sum()
    figure = Figure(figsize=(4.6, 4.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    upper.plot(
        [0, 1], [0, 1], color=theme.soft, linestyle="--", linewidth=1, label="perfectly calibrated"
    )
    upper.vlines(mean_sure, mean_sure, accuracy, color="#EE7733", alpha=0.6, linewidth=3,
                 label="gap")  # fmt: skip
    upper.plot(mean_sure, accuracy, "-", color=theme.accent, linewidth=1.2, label="this map")
    weight = 12 + 150 * count[filled] / total  # a bin of few pixels says little
    upper.scatter(mean_sure, accuracy, s=weight, color=theme.accent, zorder=3, clip_on=False)
    upper.set(ylim=(0, 1), xlim=(0, 1))
    upper.set_ylabel("share that is right", fontsize=_NORMAL, color=theme.ink)
    upper.legend(fontsize=_SMALL, frameon=False, loc="upper left", labelcolor=theme.ink)
    lower.bar((np.arange(bins) + 0.5) / bins, count / total, width=0.9 / bins, color=theme.accent)
    lower.set_ylabel("share of\ntest pixels", fontsize=_NORMAL, color=theme.ink)
    lower.set_xlabel("probability of the predicted class", fontsize=_NORMAL, color=theme.ink)
    for axes in (upper, lower):
        _plain(axes, theme)
    return figure


def _panels(raster: xr.DataArray, count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels of the shape of ``raster``, in a row or a column."""
    height, width = _size(raster)
    stacked = count > 1 and width > 2 * height
    longest = 3.5 if count > 1 and not stacked else 6.5  # inches
    if stacked:
        longest = 9.0
    scale = min(longest / width, (7.0 if not stacked else 3.0) / height)
    panel_width, panel_height = max(2.2, scale * width), max(0.8, scale * height)
    across, down = (1, count) if stacked else (count, 1)
    legend = 1.6
    size = (max(6.0, across * panel_width + 0.4), down * (panel_height + 0.4) + legend)
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(down, across, squeeze=False).ravel())


def _show(axes: Axes, picture: npt.NDArray[np.uint8], title: str | None) -> None:
    axes.imshow(picture, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#CCCCCC")
    if title:
        axes.set_title(title, fontsize=_LARGE, color=_INK, pad=6)


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
    figure.set_figheight(figure.get_figheight() - 1.6 + 0.2 * rows + 0.25)
    figure.legend(
        handles=patches, loc="outside lower center", ncols=columns, frameon=False,
        fontsize=_SMALL, labelcolor=_INK, handlelength=1.2, handleheight=1.0, columnspacing=1.4,
    )  # fmt: skip


def _scale_bar(axes: Axes, raster: xr.DataArray) -> None:
    """Draw a bar of a round length, about a quarter of the width, if the map is in meters."""
    crs, transform = georeference(raster)
    height, width = _size(raster)
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


def _caption(scene: xr.DataArray, bands: Sequence[int]) -> str:
    rows, columns = _size(scene)
    if "wavelength" in scene.coords:
        shown = ", ".join(f"{float(scene['wavelength'][b]):.0f}" for b in bands) + " nm"
    else:
        shown = "bands " + ", ".join(str(b + 1) for b in bands)
    return f"{rows} rows x {columns} columns; {shown}"


def _plain(axes: Axes, theme: Theme) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.axis)
    axes.tick_params(labelsize=_SMALL, colors=theme.ink, color=theme.axis, length=3)
    axes.grid(color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)


def _size(raster: xr.DataArray) -> tuple[int, int]:
    return raster.sizes["y"], raster.sizes["x"]


def _thinned(raster: xr.DataArray) -> xr.DataArray:
    """Return every k-th pixel of a large raster: more than a figure can show is not read."""
    step = max(1, max(_size(raster)) // _SHOWN_PIXELS)
    return raster.isel(y=slice(None, None, step), x=slice(None, None, step))


def _any_blank(raster: xr.DataArray) -> bool:
    return bool((raster.values == UNLABELED).any())
