r"""Superpixels: small connected groups of like pixels, the nodes of a large scene's graphs.

Every group that is too small joins the neighbor that differs least from it, all of them at once
(Borůvka's rounds, stopped early). Each round at least doubles the smallest group, so that a few
rounds do, each in time linear in the pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

Array = npt.NDArray[Any]
_COO: Any = sparse.coo_array
SPREAD = np.uint32(2654435761)  # a step, odd and far: it scatters the numbers of equal edges


def find_superpixels(features: Array, least: int = 4, valid: Array | None = None) -> Array:
    """Group the pixels of a scene or a tile of it.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
    least : int
        Pixels of the smallest group; less where data end.
    valid : ndarray of bool, ``(height, width)``, optional
        Pixels without data are in no group.

    Returns
    -------
    ndarray of int32, ``(height, width)``
        Group of each pixel, from 0 in the order of their first pixels; -1 without data.

    Examples
    --------
    >>> features = np.repeat([[[0.0]] * 3 + [[5.0]] * 3], 2, axis=0)
    >>> find_superpixels(features, least=6)
    array([[0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1]], dtype=int32)
    """
    valid = np.ones(features.shape[:2], bool) if valid is None else valid
    one, other = _edges(features, valid)
    group: Array = np.arange(valid.size)
    size: Array = np.ones(valid.size, np.intp)
    while len(one):
        here, there = group[one], group[other]
        apart = here != there
        one, other, here, there = one[apart], other[apart], here[apart], there[apart]
        cheapest = _first(here, there, len(size))
        joined = cheapest[(size < least) & (cheapest < len(one))]
        if not len(joined):
            break
        pairs = _COO(
            (np.ones(len(joined), bool), (here[joined], there[joined])), shape=(len(size),) * 2
        )
        count, renamed = connected_components(pairs, directed=False)
        group = renamed[group]
        size = np.bincount(group, minlength=count)
    return _numbered(group, valid)


def find_superpixels_slow(features: Array, least: int = 4, valid: Array | None = None) -> Array:
    """As `find_superpixels`, group by group: the reference."""
    valid = np.ones(features.shape[:2], bool) if valid is None else valid
    edges = list(zip(*(side.tolist() for side in _edges(features, valid)), strict=True))
    group = list(range(valid.size))
    while True:
        chosen: dict[int, tuple[int, int]] = {}
        for one, other in edges:  # from the cheapest on
            for side in {group[one], group[other]} if group[one] != group[other] else ():
                if group.count(side) < least:
                    chosen.setdefault(side, (one, other))
        if not chosen:
            return _numbered(np.array(group), valid)
        for one, other in chosen.values():
            into, gone = sorted((group[one], group[other]))
            group = [into if g == gone else g for g in group]


def group_means(values: Array, groups: Array, count: int) -> Array:
    """Return the mean of ``values`` ``(n, k)`` over each of ``count`` groups, as float32.

    Examples
    --------
    >>> group_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), 2).ravel().tolist()
    [1.0, 5.0]
    """
    size = np.maximum(np.bincount(groups, minlength=count), 1)
    order = np.argsort(groups, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))])
    gather: Any = sparse.csr_array(
        (np.ones(len(groups), np.float32), order, ends), shape=(count, len(groups))
    )
    return np.asarray(gather @ values.astype(np.float32, copy=False) / size[:, None], np.float32)


def _edges(features: Array, valid: Array) -> tuple[Array, Array]:
    """Return both pixels of every edge between neighbors, the edge of least difference first."""
    index = np.arange(valid.size).reshape(valid.shape)
    ends, lengths = [], []
    for far, near in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        step = features[far] - features[near]
        kept = valid[far] & valid[near]
        ends.append(np.stack([index[near][kept], index[far][kept]]))
        lengths.append(np.einsum("...k,...k", step, step)[kept])
    one, other = np.concatenate(ends, axis=1)
    # Of equal edges, as in a field without noise, the first must not always be the one to the left
    scattered = np.argsort(np.arange(len(one), dtype=np.uint32) * SPREAD)
    order = scattered[np.argsort(np.concatenate(lengths)[scattered], kind="stable")]
    return one[order], other[order]


def _first(here: Array, there: Array, groups: int) -> Array:
    """Return the first edge of each group, or the number of edges for a group that has none."""
    edges = np.arange(len(here))[::-1]
    first = np.full((2, groups), len(here))
    first[0][here[::-1]] = edges  # the last write stays, which is that of the first edge
    first[1][there[::-1]] = edges
    return first.min(axis=0)


def _numbered(group: Array, valid: Array) -> Array:
    nodes = np.full(valid.shape, -1, np.int32)
    inside = group[valid.ravel()]
    first, inverse = np.unique(inside, return_index=True, return_inverse=True)[1:]
    nodes[valid] = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    return nodes
