"""Scores of labels that were held out, with intervals over their groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from polyad.scene.learn.accuracy import (
    LEAST_GROUPS,
    MOST_CONFUSION,
    NOT_TESTED,
    ClassAccuracy,
    CrossValidation,
    HeldOutAccuracy,
    HeldOutLabels,
    Interval,
    as_interval,
)

Array = npt.NDArray[Any]
RESAMPLES = 1000
DRAWS = 2_000_000  # numbers drawn at a time


def cross_validation(
    tested: HeldOutLabels,
    names: Sequence[str],
    pixelwise: HeldOutLabels | None = None,
    *,
    method: str = "outer",
    random_state: int = 0,
) -> CrossValidation:
    """Return the accuracy of labels that were held out.

    Parameters
    ----------
    tested : HeldOutLabels
        By spatial folds.
    names : sequence of str
        Of the classes.
    pixelwise : HeldOutLabels, optional
        By folds dealt pixel by pixel.
    method : {"outer", "choice"}
    random_state : int, default=0
        Of the resamples.
    """
    spatial = None if tested.split else held_out_accuracy(tested, names, random_state)
    other = None if pixelwise is None else held_out_accuracy(pixelwise, names, random_state)
    places = class_groups(tested.targets, tested.group, len(names))
    needed = {
        name: LEAST_GROUPS - int(n)
        for name, n in zip(names, places, strict=True)
        if n < LEAST_GROUPS
    }
    return CrossValidation(method, spatial, other, needed)


def held_out_accuracy(
    tested: HeldOutLabels, names: Sequence[str], random_state: int = 0
) -> HeldOutAccuracy | None:
    """Return the scores of labels that were held out; None if none could be tested."""
    known = tested.predicted != NOT_TESTED
    if not known.any():
        return None
    y, predicted, count = tested.targets[known], tested.predicted[known], len(names)
    group = np.unique(tested.group[known], return_inverse=True)[1].reshape(-1)
    hits = np.bincount(y[y == predicted], minlength=count)
    rows, cols = np.bincount(y, minlength=count), np.bincount(predicted, minlength=count)
    overall, average, kappa, recall = (v[0] for v in _scores(hits[None], rows[None], cols[None]))
    intervals = _intervals(y, predicted, group, count, random_state)
    places = class_groups(tested.targets, tested.group, count)
    tested_in = class_groups(y, group, count)
    labels = np.bincount(tested.targets, minlength=count)
    groups = int(group.max()) + 1
    classes = tuple(
        ClassAccuracy(
            name,
            int(labels[k]),
            int(rows[k]),
            int(places[k]),
            _plain(recall[k]),
            as_interval(_widened(intervals[3 + k], tested_in[k]))
            if tested_in[k] >= LEAST_GROUPS
            else None,
            _plain(hits[k] / cols[k]) if cols[k] else None,
        )
        for k, name in enumerate(names)
    )
    pairs: list[Interval] = [
        as_interval(_widened(intervals[k], groups)) if groups >= LEAST_GROUPS else None
        for k in range(3)
    ]
    confusion = None
    if count <= MOST_CONFUSION:
        cells = np.bincount(y * count + predicted, minlength=count**2).reshape(count, count)
        confusion = tuple(map(tuple, cells.tolist()))
    made = (float(overall), pairs[0], float(average), pairs[1], _plain(kappa), pairs[2])
    return HeldOutAccuracy(
        tested.by, tested.side, tested.folds, groups, len(y), *made, classes, confusion
    )


def class_groups(targets: Array, group: Array, count: int) -> Array:
    """Return how many groups have labels of each class, ``(count,)``.

    Examples
    --------
    >>> class_groups(np.array([0, 0, 1]), np.array([0, 4, 4]), 3).tolist()
    [2, 1, 0]
    """
    pairs = np.unique(np.stack([targets, group], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=count)


def _intervals(y: Array, predicted: Array, group: Array, count: int, seed: int) -> Array:
    """Return 95 % intervals, ``(3 + C, 2)``: overall, average, kappa, recall of each class."""
    rng, groups = np.random.default_rng(seed), int(group.max()) + 1
    weight: Array = np.ones(len(y))
    times: Array = np.ones(groups)
    if groups == len(y):  # single labels: those of one true and one given class are alike
        cells, times = np.unique(y * count + predicted, return_counts=True)
        y, predicted, group = cells // count, cells % count, np.arange(len(cells))
        weight = np.ones(len(cells))
    shape, right = (len(times), count), y == predicted
    hits = csr_array((weight[right], (group[right], y[right])), shape)
    rows, cols = (csr_array((weight, (group, k)), shape) for k in (y, predicted))
    drawn = []
    step = max(DRAWS // max(len(times), count), 1)
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        draws = rng.multinomial(int(times.sum()), times / times.sum(), size)  # (size, groups)
        overall, average, kappa, recall = _scores(draws @ hits, draws @ rows, draws @ cols)
        drawn.append(np.column_stack([overall, average, kappa, recall]))
    scores = np.concatenate(drawn)
    bounds = np.full((scores.shape[1], 2), np.nan)
    known = np.isfinite(scores).any(axis=0)
    bounds[known] = np.nanquantile(scores[:, known], [0.025, 0.975], axis=0).T
    return bounds


def _widened(bounds: Array, groups: int) -> Array:
    """Return an interval that does not shrink to a point where all labels, or none, are right.

    No resample differs then. If a group is right with probability p, all of them are with p^groups:
    the interval ends where that is 2.5 % (Clopper and Pearson, with groups as trials).

    Examples
    --------
    >>> _widened(np.array([1.0, 1.0]), 10).round(2).tolist()
    [0.69, 1.0]
    """
    if bounds[0] == bounds[1] == 1:
        return np.array([0.025 ** (1 / groups), 1.0])
    if bounds[0] == bounds[1] == 0:
        return np.array([0.0, 1 - 0.025 ** (1 / groups)])
    return bounds


def _scores(hits: Array, rows: Array, cols: Array) -> tuple[Array, Array, Array, Array]:
    """Return overall, average, kappa and recalls of confusion matrices, by their ``(m, C)`` sums.

    ``hits`` is the diagonal, ``rows`` counts true and ``cols`` predicted classes.
    """
    n = rows.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        overall, recall = hits.sum(axis=1) / n, hits / rows
        chance = (rows * cols).sum(axis=1) / n.astype(float) ** 2
        kappa = np.where(chance < 1, (overall - chance) / (1 - chance), np.nan)
    there = rows > 0
    average = np.where(there, recall, 0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return overall, average, kappa, recall


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
