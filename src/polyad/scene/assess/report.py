"""Reports about a training, an evaluation and the areas of a map, of classes and of regression.

Each ``write_...report`` gathers figures, pictures and facts and fills one template of
`polyad.scene.assess.pages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import to_hex

from polyad.errors import SceneError
from polyad.scene.assess.areas import AreaEstimates, interval
from polyad.scene.assess.evaluation import Examination, ValueExamination, examine
from polyad.scene.assess.pages import (
    PageFigure,
    PageImage,
    Picture,
    Reports,
    RunRecord,
    Themed,
    check_reports,
    page_image,
    percent,
    record_run,
    render,
    write_page,
)
from polyad.scene.draw.charts import (
    DARK,
    LIGHT,
    class_spectra,
    overlay_points,
    reliability_chart,
    spectra_chart,
)
from polyad.scene.draw.color import (
    RIGHT,
    WRONG,
    class_picture,
    error_picture,
    false_color,
    see_through,
)
from polyad.scene.draw.figures import COLORS, scatter_figure
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.recipe import Recipe
from polyad.scene.learn.sampling import Split
from polyad.scene.map.mapping import blank_map
from polyad.scene.raster.classes import (
    ClassInfo,
    Target,
    as_values,
    class_table,
    class_totals,
    has_own_name,
    with_classes,
)
from polyad.scene.raster.grid import HECTARE, grid_of, row_areas
from polyad.scene.raster.scene import as_labels, as_scene
from polyad.scene.read.classes import with_legend
from polyad.scene.read.samples import SamplePoints, look_up

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
        As `polyad.scene.assess.pages.RunRecord.to_dict` gives it.
    notes : sequence of str, optional
        What must be known of the scores, such as classes that are in none of them.
    areas : mapping, optional
        As `polyad.scene.assess.report.mapped_areas` gives them.

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


# Areas by the map alone: pixels counted, and the ground that they cover.


def mapped_areas(class_map: xr.DataArray) -> dict[str, Any]:
    """Count the pixels of each class of a map.

    Returns
    -------
    dict
        ``pixels`` and ``hectares`` of all that have a class, ``without_class`` in pixels, a
        ``note`` and ``classes``, each with ``pixels``, ``share`` of those with a class, and
        ``hectares``, None where the reference system does not tell.

    Examples
    --------
    >>> mapped_areas(xr.DataArray(np.array([[1, 1], [0, 2]]), dims=("y", "x")))["pixels"]
    3
    """
    class_map = as_labels(class_map).transpose("y", "x")
    areas, note = None, "The map does not say its reference system: areas are in pixels."
    try:
        areas = row_areas(grid_of(class_map))
    except SceneError as error:
        note = f"Areas are in pixels: {error}."
    weights = np.ones(class_map.sizes["y"]) if areas is None else areas / HECTARE
    _, _, counts, hectares, _ = class_totals(class_map, class_map, weights)
    total, known = int(counts.sum()), areas is not None
    rows = [
        {
            "id": info.value,
            "name": info.name,
            "color": info.color,
            "pixels": int(counts[info.value]),
            "share": counts[info.value] / total if total else 0.0,
            "hectares": float(hectares[info.value]) if known else None,
        }
        for info in class_table(class_map)
    ]
    return {
        "pixels": total,
        "without_class": class_map.size - total,
        "hectares": float(hectares.sum()) if known else None,
        "classes": rows,
        "note": "" if known else note,
    }


# What a model is and how it was made, in words for a page and as plain values.


def model_facts(model: SceneModel, scene: xr.DataArray | None = None) -> dict[str, str]:
    """Return name and value of what a reader asks first; ``scene`` is the one that is mapped."""
    facts = {"Window": f"{model.window} x {model.window} pixels"}
    if model.recipe is not None:
        facts["Preset"] = f"{model.recipe.preset}, goal {model.recipe.goal}"
    network = getattr(model.estimator, "network_", None)
    if network is not None and hasattr(network, "n_weights"):
        facts["Network"] = (
            f"rank {network.hidden.rank}, {network.hidden.out_features} hidden units, "
            f"{network.n_weights:,} weights"
        )
    # The network of a preset is merged from several: its epochs say nothing
    epochs = None if _merged(model) else getattr(model.estimator, "n_iter_", None)
    if epochs is not None:
        facts["Training"] = f"{epochs} epochs"
    if model.recipe is not None:
        facts["Steps"] = _steps(model, model.recipe, scene)
    if model.score_line is not None:
        facts["By its own labels"] = model.score_line
    if model.untested_line is not None:
        facts["Not tested by these"] = model.untested_line
    if model.spectral.left_out is not None:
        facts["Bands left out"] = model.spectral.left_out
    if model.training.replaced:
        told = f"{model.training.replaced:,}, replaced by their neighbors"
        facts["Corrupt pixels of the training scene"] = told
    if model.adapted is not None:
        facts["Light"] = model.adapted
    return facts


def _steps(model: SceneModel, recipe: Recipe, scene: xr.DataArray | None) -> str:
    """Return the steps in words, and what is left out of them on a scene that is another one."""
    if scene is None or recipe.propagation is None or model.learned_from(scene):
        return recipe.line
    return f"{recipe.line}; on this scene, which it was not trained on, the network alone"


def _merged(model: SceneModel) -> bool:
    """Whether the network is merged from several, whose settings are those of the steps."""
    return model.recipe is not None and model.recipe.preset != "paper"


# The report of a model on a scene: what was done, pictures, scores, spectra, calibration.


SHOWN_PIXELS = 1000  # along the longer side of a picture: a page must stay light enough to mail


def write_report(
    path: Reports,
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    split: Split | None = None,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    adapt: bool | None = None,
    coverage: float | None = None,
    progress: bool = False,
) -> Examination:
    """Evaluate a model as `polyad.scene.evaluate` does, and write a report about it.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The page, by custom ``.html``.
    model, scene, labels, split, adapt, progress
        See `polyad.scene.evaluate`.
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files as `polyad.scene.record_run` records them, instead of
        ``command`` alone.
    coverage : float, optional
        Score prediction sets of this level too.

    Returns
    -------
    Examination
        The scores and what they were computed from.
    """
    scene, labels = as_scene(scene), as_labels(labels)
    check_reports(path)
    model = adapt_model(model, scene, adapt)
    class_map = blank_map(model, scene)
    examination = examine(
        model, scene, labels, split, whole=class_map.values, coverage=coverage, progress=progress
    )
    about = About(title, record_run(command) if record is None else record)
    write_page(path, report_page(model, scene, class_map, examination, about))
    return examination


@dataclass(frozen=True)
class About:
    """What a page is called, what was run, and facts shown behind those known of every model."""

    title: str
    record: RunRecord
    facts: Mapping[str, str] = field(default_factory=dict)


def report_page(
    model: SceneModel,
    scene: xr.DataArray,
    class_map: xr.DataArray,
    examination: Examination,
    about: About,
) -> str:
    """Return the page about a model on a scene as HTML."""
    scene, class_map = model.view(scene), as_labels(class_map)
    scores = examination.to_dict()
    spectra = class_spectra(scene, examination.labels)
    certain = (examination.confidence, examination.right)
    return render_report(
        title=about.title,
        summary=_summary(class_map, model, scores),
        notes=examination.scores.notes(),
        scores=scores,
        areas=mapped_areas(class_map),
        facts=_facts(scene, model, scores) | dict(about.facts),
        record=about.record.to_dict(),
        classes=_legend(model, examination),
        pictures=_pictures(model, scene, class_map, examination),
        figures={
            "spectra": Themed(*(spectra_chart(spectra, theme) for theme in (LIGHT, DARK))),
            "reliability": Themed(
                *(reliability_chart(*certain, theme=theme) for theme in (LIGHT, DARK))
            ),
        },
    )


def _pictures(
    model: SceneModel, scene: xr.DataArray, class_map: xr.DataArray, examination: Examination
) -> list[PageImage]:
    labels, split = examination.labels, examination.split
    shape = (class_map.sizes["y"], class_map.sizes["x"])
    scored = np.zeros(shape, bool)
    scored[tuple(split.test.T)] = True
    marked = xr.DataArray(scored, dims=("y", "x"))
    # In the model's ids, so that one legend serves truth and map
    small, truth, ids, counted = (
        thinned(raster.transpose("y", "x", ...)) for raster in (scene, labels, class_map, marked)
    )
    known, mapped = truth.values, ids.values
    colors = {c.value: c.color for c in class_table(labels)}
    colors |= {c.value: c.color for c in model.classes}
    taught = labels.transpose("y", "x").values[tuple(split.train.T)]
    points = overlay_points(split.train, taught, colors, shape)
    plain = overlay_points(split.train, np.ones(len(split.train)), {1: "#111111"}, shape)
    with_points = "" if points is None else " with training points"
    truth_picture = see_through(class_picture(known, class_table(labels)), known == 0)
    map_picture = see_through(class_picture(mapped, model.classes), mapped == 0)
    errors = error_picture(known, mapped, counted.values)
    return [
        page_image(false_color(small), "Scene, false color"),
        page_image(truth_picture, "Ground truth"),
        page_image(map_picture, f"Map{with_points}", points=points),
        page_image(errors, f"Errors{with_points}", points=plain),
    ]


def _legend(model: SceneModel, examination: Examination) -> list[ClassInfo]:
    """Return the classes of the model and, marked, those that only the labels have."""
    present = set(np.unique(examination.labels.values).tolist())
    others = present - {c.value for c in model.classes}
    unknown = [c for c in class_table(examination.labels) if c.value in others]
    marked = [c._replace(name=f"{c.name} (not in the model)") for c in unknown if has_own_name(c)]
    return [*model.classes, *marked, *(c for c in unknown if not has_own_name(c))]


def _summary(class_map: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> str:
    recipe = model.recipe
    rank = getattr(model.estimator, "rank", None)
    kind = f"a rank-{rank} network" if rank else f"a {type(model.estimator).__name__}"
    made = kind if recipe is None else f"preset {recipe.preset}, goal {recipe.goal}"
    right = f"{100 * result['overall_accuracy']:.1f}\N{NO-BREAK SPACE}%"
    mapped, pixels = int(np.count_nonzero(class_map.values)), class_map.size
    part = "" if mapped == pixels else f"{mapped:,} of "  # the others have no data
    return (
        f"Trained on {result['n_train']:,} labeled pixels: {made}. {part}{pixels:,} pixels "
        f"were mapped. On {result['n_test']:,} labeled pixels that were not trained on, the map is "
        f"right {right} of the time."
    )


def _facts(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> dict[str, str]:
    others = "all other labeled ones" + (" of its classes" if result.get("left_out") else "")
    return {
        "Scene": scene_size(scene),
        "Training pixels": f"{result['n_train']:,}",
        "Test pixels": f"{result['n_test']:,}, {others}",
        **model_facts(model, scene),
        **_sets(result),
    }


def _sets(result: Mapping[str, Any]) -> dict[str, str]:
    """Return what prediction sets held, beside what they promised, if they were asked for."""
    if "measured_coverage" not in result:
        return {}
    held, promised = (100 * result[f"{key}_coverage"] for key in ("measured", "promised"))
    said = f"{held:.1f} % of the sets of test pixels hold the true class, {promised:g} % promised"
    return {"Prediction sets": f"{said}; {result['mean_set_size']:.2f} classes in a set"}


def scene_size(scene: xr.DataArray) -> str:
    """Return rows, columns and bands in words."""
    rows, columns, bands = (scene.sizes[d] for d in ("y", "x", "band"))
    return f"{rows} rows x {columns} columns, {bands} bands"


def thinned(raster: xr.DataArray) -> xr.DataArray:
    """Return every k-th pixel of a large raster; a lazy one is read no further than that."""
    step = -(-max(raster.sizes["y"], raster.sizes["x"]) // SHOWN_PIXELS)
    return raster.isel(y=slice(None, None, step), x=slice(None, None, step))


# The report of a training: what was learned from which labels, and how well it does on them.


def write_training_report(
    path: Reports,
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    merge: str | Sequence[str] | None = None,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write a report about a model and the labels that it was trained on.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The page, by custom ``.html``.
    model : SceneModel
        Just trained.
    scene, labels : DataArray
        What it was trained on.
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files as `polyad.scene.record_run` records them, instead of
        ``command`` alone.
    merge : str or sequence of str, optional
        Rules by which the labels were merged before they were learned.
    facts : mapping of str to str, optional
        Shown behind those known of every model, such as the seed.
    """
    check_reports(path)
    record = record_run(command) if record is None else record
    scene, labels = model.view(as_scene(scene)), as_labels(labels).transpose("y", "x")
    labels = with_classes(with_legend(labels, merge or ()), model.classes)
    shape = (labels.sizes["y"], labels.sizes["x"])
    pixels = model.training_pixels(shape)
    ids = labels.values[tuple(pixels.T)]
    used = labels.copy(data=labels.values * 0)
    used.values[tuple(pixels.T)] = ids
    spectra = class_spectra(scene, used)
    points = overlay_points(pixels, ids, {c.value: c.color for c in model.classes}, shape)
    picture = false_color(thinned(scene.transpose("y", "x", "band")))
    themed = Themed(*(spectra_chart(spectra, theme) for theme in (LIGHT, DARK)))
    accuracy = accuracy_content(model)
    page = render(
        "training_report.html",
        heading=f"{title}: trained on {len(pixels):,} labels",
        summary=_summary_training_report(model, len(pixels)),
        tiles=_tiles_training_report(accuracy, len(pixels)),
        accuracy=accuracy,
        labels=_label_rows(model),
        n_train=len(pixels),
        picture=page_image(picture, "Scene with training points", points=points),
        figures=[page_figure("spectra", themed)],
        facts={"Scene": scene_size(scene), **model_facts(model), **dict(facts or {})},
        record=record.to_dict(),
    )
    write_page(path, page)


def accuracy_content(model: SceneModel) -> dict[str, Any]:
    """Return what the labels themselves say of the accuracy; mostly None where they say nothing."""
    choice = model.choice
    told: dict[str, Any] = {
        "line": model.score_line,
        "not_tested": model.untested_line,
        "overall_accuracy": None if choice is None else choice.overall,
        "overall_accuracy_ci95": None if choice is None else choice.interval,
        "average_accuracy": None if choice is None else choice.average,
        "labels": None if choice is None else choice.labels,
    }
    found = getattr(model, "accuracy", None)  # of a cross-validation
    if found is None or found.spatial is None:
        return told | {"folds": None}
    spatial = found.spatial
    confusion = spatial.confusion
    matrix = {} if confusion is None else {"confusion_matrix": [list(row) for row in confusion]}
    totals = with_totals(matrix).get("confusion_totals")
    needed = found.needed_line
    more = f"{needed[0].upper()}{needed[1:]}." if needed else ""
    return told | {
        "line": found.line,
        "overall_accuracy": spatial.overall,
        "overall_accuracy_ci95": spatial.overall_interval,
        "average_accuracy": spatial.average,
        "labels": spatial.labels,
        "kappa": spatial.kappa,
        "folds": found.to_dict() | {"where": spatial.where, "why": found.why, "more": more},
        "confusion_totals": totals,
    }


def _label_rows(model: SceneModel) -> list[dict[str, Any]]:
    counts = model.label_counts or {}
    most = max(counts.values(), default=0) or 1
    return [
        {
            "id": info.value,
            "name": info.name,
            "color": info.color,
            "labels": counts.get(info.name, 0),
            "of_most": counts.get(info.name, 0) / most,
        }
        for info in model.classes
    ]


def _summary_training_report(model: SceneModel, n: int) -> str:
    recipe = model.recipe
    made = type(model.estimator).__name__ if recipe is None else f"preset {recipe.preset}"
    goal = "" if recipe is None else f", goal {recipe.goal}"
    return (
        f"Learned {len(model.classes)} classes from {n:,} labeled pixels: {made}{goal}. The "
        "accuracy below is that of labels which were held out in turn; pixels far from any label "
        "may do worse."
    )


def _tiles_training_report(told: Mapping[str, Any], n_train: int) -> dict[str, str]:
    tiles = {}
    if told["overall_accuracy"] is not None:
        tiles["overall accuracy by spatial folds"] = percent(told["overall_accuracy"])
    if told["overall_accuracy_ci95"] is not None:
        low, high = told["overall_accuracy_ci95"]
        tiles["its 95 % interval"] = f"{100 * low:.1f}\N{EN DASH}{percent(high)}"
    if told["average_accuracy"] is not None:
        tiles["average accuracy"] = percent(told["average_accuracy"])
    if told.get("kappa") is not None:
        tiles["kappa"] = f"{told['kappa']:.3f}"
    return tiles | {"training pixels": f"{n_train:,}"}


# The report about areas: a table to publish, a picture, the error matrix, and how it was done.


def write_area_report(
    path: Reports,
    estimates: AreaEstimates,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    class_map: xr.DataArray | None = None,
    points: SamplePoints | None = None,
) -> None:
    """Write a report about the areas of a map's classes; one file, nothing fetched.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The page, by custom ``.html``.
    estimates : AreaEstimates
    title : str
        Name of the map.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files as `polyad.scene.record_run` records them, instead of
        ``command`` alone.
    class_map, points : optional
        The map and its checked points, for a picture of both.
    """
    check_reports(path)
    about = About(title, record_run(command) if record is None else record)
    write_page(path, area_page(estimates, about, _picture(class_map, points)))


def area_page(estimates: AreaEstimates, about: About, picture: PageImage | None = None) -> str:
    """Return the page about areas as HTML."""
    shares = estimates.shares
    low, high = interval(shares.overall, shares.overall_se)
    head, *rows = estimates.table()
    return render(
        "area_report.html",
        heading=f"{about.title}: areas of {len(estimates.classes)} classes",
        summary=(
            f"Estimated from {estimates.points:,} checked points. {estimates.estimator[0].upper()}"
            f"{estimates.estimator[1:]}. Areas are those of the reference, not of the map."
        ),
        tiles={
            "overall accuracy": percent(shares.overall),
            "its 95 % interval": f"{100 * low:.1f}\N{EN DASH}{percent(high)}",
            f"area, {estimates.unit}": rows[-1][1],
            "checked points": f"{estimates.points:,}",
        },
        notes=estimates.notes()[1:],
        head=head,
        rows=[
            {"info": info, "cells": row[1:]}
            for info, row in zip(estimates.classes, rows[:-1], strict=True)
        ],
        total=rows[-1],
        bars=_bars(estimates, rows),
        unit=estimates.unit,
        picture=picture,
        point_colors=(RIGHT, WRONG),
        right=int(np.trace(estimates.counts)),
        points=estimates.points,
        uneven=_uneven(estimates),
        classes=estimates.classes,
        matrix=shares.matrix.tolist(),
        counts=estimates.counts.tolist(),
        column_sums=shares.matrix.sum(axis=0).tolist(),
        row_sums=shares.matrix.sum(axis=1).tolist(),
        strata=estimates.strata,
        record=about.record.to_dict(),
    )


def _uneven(estimates: AreaEstimates) -> bool:
    """Whether one stratum has clearly more points for its pixels than another."""
    density = [points / pixels for _, pixels, points in estimates.strata if pixels]
    return bool(density) and max(density) > 1.1 * min(density)


def _bars(estimates: AreaEstimates, rows: list[list[str]]) -> list[dict[str, Any]]:
    """Return estimate, interval and mapped area of each class in percent of the longest."""
    longest = max(float(estimates.intervals.max()), float(estimates.mapped.max())) or 1.0
    return [
        {
            "info": info,
            "area": 100 * float(estimates.areas[k]) / longest,
            "low": 100 * float(estimates.intervals[k][0]) / longest,
            "high": 100 * float(estimates.intervals[k][1]) / longest,
            "mapped": 100 * float(estimates.mapped[k]) / longest,
            "words": f"{rows[k][2]} ({rows[k][4]})",
        }
        for k, info in enumerate(estimates.classes)
    ]


def _picture(class_map: xr.DataArray | None, points: SamplePoints | None) -> PageImage | None:
    """Return the map with its points: where it is right, and where wrong."""
    if class_map is None or points is None:
        return None
    whole = as_labels(class_map).transpose("y", "x")
    wrong = look_up(whole, points.pixels) != points.reference
    shape = (whole.sizes["y"], whole.sizes["x"])
    marks = overlay_points(points.pixels, wrong, {0: RIGHT, 1: WRONG}, shape)  # the wrong above
    ids = thinned(whole).values
    picture = see_through(class_picture(ids, class_table(whole)), ids == 0)
    return page_image(picture, "Map with the checked points", points=marks)


# The report of a training of values: what was measured where, and how well it is predicted.


Array = npt.NDArray[Any]
PARTS = 5  # of the range of a target, each with a color


def write_value_training_report(
    path: Reports,
    model: SceneModel,
    scene: xr.DataArray,
    values: xr.DataArray,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write a report about a model of values and what it was trained on.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The page, by custom ``.html``.
    model : SceneModel
        Just trained, by `polyad.scene.train_values`.
    scene, values : DataArray
        What it was trained on.
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files, instead of ``command`` alone.
    facts : mapping of str to str, optional
        Shown behind those known of every model, such as the seed.
    """
    check_reports(path)
    record = record_run(command) if record is None else record
    fit, scene, values = model.value_fit, model.view(as_scene(scene)), as_values(values)
    shape = (scene.sizes["y"], scene.sizes["x"])
    pixels = model.training_pixels(shape)
    measured = values.transpose("y", "x", "target").values[tuple(pixels.T)]  # (n, targets)
    shares = [_parts(column) for column in measured.T]  # of each target
    picture = false_color(thinned(scene.transpose("y", "x", "band")))
    names = ", ".join(target.name for target in fit.targets)
    page = render(
        "value_training_report.html",
        heading=f"{title}: {names}, trained on {len(pixels):,} pixels",
        summary=_summary_value_training(model, len(pixels)),
        rows=[
            {"name": s.target.title, "n": s.n, "groups": s.groups, "measures": s.parts()}
            for s in fit.scores
        ],
        targets=[
            {"name": target.title, "parts": rows}
            for target, (rows, _) in zip(fit.targets, shares, strict=True)
        ],
        pictures=[
            _with_points(picture, target, pixels, part, shape)
            for target, (_, part) in zip(fit.targets, shares, strict=True)
        ],
        facts={"Scene": scene_size(scene), **model_facts(model), **dict(facts or {})},
        record=record.to_dict(),
    )
    write_page(path, page)


def _parts(numbers: Array) -> tuple[list[dict[str, Any]], Array]:
    """Return the range of a target cut into equal parts, and the part of each number, from 0."""
    low, high = float(numbers.min()), float(numbers.max())
    edges = np.linspace(low, high, PARTS + 1)
    part = np.clip(np.searchsorted(edges, numbers, "right") - 1, 0, PARTS - 1)
    counts = np.bincount(part, minlength=PARTS)
    rows = [
        {
            "range": f"{edges[k]:.3g} to {edges[k + 1]:.3g}",
            "color": _color(k),
            "values": int(counts[k]),
            "of_most": counts[k] / counts.max(),
        }
        for k in range(PARTS)
    ]
    return rows, part


def _color(part: int) -> str:
    return to_hex(colormaps[COLORS](part / (PARTS - 1)))


def _with_points(
    picture: Array, target: Target, pixels: Array, part: Array, shape: tuple[int, int]
) -> PageImage:
    colors = {k: _color(k) for k in range(PARTS)}
    points = overlay_points(pixels, part, colors, shape)
    return page_image(picture, f"Where {target.name} was measured", points=points)


def _summary_value_training(model: SceneModel, n: int) -> str:
    recipe = model.recipe
    made = "" if recipe is None else f": preset {recipe.preset}, goal {recipe.goal}"
    return (
        f"Learned from {n:,} pixels with values{made}. The scores below are those of values "
        "which were held out in turn; pixels far from any of them may do worse."
    )


def write_value_report(
    path: Reports,
    examination: ValueExamination,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    model: SceneModel | None = None,
) -> None:
    """Write a report with the scores and a scatter picture of each target.

    Parameters
    ----------
    path : path-like or sequence of path-like
        The page, by custom ``.html``.
    examination : ValueExamination
    title : str
        Name of the scene.
    command : str
        The command that does it all again.
    record : RunRecord, optional
        Command, versions and files, instead of ``command`` alone.
    model : SceneModel, optional
        The one examined, to say how it was made.
    """
    check_reports(path)
    record = record_run(command) if record is None else record
    adapted = "" if examination.adapted is None else f"{examination.adapted}. "
    figures = [
        PageFigure(
            t.title,
            "",
            page_image(_value_scatter(examination, k), f"Predicted against measured {t.name}"),
            True,
        )
        for k, t in enumerate(examination.targets)
    ]
    page = render(
        "value_report.html",
        heading=f"{title}: {', '.join(target.name for target in examination.targets)}",
        summary=(
            f"{len(examination.pixels):,} measured pixels that were not trained on; "
            f"{examination.n_train:,} were trained on. {adapted}Intervals of 95 % are those of "
            "resampled places."
        ),
        rows=[
            {"name": s.target.title, "n": s.n, "measures": s.parts(), "within": share}
            for s, share in zip(examination.scores, examination.within, strict=True)
        ],
        figures=figures,
        facts=_value_facts(examination, model),
        record=record.to_dict(),
    )
    write_page(path, page)


def _value_facts(examination: ValueExamination, model: SceneModel | None) -> dict[str, str]:
    """Return what was done, in words."""
    facts = {
        "Training pixels": f"{examination.n_train:,}",
        "Test pixels": f"{len(examination.pixels):,}, all others with a value",
    }
    if model is None:
        return facts
    lines = (line.partition(": ")[2] for line in model.value_fit.score_lines)
    pairs = zip(model.value_fit.scores, lines, strict=True)
    return facts | model_facts(model) | {f"{s.target.name} by its own values": n for s, n in pairs}


def scatter_of(examination: ValueExamination, k: int, theme: Any = LIGHT) -> Any:
    """Return the scatter figure of one target."""
    found = examination.scores[k]
    known = np.isfinite(examination.measured[:, k])
    note = f"R2 {found.r2:.2f}\nn = {found.n:,}" if np.isfinite(found.r2) else f"n = {found.n:,}"
    return scatter_figure(
        examination.measured[known, k],
        examination.predicted[known, k],
        found.target,
        note=note,
        theme=theme,
    )


def _value_scatter(examination: ValueExamination, k: int) -> Themed:
    return Themed(*(scatter_of(examination, k, theme) for theme in (LIGHT, DARK)))
