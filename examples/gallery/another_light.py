"""
What if the sun stands lower?
=============================

The same ground on another day: every value is multiplied by a gain and shifted. A model that was
fitted on values does not know that, unless it adapts.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import polyad
from polyad.scene import class_picture, class_table, per_class, train_on

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
split = per_class(truth, 10, random_state=0)
model = train_on(scene, truth, split.train, preset="fast", random_state=0)
darker = scene.astype(np.float32) * 0.75
darker.attrs = scene.attrs

# %%
# Three maps: of the scene as it was, of the darker one, and of the darker one with ``adapt=True``,
# which finds gain and offset without a label. (polyad warns of the light, which is left out here.)
rows, cols = split.test.T
maps = {"the day of the labels": polyad.map_scene(model, scene)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    maps["a darker day"] = polyad.map_scene(model, darker, adapt=False)
    maps["a darker day, adapted"] = polyad.map_scene(model, darker, adapt=True)

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
for ax, (title, class_map) in zip(axes, maps.items(), strict=True):
    right = class_map.values[rows, cols] == truth.values[rows, cols]
    ax.imshow(class_picture(class_map.values, class_table(truth)), interpolation="nearest")
    ax.set_title(f"{title}\n{100 * right.mean():.1f} % right")
    ax.axis("off")
plt.show()
