"""Labels chosen by "where to click next" against random ones, on Indian Pines.

Every run begins with three random labels per class. Then labels are added, with the ground truth
answering, up to ten per class on average (160): those that the labeling page advises, sixteen at a
time; random ones of the whole ground truth; or random ones up to ten of each class. The model is
always that of ``polyad train``, scored on all pixels of the ground truth that are not labeled.

    python -m benchmarks.advice --runs 10 --preset best    # as the page does
    python -m benchmarks.advice --runs 10 --preset fast    # as it does on large scenes
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from polyad.app.maps import CANDIDATES, margin_uncertainty, suggest
from polyad.scene.learn.sampling import per_class
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics
from polyad.scene.learn.training import TrainSettings, fit_preset, train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.scenes import open_known, open_known_labels

Array = npt.NDArray[Any]
Fitted = tuple[Array, Array]  # classes, and probabilities (y, x, classes)

WINDOW, START, END, ROUND = 5, 3, 10, 16
SCENE, TRUTH = open_known("indian-pines"), open_known_labels("indian-pines")
VALUES = TRUTH.values


def fast(pixels: Array) -> Fitted:
    """Return classes and probabilities of the fast model learned from ``pixels``."""
    model = train_on(SCENE, TRUTH, pixels, preset="fast", window=WINDOW)
    return model.estimator.classes_, map_scene(model, SCENE, probabilities=True)[1].values


@cache
def statistics() -> SceneStatistics:
    return scene_statistics(SCENE)


def best(pixels: Array) -> Fitted:
    """As `fast`, by the best preset."""
    model = fit_preset(SCENE, TRUTH, pixels, TrainSettings(window=WINDOW), statistics=statistics())
    return model.estimator.classes_, map_scene(model, SCENE, probabilities=True)[1].values


PRESETS: dict[str, Callable[[Array], Fitted]] = {"fast": fast, "best": best}


def accuracy(fitted: Callable[[Array], Fitted], pixels: Array) -> tuple[float, float]:
    """Return overall and average accuracy on the pixels that are not labeled."""
    classes, proba = fitted(pixels)
    test = unlabeled(pixels)
    true, predicted = VALUES[tuple(test.T)], classes[proba[tuple(test.T)].argmax(axis=1)]
    recalls = [float((predicted[true == c] == c).mean()) for c in np.unique(true)]
    return float((true == predicted).mean()), float(np.mean(recalls))


def unlabeled(pixels: Array) -> Array:
    left = VALUES > 0
    left[tuple(pixels.T)] = False
    return np.argwhere(left)


def spectra(pixels: Array) -> Array:
    return extract_patches(SCENE, *pixels.T, WINDOW).astype(np.float32).mean(axis=(1, 2))


def advised(fitted: Callable[[Array], Fitted], start: Array, n: int) -> Array:
    """Add what the page advises until there are ``n`` labels."""
    pixels = start
    while len(pixels) < n:
        _, proba = fitted(pixels)
        candidates = unlabeled(pixels)
        unsure = margin_uncertainty(proba[tuple(candidates.T)])
        best = np.argsort(-unsure)[:CANDIDATES]
        candidates, unsure = candidates[best], unsure[best]
        take = min(ROUND, n - len(pixels))
        chosen = suggest(spectra(candidates), unsure, spectra(pixels), take)
        pixels = np.concatenate([pixels, candidates[chosen]])
    return pixels


def at_random(start: Array, n: int, rng: np.random.Generator) -> Array:
    return np.concatenate([start, rng.permutation(unlabeled(start))[: n - len(start)]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--preset", choices=PRESETS, default="best")
    options = parser.parse_args()
    runs, fitted = options.runs, PRESETS[options.preset]
    results: dict[str, list[tuple[float, float]]] = {}
    for seed in range(runs):
        start = per_class(TRUTH, START, seed).train
        each = per_class(TRUTH, END, seed).train
        ways = {
            "start: 3 per class": start,
            "where to click next": advised(fitted, start, len(each)),
            "random": at_random(start, len(each), np.random.default_rng(seed)),
            "random, 10 per class": each,
        }
        for way, pixels in ways.items():
            results.setdefault(way, []).append(accuracy(fitted, pixels))
        print(json.dumps({"run": seed, **{w: r[-1] for w, r in results.items()}}), flush=True)
    print(f"\n| labels chosen by | overall | sd | average | sd |  ({runs} runs)")
    for way, rows in results.items():
        mean, sd = 100 * np.mean(rows, axis=0), 100 * np.std(rows, axis=0, ddof=runs > 1)
        print(f"| {way} | {mean[0]:.1f} | {sd[0]:.1f} | {mean[1]:.1f} | {sd[1]:.1f} |")


if __name__ == "__main__":
    main()
