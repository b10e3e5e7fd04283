"""Newer ideas on top of the rank-1 network, each alone: prototypes, pairs of modes, pruned ranks.

    python -m benchmarks.ideas [--pavia UPavia_Subset.mat] [--potsdam FOLDER]

Appends one JSON line per (scene, protocol, seed, method) to docs/results/ideas.jsonl, skips what is
there, and writes the tables of docs/results/ideas.md from the lines. The settings of each idea are
chosen on seeds 100 to 104, one for all scenes, and shown on seeds 0 to 9. The network works alone:
nothing is smoothed or propagated. A test holds the base row against `RankRClassifier`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score, recall_score

from benchmarks.harness import RESULTS, Record, chosen, fill, read_records, resume, spread, table
from benchmarks.ideas_networks import (
    EPOCHS,
    HIDDEN,
    PAIRS,
    Array,
    Net,
    Task,
    cp_start,
    descend,
    lasso,
    pair_start,
    predict,
    pruned,
    pull,
)
from polyad.scene.learn.recipe import Expert
from polyad.scene.learn.sampling import PROTOCOLS, Split, per_class
from polyad.scene.learn.whitening import NoiseWhitening
from polyad.scene.raster.despiking import valid_pixels
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

RECORDS, PAGE = RESULTS / "ideas.jsonl", RESULTS / "ideas.md"
DEVELOPMENT, SHOWN = range(100, 105), range(10)
TILE, FOLDS = 32, 7  # of Potsdam
Setting = tuple[float, ...]
Asked = dict[str, list[Setting]]
PULL, COSINE, LASSO = "prototype pull", "prototype pull, cosine rule", "rank 4, terms pruned"
FULL = "control: full matrices, 75 units"
# Strength, margin, and whether all 200 steps are taken or those of the base
PULLS = [*product((0.02, 0.1, 0.5), (0.2, 0.5), (0,)), (0.1, 0.2, 1), (0.1, 0.5, 1)]
LASSOS = [*product((0.01, 0.1, 1.0), (0, 1))]  # strength, and whether the refit starts anew
GRIDS: Asked = {PULL: PULLS, COSINE: PULLS, LASSO: LASSOS}
Fit = tuple[str, Setting, Array, Net, int]  # method, setting, predictions, network, steps


def fits(task: Task, asked: Asked) -> Iterator[Fit]:
    """Yield the base and the ideas; controls and what has no settings on the seeds shown only."""
    start, wide = cp_start(task), cp_start(task, rank=4)
    net, usual = descend(start, task)
    yield "base: rank 1", (), predict(net, task), net, usual
    if task.seed in SHOWN:
        yield "control: base, cosine rule", (), predict(net, task, cosine=True), net, usual
        net, steps = descend(start, task, steps=EPOCHS)
        yield "control: base, all 200 steps", (), predict(net, task), net, steps
    for setting in dict.fromkeys(asked[PULL] + asked[COSINE]):
        strength, margin, every = setting
        net, steps = descend(start, task, pull(strength, margin), EPOCHS if every else usual)
        for name in (PULL, COSINE):
            if setting in asked[name]:
                yield name, setting, predict(net, task, cosine=name == COSINE), net, steps
    if task.seed in SHOWN:
        for kind, name in PAIRS.items():
            net, steps = descend(pair_start(task, kind), task)
            yield name, (), predict(net, task), net, steps
        net, steps = descend(pair_start(task, "full", HIDDEN), task)
        yield FULL, (), predict(net, task), net, steps
        net, steps = descend(wide, task)
        yield "control: rank 4, nothing pruned", (), predict(net, task), net, steps
    for strength in dict.fromkeys(setting[0] for setting in asked[LASSO]):
        full, first = descend(wide, task, lasso(strength), EPOCHS)
        for anew in (anew for s, anew in asked[LASSO] if s == strength):
            net, steps = descend(pruned(full, wide if anew else full), task)
            yield LASSO, (strength, anew), predict(net, task), net, first + steps


@dataclass(frozen=True)
class Scene:
    """Components of a scene, its labels, and the view that the package has for it."""

    name: str
    cube: Array
    labels: Array
    expert: Expert

    @classmethod
    def open(cls, name: str, source: str, truth: str) -> Scene:
        scene = open_scene(source).load()
        labels = open_labels(truth, scene).values.astype(np.int64)
        labels = np.where(np.bincount(labels.ravel())[labels] < 20, 0, labels)  # too few to test
        values = scene.values.astype(np.float32)
        valid = valid_pixels(values, scene.rio.nodata)
        expert, view = Expert("whitened", 5, 15), NoiseWhitening().fit(values, valid)
        if name == "potsdam":  # where windows of whitened spectra fail
            expert, view = Expert("plain", 3, 300), view.principal(40)
        return cls(name, view.transform(values) * valid[..., None], labels, expert)

    def splits(self, protocol: str, seed: int) -> list[Split]:
        """Return one split, or one for each fold of tiles."""
        if protocol != "other-tiles-10":
            return [PROTOCOLS[protocol].split(self.labels, seed)]
        rows, cols = np.indices(self.labels.shape)
        tile = rows // TILE * (self.labels.shape[1] // TILE) + cols // TILE
        labeled = np.random.default_rng(seed).permutation(np.unique(tile[self.labels > 0]))
        held = [np.isin(tile, labeled[fold::FOLDS]) for fold in range(FOLDS)]
        train = [per_class(np.where(h, 0, self.labels), 10, seed).train for h in held]
        return [
            Split(t, np.argwhere(h & (self.labels > 0))) for t, h in zip(train, held, strict=True)
        ]

    def task(self, split: Split, seed: int) -> tuple[Task, Array, Array]:
        """Return the task, its classes and the true classes of its test pixels."""
        classes, y = np.unique(self.labels[tuple(split.train.T)], return_inverse=True)
        test = split.test[np.isin(self.labels[tuple(split.test.T)], classes)]
        patches = [
            extract_patches(self.cube, *p.T, self.expert.window) for p in (split.train, test)
        ]
        train, ahead = (windows / patches[0].std() for windows in patches)
        task = Task.of(train, y, ahead, self.expert.decay(len(y)), seed)
        return task, classes, self.labels[tuple(test.T)]


def outcomes(scene: Scene, protocol: str, seed: int, asked: Asked) -> Iterator[Record]:
    """Yield one record per method and setting, pooled over the splits of a seed."""
    pooled: dict[tuple[str, Setting], list[tuple[Array, Array, int, int]]] = {}
    for split in scene.splits(protocol, seed):
        task, classes, true = scene.task(split, seed)
        for method, setting, predicted, net, steps in fits(task, asked):
            row = (true, classes[predicted], net.n_weights, steps)
            pooled.setdefault((method, setting), []).append(row)
    for (method, setting), rows in pooled.items():
        true, predicted = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
        known: dict[str, Any] = {"labels": np.unique(true), "average": "macro"}
        scores = {
            "oa": float((true == predicted).mean()),
            "aa": float(recall_score(true, predicted, **known)),
            "macro_f1": float(f1_score(true, predicted, **known)),
            "n_weights": round(float(np.mean([row[2] for row in rows]))),
            "steps": round(float(np.mean([row[3] for row in rows]))),
        }
        yield {"method": method, "setting": setting} | scores


def outcomes_of(
    scenes: dict[str, Scene], asked: Asked, scene: str, protocol: str, seed: int
) -> Iterator[Record]:
    """Return the outcomes of a case, whose scene is told by its name."""
    return outcomes(scenes[scene], protocol, seed, asked)


def choose(records: list[Record]) -> Asked:
    """Return the setting of each idea that is right most often on the development seeds."""
    means: dict[tuple[str, Setting], list[float]] = {}
    for r in records:  # every cell has as many seeds, so the mean over records is that over cells
        if r["seed"] in DEVELOPMENT:
            means.setdefault((r["method"], tuple(r["setting"])), []).append(r["oa"])
    return {m: [max(grid, key=lambda s: np.mean(means[m, s]))] for m, grid in GRIDS.items()}


def parts(records: list[Record] | None = None) -> dict[str, str]:
    """Return accuracy and macro-F1 with their gain over the base, and sizes."""
    records = read_records(RECORDS) if records is None else records
    shown = sorted((r for r in records if r["seed"] in SHOWN), key=lambda r: r["seed"])
    cells = list(dict.fromkeys((r["scene"], r["protocol"]) for r in records))
    methods = list(dict.fromkeys(r["method"] for r in shown))

    def values(key: str, cell: tuple[str, str], method: str) -> Array:
        own = chosen(shown, scene=cell[0], protocol=cell[1], method=method)
        return np.array([r[key] for r in own], float)

    def scores(key: str, cell: tuple[str, str], method: str) -> str:
        mine = values(key, cell, method)
        if method == methods[0]:
            return spread(mine)
        gain = 100 * mine - 100 * values(key, cell, methods[0])
        return f"{spread(mine)} ({gain.mean():+.1f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.1f})"

    def sizes(key: str, cell: tuple[str, str], method: str) -> str:
        steps = values("steps", cell, method)
        return f"{values(key, cell, method).mean():,.0f} in {steps.mean():.0f}"

    entries = {"oa": scores, "macro_f1": scores, "n_weights": sizes}
    return {
        key: table(
            ["method", *map(" ".join, cells)],
            [[m, *(entry(key, cell, m) for cell in cells)] for m in methods],
        )
        for key, entry in entries.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pavia", type=Path, help="UPavia_Subset.mat, fetched by hand")
    parser.add_argument("--potsdam", type=Path, help="folder of potsdam_train.tif and its labels")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cells = [(("indian-pines",) * 3, ["random-10", "blocks-10", "other-fields-10"])]
    if options.pavia:
        names = ("pavia-crop", f"{options.pavia}:paviaU", f"{options.pavia}:paviaU_gt")
        cells.append((names, ["random-10", "blocks-10"]))
    if options.potsdam:
        files = [str(options.potsdam / f"potsdam_train{end}.tif") for end in ("", "_labels")]
        cells.append((("potsdam", *files), ["other-tiles-10"]))
    scenes = [(Scene.open(*names), protocols) for names, protocols in cells]
    by_name = {scene.name: scene for scene, _ in scenes}
    for seeds, (scene, protocols) in product((DEVELOPMENT, SHOWN), scenes):
        asked = GRIDS if seeds is DEVELOPMENT else choose(read_records(RECORDS))
        cases = [
            {"scene": scene.name, "protocol": protocol, "seed": seed}
            for protocol, seed in product(protocols, seeds)
        ]
        resume(RECORDS, cases, partial(outcomes_of, by_name, asked))
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
