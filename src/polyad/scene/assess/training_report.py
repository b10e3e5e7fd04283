"""The report of a training: what was learned from which labels, and how well it does on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from polyad.scene.assess.documents import Document, Reports, check_reports, write_document
from polyad.scene.assess.evaluation_page import page_figure, with_totals
from polyad.scene.assess.model_facts import model_content, model_facts
from polyad.scene.assess.pages import Themed, page_image, percent, render
from polyad.scene.assess.provenance import RunRecord, record_run
from polyad.scene.assess.report import scene_size, spectra_content, thinned
from polyad.scene.draw.charts import DARK, LIGHT, class_spectra, spectra_chart
from polyad.scene.draw.color import false_color
from polyad.scene.draw.marks import overlay_points
from polyad.scene.learn.model import SceneModel
from polyad.scene.raster.classes import with_classes
from polyad.scene.raster.scene import as_labels, as_scene
from polyad.scene.read.colors import with_legend


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
        The report: a name ending in ``.json`` gets its content as JSON, any other the page, by
        custom ``.html``.
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
    given: dict[str, Any] = {"title": title, "command": command, "record": record, "facts": facts}
    write_document(path, training_document(model, scene, labels, merge=merge, **given))


def training_document(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    *,
    title: str,
    command: str = "",
    record: RunRecord | None = None,
    merge: str | Sequence[str] | None = None,
    facts: Mapping[str, str] | None = None,
) -> Document:
    """Return the report; see `write_training_report`."""
    record = record_run(command) if record is None else record
    scene, labels = model.view(as_scene(scene)), as_labels(labels).transpose("y", "x")
    labels = with_classes(with_legend(labels, merge or ()), model.classes)
    shape = (labels.sizes["y"], labels.sizes["x"])
    pixels = model.training_pixels(shape)
    used = labels.copy(data=labels.values * 0)
    used.values[tuple(pixels.T)] = labels.values[tuple(pixels.T)]
    spectra = class_spectra(scene, used)
    content: dict[str, Any] = {
        "title": title,
        "summary": _summary(model, len(pixels)),
        "accuracy": accuracy_content(model),
        "labels": _label_rows(model),
        "n_train": len(pixels),
        "facts": {"Scene": scene_size(scene), **model_facts(model), **dict(facts or {})},
        "model": model_content(model),
        "spectra": spectra_content(spectra),
        "record": record.to_dict(),
    }

    def page() -> str:
        colors = {c.value: c.color for c in model.classes}
        ids = labels.values[tuple(pixels.T)]
        points = overlay_points(pixels, ids, colors, shape)
        picture = false_color(thinned(scene.transpose("y", "x", "band")))
        themed = Themed(*(spectra_chart(spectra, theme) for theme in (LIGHT, DARK)))
        return render(
            "training_report.html",
            heading=f"{title}: trained on {len(pixels):,} labels",
            tiles=_tiles(content),
            picture=page_image(picture, "Scene with training points", points=points),
            figures=[page_figure("spectra", themed)],
            **{key: content[key] for key in ("summary", "accuracy", "labels", "facts", "record")},
            n_train=content["n_train"],
        )

    return Document("training", content, page)


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


def _summary(model: SceneModel, n: int) -> str:
    recipe = model.recipe
    made = type(model.estimator).__name__ if recipe is None else f"preset {recipe.preset}"
    goal = "" if recipe is None else f", goal {recipe.goal}"
    return (
        f"Learned {len(model.classes)} classes from {n:,} labeled pixels: {made}{goal}. The "
        "accuracy below is that of labels which were held out in turn; pixels far from any label "
        "may do worse."
    )


def _tiles(content: Mapping[str, Any]) -> dict[str, str]:
    told = content["accuracy"]
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
    return tiles | {"training pixels": f"{content['n_train']:,}"}
