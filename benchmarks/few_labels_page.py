"""The page of few_labels.py: tables from its records, and nothing that is not in them.

What the tables mean, and what was timed by hand, is in docs/results/few-labels-notes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.few_labels_choice import RULES, fixed, without_propagation
from benchmarks.harness import RESULTS, chosen, read_records, spread, table

Records = Sequence[dict[str, Any]]
HEADLINES = (
    "SVM on spectra",
    "paper",
    "fast",
    "best, other-scenes",
    "best, this-scene, pixels as nodes",
    "best, this-scene",
)
RANDOM = "random-10"
PAGE = RESULTS / "few-labels.md"
PROTOCOL_NAMES = {
    "random-5": "random, 5 per class",
    "random-10": "random, 10 per class",
    "random-30": "random, 30 per class",
    "other-fields-10": "other fields, 10 per class",
    "blocks-10": "blocks with dead zone, 10 per class",
}


def shown(method: str) -> str:
    """Return a method's name in the tables; the records are older than the word for it.

    Examples
    --------
    >>> shown("walk x network, every walk believed")
    'propagation x network, no smoothing'
    """
    return method.replace("every walk believed", "no smoothing").replace("walk", "propagation")


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    records = read_records(RESULTS / "few-labels.jsonl")
    found = {}
    for scene in ("indian-pines", "pavia-crop"):
        own = chosen(records, scene=scene)
        for protocol, title in PROTOCOL_NAMES.items():
            if drawn := chosen(own, protocol=protocol):
                found[f"{scene}, {title}"] = headlines(drawn, protocol.startswith("random"))
        found[f"{scene}, steps"] = steps(own)
    found["calibration"] = calibration(chosen(records, scene="indian-pines"))
    choices = read_records(RESULTS / "few-labels-choice.jsonl")
    return found | {"choice": choice(choices)}


def headlines(drawn: Records, apart: bool) -> str:
    """Return a table of presets: OA, AA, kappa."""
    keys = ["oa", *["oa_no_overlap"] * apart, "aa", "kappa"]
    rows = [[m, *(_cell(chosen(drawn, method=m), key) for key in keys)] for m in HEADLINES]
    return table(["preset", "OA", *["OA, no overlap"] * apart, "AA", "kappa"], rows)


def steps(records: Records) -> str:
    """Return the ablation: a row per variant, a column per protocol."""
    protocols = [p for p in PROTOCOL_NAMES if chosen(records, protocol=p)]
    columns = [(p, "oa") for p in protocols]
    if RANDOM in protocols:
        columns.insert(protocols.index(RANDOM) + 1, (RANDOM, "oa_no_overlap"))
    names = [p if key == "oa" else f"{p}, no overlap" for p, key in columns]
    methods = [m for m in dict.fromkeys(r["method"] for r in records) if m not in HEADLINES]
    rows = [
        [shown(m), *(_cell(chosen(records, method=m, protocol=p), key) for p, key in columns)]
        for m in methods
    ]
    return table(["method", *names], rows)


def calibration(records: Records) -> str:
    """Return calibration error and AUROC of the uncertainty, random and other fields."""
    wanted = ("+ 3 starts", "+ 3 starts, calibrated", "best, other-scenes")
    wanted += ("walk x network, prior weights", "best, this-scene", "paper", "fast")
    rows = [
        [shown(m), *(_cell(chosen(records, method=m, protocol=p), key, 1.0, 3)
         for p in (RANDOM, "other-fields-10") for key in ("ece", "auroc"))]
        for m in wanted
    ]  # fmt: skip
    places = ("random-10", "other fields")
    names = [f"{key}, {place}" for place in places for key in ("ECE", "AUROC")]
    return table(["method", *names], rows)


def choice(records: Records) -> str:
    """Return what each rule of choosing settings on folds would reach, by goal."""
    cells = list(dict.fromkeys((r["scene"], r["protocol"]) for r in records))
    goals = ("other-scenes", "this-scene")
    names = {"indian-pines": "IP", "pavia-crop": "Pavia"}
    heads = [f"{names[scene]}, {protocol}" for scene, protocol in cells]
    picked: dict[str, list[list[dict[str, Any]]]] = {}
    for scene, protocol in cells:
        splits = [r["rows"] for r in records if (r["scene"], r["protocol"]) == (scene, protocol)]
        flat = {goal: [[row | row[goal] for row in rows] for rows in splits] for goal in goals}
        for goal in goals:
            for rule, pick in RULES.items():
                settings = [pick(rows) for rows in flat[goal]]
                picked.setdefault(f"{goal}: {rule}", []).append(settings)
        pairs = [tuple(map(fixed, both)) for both in zip(*flat.values(), strict=True)]
        kept = [alone if without_propagation(alone, both) else both for alone, both in pairs]
        picked.setdefault("this-scene: propagation left out where folds say so", []).append(kept)
    ordered = sorted(picked.items(), key=lambda item: item[0].split(":")[0])
    rows = [[name, *(_cell(rows, "oa") for rows in columns)] for name, columns in ordered]
    return table(["goal and rule", *heads], rows)


def _cell(rows: Records, key: str, unit: float = 100.0, digits: int = 1) -> str:
    values = [r[key] for r in rows if r[key] is not None]
    return spread(values, 1.0, 3) if key == "kappa" else spread(values, unit, digits)
