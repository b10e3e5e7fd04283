"""The report of a model on a scene: what was done, pictures, scores, spectra, calibration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from polyad.atomic import replacing
from polyad.scene.assess.evaluation import Examination, examine
from polyad.scene.assess.pages import PageFigure, Picture, Themed, page_image, percent, render
from polyad.scene.draw.color import class_picture, false_color
from polyad.scene.draw.figures import DARK, LIGHT, class_spectra, draw_spectra, reliability_figure
from polyad.scene.files.paths import check_output
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.sampling import Split
from polyad.scene.map.mapping import blank_map
from polyad.scene.raster.classes import ClassInfo, class_table, has_own_name
from polyad.scene.raster.dims import as_labels, as_scene

SHOWN_PIXELS = 1000  # along the longer side of a picture: a page must stay light enough to mail


def write_report(
    path: str | os.PathLike[str],
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    split: Split | None = None,
    *,
    title: str,
    command: str,
    adapt: bool | None = None,
    progress: bool = False,
) -> Examination:
    """Evaluate a model as `polyad.scene.evaluate` does, and write a page about it.

    Parameters
    ----------
    path : path-like
        The page, by custom ending in ``.html``.
    model, scene, labels, split, adapt, progress
        See `polyad.scene.evaluate`.
    title : str
        Name of the scene.
    command : str
        The command that does it all again.

    Returns
    -------
    Examination
        The scores and what they were computed from.
    """
    scene, labels = as_scene(scene), as_labels(labels)
    check_output(path, "report")
    model = adapt_model(model, scene, adapt)
    class_map = blank_map(model, scene)
    examination = examine(model, scene, labels, split, whole=class_map.values, progress=progress)
    page = report_page(
        model, scene, class_map, examination, examination.to_dict(),
        title=title, command=command,
    )  # fmt: skip
    with replacing(path) as temporary:  # names of files may be odd
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")
    return examination


def report_page(
    model: SceneModel,
    scene: xr.DataArray,
    class_map: xr.DataArray,
    examination: Examination,
    result: Mapping[str, Any],
    *,
    title: str,
    command: str,
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return the page as HTML; ``facts`` are shown behind those known of every model."""
    scene, class_map = model.view(scene), as_labels(class_map)
    # In the model's ids, so that one legend serves truth and map
    small_scene, truth, small_map = (_thinned(r) for r in (scene, examination.labels, class_map))
    spectra = class_spectra(scene, examination.labels)
    confidence, right = examination.confidence, examination.right
    return render_report(
        title=title,
        summary=_summary(class_map, model, result),
        scores=result,
        classes=_legend(model, examination),
        facts=_facts(scene, model, result) | dict(facts or {}),
        pictures={
            "Scene, false color": false_color(small_scene),
            "Ground truth": class_picture(truth.values, class_table(examination.labels)),
            "Map": class_picture(small_map.values, model.classes),
        },
        figures={
            "spectra": Themed(*(draw_spectra(spectra, theme) for theme in (LIGHT, DARK))),
            "reliability": Themed(
                *(reliability_figure(confidence, right, theme=theme) for theme in (LIGHT, DARK))
            ),
        },
        command=command,
        versions={name: version(name) for name in ("polyad", "torch", "scikit-learn")},
        notes=examination.scores.notes(),
    )


def _legend(model: SceneModel, examination: Examination) -> list[ClassInfo]:
    """Return the classes of the model and, marked, those that only the labels have."""
    present = set(np.unique(examination.labels.values).tolist())
    others = present - {c.value for c in model.classes}
    unknown = [c for c in class_table(examination.labels) if c.value in others]
    marked = [c._replace(name=f"{c.name} (not in the model)") for c in unknown if has_own_name(c)]
    return [*model.classes, *marked, *(c for c in unknown if not has_own_name(c))]


def _summary(class_map: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> str:
    seconds, recipe = result["fit_seconds"], model.recipe
    rank = getattr(model.estimator, "rank", None)
    kind = f"a rank-{rank} network" if rank else f"a {type(model.estimator).__name__}"
    made = kind if recipe is None else f"preset {recipe.preset}, goal {recipe.goal}"
    took = "" if seconds is None else f" in {seconds:.1f} seconds"
    right = f"{100 * result['overall_accuracy']:.1f}\N{NO-BREAK SPACE}%"
    mapped, pixels = int(np.count_nonzero(class_map.values)), class_map.size
    part = "" if mapped == pixels else f"{mapped:,} of "  # the others have no data
    return (
        f"Trained on {result['n_train']:,} labeled pixels{took}: {made}. {part}{pixels:,} pixels "
        f"were mapped in {result['map_seconds']:.2g} seconds. On {result['n_test']:,} labeled "
        f"pixels that were not trained on, the map is right {right} of the time."
    )


def _facts(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> dict[str, str]:
    rows, columns, bands = (scene.sizes[d] for d in ("y", "x", "band"))
    others = "all other labeled ones" + (" of its classes" if result.get("left_out") else "")
    facts = {
        "Scene": f"{rows} rows x {columns} columns, {bands} bands",
        "Training pixels": f"{result['n_train']:,}",
        "Test pixels": f"{result['n_test']:,}, {others}",
        "Window": f"{model.window} x {model.window} pixels",
    }
    if model.recipe is not None:
        facts["Preset"] = f"{model.recipe.preset}, goal {model.recipe.goal}"
    network = getattr(model.estimator, "network_", None)
    if network is not None and hasattr(network, "n_weights"):
        facts["Network"] = (
            f"rank {model.estimator.rank}, {network.hidden.out_features} hidden units, "
            f"{network.n_weights:,} weights"
        )
    if result["fit_seconds"] is not None:
        # The network of a preset is merged from several: its epochs say nothing
        merged = model.recipe is not None and model.recipe.preset != "paper"
        epochs = None if merged else getattr(model.estimator, "n_iter_", None)
        passes = "" if epochs is None else f", {epochs} epochs"
        facts["Training"] = f"{result['fit_seconds']:.2f} s{passes}"
    facts["Mapping"] = f"{result['map_seconds']:.3f} s for the whole scene"
    if model.recipe is not None:
        facts["Steps"] = model.recipe.line
        propagates = any(step["step"] == "propagate" for step in model.recipe.steps)
        if propagates and not model.learned_from(scene):
            facts["Steps"] += "; on this scene, which it was not trained on, the network alone"
    if model.choice is not None:
        facts["By its own labels"] = model.choice.score_line
    if model.untested_line is not None:
        facts["Not tested by these"] = model.untested_line
    if model.adapted is not None:
        facts["Light"] = model.adapted
    return facts


def _thinned(raster: xr.DataArray) -> xr.DataArray:
    """Return every k-th pixel of a large raster; a lazy one is read no further than that."""
    step = -(-max(raster.sizes["y"], raster.sizes["x"]) // SHOWN_PIXELS)
    return raster.isel(y=slice(None, None, step), x=slice(None, None, step))


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
        As `polyad.scene.assess.scores.Scores.to_dict` gives them; what is missing is left out.
    classes : sequence of ClassInfo
        The legend of the pictures.
    facts : mapping of str to str
        Name and value of what matters: scene, labels, window, model, seconds.
    pictures : mapping of str to picture
        Pictures shown beside each other over the legend, by caption: false color, ground truth
        and map as arrays of uint8, shape (y, x, 3) (see `polyad.scene.draw.color`), PNG bytes or
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
    apart, n_apart = scores.get("overall_accuracy_no_overlap"), scores.get("n_test_no_overlap")
    confusion = scores.get("confusion_matrix")
    return render(
        "scene_report.html",
        heading=title if accuracy is None else f"{title}: {percent(accuracy)} right",
        summary=summary,
        tiles=_tiles(scores),
        n_test=scores.get("n_test"),
        n_apart=n_apart,
        overlaps=apart is not None and n_apart != scores.get("n_test"),  # not so on other scenes
        notes=notes,
        pictures=[page_image(picture, caption) for caption, picture in pictures.items()],
        classes=classes,
        facts=facts,
        rows=[_class_row(row) for row in scores.get("classes", [])],
        confusion=None if confusion is None else np.asarray(confusion, dtype=np.int64).tolist(),
        figures=[_figure(key, figure) for key, figure in figures.items()],
        command=command,
        versions=versions or {},
    )


def _tiles(scores: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: percent(value) if share else f"{value:.3f}"
        for key, name, share in _TILES
        if (value := scores.get(key)) is not None
    }


def _class_row(row: Mapping[str, Any]) -> dict[str, Any]:
    info = ClassInfo(int(row["id"]), str(row["name"]), str(row["color"]))
    return {"info": info, **{key: row[key] for key in ("precision", "recall", "f1", "support")}}


def _figure(key: str, figure: Figure | bytes | Themed) -> PageFigure:
    heading, note = _FIGURES.get(key, (key, ""))
    return PageFigure(heading, note, page_image(figure, heading), narrow=key == "reliability")
