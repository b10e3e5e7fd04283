"""Whether accuracy from the labels alone is what the map then has: Indian Pines, ten per class.

    python -m benchmarks.label_accuracy [--preset fast] [--seeds 10] [--first 0]

Labels are drawn in two ways: at random, and in two clumps for each class, as somebody labels who
walks from field to field. `polyad.cross_validate` sees these labels and nothing else. The truth is
the map trained on all of them, on every other labeled pixel and on those in blocks of 16 x 16
pixels without a training label. Appends one JSON line per run to docs/results/label-accuracy.jsonl
and skips what is there; ``--page`` writes the tables of docs/results/label-accuracy.md anew.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from benchmarks.harness import RESULTS, chosen, fill, read_records, resume
from polyad import cross_validate, map_scene, open_labels, open_scene
from polyad.scene import per_class, score, train_on, with_groups

RECORDS, PAGE = RESULTS / "label-accuracy.jsonl", RESULTS / "label-accuracy.md"
PER_CLASS, CLUMPS, REACH, BLOCK = 10, 2, 3, 16
TRUE = {"other": "true: all other labeled pixels", "far": "true: in blocks without labels"}
SAID = {
    "spatial": "reported: spatial folds",
    "groups": "reported: clumps as groups",
    "pixelwise": "reported: pixel by pixel",
    "choice": "reported: by training itself",
}
Array = np.ndarray[Any, Any]
Row = dict[str, Any]


def at_random(labels: xr.DataArray, seed: int) -> tuple[Array, None]:
    """Return ten random pixels of each class, half of a smaller one."""
    return per_class(labels, PER_CLASS, seed).train, None


def in_clumps(labels: xr.DataArray, seed: int) -> tuple[Array, Array]:
    """Return ten pixels of each class in two clumps of at most 7 x 7 pixels, and their clumps.

    A class with too few pixels round its clumps has fewer labels.
    """
    rng, values = np.random.default_rng(seed), np.asarray(labels.values)
    chosen, groups = np.zeros(values.shape, bool), np.zeros(values.shape, np.int64)
    for value in np.unique(values[values > 0]):
        own = np.argwhere(values == value)
        for center in own[rng.permutation(len(own))[:CLUMPS]]:
            near = own[(np.abs(own - center) <= REACH).all(axis=1)]
            near = near[~chosen[tuple(near.T)]]
            some = near[rng.permutation(len(near))[: PER_CLASS // CLUMPS]]
            chosen[tuple(some.T)] = True
            groups[tuple(some.T)] = groups.max() + 1
    return np.argwhere(chosen), groups


DRAWN: dict[str, Callable[[xr.DataArray, int], tuple[Array, Array | None]]] = {
    "random": at_random,
    "clumps": in_clumps,
}


def run(scene: xr.DataArray, labels: xr.DataArray, way: str, preset: str, seed: int) -> Row:
    """Return one record: what the labels say, and what the map is."""
    pixels, groups = DRAWN[way](labels, seed)
    known = np.zeros(labels.shape, bool)
    known[tuple(pixels.T)] = True
    given = labels.copy(data=np.where(known, labels.values, 0))
    options: dict[str, Any] = {"preset": preset, "random_state": seed}
    started = time.perf_counter()
    model = train_on(scene, given, pixels, **options)
    trained = time.perf_counter() - started
    class_map = map_scene(model, scene).values
    record: Row = {"way": way, "preset": preset, "seed": seed, "labels": len(pixels)}
    record["train_seconds"] = round(trained, 2)
    far = without_labels(pixels, labels.shape)
    values = np.asarray(labels.values)
    for name, where in (("other", ~known), ("far", far)):
        test = where & (values > 0)
        scores = score(values[test], class_map[test])
        record[name] = {"overall": scores.overall_accuracy, "average": scores.average_accuracy}
        record[name] |= {"kappa": scores.kappa, "pixels": int(test.sum())}
    inner = model.accuracy
    record["choice"] = None if inner is None else inner.to_dict()["spatial"]
    options["statistics"] = model.statistics
    started = time.perf_counter()
    found = cross_validate(scene, given, **options)
    record["seconds"] = round(time.perf_counter() - started, 2)
    record |= {"spatial": found.to_dict()["spatial"], "pixelwise": found.to_dict()["pixelwise"]}
    if groups is not None:
        apart = with_groups(given, groups)
        by_groups = cross_validate(scene, apart, pixelwise=False, **options)
        record["groups"] = by_groups.to_dict()["spatial"]
    for key in ("choice", "spatial", "pixelwise", "groups"):
        if record.get(key):
            del record[key]["classes"], record[key]["confusion_matrix"]
    return record


def without_labels(pixels: Array, shape: tuple[int, ...]) -> Array:
    """Return which pixels lie in blocks of the scene that hold no training label."""
    rows, cols = np.indices(shape) // BLOCK
    number = rows * (shape[1] // BLOCK + 1) + cols
    return ~np.isin(number, number[tuple(pixels.T)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if not given.page:
        scene = open_scene("indian-pines").load()
        labels = open_labels("indian-pines", scene)
        cases = [
            {"way": way, "preset": given.preset, "seed": seed}
            for seed in range(given.first, given.first + given.seeds)
            for way in DRAWN
        ]
        resume(RECORDS, cases, lambda **case: run(scene, labels, **case))
    fill(PAGE, parts())


def parts() -> dict[str, str]:
    """Return tables for each preset and way of labeling."""
    rows, found = read_records(RECORDS), {}
    for preset, way in product(dict.fromkeys(r["preset"] for r in rows), DRAWN):
        if some := chosen(rows, preset=preset, way=way):
            found[f"{preset}, {way}"] = tables(some)
    return found


def tables(rows: Sequence[Row]) -> str:
    """Return what was reported and what is true, mean and standard deviation over seeds."""
    seeds = sorted(r["seed"] for r in rows)
    lines = [
        f"{len(rows)} seeds ({seeds[0]} to {seeds[-1]}), {mean_of(r['labels'] for r in rows):.0f} "
        f"labels, {mean_of(r['seconds'] for r in rows):.0f} s for both kinds of folds beside "
        f"{mean_of(r['train_seconds'] for r in rows):.1f} s for one training.",
        "",
        "| | average accuracy | overall accuracy | kappa |",
        "|---|---|---|---|",
    ]
    for key, name in TRUE.items():
        cells = [spread([r[key][k] for r in rows]) for k in ("average", "overall")]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {kappas(rows, key)} |")
    said = {key: name for key, name in SAID.items() if any(r.get(key) for r in rows)}
    for key, name in said.items():
        some = [r for r in rows if r.get(key)]
        cells = [spread([r[key][f"{k}_accuracy"] for r in some]) for k in ("average", "overall")]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {kappas(some, key)} |")
    lines += ["", "| the interval of | width | holds the average accuracy of the other pixels | of "
              "blocks without labels |", "|---|---|---|---|"]  # fmt: skip
    for key, name in said.items():
        some = [r for r in rows if r.get(key) and r[key]["average_accuracy_ci95"]]
        bounds = [r[key]["average_accuracy_ci95"] for r in some]
        width = spread([high - low for low, high in bounds])
        held = [held_by(some, bounds, place) for place in TRUE]
        lines.append(f"| {name.removeprefix('reported: ')} | {width} | {held[0]} | {held[1]} |")
    return "\n".join(lines)


def held_by(rows: Sequence[Row], bounds: Sequence[Sequence[float]], place: str) -> str:
    """Return in how many runs the interval holds the truth."""
    inside = [
        low <= r[place]["average"] <= high for r, (low, high) in zip(rows, bounds, strict=True)
    ]
    return f"{sum(inside)} of {len(inside)}"


def kappas(rows: Sequence[Row], key: str) -> str:
    """Return mean and spread of kappa."""
    values = [r[key]["kappa"] for r in rows]
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation in percent."""
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"


def mean_of(values: Iterable[float]) -> float:
    """Return the mean."""
    return float(np.mean(list(values)))


if __name__ == "__main__":
    main()
