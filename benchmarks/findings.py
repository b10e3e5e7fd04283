"""Fill the measured tables of docs/results/findings.md from the records beside it.

    python -m benchmarks.findings

The records are those of `benchmarks.approximation` and of ``polyad reproduce``.
"""

from __future__ import annotations

import numpy as np

from benchmarks import approximation
from benchmarks.harness import RESULTS, Record, chosen, fill, read_records, spread, table
from polyad.experiments.records import RecordStore, RunRecord
from polyad.experiments.settings import MODELS, RANKS

PAGE = RESULTS / "findings.md"


def reruns() -> list[RunRecord]:
    """Return the runs that were done again with the present solver."""
    folders = [RESULTS / folder / "records" for folder in ("noise-levels", "reruns")]
    return [record for folder in folders for record in RecordStore(folder).load()]


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
    return {"done again": done_again()} | theorem()


if __name__ == "__main__":
    fill(PAGE, parts())
