"""Morphological profiles as samples of order 4: docs/results/profiles.md.

    python -m benchmarks.profiles [--pavia UPavia_Subset.mat]  # fits without a record, and the page
    python -m benchmarks.profiles --choose [--pavia UPavia_Subset.mat]  # settings, seeds 100 to 102

Ten labels per class, drawn at random or from separate blocks, seeds 0 to 9. The Rank-1 network with
its defaults on windows of the profiles (window x window x component x level) stands beside the same
network on windows of all bands, and beside a support vector machine on a pixel's flattened profile,
the usual method. Appends one JSON line per fit to docs/results/profiles.jsonl.
"""

from __future__ import annotations

import argparse
import json
import warnings
from ast import literal_eval
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.harness import RESULTS, fill, read_records, spread, table
from polyad import RankRClassifier
from polyad.scene import (
    Blocks,
    RandomPerClass,
    extract_patches,
    morphological_profiles,
    open_labels,
    open_scene,
    score,
)
from polyad.threads import limit_threads

RECORDS, CHOICE = RESULTS / "profiles.jsonl", RESULTS / "profiles-choice.jsonl"
PAGE = RESULTS / "profiles.md"
SEEDS, CHOICE_SEEDS, PER_CLASS, PLAIN_WINDOW = range(10), range(100, 103), 10, 5
PROTOCOLS = {"random": RandomPerClass, "blocks": Blocks}
SCENES = {"indian-pines": "Indian Pines", "pavia-crop": "Pavia University, crop"}
COMPONENTS, WINDOWS = (4, 8, 12), (3, 5)
RADII = ((1, 2, 3, 4), (2, 4, 6, 8), (3, 6, 9, 12))
FIRST = (4, 8), RADII[:2]  # components and radii tried before seeds 0 to 9 had been seen
METHODS = {
    "plain": "Rank-1 network, windows of all bands",
    "profile": "Rank-1 network, windows of profiles (order 4)",
    "svm": "support vector machine, profile of the pixel",
}
Array = np.ndarray[Any, Any]


def load_scenes(pavia: Path | None) -> dict[str, tuple[xr.DataArray, Array]]:
    """Return each scene with its labels."""
    sources = {"indian-pines": ("indian-pines", "indian-pines")}
    if pavia is not None:
        sources["pavia-crop"] = (f"{pavia}:paviaU", f"{pavia}:paviaU_gt")
    return {
        name: (open_scene(cube).load(), open_labels(labels).to_numpy())
        for name, (cube, labels) in sources.items()
    }


def fit_one(method: str, cube: Array, window: int, labels: Array, split: Any, seed: int) -> Any:
    """Return the scores on the test pixels of one fit."""
    train, test = split.train, split.test
    y, truth = labels[tuple(train.T)], labels[tuple(test.T)]
    test, truth = test[np.isin(truth, y)], truth[np.isin(truth, y)]
    if method == "svm":
        grid = {"svc__C": [1.0, 10.0, 100.0, 1000.0]}
        model = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
        model.fit(cube[tuple(train.T)].reshape(len(train), -1), y)
        predicted = model.predict(cube[tuple(test.T)].reshape(len(test), -1))
    else:
        model = RankRClassifier(1, activation="tanh", random_state=seed)
        model.fit(extract_patches(cube, *train.T, window), y)
        batches = np.array_split(test, 20)
        predicted = np.concatenate(
            [model.predict(extract_patches(cube, *batch.T, window)) for batch in batches]
        )
    return score(truth, predicted)


def run(scenes: Any, settings: Any, seeds: Any, path: Path) -> None:
    """Do the fits that have no record; ``settings`` gives those of a scene and method."""
    done = {tuple(row["key"]) for row in read_records(path)}
    for name, (scene, labels) in scenes.items():
        made: dict[Any, Array] = {}
        for protocol, seed, method in product(PROTOCOLS, seeds, METHODS):
            for components, radii, window in settings(name, method):
                key = (name, protocol, seed, method, components, str(radii), window)
                if key in done:
                    continue
                if components and (components, radii) not in made:
                    made[components, radii] = morphological_profiles(scene, components, radii)
                cube = made[components, radii] if components else scene.to_numpy()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # classes too small for blocks
                    draw = PROTOCOLS[protocol](PER_CLASS, PLAIN_WINDOW, "drop")
                    split = draw.split(labels, seed)
                scores = fit_one(method, cube, window, labels, split, seed)
                row = {"key": key, "oa": scores.overall_accuracy, "aa": scores.average_accuracy}
                line = json.dumps(row) + "\n"
                print(line, end="", flush=True)
                with path.open("a") as file:
                    file.write(line)


def candidates(_: str, method: str) -> list[tuple[int, tuple[int, ...], int]]:
    """Return what is tried of a method: components, radii, window."""
    if method == "plain":
        return []
    windows = WINDOWS if method == "profile" else (1,)
    return list(product(COMPONENTS, RADII, windows))


def chosen(scene: str, method: str, first: bool = False) -> tuple[int, tuple[int, ...], int]:
    """Return the candidate with the best mean accuracy on the seeds of the choice."""
    if method == "plain":
        return 0, (), PLAIN_WINDOW
    accuracy = defaultdict(list)
    for row in read_records(CHOICE):
        name, _, _, its, components, radii, window = row["key"]
        radii = literal_eval(radii)
        tried = not first or (components in FIRST[0] and radii in FIRST[1])
        if (name, its) == (scene, method) and tried:
            accuracy[components, radii, window].append(row["oa"])
    return max(accuracy, key=lambda setting: np.mean(accuracy[setting]))


def reported(scene: str, method: str) -> list[tuple[int, tuple[int, ...], int]]:
    """Return the choices from both grids, once if they are one."""
    return list(dict.fromkeys([chosen(scene, method, first=True), chosen(scene, method)]))


def parts() -> dict[str, str]:
    """Return a table for each scene."""
    by: dict[Any, dict[int, float]] = defaultdict(dict)
    for row in read_records(RECORDS):
        name, protocol, seed, method, components, radii, window = row["key"]
        by[name, protocol, method, (components, literal_eval(radii), window)][seed] = row["oa"]
    found = {}
    for name in SCENES:
        rows = []
        for method, first in product(METHODS, (True, False)):
            if method == "plain" and first:
                continue
            setting = chosen(name, method, first)
            grid = "" if method == "plain" else "first" if first else "second"
            cells = [METHODS[method], grid, str(setting[0] or ""), ", ".join(map(str, setting[1]))]
            for protocol in PROTOCOLS:
                ours = by[name, protocol, method, setting]
                plain = by[name, protocol, "plain", chosen(name, "plain")]
                gain = [100 * (ours[seed] - plain[seed]) for seed in plain]
                more = f" ({np.mean(gain):+.1f} ± {np.std(gain, ddof=1):.1f})"
                cells.append(spread([*ours.values()]) + more * (method != "plain"))
            rows.append(cells)
        head = [SCENES[name], "grid", "components", "radii", "random pixels", "separate blocks"]
        found[name] = table(head, rows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pavia", type=Path, help="UPavia_Subset.mat, fetched by hand")
    parser.add_argument("--choose", action="store_true", help="try the settings, on other seeds")
    given = parser.parse_args()
    with limit_threads(1):
        scenes = load_scenes(given.pavia)
        if given.choose:
            run(scenes, candidates, CHOICE_SEEDS, CHOICE)
            return
        run(scenes, reported, SEEDS, RECORDS)
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
