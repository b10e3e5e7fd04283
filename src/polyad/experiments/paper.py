"""What the paper reports: its four tables, number by number.

K. Makantasis, A. Georgogiannis, A. Voulodimos, I. Georgoulas, A. Doulamis, N. Doulamis, "Rank-R
FNN: A Tensor-Based Learning Model for High-Order Data Classification", IEEE Access 9, 2021.
Accuracies are overall accuracies on the test pixels, mean and standard deviation of ten runs, in
percent. The paper gives tables for 10 samples per class; for 50 it has figures and p-values only.
The numbers are in ``paper.csv``: Table 1 (mean, sd), 4 (noisy), 3 (p, Rank-R against the CNN
without noise, for 10 and 50 samples per class) and 2 (thousands of parameters as printed; the paper
prints 10 for Rank-1 on Pavia University, its formula gives 9.15).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SCENES = ("indian-pines", "botswana", "pavia-university")  # the columns, in the paper's order
PAPER_MODELS = ("rank-1", "rank-2", "rank-3", "rank-4", "rank-5", "cnn")  # the rows of its tables
EPOCHS = (50, 500)
SAMPLES = (10, 50)
RUNS = 10
# The rank that stands beside the CNN in Figures 3 (no noise) and 5 (noise), scenes as in `SCENES`
FIGURE_3 = ("rank-1", "rank-1", "rank-4")
FIGURE_5 = ("rank-2", "rank-1", "rank-2")


class Reported(NamedTuple):
    """Mean and standard deviation, in percent."""

    mean: float
    deviation: float


@cache
def _table() -> dict[tuple[str, str, int], dict[str, float]]:
    lines = (files("polyad.experiments") / "paper.csv").read_text().splitlines()
    return {
        (row.pop("scene"), row.pop("model"), int(row.pop("epochs"))): {
            name: float(value) for name, value in row.items() if value
        }
        for row in csv.DictReader(lines)
    }


def _row(scene: str, model: str, epochs: int | None) -> dict[str, float]:
    return {} if epochs is None else _table().get((scene, model, epochs), {})


def reported(
    scene: str, model: str, samples_per_class: int, noise: str, epochs: int | None
) -> Reported | None:
    """Return the accuracy in the paper's Table 1 (no noise) or 4 (noise); None if it has none.

    Both of our noises stand against the same column: the paper's text describes the one, its
    published code does the other.

    Examples
    --------
    >>> reported("indian-pines", "rank-1", 10, "none", 500)
    Reported(mean=65.28, deviation=2.12)
    >>> reported("indian-pines", "rank-1", 50, "none", 500) is None
    True
    """
    row = _row(scene, model, epochs)
    if not row or samples_per_class != SAMPLES[0]:
        return None
    prefix = "" if noise == "none" else "noisy "
    return Reported(row[f"{prefix}mean"], row[f"{prefix}sd"])


def rank_beside_cnn(scene: str, noise: str) -> str:
    """Return the Rank-R network of Figure 3 or 5; of a scene it has not, that of its first one.

    Examples
    --------
    >>> rank_beside_cnn("pavia-university", "none")
    'rank-4'
    """
    ranks = FIGURE_3 if noise == "none" else FIGURE_5
    return dict(zip(SCENES, ranks, strict=True)).get(scene, ranks[0])


def reported_parameters(scene: str, model: str) -> int | None:
    """Return thousands of parameters as printed in Table 2, or None.

    Examples
    --------
    >>> reported_parameters("indian-pines", "cnn")
    700
    """
    row = _row(scene, model, EPOCHS[0])
    return int(row["thousand parameters"]) if row else None


def reported_p(scene: str, model: str, samples_per_class: int, epochs: int | None) -> float | None:
    """Return the p-value of Table 3 (Rank-R against CNN, no noise), or None.

    Examples
    --------
    >>> reported_p("botswana", "rank-1", 50, 500)
    0.001
    """
    return _row(scene, model, epochs).get(f"p {samples_per_class}")
