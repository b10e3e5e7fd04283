"""The report of a model on a scene: what was done, pictures, scores, spectra, calibration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import xarray as xr

from polyad.atomic import replacing
from polyad.scene.classes import class_table
from polyad.scene.colour import class_picture, false_colour
from polyad.scene.evaluation import Examination, examine
from polyad.scene.figures import reliability_figure, spectra_figure
from polyad.scene.mapping import blank_map
from polyad.scene.model import SceneModel
from polyad.scene.report import render_report
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
    check_output(path, "report")
    class_map = blank_map(model, scene)
    found = examine(model, scene, labels, split, whole=class_map.values, progress=progress)
    page = report_page(
        model, scene, labels, class_map, found, found.to_dict(),
        title=title, command=command,
    )  # fmt: skip
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return found


def report_page(
    model: SceneModel,
    scene: xr.DataArray,
    labels: xr.DataArray,
    class_map: xr.DataArray,
    found: Examination,
    result: Mapping[str, Any],
    *,
    title: str,
    command: str,
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return the page as HTML; ``facts`` are shown behind those known of every model."""
    small_scene, small_labels, small_map = (_thinned(r) for r in (scene, labels, class_map))
    classes = class_table(class_map)
    return render_report(
        title=title,
        summary=_summary(scene, model, result),
        scores=result,
        classes=classes,
        facts=_facts(scene, model, result) | dict(facts or {}),
        pictures={
            "Scene, false colour": false_colour(small_scene),
            "Ground truth": class_picture(small_labels.values, class_table(labels)),
            "Map": class_picture(small_map.values, classes),
        },
        figures={
            "spectra": spectra_figure(scene, labels),
            "reliability": reliability_figure(found.confidence, found.right),
        },
        command=command,
        versions={name: version(name) for name in ("polyad", "torch", "scikit-learn")},
    )


def _summary(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> str:
    known = getattr(model.estimator, "rank", None)
    kind = f"a rank-{known} network" if known else f"a {type(model.estimator).__name__}"
    seconds = (result["fit_seconds"] or 0.0) + result["map_seconds"]
    right = f"{100 * result['overall_accuracy']:.1f}\N{NO-BREAK SPACE}%"
    return (
        f"{result['n_train']:,} labelled pixels taught {kind}, which then mapped all "
        f"{scene.sizes['y'] * scene.sizes['x']:,} pixels: {seconds:.1f} seconds in all. On the "
        f"{result['n_test']:,} labelled pixels it never saw, it is right {right} of the time."
    )


def _facts(scene: xr.DataArray, model: SceneModel, result: Mapping[str, Any]) -> dict[str, str]:
    facts = {
        "Scene": f"{scene.sizes['y']} x {scene.sizes['x']} pixels, {scene.sizes['band']} bands",
        "Training pixels": f"{result['n_train']:,}",
        "Test pixels": f"{result['n_test']:,}, all other labelled ones",
        "Window": f"{model.window} x {model.window} pixels",
    }
    network = getattr(model.estimator, "network_", None)
    if network is not None and hasattr(network, "n_weights"):
        facts["Network"] = (
            f"rank {model.estimator.rank}, {network.hidden.out_features} hidden units, "
            f"{network.n_weights:,} weights"
        )
    if result["fit_seconds"] is not None:
        facts["Fitting"] = f"{result['fit_seconds']:.2f} s, {model.estimator.n_iter_} epochs"
    facts["Mapping"] = f"{result['map_seconds']:.3f} s for the whole scene"
    return facts


def _thinned(raster: xr.DataArray) -> xr.DataArray:
    """Return every k-th pixel of a large raster; a lazy one is read no further than that."""
    step = -(-max(raster.sizes["y"], raster.sizes["x"]) // SHOWN_PIXELS)
    return raster.isel(y=slice(None, None, step), x=slice(None, None, step))
