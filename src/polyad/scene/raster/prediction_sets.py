"""Prediction sets: the classes that a pixel may be of, from its class probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SET_SIZE = "prediction set size"  # the tag "quantity" of a file that holds it
SET_MEMBERS = "prediction set members"
NO_SET = 255  # of a membership, where a pixel is not mapped


class SetRule(NamedTuple):
    """Which classes are in the set of a pixel.

    Attributes
    ----------
    coverage : float
        Share of the sets that are promised to hold the true class.
    least : tuple of float
        Of each class: it is in the set of a pixel in which its probability is not below this.
    labels : int
        How many held-out labels say so.
    """

    coverage: float
    least: tuple[float, ...]
    labels: int


def set_members(proba: npt.NDArray[Any], rule: SetRule) -> npt.NDArray[np.uint8]:
    """Return which classes are in the set of each pixel; the likeliest always is.

    Parameters
    ----------
    proba : array of float, shape (..., classes)
        NaN where there are none.
    rule : SetRule

    Returns
    -------
    array of uint8, shape (..., classes)
        1 for a class in the set, 0 for others, 255 where there are no probabilities.

    Examples
    --------
    >>> rule = SetRule(0.9, (0.2, 0.2, 0.2), 50)
    >>> proba = np.array([[0.7, 0.25, 0.05], [0.9, 0.06, 0.04], [np.nan] * 3])
    >>> set_members(proba, rule).tolist()
    [[1, 1, 0], [1, 0, 0], [255, 255, 255]]
    """
    blank = np.isnan(proba[..., :1])
    members = proba >= np.asarray(rule.least, np.float32)
    likeliest = np.where(blank, 0, proba).argmax(axis=-1)
    np.put_along_axis(members, likeliest[..., np.newaxis], True, axis=-1)
    return np.where(blank, NO_SET, members).astype(np.uint8)


def set_sizes(members: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return how many classes each set has, ``(...)``; 0 where there is none.

    Examples
    --------
    >>> set_sizes(np.array([[1, 1, 0], [255, 255, 255]], np.uint8)).tolist()
    [2, 0]
    """
    sizes = (members == 1).sum(axis=-1)
    return sizes.astype(size_dtype(members.shape[-1]))


def size_dtype(classes: int) -> np.dtype[Any]:
    """Return the type that holds the size of any set of so many classes."""
    return np.dtype(np.uint8 if classes <= np.iinfo(np.uint8).max else np.uint16)
