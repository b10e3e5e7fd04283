r"""Several starts as one network.

The mean of the logits of M networks is the normalised geometric mean of their probabilities. And
it is a Rank-R network again: the hidden units side by side, the output weights divided by M. So an
ensemble is kept, mapped and distributed as any other model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from polyad.core.network import RankRNet
from polyad.errors import InputError
from polyad.estimators.classifier import RankRClassifier

Array = npt.NDArray[Any]


class RankREnsemble(ClassifierMixin, BaseEstimator):
    """Rank-R classifiers from several starts, with the uncertainty that their quarrel shows.

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

    def fit(self, X: Array, y: Array) -> Self:
        """Fit each member from its own start."""
        if self.starts < 1:
            raise InputError(f"starts must be at least 1, got {self.starts}")
        seeds = np.random.SeedSequence(self.random_state).generate_state(self.starts)
        options = self.parameters or {}
        self.members_ = [
            RankRClassifier(random_state=int(seed), **options).fit(X, y) for seed in seeds
        ]
        self.classes_ = self.members_[0].classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the normalised geometric mean of the members' probabilities, ``(n, C)``."""
        return softmax(np.mean([m.predict_log_proba(X) for m in self.members_], axis=0), axis=1)

    def predict(self, X: Array) -> Array:
        """Return the most probable class of each sample."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def uncertainty(self, X: Array) -> tuple[Array, Array]:
        r"""Return entropy and disagreement of each sample, ``(n,)`` each, in nats.

        Entropy is that of the mean of probabilities; disagreement is what is left of it when the
        members' own mean entropy is taken away (mutual information): it is high where the members
        are sure of different classes.
        """
        logs = np.stack([m.predict_log_proba(X) for m in self.members_])
        shares = np.exp(logs)
        mean = shares.mean(axis=0)
        entropy = -(mean * np.log(np.maximum(mean, 1e-30))).sum(axis=1)
        own = -(shares * np.maximum(logs, -70.0)).sum(axis=2).mean(axis=0)
        return entropy, np.maximum(entropy - own, 0.0)

    def merged(self) -> RankRClassifier:
        """Return the one Rank-R classifier that answers as the ensemble does."""
        return merge(self.members_)


def merge(members: Sequence[RankRClassifier], weight: float = 1.0) -> RankRClassifier:
    """Return one classifier whose logits are ``weight`` times the mean of the members' logits.

    All members must have been fitted on the same samples with the same parameters.
    """
    first = members[0]
    networks = [m.network_ for m in members]
    layer, output = networks[0].hidden, networks[0].output
    joined = RankRNet(
        layer.in_shape,
        sum(n.hidden.out_features for n in networks),
        output.out_features,
        layer.rank,
        networks[0].activation,
        hidden_bias=layer.bias is not None,
        start=layer.start,
        dtype=output.weight.dtype,
    )
    with torch.no_grad():
        for mode, factor in enumerate(joined.hidden.factors):
            factor.copy_(torch.cat([n.hidden.factors[mode] for n in networks]))
        if joined.hidden.bias is not None:
            biases: list[torch.Tensor] = [
                n.hidden.bias for n in networks if n.hidden.bias is not None
            ]
            joined.hidden.bias.copy_(torch.cat(biases))
        share = weight / len(networks)
        joined.output.weight.copy_(torch.cat([n.output.weight for n in networks], dim=1) * share)
        joined.output.bias.copy_(torch.stack([n.output.bias for n in networks]).sum(0) * share)
    parameters = first.get_params() | {"hidden": joined.hidden.out_features}
    twin = RankRClassifier(**parameters)
    twin.network_, twin.classes_ = joined, first.classes_
    twin.scaler_, twin.sample_shape_ = first.scaler_, first.sample_shape_
    twin.n_features_in_ = first.n_features_in_
    twin.history_, twin.n_iter_ = first.history_, first.n_iter_
    return twin


def logits_of(proba: Array) -> Array:
    """Return log-probabilities, finite where a probability is zero."""
    return log_softmax(np.log(np.maximum(proba, 1e-12)), axis=-1)
