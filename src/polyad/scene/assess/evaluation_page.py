"""The page about a model on a scene, from plain values and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyad.scene.assess.pages import (
    PageFigure,
    PageImage,
    Picture,
    Themed,
    page_image,
    percent,
    render,
)
from polyad.scene.draw.color import RIGHT, WRONG
from polyad.scene.raster.classes import ClassInfo

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Key of a score, its name for people, and whether it is a share (shown in percent).
_TILES = (
    ("overall_accuracy", "overall accuracy", True),
    ("overall_accuracy_no_overlap", "overall accuracy without overlap", True),
    ("average_accuracy", "average accuracy", True),
    ("kappa", "kappa", False),
    ("expected_calibration_error", "calibration error", True),
)

# Heading and explanation of the figures that a report usually has; others show their own key.
_FIGURES = {
    "spectra": (
        "Mean spectra of the classes",
        "Mean of the labeled pixels of each class and one standard deviation to either side; the "
        "other classes in gray. Classes whose spectra lie on each other are hard to tell apart.",
    ),
    "reliability": (
        "Can its probabilities be trusted?",
        "Of the pixels that the map calls 80 % certain, 80 % should be right: then the points lie "
        "on the dashed line. The larger the point, the more pixels.",
    ),
}


def with_totals(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores with the sums of their confusion matrix.

    Examples
    --------
    >>> with_totals({"confusion_matrix": [[3, 1], [0, 4]]})["confusion_totals"]
    {'reference': [4, 4], 'map': [3, 5], 'all': 8, 'right': 7, 'wrong': 1}
    """
    confusion = scores.get("confusion_matrix")
    if not confusion:
        return dict(scores)
    counts = np.asarray(confusion, np.int64)
    right, whole = int(np.trace(counts)), int(counts.sum())
    return dict(scores) | {
        "confusion_totals": {
            "reference": counts.sum(axis=1).tolist(),
            "map": counts.sum(axis=0).tolist(),
            "all": whole,
            "right": right,
            "wrong": whole - right,
        }
    }


def render_report(
    *,
    title: str,
    summary: str,
    scores: Mapping[str, Any],
    classes: Sequence[ClassInfo],
    facts: Mapping[str, str],
    pictures: Sequence[PageImage] | Mapping[str, Picture],
    figures: Mapping[str, Figure | bytes | Themed],
    record: Mapping[str, Any],
    notes: Sequence[str] = (),
    areas: Mapping[str, Any] | None = None,
) -> str:
    """Return the report as the text of one HTML page.

    Parameters
    ----------
    title : str
        Name of the scene; the accuracy is put behind it.
    summary : str
        What was done, in a few plain sentences.
    scores : mapping
        As `polyad.scene.assess.scores.Scores.to_dict` gives them; what is missing is left out.
    classes : sequence of ClassInfo
        The legend of the pictures.
    facts : mapping of str to str
        Name and value of what matters: scene, labels, window, model.
    pictures : sequence of PageImage, or mapping of str to picture
        Shown beside each other over the legend; by caption, arrays of uint8 (y, x, 3) (see
        `polyad.scene.draw.color`), PNG bytes or figures.
    figures : mapping of str to Figure, PNG bytes or Themed
        Drawn below, each by itself, on white paper unless it is themed. ``spectra`` and
        ``reliability`` come with an explanation; any other key is taken as the heading.
    record : mapping
        As `polyad.scene.assess.provenance.RunRecord.to_dict` gives it.
    notes : sequence of str, optional
        What must be known of the scores, such as classes that are in none of them.
    areas : mapping, optional
        As `polyad.scene.assess.mapped_area.mapped_areas` gives them.

    Returns
    -------
    str
        HTML. All text is escaped, whatever the class names hold.
    """
    accuracy = scores.get("overall_accuracy")
    apart, n_apart = scores.get("overall_accuracy_no_overlap"), scores.get("n_test_no_overlap")
    if isinstance(pictures, Mapping):
        pictures = [page_image(picture, caption) for caption, picture in pictures.items()]
    return render(
        "scene_report.html",
        heading=title if accuracy is None else f"{title}: {percent(accuracy)} right",
        summary=summary,
        tiles=_tiles(scores),
        scores=with_totals(scores),
        overlaps=apart is not None and n_apart != scores.get("n_test"),  # not so on other scenes
        notes=notes,
        pictures=pictures,
        error_colors=(RIGHT, WRONG),
        classes=classes,
        areas=areas,
        facts=facts,
        figures=[page_figure(key, figure) for key, figure in figures.items()],
        record=record,
    )


def _tiles(scores: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: percent(value) if share else f"{value:.3f}"
        for key, name, share in _TILES
        if (value := scores.get(key)) is not None
    }


def page_figure(key: str, figure: Figure | bytes | Themed) -> PageFigure:
    """Return a figure with the heading and the explanation that it usually has."""
    heading, note = _FIGURES.get(key, (key, ""))
    return PageFigure(heading, note, page_image(figure, heading), narrow=key == "reliability")
