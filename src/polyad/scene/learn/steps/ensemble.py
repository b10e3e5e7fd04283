r"""Several starts as one network.

The mean of the logits of M networks is the normalized geometric mean of their probabilities. And
it is a Rank-R network again: the hidden units side by side, the output weights divided by M. So an
ensemble is kept, mapped and distributed as any other model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from polyad.core.network import join_networks
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier

Array = npt.NDArray[Any]


class RankREnsemble(ClassifierMixin, BaseEstimator):
    """Rank-R classifiers from several starts, whose log-probabilities are averaged.

    Parameters
    ----------
    starts : int, default=3
    random_state : int, default=0
    parameters : dict, optional
        Of each `RankRClassifier`.

    Attributes
    ----------
    members_ : list of RankRClassifier
    classes_ : ndarray

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 3, 4)).astype(np.float32)
    >>> y = (X[:, 1].sum(axis=1) > 0).astype(int)
    >>> ensemble = RankREnsemble(starts=2, parameters={"hidden": 5}).fit(X, y)
    >>> np.allclose(ensemble.merged().predict_proba(X), ensemble.predict_proba(X), atol=1e-5)
    True
    """

    def __init__(
        self, starts: int = 3, random_state: int = 0, parameters: dict[str, Any] | None = None
    ) -> None:
        self.starts = starts
        self.random_state = random_state
        self.parameters = parameters

    def fit(self, X: Array, y: Array, on_fit: Callable[[], None] = lambda: None) -> Self:
        """Fit each member from its own start; ``on_fit`` is called after each."""
        if self.starts < 1:
            raise InputError(f"starts must be at least 1, got {self.starts}")
        seeds = np.random.SeedSequence(self.random_state).generate_state(self.starts)
        options = self.parameters or {}
        self.members_ = []
        for seed in seeds:
            self.members_.append(RankRClassifier(random_state=int(seed), **options).fit(X, y))
            on_fit()
        self.classes_ = self.members_[0].classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the normalized geometric mean of the members' probabilities, ``(n, C)``."""
        return softmax(np.mean([m.predict_log_proba(X) for m in self.members_], axis=0), axis=1)

    def predict(self, X: Array) -> Array:
        """Return the most probable class of each sample."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def merged(self) -> RankRClassifier:
        """Return the Rank-R classifier whose predictions are the ensemble's."""
        return merge(self.members_)


def merge(
    members: Sequence[RankRClassifier], weights: Sequence[float] | None = None
) -> RankRClassifier:
    """Return one classifier whose logits are the members' logits, averaged or weighted.

    All members must take the same samples, standardized alike, and know the same classes.

    Parameters
    ----------
    members : sequence of RankRClassifier
    weights : sequence of float, optional
        Of the members' logits; by default one over their number.
    """
    first = members[0]
    networks = [m.network_ for m in members]
    shares = [1 / len(networks)] * len(networks) if weights is None else list(weights)
    joined = join_networks(networks, shares)
    parameters = first.get_params() | {"hidden": joined.hidden.out_features}
    twin = RankRClassifier(**parameters)
    twin.network_, twin.classes_ = joined, first.classes_
    twin.scaler_, twin.sample_shape_ = first.scaler_, first.sample_shape_
    twin.n_features_in_ = first.n_features_in_
    twin.history_, twin.n_iter_ = first.history_, first.n_iter_
    return twin
