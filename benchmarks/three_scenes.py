"""How long the paper's three scenes take: figures for docs/reproduce.md.

    python -m benchmarks.three_scenes

On made-up scenes of the shapes of Pavia University and Botswana, each model is fitted for some
epochs with 10 and 50 samples per class and classifies the test pixels a few times. From the
processor time of an epoch and of a classification follows that of a run, and, for three noises and
ten seeds of each cell, that of the whole command. Writes one JSON line per cell to
docs/results/three-scenes.jsonl and prints the hours.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from polyad.experiments import paper
from polyad.experiments.runs import SceneEvaluator, noisy
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import DEFAULT_MODELS, MODELS, NOISES, RunSettings
from polyad.scene.learn.sampling import no_overlap
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

RECORDS = Path(__file__).parent.parent / "docs/results/three-scenes.jsonl"
SCENES = ("standin-pavia-university", "standin-botswana")
EPOCHS, TIMES = 12, 3  # fitted, and classified
RUNS = len(NOISES) * paper.RUNS  # of each model and number of samples


def cell(scene: str, model: str, samples: int) -> dict[str, Any]:
    """Return the seconds of processor time of an epoch, a classification, and all else."""
    started = time.process_time()
    data = load_scene(scene)
    run = RunSettings(scene, model, samples, "pixel")
    cube, split = noisy(data.cube, run), run.split(data.labels)
    no_overlap(split, data.labels.shape, run.window)
    patches = extract_patches(cube, *split.train.T, run.window)
    around = time.process_time() - started
    marks: list[float] = []
    estimator = MODELS[model].estimator(EPOCHS, 0)
    estimator.fit(
        patches,
        data.labels[tuple(split.train.T)],
        on_epoch=lambda _, __: marks.append(time.process_time()),
    )
    network: nn.Module = estimator.network_
    evaluator = SceneEvaluator(cube, split.test, estimator.scaler_, run.window)
    started = time.process_time()
    evaluator.predict(network)  # the first one standardizes the scene
    around += time.process_time() - started
    looks = []
    for _ in range(TIMES):
        started = time.process_time()
        evaluator.predict(network)
        looks.append(time.process_time() - started)
    return {
        "scene": scene,
        "model": model,
        "samples": samples,
        "epoch": round(float(np.median(np.diff(marks))), 5),
        "classify": round(float(np.median(looks)), 5),
        "else": round(around, 3),
        "classified": len(MODELS[model].evaluated(paper.EPOCHS[-1])),
    }


def run_seconds(row: dict[str, Any]) -> float:
    """Return the processor time of one run of 500 epochs."""
    return float(
        paper.EPOCHS[-1] * row["epoch"] + row["classified"] * row["classify"] + row["else"]
    )


def hours(rows: list[dict[str, Any]], scene: str) -> float:
    """Return the thread-hours of all runs of a scene."""
    return RUNS * sum(run_seconds(row) for row in rows if row["scene"] == scene) / 3600


def main() -> None:
    with limit_threads(1):
        rows = []
        for scene in SCENES:
            load_scene(scene)  # once in a process, however many runs it does
            for samples in paper.SAMPLES:
                for model in DEFAULT_MODELS:
                    rows.append(cell(scene, model, samples))
                    print(rows[-1], f"{run_seconds(rows[-1]):.0f} s a run", flush=True)
    RECORDS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for scene in SCENES:
        print(f"{scene}: {hours(rows, scene):.1f} thread-hours")


if __name__ == "__main__":
    main()
