"""Spatial folds: labels that lie together are held out together.

A label's neighbors show the same object in the same light, so folds dealt pixel by pixel promise
more than a map keeps. Labels are grouped by square blocks, and whole groups are held out.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from polyad.scene.raster.labels import LabelGroups

Array = npt.NDArray[Any]
SIDES = (64, 32, 16, 8, 4, 2, 1)  # of blocks, in pixels
TESTABLE = 0.9  # of the labels must be of a class that is left when they are held out
GROUPS_PER_FOLD = 4
FoldsBy = Literal["blocks", "polygons", "groups", "pixels"]


class SpatialFolds(NamedTuple):
    """Which labels are held out together.

    Attributes
    ----------
    fold, group : ndarray of int, ``(n,)``
        Of each label; the labels of a group have one fold.
    side : int
        Of a block, in pixels; 0 for groups of the user's.
    by : {"blocks", "polygons", "groups", "pixels"}
        What the groups are.
    split : bool
        Polygons or groups of the user's had to be split: hardly a class has two of them.
    """

    fold: Array
    group: Array
    side: int
    by: FoldsBy = "blocks"
    split: bool = False

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(np.unique(self.group))


def spatial_folds(
    pixels: Array,
    targets: Array,
    folds: int = 3,
    random_state: int = 0,
    distance: float | None = None,
    *,
    groups: LabelGroups | None = None,
) -> SpatialFolds:
    """Deal labels to folds by blocks, or by groups that are known.

    Blocks are never so large that many labels are of a class that no other fold has. Without
    ``distance`` they are as large as that allows, if every fold has a few. With it, they are such
    that a label that is held out lies about as far from the next one as the pixels of the map do
    (nearest neighbor distance matching, Mila et al. 2022).

    Parameters
    ----------
    pixels : ndarray of int, ``(n, 2)``
    targets : ndarray of int, ``(n,)``
        Position of each label's class, from 0.
    folds : int, default=3
    random_state : int, default=0
    distance : float, optional
        Mean distance of the map's pixels to the nearest label, see `mean_distance`.
    groups : LabelGroups, optional
        Those of the user's are dealt as they are; polygons stay whole within their blocks.

    Examples
    --------
    >>> pixels = np.array([[0, 0], [1, 1], [90, 90], [91, 91], [0, 90], [1, 91]])
    >>> fold = spatial_folds(pixels, np.array([0, 1, 0, 1, 0, 1])).fold
    >>> bool(fold[0] == fold[1] and fold[2] == fold[3] and fold[4] == fold[5])
    True
    """
    if groups is not None and groups.by == "groups":
        group = np.unique(groups.ids, return_inverse=True)[1].reshape(-1)
        return SpatialFolds(deal_groups(group, targets, folds), group, 0, "groups")
    rng = np.random.default_rng(random_state)
    by: FoldsBy = "blocks" if groups is None else "polygons"
    places = pixels if groups is None else centers(pixels, groups.ids)
    dealt = []
    for side in SIDES:
        group = block_groups(places, side, rng)
        dealt.append(SpatialFolds(deal_groups(group, targets, folds), group, side, by))
    fair = [s for s in dealt if testable(s.fold, targets).mean() >= TESTABLE] or dealt[-1:]
    if distance is not None:
        apart = [mean_distance(pixels, pixels, split.fold) for split in fair]
        return fair[int(np.argmin(np.abs(np.array(apart) - distance)))]
    for least in (GROUPS_PER_FOLD * folds, folds):
        for split in fair:  # the largest blocks first
            if split.groups >= least:
                return split
    return fair[-1]


def block_groups(pixels: Array, side: int, rng: np.random.Generator) -> Array:
    """Return the block of each pixel, ``(n,)``, on a grid of squares that begins anywhere."""
    blocks = (pixels + rng.integers(0, side, 2)) // side
    return np.unique(blocks, axis=0, return_inverse=True)[1].reshape(-1)


def centers(pixels: Array, ids: Array) -> Array:
    """Return for each pixel, ``(n, 2)``, the middle of all pixels of its group.

    Examples
    --------
    >>> centers(np.array([[0, 0], [0, 2], [9, 9]]), np.array([4, 4, 5])).tolist()
    [[0, 1], [0, 1], [9, 9]]
    """
    number = np.unique(ids, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(number)
    middle = [np.bincount(number, weights=pixels[:, k]) / sizes for k in (0, 1)]
    rounded: Array = np.rint(np.stack(middle, axis=1)).astype(np.intp)
    return rounded[number]


def pixel_folds(targets: Array, folds: int, random_state: int = 0) -> SpatialFolds:
    """Deal labels to folds one by one, each class evenly: what spatial folds are compared with.

    Examples
    --------
    >>> pixel_folds(np.array([0, 0, 1, 1]), 2).groups
    4
    """
    rng = np.random.default_rng(random_state)
    fold, first = np.zeros(len(targets), np.intp), 0
    for target in np.unique(targets):
        where = rng.permutation(np.flatnonzero(targets == target))
        fold[where] = (first + np.arange(len(where))) % folds
        first += len(where)  # the next class goes on where this one ended: folds of one size
    return SpatialFolds(fold, np.arange(len(targets)), 1, "pixels")


def deal_groups(group: Array, targets: Array, folds: int) -> Array:
    """Return the fold of each sample; every fold gets about the same share of each class.

    The largest groups are dealt first, each to the fold that has least of its classes.

    Examples
    --------
    >>> deal_groups(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    counts = np.zeros((int(group.max()) + 1, int(targets.max()) + 1))  # (groups, classes)
    np.add.at(counts, (group, targets), 1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    load, fold = np.zeros((folds, counts.shape[1])), np.zeros(len(counts), np.intp)
    for k in np.argsort(-shares.sum(axis=1), kind="stable"):
        # What the sum of squared loads would grow by; where it is the same, the emptier fold
        fold[k] = np.argmin(load @ shares[k] + 1e-3 * load.sum(axis=1))
        load[fold[k]] += shares[k]
    return fold[group]


def testable(fold: Array, targets: Array) -> Array:
    """Return which samples are of a class that another fold has as well, ``(n,)``."""
    counts = np.zeros((int(fold.max()) + 1, int(targets.max()) + 1))
    np.add.at(counts, (fold, targets), 1)
    return (counts.sum(axis=0) - counts[fold])[np.arange(len(targets)), targets] > 0


def mean_distance(points: Array, labels: Array, fold: Array | None = None) -> float:
    """Return how far points ``(m, 2)`` lie from the nearest label ``(n, 2)`` on average.

    With ``fold`` the points are the labels, and labels of the same fold do not count.

    Examples
    --------
    >>> mean_distance(np.array([[0, 3], [4, 0]]), np.array([[0, 0]]))
    3.5
    """
    if fold is None:
        return float(np.mean(cKDTree(labels).query(points)[0]))
    lengths = np.full(len(points), np.inf)
    for k in np.unique(fold):
        out = fold == k
        if not out.all():
            lengths[out] = cKDTree(labels[~out]).query(points[out])[0]
    return float(lengths.mean())


def agreement(pixels: Array, targets: Array, reach: float) -> tuple[float, int]:
    """Return the share of pairs of labels within ``reach`` pixels that agree, and how many pairs.

    Examples
    --------
    >>> agreement(np.array([[0, 0], [0, 1], [0, 9]]), np.array([0, 0, 1]), 2)
    (1.0, 1)
    """
    pairs = cKDTree(pixels).query_pairs(reach, output_type="ndarray")
    if not len(pairs):
        return 1.0, 0
    first, second = targets[pairs].T
    return float((first == second).mean()), len(pairs)
