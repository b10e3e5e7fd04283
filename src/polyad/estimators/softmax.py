"""What classifiers whose outputs are logits answer: classes and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin

from polyad.estimators.kinds import Array, Samples
from polyad.estimators.namespaces import as_given


class SoftmaxClassifierMixin(ClassifierMixin):
    """Predictions from logits; the class that takes it in has ``classes_`` and `_outputs`.

    Where ``multilabel_`` is true, classes do not exclude each other: each has its own probability.
    """

    classes_: Array
    multilabel_: bool = False

    if TYPE_CHECKING:

        def _outputs(self, X: Any) -> Array:
            """Return logits ``(n, C)``."""

    def decision_function(self, X: Samples) -> Array:
        """Return logits: ``(n, C)``, or for two classes ``(n,)``, positive for the second."""
        logits = self._outputs(X)
        if not self.multilabel_ and len(self.classes_) == 2:
            logits = logits[:, 1] - logits[:, 0]
        elif not self.multilabel_ and len(self.classes_) == 1:
            logits = logits[:, 0]
        return as_given(logits, X)

    def predict_proba(self, X: Samples) -> Array:
        """Return class probabilities, ``(n, C)`` in the order of ``classes_``."""
        logits = self._outputs(X)
        return as_given(expit(logits) if self.multilabel_ else softmax(logits, axis=1), X)

    def predict_log_proba(self, X: Samples) -> Array:
        """Return log-probabilities, ``(n, C)``."""
        logits = self._outputs(X)
        return as_given(log_expit(logits) if self.multilabel_ else log_softmax(logits, axis=1), X)

    def predict(self, X: Samples) -> Array:
        """Return each sample's most probable class, ``(n,)``, or all its labels, ``(n, C)``."""
        logits = self._outputs(X)
        if self.multilabel_:
            return as_given((logits > 0).astype(np.int64), X)
        return as_given(self.classes_[logits.argmax(axis=1)], X)
