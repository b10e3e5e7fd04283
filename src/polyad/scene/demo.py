"""The demonstration: one scene, ten labels per class, from pixels to a report."""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr
from tqdm import tqdm

from polyad.atomic import replacing
from polyad.errors import OutputError
from polyad.scene.classes import class_table
from polyad.scene.colour import class_picture, false_colour
from polyad.scene.figures import comparison, reliability_figure, spectra_figure, to_png
from polyad.scene.labels import open_labels
from polyad.scene.mapping import map_scene
from polyad.scene.model import SceneModel
from polyad.scene.readers import open_scene
from polyad.scene.report import render_report
from polyad.scene.scores import Scores
from polyad.scene.training import held_out, score_map, train
from polyad.scene.writers import write_map, write_scores

SCENE = "indian-pines"
SAMPLES_PER_CLASS = 10


def run_demo(out: str | Path, *, seed: int = 0, progress: bool = False) -> dict[str, Any]:
    """Fit, map and score Indian Pines with ten labels per class; write everything to ``out``.

    Writes ``map.tif``, ``map.png``, ``scores.json``, ``model.polyad`` and ``report.html``.

    Parameters
    ----------
    out : path-like
        Folder; made when it is not there.
    seed : int, default=0
        Of the choice of training pixels and of the network's start.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    dict
        The scores, ``n_train``, ``n_test``, ``fit_seconds`` and ``map_seconds``.
    """
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {out}: {error.strerror}") from error
    bar = tqdm(total=5, desc="demo", unit="step", disable=not progress)
    scene = open_scene(SCENE).load()
    labels = open_labels(SCENE, scene)
    bar.update()
    started = time.perf_counter()
    model = train(scene, labels, samples_per_class=SAMPLES_PER_CLASS, random_state=seed)
    fit_seconds = time.perf_counter() - started
    bar.update()
    started = time.perf_counter()
    class_map, proba = map_scene(model, scene, probabilities=True)
    map_seconds = time.perf_counter() - started
    bar.update()
    split = held_out(model, scene, labels)
    scores = score_map(model, class_map, proba, labels, split)
    result = scores.to_dict() | {
        "n_train": len(split.train),
        "n_test": len(split.test),
        "fit_seconds": round(fit_seconds, 4),
        "map_seconds": round(map_seconds, 4),
        "seed": seed,
    }
    model.save(out / "model.polyad")
    write_map(out / "map.tif", class_map)
    write_scores(out / "scores.json", result)
    bar.update()
    _write_pictures(out, scene, labels, class_map, proba, split.test, model, scores, result)
    bar.update()
    bar.close()
    return result


def _write_pictures(
    out: Path,
    scene: xr.DataArray,
    labels: xr.DataArray,
    class_map: xr.DataArray,
    proba: xr.DataArray,
    test: Any,
    model: SceneModel,
    scores: Scores,
    result: dict[str, Any],
) -> None:
    with replacing(out / "map.png") as part:
        part.write_bytes(to_png(comparison(scene, labels, class_map)))
    rows, cols = test.T
    confidence = proba.values[rows, cols].max(axis=1)
    right = class_map.values[rows, cols] == labels.values[rows, cols]
    classes = class_table(labels)
    page = render_report(
        title=f"{SCENE.replace('-', ' ').title()} from {SAMPLES_PER_CLASS} labels per class",
        summary=_summary(scene, model, scores, result),
        scores=result,
        classes=classes,
        facts=_facts(scene, model, result),
        pictures={
            "Scene, false colour": false_colour(scene),
            "Ground truth": class_picture(labels.values, classes),
            "Map": class_picture(class_map.values, classes),
        },
        figures={
            "spectra": spectra_figure(scene, labels),
            "reliability": reliability_figure(confidence, right),
        },
        command=f"polyad demo --seed {result['seed']}",
        versions={name: version(name) for name in ("polyad", "torch", "scikit-learn")},
    )
    with replacing(out / "report.html") as part:
        part.write_text(page, encoding="utf-8")


def _summary(scene: xr.DataArray, model: SceneModel, scores: Scores, result: dict[str, Any]) -> str:
    seconds = result["fit_seconds"] + result["map_seconds"]
    return (
        f"{result['n_train']} labelled pixels taught a rank-{model.estimator.rank} network, which "
        f"then mapped all {scene.sizes['y'] * scene.sizes['x']:,} pixels: "
        f"{seconds:.1f} seconds in all. On the {result['n_test']:,} labelled pixels it never saw, "
        f"it is right {100 * scores.overall_accuracy:.1f} % of the time."
    )


def _facts(scene: xr.DataArray, model: SceneModel, result: dict[str, Any]) -> dict[str, str]:
    network = model.estimator.network_
    return {
        "Scene": f"{scene.sizes['y']} x {scene.sizes['x']} pixels, {scene.sizes['band']} bands",
        "Training pixels": f"{result['n_train']} ({SAMPLES_PER_CLASS} per class, or half of a "
        "smaller class)",
        "Test pixels": f"{result['n_test']:,}, all other labelled ones",
        "Window": f"{model.window} x {model.window} pixels",
        "Network": f"rank {model.estimator.rank}, {network.hidden.out_features} hidden units, "
        f"{network.n_weights:,} weights",
        "Fitting": f"{result['fit_seconds']:.2f} s, {model.estimator.n_iter_} epochs",
        "Mapping": f"{result['map_seconds']:.3f} s for the whole scene",
        "Seed": str(result["seed"]),
    }
