r"""Labels that spread over a graph of the scene's pixels.

Each pixel is linked to the pixels nearest to it in value and in place. Labels walk along the links,
:math:`U \leftarrow \alpha S U + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}` (Zhou et al.
2004): a pixel ends with the class from which most short walks come.
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
from polyad.threads import run_parts

Array = npt.NDArray[Any]
Links = Any  # a scipy sparse array; few versions of scipy agree on its type
_CSR: Any = sparse.csr_array
COLUMNS = 8  # classes that spread together; the same whatever the number of threads
FLOOR = 1e-3  # share of a class that no walk came from; its logarithm stays finite


def link_pixels(
    features: Array, neighbours: int = 10, nearness: float = 0.01, valid: Array | None = None
) -> Links:
    r"""Link each pixel to its nearest in features and coordinates. Needs the whole scene.

    The weight of a link of length d is :math:`\exp(-d^2 / d_k^2)`, where :math:`d_k` is the length
    of the pixel's longest link: dense and sparse regions are treated alike.

    Parameters
    ----------
    features : ndarray, ``(height, width, k)``
        Scaled here so that their variances add up to one.
    neighbours : int
    nearness : float
        What one pixel's distance counts in these units.
    valid : ndarray of bool, ``(height, width)``, optional
        Pixels without data get no link.

    Returns
    -------
    scipy sparse array, ``(pixels, pixels)``
        Normalised symmetrically, S.
    """
    height, width, _ = features.shape
    valid = np.ones((height, width), bool) if valid is None else valid
    index = np.flatnonzero(valid.ravel())
    if len(index) <= neighbours:
        raise InputError(
            f"label propagation wants more pixels with data than {neighbours}, got {len(index)}; "
            "train with --preset fast (in Python, preset='fast')"
        )
    flat = features.reshape(height * width, -1)[index].astype(np.float64)
    spread = np.sqrt(flat.var(axis=0).sum()) or 1.0
    place = np.stack(np.unravel_index(index, (height, width)), axis=1) * nearness
    points = np.concatenate([(flat - flat.mean(axis=0)) / spread, place], axis=1)
    length: Any
    other: Any
    length, other = cKDTree(points).query(points, neighbours + 1, workers=torch.get_num_threads())
    weight = np.exp(-np.square(length / np.maximum(length[:, -1:], 1e-12)))
    start = np.repeat(index, neighbours + 1)
    links = _CSR((weight.ravel(), (start, index[other.ravel()])), shape=(height * width,) * 2)
    links.setdiag(0.0)  # a pixel is its own nearest
    links.eliminate_zeros()
    links = links.maximum(links.T)
    degree = np.sqrt(np.maximum(links.sum(axis=1), 1e-12))
    return _CSR(links / degree[:, None] / degree[None, :], dtype=np.float32)


def spread_labels(links: Links, seeds: Array, alpha: float = 0.99, steps: int = 100) -> Array:
    """Let seeds ``(pixels, classes)`` spread; return what has come to each pixel.

    Classes spread independently of each other: a few at a time, shared out among threads.
    """
    with warnings.catch_warnings():  # torch calls its sparse matrices beta; tests hold them here
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(links.indptr.astype(np.int64)),
            torch.from_numpy(links.indices.astype(np.int64)),
            torch.from_numpy(links.data),
            links.shape,
            dtype=torch.float32,
        )

    def spread(columns: Array) -> Array:
        start = torch.from_numpy(np.ascontiguousarray(seeds[:, columns], np.float32))
        found = start.clone()
        for _ in range(steps):
            found = torch.addmm(start, matrix, found, beta=1 - alpha, alpha=alpha)
        return found.numpy()

    classes = seeds.shape[1]
    groups = np.array_split(np.arange(classes), -(-classes // COLUMNS))
    return np.concatenate(run_parts(spread, groups), axis=1)


def spread_labels_slow(links: Links, seeds: Array, alpha: float = 0.99, steps: int = 100) -> Array:
    """As `spread_labels`, with a dense matrix and one pixel at a time: the reference."""
    dense = links.toarray().astype(np.float64)
    found = seeds.astype(np.float64)
    for _ in range(steps):
        before = found.copy()
        for pixel in range(len(dense)):
            found[pixel] = alpha * (dense[pixel] @ before) + (1 - alpha) * seeds[pixel]
    return found


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


def mean_mass(found: Array) -> float:
    """Return how much comes to a pixel on average, of ``(pixels, classes)``; 1 if none does."""
    total = found.sum(axis=1)
    return float(total.mean(where=total > 0)) if total.any() else 1.0


def log_shares(found: Array, mass: float | Array = 1.0, doubt: float = 0.0) -> Array:
    """Return the logarithm of each class's share, ``(pixels, classes)``; equal where none came.

    Parameters
    ----------
    found : ndarray, ``(pixels, classes)``
        What has come to each pixel.
    mass : float or ndarray ``(pixels, 1)``
        What comes to a pixel on average.
    doubt : float
        This share of ``mass`` comes to every pixel from all classes alike: where hardly any walk
        comes, as in a field without labels, the shares stay even.

    Examples
    --------
    >>> often, hardly = np.exp(log_shares(np.array([[9.0, 1.0], [0.009, 0.001]]), 10.0, 0.03))
    >>> often.round(2).tolist(), hardly.round(2).tolist()
    ([0.89, 0.11], [0.51, 0.49])
    """
    classes = found.shape[1]
    extra = np.asarray(doubt * mass, found.dtype)
    total = found.sum(axis=1, keepdims=True) + extra
    even = np.full_like(found, 1 / classes)
    shares = np.divide(found + extra / classes, total, out=even, where=total > 0)
    return np.log(shares + np.asarray(FLOOR, found.dtype))
