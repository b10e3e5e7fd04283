"""Draw the pictures of docs/understand: the model, and how each protocol splits a scene.

    python tools/understand_pictures.py

Transparent, in inks that can be read on white and on black.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon, Rectangle

from polyad.scene import Blocks, NoOverlap, OtherFields, RandomPerClass, open_known_labels

IMAGES = Path(__file__).parents[1] / "docs/images"
INK = "#7F7F7F"
MODES = {"rows": "#EE7733", "columns": "#4477AA", "bands": "#117733"}
NEITHER, TESTED, TRAINED = "#B8B8B8", "#88CCEE", "#CC3311"


def cuboid(axes: Axes, x: float, y: float, size: tuple[float, float, float], color: str) -> None:
    """Draw a box of width, height and depth."""
    width, height, depth = size
    dx, dy = 0.45 * depth, 0.32 * depth
    front = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    top = [(x, y + height), (x + dx, y + height + dy)]
    top += [(x + width + dx, y + height + dy), (x + width, y + height)]
    side = [(x + width, y), (x + width + dx, y + dy)]
    side += [(x + width + dx, y + height + dy), (x + width, y + height)]
    for corners, strength in ((front, 0.55), (top, 0.35), (side, 0.75)):
        axes.add_patch(Polygon(corners, facecolor=(*to_rgb(color), strength), edgecolor=INK))


def draw_weight() -> None:
    """Draw a weight tensor as a sum of products of a row, a column and a spectrum."""
    figure, axes = plt.subplots(figsize=(9, 2.6))
    axes.set(xlim=(-0.3, 21.4), ylim=(-1.6, 4.1), aspect="equal")
    axes.axis("off")
    cuboid(axes, 0, 0, (2, 2, 4.2), INK)
    axes.text(1.9, -0.9, "5 x 5 x 200\n5,000 weights", ha="center", va="center", color=INK)
    for place, sign in ((5.0, "="), (13.2, "+")):
        axes.text(place, 1.2, sign, fontsize=20, color=INK, ha="center", va="center")
        x = place + 1.3
        cuboid(axes, x, 0, (0.4, 2, 0.4), MODES["rows"])
        axes.text(x + 0.9, 1.0, "∘", fontsize=16, color=INK, ha="center", va="center")
        cuboid(axes, x + 1.3, 0.8, (2, 0.4, 0.4), MODES["columns"])
        axes.text(x + 3.75, 1.0, "∘", fontsize=16, color=INK, ha="center", va="center")
        cuboid(axes, x + 4.0, 0.2, (0.4, 0.4, 4.2), MODES["bands"])
    axes.text(9.0, -0.9, "5 + 5 + 200\n210 weights", ha="center", va="center", color=INK)
    axes.text(17.0, -0.9, "one more term\nfor rank 2", ha="center", va="center", color=INK)
    figure.savefig(IMAGES / "cp-weight.svg", transparent=True, bbox_inches="tight")
    plt.close(figure)


def draw_protocol(name: str, protocol: RandomPerClass | NoOverlap | OtherFields | Blocks) -> None:
    """Draw which pixels of Indian Pines train, test, or do neither."""
    labels = open_known_labels("indian-pines")
    split = protocol.split(labels, seed=0)
    picture = np.zeros((*labels.shape, 4))
    picture[labels.values > 0] = (*to_rgb(NEITHER), 0.55)
    picture[tuple(split.test.T)] = (*to_rgb(TESTED), 1)
    figure, axes = plt.subplots(figsize=(4.2, 4.2))
    axes.imshow(picture, interpolation="nearest")
    rows, cols = split.train.T
    axes.plot(cols, rows, ".", color=TRAINED, markersize=4, markeredgewidth=0)
    axes.add_patch(Rectangle((-0.5, -0.5), 145, 145, fill=False, edgecolor=INK))
    axes.axis("off")
    figure.savefig(IMAGES / f"protocol-{name}.png", dpi=90, transparent=True, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "polyad"
    draw_weight()
    draw_protocol("random", RandomPerClass(10))
    draw_protocol("apart", NoOverlap(10))
    draw_protocol("blocks", Blocks(10))
    draw_protocol("fields", OtherFields(10))
