r"""Calibration: weights of one or more experts, from folds of the training labels.

Experts give log-probabilities :math:`\ell_e`; together they predict
:math:`\mathrm{softmax}(\sum_e w_e \ell_e)`. The weights minimize the log loss on training pixels
that were held out, drawn toward a prior since there are few of them. A single expert's weight is
one over its temperature (Guo et al. 2017). No test label is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax

from polyad.errors import InputError

Array = npt.NDArray[Any]


def fit_weights(
    experts: Sequence[Array], targets: Array, prior: Sequence[float], pull: float = 0.1
) -> list[float]:
    r"""Return one positive weight for each expert.

    Minimizes :math:`-\frac1n \sum_i \log p_{i, y_i} + \lambda \sum_e (\log w_e - \log w^0_e)^2`.

    Parameters
    ----------
    experts : sequence of ndarray, each ``(n, C)``
        Log-probabilities of samples that the expert did not learn from.
    targets : ndarray of int, ``(n,)``
    prior : sequence of float
        The weights w0 without any sample.
    pull : float
        Strength of the prior, lambda.

    Examples
    --------
    >>> sure = np.log([[0.999, 0.001], [0.999, 0.001]])
    >>> (weight,) = fit_weights([sure], np.array([0, 1]), prior=[1.0], pull=0.01)
    >>> weight < 0.5  # wrong half of the time: it counts less
    True
    """
    if len(experts) != len(prior) or min(prior) <= 0:
        raise InputError(f"wanted one prior above 0 for each of {len(experts)} experts")
    stack = np.stack([np.asarray(e, np.float64) for e in experts])  # (E, n, C)
    start, own = np.log(np.asarray(prior, np.float64)), np.arange(len(targets))

    def loss(logs: Array) -> float:
        mixed = log_softmax(np.tensordot(np.exp(logs), stack, axes=1), axis=1)
        return float(pull * np.square(logs - start).sum() - mixed[own, targets].mean())

    solution = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
    return [float(w) for w in np.exp(solution.x)]
