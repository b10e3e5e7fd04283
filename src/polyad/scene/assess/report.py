"""Reports about a training, an evaluation and the areas of a map, of classes and of regression.

Each ``write_...report`` gathers figures, pictures and facts and fills one template of
`polyad.scene.assess.pages`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import to_hex

from polyad.errors import SceneError
from polyad.scene.assess.areas import AreaEstimates, interval
from polyad.scene.assess.evaluation import (
    ClassEvaluation,
    EvaluationOptions,
    RegressionEvaluation,
    class_evaluation,
    regression_evaluation,
)
from polyad.scene.assess.pages import (
    PageFigure,
    PageImage,
    Provenance,
    Themed,
    page_image,
    percent,
    record_run,
    render,
    write_page,
)
from polyad.scene.draw import charts, color
from polyad.scene.draw.figures import COLORS, scatter_figure
from polyad.scene.files.paths import check_output
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.map.mapping import blank_map
from polyad.scene.raster import classes as class_tables
from polyad.scene.raster.classes import ClassInfo, class_table
from polyad.scene.raster.grid import HECTARE, grid_of, row_areas
from polyad.scene.raster.labels import Labels
from polyad.scene.raster.scene import Scene
from polyad.scene.read.samples import SamplePoints, look_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]
PathLike = str | os.PathLike[str]
SHOWN_PIXELS = 1000  # along the longer side of a picture: a page must stay light enough to mail
PARTS = 5  # of the range of a target, each with a color


@dataclass(frozen=True)
class About:
    """What a page is called, what was run, and facts shown behind those known of every model."""

    title: str
    record: Provenance
    facts: Mapping[str, str] = field(default_factory=dict)


def _about(
    path: PathLike, title: str, record: Provenance | str, facts: Mapping[str, str] | None = None
) -> About:
    """Return what a page is about; raise `OutputError` now if it could not be written later."""
    check_output(path, "report")
    return About(title, record_run(record) if isinstance(record, str) else record, facts or {})


# The report of a model on a scene: what was done, pictures, scores, spectra, calibration.


def write_report(
    path: PathLike,
    model: SceneModel,
    scene: xr.DataArray,
    reference: xr.DataArray,
    *,
    title: str,
    record: Provenance | str = "",
    **options: Unpack[EvaluationOptions],
) -> ClassEvaluation | RegressionEvaluation:
    """Evaluate a model as `polyad.scene.evaluation_of` does, and write a report about it.

    Parameters
    ----------
    path : path-like
        The page, by custom ``.html``.
    model, scene, reference, split, adapt, coverage, progress
        See `polyad.scene.evaluation_of`.
    title : str
        Name of the scene.
    record : str or Provenance
        The command that does it all again; with versions and files as `polyad.scene.record_run`
        records them.

    Returns
    -------
    ClassEvaluation or RegressionEvaluation
        The scores and what they were computed from.
    """
    about = _about(path, title, record)
    if model.values is not None:
        measured = regression_evaluation(model, scene, reference, **options)
        write_page(path, regression_page(model, measured, about))
        return measured
    known = model.view(scene)
    model = adapt_model(model, known, options.get("adapt"))
    class_map = blank_map(model, known)
    found = class_evaluation(model, known, reference, class_map.values, **options)
    write_page(path, report_page(model, known, class_map, found, about))
    return found


def report_page(
    model: SceneModel,
    scene: xr.DataArray | Scene,
    class_map: xr.DataArray,
    found: ClassEvaluation,
    about: About,
) -> str:
    """Return the page about a model of classes on a scene as HTML."""
    scene, scores = model.view(scene), found.scores
    tiles = {
        "overall accuracy": scores.overall_accuracy,
        "overall accuracy without overlap": scores.overall_accuracy_no_overlap,
        "average accuracy": scores.average_accuracy,
        "kappa": f"{scores.kappa:.3f}" if np.isfinite(scores.kappa) else None,
        "calibration error": scores.expected_calibration_error,
    }
    calibration = "Can its probabilities be trusted?"
    return render(
        "scene_report.html",
        heading=f"{about.title}: {percent(scores.overall_accuracy)} right",
        summary=_summary(class_map, model, found),
        tiles=_tiles(tiles),
        scores=found.to_dict(),
        totals=totals(scores.confusion),
        # On other scenes than the trained one there is nothing to overlap with
        overlaps=scores.overall_accuracy_no_overlap is not None
        and scores.n_test_no_overlap != scores.n_test,
        notes=scores.notes(),
        pictures=_pictures(model, scene, class_map, found),
        error_colors=(color.RIGHT, color.WRONG),
        classes=_legend(model, found),
        areas=mapped_areas(class_map),
        facts=_facts(scene, model, found) | dict(about.facts),
        figures=[
            _spectra_figure(scene, found.labels),
            PageFigure(
                calibration,
                "Of the pixels that the map calls 80 % certain, 80 % should be right: then the "
                "points lie on the dashed line. The larger the point, the more pixels.",
                _themed(calibration, charts.reliability_chart, found.confidence, found.right),
                narrow=True,
            ),
        ],
        record=about.record,
    )


def _tiles(figures: Mapping[str, float | str | None]) -> dict[str, str]:
    """Return what is known of some figures, shares in percent."""
    known = {name: value for name, value in figures.items() if value is not None}
    return {name: v if isinstance(v, str) else percent(v) for name, v in known.items()}


def totals(confusion: npt.ArrayLike) -> dict[str, list[int] | int]:
    """Return the sums of a confusion matrix, whose rows are the reference and columns the map.

    Examples
    --------
    >>> totals([[3, 1], [0, 4]])
    {'reference': [4, 4], 'map': [3, 5], 'all': 8, 'right': 7}
    """
    counts = np.asarray(confusion, np.int64)
    sums = {"reference": counts.sum(axis=1).tolist(), "map": counts.sum(axis=0).tolist()}
    return sums | {"all": int(counts.sum()), "right": int(np.trace(counts))}


def mapped_areas(class_map: xr.DataArray) -> dict[str, Any]:
    """Count the pixels of each class of a map, and the ground that they cover.

    Hectares are None, and a note says why, where the reference system does not tell.

    Examples
    --------
    >>> mapped_areas(xr.DataArray(np.array([[1, 1], [0, 2]]), dims=("y", "x")))["pixels"]
    3
    """
    areas, note = None, "The map does not say its reference system: areas are in pixels."
    try:
        areas = row_areas(grid_of(class_map))
    except SceneError as error:
        note = f"Areas are in pixels: {error}."
    weights = np.ones(class_map.sizes["y"]) if areas is None else areas / HECTARE
    _, _, counts, hectares, _ = class_tables.class_totals(class_map, class_map, weights)
    total, known = int(counts.sum()), areas is not None
    rows = [
        {
            "info": info,
            "pixels": int(counts[info.value]),
            "share": counts[info.value] / total if total else 0.0,
            "hectares": float(hectares[info.value]) if known else None,
        }
        for info in class_table(class_map)
    ]
    covered: dict[str, float | None] = {"pixels": total, "without_class": class_map.size - total}
    covered |= {"hectares": float(hectares.sum()) if known else None}
    return {**covered, "classes": rows, "note": "" if known else note}


def model_facts(model: SceneModel, scene: Scene | None = None) -> dict[str, str]:
    """Return name and value of what a reader asks first; ``scene`` is the one that is mapped."""
    recipe, network = model.recipe, getattr(model.estimator, "network_", None)
    steps = "" if recipe is None else recipe.line
    if scene is not None and recipe is not None and recipe.propagation is not None:
        unknown = "; on this scene, which it was not trained on, the network alone"
        steps += "" if model.learned_from(scene) else unknown
    weights = epochs = None
    if network is not None and hasattr(network, "n_weights"):
        weights = (
            f"rank {network.hidden.rank}, {network.hidden.out_features} hidden units, "
            f"{network.n_weights:,} weights"
        )
    # The network of a preset is merged from several: its epochs say nothing
    if recipe is None or recipe.preset == "paper":
        epochs = getattr(model.estimator, "n_iter_", None)
    replaced = model.training.replaced
    facts = {
        "Window": f"{model.window} x {model.window} pixels",
        "Preset": recipe and f"{recipe.preset}, goal {recipe.goal}",
        "Network": weights,
        "Training": epochs and f"{epochs} epochs",
        "Steps": steps,
        "Spatial cross-validation": model.score_line,
        "Not tested by these": model.untested_line,
        "Bands left out": model.spectral.left_out,
        "Corrupt pixels of the training scene": replaced
        and f"{replaced:,}, replaced by their neighbors",
        "Light": model.adapted,
    }
    return {name: value for name, value in facts.items() if value}


def _pictures(
    model: SceneModel, scene: Scene, class_map: xr.DataArray, found: ClassEvaluation
) -> list[PageImage]:
    labels, split = found.labels, found.split
    shape = (class_map.sizes["y"], class_map.sizes["x"])
    scored = np.zeros(shape, bool)
    scored[tuple(split.test.T)] = True
    # In the model's ids, so that one legend serves truth and map
    known, mapped, counted = (thinned(a) for a in (labels.values, class_map.values, scored))
    table = class_table(labels)
    colors = {c.value: c.color for c in (*table, *model.classes)}
    points = charts.overlay_points(split.train, labels.values[tuple(split.train.T)], colors, shape)
    plain = charts.overlay_points(split.train, np.ones(len(split.train)), {1: "#111111"}, shape)
    with_points = "" if points is None else " with training points"
    truth_picture = color.see_through(color.class_picture(known, table), known == 0)
    map_picture = color.see_through(color.class_picture(mapped, model.classes), mapped == 0)
    return [
        page_image(color.false_color(thinned(scene.array)), "Scene, false color"),
        page_image(truth_picture, "Ground truth"),
        page_image(map_picture, f"Map{with_points}", points=points),
        page_image(
            color.error_picture(known, mapped, counted), f"Errors{with_points}", points=plain
        ),
    ]


def _legend(model: SceneModel, found: ClassEvaluation) -> list[ClassInfo]:
    """Return the classes of the model and, marked, those that only the labels have."""
    others = {*np.unique(found.labels.values).tolist()} - {c.value for c in model.classes}
    unknown = [c for c in class_table(found.labels) if c.value in others]
    marked = [
        c._replace(name=f"{c.name} (not in the model)")
        for c in unknown
        if class_tables.has_own_name(c)
    ]
    return [*model.classes, *marked, *(c for c in unknown if not class_tables.has_own_name(c))]


def _summary(class_map: xr.DataArray, model: SceneModel, found: ClassEvaluation) -> str:
    rank = getattr(model.estimator, "rank", None)
    kind = f"a rank-{rank} network" if rank else f"a {type(model.estimator).__name__}"
    mapped, pixels = int(np.count_nonzero(class_map.values)), class_map.size
    part = "" if mapped == pixels else f"{mapped:,} of "  # the others have no data
    return (
        f"Trained on {found.n_train:,} labeled pixels: {_made(model, kind)}. {part}{pixels:,} "
        f"pixels were mapped. On {len(found.split.test):,} labeled pixels that were not trained "
        f"on, the map is right {percent(found.scores.overall_accuracy)} of the time."
    )


def _made(model: SceneModel, otherwise: str) -> str:
    """Return preset and goal in words, or what is said of a model without."""
    recipe = model.recipe
    return otherwise if recipe is None else f"preset {recipe.preset}, goal {recipe.goal}"


def _facts(scene: Scene, model: SceneModel, found: ClassEvaluation) -> dict[str, str]:
    others = "all other labeled ones" + (" of its classes" if found.scores.left_out else "")
    facts = {
        "Scene": scene_size(scene),
        "Training pixels": f"{found.n_train:,}",
        "Test pixels": f"{len(found.split.test):,}, {others}",
        **model_facts(model, scene),
    }
    if found.sets is not None:
        facts["Prediction sets"] = (
            f"{100 * found.sets.measured:.1f} % of the sets of test pixels hold the true class, "
            f"{100 * found.sets.promised:g} % promised; {found.sets.mean_size:.2f} classes in a set"
        )
    return facts


def scene_size(scene: Scene) -> str:
    """Return rows, columns and bands in words."""
    rows, columns, bands = scene.shape
    return f"{rows} rows x {columns} columns, {bands} bands"


def thinned(raster: Any) -> Any:
    """Return every k-th pixel of a large raster; a lazy one is read no further than that."""
    step = -(-max(raster.shape[:2]) // SHOWN_PIXELS)
    return raster[::step, ::step]


def _themed(words: str, chart: Callable[..., Figure | str], *data: Any) -> PageImage:
    """Return a chart drawn for light pages and for dark ones."""
    themes = (charts.LIGHT, charts.DARK)
    return page_image(Themed(*(chart(*data, theme=theme) for theme in themes)), words)


def _spectra_figure(scene: Scene, labels: xr.DataArray) -> PageFigure:
    heading = "Mean spectra of the classes"
    return PageFigure(
        heading,
        "Mean of the labeled pixels of each class and one standard deviation to either side; the "
        "other classes in gray. Classes whose spectra lie on each other are hard to tell apart.",
        _themed(heading, charts.spectra_chart, charts.class_spectra(scene, labels)),
    )


def regression_page(model: SceneModel, found: RegressionEvaluation, about: About) -> str:
    """Return the page about a regression model on a scene as HTML."""
    targets, n_test = found.targets, f"{len(found.pixels):,}"
    facts = {
        "Training pixels": f"{found.n_train:,}",
        "Test pixels": f"{n_test}, all others with a value",
        **model_facts(model),
    }
    for line in model.value_fit.score_lines:
        target, _, scores = line.partition(": ")
        facts[f"{target} by its own values"] = scores
    return render(
        "value_report.html",
        heading=f"{about.title}: {', '.join(target.name for target in targets)}",
        summary=(
            f"{n_test} measured pixels that were not trained on; {found.n_train:,} were trained "
            f"on. {'' if found.adapted is None else f'{found.adapted}. '}Intervals of 95 % are "
            "those of resampled places."
        ),
        rows=list(zip(found.scores, found.within, strict=True)),
        figures=[
            PageFigure(
                target.title,
                "",
                _themed(f"Predicted against measured {target.name}", _scatter, found, k),
                narrow=True,
            )
            for k, target in enumerate(targets)
        ],
        facts=facts,
        record=about.record,
    )


def _scatter(found: RegressionEvaluation, k: int, theme: charts.Theme = charts.LIGHT) -> Figure:
    """Return the scatter figure of one target."""
    score, known = found.scores[k], np.isfinite(found.measured[:, k])
    measured, predicted = (a[known, k] for a in (found.measured, found.predicted))
    note = f"R2 {score.r2:.2f}\nn = {score.n:,}" if np.isfinite(score.r2) else f"n = {score.n:,}"
    return scatter_figure(measured, predicted, score.target, note=note, theme=theme)


# The report of a training: what was learned from what, and how well it does where it was held out.


def write_training_report(
    path: PathLike,
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    title: str,
    record: Provenance | str = "",
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write a report about a model and the labels, or measured values, it was trained on.

    Parameters
    ----------
    path : path-like
        The page, by custom ``.html``.
    model : SceneModel
        Just trained.
    scene, labels : DataArray
        What it was trained on; merged labels as they were merged.
    title : str
        Name of the scene.
    record : str or Provenance
        See `write_report`.
    facts : mapping of str to str, optional
        Shown behind those known of every model, such as the seed.
    """
    about, known = _about(path, title, record, facts), model.view(scene)
    shape = known.shape[:2]
    pixels = model.training_pixels(shape)
    if model.values is not None:
        template, page = "value_training_report.html", _learned_values(model, labels, pixels)
    else:
        labels = Labels.of(labels).array
        template, page = "training_report.html", _learned_classes(model, known, labels, pixels)
    picture = color.false_color(thinned(known.array))
    page["pictures"] = [
        page_image(picture, words, points=charts.overlay_points(pixels, ids, colors, shape))
        for words, ids, colors in page.pop("marks")
    ]
    page["heading"] = f"{title}: {page['heading']}"
    page["facts"] = {"Scene": scene_size(known), **model_facts(model), **about.facts}
    write_page(path, render(template, record=about.record, **page))


def _learned_classes(
    model: SceneModel, scene: Scene, labels: xr.DataArray, pixels: Array
) -> dict[str, Any]:
    """Return what the page of a training on classes shows."""
    labels = class_tables.with_classes(labels, model.classes)
    ids, used = labels.values[tuple(pixels.T)], labels.copy(data=labels.values * 0)
    used.values[tuple(pixels.T)] = ids
    counts, found = model.label_counts or {}, model.accuracy
    spatial = None if found is None else found.spatial
    confusion = None if spatial is None else spatial.confusion
    made, tiles = _made(model, type(model.estimator).__name__), {}
    if spatial is not None:
        tiles = {
            "overall accuracy by spatial folds": spatial.overall,
            "average accuracy": spatial.average,
            "kappa": None if spatial.kappa is None else f"{spatial.kappa:.3f}",
        }
    return {
        "heading": f"trained on {len(pixels):,} labels",
        "summary": (
            f"Learned {len(model.classes)} classes from {len(pixels):,} labeled pixels: {made}. "
            "The accuracy below is that of labels which were held out in turn; pixels far from any "
            "label may do worse."
        ),
        "tiles": _tiles(tiles) | {"training pixels": f"{len(pixels):,}"},
        "line": model.score_line if spatial is None or found is None else found.line,
        "not_tested": model.untested_line,
        "found": found,
        "spatial": spatial,
        "totals": None if confusion is None else totals(confusion),
        "labels": [
            (info, counts.get(name, 0))
            for info, name in zip(
                model.classes, class_tables.unique_names(model.classes), strict=True
            )
        ],
        "n_train": len(pixels),
        "figures": [_spectra_figure(scene, used)],
        "marks": [("Scene with training points", ids, {c.value: c.color for c in model.classes})],
    }


def _range(low: float, high: float) -> str:
    return f"{100 * low:.1f}\N{EN DASH}{percent(high)}"


def _learned_values(model: SceneModel, values: xr.DataArray, pixels: Array) -> dict[str, Any]:
    """Return what the page of a training of values shows."""
    fit = model.value_fit
    measured = class_tables.as_values(values).values[tuple(pixels.T)]  # (n, targets)
    parts = [_parts(column) for column in measured.T]
    colors = {k: to_hex(colormaps[COLORS](k / (PARTS - 1))) for k in range(PARTS)}
    made = _made(model, "")
    return {
        "heading": f"{', '.join(t.name for t in fit.targets)}, trained on {len(pixels):,} pixels",
        "summary": (
            f"Learned from {len(pixels):,} pixels with values{made and f': {made}'}. The scores "
            "below are those of values which were held out in turn; pixels far from any of them "
            "may do worse."
        ),
        "scores": fit.scores,
        "targets": [(t.title, rows) for t, (rows, _) in zip(fit.targets, parts, strict=True)],
        "colors": colors,
        "marks": [
            (f"Where {target.name} was measured", part, colors)
            for target, (_, part) in zip(fit.targets, parts, strict=True)
        ],
    }


def _parts(numbers: Array) -> tuple[list[tuple[str, int]], Array]:
    """Return the range of a target cut into equal parts with counts, and the part of each."""
    edges = np.linspace(float(numbers.min()), float(numbers.max()), PARTS + 1)
    part = np.clip(np.searchsorted(edges, numbers, "right") - 1, 0, PARTS - 1)
    counts = np.bincount(part, minlength=PARTS).tolist()
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return list(zip(names, counts, strict=True)), part


# The report about areas: a table to publish, a picture, the error matrix, and how it was done.


def write_area_report(
    path: PathLike,
    estimates: AreaEstimates,
    *,
    title: str,
    record: Provenance | str = "",
    class_map: xr.DataArray | None = None,
    points: SamplePoints | None = None,
) -> None:
    """Write a report about the areas of a map's classes; one file, nothing fetched.

    Parameters
    ----------
    path : path-like
        The page, by custom ``.html``.
    estimates : AreaEstimates
    title : str
        Name of the map.
    record : str or Provenance
        See `write_report`.
    class_map, points : optional
        The map and its checked points, for a picture of both.
    """
    about, picture = _about(path, title, record), None
    if class_map is not None and points is not None:
        whole = Labels.of(class_map)
        wrong = look_up(whole.array, points.pixels) != points.reference
        marks = charts.overlay_points(
            points.pixels, wrong, {0: color.RIGHT, 1: color.WRONG}, whole.shape
        )
        ids = thinned(whole.array).values
        drawn = color.see_through(color.class_picture(ids, whole.classes), ids == 0)
        picture = page_image(drawn, "Map with the checked points", points=marks)
    write_page(path, area_page(estimates, about, picture))


def area_page(estimates: AreaEstimates, about: About, picture: PageImage | None = None) -> str:
    """Return the page about areas as HTML."""
    shares, unit = estimates.shares, estimates.unit
    head, *rows, total = estimates.table()
    density = [points / pixels for _, pixels, points in estimates.strata if pixels]
    extents = np.c_[estimates.areas, estimates.intervals, estimates.mapped]  # (classes, 4)
    bars = 100 * extents / (extents.max() or 1.0)  # in percent of the longest
    return render(
        "area_report.html",
        heading=f"{about.title}: areas of {len(estimates.classes)} classes",
        summary=(
            f"Estimated from {estimates.points:,} checked points. {estimates.estimator[0].upper()}"
            f"{estimates.estimator[1:]}. Areas are those of the reference, not of the map."
        ),
        tiles={
            "overall accuracy": percent(shares.overall),
            "its 95 % interval": _range(*interval(shares.overall, shares.overall_se)),
            f"area, {unit}": total[1],
            "checked points": f"{estimates.points:,}",
        },
        notes=estimates.notes()[1:],
        head=head,
        rows=list(zip(estimates.classes, rows, bars.tolist(), strict=True)),
        total=total,
        unit=unit,
        picture=picture,
        point_colors=(color.RIGHT, color.WRONG),
        right=int(np.trace(estimates.counts)),
        points=estimates.points,
        # Whether one stratum has clearly more points for its pixels than another
        uneven=bool(density) and max(density) > 1.1 * min(density),
        classes=estimates.classes,
        matrix=shares.matrix.tolist(),
        counts=estimates.counts.tolist(),
        column_sums=shares.matrix.sum(axis=0).tolist(),
        row_sums=shares.matrix.sum(axis=1).tolist(),
        strata=estimates.strata,
        record=about.record,
    )
