"""
Why does the order of a contraction matter?
===========================================

The same inner products can be computed in six ways. The layer picks one from the shapes alone;
here all are shown for one sample and for many.
"""

import matplotlib.pyplot as plt

from polyad import plan_inner

shape, units, rank = (5, 5, 200), 75, 2
print(plan_inner(shape, hidden=units, rank=rank, n=1))
print(plan_inner(shape, hidden=units, rank=rank, n=512))

# %%
# Millions of operations per sample, as the number of samples grows. Rebuilding the dense weight
# costs the same once, however many samples follow, and is the cheapest way for large batches.
numbers = [2**k for k in range(12)]
ways = {}
for n in numbers:
    for way in plan_inner(shape, hidden=units, rank=rank, n=n).candidates:
        ways.setdefault(way.label, []).append(way.flops / n / 1e6)
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
colors = ("#117733", "#88CCAA", "#4477AA", "#88CCEE", "#DDCC77", "#EE7733")
for (label, cost), color in zip(ways.items(), colors, strict=True):
    ax.loglog(numbers, cost, color=color, label=label, base=2)
ax.set(xlabel="samples at once", ylabel="MFLOP per sample")
ax.legend(frameon=False, title="modes contracted")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
