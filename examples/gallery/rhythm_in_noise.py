"""
Can it find a rhythm in many noisy channels?
============================================

A recording has 12 channels and 60 moments. In one class some channels carry a common rhythm, far
below the noise; which channels and what rhythm is not known. That is a product of a channel vector
and a time vector: rank 1.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from polyad import RankRClassifier

rng = np.random.default_rng(0)
channels = np.where(np.arange(12) % 3 == 0, 1.0, 0.0)
moments = np.sin(np.linspace(0, 6 * np.pi, 60))
signal = np.outer(channels, moments)  # (12, 60)


def recordings(n):
    """Return n recordings and whether each has the rhythm."""
    y = np.arange(n) % 2
    return rng.normal(size=(n, 12, 60)) + 0.35 * y[:, None, None] * signal, y


X, y = recordings(4000)
flat = FunctionTransformer(lambda X: X.reshape(len(X), -1))
models = {
    "Rank-1 network": RankRClassifier(1, hidden=5, random_state=0),
    "logistic regression": make_pipeline(flat, LogisticRegression(C=0.01, max_iter=2000)),
}

# %%
# How many recordings does each need?
numbers = (40, 80, 160, 320)
scores = {}
for name, model in models.items():
    scores[name] = [100 * model.fit(X[:n], y[:n]).score(X[1000:], y[1000:]) for n in numbers]
    print(f"{name:<20}", *(f"{s:5.1f}" for s in scores[name]))

# %%
# And what did it find? The time factor of the unit that counts most, next to the true rhythm.
network = models["Rank-1 network"].fit(X[:320], y[:320]).network_
output = network.output.weight.detach().numpy()
most = np.abs(output[1] - output[0]).argmax()
found = network.hidden.factors[1].detach().numpy()[most, 0]
found *= np.sign(found @ moments) / np.linalg.norm(found)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for (name, values), color in zip(scores.items(), ("#117733", "#4477AA"), strict=True):
    left.plot(numbers, values, "o-", color=color, label=name)
left.set(xlabel="labeled recordings", ylabel="accuracy, %", ylim=(50, 100))
left.legend(frameon=False, loc="lower right")
right.plot(moments / np.linalg.norm(moments), color="#BBBBBB", linewidth=3, label="the rhythm")
right.plot(found, color="#117733", label="the unit's time factor")
right.set(xlabel="moment", yticks=[])
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
