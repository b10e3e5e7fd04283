"""How uncertain a pixel's class is, from its class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UNCERTAINTY = "class uncertainty"  # the tag "quantity" of a file that holds it
UNCERTAINTIES = (
    "1 - largest probability",
    "1 - (largest - second largest probability)",
    "entropy / log(number of classes)",
)
"""The bands, by name. All three point the same way: 0 is certain, larger is less certain."""


def uncertainty_bands(proba: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    r"""Return three measures of uncertainty of class probabilities, each from 0 to 1.

    With :math:`p_1 \ge p_2 \ge \dots \ge p_K` they are :math:`1 - p_1`, :math:`1 - (p_1 - p_2)`,
    which is one minus the margin, and :math:`-\sum_k p_k \log p_k / \log K`, the entropy.

    Parameters
    ----------
    proba : array of float, shape (..., classes)
        NaN where there are none.

    Returns
    -------
    array of float32, shape (..., 3)
        NaN where there are no probabilities.

    Examples
    --------
    >>> uncertainty_bands(np.array([[0.5, 0.5], [1.0, 0.0], [np.nan, np.nan]])).tolist()
    [[0.5, 1.0, 1.0], [0.0, 0.0, 0.0], [nan, nan, nan]]
    """
    count = proba.shape[-1]
    if count == 1:
        return np.repeat(np.clip(1 - proba, 0, 1).astype(np.float32), 3, axis=-1)
    largest = np.partition(proba, count - 2, axis=-1)[..., -2:]  # (..., 2): second, first
    terms = np.where(proba == 0, 0, proba * np.log(np.maximum(proba, np.finfo(np.float32).tiny)))
    bands = np.stack(
        [
            1 - largest[..., 1],
            1 - (largest[..., 1] - largest[..., 0]),
            terms.sum(axis=-1) / np.log(count),  # at most 0
        ],
        axis=-1,
    )
    return np.clip(np.abs(bands), 0, 1).astype(np.float32)
