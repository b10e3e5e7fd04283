"""
How far from its labels can a map be trusted?
=============================================

One accuracy for a whole map hides where the map is good. Here test pixels are sorted by how far
the next training pixel of any class lies.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import distance_transform_edt

import polyad
from polyad.scene import per_class, train_on

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
split = per_class(truth, 10, random_state=0)
away = np.ones(truth.shape, bool)
away[tuple(split.train.T)] = False
distance = distance_transform_edt(away)[tuple(split.test.T)]  # pixels to the nearest label

# %%
# Two presets: the network on spectra alone, and the best one, which also spreads labels over the
# scene.
edges = np.array([0, 2, 4, 6, 8, 11, 15, 25])
share = {}
for preset in ("fast", "best"):
    model = train_on(scene, truth, split.train, preset=preset, random_state=0)
    class_map = polyad.map_scene(model, scene)
    right = class_map.values[tuple(split.test.T)] == truth.values[tuple(split.test.T)]
    within = [(distance > a) & (distance <= b) for a, b in pairwise(edges)]
    share[preset] = [100 * right[w].mean() for w in within]
    print(preset, *(f"{s:.0f}" for s in share[preset]))

# %%
# Both fall with distance; the best preset starts higher. A label costs a minute: put it where the
# curve is low.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for preset, color in (("fast", "#4477AA"), ("best", "#117733")):
    ax.plot(
        (edges[:-1] + edges[1:]) / 2, share[preset], "o-", color=color, label=f"preset {preset}"
    )
ax.set(xlabel="distance to the nearest label, pixels", ylabel="right, %", ylim=(0, 100))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
