"""How good maps are from labels as people draw them: compact patches, tiles, random pixels.

    python -m benchmarks.clumped --data FOLDER [--first 0] [--seeds 10] [--protocols patch-10 ...]

Presets beside plain models on spectra. Appends one JSON line per (scene, protocol, seed, method) to
docs/results/clumped.jsonl and skips what is there. Settings were chosen on seeds 100 and up; what
is reported are seeds 0 to 9. ``FOLDER`` holds UPavia_Subset.mat and enmap_potsdam.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.harness import RESULTS, Record, resume
from benchmarks.other_places import open_potsdam, splits, tile_of
from polyad.scene.learn.sampling import PROTOCOLS, CompactPatch
from polyad.scene.learn.scene_statistics import SceneStatistics, scene_statistics
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import map_scene
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

RECORDS = RESULTS / "clumped.jsonl"
Array = np.ndarray[Any, Any]
Fit = Callable[[Array, Array, Array], Any]
PRESETS = {
    "best, this-scene": "this-scene",
    "best, other-scenes": "other-scenes",
}
CASES = {
    "indian-pines": (
        "patch-10",
        "random-5",
        "random-10",
        "random-30",
        "other-fields-10",
        "blocks-10",
    ),
    "pavia-crop": ("patch-10", "random-5", "random-10", "other-fields-10", "blocks-10"),
    "potsdam": ("tiles-10", "tiles-30", "tiles-all"),
}


class Bench:
    """A scene, its labels, and what is learned from it without labels."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.scene, self.labels = self._open(folder)
        self.ids = np.asarray(self.labels.values).astype(np.int64)
        self.cube = np.asarray(self.scene.values, np.float32)

    def _open(self, folder: Path) -> tuple[xr.DataArray, xr.DataArray]:
        if self.name == "potsdam":
            return open_potsdam(folder / "enmap_potsdam")
        if self.name == "indian-pines":
            scene = open_scene(self.name).load()
            return scene, open_labels(self.name, scene)
        file = folder / "UPavia_Subset.mat"
        scene = open_scene(f"{file}:paviaU").load()
        labels = open_labels(f"{file}:paviaU_gt", scene)
        few = np.flatnonzero(np.bincount(labels.values.ravel()) < 20)
        return scene, labels.copy(data=np.where(np.isin(labels, few), 0, labels.values))

    @cache  # noqa: B019
    def statistics(self, goal: str) -> SceneStatistics:
        """Return the statistics of the scene for a goal."""
        return scene_statistics(self.scene, goal)

    def splits(self, protocol: str, seed: int) -> Iterator[tuple[Array, Array]]:
        """Yield training and test pixels, ``(n, 2)`` each."""
        if protocol.startswith("tiles-"):
            count = protocol.removeprefix("tiles-")
            yield from splits(self.ids, None if count == "all" else int(count), seed)
            return
        known = PROTOCOLS[protocol] if protocol in PROTOCOLS else CompactPatch(10)
        split = known.split(self.labels, seed)
        yield split.train, split.test

    def groups(self, protocol: str, pixels: Array) -> Array | None:
        """Return the tile of each pixel where labels come in tiles."""
        return tile_of(pixels) if protocol.startswith("tiles-") else None


def simple_models(seed: int, groups: Array | None, y: Array, X: Array) -> dict[str, Any]:
    """Return plain models on spectra; where settings are chosen, by folds."""
    least = int(np.bincount(y)[np.unique(y)].min())
    folds: Any = StratifiedKFold(max(min(3, least), 2), shuffle=True, random_state=seed)
    if groups is not None:
        folds = GroupKFold(3)
    svm = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": [1, 10, 100], "svc__gamma": ["scale", 1e-3]}
    solver = {"solver": "newton-cholesky", "max_iter": 300}
    line = make_pipeline(StandardScaler(), PCA(0.9999), LogisticRegression(**solver))
    some = StandardScaler().fit_transform(X)[:1000]
    gamma = 1 / np.median(pdist(some, "sqeuclidean"))
    near = Nystroem(gamma=gamma, n_components=min(200, len(y)), random_state=seed)
    powers = {"logisticregression__C": [0.01, 0.1, 1, 10]}
    return {
        "SVM, C = 1": make_pipeline(StandardScaler(), SVC(C=1)),
        "SVM, C by folds": GridSearchCV(svm, grid, cv=folds),
        "logistic regression": GridSearchCV(line, powers, cv=folds),
        "Nystroem logistic": make_pipeline(
            StandardScaler(), near, LogisticRegression(C=10, **solver)
        ),
        "forest": RandomForestClassifier(300, random_state=seed),
        "nearest mean": make_pipeline(StandardScaler(), NearestCentroid(shrink_threshold=0.5)),
        "LDA": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    }


SIMPLE = tuple(simple_models(0, None, np.array([1, 1, 2, 2]), np.eye(4)))


def scores(true: Array, predicted: Array) -> Record:
    """Return overall and average accuracy."""
    right = true == predicted
    shares = [float(right[true == value].mean()) for value in np.unique(true)]
    by_class = [round(share, 4) for share in shares]
    return {"oa": float(right.mean()), "aa": float(np.mean(shares)), "by_class": by_class}


def outcome(bench: Bench, protocol: str, seed: int, method: str) -> Record:
    """Return the accuracy of a method over the test pixels of a protocol."""
    true, predicted, lines, seconds = [], [], [], []
    for train, test in bench.splits(protocol, seed):
        y = bench.ids[tuple(train.T)]
        test = test[np.isin(bench.ids[tuple(test.T)], y)]
        started = time.thread_time()
        if method in PRESETS:
            goal = PRESETS[method]
            model = train_on(
                bench.scene,
                bench.labels,
                train,
                preset="best",
                goal=goal,
                random_state=seed,
                statistics=bench.statistics(goal),
            )
            seconds.append(time.thread_time() - started)
            found = map_scene(model, bench.scene).values[tuple(test.T)]
            lines.append("" if model.recipe is None else model.recipe.line)
        else:
            X, group = bench.cube[tuple(train.T)], bench.groups(protocol, train)
            model = simple_models(seed, group, y, X)[method]
            model = (
                model.fit(X, y, groups=group) if "folds" in method else _fitted(model, X, y, group)
            )
            seconds.append(time.thread_time() - started)
            found = model.predict(bench.cube[tuple(test.T)])
        true.append(bench.ids[tuple(test.T)])
        predicted.append(found.astype(np.int64))
    row = scores(np.concatenate(true), np.concatenate(predicted))
    return row | {"cpu_seconds": round(float(np.mean(seconds)), 3), "chosen": lines}


def _fitted(model: Any, X: Array, y: Array, group: Array | None) -> Any:
    return model.fit(X, y, groups=group) if isinstance(model, GridSearchCV) else model.fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scenes", nargs="*", default=list(CASES))
    parser.add_argument("--protocols", nargs="*")
    parser.add_argument("--methods", nargs="*", default=[*SIMPLE, *PRESETS])
    parser.add_argument("--tag", default="", help="added to the names of our methods")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.scenes:
        bench = Bench(name, options.data)
        cases = [
            {"scene": name, "protocol": protocol, "seed": seed, "method": method}
            for protocol in options.protocols or CASES[name]
            if protocol in CASES[name]
            for seed in range(options.first, options.first + options.seeds)
            for method in options.methods
        ]
        for case in cases:
            if case["method"] in PRESETS:
                case["tag"] = options.tag

        def measure(
            scene: str, protocol: str, seed: int, method: str, tag: str = "", bench: Bench = bench
        ) -> Record:
            del scene, tag
            return outcome(bench, protocol, seed, method)

        resume(options.records, cases, measure)


if __name__ == "__main__":
    main()
