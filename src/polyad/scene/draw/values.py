"""Maps of values and what they are worth, as figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.figure import Figure

from polyad.scene.draw.charts import LIGHT, Theme
from polyad.scene.draw.figures import _plain, _scale_bar, _thinned
from polyad.scene.raster.classes import Target

Array = npt.NDArray[np.floating]
COLORS = "viridis"  # even in lightness, and for those who see no red or green
MANY = 3000  # points; more are drawn as counts
_SIDE = 4.2  # inches of a panel
_SMALL, _NORMAL = 8, 9.5  # points


def value_figure(values: xr.DataArray, targets: Sequence[Target]) -> Figure:
    """Draw a map of values with its colors explained, a panel for each target.

    Parameters
    ----------
    values : DataArray of float, dims (y, x, target)
        NaN where there is none, which is left white.
    targets : sequence of Target
        Bounds are the ends of the colors; else the 2nd and 98th percentile.
    """
    values = _thinned(values)
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
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_color(LIGHT.axis)
        axes.set_title(target.title, fontsize=_NORMAL, color=LIGHT.ink, loc="left")
        known = numbers[np.isfinite(numbers)]
        below, above = bool((known < low).any()), bool((known > high).any())
        ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
        extend = ends.get((below, above), "neither")
        bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, extend=extend)
        bar.ax.tick_params(labelsize=_SMALL, colors=LIGHT.ink)
        bar.outline.set_visible(False)
        _scale_bar(axes, values)
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
    _plain(axes, theme)
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
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("pixels", fontsize=_SMALL, color=theme.ink)
        bar.ax.tick_params(labelsize=_SMALL, colors=theme.ink)
        bar.outline.set_visible(False)
    else:
        axes.scatter(
            measured, predicted, s=22, color=theme.accent, alpha=0.7, linewidths=0, zorder=2
        )
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.set_xlabel(f"measured {target.title}", fontsize=_NORMAL, color=theme.ink)
    axes.set_ylabel(f"predicted {target.title}", fontsize=_NORMAL, color=theme.ink)
    if note:
        axes.text(
            0.03, 0.97, note, transform=axes.transAxes, va="top", fontsize=_SMALL, color=theme.ink
        )
    return figure


def _range(numbers: Array, target: Target) -> tuple[float, float]:
    if target.low is not None and target.high is not None:
        return target.low, target.high
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, [0.02, 0.98])
    return (float(low), float(high)) if high > low else (float(low), float(low) + 1.0)
