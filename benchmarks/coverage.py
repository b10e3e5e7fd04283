"""How often prediction sets hold the true class, beside how often they promise to.

    python -m benchmarks.coverage [--seeds 10] [--development 5]

Appends one JSON line per protocol, seed, preset, score and level to docs/results/coverage.jsonl,
skips what is there, and writes docs/results/coverage.md from the lines. The score was chosen on
seeds 100 and up, where three are compared; seeds 0 and up have the chosen one alone.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from benchmarks.harness import RESULTS, Record, chosen, fill, read_records, resume, spread, table
from polyad.scene.assess.scores import score
from polyad.scene.learn import training
from polyad.scene.learn.accuracy import labels_wanted, least_probability
from polyad.scene.learn.folds import testable
from polyad.scene.learn.sampling import PROTOCOLS
from polyad.scene.learn.training import train_on
from polyad.scene.map.mapping import LabelDistance, map_scene, set_rule
from polyad.scene.raster.classes import set_members
from polyad.scene.raster.windows import Tile
from polyad.scene.read.labels import open_labels
from polyad.scene.read.scenes import open_scene

RECORDS, PAGE = RESULTS / "coverage.jsonl", RESULTS / "coverage.md"
DEVELOPMENT = 100  # the first seed on which the score was chosen
LEVELS = (0.8, 0.9, 0.95)
ASKED: dict[str, dict[str, Any]] = {
    "fast": {"preset": "fast"},
    "best, this-scene": {"preset": "best", "goal": "this-scene"},
    "best, other-scenes": {"preset": "best", "goal": "other-scenes"},
}
KINDS = {
    "random-10": "random pixels",
    "blocks-10": "other blocks",
    "other-fields-10": "other fields",
}
CHOSEN = "probability"
Array = np.ndarray[Any, Any]
Held = dict[str, Array]


@contextmanager
def watched() -> Iterator[Held]:
    """Yield what will hold the probabilities of held-out labels, of all classes, once trained."""
    kept: Held = {}
    ours = training.held_out_scores

    def watching(logits: Array, targets: Array, pixels: Array, folds: Any) -> Any:
        tested = testable(folds.fold, targets)
        kept.update(proba=softmax(logits[tested], axis=1), targets=targets[tested])
        return ours(logits, targets, pixels, folds)

    training.held_out_scores = watching
    try:
        yield kept
    finally:
        training.held_out_scores = ours


def by_mass(proba: Array) -> Array:
    """Return one minus the mass of all likelier classes, ``(n, C)``: that of adaptive sets."""
    order = np.argsort(-proba, axis=1)
    falling = np.take_along_axis(proba, order, axis=1)
    out = np.empty_like(proba)
    np.put_along_axis(out, order, 1 - (np.cumsum(falling, axis=1) - falling), axis=1)
    return out


def one_threshold(held: Held, proba: Array, level: float, of: Callable[[Array], Array]) -> Array:
    """Return the sets ``(n, C)`` whose threshold all labels set together."""
    own = of(held["proba"])[np.arange(len(held["targets"])), held["targets"]]
    return np.asarray(of(proba) >= least_probability(own, level))


def by_class(held: Held, proba: Array, level: float) -> Array:
    """Return the sets whose thresholds each class's labels set; all classes without enough."""
    own, least = held["proba"][np.arange(len(held["targets"])), held["targets"]], []
    for k in range(proba.shape[1]):
        some = own[held["targets"] == k]
        few = len(some) < labels_wanted(level)
        least.append(0.0 if few else least_probability(some, level))
    return np.asarray(proba >= np.array(least))


SCORES: dict[str, Callable[[Held, Array, float], Array]] = {
    CHOSEN: lambda h, p, level: one_threshold(h, p, level, lambda q: q),
    "mass of likelier classes": lambda h, p, level: one_threshold(h, p, level, by_mass),
    "probability, by class": by_class,
}


def outcomes(
    scene: xr.DataArray, labels: xr.DataArray, protocol: str, seed: int, preset: str
) -> Iterator[dict[str, Any]]:
    """Yield one record per score and level."""
    split = PROTOCOLS[protocol].split(labels, seed)
    with watched() as held:
        model = train_on(scene, labels, split.train, random_state=seed, **ASKED[preset])
    class_map, shares = map_scene(model, scene, probabilities=True)
    reach = LabelDistance(model, scene)
    reach.add(Tile(*(slice(0, side) for side in class_map.shape)), class_map.values)
    proba = shares.values[tuple(split.test.T)]
    true = labels.values[tuple(split.test.T)].astype(np.int64)
    ids = np.array([c.value for c in model.classes])
    known = np.isin(true, ids)
    proba, own = proba[known], np.searchsorted(ids, true[known])
    scores = score(true[known], ids[proba.argmax(axis=1)], proba, classes=model.classes)
    shared = {
        "oa": scores.overall_accuracy,
        "oa_held_out": None if model.accuracy is None else model.accuracy.spatial.overall,
        "ece": scores.expected_calibration_error,
        "held_out": len(held["targets"]),
        "n_test": int(known.sum()),
        "distance_held_out": reach.tested,
        "distance_map": round(reach.sum / reach.count, 2),
    }
    for name, level in product(SCORES if seed >= DEVELOPMENT else [CHOSEN], LEVELS):
        if name == CHOSEN:
            members = set_members(proba, set_rule(model, level)) == 1
        else:
            members = SCORES[name](held, proba, level)
            members[np.arange(len(own)), proba.argmax(axis=1)] = True
        right = members[np.arange(len(own)), own]
        classes = [right[own == k].mean() for k in np.unique(own)]
        yield shared | {
            "score": name,
            "level": level,
            "coverage": float(right.mean()),
            "size": float(members.sum(axis=1).mean()),
            "least_class": float(np.min(classes)),
        }


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    records = read_records(RECORDS)
    shown = chosen([r for r in records if r["seed"] < DEVELOPMENT], score=CHOSEN)
    tried = [r for r in records if r["seed"] >= DEVELOPMENT]
    found = {}
    for protocol, name in KINDS.items():
        rows = []
        for preset, level in product(ASKED, LEVELS):
            own = chosen(shown, protocol=protocol, preset=preset, level=level)
            rows.append([preset, f"{100 * level:g}", _spread(own, "coverage"),
                         _spread(own, "least_class"), _spread(own, "size", 1, 2)])  # fmt: skip
        head = ["preset", "promised %", "measured %", "worst class %", "classes in a set"]
        found[name] = table(head, rows)
    errors = []
    for preset, (protocol, name) in product(ASKED, KINDS.items()):
        own = chosen(shown, protocol=protocol, preset=preset, level=0.9)
        errors.append([preset, name, *(_spread(own, key) for key in ("ece", "oa", "oa_held_out"))])
    head = ["preset", "protocol", "calibration error", "accuracy", "accuracy by folds"]
    found["calibration"] = table(head, errors)
    rows = []
    for preset, score_name in product(ASKED, dict.fromkeys(r["score"] for r in tried)):
        cells = []
        for protocol in KINDS:
            own = chosen(tried, protocol=protocol, preset=preset, level=0.9, score=score_name)
            cells.append(f"{_spread(own, 'coverage')}, {_spread(own, 'size', 1, 2)}")
        rows.append([preset, score_name, *cells])
    head = ["preset", "score", *(f"{name}: % held, classes" for name in KINDS.values())]
    return found | {"choice": table(head, rows)}


def _spread(rows: list[Record], key: str, unit: float = 100, digits: int = 1) -> str:
    return spread([r[key] for r in rows if r[key] is not None], unit, digits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--development", type=int, default=5)
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.page_only:
        seeds = [*range(options.seeds), *range(DEVELOPMENT, DEVELOPMENT + options.development)]
        scene = open_scene("indian-pines").load()
        labels = open_labels("indian-pines", scene)
        cases = [
            {"protocol": protocol, "seed": seed, "preset": preset}
            for seed, protocol, preset in product(seeds, KINDS, ASKED)
        ]
        resume(RECORDS, cases, lambda **case: outcomes(scene, labels, **case))
    fill(PAGE, parts())


if __name__ == "__main__":
    main()
