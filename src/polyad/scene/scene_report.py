"""The report of a model on a scene: what was done, pictures, scores, spectra, calibration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from polyad.atomic import replacing
from polyad.scene.classes import ClassInfo, class_table, has_own_name
from polyad.scene.colour import class_picture, false_colour
from polyad.scene.evaluation import Examination, examine
from polyad.scene.figures import DARK, LIGHT, class_spectra, draw_spectra, reliability_figure
from polyad.scene.mapping import blank_map
from polyad.scene.model import SceneModel
from polyad.scene.order import as_labels, as_scene
from polyad.scene.report import Themed, render_report
from polyad.scene.sampling import Split
from polyad.scene.writers import check_output

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
    progress: bool = False,
) -> Examination:
    """Evaluate a model as `polyad.scene.evaluation.evaluate` does, and write a page about it.

    Parameters
    ----------
    path : path-like
        The page, by custom ending in ``.html``.
    model, scene, labels, split, progress
        See `polyad.scene.evaluation.evaluate`.
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
    class_map = blank_map(model, scene)
    found = examine(model, scene, labels, split, whole=class_map.values, progress=progress)
    page = report_page(
        model, scene, class_map, found, found.to_dict(),
        title=title, command=command,
    )  # fmt: skip
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8", errors="backslashreplace")  # odd names of files
    return found


def report_page(
    model: SceneModel,
    scene: xr.DataArray,
    class_map: xr.DataArray,
    found: Examination,
    result: Mapping[str, Any],
    *,
    title: str,
    command: str,
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return the page as HTML; ``facts`` are shown behind those known of every model."""
    scene, class_map = as_scene(scene), as_labels(class_map)
    # In the model's ids, so that one legend serves truth and map
    small_scene, truth, small_map = (_thinned(r) for r in (scene, found.labels, class_map))
    spectra = class_spectra(scene, found.labels)
    confidence, right = found.confidence, found.right
    return render_report(
        title=title,
        summary=_summary(scene, model, result),
        scores=result,
        classes=_legend(model, found),
        facts=_facts(scene, model, result) | dict(facts or {}),
        pictures={
            "Scene, false colour": false_colour(small_scene),
            "Ground truth": class_picture(truth.values, class_table(found.labels)),
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
        notes=found.scores.notes(),
    )


def _legend(model: SceneModel, found: Examination) -> list[ClassInfo]:
    """Return the classes of the model and, marked, those that only the labels have."""
    ours, present = {c.value for c in model.classes}, set(np.unique(found.labels.values).tolist())
    others = [c for c in class_table(found.labels) if c.value in present - ours]
    marked = [c._replace(name=f"{c.name} (not in the model)") for c in others if has_own_name(c)]
    return [*model.classes, *marked, *(c for c in others if not has_own_name(c))]


def _summary(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> str:
    seconds, recipe = result["fit_seconds"], model.recipe
    rank = getattr(model.estimator, "rank", None)
    kind = f"a rank-{rank} network" if rank else f"a {type(model.estimator).__name__}"
    made = kind if recipe is None else f"preset {recipe.preset}, goal {recipe.goal}"
    took = "" if seconds is None else f" in {seconds:.1f} seconds"
    right = f"{100 * result['overall_accuracy']:.1f}\N{NO-BREAK SPACE}%"
    return (
        f"Trained on {result['n_train']:,} labelled pixels{took}: {made}. All "
        f"{scene.sizes['y'] * scene.sizes['x']:,} pixels were mapped in "
        f"{result['map_seconds']:.1f} seconds. On {result['n_test']:,} labelled pixels that were "
        f"not trained on, the map is right {right} of the time."
    )


def _facts(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> dict[str, str]:
    rows, columns, bands = (scene.sizes[d] for d in ("y", "x", "band"))
    others = "all other labelled ones" + (" of its classes" if result.get("left_out") else "")
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
        # The network of preset best is merged from several starts: its epochs say nothing
        merged = model.recipe is not None and model.recipe.preset == "best"
        epochs = None if merged else getattr(model.estimator, "n_iter_", None)
        passes = "" if epochs is None else f", {epochs} epochs"
        facts["Training"] = f"{result['fit_seconds']:.2f} s{passes}"
    facts["Mapping"] = f"{result['map_seconds']:.3f} s for the whole scene"
    if model.recipe is not None:
        facts["Steps"] = model.recipe.line
        if model.recipe.goal == "this-scene" and not model.learned_from(scene):
            facts["Steps"] += "; on this scene, which it was not trained on, the network alone"
    return facts


def _thinned(raster: xr.DataArray) -> xr.DataArray:
    """Return every k-th pixel of a large raster; a lazy one is read no further than that."""
    step = -(-max(raster.sizes["y"], raster.sizes["x"]) // SHOWN_PIXELS)
    return raster.isel(y=slice(None, None, step), x=slice(None, None, step))
