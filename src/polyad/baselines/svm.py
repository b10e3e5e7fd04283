"""`PatchSVC`: a support vector machine on spectra or on patch means, tuned on its training labels.

What somebody who knows scikit-learn would try first on a hyperspectral scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polyad.errors import InputError
from polyad.estimators.scaler import NUMERIC, check_sample_shape

Array = npt.NDArray[Any]


def center_spectrum(X: Array) -> Array:
    """Return the spectrum of the middle pixel, ``(n, bands)``, of patches ``(n, s, s, bands)``."""
    return X[:, X.shape[1] // 2, X.shape[2] // 2]


def mean_spectrum(X: Array) -> Array:
    """Return the mean spectrum, ``(n, bands)``, of patches ``(n, s, s, bands)``."""
    return X.mean(axis=(1, 2))


FEATURES = {"spectrum": center_spectrum, "patch-mean": mean_spectrum}


class PatchSVC(ClassifierMixin, BaseEstimator):
    """SVM with RBF kernel; C and gamma by cross-validation within the training samples.

    Parameters
    ----------
    features : {"spectrum", "patch-mean"}, default="spectrum"
        What it sees of a patch. Samples of order one are taken as they are.
    costs : sequence of float, default=(1, 10, 100, 1000)
        Values of C tried.
    gammas : sequence of float, default=(0.01, 0.1, 1, 10)
        Values of gamma tried, as multiples of one over the number of features.
    folds : int, default=5
        Fewer where the rarest class has fewer samples; with a single sample nothing can be held
        out, and the middle of the grid is taken.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray, ``(C,)``
    best_params_ : dict
        ``C`` and ``gamma``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5, 5, 3)); y = X.mean(axis=(1, 2, 3)) > 0
    >>> PatchSVC("patch-mean", random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        features: str = "spectrum",
        *,
        costs: Sequence[float] = (1.0, 10.0, 100.0, 1000.0),
        gammas: Sequence[float] = (0.01, 0.1, 1.0, 10.0),
        folds: int = 5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.features = features
        self.costs = costs
        self.gammas = gammas
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Choose C and gamma, then fit on all samples.

        Parameters
        ----------
        X : array, ``(n, s, s, bands)`` or ``(n, features)``
        y : array, ``(n,)``
        """
        if self.features not in FEATURES:
            raise InputError(
                f"features must be one of {', '.join(FEATURES)}, got {self.features!r}"
            )
        X, y = validate_data(self, X, y, **NUMERIC)
        check_classification_targets(y)
        self.sample_shape_ = X.shape[1:]
        self.classes_, counts = np.unique(y, return_counts=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has 1 class, {self.classes_[0]!r}; a classifier needs two or more")
        seen = self._seen(X)
        gammas = [g / seen.shape[1] for g in self.gammas]
        grid = {"svc__C": list(self.costs), "svc__gamma": gammas}
        machine = make_pipeline(StandardScaler(), SVC())
        folds = min(self.folds, int(counts.min()))
        if folds < 2:
            middle = {name: values[len(values) // 2] for name, values in grid.items()}
            self.machine_ = machine.set_params(**middle).fit(seen, y)
        else:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
            self.machine_ = GridSearchCV(machine, grid, cv=splits).fit(seen, y).best_estimator_
        chosen = self.machine_.named_steps["svc"]
        self.best_params_ = {"C": chosen.C, "gamma": chosen.gamma}
        return self

    def predict(self, X: Array) -> Array:
        """Return the class of each sample, ``(n,)``."""
        seen = self._checked(X)
        return self.machine_.predict(seen)

    def decision_function(self, X: Array) -> Array:
        """Return one-versus-rest scores, ``(n, C)``, or ``(n,)`` for two classes."""
        seen = self._checked(X)
        return self.machine_.decision_function(seen)

    def _checked(self, X: Array) -> Array:
        check_is_fitted(self, "machine_")
        check_sample_shape(X, self.sample_shape_)
        return self._seen(validate_data(self, X, reset=False, **NUMERIC))

    def _seen(self, X: Array) -> Array:
        """Return what the machine sees, ``(n, features)``."""
        if X.ndim == 4:
            return FEATURES[self.features](X)
        return X.reshape(len(X), -1)
