"""Areas as bars with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from polyad.errors import InputError
from polyad.scene.draw.charts import LIGHT, Theme

_MAPPED = "#EE7733"  # the orange of the palette, told from the blue of the bars by everybody


def area_figure(
    names: Sequence[str],
    areas: npt.ArrayLike,
    intervals: npt.ArrayLike,
    mapped: npt.ArrayLike,
    unit: str = "ha",
    theme: Theme = LIGHT,
) -> Figure:
    """Draw the area of each class as a bar with its 95 % interval, and what the map alone says.

    Parameters
    ----------
    names : sequence of str, length C
    areas : array of float, shape (C,)
        Estimated.
    intervals : array of float, shape (C, 2)
    mapped : array of float, shape (C,)
        Areas by the map alone.
    unit : str
    theme : Theme
    """
    middle, ends, by_map = (np.asarray(a, float) for a in (areas, intervals, mapped))
    n = len(names)
    if middle.shape != (n,) or ends.shape != (n, 2) or by_map.shape != (n,):
        raise InputError(
            f"{n} names want {n} areas, intervals and mapped areas, got shapes {middle.shape}, "
            f"{ends.shape} and {by_map.shape}"
        )
    figure = Figure(figsize=(6.6, 1.2 + 0.4 * n), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(n)
    axes.barh(rows, middle, height=0.62, color=theme.accent, alpha=0.75, label="estimated area")
    reach = np.abs(np.stack([middle - ends[:, 0], ends[:, 1] - middle]))
    axes.errorbar(
        middle, rows, xerr=reach, fmt="none", ecolor=theme.ink, elinewidth=1.6, capsize=4,
        label="95 % interval",
    )  # fmt: skip
    axes.plot(
        by_map, rows, "D", color=_MAPPED, markeredgecolor=theme.ink, markeredgewidth=0.8,
        markersize=6.5, linestyle="none", label="by the map alone", clip_on=False, zorder=4,
    )  # fmt: skip
    short = [name if len(name) <= 32 else name[:31].rstrip() + "…" for name in names]
    axes.set_yticks(rows, short)
    axes.set(ylim=(n - 0.45, -0.55), xlim=(0, None))
    axes.set_xlabel(f"area, {unit}", fontsize=9.5, color=theme.ink)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.axis)
    axes.tick_params(labelsize=9, colors=theme.ink, color=theme.axis, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(
        loc="outside upper left", ncols=3, fontsize=8.5, frameon=False, labelcolor=theme.ink
    )
    return figure
