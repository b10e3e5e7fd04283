"""Fill the measured tables of docs/results/findings.md from the records beside it.

    python -m benchmarks.findings

The records are those of `benchmarks.rounding`, `benchmarks.activation_order`,
`benchmarks.cnn_repeats`, `benchmarks.approximation` and of ``polyad reproduce``.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks import activation_order, approximation, cnn_repeats
from benchmarks.harness import RESULTS, Record, chosen, fill, read_records, spread, table
from benchmarks.rounding import FITS
from polyad.experiments import paper
from polyad.experiments.records import RecordStore, RunRecord
from polyad.experiments.settings import MODELS, RANKS
from polyad.experiments.statistics import Cell, Results, compare_paired

PAGE = RESULTS / "findings.md"
PINES = "indian-pines"


def reruns() -> list[RunRecord]:
    """Return the runs that were done again with the present solver."""
    folders = [RESULTS / folder / "records" for folder in ("noise-levels", "reruns")]
    return [record for folder in folders for record in RecordStore(folder).load()]


def rounding() -> str:
    """Return how far rounding moves a run."""
    records = read_records(RESULTS / "rounding.jsonl")
    rows = []
    for seed in sorted({r["seed"] for r in records}):
        found = [chosen(records, seed=seed, change=c, precision=p)[0] for c, p in FITS]
        rows.append([str(seed), *(f"{100 * r['oa']:.2f}" for r in found)])
    head = ["seed", "single: as it is", "band offset", "last bits changed", "double: as it is"]
    return table([*head, "band offset"], rows)


def activation() -> str:
    """Return what the activation before the sum over the terms does to the accuracy."""
    results, records, rows = Results(reruns()), read_records(activation_order.RECORDS), []
    for rank, epoch in product(activation_order.RANKS, activation_order.EPOCHS):
        cell = Cell(PINES, f"rank-{rank}", activation_order.SAMPLES, "none", epoch)
        termwise = {r["seed"]: 100 * r["oa"][str(epoch)] for r in chosen(records, rank=rank)}
        ours = results.by_seed(cell)
        first, second = ([of[seed] for seed in activation_order.SEEDS] for of in (ours, termwise))
        gap, theirs = compare_paired(second, first), paper.reported(*cell[:5])
        difference = f"{gap.mean:+.1f} ({gap.low:+.1f} to {gap.high:+.1f})"
        printed = f"{theirs.mean:.1f} ± {theirs.deviation:.1f}"
        means = [spread(first, 1), spread(second, 1)]
        rows.append([str(rank), str(epoch), *means, difference, printed])
    return table(["R", "epochs", "g(⟨W, X⟩)", "Σ g(term)", "difference", "paper"], rows)


def repeats() -> str:
    """Return how far the tuned CNN moves in each variant of its fit."""
    records, noises = read_records(cnn_repeats.RECORDS), cnn_repeats.NOISES
    by = {(r["variant"], r["noise"], r["seed"]): r for r in records}
    whole = len(noises) * len(cnn_repeats.VARIANTS)
    seeds = [s for s in {r["seed"] for r in records} if len(chosen(records, seed=s)) == whole]
    rows = []
    for variant in list(cnn_repeats.VARIANTS)[1:]:
        base = "double" if variant.startswith("double, ") else "as it is"
        base = "MKL compatible" if variant == "MKL compatible, AVX2" else base
        moved = [
            max(abs(by[variant, n, s]["oa"] - by[base, n, s]["oa"]) * 100 for s in seeds)
            for n in noises
        ]
        pairs = [(by[variant, n, s], by["as it is", n, s]) for n, s in product(noises, seeds)]
        cost = np.median([one["seconds"] / other["seconds"] for one, other in pairs])
        rows.append([variant, base, *(f"{points:.2f}" for points in moved), f"{cost:.1f}"])
    return table(["variant", "compared with", "no noise:", "band offset:", "time, times:"], rows)


def done_again() -> str:
    """Return mean accuracies of the Rank-R networks, as recorded and done again."""
    old = {r.key: r for r in RecordStore(RESULTS / "records").load()}
    again, rows = [r for r in reruns() if r.key in old], []
    for model in RANKS:
        cells = []
        for noise in ("none", "pixel"):
            own = [r for r in again if (r.run.model, r.run.noise) == (model, noise)]
            for runs in ([old[r.key] for r in own], own):
                cells.append(f"{np.mean([100 * r.final.oa for r in runs]):.1f}")
        rows.append([MODELS[model].title, *cells])
    head = ["no noise: records", "again", "white noise per pixel, 20 %: records", "again"]
    return table(["", *(f"{name}:" for name in head)], rows)


def theorem() -> dict[str, str]:
    """Return what was measured of Theorem 1 and its corollaries."""
    records = read_records(approximation.RECORDS)

    def cell(key: str = "error", **given: object) -> str:
        return spread([r[key] for r in chosen(records_of[str(given.pop("what"))], **given)], 1, 3)

    kinds = ("rank", "determinant", "samples")
    records_of: dict[str, list[Record]] = {k: chosen(records, what=k) for k in kinds}
    ranks = [[str(r), cell(what="rank", rank=r)] for r in approximation.RANKS]
    determinant = [
        [str(r), str(q), cell("r2", what="determinant", rank=r, hidden=q)]
        for r, q in approximation.DETERMINANT
    ]
    samples = [
        [str(n), *(cell(key, what="samples", samples=n) for key in ("train", "error"))]
        for n in approximation.SAMPLES
    ]
    return {
        "by rank": table([f"R, {approximation.UNITS} units", "error"], ranks),
        "determinant": table(["R", "units", "R²"], determinant),
        "by samples": table(["samples", "training error", "test error"], samples),
    }


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    tables = {"rounding": rounding(), "activation": activation()}
    return tables | {"repeats": repeats(), "done again": done_again()} | theorem()


if __name__ == "__main__":
    fill(PAGE, parts())
