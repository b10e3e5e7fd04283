"""
Does it help to look at the neighbors?
======================================

A window of one pixel sees a spectrum. A wider one sees its neighbors too, and at rank 1 costs only
two short vectors more per unit.
"""

import matplotlib.pyplot as plt

import polyad
from polyad.scene import OtherFields, RandomPerClass, train_on

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
windows = (1, 3, 5, 7)

# %%
# Twice: test pixels drawn from everywhere, and from fields that no label lies in. The preset
# fast is the network alone, so that nothing but the window sees the neighbors.
accuracy = {}
for name, protocol in (
    ("random pixels", RandomPerClass(10)),
    ("other fields than the labeled", OtherFields(10)),
):
    split = protocol.split(truth, seed=0)
    accuracy[name] = []
    for window in windows:
        model = train_on(scene, truth, split.train, preset="fast", window=window)
        scores = polyad.evaluate(model, scene, truth, split=split)
        accuracy[name].append(100 * scores.overall_accuracy)
    print(name, *(f"{a:.1f}" for a in accuracy[name]))

# %%
# In labeled fields neighbors are of the same class, and help. In other fields hardly: what the
# spectrum does not tell, the window does not either. By default polyad chooses the window by
# blocks of labels held out.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (name, values), color in zip(accuracy.items(), ("#117733", "#EE7733"), strict=True):
    ax.plot(windows, values, "o-", color=color, label=name)
ax.set(
    xlabel="side of the window, pixels", ylabel="overall accuracy, %", ylim=(0, 100), xticks=windows
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
