"""Write docs/results/noise-levels.md: accuracy over the level of white noise, from records.

    python -m benchmarks.noise_levels

The runs are those of the command on the page; what follows from them is in findings.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from polyad.experiments.figures import STYLES, write_figures
from polyad.experiments.records import RecordStore, RunRecord
from polyad.experiments.settings import MODELS
from polyad.experiments.statistics import Cell, Results, compare_paired, holm
from polyad.experiments.tables import scene_tables, signed

RESULTS = Path(__file__).parent.parent / "docs/results"
PAGE = RESULTS / "noise-levels.md"
PINES, SAMPLES = "indian-pines", 10
LEVELS = (0.0, 0.05, 0.1, 0.2, 0.4)
RANKS, CNNS = ("rank-1", "rank-2"), ("cnn", "cnn-tuned")
COMMAND = (
    "polyad reproduce --scene indian-pines --model rank-1 rank-2 cnn cnn-tuned "
    "--samples-per-class 10 \\\n    --noise none pixel --noise-level 0.05 0.1 0.2 0.4 "
    "--out docs/results/noise-levels"
)


def by_seed(records: list[RunRecord], model: str, level: float) -> dict[int, float]:
    """Return the overall accuracy (%) of each seed at a level of noise."""
    cell = Cell(PINES, model, SAMPLES, "pixel" if level else "none", level=level or 0.2)
    return Results(records).by_seed(cell)


def page(records: list[RunRecord]) -> tuple[str, Figure]:
    """Return the page and its figure, over the seeds that every cell has."""
    cells = {(m, v): by_seed(records, m, v) for m in (*RANKS, *CNNS) for v in LEVELS}
    seeds = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    oa = {key: np.array([cell[s] for s in seeds]) for key, cell in cells.items()}
    shown = Results([r for r in records if r.run.seed in seeds])
    (table,) = (t for t in scene_tables(shown, PINES, len(seeds)) if "noise-levels" in t.name)
    text = f"""# Accuracy over the level of noise

<!-- not run: an hour -->
```sh
{COMMAND}
python -m benchmarks.noise_levels   # this page
```

Indian Pines, {SAMPLES} labels per class, 500 epochs, white noise in every band of each pixel;
seeds {seeds[0]} to {seeds[-1]} ({len(seeds)} runs per cell), mean ± standard deviation over seeds
([records](noise-levels/records)). What follows from it is in
[findings.md](findings.md#does-the-advantage-over-the-cnn-grow-with-noise).

![Overall accuracy over noise level](figures/noise-levels.png)

{table.note}

{table.markdown()}

## Rank-R against the CNNs, seed by seed

Difference of overall accuracy in points, Rank-R minus CNN, with its 95 % interval and the p-value
of a paired test over seeds (Student's, or Wilcoxon's where the differences are not normal),
corrected by Holm over the {len(RANKS) * len(CNNS) * len(LEVELS)} rows.
Last columns: how much larger the difference is than the same seed's difference without noise.

| | noise | difference | p | more than without noise | p |
|---|---:|---:|---:|---:|---:|
{differences(oa)}
"""
    return text, figure(oa)


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
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    """Write the page and its figure."""
    text, drawn = page(RecordStore(RESULTS / "noise-levels/records").load())
    PAGE.write_text(text)
    write_figures({"noise-levels": ("", drawn)}, RESULTS / "figures")
    (RESULTS / "figures/noise-levels.svg").unlink()


if __name__ == "__main__":
    main()
