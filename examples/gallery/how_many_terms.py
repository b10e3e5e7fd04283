"""
How many terms does a dense layer need?
=======================================

By Theorem 1 of the paper every dense layer is a Rank-R layer if R is high enough. Fewer terms give
a nearby one: how near?
"""

import warnings

import matplotlib.pyplot as plt
import torch

from polyad import RankRLinear

torch.manual_seed(0)
shape, units = (5, 5, 20), 8

# %%
# Three dense weights: random numbers, smooth along every mode, and a sum of three products.
rows, cols, bands = torch.meshgrid(*(torch.linspace(0, 1, n) for n in shape), indexing="ij")
phase = torch.rand(units, 3, 1, 1, 1) * 6
smooth = torch.sin(3 * (rows + cols) * phase[:, 0] / 3 + 4 * bands * (1 + rows) + phase[:, 1])
factors = [torch.randn(units, 3, n) for n in shape]
products = torch.einsum("qri,qrj,qrk->qijk", *factors)
weights = {"random": torch.randn(units, *shape), "smooth": smooth, "three products": products}

# %%
ranks = (1, 2, 3, 4, 6, 9, 14, 25)  # above 16, more weights than the dense layer has
warnings.filterwarnings("ignore", "the Rank-R layer has")
errors = {name: [] for name in weights}
for name, weight in weights.items():
    for rank in ranks:
        _, error = RankRLinear.from_dense(weight.reshape(units, -1), shape, rank=rank, max_iter=50)
        errors[name].append(100 * float(error))
    print(f"{name:<15}", *(f"{e:5.1f}" for e in errors[name]))

# %%
# Any weight is exact at 25 terms, one for each fibre along the longest mode. A smooth one is close
# with a few, a sum of three products exact with three. Random numbers have no structure to be
# found.
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, values), color in zip(errors.items(), ("#EE7733", "#4477AA", "#117733"), strict=True):
    ax.plot(ranks, values, "o-", color=color, label=name)
ax.set(xlabel="rank", ylabel="relative error of the weight, %", ylim=(-2, 100))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
