"""
What does another mode cost?
============================

Add a mode to the samples, such as time to a series of images, and the weights of a dense unit
multiply. Those of a Rank-R unit add up.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from polyad import RankRClassifier, RankRNet

sizes = (8, 8, 8, 8, 8, 8)
orders = range(1, len(sizes) + 1)
dense = [75 * math.prod(sizes[:d]) for d in orders]
low = {r: [RankRNet(sizes[:d], 75, 2, r, device="meta").n_weights for d in orders] for r in (1, 5)}
print("order", *orders, "| dense", *dense, "| rank 1", *low[1])

# %%
# So samples of order 4 can be learned from a few hundred labels: here a product of four vectors is
# added to noise in one class, and taken from it in the other.
rng = np.random.default_rng(0)
shape = (6, 6, 6, 6)
vectors = [rng.normal(size=n) for n in shape]
product = np.einsum("a,b,c,d->abcd", *(v / np.linalg.norm(v) for v in vectors))
y = np.arange(900) % 2
X = rng.normal(size=(900, *shape)) + 2 * np.where(y, 1, -1)[:, None, None, None, None] * product
model = RankRClassifier(1, hidden=4, random_state=0).fit(X[:400], y[:400])
flat = LogisticRegression(C=0.01, max_iter=1000).fit(X[:400].reshape(400, -1), y[:400])
print(f"order 4, 400 labels: {100 * model.score(X[400:], y[400:]):.1f} % of 500 others right;")
print(f"logistic regression: {100 * flat.score(X[400:].reshape(500, -1), y[400:]):.1f} %")

# %%
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.semilogy(orders, dense, "o-", color="#EE7733", label="dense")
for rank, color in ((5, "#4477AA"), (1, "#117733")):
    ax.semilogy(orders, low[rank], "o-", color=color, label=f"rank {rank}")
ax.set(xlabel="order of a sample, 8 entries per mode", ylabel="weights of 75 hidden units")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
