"""`mode_importance`: which band, or which pixel of a window, a fitted model relies on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from polyad.errors import InputError
from polyad.estimators.parameters import Array, Samples, is_whole
from polyad.estimators.scaler import as_samples
from polyad.lazy import naming_extras


@dataclass(frozen=True)
class ModeImportance:
    """How much the score falls when one entry of a mode is shuffled among the samples.

    Attributes
    ----------
    mean, deviation : ndarray, ``(I_d,)`` or, of two modes, ``(I_d, I_e)``
        Over the repetitions.
    baseline : float
        The score with nothing shuffled.
    modes : tuple of int
    """

    mean: Array
    deviation: Array
    baseline: float
    modes: tuple[int, ...]

    def plot(self, ax: Any = None, at: Sequence[float] | None = None) -> Any:
        """Draw a line with its deviation, or of two modes a picture; return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
        at : sequence of float, optional
            Where the entries of the mode lie, such as wavelengths; their number by default.
        """
        if ax is None:
            with naming_extras("the plot of mode_importance"):
                from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        if self.mean.ndim == 2:
            picture = ax.imshow(self.mean, cmap="viridis")
            ax.figure.colorbar(picture, ax=ax, label="loss of score")
            ax.set(xlabel=f"mode {self.modes[1]}", ylabel=f"mode {self.modes[0]}")
            return ax
        where = np.arange(len(self.mean)) if at is None else np.asarray(at)
        ax.plot(where, self.mean)
        low, high = self.mean - self.deviation, self.mean + self.deviation
        ax.fill_between(where, low, high, alpha=0.3, linewidth=0)
        ax.axhline(0, color="gray", linewidth=0.8)
        ax.set(xlabel=f"mode {self.modes[0]}" if at is None else "", ylabel="loss of score")
        return ax


def mode_importance(
    model: Any,
    X: Samples,
    y: Any,
    mode: int | tuple[int, int] = -1,
    *,
    n_repeats: int = 5,
    scoring: str | Callable[[Any, Array, Any], float] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> ModeImportance:
    """Shuffle one entry of a mode at a time, and see how much worse the model gets.

    Whole slices are shuffled: for the bands of windows ``(5, 5, bands)``, entry b is band b of all
    25 pixels, which come from another sample together. Entries that tell the same, such as
    neighboring bands, share their importance: each alone may seem to matter little.

    Parameters
    ----------
    model : fitted estimator
    X : array or Tensor, ``(n, I_1, ..., I_D)``
        Best samples that the model was not fitted on.
    y : array
    mode : int or pair of int, default=-1
        ``-1`` asks for the bands of windows, ``(0, 1)`` for their pixels.
    n_repeats : int, default=5
    scoring : str or callable, optional
        scikit-learn's name of a scorer, such as ``"balanced_accuracy"``, or
        ``scoring(model, X, y)``; ``model.score`` by default.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ModeImportance

    Examples
    --------
    >>> from polyad import RankRClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3, 6))
    >>> model = RankRClassifier(hidden=10, random_state=0).fit(X, X[:, :, 4].sum(axis=1) > 0)
    >>> found = mode_importance(model, X, X[:, :, 4].sum(axis=1) > 0, mode=-1, random_state=0)
    >>> found.mean.shape, int(found.mean.argmax())
    ((6,), 4)
    """
    X = np.asarray(as_samples(X))
    order = X.ndim - 1
    modes = _modes(mode, order)
    if not is_whole(n_repeats) or n_repeats < 1:
        raise InputError(f"n_repeats must be a whole number of at least 1, got {n_repeats!r}")
    random = check_random_state(random_state)
    from sklearn.metrics import check_scoring  # only here, and slow to import

    score = check_scoring(model, scoring)
    baseline = float(score(model, X, y))
    sizes = tuple(X.shape[1 + d] for d in modes)
    fallen = np.empty((*sizes, n_repeats))
    shuffled = X.copy()
    for entry in np.ndindex(*sizes):
        where = dict(zip(modes, entry, strict=True))
        place = (slice(None), *(where.get(d, slice(None)) for d in range(order)))
        for repeat in range(n_repeats):
            shuffled[place] = X[place][random.permutation(len(X))]
            fallen[(*entry, repeat)] = baseline - float(score(model, shuffled, y))
        shuffled[place] = X[place]
    return ModeImportance(fallen.mean(axis=-1), fallen.std(axis=-1), baseline, modes)


def _modes(mode: object, order: int) -> tuple[int, ...]:
    """Return one or two different modes, counted from 0, or raise `InputError`."""
    given = tuple(mode) if isinstance(mode, tuple | list) else (mode,)
    modes = [int(d) % order for d in given if is_whole(d) and -order <= d < order]
    if len(modes) < len(given) or not 1 <= len(set(modes)) == len(modes) <= 2:
        raise InputError(
            f"mode must be one mode, or two different ones, of samples of order {order}, such as "
            f"-1 or (0, 1), got {mode!r}"
        )
    return tuple(modes)
