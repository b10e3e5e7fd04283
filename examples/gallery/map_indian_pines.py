"""
Can ten labels per class map a scene?
=====================================

Indian Pines has 145 x 145 pixels, 200 bands and 16 classes. Ten pixels of each class are labeled;
the best preset maps the rest.
"""

import matplotlib.pyplot as plt

import polyad
from polyad.scene import class_picture, class_table, false_color, per_class, train_on

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
split = per_class(truth, 10, random_state=0)

# %%
# Only the training pixels are shown to the model, and where they lie.
model = train_on(scene, truth, split.train, random_state=0)
class_map = polyad.map_scene(model, scene)
scores = polyad.evaluate(model, scene, truth, split=split)
print(f"{len(split.train)} labels, {100 * scores.overall_accuracy:.1f} % of the others are right")

# %%
# The map knows more than the ground truth shows: the white parts of the truth were never labeled.
classes = class_table(truth)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
pictures = {
    "the scene, in false color": false_color(scene),
    "ground truth": class_picture(truth.values, classes),
    "map from ten labels per class": class_picture(class_map.values, classes),
}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(title)
    ax.axis("off")
plt.show()
