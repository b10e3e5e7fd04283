r"""Where to click next: pixels the model is unsure of and that are unlike what is labelled.

A pixel's worth is its uncertainty, one minus the margin between its two most probable classes,
times how new it is: :math:`\min(1, 2 d / m)`, where *d* is the distance of its spectrum (the mean
over the model's window, bands standardised) to the nearest labelled one and *m* the median of *d*.
Novelty saturates, since what lies far from everything is as often a flaw as a find. Pixels are
taken one after the other, each counted as labelled when the next is chosen: a field gets one click.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def margin_uncertainty(proba: Array) -> Array:
    """Return one minus the margin between the two most probable classes.

    Parameters
    ----------
    proba : ndarray, ``(..., classes)``
        NaN where there is no prediction.

    Returns
    -------
    ndarray, ``(...)``
        From 0 (sure) to 1 (two classes alike); NaN where there is no prediction.

    Examples
    --------
    >>> margin_uncertainty(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([0., 1.])
    """
    if proba.shape[-1] < 2:
        return 1.0 - proba[..., 0]
    two = np.partition(proba, -2, axis=-1)[..., -2:]
    return 1.0 - (two[..., 1] - two[..., 0])


def suggest(spectra: Array, uncertainty: Array, labelled: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the candidates most worth a label, best first.

    Parameters
    ----------
    spectra : ndarray, ``(candidates, bands)``
    uncertainty : ndarray, ``(candidates,)``
        See `margin_uncertainty`.
    labelled : ndarray, ``(labels, bands)``
        Spectra of the labelled pixels.
    n : int
        How many to return; fewer if there are not so many candidates.

    Returns
    -------
    ndarray of int
        Positions among the candidates.

    Examples
    --------
    >>> labelled = np.array([[0.0], [1.0]])
    >>> suggest(np.array([[0.0], [0.5], [0.9]]), np.array([0.9, 0.8, 0.1]), labelled, n=1)
    array([1])
    """
    n = min(n, len(spectra))
    if n == 0:
        return np.empty(0, np.intp)
    both = np.concatenate([spectra, labelled]).astype(np.float64)
    scale = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    x, known = both[: len(spectra)], both[len(spectra) :]
    distance = _nearest(x, known) if len(known) else np.ones(len(x))
    near = float(np.median(distance)) / 2 or 1.0  # closer than this it is like a labelled one
    chosen = np.empty(n, np.intp)
    left = np.ones(len(x), bool)
    for k in range(n):
        worth = np.where(left, uncertainty * np.minimum(distance / near, 1.0), -np.inf)
        best = int(worth.argmax())
        chosen[k], left[best] = best, False
        distance = np.minimum(distance, np.sqrt(((x - x[best]) ** 2).sum(axis=1)))
    return chosen


def _nearest(x: Array, known: Array) -> Array:
    """Return the distance of each row of ``x`` to the nearest row of ``known``."""
    square = (x**2).sum(axis=1)[:, None] + (known**2).sum(axis=1) - 2 * x @ known.T
    return np.sqrt(np.maximum(square.min(axis=1), 0.0))
