"""
Can more units replace rank?
============================

Rank-R networks are universal approximators from the generic rank of the input's shape on. Below it,
there are functions that no number of units approximates: for 2 x 2 matrices and rank 1, the
determinant.
"""

import matplotlib.pyplot as plt
import numpy as np

from polyad import RankRRegressor
from polyad.core import generic_rank

for shape in ((2, 2), (3, 4, 5), (5, 5, 200)):
    print(shape, generic_rank(shape))

# %%
# The reason: let a unit have a weight W of rank 1. A reflection S that fixes the column of W leaves
# the unit as it is and turns the sign of the determinant. If X and S X are equally likely, the two
# are uncorrelated, whatever the activation.
rng = np.random.default_rng(0)
x = rng.normal(size=(200_000, 2, 2))
u, v = rng.normal(size=(2, 2))
normal = np.array([-u[1], u[0]]) / np.linalg.norm(u)
mirrored = (np.eye(2) - 2 * np.outer(normal, normal)) @ x
print("unit:       ", np.abs(u @ x @ v - u @ mirrored @ v).max())
print("determinant:", np.abs(np.linalg.det(x) + np.linalg.det(mirrored)).max())

# %%
# Networks fitted to 10,000 determinants, and R² on the others.
train, test = x[:10_000], x[10_000:60_000]
units = (4, 16, 64)
scores = {
    rank: [
        RankRRegressor(
            rank, q, epochs=40, batch_size=500, learning_rate=0.02, weight_decay=0.0,
            standardize=None, start="unit-variance", patience=None, random_state=0,
        )
        .fit(train, np.linalg.det(train))
        .score(test, np.linalg.det(test))
        for q in units
    ]
    for rank in (1, 2)
}  # fmt: skip
for rank, values in scores.items():
    print(f"rank {rank}:", *(f"{value:6.3f}" for value in values))

# %%
# Rank 1 stays at zero. :doc:`/understand/approximation` has the proof and more networks.
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (rank, values), color in zip(scores.items(), ("#EE7733", "#4477AA"), strict=True):
    ax.plot(units, values, "o-", color=color, label=f"rank {rank}")
ax.set_xscale("log", base=4)
ax.set_xticks(units, map(str, units))
ax.set(xlabel="hidden units", ylabel="R² on other matrices", ylim=(-0.1, 1.05))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
