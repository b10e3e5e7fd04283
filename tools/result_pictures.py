"""Draw the summary figures of docs/results from the records beside it.

    python tools/result_pictures.py

One shows accuracy over labels per class beside simple and published methods, the other accuracy by
protocol. Transparent, in inks that can be read on white and on black.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

RESULTS = Path(__file__).parents[1] / "docs/results"
INK = "#7F7F7F"
METHODS = {  # method -> name, color, marker
    "best, this-scene": ("best (default)", "#CC3311", "o"),
    "best, other-scenes": ("best, other scenes", "#EE7733", "s"),
    "fast": ("fast", "#0077BB", "^"),
    "paper": ("paper, 50 epochs", "#009988", "D"),
    "SVM on spectra": ("SVM on spectra", "#999999", "v"),
}
# Overall accuracy on Indian Pines as published; each has its own draw of labels.
PUBLISHED = {
    "SpectralCLIP (2026)": {5: 72.4, 10: 73.1},
    "SAM-DPGT (5 more labels to validate)": {5: 84.3},
}
PROTOCOLS = {
    "random-10": "random pixels",
    "no-overlap-10": "windows apart",
    "blocks-10": "other blocks",
    "patch-10": "one patch\nper class",
    "other-fields-10": "other fields",
}

Scores = dict[tuple[str, str], list[float]]


def scores() -> Scores:
    """Return the accuracies in % of Indian Pines by protocol and method, one for each seed."""
    found: Scores = defaultdict(list)
    for line in (RESULTS / "few-labels.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["scene"] == "indian-pines":
            found[record["protocol"], record["method"]].append(100 * record["oa"])
            if record["protocol"] == "random-10":
                apart = 100 * record["oa_no_overlap"]
                found["no-overlap-10", record["method"]].append(apart)
    return found


def clean(axes: Axes) -> None:
    """Label the axis of accuracy and draw everything in an ink for either background."""
    axes.set_ylabel("overall accuracy (%)", color=INK)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color=INK, alpha=0.25)
    for spine in axes.spines.values():
        spine.set_color(INK)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def draw_labels(found: Scores) -> None:
    """Draw accuracy over labels per class, random pixels."""
    figure, axes = plt.subplots(figsize=(6.4, 4))
    numbers = (5, 10, 30)
    for method, (name, color, marker) in METHODS.items():
        runs = [found[f"random-{n}", method] for n in numbers]
        mean, deviation = (np.array([f(run) for run in runs]) for f in (np.mean, np.std))
        style = {"color": color, "marker": marker, "capsize": 3, "markersize": 5}
        axes.errorbar(numbers, mean, deviation, label=name, **style)
    for k, (name, points) in enumerate(PUBLISHED.items()):
        axes.plot(*zip(*points.items(), strict=True), "x*"[k], color=INK, markersize=8, label=name)
    axes.set_xscale("log")
    axes.set_xticks(numbers, map(str, numbers))
    axes.minorticks_off()
    axes.set_xlabel("labels per class (Indian Pines, random pixels)", color=INK)
    axes.set_ylim(40, 100)
    clean(axes)
    save(figure, "labels-per-class")


def draw_protocols(found: Scores) -> None:
    """Draw accuracy with ten labels per class by how test pixels are chosen."""
    shown = [name for name in PROTOCOLS if (name, "fast") in found]
    figure, axes = plt.subplots(figsize=(6.4, 4))
    width = 0.8 / len(METHODS)
    for k, (method, (name, color, _)) in enumerate(METHODS.items()):
        runs = [found[protocol, method] for protocol in shown]
        axes.bar(
            np.arange(len(shown)) + (k - 2) * width,
            [np.mean(run) for run in runs],
            width,
            yerr=[np.std(run) for run in runs],
            color=color,
            ecolor=INK,
            capsize=2,
            label=name,
        )
    axes.set_xticks(range(len(shown)), [PROTOCOLS[name] for name in shown], color=INK)
    axes.set_ylim(0, 100)
    clean(axes)
    save(figure, "accuracy-by-protocol")


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure beside those of the paper."""
    path = RESULTS / "figures" / f"{name}.png"
    figure.savefig(path, dpi=110, transparent=True, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    measured = scores()
    draw_labels(measured)
    draw_protocols(measured)
