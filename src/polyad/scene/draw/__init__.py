"""Scenes, maps and scores as pictures."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.scene.draw.color import class_picture, color_bands, false_color
    from polyad.scene.draw.figures import (
        comparison,
        confusion_figure,
        map_figure,
        reliability_figure,
        spectra_figure,
        to_png,
    )
    from polyad.scene.draw.intervals import area_figure
    from polyad.scene.draw.values import scatter_figure, value_figure

__all__ = [
    "area_figure",
    "class_picture",
    "color_bands",
    "comparison",
    "confusion_figure",
    "false_color",
    "map_figure",
    "reliability_figure",
    "scatter_figure",
    "spectra_figure",
    "to_png",
    "value_figure",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        values="scatter_figure value_figure",
        color="class_picture color_bands false_color",
        figures="comparison confusion_figure map_figure reliability_figure spectra_figure to_png",
        intervals="area_figure",
    )
