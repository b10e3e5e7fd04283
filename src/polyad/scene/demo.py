"""The demonstration: one scene, ten labels per class, from pixels to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tqdm import tqdm

from polyad.atomic import replacing
from polyad.scene.assess.evaluation import class_evaluation
from polyad.scene.assess.pages import record_run, write_page
from polyad.scene.assess.report import About, report_page
from polyad.scene.draw.figures import comparison, to_png
from polyad.scene.files.paths import make_folder
from polyad.scene.learn.training import train
from polyad.scene.map.mapping import blank_map
from polyad.scene.raster.scene import Scene
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene
from polyad.scene.write.tables import write_scores
from polyad.scene.write.writers import write_map
from polyad.threads import limit_threads

SCENE = "indian-pines"
SAMPLES_PER_CLASS = 10


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    preset: str | None = None,
    goal: str = "this-scene",
    progress: bool = False,
) -> dict[str, Any]:
    """Fit, map and score Indian Pines with ten labels per class; write everything to ``out``.

    Writes ``map.tif``, ``map.png``, ``scores.json``, ``model.polyad`` and ``report.html``.

    Parameters
    ----------
    out : path-like
        Folder; made if missing.
    seed : int, default=0
        Of the choice of training pixels and of the network's start.
    preset, goal : str
        See `polyad.scene.train`.
    progress : bool, default=False
        Show a bar.

    Returns
    -------
    dict
        The scores, ``n_train``, ``n_test``, ``fit_seconds`` and ``map_seconds``.
    """
    out = Path(out)
    make_folder(out)
    # So small a scene gains nothing by threads, which on a busy machine wait for each other
    with tqdm(total=5, desc="demo", unit="step", disable=not progress) as bar, limit_threads(1):
        scene = open_scene(SCENE).load()
        labels = open_labels(SCENE, scene)
        bar.update()
        model = train(
            scene,
            labels,
            samples_per_class=SAMPLES_PER_CLASS,
            random_state=seed,
            preset=preset,
            goal=goal,
        )
        bar.update()
        class_map = blank_map(model, Scene.of(scene))
        found = class_evaluation(model, scene, labels, class_map.values)
        result = found.to_dict() | {"seed": seed}
        result["steps"] = None if model.recipe is None else model.recipe.line
        bar.update()
        model.save(out / "model.polyad")
        write_map(out / "map.tif", class_map)
        write_scores(out / "scores.json", result)
        bar.update()
        with replacing(out / "map.png") as temporary:
            temporary.write_bytes(to_png(comparison(scene, labels, class_map)))
        title = f"{SCENE.replace('-', ' ').title()} from {SAMPLES_PER_CLASS} labels per class"
        command = f"polyad demo --seed {seed}" + ("" if preset is None else f" --preset {preset}")
        command += "" if goal == "this-scene" else f" --goal {goal}"
        pixels = f"{result['n_train']} ({SAMPLES_PER_CLASS} per class, or half of a smaller class)"
        facts = {"Training pixels": pixels, "Seed": str(seed)}
        about = About(title, record_run(command), facts)
        write_page(out / "report.html", report_page(model, scene, class_map, found, about))
        bar.update()
    return result
