"""What the paper reports: its four tables, number by number.

K. Makantasis, A. Georgogiannis, A. Voulodimos, I. Georgoulas, A. Doulamis, N. Doulamis, "Rank-R
FNN: A Tensor-Based Learning Model for High-Order Data Classification", IEEE Access 9, 2021.
Accuracies are overall accuracies on the test pixels, mean and standard deviation of ten runs, in
percent. The paper gives tables for 10 samples per class; for 50 it has figures and p-values only.
"""

from __future__ import annotations

from typing import NamedTuple

from polyad.experiments.identity import base_name

SCENES = ("indian-pines", "botswana", "pavia-university")  # the columns, in the paper's order
EPOCHS = (50, 500)
SAMPLES = (10, 50)
RUNS = 10
# Epochs to converge, as its text has it: at most, of a Rank-R network; at least, of the CNN
RANK_R_CONVERGES, CNN_CONVERGES = 20, 200
# How much smaller the deviations of Rank-R networks are said to be: times without noise, % with it
DEVIATION_RATIO, DEVIATION_CUT = 3.8, 20
# How many times the parameters of Rank-1 the CNN is said to have, and of which scene
PARAMETER_RATIOS = {"indian-pines": 41, "pavia-university": 48, "botswana": 57}
# The rank that stands beside the CNN in Figures 3 (no noise) and 5 (noise), scenes as in `SCENES`
FIGURE_3 = ("rank-1", "rank-1", "rank-4")
FIGURE_5 = ("rank-2", "rank-1", "rank-2")


class Reported(NamedTuple):
    """Mean and standard deviation, in percent."""

    mean: float
    deviation: float


# The rows of its tables; Table 3 has no row of the CNN, which the others are compared with.
PAPER_MODELS = ("rank-1", "rank-2", "rank-3", "rank-4", "rank-5", "cnn")
_P_ROWS = PAPER_MODELS[:5]

# Rows as in `PAPER_MODELS`, columns as in `SCENES`.
_TABLE_1 = {
    50: (
        ((64.24, 2.00), (91.73, 0.61), (68.92, 3.00)),
        ((62.02, 3.25), (91.36, 1.76), (70.66, 1.88)),
        ((62.36, 2.30), (91.50, 1.23), (69.90, 5.16)),
        ((59.68, 3.97), (90.59, 1.34), (71.93, 1.43)),
        ((60.31, 4.36), (92.14, 1.79), (72.37, 3.20)),
        ((47.36, 26.5), (54.03, 13.2), (52.36, 10.4)),
    ),
    500: (
        ((65.28, 2.12), (93.80, 0.60), (70.03, 2.59)),
        ((61.29, 1.55), (92.32, 0.83), (72.86, 1.91)),
        ((62.87, 3.24), (92.97, 1.44), (69.13, 4.52)),
        ((60.80, 4.22), (92.57, 1.18), (74.00, 1.02)),
        ((60.23, 2.32), (93.33, 0.86), (72.72, 3.22)),
        ((69.62, 14.8), (89.99, 2.81), (72.18, 2.85)),
    ),
}
_TABLE_4 = {
    50: (
        ((61.10, 2.54), (92.40, 1.59), (72.21, 3.46)),
        ((61.82, 2.72), (93.44, 0.77), (73.67, 3.16)),
        ((61.92, 2.15), (91.75, 2.31), (69.87, 3.25)),
        ((60.80, 2.49), (91.98, 0.88), (71.07, 2.66)),
        ((60.79, 2.35), (92.63, 0.96), (69.29, 5.62)),
        ((39.64, 10.5), (58.73, 10.2), (54.58, 6.79)),
    ),
    500: (
        ((60.33, 2.73), (94.42, 0.74), (72.43, 4.23)),
        ((61.38, 2.89), (93.82, 0.47), (73.94, 5.33)),
        ((59.67, 2.83), (93.62, 1.99), (71.88, 2.88)),
        ((60.70, 3.46), (93.98, 0.92), (71.36, 0.78)),
        ((61.24, 3.11), (92.41, 1.48), (70.10, 5.68)),
        ((59.78, 2.74), (91.12, 1.69), (69.99, 1.99)),
    ),
}
# Thousands, as printed; the paper prints 10 for Rank-1 on Pavia University, its formula gives 9.15.
_TABLE_2 = (
    (17, 13, 10),
    (33, 24, 18),
    (49, 36, 26),
    (64, 48, 35),
    (80, 59, 43),
    (700, 625, 570),
)
# Each entry: 10 and 50 samples per class; no noise.
_TABLE_3 = {
    50: (
        ((0.072, 0.002), (0.004, 0.006), (0.030, 0.001)),
        ((0.072, 0.001), (0.004, 0.001), (0.023, 0.001)),
        ((0.072, 0.003), (0.004, 0.001), (0.024, 0.001)),
        ((0.072, 0.002), (0.005, 0.001), (0.019, 0.001)),
        ((0.072, 0.002), (0.006, 0.001), (0.015, 0.001)),
    ),
    500: (
        ((0.201, 0.001), (0.047, 0.001), (0.297, 0.562)),
        ((0.148, 0.001), (0.176, 0.074), (0.701, 0.541)),
        ((0.499, 0.001), (0.109, 0.004), (0.292, 0.785)),
        ((0.148, 0.011), (0.148, 0.008), (0.283, 0.269)),
        ((0.072, 0.005), (0.075, 0.223), (0.801, 0.628)),
    ),
}


def reported(
    scene: str, model: str, samples_per_class: int, noise: str, epochs: int
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
    table, scene = _TABLE_1 if noise == "none" else _TABLE_4, base_name(scene)
    if (
        samples_per_class != SAMPLES[0]
        or epochs not in table
        or scene not in SCENES
        or model not in PAPER_MODELS
    ):
        return None
    return Reported(*table[epochs][PAPER_MODELS.index(model)][SCENES.index(scene)])


def rank_beside_cnn(scene: str, noise: str) -> str:
    """Return the Rank-R network of Figure 3 or 5; of a scene it has not, that of its first one.

    Examples
    --------
    >>> rank_beside_cnn("pavia-university", "none")
    'rank-4'
    """
    ranks = FIGURE_3 if noise == "none" else FIGURE_5
    return dict(zip(SCENES, ranks, strict=True)).get(base_name(scene), ranks[0])


def best_ranks(scene: str) -> tuple[str, str] | None:
    """Return the R that the paper finds best without and with noise, or None.

    Examples
    --------
    >>> best_ranks("pavia-university")
    ('4', '2')
    """
    if base_name(scene) not in SCENES:
        return None
    plain, noisy = (rank_beside_cnn(scene, noise) for noise in ("none", "pixel"))
    return plain.removeprefix("rank-"), noisy.removeprefix("rank-")


def reported_parameters(scene: str, model: str) -> int | None:
    """Return thousands of parameters as printed in Table 2, or None.

    Examples
    --------
    >>> reported_parameters("indian-pines", "cnn")
    700
    """
    scene = base_name(scene)
    if scene not in SCENES or model not in PAPER_MODELS:
        return None
    return _TABLE_2[PAPER_MODELS.index(model)][SCENES.index(scene)]


def reported_p(scene: str, model: str, samples_per_class: int, epochs: int) -> float | None:
    """Return the p-value of Table 3 (Rank-R against CNN, no noise), or None.

    Examples
    --------
    >>> reported_p("botswana", "rank-1", 50, 500)
    0.001
    """
    scene = base_name(scene)
    known = scene in SCENES and model in _P_ROWS and samples_per_class in SAMPLES
    if not known or epochs not in _TABLE_3:
        return None
    pair = _TABLE_3[epochs][_P_ROWS.index(model)][SCENES.index(scene)]
    return pair[SAMPLES.index(samples_per_class)]
