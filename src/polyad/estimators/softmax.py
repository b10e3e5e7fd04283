"""What classifiers whose outputs are logits answer: classes and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin

Array = npt.NDArray[Any]


class SoftmaxClassifierMixin(ClassifierMixin):
    """Predictions from logits; the class that takes it in has ``classes_`` and `_outputs`."""

    classes_: Array

    if TYPE_CHECKING:

        def _outputs(self, X: Array) -> Array:
            """Return logits ``(n, C)``."""

    def decision_function(self, X: Array) -> Array:
        """Return logits: ``(n, C)``, or for two classes ``(n,)``, positive for the second."""
        logits = self._outputs(X)
        if len(self.classes_) == 2:
            return logits[:, 1] - logits[:, 0]
        return logits[:, 0] if len(self.classes_) == 1 else logits

    def predict_proba(self, X: Array) -> Array:
        """Return class probabilities, ``(n, C)`` in the order of ``classes_``."""
        return softmax(self._outputs(X), axis=1)

    def predict_log_proba(self, X: Array) -> Array:
        """Return log-probabilities, ``(n, C)``."""
        return log_softmax(self._outputs(X), axis=1)

    def predict(self, X: Array) -> Array:
        """Return the most probable class of each sample, ``(n,)``."""
        codes = self._outputs(X).argmax(axis=1)
        return self.classes_[codes]
