"""
Which pixels should I not trust?
================================

Every pixel of a map has probabilities. If they are any good, leaving out the least certain pixels
makes the rest more accurate.
"""

import matplotlib.pyplot as plt
import numpy as np

import polyad
from polyad.scene import per_class, train_on

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
split = per_class(truth, 10, random_state=0)
model = train_on(scene, truth, split.train, random_state=0)
class_map, proba = polyad.map_scene(model, scene, probabilities=True)
certainty = proba.values.max(axis=-1)

# %%
# Test pixels, from the most certain to the least: how many are right so far?
rows, cols = split.test.T
right = class_map.values[rows, cols] == truth.values[rows, cols]
order = np.argsort(-certainty[rows, cols])
kept = np.arange(1, len(order) + 1) / len(order)
accuracy = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
whole, half = 100 * accuracy[-1], 100 * accuracy[len(order) // 2]
print(f"all pixels {whole:.0f} % right, the surest half {half:.0f} %")

# %%
# Dark pixels are the ones to look at, or to label next: edges of fields, and fields without a
# label.
figure, (left, curve) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
shown = left.imshow(certainty, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
left.set_title("largest probability")
left.axis("off")
figure.colorbar(shown, ax=left, shrink=0.9)
curve.plot(100 * kept, 100 * accuracy, color="#117733")
curve.set(xlabel="pixels kept, most certain first, %", ylabel="of these right, %", ylim=(0, 100))
curve.spines[["top", "right"]].set_visible(False)
plt.show()
