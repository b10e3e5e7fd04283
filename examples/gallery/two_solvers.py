"""
One mode at a time, or all at once?
===================================

The paper fits the factors of one mode while the others rest (*alternating*). polyad's default fits
all of them together (*joint*). Same network, same patches.
"""

import matplotlib.pyplot as plt
import numpy as np

import polyad
from polyad import RankRClassifier
from polyad.scene import extract_patches, per_class

scene = polyad.open_scene("indian-pines")
truth = polyad.open_labels("indian-pines", scene)
split = per_class(truth, 10, random_state=0)
X = extract_patches(scene, *split.train.T, window=5)  # (n, 5, 5, 200)
y = truth.values[tuple(split.train.T)]
some = np.random.default_rng(0).permutation(split.test)[:1500]
X_test, y_test = extract_patches(scene, *some.T, window=5), truth.values[tuple(some.T)]

# %%
# The loss after each epoch, and how long that took.
models = {
    "alternating, as in the paper": RankRClassifier.paper(epochs=40, random_state=0),
    "joint": RankRClassifier(epochs=100, random_state=0),
}
for name, model in models.items():
    right = model.fit(X, y).score(X_test, y_test)
    print(f"{name}: {100 * right:.1f} % after {sum(model.history_.seconds):.1f} s")

# %%
# Both bring the training loss down; what counts is the accuracy printed above.
figure, (by_epoch, by_time) = plt.subplots(
    1, 2, figsize=(9.5, 3.6), sharey=True, layout="constrained"
)
for (name, model), color in zip(models.items(), ("#EE7733", "#117733"), strict=True):
    loss = model.history_.loss
    by_epoch.semilogy(range(1, len(loss) + 1), loss, color=color, label=name)
    by_time.semilogy(np.cumsum(model.history_.seconds), loss, color=color)
by_epoch.set(xlabel="epoch", ylabel="training loss")
by_time.set(xlabel="seconds")
by_epoch.legend(frameon=False)
for ax in (by_epoch, by_time):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
