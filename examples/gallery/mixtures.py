"""
How much of each substance is in a mixture?
===========================================

A regression: the fluorescence of a mixture is a matrix, emission by excitation, and each substance
adds a product of its two spectra, times its concentration. A Rank-R regressor is made for that.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from polyad import RankRRegressor

rng = np.random.default_rng(0)


def bump(n, center, width):
    """Return a spectrum of n wavelengths with one peak."""
    return np.exp(-0.5 * ((np.linspace(0, 1, n) - center) / width) ** 2)


emission = np.stack([bump(40, c, 0.12) for c in (0.3, 0.45, 0.7)])
excitation = np.stack([bump(25, c, 0.15) for c in (0.25, 0.6, 0.5)])
amounts = rng.uniform(0, 1, size=(400, 3))
X = np.einsum("ns,se,sx->nex", amounts, emission, excitation) + rng.normal(0, 0.25, (400, 40, 25))

# %%
# Forty mixtures with known amounts train, the others test. Beside it, ridge regression on the
# flattened matrix.
train, test = slice(0, 40), slice(40, None)
models = {
    "Rank-1 regressor": RankRRegressor(1, random_state=0),
    "ridge, flattened": make_pipeline(
        FunctionTransformer(lambda X: X.reshape(len(X), -1)), RidgeCV(np.logspace(-2, 5, 15))
    ),
}
predicted = {n: m.fit(X[train], amounts[train]).predict(X[test]) for n, m in models.items()}
for name, values in predicted.items():
    print(f"{name:<18} R2 {r2_score(amounts[test], values):.3f}")

# %%
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
axes[0].imshow(X[0], aspect="auto", cmap="cividis")
axes[0].set(title="one mixture", xlabel="excitation", ylabel="emission", xticks=[], yticks=[])
for k, ax in enumerate(axes[1:]):
    for (name, values), color in zip(predicted.items(), ("#117733", "#EE7733"), strict=True):
        ax.plot(amounts[test, k], values[:, k], ".", color=color, alpha=0.4, label=name)
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=1)
    ax.set(title=f"substance {k + 1}", xlabel="true amount", xlim=(0, 1), ylim=(-0.3, 1.3))
axes[1].set_ylabel("predicted amount")
axes[1].legend(frameon=False, fontsize=8)
plt.show()
