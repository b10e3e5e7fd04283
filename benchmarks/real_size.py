"""The best preset on scenes of real size: seconds, memory and accuracy as the pixels grow.

    python -m benchmarks.real_size --folder FOLDER [--pixels 100000 400000 1600000]

Indian Pines is laid out again and again, mirrored, each part with its own gain and noise, on 285
bands of uint16, and written to FOLDER as ENVI; ten labels of each class train in every part. Each
size runs in a process of its own. Appends one JSON line per size to docs/results/real-size.jsonl,
skips what is there, and writes docs/results/real-size.md from the lines. Scenes are removed after.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from benchmarks.harness import RESULTS, Record, Stages, fill, read_records, resident, resume, table
from benchmarks.mirrored import BANDS, PER_CLASS, SEED, write_mirrored
from polyad.scene.learn.experts import TrainSettings
from polyad.scene.learn.model import SceneModel
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.training import fit_preset
from polyad.scene.map.mapping import map_file, map_scene
from polyad.scene.raster.windows import plan_tiles, tile_shape
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

RECORDS, PAGE = RESULTS / "real-size.jsonl", RESULTS / "real-size.md"
SIZES = (100_000, 400_000, 1_600_000)
PART, MOST_PARTS = (145, 145), 8  # of Indian Pines; parts that are also mapped alone
Array = np.ndarray[Any, Any]


def measure(folder: Path, everywhere: bool) -> dict[str, Any]:
    """Return the record of the scene in a folder, with labels in every part or a few in all."""
    scene = open_scene(folder / "scene.hdr")
    with np.load(folder / "labels.npz") as stored:
        truth, train = stored["truth"], stored["train"]
    if not everywhere:
        train = few_of(np.where(train, truth, 0))
    labels = scene.isel(band=0, drop=True).copy(data=truth)
    stages = Stages()

    def read() -> None:
        shape = scene.sizes["y"], scene.sizes["x"]
        for tile in plan_tiles(shape, tile_shape(shape, 2 * BANDS)):
            scene.isel(y=tile.rows, x=tile.cols).load()

    stages.time("read", read)
    learned = stages.time("statistics", lambda: scene_statistics(scene))
    pixels, settings = np.argwhere(train), TrainSettings(random_state=SEED)
    model = stages.time(
        "train", lambda: fit_preset(scene, labels, pixels, settings, statistics=learned)
    )
    nodes = learned.graphs[0].shape[0]
    stages.time("map", lambda: map_file(model, scene, folder / "map.tif"))
    model.save(folder / "model.polyad")
    loaded = SceneModel.load(folder / "model.polyad")
    stages.time("map_from_file", lambda: map_file(loaded, scene, folder / "again.tif"))
    first, again = (
        np.asarray(open_labels(folder / f"{name}.tif", scene).values) for name in ("map", "again")
    )
    test = (truth > 0) & ~train & np.isin(truth, np.unique(truth[train]))
    compared = parts_alone(scene, truth, train, first) if everywhere else {}
    return compared | {
        "pixels": int(truth.size),
        "everywhere": everywhere,
        "bands": BANDS,
        "nodes": int(nodes),
        "labels": int(train.sum()),
        "threads": torch.get_num_threads(),
        "seconds": {name: took["seconds"] for name, took in stages.items()},
        "processor_seconds": {name: took["processor seconds"] for name, took in stages.items()},
        "load": round(os.getloadavg()[0], 1),
        "peak_mb": round(resident("VmHWM") / 1e6),
        "accuracy": round(float((first == truth)[test].mean()), 4),
        "same_from_file": bool((first == again).all()),
        "steps": "" if model.recipe is None else model.recipe.line,
    }


def parts_alone(
    scene: xr.DataArray, truth: Array, train: Array, whole_map: Array
) -> dict[str, float]:
    """Return the accuracy of some parts as scenes of their own, and in the map of the whole.

    Each part is trained with its own labels alone; tested are the same pixels in both ways.
    """
    parts = [part for part in plan_tiles(truth.shape, PART) if part.shape == PART][:MOST_PARTS]
    alone, within = [], []
    for part in parts:
        crop = scene.isel(y=part.rows, x=part.cols).load()
        labels = crop.isel(band=0, drop=True).copy(data=truth[part])
        model = fit_preset(crop, labels, np.argwhere(train[part]), TrainSettings(random_state=SEED))
        known = np.unique(truth[part][train[part]])
        test = (truth[part] > 0) & ~train[part] & np.isin(truth[part], known)
        alone.append((map_scene(model, crop).values == truth[part])[test].mean())
        within.append((whole_map[part] == truth[part])[test].mean())
    return {
        "parts": len(parts),
        "accuracy_of_parts_alone": round(float(np.mean(alone)), 4),
        "accuracy_of_parts_within": round(float(np.mean(within)), 4),
    }


def few_of(labels: Array) -> Array:
    """Return which pixels train if each class has `PER_CLASS` of them in the whole scene."""
    rng, train = np.random.default_rng(SEED), np.zeros(labels.shape, bool)
    for value in np.unique(labels[labels > 0]):
        train[tuple(rng.permutation(np.argwhere(labels == value))[:PER_CLASS].T)] = True
    return train


def records() -> list[Record]:
    """Return the records, smallest scene first."""
    return sorted(read_records(RECORDS), key=lambda r: (r["everywhere"], r["pixels"]))


def power(records: list[Record]) -> float:
    """Return the power by which processor time of statistics and map grows with the pixels.

    The time of the networks grows with the labels.
    """
    records = [r for r in records if not r["everywhere"]]
    used = [r["processor_seconds"] for r in records]
    seconds = [each["statistics"] + each["map"] for each in used]
    return float(np.polyfit(np.log([r["pixels"] for r in records]), np.log(seconds), 1)[0])


def parts() -> dict[str, str]:
    """Return the measured parts of the page."""
    names = ("read", "statistics", "train", "map", "map_from_file")
    rows = [
        [
            *(f"{r[key]:,}" for key in ("pixels", "nodes", "labels")),
            *(f"{r['seconds'][n]:.1f} ({r['processor_seconds'][n]:.1f})" for n in names),
            f"{r['peak_mb']:,}",
            f"{100 * r['accuracy']:.1f}",
        ]
        for r in records()
    ]
    head = ["pixels", "nodes", "labels", "reading, s", "statistics, s", "networks, s", "map, s"]
    head += ["map from a file, s", "memory, MB", "accuracy, %"]
    beside = "\n".join(
        f"- {r['pixels']:,} pixels: {100 * r['accuracy_of_parts_within']:.1f} % within the whole, "
        f"{100 * r['accuracy_of_parts_alone']:.1f} % alone ({r['parts']} parts)"
        for r in records()
        if r.get("parts")
    )
    return {"sizes": table(head, rows), "power": f"{power(records()):.2f}", "beside": beside}


def measure_apart(root: Path, pixels: int, everywhere: bool) -> Record:
    """Make a scene and measure it, each in a process of its own; the scene is removed after."""
    folder = root / str(pixels)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.real_size", "--folder", str(folder)]
    words = [*command, "--measure", *["--everywhere"] * everywhere]
    try:
        subprocess.run([*command, "--make", str(pixels)], check=True)
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        shutil.rmtree(folder)
    found: Record = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where scenes are written and removed again")
    parser.add_argument("--pixels", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)  # make it in this process
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--everywhere", action="store_true", help="labels in every part")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.make:
        write_mirrored(options.folder, (math.isqrt(options.make),) * 2)
        return
    if options.measure:
        print(json.dumps(measure(options.folder, options.everywhere)))
        return
    sizes = [] if options.page_only else [math.isqrt(n) ** 2 for n in options.pixels]
    cases = [{"pixels": n, "everywhere": options.everywhere} for n in sizes]
    resume(RECORDS, cases, partial(measure_apart, options.folder))
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
