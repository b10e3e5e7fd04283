r"""Where to click next: pixels the model is unsure of and that differ from those labeled.

A pixel's worth is its uncertainty times its novelty :math:`\min(1, 2 d / m)`, where *d* is the
distance of its spectrum (mean over the model's window, bands standardized) to the nearest labeled
one and *m* is the median of *d*. Novelty saturates, since a pixel far from all others is often a
defect. Pixels are chosen one by one, each counted as labeled before the next: a field gets one
click.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


CANDIDATES = 1000  # pixels that suggestions are chosen from, over the whole scene
SUGGESTIONS = 24  # pixels the page is given


class Candidates(NamedTuple):
    """Uncertain pixels: where, how uncertain, and their spectra (mean over the model's window)."""

    pixels: Array  # (n, 2)
    uncertainty: Array  # (n,)
    spectra: Array  # (n, bands)


def advise(candidates: list[Candidates], labeled: Array) -> list[list[float]]:
    """Return the pixels to click next as ``[row, column, uncertainty]``, best first.

    Parameters
    ----------
    candidates : list of Candidates
        Of each tile of the scene.
    labeled : ndarray, ``(labels, bands)``
        Spectra of the labeled pixels, mean over the window.
    """
    pixels, uncertainty, spectra = map(np.concatenate, zip(*candidates, strict=True))
    order = suggest(spectra, uncertainty, labeled, SUGGESTIONS)
    return [[*map(int, pixels[k]), round(float(uncertainty[k]), 4)] for k in order]


def suggest(spectra: Array, uncertainty: Array, labeled: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the candidates most worth a label, best first.

    Parameters
    ----------
    spectra : ndarray, ``(candidates, bands)``
    uncertainty : ndarray, ``(candidates,)``
        From 0 (sure) to 1.
    labeled : ndarray, ``(labels, bands)``
        Spectra of the labeled pixels.
    n : int
        How many to return, at most.

    Returns
    -------
    ndarray of int
        Positions among the candidates.

    Examples
    --------
    >>> labeled = np.array([[0.0], [1.0]])
    >>> suggest(np.array([[0.0], [0.5], [0.9]]), np.array([0.9, 0.8, 0.1]), labeled, n=1)
    array([1])
    """
    n = min(n, len(spectra))
    if n == 0:
        return np.empty(0, np.intp)
    both = np.concatenate([spectra, labeled]).astype(np.float64)
    scale = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    x, known = both[: len(spectra)], both[len(spectra) :]
    distance = _nearest(x, known) if len(known) else np.ones(len(x))
    near = float(np.median(distance)) / 2 or 1.0  # closer than this counts as similar to a label
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
