"""A scikit-learn user puts the classifier where any other would stand.

The program runs by itself, with the installed polyad; its assertions are what the user may expect.
"""


def test_pipeline_cross_validation_grid_search_and_a_model_file(user):
    printed = user.runs("""
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from polyad import ModeStandardScaler, RankRClassifier, load, save

rng = np.random.default_rng(0)
names = np.array(["corn", "woods"])
y = names[np.arange(120) % 2]
X = rng.normal(size=(120, 5, 5, 10))  # 120 patches of 5 x 5 pixels and 10 bands
X[y == "woods"] += np.hanning(10)

model = make_pipeline(ModeStandardScaler(), RankRClassifier(hidden=10, random_state=0))
scores = cross_val_score(model, X, y, cv=3)
assert scores.mean() > 0.9, scores

search = GridSearchCV(model, {"rankrclassifier__rank": [1, 2]}, cv=3).fit(X[:90], y[:90])
assert search.score(X[90:], y[90:]) > 0.9
print(search.best_params_)

best = search.best_estimator_[-1]
save(best, "best.polyad")
again = load("best.polyad")
scaled = search.best_estimator_[:-1].transform(X[90:])
np.testing.assert_array_equal(again.predict_proba(scaled), best.predict_proba(scaled))
assert set(again.classes_) == {"corn", "woods"}
""")
    assert "rankrclassifier__rank" in printed
    assert (user / "best.polyad").exists()
