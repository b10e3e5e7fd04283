"""`RankRRegressor`: the Rank-R network as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin

from polyad.errors import InputError
from polyad.estimators.base import RankREstimator
from polyad.estimators.defaults import Choice

# The generated constructor is annotated with these; typing.get_type_hints looks for them here
from polyad.estimators.parameters import (  # noqa: F401
    ActivationName,
    Array,
    Auto,
    Device,
    Samples,
    Solver,
    StartName,
)
from polyad.estimators.scaler import as_given
from polyad.fitting.epochs import OnEpoch

FARTHEST = 1e15  # deviations of a target: single precision holds the sum of their squares


@dataclass(repr=False, eq=False)
class RankRRegressor(MultiOutputMixin, RegressorMixin, RankREstimator):
    """Predict one or many numbers from tensors with a Rank-R network (Remark 1 of the paper).

    The parameters are those of `RankRClassifier`, without ``class_weight``. Targets are
    standardized for the fit, and predictions are given on the targets' own scale.

    By default the penalty on squared weights is that of the ridge regression with the least error
    on samples left out, taken over to the network, and that ridge regression itself is joined to
    the network unless samples held out speak clearly for the network alone. Where samples are few,
    or the target is noisy, predictions are those of the ridge regression.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4, 6))  # order-2 tensors
    >>> y = X[:, 1, 2] + 0.5 * X[:, 3, 0]
    >>> model = RankRRegressor(rank=2, hidden=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    @property
    def _loss(self) -> str:
        return "squared"

    def fit(
        self,
        X: Samples,
        y: Samples,
        sample_weight: npt.ArrayLike | None = None,
        *,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Learn from samples and their targets.

        Parameters
        ----------
        X : array or Tensor, ``(n, I_1, ..., I_D)``
        y : array, ``(n,)`` or ``(n, C)``
        sample_weight : array, ``(n,)``, optional
        on_epoch : callable, optional

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            if not self._continues:
                self.__dict__.pop("target_mean_", None)
            return self._fit(X, y, sample_weight, on_epoch)

    def partial_fit(
        self, X: Samples, y: Samples, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Take one more epoch on a batch; scales are learned from the first batch."""
        with self._all_or_nothing():
            return self._partial_fit(X, y, sample_weight, first=not hasattr(self, "network_"))

    def predict(self, X: Samples) -> Array:
        """Return predictions, ``(n,)`` or ``(n, C)`` like the ``y`` fitted on."""
        values = self._outputs(X) * self.target_scale_ + self.target_mean_
        return as_given(values[:, 0] if self._one_target else values, X)

    def _encode(self, y: Array, weight: Array) -> tuple[Array, Array]:
        columns = y.reshape(len(y), -1).astype(np.float64)
        if not hasattr(self, "target_mean_"):
            self._one_target = y.ndim == 1
            with np.errstate(over="ignore", invalid="ignore"):
                self.target_mean_ = np.average(columns, axis=0, weights=weight)
                squares = np.average((columns - self.target_mean_) ** 2, axis=0, weights=weight)
            if not np.isfinite(squares).all():
                raise InputError(
                    "y must hold numbers whose squares are finite, up to about 1e150, got "
                    f"{np.abs(columns).max():g}; fit to y in a larger unit"
                )
            self.target_scale_ = np.where(squares > 0, np.sqrt(squares), 1.0)
        if columns.shape[1] != len(self.target_mean_):
            raise InputError(
                f"fitted on {len(self.target_mean_)} targets, got y with {columns.shape[1]}"
            )
        target = (columns - self.target_mean_) / self.target_scale_
        if np.abs(target).max() > FARTHEST:
            raise InputError(
                f"y must lie within {FARTHEST:g} standard deviations of the first y fitted on, got "
                f"{np.abs(target).max():g}; leave out such samples or fit a new model"
            )
        return target, weight

    def _validation_strata(self, y: Array) -> Array | None:  # noqa: ARG002
        return None

    def _auto_penalty(self, choice: Choice, order: int) -> float:
        return choice.linear_penalty(order) or 1.0  # what lines miss may be no noise
