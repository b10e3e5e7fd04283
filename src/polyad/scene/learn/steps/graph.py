r"""Label propagation over a graph of the scene's pixels, or of small groups of them.

Each node is joined to the nodes nearest to it in value and in place. Labels propagate along the
edges, :math:`U \leftarrow \alpha S U + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}` (Zhou
et al. 2004): a node ends up with the class that most short paths lead to. Which node a pixel
belongs to is said by an array ``nodes``, ``(height, width)``, with -1 where there is no data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.spatial import cKDTree

from polyad.scene.learn.steps.whitening import TooFewPixels
from polyad.threads import run_tasks

Array = npt.NDArray[Any]
Graph = Any  # a scipy sparse array; few versions of scipy agree on its type
_CSR: Any = sparse.csr_array
COLUMNS = 8  # classes propagated together; the same whatever the number of threads
FLOOR = 1e-3  # share of a class that no label came from; its logarithm stays finite


def pixel_graph(
    features: Array, neighbors: int = 10, nearness: float = 0.01, valid: Array | None = None
) -> Graph:
    r"""Join each pixel to its nearest in features and coordinates. Needs the whole scene.

    The weight of an edge of length d is :math:`\exp(-d^2 / d_k^2)`, where :math:`d_k` is the length
    of the pixel's longest edge: dense and sparse regions are treated alike.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
        Scaled here so that their variances add up to one.
    neighbors : int
    nearness : float
        What a distance of one pixel counts in these units.
    valid : ndarray of bool, ``(height, width)``, optional
        Pixels without data get no edge.

    Returns
    -------
    scipy sparse array, ``(pixels, pixels)``
        Normalized symmetrically, S.
    """
    height, width, _ = features.shape
    valid = np.ones((height, width), bool) if valid is None else valid
    index = np.flatnonzero(valid.ravel())
    if len(index) <= neighbors:
        raise TooFewPixels(
            f"label propagation wants more pixels with data than {neighbors}, got {len(index)}; "
            "train with --preset fast (in Python, preset='fast')"
        )
    flat = features.reshape(height * width, -1)[index]
    place = np.stack(np.unravel_index(index, (height, width)), axis=1)
    graph = _joined(flat, place, neighbors, nearness).tocoo()
    rows, columns = (index[end] for end in graph.coords)
    return _normalized(_CSR((graph.data, (rows, columns)), shape=(height * width,) * 2))


def node_graph(
    features: Array,
    places: Array,
    neighbors: int = 3,
    nearness: float = 0.02,
    sizes: Array | None = None,
) -> Graph:
    """Join each node to its nearest; as `pixel_graph`, for nodes anywhere in the scene.

    Parameters
    ----------
    features : ndarray, ``(nodes, k)``
    places : ndarray, ``(nodes, 2)``
        Row and column.
    neighbors, nearness
        See `pixel_graph`; a scene of very few nodes has fewer neighbors.
    sizes : ndarray, ``(nodes,)``, optional
        Pixels of each node, which count in the variance of the features.
    """
    neighbors = min(neighbors, len(features) - 1)
    return _normalized(_joined(features, places, neighbors, nearness, sizes))


def pixel_nodes(valid: Array) -> Array:
    """Return the nodes of a graph whose every pixel is its own, ``(height, width)``.

    Examples
    --------
    >>> pixel_nodes(np.array([[True, False], [True, True]]))
    array([[ 0, -1],
           [ 2,  3]], dtype=int32)
    """
    own = np.arange(valid.size, dtype=np.int32).reshape(valid.shape)
    return np.where(valid, own, np.int32(-1))


def _joined(
    features: Array, places: Array, neighbors: int, nearness: float, sizes: Array | None = None
) -> Graph:
    """Return the weights of the edges, ``(nodes, nodes)``, symmetric and without loops."""
    flat = features.astype(np.float64)
    mean = np.average(flat, axis=0, weights=sizes)
    deviation = np.sqrt(np.average(np.square(flat - mean), axis=0, weights=sizes).sum()) or 1.0
    points = np.concatenate([(flat - mean) / deviation, places * nearness], axis=1)
    length: Any
    other: Any
    length, other = cKDTree(points).query(points, neighbors + 1, workers=torch.get_num_threads())
    length, other = (found.reshape(len(points), -1) for found in (length, other))
    weight = np.exp(-np.square(length / np.maximum(length[:, -1:], 1e-12)))
    start = np.repeat(np.arange(len(points)), neighbors + 1)
    graph = _CSR((weight.ravel(), (start, other.ravel())), shape=(len(points),) * 2)
    graph.setdiag(0.0)  # a node is its own nearest
    graph.eliminate_zeros()
    return graph.maximum(graph.T)


def _normalized(graph: Graph) -> Graph:
    degree = np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    return _CSR(graph / degree[:, None] / degree[None, :], dtype=np.float32)


def propagate_labels(
    graph: Graph,
    seeds: Array,
    alpha: float = 0.99,
    steps: int = 100,
    check: Callable[[], None] = lambda: None,
) -> Array:
    """Propagate seeds ``(nodes, classes)``; return how much of each class reaches each node.

    Classes do not depend on each other: a few are propagated at a time, shared among threads.
    ``check`` is called before each step, and may raise to end the work.
    """
    with warnings.catch_warnings():  # torch calls its sparse matrices beta; tests hold them here
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(graph.indptr.astype(np.int64)),
            torch.from_numpy(graph.indices.astype(np.int64)),
            torch.from_numpy(graph.data),
            graph.shape,
            dtype=torch.float32,
        )

    def propagate(columns: Array) -> Array:
        start = torch.from_numpy(np.ascontiguousarray(seeds[:, columns], np.float32))
        mass = start.clone()
        for _ in range(steps):
            check()
            mass = torch.addmm(start, matrix, mass, beta=1 - alpha, alpha=alpha)
        return mass.numpy()

    classes = seeds.shape[1]
    groups = np.array_split(np.arange(classes), -(-classes // COLUMNS))
    return np.concatenate(run_tasks(propagate, groups), axis=1)


def propagate_labels_slow(
    graph: Graph, seeds: Array, alpha: float = 0.99, steps: int = 100
) -> Array:
    """As `propagate_labels`, with a dense matrix and one node at a time: the reference."""
    dense = graph.toarray().astype(np.float64)
    mass = seeds.astype(np.float64)
    for _ in range(steps):
        before = mass.copy()
        for node in range(len(dense)):
            mass[node] = alpha * (dense[node] @ before) + (1 - alpha) * seeds[node]
    return mass


def make_seeds(nodes: Array, targets: Array, count: int, n_classes: int) -> Array:
    """Return seeds ``(count, classes)``: each class shares one among its labels.

    Parameters
    ----------
    nodes : ndarray of int, ``(n,)``
        Of each label; those with -1 lie where there is no data and seed nothing.
    targets : ndarray of int, ``(n,)``
        Position of each label's class, from 0.
    count : int
        Nodes of the graph.
    n_classes : int

    Examples
    --------
    >>> make_seeds(np.array([0, 2, 2, -1]), np.array([1, 1, 0, 0]), 3, 2).tolist()
    [[0.0, 0.5], [0.0, 0.0], [0.5, 0.5]]
    """
    seeds = np.zeros((count, n_classes), np.float32)
    share = 1 / np.maximum(np.bincount(targets, minlength=n_classes), 1)
    kept = nodes >= 0
    np.add.at(seeds, (nodes[kept], targets[kept]), share[targets[kept]])
    return seeds


def mean_mass(mass: Array) -> float:
    """Return the mean over the nodes that labels reach, of ``(nodes, classes)``; 1 if none."""
    total = mass.sum(axis=1)
    return float(total.mean(where=total > 0)) if total.any() else 1.0


def log_shares(mass: Array, mean: float | Array = 1.0, smoothing: float = 0.0) -> Array:
    """Return the logarithm of each class's share, ``(nodes, classes)``; equal where none came.

    Parameters
    ----------
    mass : ndarray, ``(nodes, classes)``
        How much of each class has reached each node.
    mean : float or ndarray ``(nodes, 1)``
        What reaches a node on average.
    smoothing : float
        This share of ``mean`` is added to every node, from all classes alike: where hardly any
        label arrives, as in a field without labels, the shares stay even.

    Examples
    --------
    >>> often, hardly = np.exp(log_shares(np.array([[9.0, 1.0], [0.009, 0.001]]), 10.0, 0.03))
    >>> often.round(2).tolist(), hardly.round(2).tolist()
    ([0.89, 0.11], [0.51, 0.49])
    """
    classes = mass.shape[1]
    extra = np.asarray(smoothing * mean, mass.dtype)
    total = mass.sum(axis=1, keepdims=True) + extra
    even = np.full_like(mass, 1 / classes)
    shares = np.divide(mass + extra / classes, total, out=even, where=total > 0)
    return np.log(shares + np.asarray(FLOOR, mass.dtype))
