"""
Can a table of antibodies tell who was infected?
================================================

Each of 438 samples is a matrix, 6 antigens by 11 receptors (Zohar et al. 2020, arranged by Tan et
al. 2021; it comes with TensorLy). A rank-1 unit has one weight per antigen and one per receptor,
which can be read.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tensorly.datasets import load_covid19_serology

from polyad import RankRClassifier

data = load_covid19_serology()
X, group = np.asarray(data.tensor), np.asarray(data.ticks[0])
y = np.where(group == "Negative", "negative", "infected")
antigens, receptors = (list(map(str, ticks)) for ticks in data.ticks[1:])

# %%
# Balanced accuracy on five folds: every class counts alike.
models = {
    "logistic regression": make_pipeline(
        FunctionTransformer(lambda X: X.reshape(len(X), -1)),
        StandardScaler(),
        LogisticRegression(class_weight="balanced", max_iter=5000),
    ),
    "Rank-1 network": RankRClassifier(1, class_weight="balanced", random_state=0),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
for name, model in models.items():
    scores = cross_val_score(model, X, y, cv=folds, scoring="balanced_accuracy")
    print(f"{name:<20} {100 * scores.mean():.1f} ± {100 * scores.std():.1f} %")

# %%
# What did one network look at? Its weights, summed over the units with the sign of their output,
# are again a table. Red counts toward *infected*, blue toward *negative*.
fitted = models["Rank-1 network"].fit(X, y).network_
rows, cols = (f.detach().numpy()[:, 0] for f in fitted.hidden.factors)  # (units, 6), (units, 11)
output = fitted.output.weight.detach().numpy()
toward = output[0] - output[1]  # classes are sorted: infected, negative
table = np.einsum("q,qi,qj->ij", toward, rows, cols)
most = np.abs(table).max()
figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
shown = ax.imshow(table, cmap="RdBu_r", vmin=-most, vmax=most)
ax.set_xticks(range(len(receptors)), receptors, rotation=45, ha="right")
ax.set_yticks(range(len(antigens)), antigens)
figure.colorbar(shown, label="weight")
plt.show()
