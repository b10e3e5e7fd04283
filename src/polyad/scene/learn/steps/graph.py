r"""Label propagation over a graph of the scene's pixels.

Each pixel is joined to the pixels nearest to it in value and in place. Labels propagate along the
edges, :math:`U \leftarrow \alpha S U + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}` (Zhou
et al. 2004): a pixel ends up with the class that most short paths lead to.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.spatial import cKDTree

from polyad.errors import InputError
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
        raise InputError(
            f"label propagation wants more pixels with data than {neighbors}, got {len(index)}; "
            "train with --preset fast (in Python, preset='fast')"
        )
    flat = features.reshape(height * width, -1)[index].astype(np.float64)
    deviation = np.sqrt(flat.var(axis=0).sum()) or 1.0
    place = np.stack(np.unravel_index(index, (height, width)), axis=1) * nearness
    points = np.concatenate([(flat - flat.mean(axis=0)) / deviation, place], axis=1)
    length: Any
    other: Any
    length, other = cKDTree(points).query(points, neighbors + 1, workers=torch.get_num_threads())
    weight = np.exp(-np.square(length / np.maximum(length[:, -1:], 1e-12)))
    start = np.repeat(index, neighbors + 1)
    graph = _CSR((weight.ravel(), (start, index[other.ravel()])), shape=(height * width,) * 2)
    graph.setdiag(0.0)  # a pixel is its own nearest
    graph.eliminate_zeros()
    graph = graph.maximum(graph.T)
    degree = np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    return _CSR(graph / degree[:, None] / degree[None, :], dtype=np.float32)


def propagate_labels(graph: Graph, seeds: Array, alpha: float = 0.99, steps: int = 100) -> Array:
    """Propagate seeds ``(pixels, classes)``; return how much of each class reaches each pixel.

    Classes do not depend on each other: a few are propagated at a time, shared among threads.
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
            mass = torch.addmm(start, matrix, mass, beta=1 - alpha, alpha=alpha)
        return mass.numpy()

    classes = seeds.shape[1]
    groups = np.array_split(np.arange(classes), -(-classes // COLUMNS))
    return np.concatenate(run_tasks(propagate, groups), axis=1)


def propagate_labels_slow(
    graph: Graph, seeds: Array, alpha: float = 0.99, steps: int = 100
) -> Array:
    """As `propagate_labels`, with a dense matrix and one pixel at a time: the reference."""
    dense = graph.toarray().astype(np.float64)
    mass = seeds.astype(np.float64)
    for _ in range(steps):
        before = mass.copy()
        for pixel in range(len(dense)):
            mass[pixel] = alpha * (dense[pixel] @ before) + (1 - alpha) * seeds[pixel]
    return mass


def make_seeds(pixels: Array, targets: Array, shape: tuple[int, int], n_classes: int) -> Array:
    """Return seeds ``(height * width, classes)``: each class shares one among its pixels.

    Parameters
    ----------
    pixels : ndarray of int, ``(n, 2)``
    targets : ndarray of int, ``(n,)``
        Position of each pixel's class, from 0.
    shape : tuple of int
    n_classes : int

    Examples
    --------
    >>> make_seeds(np.array([[0, 0], [0, 2]]), np.array([1, 1]), (1, 3), 2).tolist()
    [[0.0, 0.5], [0.0, 0.0], [0.0, 0.5]]
    """
    seeds = np.zeros((shape[0] * shape[1], n_classes), np.float32)
    share = 1 / np.maximum(np.bincount(targets, minlength=n_classes), 1)
    seeds[pixels[:, 0] * shape[1] + pixels[:, 1], targets] = share[targets]
    return seeds


def mean_mass(mass: Array) -> float:
    """Return the mean over the pixels that labels reach, of ``(pixels, classes)``; 1 if none."""
    total = mass.sum(axis=1)
    return float(total.mean(where=total > 0)) if total.any() else 1.0


def log_shares(mass: Array, mean: float | Array = 1.0, smoothing: float = 0.0) -> Array:
    """Return the logarithm of each class's share, ``(pixels, classes)``; equal where none came.

    Parameters
    ----------
    mass : ndarray, ``(pixels, classes)``
        How much of each class has reached each pixel.
    mean : float or ndarray ``(pixels, 1)``
        What reaches a pixel on average.
    smoothing : float
        This share of ``mean`` is added to every pixel, from all classes alike: where hardly any
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
