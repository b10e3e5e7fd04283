"""How far rounding alone moves the accuracy of a run: figures for docs/results/findings.md.

    python -m benchmarks.rounding [--seeds 3]

Fits the paper's Rank-1 network, ten labels per class of Indian Pines, 500 epochs, on the scene as
it is, with the band offset that the published code calls noise, and with the last bit of half of
its numbers changed; the first two also in double precision. Writes one JSON line per fit to
docs/results/rounding.jsonl.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import RESULTS, resume
from polyad.experiments.runs import noisy
from polyad.experiments.scenes import load_scene
from polyad.experiments.settings import MODELS, RunSettings
from polyad.scene.raster.windows import extract_patches
from polyad.threads import limit_threads

RECORDS = RESULTS / "rounding.jsonl"
FITS = (
    ("as it is", "float32"),
    ("band offset", "float32"),
    ("last bits", "float32"),
    ("as it is", "float64"),
    ("band offset", "float64"),
)


def changed(change: str, run: RunSettings) -> NDArray[np.float32]:
    """Return Indian Pines as it is, with the band offset, or with other last bits."""
    cube = load_scene(run.scene).cube
    if change == "last bits":
        half = np.random.default_rng(run.seed).random(cube.shape) < 0.5
        return np.where(half, np.nextafter(cube, np.float32(np.inf)), cube)
    return noisy(cube, run)


def accuracy(seed: int, change: str, precision: str) -> dict[str, float]:
    """Return the overall accuracy on the test pixels after the last epoch."""
    noise = "band-offset" if change == "band offset" else "none"
    run = RunSettings("indian-pines", "rank-1", 10, noise, seed=seed)
    labels = load_scene(run.scene).labels
    cube, split = changed(change, run).astype(precision), run.split(labels)
    train, test = (extract_patches(cube, *p.T, run.window) for p in (split.train, split.test))
    model = MODELS[run.model].estimator(run.epochs, run.seed)
    model.fit(train, labels[tuple(split.train.T)])
    predicted = np.concatenate([model.predict(batch) for batch in np.array_split(test, 20)])
    return {"oa": round(float(np.mean(predicted == labels[tuple(split.test.T)])), 6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    cases = [
        {"seed": seed, "change": change, "precision": precision}
        for seed in range(parser.parse_args().seeds)
        for change, precision in FITS
    ]
    with limit_threads(1):
        resume(RECORDS, cases, accuracy)


if __name__ == "__main__":
    main()
