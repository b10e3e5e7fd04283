"""
How large is each class, and how sure is that?
==============================================

Counting the pixels of a map gives the area on the map. What is on the ground follows from a random
sample of its pixels that somebody has looked at (Olofsson et al. 2014). Here the ground truth does
the looking.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import polyad
from polyad.scene import (
    SamplePoints,
    class_table,
    draw_sample,
    estimate_areas,
    per_class,
    train_on,
    with_classes,
)

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
model = train_on(scene, truth, per_class(truth, 10, random_state=0).train, random_state=0)
mapped = polyad.map_scene(model, scene).values * (truth.values > 0)  # where somebody can look
class_map = with_classes(xr.DataArray(mapped, dims=("y", "x")), class_table(truth))

# %%
# 400 pixels, shared out among the map's classes, at least ten of each.
sample = draw_sample(class_map, 400, minimum=10, random_state=1)
seen = truth.values[tuple(sample.pixels.T)]
areas = estimate_areas(class_map, SamplePoints(sample.pixels, seen))
print(areas)

# %%
# In pixels, since Indian Pines comes without a reference system. Gray bars are the map, dots the
# estimate with its 95 % interval, crosses the truth.
names = [c.name for c in areas.classes]
values = np.array([c.value for c in areas.classes])
counted = np.array([(class_map.values == v).sum() for v in values])
true = np.array([(truth.values == v).sum() for v in values])
low, high = np.asarray(areas.intervals).T
place = np.arange(len(names))
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
ax.barh(place, counted, color="#CCCCCC", label="on the map")
ax.hlines(place, low, high, color="#4477AA", linewidth=2)
ax.plot(areas.areas, place, "o", color="#4477AA", label="estimate, 95 % interval")
ax.plot(true, place, "x", color="#CC3311", label="truth")
ax.set(yticks=place, yticklabels=names, xlabel="pixels")
ax.invert_yaxis()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
