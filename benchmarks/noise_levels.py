"""Write docs/results/noise-levels.md: accuracy over the level of white noise, from records.

    python -m benchmarks.noise_levels

The runs are those of the command on the page; what follows from them is in findings.md.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from benchmarks.harness import RESULTS, fill, table
from polyad.experiments.figures import STYLES
from polyad.experiments.records import RecordStore, RunRecord
from polyad.experiments.settings import MODELS
from polyad.experiments.statistics import Cell, Results, compare_paired, holm
from polyad.experiments.tables import scene_tables, signed

PAGE = RESULTS / "noise-levels.md"
PINES, SAMPLES = "indian-pines", 10
LEVELS = (0.0, 0.05, 0.1, 0.2, 0.4)
RANKS, CNNS = ("rank-1", "rank-2"), ("cnn", "cnn-tuned")


def by_seed(records: list[RunRecord], model: str, level: float) -> dict[int, float]:
    """Return the overall accuracy (%) of each seed at a level of noise."""
    cell = Cell(PINES, model, SAMPLES, "pixel" if level else "none", level=level or 0.2)
    return Results(records).by_seed(cell)


def accuracies() -> dict[tuple[str, float], np.ndarray]:
    """Return the accuracies of every model and level, over the seeds that every cell has."""
    records = RecordStore(RESULTS / "noise-levels/records").load()
    cells = {(m, v): by_seed(records, m, v) for m in (*RANKS, *CNNS) for v in LEVELS}
    seeds = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    return {key: np.array([cell[s] for s in seeds]) for key, cell in cells.items()}


def parts() -> dict[str, str]:
    """Return the tables of the page."""
    shown = Results(RecordStore(RESULTS / "noise-levels/records").load())
    (levels,) = (t for t in scene_tables(shown, PINES) if "noise-levels" in t.name)
    return {"levels": levels.markdown(), "differences": differences(accuracies())}


def differences(oa: dict[tuple[str, float], np.ndarray]) -> str:
    """Return the rows of the paired comparisons."""
    rows = [(rank, cnn, level) for rank in RANKS for cnn in CNNS for level in LEVELS]
    gaps = {row: oa[row[0], row[2]] - oa[row[1], row[2]] for row in rows}
    tests = [compare_paired(gaps[row], 0 * gaps[row]) for row in rows]
    later = [row for row in rows if row[2]]
    growth = {row: compare_paired(gaps[row], gaps[(*row[:2], 0.0)]) for row in later}
    p_growth = dict(zip(later, holm([growth[row].p for row in later]), strict=True))
    lines = []
    for row, test, p in zip(rows, tests, holm([t.p for t in tests]), strict=True):
        more = ["", ""]
        if row[2]:
            more = [_interval(growth[row]), f"{p_growth[row]:.2g}"]
        names = f"{MODELS[row[0]].title} minus {MODELS[row[1]].title}"
        cells = [names, f"{100 * row[2]:g} %", _interval(test), f"{p:.2g}", *more]
        lines.append(cells)
    head = ["noise", "difference", "p", "more than without noise", "p"]
    return table(["", *(f"{name}:" for name in head)], lines)


def _interval(test: object) -> str:
    mean, low, high = (signed(getattr(test, name), 1) for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def figure(oa: dict[tuple[str, float], np.ndarray]) -> Figure:
    """Draw mean and deviation of each model over the level of noise."""
    drawing = Figure(figsize=(6.4, 4), layout="constrained")
    axes = drawing.subplots()
    for k, model in enumerate((*RANKS, *CNNS)):
        color, dashes = STYLES[model]
        values = [oa[model, level] for level in LEVELS]
        axes.errorbar(
            100 * np.array(LEVELS) + 0.3 * (k - 1.5),
            [v.mean() for v in values],
            [v.std(ddof=1) for v in values],
            color=color, linestyle=(0, dashes) if dashes else "-", marker="osD^"[k],
            markersize=4, capsize=3, label=MODELS[model].title,
        )  # fmt: skip
    axes.set_xticks([100 * level for level in LEVELS])
    axes.set_xlabel("standard deviation of the noise, % of the band's maximum")
    axes.set_ylabel("overall accuracy, %")
    axes.set_ylim(0)
    axes.legend(frameon=False, title="mean ± standard deviation")
    axes.spines[["top", "right"]].set_visible(False)
    return drawing


def main() -> None:
    """Write the tables of the page and its figure."""
    fill(PAGE, parts())
    figure(accuracies()).savefig(
        RESULTS / "figures/noise-levels.png", dpi=120, metadata={"Software": "polyad"}
    )


if __name__ == "__main__":
    main()
