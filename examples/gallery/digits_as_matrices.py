"""
Should an image of a digit stay a matrix?
=========================================

A digit of 8 x 8 pixels flattened has 64 weights per hidden unit; as a matrix at rank 1 it has 16.
With few labels fewer weights should help. Do they?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from polyad import RankRClassifier

X, y = load_digits(return_X_y=True)
X = X.reshape(-1, 8, 8) / 16
flat = FunctionTransformer(lambda X: X.reshape(len(X), -1))
models = {
    "Rank-1 network": RankRClassifier(1, random_state=0),
    "logistic regression": make_pipeline(flat, LogisticRegression(max_iter=2000)),
    "dense network": make_pipeline(flat, MLPClassifier(75, max_iter=400, tol=1e-3, random_state=0)),
}
colors = dict(zip(models, ("#117733", "#4477AA", "#EE7733"), strict=True))

# %%
# Mean of two draws; all other images test.
numbers = (20, 50, 100, 300)
accuracy = {name: [] for name in models}
for n in numbers:
    for name, model in models.items():
        scores = []
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[:n], order[n:]
            scores.append(model.fit(X[train], y[train]).score(X[test], y[test]))
        accuracy[name].append(100 * np.mean(scores))
for name, values in accuracy.items():
    print(f"{name:<20}", *(f"{v:5.1f}" for v in values))

# %%
# Here all three are near each other: strokes of a digit are no products of a row and a column, so
# that the tensor form brings little. It pays where modes mean something by themselves, as bands
# and places do.
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, values in accuracy.items():
    ax.plot(numbers, values, "o-", color=colors[name], label=name)
ax.set(xscale="log", xlabel="labeled images", ylabel="accuracy, %", xticks=numbers)
ax.set_xticklabels(numbers)
ax.minorticks_off()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
