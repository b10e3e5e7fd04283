"""The report of a model on a scene: what was done, pictures, scores, spectra, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from polyad.scene.assess.documents import Document, Reports, check_reports, write_document
from polyad.scene.assess.evaluation import Examination, examine
from polyad.scene.assess.evaluation_page import render_report, with_totals
from polyad.scene.assess.mapped_area import mapped_areas
from polyad.scene.assess.model_facts import model_content, model_facts
from polyad.scene.assess.pages import PageImage, Themed, page_image
from polyad.scene.assess.provenance import RunRecord, record_run
from polyad.scene.draw.charts import (
    DARK,
    LIGHT,
    ClassSpectra,
    class_spectra,
    reliability_bins,
    reliability_chart,
    spectra_chart,
)
from polyad.scene.draw.color import class_picture, error_picture, false_color, see_through
from polyad.scene.draw.marks import overlay_points
from polyad.scene.learn.adaptation import adapt_model
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.sampling import Split
from polyad.scene.map.mapping import blank_map
from polyad.scene.raster.classes import ClassInfo, class_table, has_own_name
from polyad.scene.raster.scene import as_labels, as_scene

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
        The report: a name ending in ``.json`` gets its content as JSON, any other the page, by
        custom ``.html``.
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
    options: dict[str, Any] = {"coverage": coverage, "progress": progress}
    examination = examine(model, scene, labels, split, whole=class_map.values, **options)
    told = examination.to_dict()
    given: dict[str, Any] = {"title": title, "command": command, "record": record}
    document = report_document(model, scene, class_map, examination, told, **given)
    write_document(path, document)
    return examination


def report_document(
    model: SceneModel,
    scene: xr.DataArray,
    class_map: xr.DataArray,
    examination: Examination,
    result: Mapping[str, Any],
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    facts: Mapping[str, str] | None = None,
) -> Document:
    """Return the report; ``facts`` are shown behind those known of every model."""
    record = record_run(command) if record is None else record
    scene, class_map = model.view(scene), as_labels(class_map)
    labels, scores = examination.labels, with_totals(result)
    spectra = class_spectra(scene, labels)
    certain = (examination.confidence, examination.right)
    told: dict[str, Any] = {
        "title": title,
        "summary": _summary(class_map, model, result),
        "notes": examination.scores.notes(),
        "scores": scores,
        "areas": mapped_areas(class_map),
        "facts": _facts(scene, model, result) | dict(facts or {}),
        "record": record.to_dict(),
    }
    count, sure, hit = reliability_bins(*certain)
    content = told | {
        "model": model_content(model, scene),
        "spectra": spectra_content(spectra),
        "reliability": {"pixels": count, "mean_probability": sure, "share_right": hit},
    }

    def page() -> str:
        return render_report(
            **told,
            classes=_legend(model, examination),
            pictures=_pictures(model, scene, class_map, examination),
            figures={
                "spectra": Themed(*(spectra_chart(spectra, theme) for theme in (LIGHT, DARK))),
                "reliability": Themed(
                    *(reliability_chart(*certain, theme=theme) for theme in (LIGHT, DARK))
                ),
            },
        )

    return Document("evaluation", content, page)


def report_page(*arguments: Any, **options: Any) -> str:
    """Return the page of `report_document` as HTML."""
    return report_document(*arguments, **options).page()


def spectra_content(spectra: ClassSpectra) -> dict[str, Any]:
    """Return mean spectra as plain values, to five figures; gaps of the axis are left out."""
    bands = np.isfinite(spectra.axis)

    def short(values: Any) -> list[float]:
        return [float(f"{value:.5g}") for value in values[bands]]

    rows = zip(spectra.classes, spectra.means, spectra.spreads, strict=True)
    return {
        "axis": spectra.name,
        "at": short(spectra.axis),
        "classes": [
            {"id": info.value, "name": info.name, "mean": short(m), "standard_deviation": short(s)}
            for info, m, s in rows
        ],
    }


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
