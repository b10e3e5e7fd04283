"""How good a map is from a few labels: presets, ablations and controls under every protocol.

    python -m benchmarks.few_labels [--seeds 10] [--pavia UPavia_Subset.mat]

Appends one JSON line per (scene, protocol, seed, method) to docs/results/few-labels.jsonl,
skips what is there, and writes docs/results/few-labels.md from the lines. Settings were chosen on
seeds 100 and up; the page shows seeds 0 to 9.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.bands import BandFusion, ScaleProfiles
from benchmarks.folds import deal_folds
from benchmarks.harness import RESULTS, fill, read_records
from polyad import RankRClassifier
from polyad.scene.assess.scores import score
from polyad.scene.learn.experts import FOLDS, STARTS, fit_weights, held_out_logits
from polyad.scene.learn.networks import merge
from polyad.scene.learn.recipe import PropagationSettings
from polyad.scene.learn.sampling import PROTOCOLS, Split, no_overlap
from polyad.scene.learn.scene_statistics import scene_statistics
from polyad.scene.learn.steps import (
    Propagator,
    combine,
    edge_filter,
    find_segments,
    graphs_of_whitened,
    guided_filter,
    pixel_nodes,
)
from polyad.scene.learn.training import PRIOR_WEIGHTS, PULL, train_on
from polyad.scene.learn.whitening import NoiseWhitening, segment_mean
from polyad.scene.map.mapping import map_scene
from polyad.scene.raster.windows import extract_patches
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

ROOT = Path(__file__).parent.parent
PAVIA_PROTOCOLS = ["random-5", "random-10", "other-fields-10", "blocks-10"]
EXACT = "best, this-scene, pixels as nodes"
NEWEST = {"fast", "paper", "best, this-scene", "best, other-scenes", EXACT}
RECORDS = RESULTS / "few-labels.jsonl"
Array = np.ndarray[Any, Any]
Maps = dict[str, tuple[Array, float | None]]


class Bench:
    """One scene with everything that is learned from it without labels."""

    def __init__(self, name: str, scene: xr.DataArray, labels: xr.DataArray) -> None:
        self.name, self.scene, self.labels = name, scene, labels
        self.cube = scene.values.astype(np.float32)
        self.shape = self.cube.shape[:2]
        whitening = NoiseWhitening().fit(self.cube)
        z = whitening.transform(self.cube)
        self.z = z / z.std()
        self.guide = z[..., :3] / z[..., :3].std(axis=(0, 1))
        fused = BandFusion().transform(self.cube)
        self.fused = (fused - fused.mean(axis=(0, 1))) / fused.std(axis=(0, 1))
        self.profiles = ScaleProfiles().transform(z) / z.std()
        self.propagation = PropagationSettings()
        every = np.ones(self.shape, bool)
        self.nodes = pixel_nodes(every)
        self.graphs = graphs_of_whitened(self.propagation, z, every)
        self.segments = find_segments(edge_filter(z[..., :10], 4.0))


def network(field: Array, split: Split, y: Array, window: int, seed: int, **options: Any) -> Array:
    """Return probabilities (pixels, classes) of merged starts on windows of ``field``."""
    height, width = field.shape[:2]
    flat = np.ascontiguousarray(field.reshape(height, width, -1), np.float32)
    X = extract_patches(flat, *split.train.T, window)
    X = X.reshape(len(y), window, window, *field.shape[2:])
    starts = options.pop("starts", STARTS)
    seeds = np.random.SeedSequence(seed).generate_state(starts)
    merged = merge([RankRClassifier(random_state=int(k), **options).fit(X, y) for k in seeds])
    cube = xr.DataArray(flat, dims=("y", "x", "band"))
    return map_scene(merged, cube, probabilities=True)[1].values.reshape(height * width, -1)


def smoothed(proba: Array, bench: Bench) -> Array:
    """Return probabilities (pixels, classes) after the guided filter."""
    filtered = guided_filter(proba.reshape(*bench.shape, -1), bench.guide)
    filtered = filtered.reshape(len(proba), -1).clip(1e-6)
    return filtered / filtered.sum(axis=1, keepdims=True)


def support_vectors(field: Array, split: Split, y: Array, window: int = 1) -> Array:
    """Return probabilities of a support vector machine on windows: a softmax of its votes."""
    every = np.argwhere(np.ones(field.shape[:2], bool))
    patches = extract_patches(field, *split.train.T, window).reshape(len(y), -1)
    # Standardizing would blow up the noisy components of whitened spectra
    scaler = StandardScaler(with_std=window == 1 and field.shape[2] > 20)
    model = make_pipeline(scaler, SVC(C=100.0)).fit(patches, y)
    votes = [
        model.decision_function(extract_patches(field, *batch.T, window).reshape(len(batch), -1))
        for batch in np.array_split(every, 8)
    ]
    return softmax(np.concatenate(votes), axis=1)


def ablations(bench: Bench, split: Split, y: Array, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield each variant's name and probabilities (pixels, classes)."""
    classes, targets = np.unique(y, return_inverse=True)
    free: dict[str, Any] = {"standardize": None}
    yield "rank-1 on bands", network(bench.cube, split, y, 5, seed, starts=1)
    yield "rank-1 on whitened spectra", network(bench.z, split, y, 5, seed, starts=1, **free)
    alone = network(bench.z, split, y, 5, seed, **free)
    yield "+ 3 starts", alone
    yield "+ guided filter", smoothed(alone, bench)
    yield "+ segments instead", segment_mean(alone, bench.segments.ravel())
    single = network(bench.z, split, y, 1, seed, **free)
    yield "control: 1x1 window", single
    yield "control: SVM on whitened spectra", support_vectors(bench.z, split, y)
    vectors = support_vectors(bench.z, split, y, window=5)
    yield "control: SVM on whitened 5x5 windows", vectors
    order4 = network(bench.profiles, split, y, 5, seed, rank=2, **free)
    yield "order 4: rank-2 on profiles", order4
    fused = edge_filter(bench.fused, 0.1)
    yield "rank-1 on filtered fused bands", network(fused, split, y, 5, seed, starts=1)
    propagator = Propagator(bench.propagation, bench.graphs, bench.nodes)
    propagated = propagator.log_shares(split.train, targets, len(classes))
    yield "walk alone", softmax(propagated, axis=1)
    certain = replace(
        propagator, settings=bench.propagation.model_copy(update={"smoothing": 0.0})
    ).log_shares(split.train, targets, len(classes))
    yield "walk x network, every walk believed", combine(alone, certain, PRIOR_WEIGHTS)
    yield "walk x network, prior weights", combine(alone, propagated, PRIOR_WEIGHTS)
    samples = extract_patches(bench.z, *split.train.T, 5)
    fold = deal_folds(targets, FOLDS, seed)
    held = held_out_logits(samples, targets, fold, seed, free)
    out = propagator.held_out(split.train, targets, fold, len(classes))
    weights = fit_weights([out, held], targets, PRIOR_WEIGHTS, PULL)
    yield "walk x network, weights from folds", combine(alone, propagated, (weights[0], weights[1]))
    (temperature,) = fit_weights([held], targets, [0.3], 0.03)
    logits = np.log(np.maximum(alone, 1e-12))  # finite where a probability is zero
    yield "+ 3 starts, calibrated", softmax(temperature * logits, axis=1)
    yield "walk x 1x1 network", combine(single, propagated, PRIOR_WEIGHTS)
    yield "walk x SVM", combine(vectors, propagated, (1.0, 1.0))
    yield "walk x order-4 network", combine(order4, propagated, PRIOR_WEIGHTS)
    both = combine(alone, propagated, (weights[0], weights[1]))
    yield "walk x network + segments", segment_mean(both, bench.segments.ravel())


def presets(
    bench: Bench, split: Split, seed: int, done: Collection[str] = ()
) -> Iterator[tuple[str, Array, float]]:
    """Yield each preset's name, probabilities and seconds of fitting and mapping."""
    asked: dict[str, dict[str, Any]] = {
        "fast": {"preset": "fast"},
        "paper": {"preset": "paper"},
        "best, this-scene": {"preset": "best", "goal": "this-scene"},
        "best, other-scenes": {"preset": "best", "goal": "other-scenes"},
        EXACT: {"preset": "best", "goal": "this-scene"},
    }
    for name, options in asked.items():
        if name in done:
            continue
        started = time.process_time()
        if name == EXACT:
            options["statistics"] = scene_statistics(bench.scene, settings=PropagationSettings())
        model = train_on(bench.scene, bench.labels, split.train, random_state=seed, **options)
        proba = map_scene(model, bench.scene, probabilities=True)[1].values
        yield name, proba.reshape(-1, proba.shape[2]), time.process_time() - started


def outcomes(
    bench: Bench, split: Split, seed: int, done: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield one record per method that is not done."""
    values = np.asarray(bench.labels.values).astype(np.int64)
    y = values[tuple(split.train.T)]
    if "SVM on spectra" not in done:
        spectrum = support_vectors(bench.cube, split, y)
        yield judged("SVM on spectra", spectrum, bench, split, y, None)
    for name, proba, seconds in presets(bench, split, seed, done):
        yield judged(name, proba, bench, split, y, seconds)
    if "+ 3 starts" not in done:
        for name, proba in ablations(bench, split, y, seed):
            yield judged(name, proba, bench, split, y, None)


def judged(
    method: str, proba: Array, bench: Bench, split: Split, y: Array, seconds: float | None
) -> dict[str, Any]:
    """Score a map on the test pixels."""
    proba, true, predicted, known = on_test_pixels(proba, bench, split, y)
    apart = no_overlap(split, bench.shape, 5)
    s = score(true[known], predicted[known], no_overlap=apart[known])
    wrong, sure = predicted != true, proba.max(axis=1)
    return {
        "method": method,
        "oa": s.overall_accuracy,
        "aa": s.average_accuracy,
        "kappa": s.kappa,
        "oa_no_overlap": s.overall_accuracy_no_overlap,
        "ece": _calibration(~wrong, sure),
        "auroc": float(roc_auc_score(wrong, -sure)) if 0 < wrong.sum() < len(wrong) else None,
        "n_test": len(true),
        "cpu_seconds": seconds,
    }


def on_test_pixels(
    proba: Array, bench: Bench, split: Split, y: Array
) -> tuple[Array, Array, Array, Array]:
    """Return probabilities, true and predicted classes of the test pixels, and which are scored.

    Pixels of a class without training pixels are not.
    """
    classes = np.unique(y)
    proba = proba.reshape(*bench.shape, -1)[tuple(split.test.T)]
    proba = np.clip(proba / proba.sum(axis=1, keepdims=True), 0, 1)
    true = np.asarray(bench.labels.values)[tuple(split.test.T)].astype(np.int64)
    return proba, true, classes[proba.argmax(axis=1)], np.isin(true, classes)


def accuracy_of(proba: Array, bench: Bench, split: Split, y: Array) -> float:
    """Return the overall accuracy on the test pixels."""
    _, true, predicted, known = on_test_pixels(proba, bench, split, y)
    return float((true == predicted)[known].mean())


def _calibration(right: Array, sure: Array, bins: int = 15) -> float:
    which = np.minimum((sure * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(which, weights=right - sure, minlength=bins)).sum() / len(sure))


def open_bench(name: str, pavia: Path | None) -> Bench:
    """Open Indian Pines, or the crop of Pavia University from its file."""
    if name == "indian-pines":
        scene = open_scene(name).load()
        return Bench(name, scene, open_labels(name, scene))
    scene = open_scene(f"{pavia}:paviaU").load()
    labels = open_labels(f"{pavia}:paviaU_gt", scene)
    counts = np.bincount(labels.values.ravel())
    few = np.flatnonzero(counts < 20)
    return Bench(name, scene, labels.copy(data=np.where(np.isin(labels, few), 0, labels.values)))


def run(
    name: str,
    protocols: list[str],
    seeds: Iterable[int],
    pavia: Path | None,
    outcomes_of: Callable[[Bench, Split, int, Collection[str]], Iterable[dict[str, Any]]],
    records: Path = RECORDS,
) -> None:
    """Append the outcomes of every split of a scene that have no record yet."""
    done: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for r in read_records(records):
        done[r["scene"], r["protocol"], r["seed"]].add(r.get("method", "all"))
    records.parent.mkdir(parents=True, exist_ok=True)
    bench: Bench | None = None
    for seed, protocol in product(seeds, protocols):
        known = done[name, protocol, seed]
        if "all" in known or known >= NEWEST:
            continue
        bench = bench or open_bench(name, pavia)
        split = PROTOCOLS[protocol].split(bench.labels, seed)
        head = {"scene": name, "protocol": protocol, "seed": seed}
        lines = [json.dumps(head | row) + "\n" for row in outcomes_of(bench, split, seed, known)]
        with records.open("a") as file:  # one write: a killed run leaves whole splits
            file.write("".join(lines))
        print(name, protocol, seed, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--pavia", type=Path, help="UPavia_Subset.mat, fetched by hand")
    parser.add_argument("--protocols", nargs="*", default=None)
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen: Callable[[list[str]], list[str]] = partial(_chosen, options.protocols)
    if not options.page_only:
        seeds = range(options.seeds)
        run("indian-pines", chosen(list(PROTOCOLS)), seeds, None, outcomes)
        if options.pavia:
            run("pavia-crop", chosen(PAVIA_PROTOCOLS), seeds, options.pavia, outcomes)
    from benchmarks.few_labels_page import PAGE, parts

    fill(PAGE, parts())


def _chosen(asked: list[str] | None, known: list[str]) -> list[str]:
    # No-overlap draws the random protocol's pixels: its figures stand in that one's records
    known = [name for name in known if not name.startswith("no-overlap")]
    return known if asked is None else [name for name in known if name in asked]


if __name__ == "__main__":
    main()
